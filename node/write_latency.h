/* SPDX-License-Identifier: MIT */

/* How long do the writes of the log take, and is the disk slow or hung?
 *
 * A write that has been in flight for longer than 'slow_ns' is slow, and so is
 * the disk until no write is in flight, or the last one that ended was in time
 * and the one after it is so far: where writes follow each other without a
 * pause, that is how it is seen to have recovered. A write that has been in
 * flight for longer than 'hangs_ns' hangs.
 *
 * Pure: the times come in. Threads: one. */

#ifndef HASP_NODE_WRITE_LATENCY_H
#define HASP_NODE_WRITE_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"

struct write_latency {
    uint64_t slow_ns;
    uint64_t hangs_ns;
    uint64_t began_ns; /* When the write in flight was started; 0: none. */
    uint64_t took_ns;  /* How long the last one took. */
    bool is_slow;
    struct histogram times; /* Of those that have ended, for the metrics. */
    uint64_t max_ns;
};

/* A write is in flight from 'now_ns' on; nothing if one was already. */
void write_latency_began(struct write_latency *writes, uint64_t now_ns);
/* The write in flight has ended. */
void write_latency_ended(struct write_latency *writes, uint64_t now_ns);
/* Sets 'is_slow' anew. Returns for how long the write in flight has been so at
 * 'read_ns', up to when all completions have been read; 0 without one. */
uint64_t write_latency_look(struct write_latency *writes, uint64_t read_ns);
/* True if a write that has been in flight for so long hangs. */
bool write_latency_hang(const struct write_latency *writes, uint64_t since_ns);
/* When write_latency_look() says something else at the earliest; UINT64_MAX:
 * only after a write has begun or ended. */
uint64_t write_latency_next(const struct write_latency *writes);

#endif /* HASP_NODE_WRITE_LATENCY_H */
