/* SPDX-License-Identifier: MIT */

/* How fast another node's clock runs, measured from the times that it sends.
 *
 * Each message with the sender's time is a sample. Its offset is the local time
 * of arrival less the time in the message: a constant, plus the delay of the
 * message, plus the drift of the clocks. In each span of CLOCK_SPAN_NS the
 * sample with the smallest offset is kept, which had about the smallest delay.
 * The rate is the median of the slopes between all kept samples that are far
 * enough apart (Theil and Sen): spans in which every message was late do not
 * affect it while they are fewer than a quarter. The remaining error is the
 * difference between the smallest delays of two spans, divided by the time
 * between them.
 *
 * Pure arithmetic: no clock is read. */

#ifndef HASP_CORE_MEMBERS_CLOCK_RATE_H
#define HASP_CORE_MEMBERS_CLOCK_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define CLOCK_SPAN_NS (2500 * NS_PER_MS)
/* The rate is computed from the newest ones. */
#define CLOCK_SPAN_COUNT 24
/* Two samples this far apart give a slope; ... */
#define CLOCK_SLOPE_NS (4 * NS_PER_S)
/* ... samples that cover this much give a rate. */
#define CLOCK_WINDOW_NS (10 * NS_PER_S)
/* A larger rate is not drift: the other clock was replaced. */
#define CLOCK_PPM_MAX 1000000

struct clock_sample {
    uint64_t local_ns;
    int64_t offset_ns;
};

/* Zeroed memory is a valid empty one. */
struct clock_rate {
    /* The last one may still change. */
    struct clock_sample kept[CLOCK_SPAN_COUNT];
    uint32_t count;
    uint64_t span_ns;   /* When the last span started. */
    uint64_t remote_ns; /* The newest remote time. */
};

/* A message sent at 'remote_ns' arrived at 'local_ns'. If the remote clock goes
 * back it is another clock, and the measurement restarts. */
void clock_rate_add(struct clock_rate *rate, uint64_t local_ns,
                    uint64_t remote_ns);
/* How much faster the remote clock is than the local one, in ppm; false if that
 * is unknown. */
bool clock_rate_ppm(const struct clock_rate *rate, int32_t *ret_ppm);

#endif /* HASP_CORE_MEMBERS_CLOCK_RATE_H */
