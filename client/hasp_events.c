/* SPDX-License-Identifier: MIT */

/* The notifier: a thread that watches the lease and the limits of holds, and
 * tells what changes. It is not the keeper's thread, so that a program's
 * callback may take its time. It wakes by CLOCK_BOOTTIME: a machine that was
 * suspended is told at once what it has lost. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/hasp_session.h"
#include "client/reply.h"
#include "client/thread.h"

#define PLEASE_MAX 64

static void *notify(void *data);
static void add_event(struct hasp_session *session, enum hasp_event_kind kind,
                      uint64_t token, struct bytes name, struct bytes text);

void fd_signal(int fd)
{
    uint64_t one = 1;
    /* It can only fail by being readable for ever, which is the purpose. */
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

void fd_clear(int fd)
{
    uint64_t count;
    ssize_t ignored = read(fd, &count, sizeof count);
    (void)ignored;
}

int events_start(struct hasp_session *session)
{
    session->timer_fd = timerfd_create(CLOCK_BOOTTIME,
                                       TFD_CLOEXEC | TFD_NONBLOCK);
    int code = client_thread_start(&session->notifier, notify, session);
    return code == 0 ? 0 : why_set(HASP_EIO, "no thread: %s", strerror(code));
}

void events_stop(struct hasp_session *session)
{
    pthread_join(session->notifier, NULL);
}

void events_free(struct hasp_session *session)
{
    LIST_EACH_SAFE (node, &session->events) {
        free(LIST_ENTRY(node, struct event_node, in_session));
    }
    list_init(&session->events);
}

void events_wake(struct hasp_session *session)
{
    fd_signal(session->wake_fd);
}

int hasp_event_fd(struct hasp_session *session)
{
    int error = session_check_process(session);
    return error != 0 ? error : session->event_fd;
}

/* With the mutex. */
static struct event_node *take_event(struct hasp_session *session)
{
    struct event_node *node = LIST_FIRST(&session->events, struct event_node,
                                         in_session);
    if (node != NULL) {
        list_remove(&node->in_session);
        session->please_count -= node->event.kind == HASP_EVENT_PLEASE;
    }
    return node;
}

bool hasp_event_next(struct hasp_session *session, struct hasp_event *ret_event)
{
    if (ret_event == NULL || session_check_process(session) != 0 ||
        session->on_event != NULL) {
        return false;
    }
    session_lock(session);
    struct event_node *node = take_event(session);
    if (list_is_empty(&session->events)) {
        fd_clear(session->event_fd);
    }
    session_unlock(session);
    if (node == NULL) {
        return false;
    }
    *ret_event = node->event;
    free(node);
    return true;
}

/* --- What the keeper's thread tells --------------------------------------- */

/* ["lock", "please", {lock, session, token, index, message}] */
void events_push(void *data, const struct resp_reply *reply)
{
    struct hasp_session *session = data;
    if (reply->value[0].count != 3 || reply->count < 4 ||
        !bytes_is_word(reply->value[2].bytes, "PLEASE") ||
        reply->value[3].type != RESP_MAP) {
        return;
    }
    session_lock(session);
    add_event(session, HASP_EVENT_PLEASE, reply_number(reply, 3, "token"),
              reply_text(reply, 3, "lock"), reply_text(reply, 3, "message"));
    session_unlock(session);
    events_wake(session);
}

void events_ended(void *data, struct bytes lock, struct bytes owner,
                  struct bytes reason, uint64_t token)
{
    struct hasp_session *session = data;
    session_lock(session);
    LIST_EACH (node, &session->holds) {
        struct hasp_hold *hold = LIST_ENTRY(node, struct hasp_hold, in_session);
        if (hold->has_ended ||
            !bytes_equal(owner, bytes_of_text(hold->owner->tag))) {
            continue;
        }
        for (size_t i = 0; i < hold->count && !hold->has_ended; i++) {
            hold->has_ended = bytes_equal(lock,
                                          bytes_of_text(hold->held[i].name)) &&
                              (token == hold->held[i].token ||
                               !hold->is_token_sure);
        }
        if (hold->has_ended && !hold->is_told) {
            hold->is_told = true;
            add_event(session, HASP_EVENT_LOST, token, lock, reason);
        }
    }
    session_unlock(session);
    events_wake(session);
}

/* --- The queue ------------------------------------------------------------ */

static void copy_text(char *out, size_t size, struct bytes text)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    if (count > 0) {
        memcpy(out, text.data, count);
    }
    out[count] = '\0';
}

/* With the mutex. */
static void add_event(struct hasp_session *session, enum hasp_event_kind kind,
                      uint64_t token, struct bytes name, struct bytes text)
{
    if (kind == HASP_EVENT_PLEASE && session->please_count >= PLEASE_MAX) {
        return;
    }
    struct event_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return; /* hasp_guard() tells it as well. */
    }
    node->event.kind = kind;
    node->event.token = token;
    copy_text(node->event.name, sizeof node->event.name, name);
    copy_text(node->event.text, sizeof node->event.text, text);
    session->please_count += kind == HASP_EVENT_PLEASE;
    list_push_back(&session->events, &node->in_session);
    if (session->on_event == NULL) {
        fd_signal(session->event_fd);
    }
}

static void deliver(struct hasp_session *session)
{
    while (session->on_event != NULL) {
        session_lock(session);
        struct event_node *node = take_event(session);
        session_unlock(session);
        if (node == NULL) {
            return;
        }
        session->on_event(session->event_data, &node->event);
        free(node);
    }
}

/* --- The thread ----------------------------------------------------------- */

static void tell_state(struct hasp_session *session, enum lease_state *told,
                       const struct keeper_view *view)
{
    static const struct {
        enum hasp_event_kind kind;
        const char *text;
    } events[] = {
        [LEASE_HELD] = {HASP_EVENT_SAFE, "the lease is renewed"},
        [LEASE_JEOPARDY] = {HASP_EVENT_JEOPARDY, "no answer for too long"},
        [LEASE_LOST] = {HASP_EVENT_LOST, "the lease has run out"},
    };
    if (view->state == *told) {
        return;
    }
    const char *text = events[view->state].text;
    if (view->state != LEASE_HELD && view->why[0] != '\0') {
        text = view->why;
    }
    *told = view->state;
    session_lock(session);
    add_event(session, events[view->state].kind, 0, bytes_of(NULL, 0),
              bytes_of_text(text));
    session_unlock(session);
    if (view->state == LEASE_LOST) {
        fd_signal(session->lost_fd);
    }
}

/* Tells of holds whose limit is over; gives the time until the next one. */
static uint64_t tell_limits(struct hasp_session *session, bool is_lost)
{
    uint64_t next_ns = UINT64_MAX;
    struct lease_clock now = client_clock_read();
    session_lock(session);
    LIST_EACH (node, &session->holds) {
        struct hasp_hold *hold = LIST_ENTRY(node, struct hasp_hold, in_session);
        uint64_t left_ns = client_hold_limit_ns(hold, now);
        if (left_ns == 0 && !hold->is_told && !is_lost) {
            add_event(session, HASP_EVENT_LOST, hold->held[0].token,
                      bytes_of_text(hold->held[0].name),
                      BYTES_LITERAL("max hold"));
        }
        hold->is_told |= left_ns == 0;
        if (left_ns != 0 && left_ns < next_ns) {
            next_ns = left_ns;
        }
    }
    session_unlock(session);
    return next_ns;
}

static void set_timer(int fd, uint64_t left_ns)
{
    struct itimerspec spec = {0};
    if (left_ns != UINT64_MAX) {
        /* A little later, so that it is over when it is looked at. */
        left_ns += NS_PER_MS / 10;
        spec.it_value.tv_sec = (time_t)(left_ns / NS_PER_S);
        spec.it_value.tv_nsec = (long)(left_ns % NS_PER_S);
    }
    timerfd_settime(fd, 0, &spec, NULL);
}

static void *notify(void *data)
{
    struct hasp_session *session = data;
    enum lease_state told = LEASE_HELD;
    int timer_fd = session->timer_fd;
    for (;;) {
        struct keeper_view view;
        keeper_view(session->keeper, &view);
        tell_state(session, &told, &view);
        uint64_t next_ns = tell_limits(session, view.state == LEASE_LOST);
        deliver(session);
        uint64_t lease_ns = view.state == LEASE_HELD       ? view.remaining_ns
                            : view.state == LEASE_JEOPARDY ? view.sure_ns
                                                           : UINT64_MAX;
        next_ns = lease_ns < next_ns ? lease_ns : next_ns;
        set_timer(timer_fd, next_ns);
        struct pollfd fds[] = {
            {.fd = session->stop_fd, .events = POLLIN},
            {.fd = keeper_fd(session->keeper), .events = POLLIN},
            {.fd = session->wake_fd, .events = POLLIN},
            {.fd = timer_fd, .events = POLLIN},
        };
        /* Without a timer (no descriptor was left) it looks now and then. */
        poll(fds, 4, timer_fd < 0 ? 50 : -1);
        if (fds[0].revents != 0) {
            break;
        }
        for (int i = 1; i < 4; i++) {
            if (fds[i].revents != 0 && fds[i].fd >= 0) {
                fd_clear(fds[i].fd);
            }
        }
    }
    return NULL;
}
