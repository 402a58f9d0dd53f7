/* SPDX-License-Identifier: MIT */

/* When was an entry applied here? The state machine knows no time, so the
 * "since" times of SHOW come from these marks of (log index, clock). They are
 * thinned out as they age, so that the answer is exact to 2 % of the age
 * however long the node has run, and memory is bounded. An index from before
 * the start counts from the start. */

#ifndef HASP_CORE_EVENTS_HISTORY_H
#define HASP_CORE_EVENTS_HISTORY_H

#include <stdint.h>

#define HISTORY_MARK_COUNT 4096

struct history_mark {
    uint64_t log_index;
    uint64_t ns;
};

struct history {
    struct history_mark *marks; /* Both numbers grow. */
    uint32_t count;
};

void history_begin(struct history *history, uint64_t log_index, uint64_t ns);
void history_done(struct history *history);
/* Everything up to 'log_index' had been applied at 'ns'. O(1) amortized. */
void history_add(struct history *history, uint64_t log_index, uint64_t ns);
/* Milliseconds since 'log_index' was applied, if that is known. */
uint64_t history_age_ms(const struct history *history, uint64_t log_index,
                        uint64_t now_ns);

#endif /* HASP_CORE_EVENTS_HISTORY_H */
