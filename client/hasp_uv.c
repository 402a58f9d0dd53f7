/* SPDX-License-Identifier: MIT */

/* The callback calls of include/hasp/hasp_uv.h: a thread for each call that is
 * under way, a uv_async_t to tell the loop. */

#include "include/hasp/hasp_uv.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "client/hasp_session.h"
#include "client/thread.h"

enum job_kind { JOB_OPEN, JOB_ACQUIRE, JOB_CONVERT, JOB_RELEASE, JOB_CLOSE };

/* One call. It belongs to its thread until it stands in 'done'. */
struct job {
    struct list in_uv;
    struct hasp_uv *uv;
    enum job_kind kind;
    pthread_t thread;
    struct hasp_options options;
    struct hasp_acquire_options acquire;
    char *texts[3]; /* Copies that the options point to. */
    char **names;   /* Of the locks to acquire. */
    size_t name_count;
    enum hasp_mode mode; /* To convert to. */
    struct hasp_session *session;
    struct hasp_hold *hold;
    int status;
    char why[HASP_WHY_SIZE];
    hasp_uv_fn *done;
    hasp_uv_hold_fn *held;
    void *data;
};

struct hasp_uv {
    uv_async_t async;
    struct hasp_session *session;
    hasp_event_fn *on_event;
    void *event_data;
    uint32_t running; /* Jobs, those included that are done but not told. */
    bool is_closing;
    bool is_telling;       /* Inside on_news(): it will go on by itself. */
    struct job *close_job; /* Until it has been started. */
    pthread_mutex_t mutex; /* Guards the two lists. */
    struct list done;      /* Jobs. */
    struct list events;    /* struct event_node */
    hasp_uv_fn *closed;
    void *closed_data;
};

static void on_news(uv_async_t *async);
static void on_event(void *data, const struct hasp_event *event);
static void *run(void *data);
static int start(struct job *job);
static void go_on_closing(struct hasp_uv *uv);

static void job_free(struct job *job)
{
    for (size_t i = 0; i < sizeof job->texts / sizeof job->texts[0]; i++) {
        free(job->texts[i]);
    }
    for (size_t i = 0; i < job->name_count; i++) {
        free(job->names[i]);
    }
    free(job->names);
    free(job);
}

static struct job *job_new(struct hasp_uv *uv, enum job_kind kind, void *data)
{
    struct job *job = calloc(1, sizeof *job);
    if (job != NULL) {
        list_init(&job->in_uv);
        job->uv = uv;
        job->kind = kind;
        job->data = data;
        job->session = uv->session;
    }
    return job;
}

/* Makes '*text' point to a copy that lives as long as the job. */
static bool keep_text(struct job *job, int i, const char **text)
{
    if (*text == NULL) {
        return true;
    }
    job->texts[i] = strdup(*text);
    *text = job->texts[i];
    return job->texts[i] != NULL;
}

static bool keep_names(struct job *job, const char *const *names, size_t count)
{
    job->names = calloc(count, sizeof *job->names);
    while (job->names != NULL && job->name_count < count) {
        char *name = strdup(names[job->name_count]);
        if (name == NULL) {
            return false;
        }
        job->names[job->name_count++] = name;
    }
    return job->names != NULL;
}

static struct hasp_uv *uv_new(struct uv_loop_s *loop,
                              const struct hasp_options *options)
{
    struct hasp_uv *uv = calloc(1, sizeof *uv);
    if (uv == NULL || uv_async_init(loop, &uv->async, on_news) != 0) {
        free(uv);
        return NULL;
    }
    uv->on_event = options->on_event;
    uv->event_data = options->event_data;
    pthread_mutex_init(&uv->mutex, NULL);
    list_init(&uv->done);
    list_init(&uv->events);
    return uv;
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
    struct hasp_uv *uv = uv_new(loop, options);
    if (uv == NULL) {
        return why_set(HASP_ENOMEM, "out of memory or descriptors");
    }
    int error = HASP_ENOMEM;
    /* Got before it is needed: closing must not fail. */
    uv->close_job = job_new(uv, JOB_CLOSE, NULL);
    struct job *job = job_new(uv, JOB_OPEN, data);
    if (job != NULL) {
        job->done = done;
        job->options = *options;
        job->options.on_event = options->on_event != NULL ? on_event : NULL;
        job->options.event_data = uv;
    }
    if (uv->close_job != NULL && job != NULL &&
        keep_text(job, 0, &job->options.endpoints) &&
        keep_text(job, 1, &job->options.name) &&
        keep_text(job, 2, &job->options.credentials)) {
        error = start(job);
    }
    if (error != 0) {
        if (job != NULL) {
            job_free(job);
        }
        hasp_uv_close(uv, NULL, NULL);
        return why_set(error, "no memory or thread for the call");
    }
    *ret_uv = uv;
    return 0;
}

struct hasp_session *hasp_uv_session(struct hasp_uv *uv)
{
    return uv != NULL ? uv->session : NULL;
}

static int check(const struct hasp_uv *uv, bool is_ok)
{
    return uv == NULL || uv->session == NULL || uv->is_closing || !is_ok
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

static bool options_are_fine(const struct hasp_acquire_options *options)
{
    return options == NULL || options->size >= sizeof *options;
}

int hasp_uv_acquire_many(struct hasp_uv *uv, const char *const *names,
                         size_t count,
                         const struct hasp_acquire_options *options,
                         hasp_uv_hold_fn *done, void *data)
{
    bool is_ok = names != NULL && count > 0 && done != NULL &&
                 options_are_fine(options);
    for (size_t i = 0; is_ok && i < count; i++) {
        is_ok = names[i] != NULL;
    }
    int error = check(uv, is_ok);
    if (error != 0) {
        return error;
    }
    struct job *job = job_new(uv, JOB_ACQUIRE, data);
    if (job == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    if (options != NULL) {
        job->acquire = *options;
    } else {
        hasp_acquire_options_init(&job->acquire);
    }
    job->held = done;
    is_ok = keep_text(job, 0, &job->acquire.owner) &&
            keep_text(job, 1, &job->acquire.value) &&
            keep_names(job, names, count);
    error = is_ok ? start(job) : why_set(HASP_ENOMEM, "out of memory");
    if (error != 0) {
        job_free(job);
    }
    return error;
}

int hasp_uv_convert(struct hasp_uv *uv, struct hasp_hold *hold,
                    enum hasp_mode mode,
                    const struct hasp_acquire_options *options,
                    hasp_uv_fn *done, void *data)
{
    int error = check(uv, hold != NULL && done != NULL &&
                              options_are_fine(options));
    if (error != 0) {
        return error;
    }
    struct job *job = job_new(uv, JOB_CONVERT, data);
    if (job == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    hasp_acquire_options_init(&job->acquire);
    if (options != NULL) {
        job->acquire.wait_ms = options->wait_ms;
        job->acquire.interrupt_fd = options->interrupt_fd;
    }
    job->hold = hold;
    job->mode = mode;
    job->done = done;
    error = start(job);
    if (error != 0) {
        job_free(job);
    }
    return error;
}

int hasp_uv_release(struct hasp_uv *uv, struct hasp_hold *hold,
                    hasp_uv_fn *done, void *data)
{
    int error = check(uv, hold != NULL);
    if (error != 0) {
        return error;
    }
    struct job *job = job_new(uv, JOB_RELEASE, data);
    if (job == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    job->hold = hold;
    job->done = done;
    error = start(job);
    if (error != 0) {
        job_free(job);
    }
    return error;
}

void hasp_uv_close(struct hasp_uv *uv, hasp_uv_fn *closed, void *data)
{
    if (uv == NULL || uv->is_closing) {
        return;
    }
    uv->is_closing = true;
    uv->closed = closed;
    uv->closed_data = data;
    if (uv->session != NULL) {
        (void)hasp_interrupt(uv->session);
    }
    if (!uv->is_telling) {
        go_on_closing(uv);
    }
}

static int start(struct job *job)
{
    int code = client_thread_start(&job->thread, run, job);
    if (code != 0) {
        return why_set(HASP_EIO, "no thread: %s", strerror(code));
    }
    job->uv->running++;
    return 0;
}

static void *run(void *data)
{
    struct job *job = data;
    struct hasp_uv *uv = job->uv;
    switch (job->kind) {
    case JOB_OPEN:
        job->status = hasp_open(&job->options, &job->session);
        break;
    case JOB_ACQUIRE:
        job->status = hasp_acquire_many(
            job->session, (const char *const *)job->names, job->name_count,
            &job->acquire, &job->hold);
        break;
    case JOB_CONVERT:
        job->status = hasp_convert(job->hold, job->mode, &job->acquire);
        break;
    case JOB_RELEASE:
        job->status = hasp_release(job->hold);
        break;
    case JOB_CLOSE:
        hasp_close(job->session);
        break;
    }
    if (job->status < 0) {
        strncpy(job->why, hasp_why(), sizeof job->why - 1);
    }
    pthread_mutex_lock(&uv->mutex);
    list_push_back(&uv->done, &job->in_uv);
    /* Inside the mutex: once it is seen there, 'uv' may go. */
    uv_async_send(&uv->async);
    pthread_mutex_unlock(&uv->mutex);
    return NULL;
}

/* On the notifier's thread. */
static void on_event(void *data, const struct hasp_event *event)
{
    struct hasp_uv *uv = data;
    struct event_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return; /* hasp_guard() tells it as well. */
    }
    node->event = *event;
    pthread_mutex_lock(&uv->mutex);
    list_push_back(&uv->events, &node->in_session);
    uv_async_send(&uv->async);
    pthread_mutex_unlock(&uv->mutex);
}

/* --- On the loop's thread ------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct hasp_uv *uv = (struct hasp_uv *)handle;
    hasp_uv_fn *closed = uv->closed;
    void *data = uv->closed_data;
    LIST_EACH_SAFE (node, &uv->events) {
        free(LIST_ENTRY(node, struct event_node, in_session));
    }
    pthread_mutex_destroy(&uv->mutex);
    if (uv->close_job != NULL) {
        job_free(uv->close_job);
    }
    free(uv);
    if (closed != NULL) {
        closed(data, 0, "");
    }
}

/* When the last call has been told, the session is closed; when it is, too, the
 * handle. */
static void go_on_closing(struct hasp_uv *uv)
{
    if (!uv->is_closing || uv->running > 0) {
        return;
    }
    if (uv->session != NULL) {
        struct job *job = uv->close_job;
        job->session = uv->session;
        if (start(job) == 0) {
            uv->session = NULL;
            uv->close_job = NULL;
            return;
        }
        /* Without a thread the loop has to wait for it. */
        hasp_close(uv->session);
        uv->session = NULL;
    }
    uv_close((uv_handle_t *)&uv->async, on_closed);
}

static void tell(struct job *job)
{
    struct hasp_uv *uv = job->uv;
    pthread_join(job->thread, NULL);
    uv->running--;
    if (job->kind == JOB_OPEN && job->status == 0) {
        uv->session = job->session;
        if (uv->is_closing) {
            (void)hasp_interrupt(uv->session);
        }
    }
    if (job->held != NULL) {
        job->held(job->data, job->status, job->why,
                  job->status == 0 ? job->hold : NULL);
    } else if (job->done != NULL) {
        job->done(job->data, job->status, job->why);
    }
    job_free(job);
}

/* The oldest of a list, taken out; NULL. */
static struct list *take(struct hasp_uv *uv, struct list *list)
{
    pthread_mutex_lock(&uv->mutex);
    struct list *node = list_is_empty(list) ? NULL : list->next;
    if (node != NULL) {
        list_remove(node);
    }
    pthread_mutex_unlock(&uv->mutex);
    return node;
}

static void on_news(uv_async_t *async)
{
    struct hasp_uv *uv = (struct hasp_uv *)async;
    struct list *node;
    uv->is_telling = true;
    while ((node = take(uv, &uv->done)) != NULL) {
        tell(LIST_ENTRY(node, struct job, in_uv));
    }
    while ((node = take(uv, &uv->events)) != NULL) {
        struct event_node *told = LIST_ENTRY(node, struct event_node,
                                             in_session);
        if (!uv->is_closing) {
            uv->on_event(uv->event_data, &told->event);
        }
        free(told);
    }
    uv->is_telling = false;
    go_on_closing(uv);
}
