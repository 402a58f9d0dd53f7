/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/acquire.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cmd/hasp/names.h"
#include "lease/rules.h"

/* A wait is asked for anew, keeping its place, when its node has been silent
 * for so long: it may be paused, which no time-out of TCP notices. Mostly a
 * heartbeat that fails tells so earlier. */
#define SILENCE_MS 15000
/* A lock is given back at another node after so long: often somebody waits. */
#define GIVE_BACK_MS 250
/* Beyond the wait itself: for its answer to come. */
#define ANSWER_MS 2000
/* A wait that lasts longer is explained. */
#define PATIENCE_MS 700

static int ask_for_lock(struct tool *tool,
                        const struct acquire_options *options, int signal_fd,
                        struct acquired *acquired, uint64_t deadline_ns);
static int open_session(struct tool *tool,
                        const struct acquire_options *options,
                        const struct keeper_options *keeper,
                        struct acquired *acquired);
static bool is_readable(int fd);
static int take_signal(int signal_fd);
static uint64_t wait_deadline_ns(const struct tool *tool,
                                 const struct acquire_options *options);
static int explain(struct tool *tool, int error,
                   const struct acquire_options *options);

/* 0 would be taken for an option that is not given. */
static bool parse_time(const char *value, uint64_t *ret_time_ms)
{
    return duration_parse(value, ret_time_ms) && *ret_time_ms > 0;
}

static int bad_time(const struct tool *tool, const char *value)
{
    return tool_usage(tool, "'%s' is no time; write 10s, 500ms or 2m", value);
}

int acquire_option(const struct tool *tool, int option, const char *value,
                   struct acquire_options *options)
{
    uint64_t number;
    switch (option) {
    case 's':
        options->is_shared = true;
        return 0;
    case 'n':
        options->wait_ms = 0;
        return 0;
    case 'w':
        return duration_parse(value, &options->wait_ms) ? 0
                                                        : bad_time(tool, value);
    case 'E':
        if (!parse_number(value, &number) || number > 255) {
            return tool_usage(tool, "'%s' is no exit code (0 to 255)", value);
        }
        options->exit_code = (int)number;
        return 0;
    case OPTION_SLOTS:
        return parse_number(value, &options->slots) && options->slots > 0
                   ? 0
                   : tool_usage(tool, "'%s' is no number of slots", value);
    case OPTION_TTL:
        return parse_time(value, &options->ttl_ms) ? 0 : bad_time(tool, value);
    case OPTION_LINGER:
        return parse_time(value, &options->linger_ms) ? 0
                                                      : bad_time(tool, value);
    case OPTION_DELAY:
        return duration_parse(value, &options->delay_ms)
                   ? 0
                   : bad_time(tool, value);
    case OPTION_HOLD:
        return parse_time(value, &options->hold_ms) ? 0 : bad_time(tool, value);
    case OPTION_VALUE:
        options->value = value;
        return 0;
    default:
        return -1;
    }
}

int acquire_options_check(const struct tool *tool,
                          const struct acquire_options *options)
{
    if (options->is_shared && options->slots != 0) {
        return tool_usage(tool, "--shared and --slots exclude each other");
    }
    if (options->name[0] == '\0') {
        return tool_usage(tool, "the name of a lock is not empty");
    }
    if (options->ttl_ms != 0 &&
        (options->ttl_ms < 100 || options->ttl_ms > 3600000)) {
        return tool_usage(tool, "--ttl is from 100ms to 1h");
    }
    if (options->linger_ms != 0 && options->linger_ms < 50) {
        return tool_usage(tool, "--linger is from 50ms up to the TTL");
    }
    return 0;
}

/* Was the session lost while it waited, or in the moment of the grant? */
static bool is_lost(struct tool *tool, int error,
                    const struct acquired *acquired)
{
    struct keeper_view view = {0};
    const char *code = client_code(tool_client(tool));
    if (error == HASP_EREPLY) {
        return strcmp(code, "EXPIRED") == 0 || strcmp(code, "NOSESSION") == 0;
    }
    if (acquired->keeper != NULL) {
        keeper_view(acquired->keeper, &view);
    }
    return acquired->keeper != NULL && view.state == LEASE_LOST;
}

/* After an outage the lock may be granted when the lease is nearly over: a
 * command that is started then would be stopped at once. The next heartbeat
 * tells. */
static void settle(const struct acquired *acquired, int signal_fd)
{
    const struct lease *lease = &acquired->session.lease;
    uint64_t enough_ns = rules_trusted(lease_promised_ns(lease)) / 2;
    struct keeper_view view;
    for (;;) {
        uint64_t ignored;
        keeper_view(acquired->keeper, &view);
        if (view.state == LEASE_LOST || view.is_refused ||
            view.remaining_ns >= enough_ns) {
            return;
        }
        struct pollfd fds[2] = {
            {.fd = signal_fd, .events = POLLIN},
            {.fd = keeper_fd(acquired->keeper), .events = POLLIN}};
        poll(fds, 2, (int)(view.sure_ns / NS_PER_MS) + 1);
        if (fds[0].revents != 0) {
            return;
        }
        if (fds[1].revents != 0 &&
            read(fds[1].fd, &ignored, sizeof ignored) < 0) {
            continue;
        }
    }
}

/* One session, until it has the lock or is at its end. */
static int try_session(struct tool *tool, const struct acquire_options *options,
                       const struct keeper_options *keeper, int signal_fd,
                       uint64_t deadline_ns, struct acquired *acquired)
{
    struct client *client = tool_client(tool);
    client_set_interrupt(client, signal_fd);
    int error = open_session(tool, options, keeper, acquired);
    if (error == 0) {
        error = ask_for_lock(tool, options, signal_fd, acquired, deadline_ns);
    }
    client_set_interrupt(client, -1);
    if (error == 0 && acquired->token != 0) {
        settle(acquired, signal_fd);
    }
    return error;
}

int acquire_in_new_session(struct tool *tool,
                           const struct acquire_options *options,
                           const struct keeper_options *keeper, int signal_fd,
                           struct acquired *ret_acquired)
{
    struct keeper_options told = *keeper;
    uint64_t deadline_ns = wait_deadline_ns(tool, options);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    told.failed_fd = fd < 0 ? 0 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0) {
        close(fd);
    }
    bool has_waited = false;
    for (;;) {
        struct acquired acquired = {.failed_fd = told.failed_fd};
        int error = try_session(tool, options, &told, signal_fd, deadline_ns,
                                &acquired);
        /* It holds nothing, or not for certain: begin anew. */
        bool must_renew = error != HASP_EINTR &&
                          is_lost(tool, error, &acquired);
        bool is_outage = error == HASP_ECONNECT || error == HASP_ENOTLEADER ||
                         error == HASP_EBUSY || error == HASP_ETIMEDOUT;
        if (error == 0 && acquired.token != 0 && !must_renew) {
            *ret_acquired = acquired;
            return 0;
        }
        int exit_code = options->exit_code;
        if ((must_renew || (has_waited && is_outage)) &&
            client_now_ns() < deadline_ns) {
            if (must_renew) {
                tool_say(tool,
                         "lost touch with the cluster while waiting for "
                         "'%s', queueing anew",
                         options->name);
            }
            acquired_abandon(tool, &acquired);
            client_set_session(tool_client(tool), NULL);
            has_waited = true;
            continue;
        }
        if (error == HASP_EINTR) {
            ret_acquired->signal_number = take_signal(signal_fd);
            exit_code = 128 + ret_acquired->signal_number;
        } else if (error != 0) {
            exit_code = explain(tool, error, options);
        } else if (acquired.token != 0) {
            exit_code = tool_fail(EXIT_LOCK_LOST,
                                  "the lock '%s' was lost as soon as it was "
                                  "acquired",
                                  options->name);
        } else {
            ret_acquired->was_not_free = true;
        }
        acquired_abandon(tool, &acquired);
        return exit_code;
    }
}

/* Others have numbered requests in this session before us, and may again: the
 * wall clock goes on from one process to the next. */
static uint64_t number_before_ours(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int acquire_in_session(struct tool *tool, const struct acquire_options *options,
                       const struct credentials *credentials,
                       struct acquired *ret_acquired)
{
    struct acquired acquired = {0};
    struct client *client = tool_client(tool);
    int error = client_session_attach(
        client, credentials, tool_deadline_ns(tool), &acquired.session);
    if (error == 0) {
        acquired.session.request_number = number_before_ours();
        error = ask_for_lock(tool, options, -1, &acquired,
                             wait_deadline_ns(tool, options));
    }
    if (error != 0) {
        return explain(tool, error, options);
    }
    if (acquired.token == 0) {
        ret_acquired->was_not_free = true;
        return options->exit_code;
    }
    *ret_acquired = acquired;
    return 0;
}

/* Closing twice, or one that has ended, is fine: there are no holds any more.
 */
static int close_session(struct tool *tool, struct acquired *acquired,
                         uint64_t deadline_ns)
{
    struct query query = {0};
    const struct resp_reply *reply;
    struct client *client = tool_client(tool);
    struct client_options ask = {.deadline_ns = deadline_ns,
                                 .attempt_ms = GIVE_BACK_MS,
                                 .is_repeatable = true};
    keeper_stop(acquired->keeper);
    acquired->keeper = NULL;
    if (is_readable(acquired->failed_fd)) {
        client_drop(client);
    }
    query_begin(&query, "SESSION.CLOSE");
    int error = client_ask(client, &query, &ask, &reply);
    query_done(&query);
    if (error == HASP_EREPLY &&
        (strcmp(client_code(client), "EXPIRED") == 0 ||
         strcmp(client_code(client), "NOSESSION") == 0)) {
        error = 0;
    }
    return error;
}

int acquired_close(struct tool *tool, struct acquired *acquired)
{
    int error = close_session(tool, acquired, tool_deadline_ns(tool));
    return error == 0 ? 0
                      : tool_client_error(tool_client(tool), error,
                                          "cannot close the session, it ends "
                                          "with its TTL");
}

void acquired_abandon(struct tool *tool, struct acquired *acquired)
{
    if (acquired->session.credentials.session != 0) {
        /* If it fails the session ends with its TTL. */
        int error = close_session(tool, acquired,
                                  client_now_ns() + 1000 * NS_PER_MS);
        (void)error;
    }
}

static uint64_t wait_deadline_ns(const struct tool *tool,
                                 const struct acquire_options *options)
{
    if (options->wait_ms == WAIT_FOR_EVER) {
        return UINT64_MAX;
    }
    if (options->wait_ms == 0) {
        return tool_deadline_ns(tool);
    }
    return client_now_ns() + options->wait_ms * NS_PER_MS;
}

static int open_session(struct tool *tool,
                        const struct acquire_options *options,
                        const struct keeper_options *keeper,
                        struct acquired *acquired)
{
    char name[NAME_TEXT_SIZE];
    name_of_process(name);
    struct session_options session = {.ttl_ms = options->ttl_ms,
                                      .linger_ms = options->linger_ms,
                                      .name = name};
    struct client *client = tool_client(tool);
    int error = client_session_open(client, &session, tool_deadline_ns(tool),
                                    &acquired->session);
    if (error == 0) {
        struct keeper_options along = *keeper;
        along.endpoint = client_endpoint(client);
        error = keeper_start(&tool->endpoints, &acquired->session, &along,
                             &acquired->keeper);
    }
    return error;
}

/* A request for the lock, as it is sent and sent again. */
struct request {
    struct query query;
    const struct acquire_options *options;
    struct client_session *session;
    uint64_t deadline_ns; /* Of the wait. */
    uint64_t number;      /* Its REQ, once it has one. */
};

/* What is left of the wait, which is at least to be asked for: 0 would be
 * another request. */
static uint64_t wait_left_ms(const struct request *request)
{
    uint64_t now_ns = client_now_ns();
    if (request->number == 0) {
        return request->options->wait_ms;
    }
    return request->deadline_ns > now_ns + NS_PER_MS
               ? (request->deadline_ns - now_ns) / NS_PER_MS
               : 1;
}

/* A client_again_fn. */
static void write_request(void *data)
{
    struct request *request = data;
    const struct acquire_options *options = request->options;
    struct query *query = &request->query;
    query_begin(query, "LOCK.ACQUIRE");
    query_text(query, options->name);
    if (options->is_shared) {
        query_text(query, "SHARED");
    } else if (options->slots != 0) {
        query_text(query, "SLOTS");
        query_number(query, options->slots);
    }
    if (options->wait_ms == WAIT_FOR_EVER) {
        query_text(query, "WAIT");
        query_text(query, "FOREVER");
    } else if (options->wait_ms != 0) {
        query_text(query, "WAIT");
        query_number(query, wait_left_ms(request));
    }
    if (options->owner != NULL) {
        query_text(query, "OWNER");
        query_text(query, options->owner);
    }
    if (options->value != NULL) {
        query_text(query, "VALUE");
        query_text(query, options->value);
    }
    if (options->delay_ms != 0) {
        query_text(query, "DELAY");
        query_number(query, options->delay_ms);
    }
    if (options->hold_ms != 0) {
        query_text(query, "HOLD");
        query_number(query, options->hold_ms);
    }
    /* It stays one request, however often it is sent. */
    if (request->number != 0) {
        request->session->request_number = request->number - 1;
    }
    client_session_number(request->session, query);
    request->number = request->session->request_number;
}

/* The lock as the cluster sees it, over 'client'; NULL if it does not say. */
static json_t *show(struct tool *tool, struct client *client, const char *name,
                    struct lease_clock *ret_sent)
{
    struct query query = {0};
    const struct resp_reply *reply;
    struct client_options ask = {.deadline_ns = tool_deadline_ns(tool),
                                 .ret_sent = ret_sent,
                                 .is_read = true};
    query_begin(&query, "LOCK.SHOW");
    query_text(&query, name);
    int error = client_ask(client, &query, &ask, &reply);
    query_done(&query);
    return error == 0 ? value_of_reply(reply, 0) : NULL;
}

/* How many wait before this session. */
static size_t place_of(json_t *lock, uint64_t session)
{
    size_t i;
    json_t *waiter;
    json_array_foreach(value_at(lock, "queue"), i, waiter)
    {
        if (value_number(waiter, "session") == session) {
            return i;
        }
    }
    return 0;
}

static void tell(const struct tool *tool, const char *name, json_t *lock,
                 uint64_t session)
{
    char since[DURATION_TEXT_SIZE], ahead[40] = "";
    json_t *holder = value_at(lock, "holders.0");
    size_t count = json_array_size(value_at(lock, "holders"));
    size_t place = place_of(lock, session);
    if (place > 0) {
        snprintf(ahead, sizeof ahead, ", %zu before us", place);
    }
    if (holder == NULL) {
        tool_say(tool, "waiting for '%s', which is kept closed%s", name, ahead);
        return;
    }
    duration_format(value_number(holder, "since_ms"), since);
    tool_say(
        tool, "waiting for '%s', held by %s%s (session %" PRIu64 ") for %s%s",
        name,
        value_text(holder, "client")[0] != '\0' ? value_text(holder, "client")
                                                : "a client without a name",
        count > 1 ? " and others" : "", value_number(holder, "session"), since,
        ahead);
}

/* Tells who holds the lock while we wait for it, and again when that has
 * changed. Our own connection is taken by the wait, so another one asks. */
static void tell_holder(struct tool *tool, const char *name, int signal_fd,
                        uint64_t session, uint64_t *told_token)
{
    struct client *client = client_new(&tool->endpoints);
    client_set_interrupt(client, signal_fd);
    json_t *lock = show(tool, client, name, NULL);
    value_make_printable(lock);
    uint64_t token = value_number(lock, "holders.0.token");
    if (lock != NULL && (token != *told_token || *told_token == 0)) {
        tell(tool, name, lock, session);
        *told_token = token;
    }
    json_decref(lock);
    client_free(client);
}

/* The longest time for one hold counts from the grant. That lies after
 * 'asked', which is right in any case; after a wait the cluster knows
 * better. */
static void limit_hold(struct tool *tool, const struct acquire_options *options,
                       struct acquired *acquired, struct lease_clock asked)
{
    struct lease_clock sent;
    size_t i;
    json_t *holder;
    acquired->hold_left_ms = options->hold_ms;
    acquired->hold_sent = asked;
    if (options->hold_ms == 0 || options->wait_ms == 0) {
        return;
    }
    json_t *lock = show(tool, tool_client(tool), options->name, &sent);
    json_array_foreach(value_at(lock, "holders"), i, holder)
    {
        uint64_t left_ms = value_number(holder, "hold_left_ms");
        if (value_number(holder, "token") == acquired->token && left_ms != 0 &&
            left_ms <= options->hold_ms &&
            value_number(holder, "session") ==
                acquired->session.credentials.session) {
            acquired->hold_left_ms = left_ms;
            acquired->hold_sent = sent;
        }
    }
    json_decref(lock);
}

/* Asks for so long at most, and not beyond the wait. */
static int ask_once(struct client *client, struct request *request,
                    uint64_t slice_ms, const struct resp_reply **ret_reply)
{
    uint64_t slice_ns = client_now_ns() + slice_ms * NS_PER_MS;
    uint64_t end_ns = request->deadline_ns == UINT64_MAX
                          ? UINT64_MAX
                          : request->deadline_ns + ANSWER_MS * NS_PER_MS;
    struct client_options ask = {
        .deadline_ns = slice_ns < end_ns ? slice_ns : end_ns,
        .attempt_ms = request->options->wait_ms == 0 ? 0 : SILENCE_MS,
        .is_repeatable = true,
        .again = write_request,
        .again_data = request};
    write_request(request);
    return client_ask(client, &request->query, &ask, ret_reply);
}

/* What ends a wait early: a signal, or a heartbeat that failed, since the node
 * of the wait may be silent, too. */
static int make_interrupt(int signal_fd, const struct acquired *acquired)
{
    int fds[2] = {signal_fd, acquired->failed_fd};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 2 && fd >= 0; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (fds[i] > 0 && epoll_ctl(fd, EPOLL_CTL_ADD, fds[i], &event) != 0) {
            close(fd);
            return -1;
        }
    }
    return fd;
}

/* The wait was interrupted: HASP_EINTR if by a signal; else the next node is to
 * be asked. */
static int take_interrupt(struct tool *tool, int signal_fd,
                          const struct acquired *acquired)
{
    uint64_t ignored;
    if (is_readable(signal_fd)) {
        return HASP_EINTR;
    }
    if (read(acquired->failed_fd, &ignored, sizeof ignored) > 0) {
        client_drop(tool_client(tool));
    }
    return HASP_ETIMEDOUT;
}

/* Sets the token, or leaves 0 if the lock was not acquired in time. The same
 * request with the same number is sent until an answer comes: the place in the
 * queue stays. */
static int ask_for_lock(struct tool *tool,
                        const struct acquire_options *options, int signal_fd,
                        struct acquired *acquired, uint64_t deadline_ns)
{
    struct request request = {.options = options,
                              .session = &acquired->session,
                              .deadline_ns = deadline_ns};
    const struct resp_reply *reply;
    struct client *client = tool_client(tool);
    struct lease_clock asked = client_clock_read();
    uint64_t told_token = 0, slice_ms = PATIENCE_MS;
    int error, interrupt_fd = -1;
    bool has_told = false;
    if (options->wait_ms != 0) {
        interrupt_fd = make_interrupt(signal_fd, acquired);
        client_set_interrupt(client,
                             interrupt_fd >= 0 ? interrupt_fd : signal_fd);
    }
    if (options->wait_ms == 0 || tool->is_quiet) {
        slice_ms = SILENCE_MS + tool->timeout_ms;
    }
    for (;;) {
        error = ask_once(client, &request, slice_ms, &reply);
        bool is_silence = error == HASP_ETIMEDOUT;
        if (error == HASP_EINTR) {
            error = take_interrupt(tool, signal_fd, acquired);
        }
        if (error == 0 || error == HASP_EREPLY || error == HASP_EINTR ||
            client_now_ns() >= deadline_ns || is_lost(tool, error, acquired)) {
            break;
        }
        if (is_silence) {
            slice_ms = SILENCE_MS + tool->timeout_ms;
            if (!tool->is_quiet) {
                tell_holder(tool, options->name, signal_fd,
                            acquired->session.credentials.session, &told_token);
            }
        } else if (!has_told && error != HASP_ETIMEDOUT) {
            tool_say(tool, "%s; still waiting for '%s'", client_why(client),
                     options->name);
            has_told = true;
        }
    }
    query_done(&request.query);
    client_set_interrupt(client, signal_fd);
    if (interrupt_fd >= 0) {
        close(interrupt_fd);
    }
    if (error == HASP_ETIMEDOUT && options->wait_ms != 0) {
        return 0; /* The wait was over before its answer came, or is lost. */
    }
    if (error == 0 && reply->value[0].type == RESP_INTEGER) {
        acquired->token = (uint64_t)reply->value[0].integer;
        limit_hold(tool, options, acquired, asked);
    }
    return error;
}

static bool is_readable(int fd)
{
    struct pollfd look = {.fd = fd > 0 ? fd : -1, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

static int take_signal(int signal_fd)
{
    struct signalfd_siginfo info;
    return read(signal_fd, &info, sizeof info) == sizeof info
               ? (int)info.ssi_signo
               : 0;
}

static int explain(struct tool *tool, int error,
                   const struct acquire_options *options)
{
    char what[600];
    snprintf(what, sizeof what, "cannot acquire '%.511s'", options->name);
    return tool_client_error(tool_client(tool), error, what);
}
