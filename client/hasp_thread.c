/* SPDX-License-Identifier: MIT */

/* The driver with a thread of its own, one for each link: it has the socket and
 * one timer, and nothing else. Calls are begun by the threads that make them,
 * which send what they can at once, and wait.
 *
 * The timer runs on CLOCK_BOOTTIME, so that a loss is reported at once after
 * the machine was suspended. Setting it to now wakes the thread, with one
 * system call, so also from a signal handler. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/hasp_session.h"
#include "client/thread.h"

/* --- The thread ----------------------------------------------------------- */

static void thread_set_timer(int fd, uint64_t left_ns)
{
    struct itimerspec spec = {0};
    if (left_ns != UINT64_MAX) {
        /* The timer is set a little later, so that the time has passed when it
         * is checked. */
        left_ns += left_ns != 0 ? NS_PER_MS / 10 : 1;
        spec.it_value.tv_sec = (time_t)(left_ns / NS_PER_S);
        spec.it_value.tv_nsec = (long)(left_ns % NS_PER_S);
    }
    timerfd_settime(fd, 0, &spec, NULL);
}

static void thread_wake(struct link *link)
{
    atomic_fetch_add(&link->wake_count, 1);
    thread_set_timer(link->timer_fd, 0);
}

/* Sets the timer. The caller holds the mutex. */
static void thread_arm(struct link *link, struct lease_clock now)
{
    uint64_t left_ns = cluster_conn_left_ns(&link->conn, now);
    uint64_t at_ns = left_ns < UINT64_MAX - now.boottime_ns
                         ? now.boottime_ns + left_ns
                         : UINT64_MAX;
    if (at_ns != link->armed_ns) {
        link->armed_ns = at_ns;
        thread_set_timer(link->timer_fd, left_ns);
        /* A wake-up that arrived meanwhile must not be delayed. */
        if (atomic_load(&link->wake_count) != link->seen_count) {
            thread_set_timer(link->timer_fd, 0);
        }
    }
}

/* Sends a call that has begun, if that is possible at once. */
static void thread_drive(struct link *link)
{
    struct lease_clock now = client_clock_read();
    link_turn(link, now);
    transport_flush(&link->transport, &link->conn);
    bool is_done = link->transport.number == link->conn.number &&
                   (transport_events(&link->transport, &link->conn) &
                    POLLOUT) == 0;
    if (is_done) {
        thread_arm(link, now);
    } else {
        thread_wake(link);
    }
}

/* Timer and socket, which need room without an allocation, and a few
 * descriptors that interrupt. */
#define FEW 8

/* The descriptors to wait for: timer, socket, and those that interrupt. */
struct poll_set {
    struct pollfd *fds; /* 'few', or an array with more room. */
    nfds_t room;
    struct pollfd few[FEW];
};

static nfds_t thread_fill(struct poll_set *set, struct link *link)
{
    nfds_t count = 0, needed = 2;
    LIST_EACH (node, &link->interrupts) {
        needed++;
    }
    if (needed > set->room) {
        /* Without memory the last descriptors interrupt later. */
        struct pollfd *larger = set->fds != set->few ? set->fds : NULL;
        larger = realloc(larger, 2 * needed * sizeof *larger);
        if (larger != NULL) {
            set->fds = larger;
            set->room = 2 * needed;
        }
    }
    set->fds[count++] = (struct pollfd){.fd = link->timer_fd, .events = POLLIN};
    set->fds[count++] = (struct pollfd){
        .fd = link->transport.fd,
        .events = transport_events(&link->transport, &link->conn)};
    LIST_FOR (struct waiting, wait, &link->interrupts, in_link) {
        if (count < set->room) {
            set->fds[count++] = (struct pollfd){.fd = wait->interrupt_fd,
                                                .events = POLLIN};
        }
    }
    return count;
}

/* Ends the waits whose descriptor is readable. */
static void thread_interrupt(struct link *link, const struct pollfd *fd)
{
    struct lease_clock now = client_clock_read();
    LIST_FOR_SAFE (struct waiting, wait, &link->interrupts, in_link) {
        if (wait->interrupt_fd == fd->fd && fd->revents != 0) {
            list_remove(&wait->in_link);
            session_fsm_interrupt(&wait->session->fsm, &wait->call, now);
        }
    }
}

static void thread_wait_for_news(struct link *link, struct poll_set *set)
{
    uint64_t ticks;
    nfds_t count = thread_fill(set, link);
    pthread_mutex_unlock(&link->mutex);
    int ready = poll(set->fds, count, -1);
    if (ready > 0 && set->fds[0].revents != 0) {
        ssize_t ignored = read(link->timer_fd, &ticks, sizeof ticks);
        (void)ignored;
    }
    /* Callers change the link while poll() waits without the mutex; what they
     * began is seen in the next turn, since they wake the thread. */
    pthread_mutex_lock(&link->mutex);
    if (ready <= 0) {
        return;
    }
    if (set->fds[0].revents != 0) {
        link->armed_ns = 0;
    }
    if (set->fds[1].revents != 0) {
        transport_ready(&link->transport, &link->conn);
    }
    for (nfds_t i = 2; i < count; i++) {
        thread_interrupt(link, &set->fds[i]);
    }
}

/* Frees orphaned sessions once they are cleaned up. True: they were the link's
 * last ones. */
static bool free_orphans(struct link *link)
{
    uint32_t count = session_free_orphans(link, false);
    if (count == 0) {
        return false;
    }
    pthread_mutex_unlock(&link->mutex); /* The registry's lock comes first. */
    bool is_last = link_forget(link, count);
    pthread_mutex_lock(&link->mutex);
    return is_last;
}

/* Ends a link that only had orphans: its thread is not joined. */
static void end_alone(struct link *link)
{
    pthread_detach(pthread_self());
    close(link->timer_fd);
    link_free(link);
}

static void *thread_run(void *data)
{
    struct link *link = data;
    struct poll_set set = {.fds = set.few, .room = FEW};
    bool is_alone = false;
    pthread_mutex_lock(&link->mutex);
    while (!link->is_stopping) {
        /* Read before the turn: whatever is begun after this wakes the thread
         * again. */
        link->seen_count = atomic_load(&link->wake_count);
        link_turn(link, client_clock_read());
        is_alone = free_orphans(link);
        if (is_alone) {
            break;
        }
        transport_turn(&link->transport, &link->conn, &link->mutex);
        thread_arm(link, client_clock_read());
        thread_wait_for_news(link, &set);
    }
    pthread_mutex_unlock(&link->mutex);
    if (set.fds != set.few) {
        free(set.fds);
    }
    if (is_alone) {
        end_alone(link);
    }
    return NULL;
}

static int thread_start(struct link *link)
{
    link->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (link->timer_fd < 0) {
        return why_set(HASP_EIO, "no descriptor: %s", strerror(errno));
    }
    int code = client_thread_start(&link->thread, thread_run, link);
    if (code != 0) {
        close(link->timer_fd);
        return why_set(HASP_EIO, "no thread: %s", strerror(code));
    }
    return 0;
}

static void thread_stop(struct link *link)
{
    pthread_mutex_lock(&link->mutex);
    link->is_stopping = true;
    thread_wake(link);
    pthread_mutex_unlock(&link->mutex);
    pthread_join(link->thread, NULL);
    close(link->timer_fd);
    link_free(link);
}

const struct link_driver thread_driver = {.size = sizeof(struct link),
                                          .start = thread_start,
                                          .stop = thread_stop,
                                          .drive = thread_drive,
                                          .wake = thread_wake};

/* --- Threads that call the program ---------------------------------------- */

/* The thread that runs the program's callback, which may take its time, and
 * nothing else. */
static void *thread_notify(void *data)
{
    struct hasp_session *session = data;
    session_lock(session);
    while (!session->notifier.is_stopping) {
        struct event_node *node = session_fsm_take_event(&session->fsm);
        if (node == NULL) {
            pthread_cond_wait(&session->news, &session->link->mutex);
            continue;
        }
        session_unlock(session);
        session->on_event(session->event_data, &node->event);
        free(node);
        session_lock(session);
    }
    session_unlock(session);
    return NULL;
}

/* The thread that calls hooks. It ends when all have been called. */
static void *thread_call_hooks(void *data)
{
    struct hasp_session *session = data;
    struct hasp_hook_event event;
    session_lock(session);
    for (;;) {
        if (session_take_hook(session, &event)) {
            session_unlock(session);
            hooks_call(&session->fsm.hooks.hooks, &event);
            session_lock(session);
        } else if (session->hooker.is_stopping) {
            break;
        } else {
            pthread_cond_wait(&session->news, &session->link->mutex);
        }
    }
    session_unlock(session);
    return NULL;
}

static int session_thread_start(struct hasp_session *session,
                                struct session_thread *one,
                                void *(*run)(void *data))
{
    int code = client_thread_start(&one->thread, run, session);
    one->is_there = code == 0;
    return code == 0 ? 0 : why_set(HASP_EIO, "no thread: %s", strerror(code));
}

static void session_thread_stop(struct hasp_session *session,
                                struct session_thread *one)
{
    if (one->is_there) {
        session_lock(session);
        one->is_stopping = true;
        pthread_cond_broadcast(&session->news);
        session_unlock(session);
        pthread_join(one->thread, NULL);
    }
}

int notifier_start(struct hasp_session *session)
{
    return session->on_event == NULL
               ? 0
               : session_thread_start(session, &session->notifier,
                                      thread_notify);
}

void notifier_stop(struct hasp_session *session)
{
    session_thread_stop(session, &session->notifier);
}

int hooker_start(struct hasp_session *session)
{
    return !session->fsm.hooks.is_on
               ? 0
               : session_thread_start(session, &session->hooker,
                                      thread_call_hooks);
}

void hooker_stop(struct hasp_session *session)
{
    session_thread_stop(session, &session->hooker);
}

/* --- Calls that wait ------------------------------------------------------ */

static void thread_ended(struct client_call *call)
{
    struct waiting *wait = call->data;
    wait->has_ended = true;
    list_remove(&wait->in_session);
    list_remove(&wait->in_link);
    pthread_cond_signal(&wait->end);
}

void wait_init(struct waiting *wait, struct hasp_session *session)
{
    *wait = (struct waiting){.call = {.done = thread_ended, .data = wait},
                             .session = session,
                             .interrupt_fd = -1};
    list_init(&wait->in_session);
    list_init(&wait->in_link);
    pthread_cond_init(&wait->end, NULL);
}

int wait_lock(struct hasp_session *session, struct waiting *wait,
              struct lease_clock *now)
{
    char text[HASP_WHY_SIZE];
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    session_lock(session);
    *now = client_clock_read();
    error = session_fsm_check(&session->fsm, *now, text);
    if (error != 0) {
        /* On success the caller has the mutex, and keeps it until the call has
         * ended. */
        session_unlock(session);
        return why_set(error, "%s", text);
    }
    if (wait != NULL) {
        wait_init(wait, session);
    }
    return 0;
}

int call_wait_end(struct waiting *wait, int error)
{
    struct hasp_session *session = wait->session;
    if (error == HASP_ENOMEM) {
        why_set(error, "out of memory");
    }
    if (error == 0) {
        session->link->driver->drive(session->link);
        /* The mutex is held from the start of the call, so the end cannot be
         * missed. */
        while (!wait->has_ended) {
            pthread_cond_wait(&wait->end, &session->link->mutex);
        }
        error = wait->call.error;
    }
    list_remove(&wait->in_session);
    list_remove(&wait->in_link);
    session_unlock(session);
    pthread_cond_destroy(&wait->end);
    if (error < 0 && wait->call.error == error) {
        why_set(error, "%s", wait->call.why);
    }
    return error;
}
