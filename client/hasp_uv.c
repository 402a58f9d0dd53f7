/* SPDX-License-Identifier: MIT */

/* The driver on a libuv loop, for include/hasp/hasp_uv.h: one socket, one
 * timer, one uv_async_t for each link, and no thread.
 *
 * Turns run only on the loop's thread, in on_turn(). Only there callbacks are
 * called, so never inside the call that they answer. Every function that starts
 * something, on any thread, sends the uv_async_t. */

#include "include/hasp/hasp_uv.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "base/minmax.h"
#include "client/hasp_session.h"

/* One call. */
struct job {
    /* In the link's list of jobs that are done, or that wait for the agent. */
    struct list in_link;
    struct hasp_uv *uv;
    struct waiting wait;
    /* Polls the descriptor that interrupts the job; or NULL. */
    uv_poll_t *poll;
    int poll_fd;
    bool is_open;     /* This job opens the session. */
    bool is_untie;    /* This job unties it. */
    uint64_t late_ns; /* Deadline of the agent's answer. */
    hasp_uv_fn *done;
    hasp_uv_hold_fn *held;
    void *data;
};

/* A name being resolved; freed when that has ended. */
struct lookup {
    uv_getaddrinfo_t resolve;
    struct loop_link *in;
    uint32_t number; /* Number of its connection. */
};

/* A link on a loop. */
struct loop_link {
    struct link link;
    uv_loop_t *loop;
    uv_async_t async;
    uv_timer_t timer;
    uv_poll_t *poll;  /* Polls the connection; or NULL. */
    uint32_t handles; /* Handles in the loop. */
    struct list done; /* Jobs whose callbacks are due. */
    /* Sessions that have events for a callback. Guarded by the mutex: the
     * thread of ties adds to it. */
    struct list news;
    struct list tying;   /* Jobs that wait for the agent, the oldest first. */
    struct list closing; /* Sessions that are being closed. */
    bool is_telling;
    /* The last session's callback, for when all is out of the loop. */
    hasp_uv_fn *closed;
    void *closed_data;
};

struct hasp_uv {
    struct hasp_session session;
    struct list in_news;
    struct list in_closing;
    uint32_t polls; /* How many polls are in the loop. */
    /* Jobs, with those whose callbacks are due. */
    uint32_t jobs;
    struct hasp_options options; /* Only tie, agent and ttl_ms are valid. */
    bool is_open;                /* The program has it. */
    bool is_opened;              /* The cluster has it. */
    bool is_closing;
    bool has_ended; /* The session is closed, or was never opened. */
    struct job close_job;
    hasp_uv_fn *closed;
    void *closed_data;
};

static void on_turn(struct loop_link *in);

static struct loop_link *link_of(const struct hasp_uv *uv)
{
    return (struct loop_link *)uv->session.link;
}

/* Frees the link when its last handle has left the loop. */
static void driver_let_go(struct loop_link *in)
{
    hasp_uv_fn *closed = in->closed;
    void *data = in->closed_data;
    in->handles--;
    if (in->handles > 0) {
        return;
    }
    link_free(&in->link);
    if (closed != NULL) {
        closed(data, 0, "");
    }
}

/* --- The connection ------------------------------------------------------- */

/* Makes a poll, with 'data' for its callback; NULL if the descriptor cannot be
 * polled. */
static uv_poll_t *poll_new(struct loop_link *in, int fd, void *data)
{
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (poll == NULL || uv_poll_init(in->loop, poll, fd) != 0) {
        free(poll);
        return NULL;
    }
    poll->data = data;
    return poll;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct loop_link *in = handle->data;
    free(handle);
    driver_let_go(in);
}

/* Stops polling; the descriptor may be closed after this. */
static void stop_polling(struct loop_link *in)
{
    if (in->poll != NULL) {
        uv_close((uv_handle_t *)in->poll, on_poll_closed);
        in->poll = NULL;
    }
}

static void driver_on_ready(uv_poll_t *poll, int status, int events)
{
    struct loop_link *in = poll->data;
    struct link *link = &in->link;
    (void)status;
    (void)events;
    if (link->transport.is_connecting) {
        stop_polling(in); /* The transport may try another address. */
    }
    pthread_mutex_lock(&link->mutex);
    transport_ready(&link->transport, &link->conn);
    pthread_mutex_unlock(&link->mutex);
    on_turn(in);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status,
                        struct addrinfo *addresses)
{
    struct lookup *lookup = resolve->data;
    struct loop_link *in = lookup->in;
    struct link *link = &in->link;
    bool is_closing = uv_is_closing((uv_handle_t *)&in->async);
    /* For a value that is not an error it allocates a text, which would
     * leak. */
    const char *why = status != 0 ? uv_strerror(status) : "";
    if (lookup->number == link->transport.number && !is_closing) {
        pthread_mutex_lock(&link->mutex);
        transport_connect(&link->transport, &link->conn, addresses, why);
        pthread_mutex_unlock(&link->mutex);
    } else {
        uv_freeaddrinfo(addresses);
    }
    free(lookup);
    on_turn(in);
    driver_let_go(in);
}

/* Starts to resolve a name. The caller holds the mutex. */
static void driver_look_up(struct loop_link *in,
                           const struct endpoint *endpoint)
{
    struct addrinfo hints = TRANSPORT_HINTS;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int code = UV_ENOMEM;
    if (lookup != NULL) {
        lookup->in = in;
        /* The connection can be given up meanwhile; an address that arrives
         * late for an earlier one is ignored. */
        lookup->number = in->link.transport.number;
        lookup->resolve.data = lookup;
        code = uv_getaddrinfo(in->loop, &lookup->resolve, on_resolved,
                              endpoint->host, endpoint->port, &hints);
    }
    if (code == 0) {
        in->handles++;
        return;
    }
    free(lookup);
    transport_connect(&in->link.transport, &in->link.conn, NULL,
                      uv_strerror(code));
}

/* Polls the connection. The caller holds the mutex. */
static void follow_asker(struct loop_link *in)
{
    struct transport *transport = &in->link.transport;
    struct cluster_conn *conn = &in->link.conn;
    /* An attempt that fails at once moves on to the next endpoint: the loop
     * follows until one is under way. */
    while (transport_is_late(transport, conn)) {
        stop_polling(in);
        transport_renew(transport, conn, NULL);
        const struct endpoint *endpoint = transport_follow(transport, conn);
        if (endpoint != NULL) {
            driver_look_up(in, endpoint);
        }
    }
    transport_flush(transport, conn);
    if (transport->fd < 0) {
        return;
    }
    if (in->poll == NULL) {
        in->poll = poll_new(in, transport->fd, in);
        in->handles += in->poll != NULL;
    }
    if (in->poll == NULL) {
        cluster_conn_failed(conn, "cannot be polled", client_clock_read());
        return;
    }
    bool writes = (transport_events(transport, conn) & POLLOUT) != 0;
    uv_poll_start(in->poll, UV_READABLE | (writes ? UV_WRITABLE : 0),
                  driver_on_ready);
}

/* --- Calls ---------------------------------------------------------------- */

static void driver_wake(struct link *link)
{
    uv_async_send(&((struct loop_link *)link)->async);
}

static void on_interrupt_closed(uv_handle_t *handle)
{
    struct hasp_uv *uv = handle->data;
    uv->polls--;
    free(handle);
    driver_wake(uv->session.link);
}

static void stop_poll(struct job *job)
{
    if (job->poll != NULL) {
        job->poll->data = job->uv;
        uv_close((uv_handle_t *)job->poll, on_interrupt_closed);
        job->poll = NULL;
        close(job->poll_fd);
    }
}

static void on_interrupted(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    struct hasp_session *session = &job->uv->session;
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    session_lock(session);
    session_fsm_interrupt(&session->fsm, &job->wait.call, client_clock_read());
    session_unlock(session);
    driver_wake(session->link);
}

/* Watches a copy of the descriptor, since a loop can poll each only once. */
static int start_poll(struct job *job, int fd)
{
    if (fd < 0) {
        return 0;
    }
    job->poll_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    job->poll = job->poll_fd >= 0
                    ? poll_new(link_of(job->uv), job->poll_fd, job)
                    : NULL;
    if (job->poll == NULL) {
        if (job->poll_fd >= 0) {
            close(job->poll_fd);
        }
        return why_set(HASP_EINVALID,
                       "the interrupting descriptor cannot be polled");
    }
    job->uv->polls++;
    uv_poll_start(job->poll, UV_READABLE, on_interrupted);
    return 0;
}

/* Is called on the loop's thread, with the mutex held. */
static void driver_on_ended(struct client_call *call)
{
    struct job *job = call->data;
    list_remove(&job->wait.in_session);
    list_push_back(&link_of(job->uv)->done, &job->in_link);
}

static void job_init(struct job *job, struct hasp_uv *uv, void *data)
{
    *job = (struct job){.uv = uv,
                        .data = data,
                        .wait = {.call = {.done = driver_on_ended, .data = job},
                                 .session = &uv->session,
                                 .interrupt_fd = -1}};
    list_init(&job->in_link);
    list_init(&job->wait.in_session);
}

/* Makes a job, unless 'error', which the check of the arguments gave, is set.
 */
static int job_new(struct hasp_uv *uv, int error, void *data,
                   struct job **ret_job)
{
    if (error != 0) {
        return error;
    }
    struct job *job = malloc(sizeof *job);
    if (job == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    job_init(job, uv, data);
    *ret_job = job;
    return 0;
}

/* Completes the start of a job, and unlocks the mutex. An error of the call
 * itself is returned, and nothing was started; any other error goes to the
 * callback. */
static int driver_begun(struct job *job, int error)
{
    struct hasp_uv *uv = job->uv;
    if (error == HASP_ENOMEM || error == HASP_EINVALID) {
        session_unlock(&uv->session);
        if (error == HASP_ENOMEM) {
            why_set(error, "out of memory");
        } else if (job->wait.call.error == error) {
            why_set(error, "%s", job->wait.call.why);
        }
        stop_poll(job);
        list_remove(&job->wait.in_session);
        free(job);
        return error;
    }
    /* Counted first: the loop counts it down once it has called back. */
    uv->jobs++;
    if (error != 0) {
        job->wait.call.error = error;
        driver_on_ended(&job->wait.call);
    }
    session_unlock(&uv->session);
    driver_wake(uv->session.link);
    return 0;
}

/* Like wait_lock(), but the mutex is locked even on an error. */
static int driver_lock(struct job *job, struct lease_clock *now)
{
    struct hasp_session *session = &job->uv->session;
    session_lock(session);
    *now = client_clock_read();
    return session_fsm_check(&session->fsm, *now, job->wait.call.why);
}

/* Takes the mutex, and watches what may interrupt the wait. */
static int driver_begin_wait(struct job *job,
                             const struct hasp_acquire_options *options,
                             struct lease_clock *now)
{
    struct hasp_session *session = &job->uv->session;
    int error = driver_lock(job, now);
    if (error != 0 || options->wait_ms == 0) {
        return error;
    }
    error = wait_check(session, options->interrupt_fd);
    if (error == 0) {
        error = start_poll(job, options->interrupt_fd);
        list_push_back(&session->waits, &job->wait.in_session);
    }
    snprintf(job->wait.call.why, sizeof job->wait.call.why, "%s",
             error != 0 ? hasp_why() : "");
    return error;
}

/* --- Ties ----------------------------------------------------------------- */

/* Until the agent has answered, whose thread wakes the loop. */
static void job_wait_for_agent(struct job *job)
{
    job->late_ns = client_now_ns() + TIE_WAIT_MS * NS_PER_MS;
    list_push_back(&link_of(job->uv)->tying, &job->in_link);
    driver_wake(job->uv->session.link);
}

/* Ties a session that the cluster has opened. True: the job waits for it. */
static bool driver_tie(struct job *job)
{
    struct hasp_uv *uv = job->uv;
    struct client_call *call = &job->wait.call;
    if (uv->options.tie == HASP_TIE_NONE || uv->session.tie != NULL) {
        return false;
    }
    call->error = session_tie_begin(&uv->session, &uv->options);
    if (call->error != 0) {
        snprintf(call->why, sizeof call->why, "%s", hasp_why());
        return false;
    }
    if (uv->options.tie == HASP_TIE_MUST) {
        job_wait_for_agent(job);
        return true;
    }
    return false;
}

/* Not under the mutex, which the agent's thread takes while it has its own. */
static enum tie_progress job_ask_tie(struct job *job, uint64_t now_ns)
{
    char text[HASP_WHY_SIZE];
    struct hasp_uv *uv = job->uv;
    struct client_call *call = &job->wait.call;
    bool is_late = now_ns >= job->late_ns || uv->is_closing;
    enum tie_progress progress = job->is_untie
                                     ? tie_undo_step(uv->session.tie, is_late,
                                                     text)
                                     : tie_look(uv->session.tie, text);
    if (progress == TIE_PENDING && is_late) {
        progress = TIE_FAILED;
    }
    if (progress == TIE_FAILED && job->is_untie) {
        call->error = HASP_EBUSY;
        snprintf(call->why, sizeof call->why, SESSION_STAYS_TIED, text);
    } else if (progress == TIE_FAILED) {
        call->error = HASP_ECONNECT;
        snprintf(call->why, sizeof call->why, SESSION_NOT_TIED, text);
    }
    return progress;
}

static void driver_ask_ties(struct loop_link *in)
{
    uint64_t now_ns = client_now_ns();
    LIST_FOR_SAFE (struct job, job, &in->tying, in_link) {
        if (job_ask_tie(job, now_ns) != TIE_PENDING) {
            list_remove(&job->in_link);
            list_push_back(&in->done, &job->in_link);
        }
    }
}

static uint64_t driver_tie_left_ns(const struct loop_link *in)
{
    if (list_is_empty(&in->tying)) {
        return UINT64_MAX;
    }
    uint64_t late_ns = LIST_FIRST(&in->tying, struct job, in_link)->late_ns;
    uint64_t now_ns = client_now_ns();
    return late_ns > now_ns ? late_ns - now_ns : 0;
}

/* --- Calls of the program --------------------------------------------------
 */

static int driver_check(const struct hasp_uv *uv, bool is_ok)
{
    return uv == NULL || !uv->is_open || uv->is_closing || !is_ok
               ? why_set(HASP_EINVALID, "hasp_uv: not open, or an argument is "
                                        "missing")
               : 0;
}

int hasp_uv_acquire(struct hasp_uv *uv, const char *name,
                    const struct hasp_acquire_options *options,
                    hasp_uv_hold_fn *done, void *data)
{
    return hasp_uv_acquire_many(uv, &name, 1, options, done, data);
}

int hasp_uv_acquire_many(struct hasp_uv *uv, const char *const *names,
                         size_t count,
                         const struct hasp_acquire_options *options,
                         hasp_uv_hold_fn *done, void *data)
{
    struct hasp_acquire_options all;
    struct lease_clock now;
    struct job *job;
    int error = driver_check(uv, done != NULL);
    if (error == 0) {
        error = acquire_check(names, count, options, &all);
    }
    if (error == 0 && all.on_grant != NULL) {
        error = why_set(HASP_EINVALID, "hasp_uv_acquire has no on_grant, which "
                                       "would block the loop: seal the "
                                       "resource in 'done'");
    }
    error = job_new(uv, error, data, &job);
    if (error != 0) {
        return error;
    }
    job->held = done;
    error = driver_begin_wait(job, &all, &now);
    if (error == HASP_ELOST) {
        session_fsm_refused(&uv->session.fsm, names[0], all.trace,
                            job->wait.call.why, now);
    }
    if (error == 0) {
        error = session_fsm_acquire(&uv->session.fsm, names, count, &all,
                                    &job->wait.call, now);
    }
    return driver_begun(job, error);
}

int hasp_uv_convert(struct hasp_uv *uv, struct hasp_hold *hold,
                    enum hasp_mode mode,
                    const struct hasp_acquire_options *options,
                    hasp_uv_fn *done, void *data)
{
    struct hasp_acquire_options all;
    struct lease_clock now;
    struct job *job;
    int error = driver_check(uv, done != NULL);
    if (error == 0) {
        error = convert_check(hold, mode, options, &all);
    }
    error = job_new(uv, error, data, &job);
    if (error != 0) {
        return error;
    }
    job->done = done;
    error = driver_begin_wait(job, &all, &now);
    if (error == 0) {
        error = session_fsm_convert(hold->fsm, hold, &all, &job->wait.call,
                                    now);
    }
    return driver_begun(job, error);
}

int hasp_uv_release(struct hasp_uv *uv, struct hasp_hold *hold,
                    hasp_uv_fn *done, void *data)
{
    struct lease_clock now;
    struct job *job;
    int error = job_new(uv, driver_check(uv, hold != NULL), data, &job);
    if (error != 0) {
        return error;
    }
    job->done = done;
    error = driver_lock(job, &now);
    if (error != 0) {
        session_fsm_forget(&uv->session.fsm, hold);
        return driver_begun(job, error);
    }
    error = session_fsm_release(&uv->session.fsm, hold, &job->wait.call, now);
    /* The hold is freed, so even this error goes to the callback. */
    return driver_begun(job, error == HASP_ENOMEM ? HASP_EUNKNOWN : error);
}

int hasp_uv_untie(struct hasp_uv *uv, hasp_uv_fn *done, void *data)
{
    struct job *job;
    int error = job_new(uv, driver_check(uv, done != NULL), data, &job);
    if (error != 0) {
        return error;
    }
    job->done = done;
    job->is_untie = true;
    uv->jobs++;
    if (uv->session.tie != NULL) {
        job_wait_for_agent(job);
    } else {
        list_push_back(&link_of(uv)->done, &job->in_link);
        driver_wake(uv->session.link);
    }
    return 0;
}

struct hasp_session *hasp_uv_session(struct hasp_uv *uv)
{
    return uv != NULL && uv->is_open ? &uv->session : NULL;
}

/* --- Turns ---------------------------------------------------------------- */

/* Events that came before it was tied are due now. */
static void driver_tell_kept_events(struct hasp_uv *uv)
{
    session_lock(&uv->session);
    if (!list_is_empty(&uv->session.fsm.events)) {
        uv->session.fsm.news(&uv->session.fsm);
    }
    session_unlock(&uv->session);
}

static void driver_tell(struct job *job)
{
    struct hasp_uv *uv = job->uv;
    struct client_call *call = &job->wait.call;
    if (job->is_open && call->error == 0) {
        uv->is_opened = true;
        if (driver_tie(job)) {
            return;
        }
    }
    const char *why = call->error < 0 ? call->why : "";
    stop_poll(job);
    uv->jobs--;
    if (job == &uv->close_job) {
        uv->has_ended = true;
        return;
    }
    if (job->is_open && call->error == 0) {
        uv->is_open = true;
        driver_tell_kept_events(uv);
        /* hasp_uv_close() was called while OPEN was under way. */
        if (uv->is_closing) {
            session_set_interrupted(&uv->session);
        }
    }
    if (job->held != NULL) {
        if (call->error == 0) {
            call->hold->session = &uv->session;
        }
        job->held(job->data, call->error, why,
                  call->error == 0 ? call->hold : NULL);
    } else if (job->done != NULL) {
        job->done(job->data, call->error, why);
    }
    free(job);
}

/* Calls a hook; false: there is no event for it. */
static bool driver_call_hook(struct hasp_uv *uv)
{
    struct hasp_hook_event event;
    session_lock(&uv->session);
    bool has_one = session_take_hook(&uv->session, &event);
    session_unlock(&uv->session);
    if (has_one) {
        hooks_call(&uv->session.fsm.hooks.hooks, &event);
    }
    return has_one;
}

/* Calls the callback for the session's events, or a hook; there can be more
 * when it returns. */
static void tell_events(struct hasp_uv *uv)
{
    if (driver_call_hook(uv)) {
        return;
    }
    session_lock(&uv->session);
    /* Without a tie that it must have, the program never gets the session. */
    bool is_told = uv->session.on_event != NULL &&
                   (uv->is_open || uv->session.tie == NULL);
    struct event_node *node = is_told ? session_fsm_take_event(&uv->session.fsm)
                                      : NULL;
    if (node == NULL && uv->session.fsm.hooks.count == 0) {
        list_remove(&uv->in_news);
    }
    session_unlock(&uv->session);
    if (node != NULL && !uv->is_closing) {
        uv->session.on_event(uv->session.event_data, &node->event);
    }
    free(node);
}

/* Is called with the mutex held. */
static void on_news(struct session_fsm *fsm)
{
    struct hasp_uv *uv = LIST_ENTRY(fsm, struct hasp_uv, session.fsm);
    session_news(fsm);
    if (uv->session.on_event != NULL || fsm->hooks.is_on) {
        list_remove(&uv->in_news);
        list_push_back(&link_of(uv)->news, &uv->in_news);
    }
}

static void driver_free(struct hasp_uv *uv)
{
    if (uv != NULL) {
        free((char *)uv->options.agent);
        free(uv);
    }
}

/* Ends a session that has nothing left in the loop. If it was the last of its
 * link, the link is freed first, and 'closed' is called then. */
static void driver_end(struct hasp_uv *uv)
{
    struct loop_link *in = link_of(uv);
    hasp_uv_fn *closed = uv->closed;
    void *data = uv->closed_data;
    bool is_last = in->link.use_count == 1;
    if (is_last) {
        in->closed = closed;
        in->closed_data = data;
    }
    tie_end(uv->session.tie);
    while (driver_call_hook(uv)) {
        continue; /* They are bounded: nothing is begun any longer. */
    }
    session_lock(&uv->session);
    list_remove(&uv->in_news);
    session_unlock(&uv->session);
    list_remove(&uv->in_closing);
    session_done(&uv->session);
    driver_free(uv);
    if (!is_last && closed != NULL) {
        closed(data, 0, "");
    }
}

static bool is_clearing(struct hasp_uv *uv)
{
    session_lock(&uv->session);
    bool is_clearing = machine_is_clearing(&uv->session.fsm);
    session_unlock(&uv->session);
    return is_clearing;
}

/* Continues to close: after the last callback the session is closed, and then
 * freed. */
static void go_on_closing(struct hasp_uv *uv)
{
    struct session_fsm *fsm = &uv->session.fsm;
    if (uv->jobs > 0) {
        return;
    }
    if (uv->is_opened && !uv->has_ended) {
        session_lock(&uv->session);
        uv->jobs++;
        if (session_fsm_close(fsm, &uv->close_job.wait.call,
                              client_clock_read()) != 0) {
            driver_on_ended(
                &uv->close_job.wait.call); /* The lease ends by itself. */
        }
        session_unlock(&uv->session);
        driver_wake(uv->session.link);
    } else if (uv->polls == 0 && !is_clearing(uv)) {
        driver_end(uv);
    }
}

static void driver_on_timer(uv_timer_t *timer)
{
    on_turn(timer->data);
}

static void on_async(uv_async_t *async)
{
    on_turn(async->data);
}

/* Runs a turn, and sets the timer. The caller holds the mutex. */
static void driver_turn(struct loop_link *in)
{
    struct lease_clock now = client_clock_read();
    link_turn(&in->link, now);
    follow_asker(in);
    uint64_t left_ns = u64_min(cluster_conn_left_ns(&in->link.conn, now),
                               driver_tie_left_ns(in));
    uv_update_time(in->loop);
    if (left_ns == UINT64_MAX) {
        uv_timer_stop(&in->timer);
    } else {
        uv_timer_start(&in->timer, driver_on_timer,
                       left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0), 0);
    }
}

static struct hasp_uv *driver_next_news(struct loop_link *in)
{
    pthread_mutex_lock(&in->link.mutex);
    struct hasp_uv *uv = LIST_FIRST(&in->news, struct hasp_uv, in_news);
    pthread_mutex_unlock(&in->link.mutex);
    return uv;
}

static void on_turn(struct loop_link *in)
{
    struct job *job;
    struct hasp_uv *uv;
    if (in->is_telling || uv_is_closing((uv_handle_t *)&in->async)) {
        return;
    }
    driver_ask_ties(in);
    pthread_mutex_lock(&in->link.mutex);
    driver_turn(in);
    pthread_mutex_unlock(&in->link.mutex);
    in->is_telling = true;
    while ((job = LIST_FIRST(&in->done, struct job, in_link)) != NULL) {
        list_remove(&job->in_link);
        driver_tell(job);
    }
    while ((uv = driver_next_news(in)) != NULL) {
        tell_events(uv);
    }
    /* The loop frees the link later, even if its last session ends here. */
    LIST_FOR_SAFE (struct hasp_uv, closing, &in->closing, in_closing) {
        go_on_closing(closing);
    }
    in->is_telling = false;
}

/* --- The link ------------------------------------------------------------- */

static int driver_start(struct link *link)
{
    struct loop_link *in = (struct loop_link *)link;
    in->loop = link->key.loop;
    if (uv_async_init(in->loop, &in->async, on_async) != 0) {
        return why_set(HASP_ENOMEM, "out of memory or descriptors");
    }
    uv_timer_init(in->loop, &in->timer);
    in->async.data = in->timer.data = in;
    in->handles = 2;
    list_init(&in->done);
    list_init(&in->news);
    list_init(&in->tying);
    list_init(&in->closing);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    driver_let_go(handle->data);
}

static void driver_stop(struct link *link)
{
    struct loop_link *in = (struct loop_link *)link;
    stop_polling(in);
    uv_close((uv_handle_t *)&in->timer, on_handle_closed);
    uv_close((uv_handle_t *)&in->async, on_handle_closed);
}

static const struct link_driver loop_driver = {.size = sizeof(struct loop_link),
                                               .start = driver_start,
                                               .stop = driver_stop,
                                               .drive = driver_wake,
                                               .wake = driver_wake};

/* --- Opening and closing -------------------------------------------------- */

/* With those options that are needed later. */
static int driver_new(const struct hasp_options *options,
                      struct hasp_uv **ret_uv)
{
    struct hasp_uv *uv = calloc(1, sizeof *uv);
    const char *agent = options->agent;
    if (uv != NULL) {
        uv->options = (struct hasp_options){
            .tie = options->tie,
            .ttl_ms = options->ttl_ms,
            .agent = agent != NULL ? strdup(agent) : NULL};
    }
    *ret_uv = uv;
    return uv == NULL || (agent != NULL && uv->options.agent == NULL)
               ? why_set(HASP_ENOMEM, "out of memory")
               : 0;
}

int hasp_uv_open(struct uv_loop_s *loop, const struct hasp_options *options,
                 hasp_uv_fn *done, void *data, struct hasp_uv **ret_uv)
{
    struct hasp_options defaults;
    if (options == NULL) {
        hasp_options_init(&defaults);
        options = &defaults;
    }
    if (loop == NULL || done == NULL || ret_uv == NULL ||
        options->size < sizeof *options) {
        return why_set(HASP_EINVALID, "hasp_uv_open: a loop, options that are "
                                      "initialised, a callback");
    }
    struct hasp_uv *uv;
    struct job *job = NULL;
    int error = driver_new(options, &uv);
    error = error != 0 ? error : job_new(uv, 0, data, &job);
    if (error == 0) {
        error = session_init(&uv->session, options, &loop_driver, loop);
    }
    if (error != 0) {
        free(job);
        driver_free(uv);
        return error;
    }
    uv->session.fsm.news = on_news;
    list_init(&uv->in_news);
    list_init(&uv->in_closing);
    job_init(&uv->close_job, uv, NULL);
    job->done = done;
    job->is_open = true;
    session_lock(&uv->session);
    error = driver_begun(job,
                         session_begin(&uv->session, options, &job->wait.call));
    if (error != 0) {
        /* The link already has handles in the program's loop: only closing ends
         * them. */
        hasp_uv_close(uv, NULL, NULL);
        return error;
    }
    *ret_uv = uv;
    return 0;
}

void hasp_uv_close(struct hasp_uv *uv, hasp_uv_fn *closed, void *data)
{
    if (uv == NULL || uv->is_closing) {
        return;
    }
    uv->is_closing = true;
    tie_quiet(uv->session.tie);
    uv->closed = closed;
    uv->closed_data = data;
    list_push_back(&link_of(uv)->closing, &uv->in_closing);
    if (uv->is_open) {
        session_set_interrupted(&uv->session);
    }
    driver_wake(uv->session.link);
}
