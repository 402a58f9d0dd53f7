/* SPDX-License-Identifier: MIT */

/* Workers: what waits for the disk is done by one of them, step by step, and
 * nobody else waits. What a step is stands in storage/port.h.
 *
 * A worker is a thread that no signal is delivered to; in the simulator, a task
 * that runs when the simulator decides. So whatever a step shares with others
 * is guarded as between threads, and nobody waits for a worker but by the
 * functions here: the simulator then has it take its steps. */

#ifndef HASP_STORAGE_WORKER_H
#define HASP_STORAGE_WORKER_H

#include "base/err.h"
#include "storage/port.h"

/* Starts a worker, which takes a step at once; 'name' is a constant text of at
 * most 15 bytes. HASP_EREFUSED if no thread can be had. */
MUST_CHECK static inline int worker_start(const char *name,
                                          worker_step_fn *step, void *data,
                                          struct worker **ret_worker)
{
    return storage_port->worker_start(name, step, data, ret_worker);
}

/* There is something to do: it takes another step after this call. */
static inline void worker_wake(struct worker *worker)
{
    storage_port->worker_wake(worker);
}

/* pthread_cond_wait() for what the worker's steps tell by 'changed'; it may
 * return early. */
static inline void worker_wait(struct worker *worker, pthread_mutex_t *mutex,
                               pthread_cond_t *changed)
{
    storage_port->worker_wait(worker, mutex, changed);
}

/* sem_wait() for what the worker's steps post. */
static inline void worker_wait_for(struct worker *worker, sem_t *posted)
{
    storage_port->worker_wait_for(worker, posted);
}

/* Waits until a step has returned WORKER_OVER, for which it was woken, and
 * frees the worker. */
static inline void worker_join(struct worker *worker)
{
    storage_port->worker_join(worker);
}

/* Of the operating system's port. */
uint64_t worker_now_ns(void);
int worker_thread_start(const char *name, worker_step_fn *step, void *data,
                        struct worker **ret_worker);
void worker_thread_wake(struct worker *worker);
void worker_thread_wait(struct worker *worker, pthread_mutex_t *mutex,
                        pthread_cond_t *changed);
void worker_thread_wait_for(struct worker *worker, sem_t *posted);
void worker_thread_join(struct worker *worker);

#endif /* HASP_STORAGE_WORKER_H */
