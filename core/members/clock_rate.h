/* SPDX-License-Identifier: MIT */

/* How fast another node's clock runs, measured from what it says its time is.
 *
 * Each message that carries the sender's time is a sample: its offset is the
 * local time of arrival less the time that it carries, which is a constant, the
 * delay of the message, and what the clocks have drifted apart. Of each span of
 * CLOCK_SPAN_NS the sample with the smallest offset is kept, which had about
 * the smallest delay. The rate is the median of the slopes between all kept
 * samples that are far enough apart (Theil and Sen): spans in which everything
 * was late do not move it while they are fewer than a quarter. What remains is
 * the difference between the smallest delays of two spans, over the time
 * between them.
 *
 * Arithmetic on numbers that are given: no clock is read. */

#ifndef HASP_CORE_MEMBERS_CLOCK_RATE_H
#define HASP_CORE_MEMBERS_CLOCK_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define CLOCK_SPAN_NS (2500 * NS_PER_MS)
/* Of which a rate is made; the newest ones. */
#define CLOCK_SPAN_COUNT 24
/* Two samples tell a slope if they are so far apart; ... */
#define CLOCK_SLOPE_NS (4 * NS_PER_S)
/* ... and a rate is told if its samples cover so much. */
#define CLOCK_WINDOW_NS (10 * NS_PER_S)
/* As fast as this is no drift: the other clock is another one. */
#define CLOCK_PPM_MAX 1000000

struct clock_sample {
    uint64_t local_ns;
    int64_t offset_ns;
};

/* Zeroed memory is a fresh one. */
struct clock_rate {
    struct clock_sample kept[CLOCK_SPAN_COUNT]; /* The last one may grow. */
    uint32_t count;
    uint64_t span_ns;   /* When the last span began. */
    uint64_t remote_ns; /* The newest that was told. */
};

/* A message that was sent at 'remote_ns' came at 'local_ns'. A remote clock
 * that goes back is another one: all begins anew. */
void clock_rate_add(struct clock_rate *rate, uint64_t local_ns,
                    uint64_t remote_ns);
/* By how many millionths the remote clock is faster than the local one, as far
 * as it is known. */
bool clock_rate_ppm(const struct clock_rate *rate, int32_t *ret_ppm);

#endif /* HASP_CORE_MEMBERS_CLOCK_RATE_H */
