/* SPDX-License-Identifier: MIT */

/* hasp run: a command under a lock. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/minmax.h"
#include "cmd/hasp/acquire.h"
#include "cmd/hasp/run/child.h"
#include "cmd/hasp/run/nested_runs.h"
#include "cmd/hasp/tool.h"

/* The part of the trusted time that is the default of --grace, and the part
 * that a signal can take. */
#define GRACE_PART 4
#define MARGIN_PART 80
#define MARGIN_MIN_MS 10

struct run {
    struct tool *tool;
    struct acquire_options acquire;
    int on_lost;       /* An enum on_lost. */
    uint64_t grace_ms; /* UINT64_MAX for the default. */
    const char *seal;  /* A command of sh; NULL: none. */
    uint64_t seal_ms;  /* 0: as long as the lease can be trusted. */
    char id[NESTED_RUNS_ID_SIZE];
    bool has_survivors;
    char death_word[CLIENT_SECRET_SIZE]; /* "": none. */
};

#define REPORT_TIMEOUT "30s"

/* The command that the guardian runs when all are dead. */
struct report {
    char *argv[16];
    char text[64];
};

static int read_run(struct run *run, char **argv)
{
    const struct option_row rows[] = {
        ACQUIRE_ROWS(&run->acquire),
        {"on-lost", OPTION_CHOICE, .value = &run->on_lost},
        {"grace", OPTION_TIME, .value = &run->grace_ms},
        {"seal", OPTION_TEXT, .value = &run->seal},
        {"seal-time", OPTION_TIME, .value = &run->seal_ms, .min = 1},
        {0},
    };
    int exit_code = options_read_before(run->tool, argv, rows, 2);
    char *name[] = {argv[1], NULL};
    return exit_code ?: acquire_options_check(run->tool, &run->acquire, name);
}

/* True for a variable that this run sets for its command; it replaces an outer
 * run's. */
static bool is_set_by_run(const char *variable)
{
    static const char *const names[] = {
        "HASP_LOCK=",      "HASP_TOKEN=", "HASP_SESSION=",
        "HASP_ENDPOINTS=", "HASP_RUNS=",  "HASP_TLS="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static char *run_take_text(struct buffer *text)
{
    buffer_put_u8(text, '\0');
    char *copy = memory_text((const char *)text->data);
    buffer_clear(text);
    return copy;
}

/* The environment of the command: ours, and what this run sets. With several
 * locks HASP_LOCK and HASP_TOKEN have a line for each. */
static char **make_environment(const struct run *run,
                               const struct acquired *acquired)
{
    extern char **environ;
    enum { SET_COUNT = 6, END_COUNT = 1 };
    AUTO(buffer_done) struct buffer text = {0}, tokens = {0};
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
    for (size_t i = 0; i < run->acquire.names.count; i++) {
        buffer_printf(&text, "%s%s", i == 0 ? "HASP_LOCK=" : "\n",
                      run->acquire.names.text[i]);
        buffer_printf(&tokens, "%s%" PRIu64, i == 0 ? "HASP_TOKEN=" : "\n",
                      hasp_token_of(acquired->hold, i));
    }
    environment[made++] = run_take_text(&text);
    environment[made++] = run_take_text(&tokens);
    buffer_printf(&text, "HASP_SESSION=%" PRIu64,
                  hasp_session_id(acquired->session));
    environment[made++] = run_take_text(&text);
    buffer_printf(&text, "HASP_ENDPOINTS=%s", run->tool->endpoints_text);
    environment[made++] = run_take_text(&text);
    if (run->tool->tls_text != NULL) {
        buffer_printf(&text, "HASP_TLS=%s", run->tool->tls_text);
        environment[made++] = run_take_text(&text);
    }
    buffer_put_text(&text, "HASP_RUNS=");
    nested_runs_put(&text, run->id, &run->acquire, acquired);
    environment[made++] = run_take_text(&text);
    return environment;
}

static void free_environment(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++) {
        free(environment[i]);
    }
    free(environment);
}

static void report_make(struct run *run, const struct acquired *acquired,
                        struct report *report)
{
    const char *all[] = {
        "hasp",
        "-q",
        "-t",
        REPORT_TIMEOUT,
        "-e",
        run->tool->endpoints_text,
        "--tls",
        run->tool->tls_text,
        "--secret-file",
        run->tool->secret_text,
        "--socket",
        run->tool->socket_text,
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i += 2) {
        if (all[i + 1] != NULL) {
            report->argv[count++] = (char *)(uintptr_t)all[i];
            report->argv[count++] = (char *)(uintptr_t)all[i + 1];
        }
    }
    report->argv[count++] = (char *)(uintptr_t) "died";
    report->argv[count++] = (char *)(uintptr_t) "-";
    report->argv[count] = NULL;
    snprintf(report->text, sizeof report->text, "%" PRIu64 " %s\n",
             hasp_session_id(acquired->session), run->death_word);
}

static void run_make_death_word(struct run *run)
{
    uint8_t random[(CLIENT_SECRET_SIZE - 1) / 2];
    /* Without one the TTL decides. */
    if (run->acquire.linger_ms == 0 &&
        getrandom(random, sizeof random, 0) == sizeof random) {
        hex_put(run->death_word, bytes_of(random, sizeof random));
        run->acquire.death_word = run->death_word;
    }
}

/* Runs the seal. The earlier holder may still write until it has ended, so the
 * command starts after that, and the lock passes on if it fails. */
static int run_seal(struct run *run, const struct child *command,
                    uint64_t trust_ms)
{
    char *argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)run->seal, NULL};
    uint64_t limit_ms = run->seal_ms != 0 ? run->seal_ms : trust_ms;
    struct child seal = *command;
    seal.argv = argv;
    seal.limit_ns = limit_ms * NS_PER_MS;
    int exit_code = child_start(&seal) ?: child_watch(&seal);
    run->has_survivors = seal.has_survivors;
    if (exit_code == 0 || seal.was_lost) {
        return exit_code;
    }
    if (seal.is_late) {
        return tool_fail(EXIT_NOT_SEALED,
                         "the seal of %s took longer than %" PRIu64
                         "ms and was killed; the command was not started",
                         command->name, limit_ms);
    }
    return tool_fail(EXIT_NOT_SEALED,
                     "the seal of %s failed with exit code %d; the command "
                     "was not started",
                     command->name, exit_code);
}

/* The time between TERM and KILL. */
static uint64_t run_grace_ms(const struct run *run, uint64_t trust_ms)
{
    bool has_grace = run->grace_ms != UINT64_MAX;
    uint64_t grace_ms = has_grace ? run->grace_ms : trust_ms / GRACE_PART;
    if (grace_ms <= trust_ms / 2) {
        return grace_ms;
    }
    if (has_grace) {
        tool_say(run->tool,
                 "--grace is cut to %" PRIu64 "ms, half of the time "
                 "that the lease can be trusted; a longer --ttl allows more",
                 trust_ms / 2);
    }
    return trust_ms / 2;
}

/* Runs the seal and the command under the acquired lock. */
static int run_command(struct run *run, struct acquired *acquired, char **argv,
                       int signal_fd, const sigset_t *mask)
{
    struct hasp_lease lease;
    /* If this fails 'lease' is all zero, and the command is not started. */
    (void)!hasp_look(acquired->hold, &lease);
    uint64_t trust_ms = lease.most_ns / NS_PER_MS;
    uint64_t margin_ms = u64_max(trust_ms / MARGIN_PART, MARGIN_MIN_MS);
    struct report report;
    report_make(run, acquired, &report);
    struct child child = {.argv = argv,
                          .environment = make_environment(run, acquired),
                          .on_lost = (enum on_lost)run->on_lost,
                          .grace_ns = run_grace_ms(run, trust_ms) * NS_PER_MS,
                          .margin_ns = margin_ms * NS_PER_MS,
                          .signal_fd = signal_fd,
                          .session = acquired->session,
                          .hold = acquired->hold,
                          .run_id = run->id,
                          .report = run->death_word[0] != '\0' ? report.argv
                                                               : NULL,
                          .report_text = report.text,
                          .name = acquire_name(&run->acquire),
                          .is_quiet = run->tool->is_quiet,
                          .mask = *mask};
    int exit_code = run->seal != NULL ? run_seal(run, &child, trust_ms) : 0;
    if (exit_code == 0) {
        exit_code = child_start(&child) ?: child_watch(&child);
        run->has_survivors = child.has_survivors;
    }
    free_environment(child.environment);
    return exit_code;
}

static int tell_not_acquired(const struct run *run, int exit_code,
                             const struct acquired *acquired)
{
    const char *name = run->acquire.names.text[0];
    if (run->acquire.is_inside && exit_code == EX_USAGE) {
        return tool_fail(exit_code,
                         "the 'hasp run' around this one holds '%s' shared, "
                         "and another client waits for it: this one would wait "
                         "forever; use another name, -n or -w",
                         name);
    }
    if (acquired->was_not_free) {
        tool_say(run->tool, "%s is not free; see: hasp why %s",
                 acquire_name(&run->acquire), name);
    }
    return exit_code;
}

int run_run(struct tool *tool, char **argv)
{
    struct run run = {
        .tool = tool, .acquire = ACQUIRE_DEFAULTS, .grace_ms = UINT64_MAX};
    struct acquired acquired = {0};
    sigset_t signals, mask;
    int signal_fd;
    int exit_code = read_run(&run, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    nested_runs_make_id(run.id);
    exit_code = nested_runs_check(tool, &run.acquire);
    if (exit_code != 0) {
        return exit_code;
    }
    run_make_death_word(&run);
    child_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    exit_code = acquire_lock(tool, &run.acquire, NULL, &signals, &signal_fd,
                             &acquired);
    if (exit_code != 0) {
        return tell_not_acquired(&run, exit_code, &acquired);
    }
    exit_code = run_command(&run, &acquired, argv + 2, signal_fd, &mask);
    if (run.has_survivors) {
        tool_fail(0,
                  "some processes of the command could not be killed; %s stays "
                  "locked until its TTL",
                  acquire_name(&run.acquire));
        (void)!hasp_detach(acquired.session);
    } else if (acquired_close(&acquired) != 0) {
        tool_say(tool, "%s stays locked until then",
                 acquire_name(&run.acquire));
    }
    close(signal_fd);
    return exit_code;
}
