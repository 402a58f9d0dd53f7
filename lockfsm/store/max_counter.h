/* SPDX-License-Identifier: MIT */

/* How many things have which count, so that the highest count of all is known
 * at once: that of a session's holds, say. Derived from the state, and no part
 * of it. Each count begins at 0 and changes by one at a time, so when nobody
 * has the highest any more, somebody has the one below. */

#ifndef HASP_LOCKFSM_STORE_MAX_COUNTER_H
#define HASP_LOCKFSM_STORE_MAX_COUNTER_H

#include <stdint.h>

/* Zeroed memory is an empty one. Its memory grows with the highest count. */
struct max_counter {
    uint32_t *of; /* How many have this count, from 1. */
    uint32_t capacity;
    uint32_t highest; /* 0: all counts are 0. */
};

/* One thing's count is 'count' now, and was one less. */
void max_counter_up(struct max_counter *tally, uint32_t count);
/* One thing's count is 'count' now, and was one more. */
void max_counter_down(struct max_counter *tally, uint32_t count);
void max_counter_done(struct max_counter *tally);

#endif /* HASP_LOCKFSM_STORE_MAX_COUNTER_H */
