/* SPDX-License-Identifier: MIT */

/* The only module that applies: it puts committed entries into the state and
 * sends their effects to the clients concerned. */

#ifndef HASP_CORE_APPLY_H
#define HASP_CORE_APPLY_H

#include "base/err.h"
#include "lockfsm/lockfsm.h"
#include "raft/replica.h"

struct core;

/* Applies committed entries, up to a budget per turn
 * (core->turn.has_left_over). True if it applied any. */
bool apply_committed(struct core *core);
/* Applies one entry of the log, of any type, to the state. An error means that
 * the entry cannot be read; the state is unchanged. */
MUST_CHECK int apply_to_state(struct lockfsm *fsm,
                              const struct replica_entry *entry,
                              struct effects *effects);

#endif /* HASP_CORE_APPLY_H */
