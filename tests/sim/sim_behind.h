/* SPDX-License-Identifier: MIT */

/* A follower that was away, or cut off from the others, until they have trimmed
 * their logs past it. It needs a snapshot, may die inside any call of the
 * installation, loses power afterwards until it needs another one, and has to
 * catch up all the same. Watchers of a node that was cut off stay there. */

#ifndef HASP_TESTS_SIM_SIM_BEHIND_H
#define HASP_TESTS_SIM_SIM_BEHIND_H

#include "tests/sim/sim.h"

/* Runs the world until this is over; fails the run if a rule is broken. */
void sim_behind(struct sim *sim);
/* A following voter, or NULL. */
struct sim_node *sim_behind_choose(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_BEHIND_H */
