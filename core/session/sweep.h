/* SPDX-License-Identifier: MIT */

/* What an entry has left over (lockfsm/sweep.c) is removed by SWEEP entries.
 * The leader proposes them one at a time, so that other entries proceed in
 * between. */

#ifndef HASP_CORE_SESSION_SWEEP_H
#define HASP_CORE_SESSION_SWEEP_H

#include <stdbool.h>

struct core;

/* Part of a leadership. */
struct sweep {
    bool is_under_way;
};

/* Proposes a SWEEP if there is anything to do; called after committed entries
 * are applied. */
void sweep_turn(struct core *core);
/* A SWEEP has been applied. */
void sweep_applied(struct core *core);

#endif /* HASP_CORE_SESSION_SWEEP_H */
