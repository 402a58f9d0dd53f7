/* SPDX-License-Identifier: MIT */

/* Proposes SWEEP as long as something is left over. */

#include "core/session/sweep.h"

#include "core/state.h"
#include "lockfsm/entry.h"

void sweep_turn(struct core *core)
{
    struct sweep_command sweep;
    if (!is_serving(core) || core->leadership.sweep.is_under_way ||
        !lockfsm_has_left_over(core->fsm, &sweep.places)) {
        return;
    }
    struct entry entry = entry_of_sweep(&sweep);
    core->leadership.sweep.is_under_way = propose_own(core, &entry);
}

/* An entry proposed by an earlier leader may be applied after this leader has
 * proposed one: then there are two, which is harmless. */
void sweep_applied(struct core *core)
{
    core->leadership.sweep.is_under_way = false;
}
