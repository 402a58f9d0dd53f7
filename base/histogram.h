/* SPDX-License-Identifier: MIT */

/* How long things take: counts by fixed bounds, from 0.025 ms to an hour, as
 * Prometheus wants them. Cheap enough to be always on: a note is a search among
 * some twenty bounds. */

#ifndef HASP_BASE_HISTOGRAM_H
#define HASP_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BOUND_COUNT 23

/* The upper bounds, in microseconds; longer times are counted after them. */
extern const uint64_t histogram_bound_us[HISTOGRAM_BOUND_COUNT];

/* Zeroed memory is an empty histogram. */
struct histogram {
    uint64_t count[HISTOGRAM_BOUND_COUNT + 1]; /* Each above the one before. */
    uint64_t sum_us;
};

void histogram_note(struct histogram *histogram, uint64_t ns);
/* The number of all recorded times. */
uint64_t histogram_total(const struct histogram *histogram);

#endif /* HASP_BASE_HISTOGRAM_H */
