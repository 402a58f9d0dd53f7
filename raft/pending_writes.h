/* SPDX-License-Identifier: MIT */

/* The writes that were passed to the log on disk and are not yet known to be
 * durable, in order.
 *
 * The core's RAFT_PERSISTED_ENTRIES has no term and must never report an entry
 * that was replaced in the meantime. An index and a term alone do not say which
 * write a completion belongs to: an entry can be truncated and written again
 * with the same index and term while the first write is still under way. So the
 * writes are kept in their order, as runs of consecutive entries of one term,
 * and a completion takes the oldest run that it fits. */

#ifndef HASP_RAFT_PENDING_WRITES_H
#define HASP_RAFT_PENDING_WRITES_H

#include <stdint.h>

struct pending_writes_run {
    uint64_t first;
    uint64_t last;
    uint64_t term;
};

struct pending_writes {
    struct pending_writes_run *runs; /* Oldest first. */
    uint32_t count;
    uint32_t capacity;
};

void pending_writes_done(struct pending_writes *written);
/* Forgets all writes: the log was emptied, so their completions no longer mean
 * anything. */
void pending_writes_clear(struct pending_writes *written);

/* The entry (term, log_index) was passed to the log. An index that is not above
 * the previous call's replaces the entries from there on. */
void pending_writes_queue(struct pending_writes *written, uint64_t term,
                          uint64_t log_index);

/* The write of the entry (term, log_index) and all before it has ended. Returns
 * the last durable index of the present log, or 0 if no such write is pending.
 */
uint64_t pending_writes_complete(struct pending_writes *written, uint64_t term,
                                 uint64_t log_index);

#endif /* HASP_RAFT_PENDING_WRITES_H */
