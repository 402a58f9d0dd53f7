/* SPDX-License-Identifier: MIT */

/* The workers of storage/ as tasks in one thread: the other half of a port
 * (tests/sim/sim_files.h is the first).
 *
 * A worker takes a step when its owner decides: the simulator after the time
 * that a disk needs, a unit test at random. Waiting for a worker makes it take
 * its steps at once. */

#ifndef HASP_TESTS_SIM_SIM_TASKS_H
#define HASP_TESTS_SIM_SIM_TASKS_H

#include "base/list.h"
#include "storage/port.h"
#include "tests/sim/sim.h"

struct tasks;

/* A worker: only the port knows struct worker. */
struct task {
    struct list in_tasks;
    struct tasks *tasks;
    const char *name;
    worker_step_fn *step;
    void *data;
    /* When it is due: WORKER_IDLE, WORKER_OVER, or a time by the clock of the
     * tasks, which may have passed. */
    uint64_t when_ns;
    struct sim_event event; /* The owner's. */
};

/* The workers of one process. */
struct tasks {
    struct list workers;
    uint64_t (*now_ns)(struct tasks *tasks);
    /* 'task' has become due, at another time than before or for more. */
    void (*due)(struct tasks *tasks, struct task *task);
    /* It has taken a step. */
    void (*stepped)(struct tasks *tasks, struct task *task);
    /* It is about to be freed. */
    void (*ended)(struct tasks *tasks, struct task *task);
};

/* The caller sets the functions; all but now_ns may be NULL. */
void tasks_init(struct tasks *tasks);
/* Workers started from now on belong to 'tasks'; likewise the clock. */
void tasks_enter(struct tasks *tasks);
/* One step. */
void tasks_step(struct task *task);

/* The port of disks in memory with these workers is used from now on. */
void tasks_use(void);

#endif /* HASP_TESTS_SIM_SIM_TASKS_H */
