/* SPDX-License-Identifier: MIT */

/* Members: adding, promoting, demoting, removing, one change at a time; handing
 * leadership over; registering data directories (amnesia guard).
 *
 * RAFT.ADD adds a standby and, unless told STANDBY, promotes it when it has
 * caught up; if it has not within CATCH_UP_NS it stays a standby and the answer
 * says so. */

#ifndef HASP_CORE_MEMBERSHIP_H
#define HASP_CORE_MEMBERSHIP_H

#include "core/state.h"

/* What waits for the clock or for other members. */
void membership_turn(struct core *core);
uint64_t membership_next(const struct core *core);
/* Everything up to 'applied' has been applied. */
void membership_progress(struct core *core, uint64_t applied);
void membership_stepped_down(struct core *core);
void membership_peer_lost(struct core *core, uint64_t peer);
/* Leadership is elsewhere: answers a TRANSFER that asked for that. */
void membership_transfer_seen(struct core *core, struct request *request);
/* True if another voter could lead. */
bool membership_has_heir(const struct core *core);

#endif /* HASP_CORE_MEMBERSHIP_H */
