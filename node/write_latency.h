/* SPDX-License-Identifier: MIT */

/* Measures how long writes of the log take, and whether the disk is slow or
 * hung.
 *
 * A write that has been in flight for longer than 'slow_ns' is slow, and the
 * disk is slow from then on. It has recovered when no write is in flight, or
 * when the last write was fast and the current one is fast so far; the second
 * case is needed when writes follow each other without a pause. A write that
 * has been in flight for longer than 'hangs_ns' hangs.
 *
 * Pure: times are arguments. Threads: one. */

#ifndef HASP_NODE_WRITE_LATENCY_H
#define HASP_NODE_WRITE_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"

struct write_latency {
    uint64_t slow_ns;
    uint64_t hangs_ns;
    uint64_t began_ns; /* Start of the write in flight; 0: none. */
    uint64_t took_ns;  /* Duration of the last write. */
    bool is_slow;
    struct histogram times; /* Durations of all writes, for the metrics. */
    uint64_t max_ns;
};

/* A write starts at 'now_ns'; ignored if one is in flight. */
void write_latency_began(struct write_latency *writes, uint64_t now_ns);
/* The write in flight has ended. */
void write_latency_ended(struct write_latency *writes, uint64_t now_ns);
/* Updates 'is_slow'. Returns how long the write in flight had lasted at
 * 'read_ns', the time up to which all completions have been read; 0 if there is
 * none. */
uint64_t write_latency_look(struct write_latency *writes, uint64_t read_ns);
/* True if a write in flight for 'since_ns' hangs. */
bool write_latency_hang(const struct write_latency *writes, uint64_t since_ns);
/* The earliest time at which the result can change; UINT64_MAX: only when a
 * write starts or ends. */
uint64_t write_latency_next(const struct write_latency *writes);

#endif /* HASP_NODE_WRITE_LATENCY_H */
