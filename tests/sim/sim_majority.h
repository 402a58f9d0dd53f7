/* SPDX-License-Identifier: MIT */

/* The oracle of majorities: a leader removes no vote, unless forced, if that
 * would leave voters of which it has not heard more than half within an
 * election time. Nothing could be committed then, not even the change.
 *
 * No entry says whether a change was forced, so the run and the id decide which
 * members an operator forces out. */

#ifndef HASP_TESTS_SIM_SIM_MAJORITY_H
#define HASP_TESTS_SIM_SIM_MAJORITY_H

#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_node;

/* True if the operator of this run forces the removal of the vote of member
 * 'id'. */
bool sim_majority_forces(const struct sim *sim, uint64_t id);
/* The node has, or may have, a new configuration. '*known' is the last one seen
 * in this life of it (at first none), and becomes the new one. */
void sim_majority_look(struct sim *sim, struct sim_node *node,
                       struct replica_members *known);

#endif /* HASP_TESTS_SIM_SIM_MAJORITY_H */
