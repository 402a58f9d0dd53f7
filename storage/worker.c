/* SPDX-License-Identifier: MIT */

/* Workers that are threads. */

#include "storage/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"

struct worker {
    pthread_t thread;
    sem_t woken;
    const char *name;
    worker_step_fn *step;
    void *data;
};

uint64_t worker_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Sleeps until 'when_ns', or until it is woken. */
static void worker_sleep_until(struct worker *worker, uint64_t when_ns)
{
    struct timespec when = {.tv_sec = (time_t)(when_ns / NS_PER_S),
                            .tv_nsec = (long)(when_ns % NS_PER_S)};
    while ((when_ns == WORKER_IDLE
                ? sem_wait(&worker->woken)
                : sem_clockwait(&worker->woken, CLOCK_MONOTONIC, &when)) != 0 &&
           errno == EINTR) {
    }
}

static void *worker_run(void *data)
{
    struct worker *worker = data;
    CHECK(pthread_setname_np(pthread_self(), worker->name) == 0);
    for (;;) {
        uint64_t now_ns = worker_now_ns();
        uint64_t next_ns = worker->step(worker->data, now_ns);
        if (next_ns == WORKER_OVER) {
            return NULL;
        }
        if (next_ns > now_ns) {
            worker_sleep_until(worker, next_ns);
        }
    }
}

int worker_thread_start(const char *name, worker_step_fn *step, void *data,
                        struct worker **ret_worker)
{
    struct worker *worker = memory_new(sizeof *worker);
    sigset_t all;
    sigset_t before;
    worker->name = name;
    worker->step = step;
    worker->data = data;
    CHECK(sem_init(&worker->woken, 0, 0) == 0);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* Caused by this thread's own access. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, worker_run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        sem_destroy(&worker->woken);
        free(worker);
        return HASP_EREFUSED;
    }
    *ret_worker = worker;
    return 0;
}

void worker_thread_wake(struct worker *worker)
{
    CHECK(sem_post(&worker->woken) == 0);
}

void worker_thread_wait(struct worker *worker, pthread_mutex_t *mutex,
                        pthread_cond_t *changed)
{
    (void)worker;
    pthread_cond_wait(changed, mutex);
}

void worker_thread_wait_for(struct worker *worker, sem_t *posted)
{
    (void)worker;
    while (sem_wait(posted) != 0) {
        CHECK(errno == EINTR);
    }
}

void worker_thread_join(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    sem_destroy(&worker->woken);
    free(worker);
}
