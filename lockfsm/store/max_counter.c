/* SPDX-License-Identifier: MIT */

/* The highest count, updated in O(1) as counts change by one. */

#include "lockfsm/store/max_counter.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

void max_counter_up(struct max_counter *tally, uint32_t count)
{
    if (count >= tally->capacity) {
        uint32_t capacity = 2 * count + 6;
        tally->of = memory_resize(tally->of, capacity * sizeof *tally->of);
        memset(tally->of + tally->capacity, 0,
               (capacity - tally->capacity) * sizeof *tally->of);
        tally->capacity = capacity;
    }
    if (count > 1) {
        CHECK(tally->of[count - 1] > 0);
        tally->of[count - 1]--;
    }
    tally->of[count]++;
    if (count > tally->highest) {
        tally->highest = count;
    }
}

void max_counter_down(struct max_counter *tally, uint32_t count)
{
    CHECK(count < tally->highest);
    CHECK(tally->of[count + 1] > 0);
    tally->of[count + 1]--;
    if (count > 0) {
        tally->of[count]++;
    }
    if (tally->of[tally->highest] == 0) {
        tally->highest--;
    }
}

void max_counter_done(struct max_counter *tally)
{
    free(tally->of);
    *tally = (struct max_counter){0};
}
