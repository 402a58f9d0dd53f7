/* SPDX-License-Identifier: MIT */

/* Taking locks and giving them back. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/hasp_session.h"
#include "client/reply.h"

/* For an interrupted call to clear up what it began; after that the resolver
 * goes on without it. */
#define WITHDRAW_MS 500
/* For the question how much of a limited hold is left. */
#define SHOW_MS 2000

static int check_options(const struct hasp_acquire_options *options,
                         struct hasp_acquire_options *ret_options);
static int open_interrupt(struct hasp_session *session, int fd, int *ret_fd);
static bool only_heartbeat_failed(int interrupt_fd);
static int wait_ended(struct change *change, struct change_result *result,
                      int error);
static void limit_hold(struct hasp_hold *hold, const struct change *change);

void hasp_acquire_options_init(struct hasp_acquire_options *options)
{
    if (options != NULL) {
        *options = (struct hasp_acquire_options){.size = sizeof *options,
                                                 .wait_ms = HASP_FOREVER,
                                                 .interrupt_fd = -1};
    }
}

int hasp_acquire(struct hasp_session *session, const char *name,
                 const struct hasp_acquire_options *options,
                 struct hasp_hold **ret_hold)
{
    return hasp_acquire_many(session, &name, 1, options, ret_hold);
}

/* Sends it and waits. A node that does not answer the keeper may be frozen, and
 * then would not tell of a grant either: whenever a heartbeat has failed the
 * change is asked again, at another node, where it keeps its place. */
static int ask(struct change *change, int interrupt_fd,
               struct change_result *result)
{
    int error = change_ask(change, change->options.wait_ms, interrupt_fd,
                           result);
    while (error == HASP_EINTR && only_heartbeat_failed(interrupt_fd) &&
           !session_is_lost(change->session)) {
        error = change_go_on(change, interrupt_fd, result);
    }
    return error;
}

/* Sends the ACQUIRE and, if nobody can tell what became of it, sees to it that
 * nothing stays behind. Takes 'change' unless it returns 0. */
static int acquire(struct change *change, struct change_result *result)
{
    struct hasp_session *session = change->session;
    struct owner *owner = change->owner;
    int interrupt_fd = -1;
    int error = 0;
    if (change->options.wait_ms != 0) {
        error = open_interrupt(session, change->options.interrupt_fd,
                               &interrupt_fd);
    }
    if (error == 0) {
        error = ask(change, interrupt_fd, result);
        if (error == HASP_EINTR || error == HASP_EUNKNOWN ||
            error == HASP_EPROTO) {
            error = wait_ended(change, result, error);
            change = change_is_open(error) ? NULL : change;
        }
    }
    if (interrupt_fd >= 0) {
        close(interrupt_fd);
    }
    if (error == 0 && result->is_granted) {
        return 0;
    }
    if (change != NULL) {
        change_free(change);
        owner_put(session, owner);
    }
    return error != 0 ? error : HASP_NOT_ACQUIRED;
}

int hasp_acquire_many(struct hasp_session *session, const char *const *names,
                      size_t count, const struct hasp_acquire_options *options,
                      struct hasp_hold **ret_hold)
{
    struct hasp_acquire_options all;
    struct owner *owner;
    struct change *change;
    struct change_result result = {0};
    struct hasp_hold *hold;
    if (names == NULL || count == 0 || ret_hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_acquire: no name, or nowhere to "
                                      "put the hold");
    }
    for (size_t i = 0; i < count; i++) {
        if (names[i] == NULL || names[i][0] == '\0' ||
            strlen(names[i]) >= HASP_EVENT_NAME_SIZE) {
            return why_set(HASP_EINVALID,
                           "the name of a lock has 1 to %d "
                           "bytes",
                           HASP_EVENT_NAME_SIZE - 1);
        }
    }
    int error = check_options(options, &all);
    if (error == 0) {
        error = session_check(session);
    }
    if (error != 0) {
        return error;
    }
    result.tokens = calloc(count, sizeof *result.tokens);
    if (result.tokens == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    error = owner_take(session, all.owner, &owner);
    if (error == 0) {
        error = change_new(session, CHANGE_ACQUIRE, owner, names, count, &all,
                           &change);
        if (error != 0) {
            owner_put(session, owner);
        }
    }
    if (error == 0) {
        error = acquire(change, &result);
    }
    if (error == 0) {
        error = client_hold_new(change, result.tokens, &hold);
        if (error != 0) {
            resolver_add(change);
        }
    }
    free(result.tokens);
    if (error != 0) {
        return error;
    }
    limit_hold(hold, change);
    change_free(change);
    if (session_is_lost(session)) {
        /* The answer came too late. */
        owner_put(session, hold->owner);
        client_hold_free(hold);
        return session_check(session);
    }
    session_lock(session);
    client_hold_enter_again(hold);
    list_push_back(&session->holds, &hold->in_session);
    session_unlock(session);
    events_wake(session);
    *ret_hold = hold;
    return 0;
}

int hasp_release(struct hasp_hold *hold)
{
    struct change *change;
    struct change_result result = {0};
    if (hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_release: no hold");
    }
    struct hasp_session *session = hold->session;
    int error = session_check_process(session);
    if (error != 0) {
        return error; /* The parent's; hasp_close() frees the copy. */
    }
    /* Belief ends here, before anything is sent. */
    session_lock(session);
    list_remove(&hold->in_session);
    session_unlock(session);
    struct owner *owner = hold->owner;
    error = session_check(session);
    if (error == 0) {
        const char **names = calloc(hold->count, sizeof *names);
        error = names == NULL ? why_set(HASP_ENOMEM, "out of memory") : 0;
        for (size_t i = 0; error == 0 && i < hold->count; i++) {
            names[i] = hold->held[i].name;
        }
        if (error == 0) {
            error = change_new(session, CHANGE_RELEASE, owner, names,
                               hold->count, NULL, &change);
        }
        free(names);
    }
    if (error != 0) {
        client_hold_free(hold);
        return error;
    }
    if (hold->count == 1 && hold->is_token_sure) {
        change->token = hold->held[0].token;
    }
    client_hold_free(hold);
    error = change_ask(change, 0, -1, &result);
    if (change_is_open(error)) {
        resolver_add(change);
    } else {
        change_free(change);
        owner_put(session, owner);
    }
    return error;
}

/* With the mutex nowhere held: the hold belongs to the caller. */
static void converted(struct hasp_hold *hold, uint64_t token)
{
    session_lock(hold->session);
    hold->held[0].token = token;
    hold->is_token_sure = true;
    session_unlock(hold->session);
}

int hasp_convert(struct hasp_hold *hold, enum hasp_mode mode,
                 const struct hasp_acquire_options *options)
{
    struct hasp_acquire_options all;
    struct change *change;
    uint64_t token = 0;
    struct change_result result = {.tokens = &token};
    int interrupt_fd = -1;
    if (hold == NULL || (mode != HASP_EXCLUSIVE && mode != HASP_SHARED) ||
        hold->count != 1) {
        return why_set(HASP_EINVALID,
                       "hasp_convert: one lock, to shared or exclusive");
    }
    struct hasp_session *session = hold->session;
    int error = check_options(options, &all);
    if (error == 0) {
        error = session_check(session);
    }
    if (error != 0) {
        return error;
    }
    all.mode = mode;
    const char *name = hold->held[0].name;
    error = change_new(session, CHANGE_CONVERT, hold->owner, &name, 1, &all,
                       &change);
    if (error != 0) {
        return error;
    }
    change->options.wait_ms = mode == HASP_SHARED ? 0 : all.wait_ms;
    if (change->options.wait_ms != 0) {
        error = open_interrupt(session, all.interrupt_fd, &interrupt_fd);
    }
    if (error == 0) {
        error = ask(change, interrupt_fd, &result);
        if (error == HASP_EINTR || error == HASP_EUNKNOWN ||
            error == HASP_EPROTO) {
            session_lock(session);
            hold->is_token_sure = false;
            session_unlock(session);
            error = wait_ended(change, &result, error);
            change = change_is_open(error) ? NULL : change;
        }
    }
    if (interrupt_fd >= 0) {
        close(interrupt_fd);
    }
    if (change != NULL) {
        change_free(change);
    }
    if (error != 0) {
        return error;
    }
    if (!result.is_granted) {
        return HASP_NOT_ACQUIRED;
    }
    converted(hold, token);
    return 0;
}

static int check_options(const struct hasp_acquire_options *options,
                         struct hasp_acquire_options *ret_options)
{
    hasp_acquire_options_init(ret_options);
    if (options == NULL) {
        return 0;
    }
    if (options->size < sizeof *options) {
        return why_set(HASP_EINVALID, "options without "
                                      "hasp_acquire_options_init()");
    }
    *ret_options = *options;
    if ((options->mode == HASP_SLOTS) != (options->slots != 0) ||
        options->mode < HASP_EXCLUSIVE || options->mode > HASP_SLOTS) {
        return why_set(HASP_EINVALID, "slots go with HASP_SLOTS");
    }
    return 0;
}

/* One descriptor that is readable if any of four is: the session's interrupt,
 * its loss, the caller's own; and once for each heartbeat that fails, which is
 * why nobody reads that one: every wait has an edge of its own. */
static int open_interrupt(struct hasp_session *session, int fd, int *ret_fd)
{
    int fds[] = {session->interrupt_fd, session->lost_fd, fd,
                 session->failed_fd};
    int all = epoll_create1(EPOLL_CLOEXEC);
    if (all < 0) {
        return why_set(HASP_EIO, "no descriptor: %s", strerror(errno));
    }
    for (int i = 0; i < 4; i++) {
        bool is_edge = fds[i] == session->failed_fd;
        struct epoll_event event = {.events = EPOLLIN |
                                              (is_edge ? (uint32_t)EPOLLET : 0),
                                    .data.u32 = is_edge};
        if (fds[i] >= 0 && epoll_ctl(all, EPOLL_CTL_ADD, fds[i], &event) != 0 &&
            errno != EEXIST) {
            int code = errno;
            close(all);
            return why_set(HASP_EINVALID,
                           "the interrupting descriptor cannot be polled: %s",
                           strerror(code));
        }
    }
    /* Heartbeats that failed before do not count. */
    (void)only_heartbeat_failed(all);
    struct pollfd now = {.fd = all, .events = POLLIN};
    if (poll(&now, 1, 0) > 0) {
        close(all);
        return session_is_lost(session)
                   ? why_set(HASP_ELOST, "the session is lost")
                   : why_set(HASP_EINTR, "interrupted");
    }
    *ret_fd = all;
    return 0;
}

static bool only_heartbeat_failed(int interrupt_fd)
{
    struct epoll_event events[4];
    int count = epoll_wait(interrupt_fd, events, 4, 0);
    return count == 1 && events[0].data.u32 != 0;
}

/* Nobody waits for the answer any more, or none came: asks what became of the
 * change, and leaves the queue. A grant that was interrupted is given back; one
 * whose answer was lost is welcome. If this has no answer either the resolver
 * has 'change' then, and the error is an open one. */
static int wait_ended(struct change *change, struct change_result *result,
                      int error)
{
    struct hasp_session *session = change->session;
    if (session_is_lost(session)) {
        return why_set(HASP_ELOST, "the session was lost while it waited");
    }
    int answer = change_withdraw(
        change, client_now_ns() + WITHDRAW_MS * NS_PER_MS, -1, result);
    if (answer == 0 && error != HASP_EINTR) {
        return 0;
    }
    if (answer != 0 && !change_is_open(answer)) {
        return answer;
    }
    bool is_convert = change->kind == CHANGE_CONVERT;
    if (answer == 0 && (is_convert || !result->is_granted)) {
        if (is_convert && result->is_granted) {
            return 0;
        }
        if (!is_convert) {
            struct owner *owner = change->owner;
            change_free(change);
            owner_put(session, owner);
        } else {
            change_free(change);
        }
    } else {
        resolver_add(change);
    }
    if (error == HASP_EINTR) {
        return why_set(HASP_EINTR, "interrupted");
    }
    return why_set(HASP_EUNKNOWN, "no answer in time, it may have been done "
                                  "or not; it is being given back");
}

/* Asks for the lock of the name, and finds who holds it for 'owner' in this
 * session. The reply is borrowed until 'line' is put. False: nobody, or no
 * answer ('ret_error'). */
static bool show_own(struct hasp_session *session, struct line *line,
                     const char *name, const char *owner,
                     struct lease_clock *ret_sent, uint64_t *ret_token,
                     uint64_t *ret_left_ms, int *ret_error)
{
    struct query query = {0};
    const struct resp_reply *reply;
    uint32_t at = 0;
    uint64_t own = session->opened.credentials.session;
    struct client_options ask = {.deadline_ns = client_now_ns() +
                                                SHOW_MS * NS_PER_MS,
                                 .ret_sent = ret_sent,
                                 .is_read = true};
    query_begin(&query, "LOCK.SHOW");
    query_text(&query, name);
    *ret_error = client_ask(line->client, &query, &ask, &reply);
    query_done(&query);
    if (*ret_error != 0) {
        *ret_error = line_error(session, line, *ret_error);
        return false;
    }
    uint32_t count = reply_array(reply, 0, "holders", &at);
    for (uint32_t i = 0; i < count; i++) {
        if (reply_number(reply, at, "session") == own &&
            bytes_equal(reply_text(reply, at, "owner"), bytes_of_text(owner))) {
            *ret_token = reply_number(reply, at, "token");
            *ret_left_ms = reply_number(reply, at, "hold_left_ms");
            return true;
        }
        at += reply->value[at].span;
    }
    return false;
}

/* The limit of a hold is counted from before its request was sent, which is
 * safe. Where it was waited for, that may be long ago; then the cluster is
 * asked how much is left. With several locks the first stands for all: one
 * entry of the log granted them. */
static void limit_hold(struct hasp_hold *hold, const struct change *change)
{
    struct hasp_session *session = hold->session;
    struct lease_clock sent = {0};
    struct line *line;
    uint64_t left_ms, token;
    int error;
    if (hold->limit_ms == 0 || change->options.wait_ms == 0 ||
        line_take(session, &line) != 0) {
        return;
    }
    if (show_own(session, line, hold->held[0].name, hold->owner->tag, &sent,
                 &token, &left_ms, &error) &&
        left_ms > 0) {
        hold->left_ms = left_ms < hold->limit_ms ? left_ms : hold->limit_ms;
        hold->limit_sent = sent;
    }
    line_put(session, line);
}

int hasp_resume(struct hasp_session *session, const char *name,
                const char *owner, struct hasp_hold **ret_hold)
{
    struct change change = {.session = session, .count = 1};
    struct line *line;
    struct hasp_hold *hold;
    char *copy;
    uint64_t token;
    if (name == NULL || name[0] == '\0' || owner == NULL || ret_hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_resume: a name, an owner, and "
                                      "where to put the hold");
    }
    int error = session_check(session);
    if (error == 0) {
        error = line_take(session, &line);
    }
    if (error != 0) {
        return error;
    }
    bool is_held = show_own(session, line, name, owner, &change.first_sent,
                            &token, &change.options.hold_ms, &error);
    line_put(session, line);
    if (!is_held) {
        return error != 0 ? error : HASP_NOT_ACQUIRED;
    }
    error = owner_take(session, owner, &change.owner);
    if (error != 0) {
        return error;
    }
    copy = strdup(name);
    change.names = &copy;
    error = copy == NULL ? why_set(HASP_ENOMEM, "out of memory")
                         : client_hold_new(&change, &token, &hold);
    if (error != 0) {
        free(copy);
        owner_put(session, change.owner);
        return error;
    }
    session_lock(session);
    list_push_back(&session->holds, &hold->in_session);
    session_unlock(session);
    events_wake(session);
    *ret_hold = hold;
    return 0;
}
