/* SPDX-License-Identifier: MIT */

/* How fast another node's clock runs, measured from the times that it sends.
 *
 * Each message is a sample: the remote time when it was sent, the local time
 * when it was received, and, as in NTP [D. Mills et al., RFC 5905, 8], the
 * newest local time that the other node had received before, and the remote
 * time when it received that. The first two bound the offset (the local time
 * less the remote time) from above, the other two from below: a message is
 * never received before it is sent. Delays, also those of a node that reads or
 * sends late, widen the two bounds, but do not falsify them [K. Marzullo,
 * S. Owicki, Maintaining the Time in a Distributed System, 1983].
 *
 * In each span of CLOCK_SPAN_NS the smallest upper bound and the largest lower
 * bound are kept, which had about the smallest delays. Two spans that are far
 * enough apart give a slope between their upper bounds, which is an estimate of
 * the rate, and two slopes from a lower bound to an upper one and the reverse,
 * which the rate cannot exceed. The result is the median of each of the three
 * over all pairs (Theil and Sen): spans in which every message was late do not
 * affect it while they are fewer than a quarter, and the measured rate follows
 * if the clock changes its rate.
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

/* The times of one message, and of the message that it acknowledges. The
 * remote ones may be anything. */
struct clock_times {
    uint64_t remote_ns;        /* The message was sent then ... */
    uint64_t local_ns;         /* ... and received now, ... */
    uint64_t echo_ns;          /* ... one sent then, ... */
    uint64_t echo_received_ns; /* ... was received then, by the remote clock. */
};

/* A bound of the offset at a local time. */
struct clock_bound {
    uint64_t local_ns;
    int64_t offset_ns;
};

struct clock_span {
    struct clock_bound upper;
    struct clock_bound lower;
};

/* Zeroed memory is a valid empty one. */
struct clock_rate {
    /* The last one may still change. */
    struct clock_span kept[CLOCK_SPAN_COUNT];
    uint32_t count;
    uint64_t span_ns;   /* When the last span started. */
    uint64_t remote_ns; /* The newest remote time. */
};

/* How much faster the remote clock is than the local one, in millionths. */
struct clock_range {
    int32_t low_ppm;  /* At least this, ... */
    int32_t ppm;      /* ... probably this, ... */
    int32_t high_ppm; /* ... and at most this, if the rates did not change. */
};

/* Adds a message. It is ignored if it acknowledges none of the last
 * CLOCK_WINDOW_NS. If the remote clock goes back it is another clock, and the
 * measurement restarts. */
void clock_rate_add(struct clock_rate *rate, const struct clock_times *times);
/* False if nothing is known yet. The bounds are above -1000000. */
bool clock_rate_range(const struct clock_rate *rate,
                      struct clock_range *ret_range);

#endif /* HASP_CORE_MEMBERS_CLOCK_RATE_H */
