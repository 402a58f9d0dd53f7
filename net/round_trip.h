/* SPDX-License-Identifier: MIT */

/* How long a PING takes to be answered, on a link with another node.
 *
 * The median of the newest nine, sent each 500 ms, tells how slow the link is:
 * one that waits behind a large message, or a pause of either process, does not
 * count. From 50 ms on a link is called slow, until it takes less than 40 ms.
 *
 * Pure: the times come in. */

#ifndef HASP_NET_ROUND_TRIP_H
#define HASP_NET_ROUND_TRIP_H

#include <stdbool.h>
#include <stdint.h>

#define ROUND_TRIP_COUNT 9
#define ROUND_TRIP_SLOW_US 50000
#define ROUND_TRIP_CALM_US 40000

struct round_trip {
    uint32_t trip_us[ROUND_TRIP_COUNT]; /* A ring. */
    uint32_t count;                     /* Since the link is up. */
    uint32_t median_us;                 /* 0 while count is 0. */
    bool is_slow;
};

/* True if the link has become slow, or is so no longer. */
bool round_trip_note(struct round_trip *trip, uint64_t took_ns);

#endif /* HASP_NET_ROUND_TRIP_H */
