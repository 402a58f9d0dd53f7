/* SPDX-License-Identifier: MIT */

/* Small writes into the data directory, carried out by a worker. */

#include "node/errands.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "node/turn.h"
#include "storage/disk_watch.h"

struct errand {
    struct list in_queue;
    errand_fn *run;
    void *data;
    int error;
    char why[HASP_WHY_SIZE];
};

void errands_init(struct errands *errands, struct turn *turn)
{
    errands->turn = turn;
    list_init(&errands->queue);
}

static void run_first(uv_work_t *work)
{
    struct errand *errand = work->data;
    uint32_t place = disk_watch_begin("write into the data directory");
    errand->error = errand->run(errand->data, errand->why);
    disk_watch_end(place);
}

static void start_first(struct errands *errands);

static void first_ended(uv_work_t *work, int status)
{
    struct errand *errand = work->data;
    struct errands *errands = LIST_ENTRY(work, struct errands, work);
    CHECK(status == 0 && errands->queue.next == &errand->in_queue);
    list_remove(&errand->in_queue);
    if (errand->error != 0) {
        turn_fail(errands->turn, HASP_NODE_STORAGE, "%s", errand->why);
    }
    free(errand->data);
    free(errand);
    if (errands_are_busy(errands)) {
        start_first(errands);
    }
}

static void start_first(struct errands *errands)
{
    errands->work.data = LIST_FIRST(&errands->queue, struct errand, in_queue);
    CHECK(uv_queue_work(errands->turn->uv, &errands->work, run_first,
                        first_ended) == 0);
}

void errands_add(struct errands *errands, errand_fn *run, void *data)
{
    struct errand *errand = memory_new(sizeof *errand);
    bool was_busy = errands_are_busy(errands);
    errand->run = run;
    errand->data = data;
    list_push_back(&errands->queue, &errand->in_queue);
    if (!was_busy) {
        start_first(errands);
    }
}

bool errands_are_busy(const struct errands *errands)
{
    return !list_is_empty(&errands->queue);
}
