/* SPDX-License-Identifier: MIT */

/* The oracle of majorities: a leader takes no vote away, unless it is forced,
 * when that would leave voters of whom it has not heard more than half within
 * an election time. Nothing could be committed then, not even the change.
 *
 * Whether a change was forced stands in no entry: so which members an operator
 * forces out is decided by the run and the id. */

#ifndef HASP_TESTS_SIM_SIM_MAJORITY_H
#define HASP_TESTS_SIM_SIM_MAJORITY_H

#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_node;

/* True if the operator of this run forces what takes the vote of member 'id'.
 */
bool sim_majority_forces(const struct sim *sim, uint64_t id);
/* The node has a new configuration, or may have; '*known' is the last one that
 * was seen in this life of it (at first none), and becomes the new one. */
void sim_majority_look(struct sim *sim, struct sim_node *node,
                       struct replica_members *known);

#endif /* HASP_TESTS_SIM_SIM_MAJORITY_H */
