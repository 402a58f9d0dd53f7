/* SPDX-License-Identifier: MIT */

/* The one place that applies: committed entries into the state, their effects
 * to those whom they concern. */

#ifndef HASP_CORE_APPLY_H
#define HASP_CORE_APPLY_H

#include "base/err.h"
#include "lockfsm/lockfsm.h"
#include "raft/replica.h"

struct core;

/* Applies what may be applied, up to a budget per turn
 * (core->turn.has_left_over). True if anything was. */
bool apply_committed(struct core *core);
/* One entry of the log, of whatever type, applied to the state. An error: it
 * cannot be read, and nothing has changed. */
MUST_CHECK int apply_to_state(struct lockfsm *fsm,
                              const struct replica_entry *entry,
                              struct effects *effects);

#endif /* HASP_CORE_APPLY_H */
