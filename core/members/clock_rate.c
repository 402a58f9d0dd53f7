/* SPDX-License-Identifier: MIT */

/* The rate of another clock: bounds with the least delay, and the medians of
 * the slopes between them (Theil and Sen). */

#include "core/members/clock_rate.h"

#include <string.h>

#include "base/check.h"

#define SLOPE_COUNT_MAX (CLOCK_SPAN_COUNT * (CLOCK_SPAN_COUNT - 1) / 2)

struct slopes {
    int64_t ppm[SLOPE_COUNT_MAX]; /* Sorted. */
    uint32_t count;
};

static void begin_span(struct clock_rate *rate, const struct clock_span *first)
{
    if (rate->count == CLOCK_SPAN_COUNT) {
        memmove(rate->kept, rate->kept + 1,
                (CLOCK_SPAN_COUNT - 1) * sizeof rate->kept[0]);
        rate->count--;
    }
    rate->kept[rate->count++] = *first;
    rate->span_ns = first->upper.local_ns;
}

static bool clock_acknowledges(const struct clock_times *times)
{
    return times->echo_ns != 0 && times->echo_ns <= times->local_ns &&
           times->local_ns - times->echo_ns <= CLOCK_WINDOW_NS &&
           times->echo_received_ns <= times->remote_ns;
}

static struct clock_bound bound_at(uint64_t local_ns, uint64_t remote_ns)
{
    return (struct clock_bound){local_ns, (int64_t)(local_ns - remote_ns)};
}

void clock_rate_add(struct clock_rate *rate, const struct clock_times *times)
{
    uint64_t local_ns = times->local_ns;
    struct clock_span span = {
        .upper = bound_at(local_ns, times->remote_ns),
        .lower = bound_at(times->echo_ns, times->echo_received_ns)};
    if (times->remote_ns < rate->remote_ns) {
        *rate = (struct clock_rate){.count = 0};
    }
    rate->remote_ns = times->remote_ns;
    if (!clock_acknowledges(times)) {
        return;
    }
    /* This node's clock never goes back. */
    CHECK(rate->count == 0 || local_ns >= rate->span_ns);
    if (rate->count == 0 || local_ns - rate->span_ns >= CLOCK_SPAN_NS) {
        begin_span(rate, &span);
        return;
    }
    struct clock_span *last = &rate->kept[rate->count - 1];
    if (span.upper.offset_ns < last->upper.offset_ns) {
        last->upper = span.upper;
    }
    if (span.lower.offset_ns > last->lower.offset_ns) {
        last->lower = span.lower;
    }
}

static void slopes_insert(struct slopes *slopes, int64_t ppm)
{
    CHECK(slopes->count < SLOPE_COUNT_MAX);
    uint32_t at = slopes->count++;
    for (; at > 0 && slopes->ppm[at - 1] > ppm; at--) {
        slopes->ppm[at] = slopes->ppm[at - 1];
    }
    slopes->ppm[at] = ppm;
}

/* The shift is bounded, because the other node may send any time. */
static int64_t moved_ns(const struct clock_bound *a,
                        const struct clock_bound *b)
{
    int64_t moved = (int64_t)((uint64_t)b->offset_ns - (uint64_t)a->offset_ns);
    int64_t bound = INT64_C(1) << 50;
    return moved > bound ? bound : moved < -bound ? -bound : moved;
}

static void slopes_add(struct slopes *slopes, const struct clock_bound *a,
                       const struct clock_bound *b)
{
    int64_t local_us = (int64_t)(b->local_ns - a->local_ns) / 1000;
    if (local_us >= (int64_t)(CLOCK_SLOPE_NS / 1000)) {
        slopes_insert(slopes, -moved_ns(a, b) * 1000 / local_us);
    }
}

static int64_t slopes_median(const struct slopes *slopes)
{
    return slopes->ppm[slopes->count / 2];
}

/* Within what can be compared: a stopped clock cannot. */
static int32_t bounded_ppm(int64_t ppm)
{
    return ppm <= -CLOCK_PPM_MAX  ? 1 - CLOCK_PPM_MAX
           : ppm >= CLOCK_PPM_MAX ? CLOCK_PPM_MAX
                                  : (int32_t)ppm;
}

bool clock_rate_range(const struct clock_rate *rate,
                      struct clock_range *ret_range)
{
    struct slopes between = {.count = 0}, low = {.count = 0},
                  high = {.count = 0};
    for (uint32_t i = 0; i < rate->count; i++) {
        for (uint32_t j = i + 1; j < rate->count; j++) {
            const struct clock_span *a = &rate->kept[i], *b = &rate->kept[j];
            slopes_add(&between, &a->upper, &b->upper);
            slopes_add(&low, &a->lower, &b->upper);
            slopes_add(&high, &a->upper, &b->lower);
        }
    }
    if (rate->count == 0 || between.count == 0 || low.count == 0 ||
        high.count == 0 ||
        rate->kept[rate->count - 1].upper.local_ns -
                rate->kept[0].upper.local_ns <
            CLOCK_WINDOW_NS) {
        return false;
    }
    int64_t ppm = slopes_median(&between);
    if (ppm > CLOCK_PPM_MAX || ppm <= -CLOCK_PPM_MAX) {
        return false;
    }
    /* A clock that has changed its rate can have contradictory bounds. */
    int64_t least = slopes_median(&low), most = slopes_median(&high);
    least = least < ppm ? least : ppm;
    most = most > ppm ? most : ppm;
    *ret_range = (struct clock_range){.low_ppm = bounded_ppm(least),
                                      .ppm = (int32_t)ppm,
                                      .high_ppm = bounded_ppm(most)};
    return true;
}
