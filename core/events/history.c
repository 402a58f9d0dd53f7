/* SPDX-License-Identifier: MIT */

/* Marks of (log index, time), dense for recent times and sparse for old
 * ones. */

#include "core/events/history.h"
#include "base/check.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/units.h"

/* The shortest time between the newest marks. */
#define SPACING_NS (10 * NS_PER_MS)
/* Older marks are apart by their age divided by this. For 500 years that makes
 * at most twice 64 * ln(500 years / 10 ms) marks, for which there is space. */
#define AGE_SHARE 64

void history_begin(struct history *history, uint64_t log_index, uint64_t ns)
{
    if (history->marks == NULL) {
        history->marks = memory_new(HISTORY_MARK_COUNT *
                                    sizeof(struct history_mark));
    }
    history->marks[0] = (struct history_mark){log_index, ns};
    history->count = 1;
}

void history_done(struct history *history)
{
    free(history->marks);
    *history = (struct history){0};
}

/* Drops each mark whose neighbours are close for their age, so that the next
 * mark can replace it. The newest stay dense. */
static void thin_out(struct history *history)
{
    struct history_mark *marks = history->marks;
    CHECK(history->count == HISTORY_MARK_COUNT);
    uint64_t newest_ns = marks[history->count - 1].ns;
    uint32_t kept = 1;
    for (uint32_t i = 1; i + 1 < history->count; i++) {
        uint64_t next_ns = marks[i + 1].ns;
        if (next_ns - marks[kept - 1].ns > (newest_ns - next_ns) / AGE_SHARE) {
            marks[kept++] = marks[i];
        }
    }
    marks[kept++] = marks[history->count - 1];
    history->count = kept;
    CHECK(history->count < HISTORY_MARK_COUNT);
}

void history_add(struct history *history, uint64_t log_index, uint64_t ns)
{
    CHECK(history->count > 0); /* history_begin() comes first. */
    struct history_mark *last = &history->marks[history->count - 1];
    CHECK(ns >= last->ns); /* Marks are in the order of time. */
    if (log_index <= last->log_index) {
        return;
    }
    /* The mark says "at the latest then", so a newer index may join the last
     * mark only while that is young. */
    if (history->count > 1 && ns - last->ns < SPACING_NS) {
        last->log_index = log_index;
        return;
    }
    if (history->count == HISTORY_MARK_COUNT) {
        thin_out(history);
    }
    history->marks[history->count++] = (struct history_mark){log_index, ns};
}

uint64_t history_age_ms(const struct history *history, uint64_t log_index,
                        uint64_t now_ns)
{
    /* The first mark that covers the index. */
    uint32_t low = 0, high = history->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (history->marks[middle].log_index >= log_index) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    uint64_t ns = low < history->count ? history->marks[low].ns : now_ns;
    return now_ns > ns ? (now_ns - ns) / NS_PER_MS : 0;
}
