/* SPDX-License-Identifier: MIT */

/* Small writes into the data directory, by a worker. */

#include "node/metadata_writer.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "node/turn.h"
#include "storage/disk_watch.h"

struct metadata_write {
    struct list in_queue;
    metadata_write_fn *run;
    void *data;
    int error;
    char why[HASP_WHY_SIZE];
};

void metadata_writer_init(struct metadata_writer *metadata_writer,
                          struct turn *turn)
{
    metadata_writer->turn = turn;
    list_init(&metadata_writer->queue);
}

static void run_first(uv_work_t *work)
{
    struct metadata_write *errand = work->data;
    uint32_t place = disk_watch_begin("write into the data directory");
    errand->error = errand->run(errand->data, errand->why);
    disk_watch_end(place);
}

static void start_first(struct metadata_writer *metadata_writer);

static void first_ended(uv_work_t *work, int status)
{
    struct metadata_write *errand = work->data;
    struct metadata_writer *metadata_writer = LIST_ENTRY(
        work, struct metadata_writer, work);
    CHECK(status == 0 && metadata_writer->queue.next == &errand->in_queue);
    list_remove(&errand->in_queue);
    if (errand->error != 0) {
        turn_fail(metadata_writer->turn, HASP_NODE_STORAGE, "%s", errand->why);
    }
    free(errand->data);
    free(errand);
    if (metadata_writer_are_busy(metadata_writer)) {
        start_first(metadata_writer);
    }
}

static void start_first(struct metadata_writer *metadata_writer)
{
    metadata_writer->work.data = LIST_FIRST(&metadata_writer->queue,
                                            struct metadata_write, in_queue);
    CHECK(uv_queue_work(metadata_writer->turn->uv, &metadata_writer->work,
                        run_first, first_ended) == 0);
}

void metadata_writer_add(struct metadata_writer *metadata_writer,
                         metadata_write_fn *run, void *data)
{
    struct metadata_write *errand = memory_new(sizeof *errand);
    bool was_busy = metadata_writer_are_busy(metadata_writer);
    errand->run = run;
    errand->data = data;
    list_push_back(&metadata_writer->queue, &errand->in_queue);
    if (!was_busy) {
        start_first(metadata_writer);
    }
}

bool metadata_writer_are_busy(const struct metadata_writer *metadata_writer)
{
    return !list_is_empty(&metadata_writer->queue);
}
