/* SPDX-License-Identifier: MIT */

/* The driver on a libuv loop, for include/hasp/hasp_uv.h: one socket, one
 * timer, one uv_async_t, and no thread.
 *
 * The machine is turned on the loop's thread alone, in on_turn(); only there
 * callbacks are called, so never inside the call that they answer. Whatever
 * begins something, on whichever thread, sends the uv_async_t. */

#include "include/hasp/hasp_uv.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "client/hasp_session.h"

/* One call. */
struct job {
    struct list in_uv; /* When it is done. */
    struct hasp_uv *uv;
    struct waiting wait;
    uv_poll_t *poll; /* Of the descriptor that interrupts it; or NULL. */
    int poll_fd;
    bool is_open; /* It opens the session. */
    hasp_uv_fn *done;
    hasp_uv_hold_fn *held;
    void *data;
};

/* A name that is looked up; freed when that has ended. */
struct lookup {
    uv_getaddrinfo_t resolve;
    struct hasp_uv *uv;
    uint32_t number; /* The connection that it is for. */
};

struct hasp_uv {
    struct hasp_session session;
    uv_loop_t *loop;
    uv_async_t async;
    uv_timer_t timer;
    uv_poll_t *poll;  /* Of the connection; or NULL. */
    uint32_t handles; /* In the loop. */
    uint32_t jobs;    /* Those included that are done but not told. */
    struct list done;
    bool is_open;
    bool is_closing;
    bool has_ended; /* The session is closed, or never was. */
    bool is_telling;
    struct job close_job;
    hasp_uv_fn *closed;
    void *closed_data;
};

static void on_turn(struct hasp_uv *uv);

static struct asker *asker_of(struct hasp_uv *uv)
{
    return &uv->session.machine.asker;
}

/* The last thing of it that was in the loop has gone. */
static void let_go(struct hasp_uv *uv)
{
    hasp_uv_fn *closed = uv->closed;
    void *data = uv->closed_data;
    uv->handles--;
    if (uv->handles > 0) {
        return;
    }
    session_done(&uv->session);
    free(uv);
    if (closed != NULL) {
        closed(data, 0, "");
    }
}

/* --- The connection ------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct hasp_uv *uv = handle->data;
    free(handle);
    let_go(uv);
}

/* 'data' is its callback's; NULL: it cannot be polled. */
static uv_poll_t *poll_new(struct hasp_uv *uv, int fd, void *data)
{
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (poll == NULL || uv_poll_init(uv->loop, poll, fd) != 0) {
        free(poll);
        return NULL;
    }
    uv->handles++;
    poll->data = data;
    return poll;
}

/* From here on its descriptor may be closed. */
static void poll_stop(struct hasp_uv *uv, uv_poll_t **poll)
{
    if (*poll != NULL) {
        (*poll)->data = uv;
        uv_close((uv_handle_t *)*poll, on_poll_closed);
        *poll = NULL;
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct hasp_uv *uv = poll->data;
    (void)status;
    (void)events;
    if (uv->session.transport.is_connecting) {
        poll_stop(uv, &uv->poll); /* Another address may have to be tried. */
    }
    pthread_mutex_lock(&uv->session.mutex);
    transport_ready(&uv->session.transport, asker_of(uv));
    pthread_mutex_unlock(&uv->session.mutex);
    on_turn(uv);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status,
                        struct addrinfo *addresses)
{
    struct lookup *lookup = resolve->data;
    struct hasp_uv *uv = lookup->uv;
    struct transport *transport = &uv->session.transport;
    bool is_closing = uv_is_closing((uv_handle_t *)&uv->async);
    if (lookup->number == transport->number && !is_closing) {
        pthread_mutex_lock(&uv->session.mutex);
        transport_connect(transport, asker_of(uv), addresses,
                          uv_strerror(status));
        pthread_mutex_unlock(&uv->session.mutex);
    } else {
        uv_freeaddrinfo(addresses);
    }
    free(lookup);
    on_turn(uv);
    let_go(uv);
}

/* With the mutex. */
static void look_up(struct hasp_uv *uv, const struct endpoint *endpoint)
{
    struct addrinfo hints = TRANSPORT_HINTS;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int code = UV_ENOMEM;
    if (lookup != NULL) {
        lookup->uv = uv;
        lookup->number = uv->session.transport.number;
        lookup->resolve.data = lookup;
        code = uv_getaddrinfo(uv->loop, &lookup->resolve, on_resolved,
                              endpoint->host, endpoint->port, &hints);
    }
    if (code == 0) {
        uv->handles++;
        return;
    }
    free(lookup);
    transport_connect(&uv->session.transport, asker_of(uv), NULL,
                      uv_strerror(code));
}

/* With the mutex. */
static void follow_asker(struct hasp_uv *uv)
{
    struct transport *transport = &uv->session.transport;
    while (transport_is_late(transport, asker_of(uv))) {
        poll_stop(uv, &uv->poll);
        const struct endpoint *endpoint = transport_follow(transport,
                                                           asker_of(uv));
        if (endpoint != NULL) {
            look_up(uv, endpoint);
        }
    }
    transport_flush(transport, asker_of(uv));
    if (transport->fd < 0) {
        return;
    }
    if (uv->poll == NULL) {
        uv->poll = poll_new(uv, transport->fd, uv);
    }
    if (uv->poll == NULL) {
        asker_failed(asker_of(uv), "cannot be polled", client_clock_read());
        return;
    }
    bool writes = (transport_events(transport, asker_of(uv)) & POLLOUT) != 0;
    uv_poll_start(uv->poll, UV_READABLE | (writes ? UV_WRITABLE : 0), on_ready);
}

/* --- Calls ---------------------------------------------------------------- */

static void wake(struct hasp_session *session)
{
    uv_async_send(&((struct hasp_uv *)session)->async);
}

static void stop_poll(struct job *job)
{
    if (job->poll != NULL) {
        poll_stop(job->uv, &job->poll);
        close(job->poll_fd);
    }
}

static void on_interrupted(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    struct hasp_uv *uv = job->uv;
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    pthread_mutex_lock(&uv->session.mutex);
    machine_interrupt(&uv->session.machine, &job->wait.call,
                      client_clock_read());
    pthread_mutex_unlock(&uv->session.mutex);
    wake(&uv->session);
}

/* Watches a copy of the descriptor: the loop takes each only once. */
static int start_poll(struct job *job, int fd)
{
    if (fd < 0) {
        return 0;
    }
    job->poll_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    job->poll = job->poll_fd >= 0 ? poll_new(job->uv, job->poll_fd, job) : NULL;
    if (job->poll == NULL) {
        if (job->poll_fd >= 0) {
            close(job->poll_fd);
        }
        return why_set(HASP_EINVALID,
                       "the interrupting descriptor cannot be polled");
    }
    uv_poll_start(job->poll, UV_READABLE, on_interrupted);
    return 0;
}

/* With the mutex, on the loop's thread. */
static void on_ended(struct client_call *call)
{
    struct job *job = call->data;
    list_remove(&job->wait.in_session);
    list_push_back(&job->uv->done, &job->in_uv);
}

static void job_init(struct job *job, struct hasp_uv *uv, void *data)
{
    *job = (struct job){.uv = uv,
                        .data = data,
                        .wait = {.call = {.done = on_ended, .data = job},
                                 .session = &uv->session,
                                 .interrupt_fd = -1}};
    list_init(&job->in_uv);
    list_init(&job->wait.in_session);
}

/* 'error' is what the arguments are found to be; then nothing is made. */
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

/* With the mutex, which it gives back. What is an error of the call itself is
 * returned, and nothing has begun; any other is told by the callback. */
static int begun(struct job *job, int error)
{
    struct hasp_uv *uv = job->uv;
    if (error == HASP_ENOMEM || error == HASP_EINVALID) {
        pthread_mutex_unlock(&uv->session.mutex);
        if (error == HASP_ENOMEM) {
            why_set(error, "out of memory");
        }
        stop_poll(job);
        list_remove(&job->wait.in_session);
        free(job);
        return error;
    }
    uv->jobs++;
    if (error != 0) {
        job->wait.call.error = error;
        on_ended(&job->wait.call);
    }
    pthread_mutex_unlock(&uv->session.mutex);
    wake(&uv->session);
    return 0;
}

/* The same as wait_lock(), but the mutex is held in any case. */
static int lock(struct job *job, struct lease_clock *now)
{
    struct hasp_session *session = &job->uv->session;
    pthread_mutex_lock(&session->mutex);
    *now = client_clock_read();
    return machine_check(&session->machine, *now, job->wait.call.why);
}

/* Takes the mutex, and has what may interrupt the wait watched. */
static int begin_wait(struct job *job,
                      const struct hasp_acquire_options *options,
                      struct lease_clock *now)
{
    struct hasp_session *session = &job->uv->session;
    int error = lock(job, now);
    if (error != 0 || options->wait_ms == 0) {
        return error;
    }
    error = wait_check(session, options->interrupt_fd);
    if (error == 0) {
        error = start_poll(job, options->interrupt_fd);
        list_push_back(&session->waits, &job->wait.in_session);
    }
    strncpy(job->wait.call.why, error != 0 ? hasp_why() : "",
            sizeof job->wait.call.why - 1);
    return error;
}

static int check(const struct hasp_uv *uv, bool is_ok)
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
    int error = check(uv, done != NULL);
    if (error == 0) {
        error = acquire_check(names, count, options, &all);
    }
    error = job_new(uv, error, data, &job);
    if (error != 0) {
        return error;
    }
    job->held = done;
    error = begin_wait(job, &all, &now);
    if (error == 0) {
        error = machine_acquire(&uv->session.machine, names, count, &all,
                                &job->wait.call, now);
    }
    return begun(job, error);
}

int hasp_uv_convert(struct hasp_uv *uv, struct hasp_hold *hold,
                    enum hasp_mode mode,
                    const struct hasp_acquire_options *options,
                    hasp_uv_fn *done, void *data)
{
    struct hasp_acquire_options all;
    struct lease_clock now;
    struct job *job;
    int error = check(uv, done != NULL);
    if (error == 0) {
        error = convert_check(hold, mode, options, &all);
    }
    error = job_new(uv, error, data, &job);
    if (error != 0) {
        return error;
    }
    job->done = done;
    error = begin_wait(job, &all, &now);
    if (error == 0) {
        error = machine_convert(hold->machine, hold, &all, &job->wait.call,
                                now);
    }
    return begun(job, error);
}

int hasp_uv_release(struct hasp_uv *uv, struct hasp_hold *hold,
                    hasp_uv_fn *done, void *data)
{
    struct lease_clock now;
    struct job *job;
    int error = job_new(uv, check(uv, hold != NULL), data, &job);
    if (error != 0) {
        return error;
    }
    job->done = done;
    error = lock(job, &now);
    if (error != 0) {
        machine_forget(&uv->session.machine, hold);
        return begun(job, error);
    }
    error = machine_release(&uv->session.machine, hold, &job->wait.call, now);
    /* The hold has gone, so even this is for the callback. */
    return begun(job, error == HASP_ENOMEM ? HASP_EUNKNOWN : error);
}

struct hasp_session *hasp_uv_session(struct hasp_uv *uv)
{
    return uv != NULL && uv->is_open ? &uv->session : NULL;
}

/* --- Turns ---------------------------------------------------------------- */

static void tell(struct job *job)
{
    struct hasp_uv *uv = job->uv;
    struct client_call *call = &job->wait.call;
    const char *why = call->error < 0 ? call->why : "";
    stop_poll(job);
    uv->jobs--;
    if (job == &uv->close_job) {
        uv->has_ended = true;
        return;
    }
    if (job->is_open && call->error == 0) {
        uv->is_open = true;
        if (uv->is_closing) {
            atomic_store(&uv->session.is_interrupted, true);
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

static void tell_events(struct hasp_uv *uv)
{
    while (uv->session.on_event != NULL) {
        pthread_mutex_lock(&uv->session.mutex);
        struct event_node *node = machine_take_event(&uv->session.machine);
        pthread_mutex_unlock(&uv->session.mutex);
        if (node == NULL) {
            return;
        }
        if (!uv->is_closing) {
            uv->session.on_event(uv->session.event_data, &node->event);
        }
        free(node);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

/* When the last call has been told, the session is closed; when it is, too, all
 * that is in the loop. */
static void go_on_closing(struct hasp_uv *uv)
{
    if (!uv->is_closing || uv->jobs > 0) {
        return;
    }
    if (uv->is_open && !uv->has_ended) {
        pthread_mutex_lock(&uv->session.mutex);
        uv->jobs++;
        if (machine_close(&uv->session.machine, &uv->close_job.wait.call,
                          client_clock_read()) != 0) {
            on_ended(&uv->close_job.wait.call); /* The lease ends by itself. */
        }
        pthread_mutex_unlock(&uv->session.mutex);
        wake(&uv->session);
        return;
    }
    poll_stop(uv, &uv->poll);
    uv_close((uv_handle_t *)&uv->timer, on_handle_closed);
    uv_close((uv_handle_t *)&uv->async, on_handle_closed);
}

static void on_timer(uv_timer_t *timer)
{
    on_turn(timer->data);
}

static void on_async(uv_async_t *async)
{
    on_turn(async->data);
}

static void on_turn(struct hasp_uv *uv)
{
    struct job *job;
    if (uv->is_telling || uv_is_closing((uv_handle_t *)&uv->async)) {
        return;
    }
    pthread_mutex_lock(&uv->session.mutex);
    struct lease_clock now = client_clock_read();
    session_turn(&uv->session, now);
    follow_asker(uv);
    uint64_t left_ns = machine_left_ns(&uv->session.machine, now);
    pthread_mutex_unlock(&uv->session.mutex);
    uv_update_time(uv->loop);
    if (left_ns == UINT64_MAX) {
        uv_timer_stop(&uv->timer);
    } else {
        uv_timer_start(&uv->timer, on_timer,
                       left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0), 0);
    }
    uv->is_telling = true;
    while ((job = LIST_FIRST(&uv->done, struct job, in_uv)) != NULL) {
        list_remove(&job->in_uv);
        tell(job);
    }
    tell_events(uv);
    uv->is_telling = false;
    go_on_closing(uv);
}

/* --- Opening and closing -------------------------------------------------- */

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
    struct hasp_uv *uv = calloc(1, sizeof *uv);
    struct job *job = NULL;
    int error = job_new(uv, uv != NULL ? 0 : HASP_ENOMEM, data, &job);
    if (error == 0) {
        error = session_init(&uv->session, options);
    }
    if (error == 0 && uv_async_init(loop, &uv->async, on_async) != 0) {
        session_done(&uv->session);
        error = why_set(HASP_ENOMEM, "out of memory or descriptors");
    }
    if (error != 0) {
        free(job);
        free(uv);
        return error;
    }
    uv->loop = loop;
    uv->session.drive = uv->session.wake = wake;
    uv_timer_init(loop, &uv->timer);
    uv->async.data = uv->timer.data = uv;
    uv->handles = 2;
    list_init(&uv->done);
    job_init(&uv->close_job, uv, NULL);
    job->done = done;
    job->is_open = true;
    pthread_mutex_lock(&uv->session.mutex);
    error = begun(job, session_begin(&uv->session, options, &job->wait.call));
    if (error != 0) {
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
    uv->closed = closed;
    uv->closed_data = data;
    if (uv->is_open) {
        atomic_store(&uv->session.is_interrupted, true);
    }
    wake(&uv->session);
}
