/* SPDX-License-Identifier: MIT */

/* Workers: operations that wait for the disk are done by a worker, step by
 * step, so that no other thread waits. storage/port.h defines a step.
 *
 * A worker is a thread that receives no signals; in the simulator it is a task
 * that runs when the simulator decides. So data that a step shares must be
 * guarded as between threads, and a caller may wait for a worker only with the
 * functions here: the simulator then runs the worker's steps. */

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

/* Wakes the worker, which takes another step after this call. */
static inline void worker_wake(struct worker *worker)
{
    storage_port->worker_wake(worker);
}

/* pthread_cond_wait() for 'changed', which the worker's steps signal; it can
 * return early. */
static inline void worker_wait(struct worker *worker, pthread_mutex_t *mutex,
                               pthread_cond_t *changed)
{
    storage_port->worker_wait(worker, mutex, changed);
}

/* sem_wait() for 'posted', which the worker's steps post. */
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

/* The operating system's implementation. */
uint64_t worker_now_ns(void);
int worker_thread_start(const char *name, worker_step_fn *step, void *data,
                        struct worker **ret_worker);
void worker_thread_wake(struct worker *worker);
void worker_thread_wait(struct worker *worker, pthread_mutex_t *mutex,
                        pthread_cond_t *changed);
void worker_thread_wait_for(struct worker *worker, sem_t *posted);
void worker_thread_join(struct worker *worker);

#endif /* HASP_STORAGE_WORKER_H */
