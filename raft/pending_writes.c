/* SPDX-License-Identifier: MIT */

#include "raft/pending_writes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

void pending_writes_done(struct pending_writes *written)
{
    free(written->runs);
    *written = (struct pending_writes){0};
}

void pending_writes_clear(struct pending_writes *written)
{
    written->count = 0;
}

void pending_writes_queue(struct pending_writes *written, uint64_t term,
                          uint64_t log_index)
{
    CHECK(term > 0 && log_index > 0);
    if (written->count > 0) {
        struct pending_writes_run *newest = &written->runs[written->count - 1];
        if (newest->term == term && newest->last + 1 == log_index) {
            newest->last = log_index;
            return;
        }
    }
    ROOM(written->runs, written->capacity, written->count + 1);
    written->runs[written->count++] = (struct pending_writes_run){
        .first = log_index, .last = log_index, .term = term};
}

uint64_t pending_writes_complete(struct pending_writes *written, uint64_t term,
                                 uint64_t log_index)
{
    uint32_t i = 0;
    while (i < written->count && (written->runs[i].term != term ||
                                  written->runs[i].first > log_index ||
                                  written->runs[i].last < log_index)) {
        i++;
    }
    if (i == written->count) {
        return 0;
    }
    uint64_t durable = log_index;
    for (uint32_t j = i + 1; j < written->count; j++) {
        if (written->runs[j].first <= durable) {
            /* Entries from there on were replaced. */
            durable = written->runs[j].first - 1;
        }
    }
    written->runs[i].first = log_index + 1;
    uint32_t gone = written->runs[i].first > written->runs[i].last ? i + 1 : i;
    written->count -= gone;
    memmove(written->runs, written->runs + gone,
            written->count * sizeof *written->runs);
    return durable;
}
