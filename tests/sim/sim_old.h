/* SPDX-License-Identifier: MIT */

/* Old directories: those of members that were replaced by another machine under
 * the same number (sim_replace.h). Nobody has wiped them. Their nodes continue
 * to run, are killed and lose power like all others, are cut off from some
 * members and not from others, stop as removed and are started again, with what
 * is on their disks. */

#ifndef HASP_TESTS_SIM_SIM_OLD_H
#define HASP_TESTS_SIM_SIM_OLD_H

#include "tests/sim/sim.h"

struct sim_node;

/* A member that is about to be replaced falls silent for some, for all, or for
 * none. */
void sim_old_part(struct sim *sim, struct sim_node *node);
/* The fault: something happens to an old directory, if there is one. */
void sim_old_strike(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_OLD_H */
