/* SPDX-License-Identifier: MIT */

#include "net/round_trip.h"

#include <string.h>

#include "base/minmax.h"
#include "base/units.h"

static uint32_t round_trip_median(const uint32_t *values, uint32_t count)
{
    uint32_t sorted[ROUND_TRIP_COUNT] = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = values[i];
    }
    return sorted[count / 2];
}

bool round_trip_note(struct round_trip *trip, uint64_t took_ns)
{
    bool was_slow = trip->is_slow;
    trip->trip_us[trip->count % ROUND_TRIP_COUNT] = (uint32_t)u64_min(
        took_ns / NS_PER_US, UINT32_MAX);
    trip->count++;
    trip->median_us = round_trip_median(
        trip->trip_us,
        trip->count < ROUND_TRIP_COUNT ? trip->count : ROUND_TRIP_COUNT);
    /* The first round trips may include the start of the other node. */
    if (trip->count >= ROUND_TRIP_COUNT) {
        trip->is_slow = trip->median_us >=
                        (was_slow ? ROUND_TRIP_CALM_US : ROUND_TRIP_SLOW_US);
    }
    return trip->is_slow != was_slow;
}
