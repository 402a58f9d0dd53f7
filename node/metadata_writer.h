/* SPDX-License-Identifier: MIT */

/* Small writes into the data directory that the loop must not wait for: who the
 * cluster is, a bar, a condemnation.
 *
 * Carried out by a worker, one after the other, in the order in which they were
 * given. Nothing that leaves this node may rest on one before it is done. One
 * that fails ends the node.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_METADATA_WRITER_H
#define HASP_NODE_METADATA_WRITER_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"

struct turn;

/* On a worker's thread; 0, or an error with a message for a person. */
typedef int metadata_write_fn(void *data, char why[HASP_WHY_SIZE]);

struct metadata_writer {
    struct turn *turn;
    struct list queue; /* The first is being carried out. */
    uv_work_t work;
};

void metadata_writer_init(struct metadata_writer *metadata_writer,
                          struct turn *turn);
/* 'data' is freed with free() when it is done. */
void metadata_writer_add(struct metadata_writer *metadata_writer,
                         metadata_write_fn *run, void *data);
bool metadata_writer_are_busy(const struct metadata_writer *metadata_writer);

#endif /* HASP_NODE_METADATA_WRITER_H */
