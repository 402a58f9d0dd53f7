/* SPDX-License-Identifier: MIT */

/* The numbers of the rules of time (ARCHITECTURE.md), each written once in C.
 *
 * Times are in any unit, the same for what goes in and what comes out; results
 * are rounded down, which is the careful side of each. Arithmetic alone: no
 * sum here overflows for a time of less than 500 years in nanoseconds. */

#ifndef HASP_LEASE_RULES_H
#define HASP_LEASE_RULES_H

#include <stdint.h>

/* Rule 1: the part of a promise that a client may trust, 0.8. Clocks may run a
 * tenth off on either side: 0.8 / 0.9 < 1 / 1.1. */
static inline uint64_t rules_trusted(uint64_t promised)
{
    return promised / 5 * 4 + promised % 5 * 4 / 5;
}

/* Rule 8: what an answer promises until the next one, the shorter of TTL and
 * linger. 'linger' is 0 if there is none. */
static inline uint64_t rules_promised(uint64_t ttl, uint64_t linger)
{
    return linger != 0 && linger < ttl ? linger : ttl;
}

/* The time between two heartbeats of a client: a fifth of what is promised, and
 * so less than what makes a session quiet (below). */
static inline uint64_t rules_beat_period(uint64_t promised)
{
    return promised / 5;
}

/* Rule 9: the quiet time after which a session is marked. */
static inline uint64_t rules_quiet_max(uint64_t ttl)
{
    return ttl / 4;
}

/* Rule 18: the lease of a Redis value that was asked for 'px_ms', since those
 * clients trust the whole of it; and how much of PX is left of such a lease. */
static inline uint64_t rules_redis_lease_ms(uint64_t px_ms)
{
    return (px_ms * 5 + 3) / 4 + 5;
}
static inline uint64_t rules_redis_px_ns(uint64_t lease_ns)
{
    return lease_ns > 5000000 ? rules_trusted(lease_ns - 5000000) : 0;
}

/* The rest of 'length' after 'passed'. */
static inline uint64_t rules_left(uint64_t length, uint64_t passed)
{
    return length > passed ? length - passed : 0;
}

#endif /* HASP_LEASE_RULES_H */
