/* SPDX-License-Identifier: MIT */

/* Bounds, and the search among them. */

#include "base/histogram.h"

#include "base/units.h"

#define MS UINT64_C(1000)
#define S (1000 * MS)

const uint64_t histogram_bound_us[HISTOGRAM_BOUND_COUNT] = {
    25,      50,      100,     250,      500,      MS,       2500,    5 * MS,
    10 * MS, 20 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, S,       2500 * MS,
    5 * S,   10 * S,  30 * S,  60 * S,   300 * S,  900 * S,  3600 * S};

void histogram_note(struct histogram *histogram, uint64_t ns)
{
    uint64_t us = ns / NS_PER_US;
    uint32_t low = 0, high = HISTOGRAM_BOUND_COUNT;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (us <= histogram_bound_us[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    histogram->count[low]++;
    histogram->sum_us += us;
}

uint64_t histogram_total(const struct histogram *histogram)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i <= HISTOGRAM_BOUND_COUNT; i++) {
        total += histogram->count[i];
    }
    return total;
}
