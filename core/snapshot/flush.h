/* SPDX-License-Identifier: MIT */

/* When the state is written into the table. */

#ifndef HASP_CORE_SNAPSHOT_FLUSH_H
#define HASP_CORE_SNAPSHOT_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct core;

/* Lives as long as the core. */
struct flush {
    struct table *table; /* Borrowed; NULL before core_begin(). */
    uint64_t due_ns;     /* 0: there is nothing to flush. */
    bool is_put_off;
    bool is_table_full; /* Until its reader has ended. */
};

/* Called once, when the core starts. */
void flush_start(struct core *core, struct table *table);
/* Writes the state into the table if that is due; or in the next turn, if this
 * one has applied very much: output leaves first, and new input is read. True
 * if it did. */
bool flush_state(struct core *core, bool is_now);
/* There is something to flush, or no longer. */
void flush_plan(struct core *core);
void flush_cancel(struct core *core);
/* Writes everything, and lets the table grow if it is full. HASP_EBUSY: not
 * while it is being read; HASP_ENOMEM: the process cannot get more address
 * space; any other error is fatal. */
MUST_CHECK int flush_whole(struct core *core);

#endif /* HASP_CORE_SNAPSHOT_FLUSH_H */
