/* SPDX-License-Identifier: MIT */

/* The rate of another clock: samples with the least delay, and the median of
 * the slopes between them (Theil and Sen). */

#include "core/members/clock_rate.h"

#include <string.h>

#include "base/check.h"

#define SLOPE_COUNT_MAX (CLOCK_SPAN_COUNT * (CLOCK_SPAN_COUNT - 1) / 2)

static void begin_span(struct clock_rate *rate,
                       const struct clock_sample *first)
{
    if (rate->count == CLOCK_SPAN_COUNT) {
        memmove(rate->kept, rate->kept + 1,
                (CLOCK_SPAN_COUNT - 1) * sizeof rate->kept[0]);
        rate->count--;
    }
    rate->kept[rate->count++] = *first;
    rate->span_ns = first->local_ns;
}

void clock_rate_add(struct clock_rate *rate, uint64_t local_ns,
                    uint64_t remote_ns)
{
    struct clock_sample sample = {local_ns, (int64_t)(local_ns - remote_ns)};
    if (remote_ns < rate->remote_ns) {
        *rate = (struct clock_rate){.count = 0};
    }
    rate->remote_ns = remote_ns;
    /* This node's clock never goes back. */
    CHECK(rate->count == 0 || local_ns >= rate->span_ns);
    if (rate->count == 0 || local_ns - rate->span_ns >= CLOCK_SPAN_NS) {
        begin_span(rate, &sample);
    } else if (sample.offset_ns < rate->kept[rate->count - 1].offset_ns) {
        rate->kept[rate->count - 1] = sample;
    }
}

/* Inserts 'slope' into the sorted slopes. */
static void clock_rate_insert(int64_t *slopes, uint32_t count, int64_t slope)
{
    CHECK(count < SLOPE_COUNT_MAX);
    uint32_t at = count;
    for (; at > 0 && slopes[at - 1] > slope; at--) {
        slopes[at] = slopes[at - 1];
    }
    slopes[at] = slope;
}

/* The shift is bounded, because the other node may send any time. */
static int64_t moved_ns(const struct clock_sample *a,
                        const struct clock_sample *b)
{
    int64_t moved = (int64_t)((uint64_t)b->offset_ns - (uint64_t)a->offset_ns);
    int64_t bound = INT64_C(1) << 50;
    return moved > bound ? bound : moved < -bound ? -bound : moved;
}

bool clock_rate_ppm(const struct clock_rate *rate, int32_t *ret_ppm)
{
    int64_t slopes[SLOPE_COUNT_MAX];
    uint32_t count = 0;
    if (rate->count == 0 ||
        rate->kept[rate->count - 1].local_ns - rate->kept[0].local_ns <
            CLOCK_WINDOW_NS) {
        return false;
    }
    for (uint32_t i = 0; i < rate->count; i++) {
        for (uint32_t j = i + 1; j < rate->count; j++) {
            const struct clock_sample *a = &rate->kept[i], *b = &rate->kept[j];
            int64_t local_us = (int64_t)((b->local_ns - a->local_ns) / 1000);
            if (local_us >= (int64_t)(CLOCK_SLOPE_NS / 1000)) {
                clock_rate_insert(slopes, count++,
                                  -moved_ns(a, b) * 1000 / local_us);
            }
        }
    }
    /* The first sample and the last one always give a slope. */
    CHECK(count > 0);
    int64_t ppm = slopes[count / 2];
    if (ppm > CLOCK_PPM_MAX || ppm < -CLOCK_PPM_MAX) {
        return false;
    }
    *ret_ppm = (int32_t)ppm;
    return true;
}
