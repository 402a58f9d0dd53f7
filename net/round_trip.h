/* SPDX-License-Identifier: MIT */

/* Round-trip time of PINGs on a link to another node.
 *
 * The measure is the median of the newest nine, sent each 500 ms, so a single
 * one that waits for a large message or a pause of a process has no effect. A
 * link is slow from 50 ms on, until it takes less than 40 ms.
 *
 * Pure: times are arguments. */

#ifndef HASP_NET_ROUND_TRIP_H
#define HASP_NET_ROUND_TRIP_H

#include <stdbool.h>
#include <stdint.h>

#define ROUND_TRIP_COUNT 9
#define ROUND_TRIP_SLOW_US 50000
#define ROUND_TRIP_CALM_US 40000

struct round_trip {
    uint32_t trip_us[ROUND_TRIP_COUNT]; /* A ring. */
    uint32_t count;                     /* Round trips since the link is up. */
    uint32_t median_us;                 /* 0 while count is 0. */
    bool is_slow;
};

/* Adds a round trip. True if 'is_slow' has changed. */
bool round_trip_note(struct round_trip *trip, uint64_t took_ns);

#endif /* HASP_NET_ROUND_TRIP_H */
