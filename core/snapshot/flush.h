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
    uint64_t due_ns;     /* 0: nothing to flush. */
    bool is_put_off;
    bool is_table_full; /* Until whoever reads it has ended. */
};

/* Writes the state into the table, if it is time to; or in the next turn, if
 * this one has applied very much: what it sends leaves in between, and what has
 * come meanwhile is read. True if it did. */
bool flush_state(struct core *core, bool is_now);
/* There is something to flush; or nothing any more. */
void flush_plan(struct core *core);
void flush_cancel(struct core *core);
/* Writes all of it, and lets the table grow where it has no room. HASP_EBUSY:
 * not while somebody reads it; HASP_ENOMEM: the process gets no more address
 * space; any other error is fatal. */
MUST_CHECK int flush_whole(struct core *core);

#endif /* HASP_CORE_SNAPSHOT_FLUSH_H */
