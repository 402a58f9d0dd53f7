/* SPDX-License-Identifier: MIT */

/* Small writes into the data directory that the loop must not wait for: the
 * cluster's id, a bar, a condemnation.
 *
 * A worker carries them out one after the other, in the order in which they
 * were added. No message of this node may depend on one before it is done. A
 * failure ends the node.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_METADATA_WRITER_H
#define HASP_NODE_METADATA_WRITER_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"

struct turn;

/* Runs on a worker's thread. Returns 0, or an error and a message. */
typedef int metadata_write_fn(void *data, char why[HASP_WHY_SIZE]);

struct metadata_writer {
    struct turn *turn;
    struct list queue; /* The first is in progress. */
    uv_work_t work;
};

void metadata_writer_init(struct metadata_writer *metadata_writer,
                          struct turn *turn);
/* Queues a write; 'data' is freed with free() after it. */
void metadata_writer_add(struct metadata_writer *metadata_writer,
                         metadata_write_fn *run, void *data);
bool metadata_writer_are_busy(const struct metadata_writer *metadata_writer);

#endif /* HASP_NODE_METADATA_WRITER_H */
