/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_tasks.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_files.h"

/* More steps than any worker needs before what is waited for arrives. */
#define STEPS_MAX 1000000u

static struct tasks *current;

static void set_due(struct task *task, uint64_t when_ns)
{
    task->when_ns = when_ns;
    if (when_ns < WORKER_OVER && task->tasks->due != NULL) {
        task->tasks->due(task->tasks, task);
    }
}

static int start(const char *name, worker_step_fn *step, void *data,
                 struct worker **ret_worker)
{
    CHECK(current != NULL);
    struct task *task = memory_new(sizeof *task);
    *task = (struct task){
        .tasks = current, .name = name, .step = step, .data = data};
    list_push_back(&current->workers, &task->in_tasks);
    set_due(task, current->now_ns(current));
    *ret_worker = (struct worker *)task;
    return 0;
}

static void wake(struct worker *worker)
{
    struct task *task = (struct task *)worker;
    uint64_t now_ns = task->tasks->now_ns(task->tasks);
    if (task->when_ns != WORKER_OVER && task->when_ns > now_ns) {
        set_due(task, now_ns);
    }
}

void tasks_step(struct task *task)
{
    struct tasks *tasks = task->tasks;
    CHECK(task->when_ns != WORKER_OVER);
    current = tasks;
    task->when_ns = WORKER_IDLE;
    uint64_t when_ns = task->step(task->data, tasks->now_ns(tasks));
    if (when_ns < task->when_ns || when_ns == WORKER_OVER) {
        set_due(task, when_ns);
    }
    if (tasks->stepped != NULL) {
        tasks->stepped(tasks, task);
    }
}

static void wait_changed(struct worker *worker, pthread_mutex_t *mutex,
                         pthread_cond_t *changed)
{
    (void)changed;
    pthread_mutex_unlock(mutex);
    tasks_step((struct task *)worker);
    pthread_mutex_lock(mutex);
}

static void wait_for(struct worker *worker, sem_t *posted)
{
    for (uint32_t i = 0; sem_trywait(posted) != 0; i++) {
        CHECK(i < STEPS_MAX);
        tasks_step((struct task *)worker);
    }
}

static void join(struct worker *worker)
{
    struct task *task = (struct task *)worker;
    for (uint32_t i = 0; task->when_ns != WORKER_OVER; i++) {
        CHECK(i < STEPS_MAX);
        tasks_step(task);
    }
    if (task->tasks->ended != NULL) {
        task->tasks->ended(task->tasks, task);
    }
    list_remove(&task->in_tasks);
    free(task);
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
