/* SPDX-License-Identifier: MIT */

/* Marks of (log index, time), dense for what is new and sparse for what is old.
 * */

#include "core/history.h"
#include "base/check.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/units.h"

/* Between the newest marks. */
#define SPACING_NS (10 * NS_PER_MS)

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

/* Keeps every second mark of the older three quarters: the newest stay dense,
 * the oldest become sparse. */
static void thin_out(struct history *history)
{
    CHECK(history->count == HISTORY_MARK_COUNT);
    uint32_t dense = history->count - history->count / 4;
    uint32_t kept = 1;
    for (uint32_t i = 2; i < history->count; i++) {
        if (i >= dense || i % 2 == 0) {
            history->marks[kept++] = history->marks[i];
        }
    }
    history->count = kept;
}

void history_add(struct history *history, uint64_t log_index, uint64_t ns)
{
    CHECK(history->count > 0); /* history_begin() comes first. */
    struct history_mark *last = &history->marks[history->count - 1];
    CHECK(ns >= last->ns); /* Marks stand in the order of time. */
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
