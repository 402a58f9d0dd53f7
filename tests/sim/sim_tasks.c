/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_tasks.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_files.h"

/* More steps than any worker takes before what it is waited for has come. */
#define STEPS_MAX 1000000u

static struct tasks *current;

static void set_due(struct worker *worker, uint64_t when_ns)
{
    worker->when_ns = when_ns;
    if (when_ns < WORKER_OVER && worker->tasks->due != NULL) {
        worker->tasks->due(worker->tasks, worker);
    }
}

static int start(const char *name, worker_step_fn *step, void *data,
                 struct worker **ret_worker)
{
    CHECK(current != NULL);
    struct worker *worker = memory_new(sizeof *worker);
    *worker = (struct worker){
        .tasks = current, .name = name, .step = step, .data = data};
    list_push_back(&current->workers, &worker->in_tasks);
    set_due(worker, current->now_ns(current));
    *ret_worker = worker;
    return 0;
}

static void wake(struct worker *worker)
{
    uint64_t now_ns = worker->tasks->now_ns(worker->tasks);
    if (worker->when_ns != WORKER_OVER && worker->when_ns > now_ns) {
        set_due(worker, now_ns);
    }
}

void tasks_step(struct worker *worker)
{
    struct tasks *tasks = worker->tasks;
    CHECK(worker->when_ns != WORKER_OVER);
    worker->when_ns = WORKER_IDLE;
    uint64_t when_ns = worker->step(worker->data, tasks->now_ns(tasks));
    if (when_ns < worker->when_ns || when_ns == WORKER_OVER) {
        set_due(worker, when_ns);
    }
    if (tasks->stepped != NULL) {
        tasks->stepped(tasks, worker);
    }
}

static void wait_changed(struct worker *worker, pthread_mutex_t *mutex,
                         pthread_cond_t *changed)
{
    (void)changed;
    pthread_mutex_unlock(mutex);
    tasks_step(worker);
    pthread_mutex_lock(mutex);
}

static void wait_for(struct worker *worker, sem_t *posted)
{
    for (uint32_t i = 0; sem_trywait(posted) != 0; i++) {
        CHECK(i < STEPS_MAX);
        tasks_step(worker);
    }
}

static void join(struct worker *worker)
{
    for (uint32_t i = 0; worker->when_ns != WORKER_OVER; i++) {
        CHECK(i < STEPS_MAX);
        tasks_step(worker);
    }
    if (worker->tasks->ended != NULL) {
        worker->tasks->ended(worker->tasks, worker);
    }
    list_remove(&worker->in_tasks);
    free(worker);
}

static uint64_t now(void)
{
    return current->now_ns(current);
}

void tasks_init(struct tasks *tasks)
{
    list_init(&tasks->workers);
}

void tasks_enter(struct tasks *tasks)
{
    current = tasks;
}

void tasks_use(void)
{
    static struct storage_port port;
    port = files_port;
    port.now_ns = now;
    port.worker_start = start;
    port.worker_wake = wake;
    port.worker_wait = wait_changed;
    port.worker_wait_for = wait_for;
    port.worker_join = join;
    storage_port = &port;
}
