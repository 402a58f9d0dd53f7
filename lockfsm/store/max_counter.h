/* SPDX-License-Identifier: MIT */

/* Counts how many things have each count, so that the highest count (of a
 * session's holds, for example) is known in O(1). It is derived from the state
 * and not part of it. Each count starts at 0 and changes by one at a time, so
 * when no thing has the highest count any longer, at least one has the count
 * below. */

#ifndef HASP_LOCKFSM_STORE_MAX_COUNTER_H
#define HASP_LOCKFSM_STORE_MAX_COUNTER_H

#include <stdint.h>

/* Zeroed memory is an empty counter. Its memory grows with the highest count.
 */
struct max_counter {
    uint32_t *of; /* How many things have this count, from 1. */
    uint32_t capacity;
    uint32_t highest; /* 0: all counts are 0. */
};

/* One thing's count is 'count' now, and was one less. */
void max_counter_up(struct max_counter *tally, uint32_t count);
/* One thing's count is 'count' now, and was one more. */
void max_counter_down(struct max_counter *tally, uint32_t count);
void max_counter_done(struct max_counter *tally);

#endif /* HASP_LOCKFSM_STORE_MAX_COUNTER_H */
