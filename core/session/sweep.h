/* SPDX-License-Identifier: MIT */

/* What an entry has left over (lockfsm/sweep.c) is taken away by SWEEP, which
 * the leader proposes, one at a time, so that everything else goes on in
 * between. */

#ifndef HASP_CORE_SESSION_SWEEP_H
#define HASP_CORE_SESSION_SWEEP_H

#include <stdbool.h>

struct core;

/* Of a reign. */
struct sweep {
    bool is_under_way;
};

/* Proposes one if there is anything to do; after what was committed is applied.
 */
void sweep_turn(struct core *core);
/* One has been applied. */
void sweep_applied(struct core *core);

#endif /* HASP_CORE_SESSION_SWEEP_H */
