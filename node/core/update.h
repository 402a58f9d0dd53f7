/* SPDX-License-Identifier: MIT */

/* Carrying out what the replica asks for, and what its role means for us.
 *
 * Whenever the replica has taken an event, update_carry_out() hands its entries
 * and messages to the port and looks at role, term and leader:
 *
 *   - become leader: BEGIN is submitted in the same turn; nothing is answered
 *     before it is applied;
 *   - step down: lease state is dropped, pending changes are UNKNOWN (with REQ:
 *     asked again of the next leader), reads and heartbeats are asked again;
 *   - another leader or term: what was forwarded to the old one likewise. */

#ifndef HASP_NODE_CORE_UPDATE_H
#define HASP_NODE_CORE_UPDATE_H

#include "node/core/state.h"

void update_carry_out(struct core *core, const struct replica_update *update);
/* Tells the port with whom there are to be connections: the members by the
 * newest configuration, and those that it has removed until that is applied. */
void peers_want(struct core *core);
/* The state is now that of 'log_index', and the configuration has changed. */
void peers_applied(struct core *core, uint64_t log_index);
/* The state may have come to say of which cluster it is (by a start, a BEGIN, a
 * snapshot): the port is told, once. */
void life_learnt(struct core *core);
/* Submits the BEGIN of a new term, if that is due. */
void leader_begin(struct core *core);
/* Our BEGIN has been applied. */
void leader_serve(struct core *core);
/* The node must stop. */
void core_fatal(struct core *core, int exit_code, const char *why);
/* How a node ends whose state cannot be read or applied. */
int core_exit_code(int error);

#endif /* HASP_NODE_CORE_UPDATE_H */
