/* SPDX-License-Identifier: MIT */

/* hasp drill restore: tries a backup.
 *
 * The newest backup of a folder, or a named one, is restored into a temporary
 * directory; a node starts there as a cluster of one, serves, grants one lock
 * and is stopped; its directory is exported and compared with the backup. The
 * node listens on loopback ports that the kernel chooses, and is asked through
 * the admin socket in its directory. It is our child: if we are killed, the
 * kernel ends it. */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/dev.h"
#include "cmd/hasp/setup/program.h"
#include "cmd/hasp/tool.h"

#define FOLDER_DEFAULT "/var/lib/hasp/backup"
/* A node that loads a large state needs its time. */
#define DRILL_READY_MS (10 * 60 * 1000)
#define DRILL_STOP_MS 60000
#define DRILL_POLL_MS 50
#define GRANT_MS 5000
#define DRILL_PATH_SIZE (PATH_MAX - 64)

static const struct view_field drill_fields[] = {
    {"file", "FILE", FIELD_TEXT},
    {"index", "INDEX", FIELD_NUMBER},
    {"size", "BYTES", FIELD_NUMBER},
    {"checksum", "CHECKSUM", FIELD_TEXT},
    {"kept_digest", "DIGEST", FIELD_TEXT},
    {"sessions", "SESSIONS", FIELD_NUMBER},
    {"locks", "LOCKS", FIELD_NUMBER},
    {"holds", "HOLDS", FIELD_NUMBER},
    {"durable_sessions", "DURABLE SESSIONS", FIELD_NUMBER},
    {"durable_holds", "DURABLE HOLDS", FIELD_NUMBER},
    {"fences", "FENCES", FIELD_NUMBER},
    {"users", "USERS", FIELD_NUMBER},
    {"newest_token", "NEWEST TOKEN", FIELD_NUMBER},
    {"new_token_base", "NEW TOKENS ABOVE", FIELD_NUMBER},
    {"grant", "GRANT", FIELD_TEXT},
    {"check_ms", "CHECKED IN", FIELD_DURATION},
    {"restore_ms", "RESTORED IN", FIELD_DURATION},
    {"start_ms", "SERVED AFTER", FIELD_DURATION},
    {"total_ms", "TOTAL", FIELD_DURATION},
    {0},
};

struct drill {
    struct tool *tool;
    char file[PATH_MAX];
    char haspd[PATH_MAX];
    char folder[DRILL_PATH_SIZE]; /* Temporary; "": not made yet. */
    char data[PATH_MAX];
    char log[PATH_MAX];
    char copy[PATH_MAX]; /* The backup of the restored directory. */
    sigset_t signals;    /* Those that end a drill; blocked. */
    sigset_t mask;       /* The mask before. */
    pid_t pid;           /* Of the node; 0: it does not run. */
    int status;          /* How it ended. */
    json_t *report;      /* What the backup contains, then also the results. */
};

/* --- The file ------------------------------------------------------------- */

/* True for the names that packaging/backup.sh gives, which sort by time. */
static bool is_backup_name(const char *name)
{
    size_t size = strlen(name);
    return strncmp(name, "hasp-", 5) == 0 && size > 10 &&
           strcmp(name + size - 5, ".snap") == 0;
}

static int find_newest(struct drill *drill, const char *folder)
{
    char newest[NAME_MAX + 1] = "";
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return tool_fail(EX_NOINPUT,
                         "cannot read '%s': %s; name a backup: hasp drill "
                         "restore FILE",
                         folder, strerror(errno));
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (is_backup_name(entry->d_name) &&
            strcmp(entry->d_name, newest) > 0) {
            snprintf(newest, sizeof newest, "%s", entry->d_name);
        }
    }
    closedir(dir);
    if (newest[0] == '\0') {
        return tool_fail(EX_NOINPUT,
                         "'%s' has no backup (hasp-*.snap): enable "
                         "haspd-backup.timer, or name a file",
                         folder);
    }
    snprintf(drill->file, sizeof drill->file, "%.3800s/%s", folder, newest);
    return 0;
}

static int find_file(struct drill *drill, const char *named)
{
    struct stat status;
    const char *path = named == NULL ? FOLDER_DEFAULT : named;
    if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
        snprintf(drill->file, sizeof drill->file, "%.4000s", path);
        return 0;
    }
    return find_newest(drill, path);
}

/* --- Programs ------------------------------------------------------------- */

/* Runs haspd to its end; explains a failure. */
static int drill_haspd(struct drill *drill, const char *const *words,
                       const char *what, struct buffer *said)
{
    int status = program_run(words, 0, 0, said);
    if (status != 0) {
        return tool_fail(status, "%s: %s: %.*s", drill->file, what,
                         (int)said->size, (const char *)said->data);
    }
    return 0;
}

static int drill_inspect(struct drill *drill, const char *path,
                         json_t **ret_record)
{
    AUTO(buffer_done) struct buffer said = {0};
    int exit_code = drill_haspd(drill, WORDS(drill->haspd, "--inspect", path),
                                "the backup is damaged", &said);
    json_t *record = exit_code == 0 ? json_loadb((const char *)said.data,
                                                 said.size, 0, NULL)
                                    : NULL;
    if (exit_code == 0 && record == NULL) {
        return tool_fail(EX_SOFTWARE, "'%s --inspect' printed no JSON",
                         drill->haspd);
    }
    *ret_record = record;
    return exit_code;
}

static void drill_set(struct drill *drill, const char *key, uint64_t number)
{
    json_object_set_new(drill->report, key, json_integer((json_int_t)number));
}

static uint64_t ms_since(uint64_t start_ns)
{
    return (client_now_ns() - start_ns) / NS_PER_MS;
}

/* --- The node ------------------------------------------------------------- */

/* The settings of another node must not reach this one (HASP_LISTEN_CLIENT
 * ...). */
static int clear_environment(void)
{
    extern char **environ;
    for (size_t i = 0; environ[i] != NULL;) {
        char name[256];
        size_t size = strcspn(environ[i], "=");
        if (strncmp(environ[i], "HASP_", 5) != 0) {
            i++;
        } else if (size >= sizeof name) {
            return tool_fail(EX_USAGE,
                             "an environment variable HASP_... has a name of "
                             "%zu bytes: unset it",
                             size);
        } else {
            memcpy(name, environ[i], size);
            name[size] = '\0';
            unsetenv(name);
        }
    }
    return 0;
}

static int drill_make_folder(struct drill *drill, const char *parent)
{
    const char *base = parent != NULL ? parent : getenv("TMPDIR");
    snprintf(drill->folder, sizeof drill->folder, "%.3900s/hasp-drill-XXXXXX",
             base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(drill->folder) == NULL) {
        int exit_code = tool_fail(EX_CANTCREAT,
                                  "cannot create the folder '%s': %s; choose "
                                  "another place with --tmp DIR",
                                  drill->folder, strerror(errno));
        drill->folder[0] = '\0';
        return exit_code;
    }
    snprintf(drill->data, sizeof drill->data, "%s/data", drill->folder);
    snprintf(drill->log, sizeof drill->log, "%s/haspd.log", drill->folder);
    snprintf(drill->copy, sizeof drill->copy, "%s/copy.snap", drill->folder);
    return 0;
}

static int drill_restore(struct drill *drill)
{
    AUTO(buffer_done) struct buffer said = {0};
    uint64_t start_ns = client_now_ns();
    /* Nobody connects to these addresses, and no client of the real cluster
     * can reach this node: it may grant at once. */
    int exit_code = drill_haspd(drill,
                                WORDS(drill->haspd, "--restore", drill->file,
                                      "--id", "1", "--dir", drill->data,
                                      "--member", "1 127.0.0.1:1 127.0.0.1:2",
                                      "--quarantine=0ms", "--users=keep"),
                                "cannot restore it", &said);
    drill_set(drill, "restore_ms", ms_since(start_ns));
    return exit_code;
}

/* Waits for a signal that ends the drill, or 'ms'; true if there was one. */
static bool drill_pause(const struct drill *drill, uint64_t ms)
{
    struct timespec time = {.tv_nsec = (long)(ms * NS_PER_MS)};
    return sigtimedwait(&drill->signals, NULL, &time) > 0;
}

static bool drill_node_runs(struct drill *drill)
{
    if (drill->pid != 0 &&
        waitpid(drill->pid, &drill->status, WNOHANG) == drill->pid) {
        drill->pid = 0;
    }
    return drill->pid != 0;
}

static int drill_start(struct drill *drill)
{
    uint64_t start_ns = client_now_ns();
    uint64_t end_ns = start_ns + DRILL_READY_MS * NS_PER_MS;
    fflush(stdout);
    drill->pid = fork();
    if (drill->pid == 0) {
        dev_become(WORDS(drill->haspd, "--id", "1", "--dir", drill->data,
                         "--listen-client", "127.0.0.1:0", "--listen-peer",
                         "127.0.0.1:0", "--listen-http", "off"),
                   drill->log, &drill->mask, SIGKILL);
    }
    if (drill->pid < 0) {
        drill->pid = 0;
        return tool_fail(EX_OSERR, "cannot start a process: %s",
                         strerror(errno));
    }
    while (!dev_is_ready(drill->data)) {
        bool runs = drill_node_runs(drill);
        if (!runs || client_now_ns() >= end_ns) {
            dev_print_log_tail(drill->log);
            return tool_fail(EX_UNAVAILABLE,
                             "%s: the node that was restored from it %s",
                             drill->file,
                             runs ? "does not serve after 10 minutes"
                                  : "has exited; the end of its log is above");
        }
        if (drill_pause(drill, DRILL_POLL_MS)) {
            return tool_fail(EX_UNAVAILABLE, "the drill was interrupted");
        }
    }
    drill_set(drill, "start_ms", ms_since(start_ns));
    return 0;
}

/* Has the node grant a lock. A cell that was restored refuses all names until
 * an operator vouches for its map, which is not for a drill to do. */
static int drill_grant(struct drill *drill)
{
    struct endpoint endpoint;
    struct endpoints one = {.endpoint = &endpoint, .count = 1};
    struct client_options options = {
        .deadline_ns = client_now_ns() + GRANT_MS * NS_PER_MS, .is_once = true};
    char why[HASP_WHY_SIZE];
    json_auto_t *answer = NULL;
    const char *result = "ok";
    int exit_code = 0;
    if (endpoint_parse(drill->data, strlen(drill->data), &endpoint, why) != 0) {
        return tool_fail(EX_SOFTWARE, "%s", why);
    }
    struct client *client = client_new(&one, NULL);
    int error = tool_send(
        client, WORDS("SET", "hasp-drill", "drill", "NX", "PX", "10000"),
        &options, &answer);
    if (error == HASP_EREPLY && strcmp(client_code(client), "FOREIGN") == 0) {
        result = "refused until hasp cells vouch";
    } else if (error != 0) {
        exit_code = tool_client_error(client, error,
                                      "the restored node grants no lock");
    }
    json_object_set_new(drill->report, "grant", json_string(result));
    client_free(client);
    return exit_code;
}

static void drill_stop(struct drill *drill)
{
    uint64_t end_ns = client_now_ns() + DRILL_STOP_MS * NS_PER_MS;
    if (drill->pid == 0) {
        return;
    }
    kill(drill->pid, SIGTERM);
    while (drill_node_runs(drill) && client_now_ns() < end_ns) {
        drill_pause(drill, DRILL_POLL_MS);
    }
    if (drill->pid != 0) {
        kill(drill->pid, SIGKILL);
        waitpid(drill->pid, &drill->status, 0);
        drill->pid = 0;
    }
}

/* --- The comparison ------------------------------------------------------- */

static int drill_differs(const struct drill *drill, const char *what,
                         const char *before, const char *after)
{
    return tool_fail(EX_DATAERR,
                     "%s: the restored node has other %s: %s, and the backup "
                     "%s; report this with the file",
                     drill->file, what, after, before);
}

static int drill_compare(struct drill *drill, json_t *after)
{
    static const char *const kept[] = {"fences", "users", "secrets",
                                       "durable_sessions", "durable_holds"};
    const char *digest = value_text(drill->report, "kept_digest");
    uint64_t newest = value_number(drill->report, "newest_token");
    uint64_t base = value_number(after, "token_base");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        uint64_t old = value_number(drill->report, kept[i]);
        uint64_t now = value_number(after, kept[i]);
        if (old != now) {
            return drill_differs(drill, kept[i], NUMBER(old), NUMBER(now));
        }
    }
    if (strcmp(digest, value_text(after, "kept_digest")) != 0) {
        return drill_differs(drill, "digest", digest,
                             value_text(after, "kept_digest"));
    }
    if (base <= newest) {
        return drill_differs(drill, "tokens, which must be larger than before",
                             NUMBER(newest), NUMBER(base));
    }
    drill_set(drill, "new_token_base", base);
    return 0;
}

/* Exports the directory of the stopped node, and compares. */
static int drill_check(struct drill *drill)
{
    AUTO(buffer_done) struct buffer said = {0};
    json_auto_t *after = NULL;
    if (!WIFEXITED(drill->status) || WEXITSTATUS(drill->status) != 0) {
        dev_print_log_tail(drill->log);
        return tool_fail(EX_SOFTWARE, "%s: the restored node did not stop",
                         drill->file);
    }
    int exit_code = drill_haspd(
        drill,
        WORDS(drill->haspd, "--dir", drill->data, "--export", drill->copy),
        "cannot save the restored node", &said);
    exit_code = exit_code ?: drill_inspect(drill, drill->copy, &after);
    return exit_code ?: drill_compare(drill, after);
}

static int drill_run(struct drill *drill, const char *parent)
{
    uint64_t start_ns = client_now_ns();
    int exit_code = drill_inspect(drill, drill->file, &drill->report);
    if (exit_code != 0) {
        return exit_code;
    }
    json_object_set_new(drill->report, "file",
                        value_of_bytes(bytes_of_text(drill->file)));
    drill_set(drill, "check_ms", ms_since(start_ns));
    exit_code = drill_make_folder(drill, parent);
    exit_code = exit_code ?: drill_restore(drill);
    exit_code = exit_code ?: drill_start(drill);
    exit_code = exit_code ?: drill_grant(drill);
    drill_stop(drill);
    exit_code = exit_code ?: drill_check(drill);
    drill_set(drill, "total_ms", ms_since(start_ns));
    return exit_code;
}

int run_drill_restore(struct tool *tool, char **argv)
{
    char *parent = NULL;
    const struct option_row rows[] = {
        {"tmp", OPTION_TEXT, .value = &parent},
        {0},
    };
    struct drill *drill = memory_new(sizeof *drill);
    *drill = (struct drill){.tool = tool};
    int exit_code = options_read(tool, argv, rows, 0, 1);
    exit_code = exit_code ?: tool_find_haspd(drill->haspd);
    exit_code = exit_code ?: find_file(drill, argv[1]);
    exit_code = exit_code ?: clear_environment();
    if (exit_code == 0) {
        sigemptyset(&drill->signals);
        sigaddset(&drill->signals, SIGINT);
        sigaddset(&drill->signals, SIGTERM);
        sigaddset(&drill->signals, SIGHUP);
        sigprocmask(SIG_BLOCK, &drill->signals, &drill->mask);
        exit_code = drill_run(drill, parent);
    }
    if (exit_code == 0) {
        output_record(tool->format, drill_fields, drill->report);
    }
    if (drill->folder[0] != '\0') {
        dev_remove_folder(drill->folder);
    }
    json_decref(drill->report);
    free(drill);
    return exit_code;
}
