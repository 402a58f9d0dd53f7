/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/acquire.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd/hasp/waiting.h"

/* How often to check whether the lease was renewed. */
#define SETTLE_MS 20
/* Pause before the next attempt if the cluster cannot be reached. */
#define PAUSE_MS 200
/* If less than this part of the lease is left, the cluster has not answered
 * for long, and would not answer a release either; the lease's end frees the
 * lock as soon. */
#define NEARLY_OVER_PART 16

struct attempt {
    struct tool *tool;
    const struct acquire_options *options;
    const char *credentials;
    uint64_t deadline_ns;
    int signal_fd;
    const sigset_t *signals;
};

const char *acquire_name(const struct acquire_options *options)
{
    static char text[600];
    int size = snprintf(text, sizeof text, "'%.511s'", options->names.text[0]);
    if (options->names.count > 1) {
        snprintf(text + size, sizeof text - (size_t)size, " and %zu more",
                 options->names.count - 1);
    }
    return text;
}

/* Puts 'names' before the words of the list; false if they are too many. */
static bool put_before(struct option_list *list, char **names)
{
    struct option_list all = {0};
    for (; *names != NULL; names++) {
        if (all.count == OPTION_LIST_MAX) {
            return false;
        }
        all.text[all.count++] = *names;
    }
    if (all.count + list->count > OPTION_LIST_MAX) {
        return false;
    }
    memcpy(&all.text[all.count], list->text, list->count * sizeof all.text[0]);
    all.count += list->count;
    *list = all;
    return true;
}

int acquire_options_check(const struct tool *tool,
                          struct acquire_options *options, char **names)
{
    if (!put_before(&options->names, names)) {
        return tool_usage(tool, "at most %d locks at once", OPTION_LIST_MAX);
    }
    if (options->is_shared && options->slots != 0) {
        return tool_usage(tool, "--shared and --slots cannot be combined");
    }
    if (options->is_durable &&
        (options->ttl_ms != 0 || options->linger_ms != 0)) {
        return tool_usage(tool,
                          "--durable never expires: drop --ttl and --linger");
    }
    if (options->is_durable != (options->reason != NULL)) {
        return tool_usage(tool,
                          "--durable and --reason must be given together: the "
                          "reason explains why the lock is held");
    }
    if (options->linger_ms > options->ttl_ms && options->ttl_ms != 0) {
        return tool_usage(tool, "--linger cannot be longer than --ttl");
    }
    for (size_t i = 0; i < options->names.count; i++) {
        size_t size = strlen(options->names.text[i]);
        if (size == 0 || size >= HASP_EVENT_NAME_SIZE) {
            return tool_usage(tool, "invalid lock name: use 1 to %d bytes",
                              HASP_EVENT_NAME_SIZE - 1);
        }
    }
    if (options->is_trying) {
        options->wait_ms = 0;
    }
    return 0;
}

/* Opens the session. Until then there is nothing to release, so a signal ends
 * the program as usual. */
static int acquire_open_session(const struct attempt *attempt,
                                struct hasp_session **ret_session)
{
    struct hasp_options options;
    tool_session_options(attempt->tool, &options);
    options.name = PROCESS;
    options.ttl_ms = (uint32_t)attempt->options->ttl_ms;
    options.linger_ms = (uint32_t)attempt->options->linger_ms;
    options.credentials = attempt->credentials;
    options.is_durable = attempt->options->is_durable;
    options.reason = attempt->options->reason;
    if (attempt->credentials == NULL && options.linger_ms == 0 &&
        !options.is_durable) {
        options.death_word = attempt->options->death_word;
    }
    sigprocmask(SIG_UNBLOCK, attempt->signals, NULL);
    int error = hasp_open(&options, ret_session);
    sigprocmask(SIG_BLOCK, attempt->signals, NULL);
    return error;
}

/* After an outage the lock can be granted when the lease is nearly over; a
 * command that is started then would be stopped at once. So wait for the next
 * heartbeat. */
static void acquire_settle(const struct attempt *attempt,
                           struct hasp_hold *hold)
{
    struct hasp_lease lease;
    struct pollfd signal = {.fd = attempt->signal_fd, .events = POLLIN};
    while (hasp_look(hold, &lease) == 0 && lease.sure_ns > 0 &&
           !lease.is_refused && lease.remaining_ns < lease.most_ns / 2 &&
           attempt->options->hold_ms == 0) {
        if (poll(&signal, 1, SETTLE_MS) > 0) {
            return;
        }
    }
}

/* Tries in one session, until it has the locks or ends. */
static int try_session(const struct attempt *attempt, struct acquired *acquired)
{
    const struct acquire_options *options = attempt->options;
    struct hasp_acquire_options how;
    hasp_acquire_options_init(&how);
    how.mode = options->is_shared    ? HASP_SHARED
               : options->slots != 0 ? HASP_SLOTS
                                     : HASP_EXCLUSIVE;
    how.slots = (uint32_t)options->slots;
    how.owner = options->owner;
    how.value = options->value;
    how.trace = getenv("TRACEPARENT");
    how.delay_ms = options->delay_ms;
    how.hold_ms = options->hold_ms;
    how.interrupt_fd = attempt->signal_fd;
    how.wait_ms = options->wait_ms;
    int error = acquire_open_session(attempt, &acquired->session);
    if (error != 0) {
        return error;
    }
    if (attempt->deadline_ns != UINT64_MAX && how.wait_ms != 0) {
        uint64_t now_ns = client_now_ns();
        how.wait_ms = now_ns < attempt->deadline_ns
                          ? (attempt->deadline_ns - now_ns) / NS_PER_MS + 1
                          : 1;
    }
    struct waiting_view *waiting = waiting_begin(
        attempt->tool, &options->names, hasp_session_id(acquired->session),
        how.wait_ms != 0);
    error = hasp_acquire_many(acquired->session,
                              (const char *const *)options->names.text,
                              options->names.count, &how, &acquired->hold);
    waiting_end(waiting, error == 0);
    if (error == 0) {
        acquire_settle(attempt, acquired->hold);
        error = hasp_guard(acquired->hold, 0);
        error = error == HASP_ESHORT ? 0 : error;
    }
    return error;
}

static bool is_outage(int error)
{
    return error == HASP_ECONNECT || error == HASP_ENOTLEADER ||
           error == HASP_EBUSY || error == HASP_EUNKNOWN;
}

/* Closes the session, and explains why nothing was acquired. */
static int acquire_give_up(const struct attempt *attempt, int error,
                           bool is_over, struct acquired *acquired)
{
    struct signalfd_siginfo info;
    char what[640];
    const struct acquire_options *options = attempt->options;
    snprintf(what, sizeof what, "cannot acquire %s", acquire_name(options));
    int exit_code = (int)options->exit_code;
    /* A session that is lost as the wait ends has not got the lock in time,
     * either. */
    bool is_lost = error == HASP_ELOST && is_over && acquired->hold == NULL;
    bool is_late = (error == HASP_EUNKNOWN || is_lost) && options->wait_ms != 0;
    acquired->was_not_free = error == HASP_NOT_ACQUIRED || is_late;
    if (error == HASP_EINTR) {
        bool has_signal = read(attempt->signal_fd, &info, sizeof info) ==
                          sizeof info;
        exit_code = 128 + (has_signal ? (int)info.ssi_signo : SIGTERM);
    } else if (acquired->hold != NULL) {
        exit_code = tool_fail(EXIT_LOCK_LOST,
                              "the lock %s was lost as soon as it was acquired",
                              acquire_name(options));
    } else if (!acquired->was_not_free) {
        exit_code = tool_hasp_error(attempt->tool, error, what);
    }
    if (options->is_durable && acquired->session != NULL && is_outage(error)) {
        tool_say(attempt->tool,
                 "session %" PRIu64
                 " never expires: if it cannot be closed now, it stays until "
                 "'hasp blacklist add --session %" PRIu64 "'",
                 hasp_session_id(acquired->session),
                 hasp_session_id(acquired->session));
    }
    if (attempt->credentials == NULL) {
        hasp_close(acquired->session);
    } else if (acquired->session != NULL) {
        (void)!hasp_detach(acquired->session);
    }
    acquired->session = NULL;
    return exit_code;
}

/* Drops a session that will never get the locks, so that a new one can queue.
 */
static void restart_acquire(struct acquired *acquired)
{
    hasp_close(acquired->session);
    acquired->session = NULL;
    acquired->hold = NULL;
}

static bool takes_signal(const struct attempt *attempt)
{
    struct pollfd signal = {.fd = attempt->signal_fd, .events = POLLIN};
    return poll(&signal, 1, PAUSE_MS) > 0;
}

int acquire_lock(struct tool *tool, const struct acquire_options *options,
                 const char *credentials, const sigset_t *signals,
                 int *ret_signal_fd, struct acquired *ret_acquired)
{
    struct attempt attempt = {
        .tool = tool,
        .options = options,
        .credentials = credentials,
        .deadline_ns = UINT64_MAX,
        .signals = signals,
        .signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    bool has_waited = false;
    struct acquired acquired = {0};
    if (options->wait_ms != HASP_FOREVER) {
        attempt.deadline_ns = client_now_ns() + options->wait_ms * NS_PER_MS;
    }
    *ret_signal_fd = attempt.signal_fd;
    for (;;) {
        int error = try_session(&attempt, &acquired);
        bool is_over = client_now_ns() >= attempt.deadline_ns;
        bool is_lost = error == HASP_ELOST && acquired.session != NULL;
        if (error == 0) {
            *ret_acquired = acquired;
            return 0;
        }
        if (is_lost && credentials == NULL && !is_over) {
            tool_say(tool,
                     "lost the session while waiting for %s; queueing again",
                     acquire_name(options));
        } else if (!has_waited || !is_outage(error) || is_over ||
                   takes_signal(&attempt)) {
            int exit_code = acquire_give_up(&attempt, error, is_over,
                                            &acquired);
            *ret_acquired = acquired;
            return exit_code;
        }
        restart_acquire(&acquired);
        has_waited = true;
    }
}

int acquired_close(struct acquired *acquired)
{
    struct hasp_lease lease;
    int exit_code = 0;
    bool is_known = hasp_look(acquired->hold, &lease) == 0;
    if (is_known && lease.sure_ns > 0 &&
        lease.sure_ns < lease.most_ns / NEARLY_OVER_PART) {
        client_sleep_ms(lease.sure_ns / NS_PER_MS + 1);
    } else if (is_known && lease.sure_ns > 0) {
        int error = hasp_release(acquired->hold);
        if (error != 0 && error != HASP_ENOTHELD && error != HASP_ELOST) {
            exit_code = tool_fail(
                EX_UNAVAILABLE,
                "cannot release the lock: %s; it expires with its TTL",
                hasp_why());
        }
    }
    hasp_close(acquired->session);
    *acquired = (struct acquired){0};
    return exit_code;
}
