/* SPDX-License-Identifier: MIT */

/* hasp run: a command under a lock. hasp acquire: a lock for a script. hasp
 * release: the end of that. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/acquire.h"
#include "cmd/hasp/credentials.h"
#include "cmd/hasp/run/child.h"
#include "cmd/hasp/run/nest.h"
#include "cmd/hasp/tool.h"
#include "lease/rules.h"

/* Of the time for which an answered heartbeat is trusted: the default of
 * --grace, and the time that a signal may take. */
#define GRACE_PART 4
#define MARGIN_PART 80
#define MARGIN_MIN_MS 10

static const struct field acquired_fields[] = {
    {"token", "TOKEN", FIELD_NUMBER},
    {"session", "SESSION", FIELD_NUMBER},
    {"secret", "SECRET", FIELD_TEXT},
    {0},
};

static const struct field filed_fields[] = {
    {"token", "TOKEN", FIELD_NUMBER},
    {"session", "SESSION", FIELD_NUMBER},
    {0},
};

struct run {
    struct tool *tool;
    struct acquire_options acquire;
    enum on_lost on_lost;
    uint64_t grace_ms;
    bool has_grace;
    char id[NEST_ID_SIZE];
    bool has_survivors;
    atomic_bool hold_has_ended;
    _Atomic uint64_t token;
};

static bool parse_on_lost(const char *text, enum on_lost *ret_on_lost)
{
    static const char *const names[] = {[ON_LOST_TERM] = "term",
                                        [ON_LOST_KILL] = "kill",
                                        [ON_LOST_FREEZE] = "freeze",
                                        [ON_LOST_IGNORE] = "ignore"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_on_lost = (enum on_lost)i;
            return true;
        }
    }
    return false;
}

static int read_run(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        ACQUIRE_LONG_OPTIONS,
        {"on-lost", required_argument, NULL, 'l'},
        {"grace", required_argument, NULL, 'g'},
        {0},
    };
    const struct tool *tool = run->tool;
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "+" ACQUIRE_SHORT_OPTIONS,
                                 options)) != -1) {
        if (option == 'l') {
            if (!parse_on_lost(optarg, &run->on_lost)) {
                return tool_usage(tool, "--on-lost is term, kill, freeze or "
                                        "ignore");
            }
        } else if (option == 'g') {
            run->has_grace = true;
            if (!duration_parse(optarg, &run->grace_ms)) {
                return tool_usage(tool, "'%s' is no time; write 2s", optarg);
            }
        } else {
            int exit_code = acquire_option(tool, option, optarg, &run->acquire);
            if (exit_code != 0) {
                return EX_USAGE;
            }
        }
    }
    if (optind >= argc) {
        return tool_usage(tool, "the name of a lock is needed");
    }
    run->acquire.name = argv[optind++];
    if (optind < argc && strcmp(argv[optind], "--") == 0) {
        optind++;
    }
    if (optind >= argc) {
        return tool_usage(tool, "a command to run is needed");
    }
    return acquire_options_check(tool, &run->acquire);
}

/* On the keeper's thread: one of our holds ended without being given back. */
static void hold_ended(void *data, struct bytes lock, struct bytes owner,
                       struct bytes reason, uint64_t token)
{
    struct run *run = data;
    (void)lock;
    (void)owner;
    if (token == atomic_load(&run->token) &&
        !atomic_exchange(&run->hold_has_ended, true)) {
        tool_fail(0, "the hold of '%s' has ended: %.*s", run->acquire.name,
                  (int)reason.size, (const char *)reason.data);
    }
}

/* On the keeper's thread: somebody asks us to give the lock back. */
static void tell_push(void *data, const struct resp_reply *reply)
{
    struct run *run = data;
    json_t *push = value_of_reply(reply, 0);
    value_make_printable(push);
    if (strcmp(value_text(push, "1"), "please") == 0 && !run->tool->is_quiet) {
        const char *message = value_text(push, "2.message");
        tool_fail(0, "somebody asks for '%s' to be given back%s%s",
                  run->acquire.name, message[0] != '\0' ? ": " : "", message);
    }
    json_decref(push);
}

/* What this run sets for its command, in place of what an outer one may have
 * set. */
static bool is_set_by_run(const char *variable)
{
    static const char *const names[] = {
        "HASP_LOCK=", "HASP_TOKEN=", "HASP_SESSION=", "HASP_ENDPOINTS=",
        "HASP_RUNS="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static char *take_text(struct buffer *text)
{
    buffer_put_u8(text, '\0');
    char *copy = memory_text((const char *)text->data);
    buffer_clear(text);
    return copy;
}

/* The environment of the command: ours, and what this run sets. */
static char **make_environment(const struct run *run,
                               const struct acquired *acquired)
{
    extern char **environ;
    enum { SET_COUNT = 5, END_COUNT = 1 };
    struct buffer text = {0};
    size_t count = 0, made = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **environment = memory_new((count + SET_COUNT + END_COUNT) *
                                    sizeof *environment);
    for (size_t i = 0; i < count; i++) {
        if (!is_set_by_run(environ[i])) {
            environment[made++] = memory_text(environ[i]);
        }
    }
    buffer_printf(&text, "HASP_LOCK=%s", run->acquire.name);
    environment[made++] = take_text(&text);
    buffer_printf(&text, "HASP_TOKEN=%" PRIu64, acquired->token);
    environment[made++] = take_text(&text);
    buffer_printf(&text, "HASP_SESSION=%" PRIu64,
                  acquired->session.credentials.session);
    environment[made++] = take_text(&text);
    buffer_printf(&text, "HASP_ENDPOINTS=%s", run->tool->endpoints_text);
    environment[made++] = take_text(&text);
    buffer_put_text(&text, "HASP_RUNS=");
    nest_put(&text, run->id, &run->acquire, acquired);
    environment[made++] = take_text(&text);
    buffer_done(&text);
    return environment;
}

static void free_environment(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++) {
        free(environment[i]);
    }
    free(environment);
}

/* Runs the command under the lock, which was acquired. */
static int run_command(struct run *run, struct acquired *acquired, char **argv,
                       int signal_fd, const sigset_t *mask)
{
    const struct lease *lease = &acquired->session.lease;
    uint64_t trust_ms = rules_trusted(lease_promised_ns(lease)) / NS_PER_MS;
    uint64_t grace_ms = run->has_grace ? run->grace_ms : trust_ms / GRACE_PART;
    uint64_t margin_ms = trust_ms / MARGIN_PART > MARGIN_MIN_MS
                             ? trust_ms / MARGIN_PART
                             : MARGIN_MIN_MS;
    if (grace_ms > trust_ms / 2) {
        grace_ms = trust_ms / 2;
        if (run->has_grace) {
            tool_say(run->tool,
                     "--grace is cut to %" PRIu64 "ms, half of what the lease "
                     "can be trusted; a longer --ttl allows more",
                     grace_ms);
        }
    }
    struct child child = {.argv = argv,
                          .environment = make_environment(run, acquired),
                          .on_lost = run->on_lost,
                          .grace_ns = grace_ms * NS_PER_MS,
                          .margin_ns = margin_ms * NS_PER_MS,
                          .signal_fd = signal_fd,
                          .keeper = acquired->keeper,
                          .hold_has_ended = &run->hold_has_ended,
                          .hold_left_ms = acquired->hold_left_ms,
                          .hold_sent = acquired->hold_sent,
                          .run_id = run->id,
                          .name = run->acquire.name,
                          .is_quiet = run->tool->is_quiet,
                          .mask = *mask};
    int exit_code = child_start(&child);
    if (exit_code == 0) {
        exit_code = child_watch(&child);
    }
    run->has_survivors = child.has_survivors;
    free_environment(child.environment);
    return exit_code;
}

int run_run(struct tool *tool, int argc, char **argv)
{
    struct run run = {
        .tool = tool,
        .acquire = {.wait_ms = WAIT_FOR_EVER, .exit_code = EX_TEMPFAIL}};
    struct acquired acquired = {0};
    sigset_t signals, mask;
    int exit_code = read_run(&run, argc, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    nest_make_id(run.id);
    exit_code = nest_check(tool, &run.acquire);
    if (exit_code != 0) {
        return exit_code;
    }
    child_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    struct keeper_options keeper = {
        .ended = hold_ended, .push = tell_push, .data = &run};
    exit_code = acquire_in_new_session(tool, &run.acquire, &keeper, signal_fd,
                                       &acquired);
    if (exit_code != 0) {
        if (run.acquire.is_inside && exit_code == EX_USAGE) {
            tool_fail(exit_code,
                      "'%s' is held, shared, by the 'hasp run' around this "
                      "one, for which somebody waits in the queue: this one "
                      "would wait for ever; use another name, -n or -w",
                      run.acquire.name);
        } else if (acquired.was_not_free) {
            tool_say(tool, "'%s' is not free; see: hasp show %s",
                     run.acquire.name, run.acquire.name);
        }
        close(signal_fd);
        return exit_code;
    }
    atomic_store(&run.token, acquired.token);
    exit_code = run_command(&run, &acquired, argv + optind, signal_fd, &mask);
    if (run.has_survivors) {
        tool_fail(0,
                  "some of the command could not be killed, '%s' is left to "
                  "its TTL",
                  run.acquire.name);
        keeper_stop(acquired.keeper);
    } else if (exit_code == EXIT_LOCK_LOST) {
        /* The command is dead: a lock that is held still may pass on. */
        acquired_abandon(tool, &acquired);
    } else if (acquired_close(tool, &acquired) != 0) {
        tool_say(tool, "'%s' stays locked until then", run.acquire.name);
    }
    close(signal_fd);
    return exit_code;
}

/* 'is_filed': the secret stands in a file, and nowhere else. */
static void print_acquired(const struct tool *tool,
                           const struct acquired *acquired, bool is_filed)
{
    const struct credentials *credentials = &acquired->session.credentials;
    json_t *record = json_pack("{s:I, s:I, s:I}", "token",
                               (json_int_t)acquired->token, "session",
                               (json_int_t)credentials->session, "ttl_ms",
                               (json_int_t)acquired->session.ttl_ms);
    if (!is_filed) {
        json_object_set_new(record, "secret", json_string(credentials->secret));
    }
    if (tool->format == FORMAT_JSON) {
        output_json(record);
    } else {
        json_t *rows = json_pack("[O]", record);
        output_rows(tool->format, is_filed ? filed_fields : acquired_fields,
                    rows);
        json_decref(rows);
    }
    json_decref(record);
}

static int read_acquire(struct tool *tool, int argc, char **argv,
                        struct acquire_options *acquire,
                        struct session_source *source)
{
    static const struct option options[] = {
        ACQUIRE_LONG_OPTIONS,
        SESSION_OPTION,
        SESSION_FILE_OPTION,
        {"owner", required_argument, NULL, 'O'},
        {0},
    };
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, ACQUIRE_SHORT_OPTIONS,
                                 options)) != -1) {
        int exit_code = session_option(tool, option, optarg, source);
        if (exit_code > 0) {
            return exit_code;
        }
        if (option == 'O') {
            acquire->owner = optarg;
        } else if (exit_code < 0 &&
                   acquire_option(tool, option, optarg, acquire) != 0) {
            return EX_USAGE;
        }
    }
    if (argc - optind != 1) {
        return tool_usage(tool, "the name of one lock is needed");
    }
    acquire->name = argv[optind];
    return acquire_options_check(tool, acquire);
}

/* In the session that is given, or in a new one, which goes to the file. */
static int acquire_as(struct tool *tool, const struct acquire_options *acquire,
                      const struct session_source *source, bool is_new_file)
{
    struct acquired acquired = {0};
    struct keeper_options keeper = {0};
    sigset_t signals;
    bool is_new = source->credentials.session == 0;
    /* A signal that ends a wait takes us out of the queue, too. */
    int signal_fd = -1;
    if (is_new) {
        child_signals(&signals);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    int exit_code = is_new
                        ? acquire_in_new_session(tool, acquire, &keeper,
                                                 signal_fd, &acquired)
                        : acquire_in_session(tool, acquire,
                                             &source->credentials, &acquired);
    if (exit_code != 0) {
        if (acquired.was_not_free) {
            tool_say(tool, "'%s' is not free; see: hasp show %s", acquire->name,
                     acquire->name);
        }
        return exit_code;
    }
    keeper_stop(acquired.keeper);
    if (is_new && acquire->wait_ms != 0) {
        /* After a wait the lease has run for a while: the caller gets all. */
        int error = client_session_keep(tool_client(tool), &acquired.session,
                                        tool_deadline_ns(tool), NULL, NULL);
        if (error != 0) {
            return tool_client_error(tool_client(tool), error,
                                     "cannot keep the session");
        }
    }
    if (is_new_file) {
        exit_code = session_file_write(source->path,
                                       &acquired.session.credentials);
        if (exit_code != 0) {
            acquired_abandon(tool, &acquired);
            return exit_code;
        }
    }
    print_acquired(tool, &acquired, source->path != NULL);
    return 0;
}

int run_acquire(struct tool *tool, int argc, char **argv)
{
    struct acquire_options acquire = {.exit_code = EX_TEMPFAIL};
    struct session_source source = {0};
    int exit_code = read_acquire(tool, argc, argv, &acquire, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    if (source.path == NULL) {
        return acquire_as(tool, &acquire, &source, false);
    }
    bool is_new_file = false;
    if (source.credentials.session == 0) {
        exit_code = session_file_begin(source.path, &is_new_file);
    }
    if (exit_code == 0 && !is_new_file) {
        exit_code = session_source_load(tool, &source);
    }
    if (exit_code == 0) {
        exit_code = acquire_as(tool, &acquire, &source, is_new_file);
    }
    if (exit_code != 0 && is_new_file) {
        unlink(source.path);
    }
    return exit_code;
}

int run_release(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        SESSION_OPTION,
        SESSION_FILE_OPTION,
        {"owner", required_argument, NULL, 'O'},
        {"token", required_argument, NULL, 'T'},
        {0},
    };
    struct session_source source = {0};
    struct query query = {0};
    const struct resp_reply *reply;
    const char *owner = NULL;
    uint64_t token = 0;
    char what[600];
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        if (option == 'O') {
            owner = optarg;
        } else if (option == 'T') {
            if (!parse_number(optarg, &token) || token == 0) {
                return tool_usage(tool, "'%s' is no token", optarg);
            }
        } else if (session_option(tool, option, optarg, &source) != 0) {
            return EX_USAGE;
        }
    }
    if (argc - optind != 1 ||
        (source.credentials.session == 0 && source.path == NULL)) {
        return tool_usage(tool, "a name and --session-file FILE are needed, or "
                                "--session ID:SECRET as 'hasp acquire' printed "
                                "it");
    }
    int exit_code = session_source_load(tool, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    client_set_session(tool_client(tool), &source.credentials);
    query_begin(&query, "LOCK.RELEASE");
    query_text(&query, argv[optind]);
    if (owner != NULL) {
        query_text(&query, "OWNER");
        query_text(&query, owner);
    }
    if (token != 0) {
        query_text(&query, "TOKEN");
        query_number(&query, token);
    }
    snprintf(what, sizeof what, "cannot release '%.511s'", argv[optind]);
    exit_code = tool_change(tool, &query, what, &reply);
    query_done(&query);
    if (exit_code == 0 && reply->value[0].integer > 0) {
        tool_say(tool, "still held %" PRId64 " times by this owner",
                 reply->value[0].integer);
    }
    return exit_code;
}
