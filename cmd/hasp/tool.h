/* SPDX-License-Identifier: MIT */

/* What the subcommands of hasp share: global options, the connection, errors,
 * exit codes.
 *
 * Data goes to stdout, messages to stderr. Exit codes are those of sysexits.h
 * where one fits; what they mean to a user of hasp:
 *
 *     0   done, or yes             65  no such name, or it does not fit
 *     1   no ('hasp check')        69  no leader, node or answer
 *     64  usage                    70  storage error ('hasp snapshot')
 *     73  exists already           75  not acquired in time
 *     76  not a hasp node          77  denied
 *     78  configuration            79  the lock was lost
 *     80  the seal failed ('hasp run') */

#ifndef HASP_CMD_HASP_TOOL_H
#define HASP_CMD_HASP_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sysexits.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/endpoints.h"
#include "client/query.h"
#include "client/shown.h"
#include "cmd/hasp/format.h"
#include "cmd/hasp/options.h"
#include "cmd/hasp/view/output.h"

#define EXIT_NO 1
#define EXIT_LOCK_LOST 79
#define EXIT_NOT_SEALED 80

#define TIMEOUT_DEFAULT_MS 5000

struct subcommand;
struct hasp_options;

struct tool {
    const char *endpoints_text;
    struct endpoints endpoints;
    const char *socket_text; /* Data directory of the node whose admin socket is
                                used. */
    const char *secret_text; /* The file with the user's secret; or NULL. */
    const char *tls_text;    /* A folder; NULL: plain. */
    struct shown *shown;     /* The configuration of 'tls'. */
    enum format format;
    uint64_t timeout_ms; /* Time limit for an answer. */
    bool is_quiet;       /* Print errors only. */
    struct client *client;
    const struct subcommand *subcommands; /* Ends with a name of NULL. */
    const struct subcommand *subcommand;
};

/* argv[0] is the subcommand's last word, and a NULL follows the last argument.
 * Returns the exit code, or -1 for a success that prints nothing more. If the
 * row has no options, the operands have been counted. */
typedef int subcommand_fn(struct tool *tool, char **argv);

struct subcommand {
    const char *topic; /* Heading in the help. */
    const char *name;  /* "session list" if it belongs to a group. */
    const char *arguments;
    const char *summary;
    const char *details; /* Options, one per line, or NULL. */
    subcommand_fn *run;
    /* For a subcommand that is one request (asking.c): */
    const char *command; /* "LOCK.LIST" */
    const struct view_field *fields;
    const char *what; /* Begins the error text. */
    const char *yes;  /* run_judge(): the meaning of "1". */
    bool is_offline;  /* It asks no cluster, so endpoints are not read. */
};

/* The options before the subcommand, as in 'details'. */
extern const char tool_options_text[];
/* The table, which main() gives to the tool: what a subcommand needs of it is
 * in 'tool', so that no subcommand depends on the others. */
extern const struct subcommand subcommands[];
/* Finds "first second", or "first"; or NULL. */
const struct subcommand *tool_find(const struct tool *tool, const char *first,
                                   const char *second);

subcommand_fn run_access, run_can, run_role_remove, run_role_set, run_role_show,
    run_secret_add, run_secret_remove, run_user_add, run_user_disable,
    run_user_enable, run_user_grant, run_user_set, run_audit, run_user_remove,
    run_user_revoke, run_user_show, run_whoami;
subcommand_fn run_acquire, run_agent, run_agent_metrics, run_agent_status,
    run_died, run_bench, run_blacklist_add, run_blacklist_remove, run_cert_ca,
    run_cert_check, run_cert_node, run_cert_renew, run_cert_show,
    run_cert_revoke, run_cert_user, run_cluster_finalize, run_completion,
    run_convert, run_dev, run_doctor, run_debug, run_fence_remove,
    run_fence_show, run_health, run_history, run_limits_set, run_member_add,
    run_member_change, run_member_list, run_member_transfer, run_note,
    run_object, run_break, run_please, run_quarantine_end, run_release, run_run,
    run_session_close, run_session_keep, run_session_show, run_setup, run_show,
    run_snapshot_inspect, run_snapshot_restore, run_snapshot_save, run_status,
    run_top, run_version, run_watch, run_why;
subcommand_fn run_member_drain;
subcommand_fn run_member_update, run_member_replace;
subcommand_fn run_log_level, run_log_format, run_log_slow, run_config_show;
subcommand_fn run_config_diff, run_slow;
subcommand_fn run_cells, run_cells_change, run_cells_give;

/* Subcommands that are one request: a paged list whose operand is an optional
 * prefix; a record or several; a name and a token, for which the answer 1
 * means yes. */
subcommand_fn run_list, run_rows, run_judge;

/* hasp snapshot verify */
subcommand_fn run_snapshot_verify;
subcommand_fn run_drill_restore;

/* --- The manual ----------------------------------------------------------- */

/* hasp(1) for man(1), made from the table. */
void manual_print(const struct subcommand *table);
/* hasp-run(1) for "run", hasp-exit-codes(7) for "exit-codes"; 0 or an exit
 * code. */
int manual_print_page(const struct tool *tool, const char *name);
/* Paragraphs of notes.txt on a subcommand or a group, in lines; empty if there
 * are none. */
struct bytes manual_notes(const char *name);

/* --- Errors --------------------------------------------------------------- */

/* Prints "hasp: ..." to stderr and returns 'exit_code'. */
int tool_fail(int exit_code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints it unless --quiet is given. */
void tool_say(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints what is wrong, and then the usage of the subcommand. */
int tool_usage(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int tool_bad_token(const struct tool *tool, const char *text);
/* Explains an error of 'client': what failed, why, what to do. */
int tool_client_error(const struct client *client, int error, const char *what);
/* Explains an error of the library (hasp_why()). */
int tool_hasp_error(const struct tool *tool, int error, const char *what);

/* --- Options (options.h) -------------------------------------------------- */

/* Prints the help of the subcommand, or of hasp, or the version; the result
 * ends the tool with success. */
int tool_help(const struct tool *tool, bool is_version);
/* Reads the endpoints from -e or the environment, and the certificates from
 * --tls or the environment; 0 or an exit code. */
int tool_read_endpoints(struct tool *tool);

bool parse_number(const char *text, uint64_t *ret_number);

/* --- Certificates (cert/) ------------------------------------------------- */

/* Creates the CA of the cluster in a folder, or checks that an existing one is
 * for that cluster. Returns 0 or the exit code, as the following two do. */
int tool_make_ca(const struct tool *tool, const char *folder,
                 const char *cluster);
/* Creates what 'hasp cert WHAT WORD' creates, "node" or "user", unless it
 * exists. */
int tool_make_certificate(const struct tool *tool, const char *what,
                          const char *folder, const char *word);

/* Has the cluster refuse a certificate from now on: 'text' is its fingerprint,
 * a file, or the folder of a node or a user. 0 or the exit code. */
int tool_revoke(struct tool *tool, const char *text);

/* --- The daemon ----------------------------------------------------------- */

/* Finds haspd beside this program, or in the folder 'sbin' beside its own, as
 * it is installed; 0 or an exit code, explained. */
int tool_find_haspd(char ret_path[PATH_MAX]);

/* --- Asking --------------------------------------------------------------- */

/* The client for all endpoints, made when first needed. */
struct client *tool_client(struct tool *tool);
/* True if --socket is given: all requests go to one node's admin socket, since
 * at another node the user would be different. */
bool tool_is_by_door(const struct tool *tool);
/* Uses only this node, "host:port", from now on; 0 or the exit code,
 * explained. */
int tool_use(struct tool *tool, const char *address);
uint64_t tool_deadline_ns(const struct tool *tool);
/* Options with which a session of the library reaches the same cluster as the
 * same user. */
void tool_session_options(const struct tool *tool,
                          struct hasp_options *ret_options);

/* A request is a command and its arguments, up to a NULL. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Sends a request with 'client'; returns the error of client_ask(), and the
 * answer as a value if 'ret_answer' is not NULL. */
int tool_send(struct client *client, const char *const *words,
              const struct client_options *options, json_t **ret_answer);
/* Sends a request and explains an error: 0 or the exit code. 'what' begins the
 * text, such as "cannot show 'x'"; NULL: print nothing. */
int tool_ask(struct tool *tool, const char *const *words, const char *what,
             json_t **ret_answer);
/* The same for a change, which may be sent twice. */
int tool_change(struct tool *tool, const char *const *words, const char *what,
                json_t **ret_answer);
/* The same; prints 'if_none' if there was nothing to change (NULL: that is
 * fine). */
int tool_change_one(struct tool *tool, const char *const *words,
                    const char *what, const char *if_none);

/* All records of a paged list, as an array of maps. 'prefix' may be NULL. */
int tool_list(struct tool *tool, const char *command, const char *prefix,
              json_t **ret_rows);

/* Prints a result of one record, one field, or yes or no: 'text' is for people
 * and scripts, 'record', which is taken, for JSON. */
void tool_print(const struct tool *tool, json_t *record, const char *text);
void tool_print_number(const struct tool *tool, const char *key,
                       uint64_t number);

/* Prints the answer of a command on a lock. 'verb' is for the error text:
 * "show". */
int tool_show_lock(struct tool *tool, const char *name, const char *verb,
                   json_t **ret_lock);

#endif /* HASP_CMD_HASP_TOOL_H */
