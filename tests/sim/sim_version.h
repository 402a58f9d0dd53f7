/* SPDX-License-Identifier: MIT */

/* Nodes of two versions: in half of the runs each start of a node may be with
 * the other one, older or newer by a feature level, and an operator finalizes
 * (sim_admin.c). An operator errs: once the cluster was raised an old version
 * is still started now and then, and has to stop without harm.
 *
 * `make FLAVOUR=level2` builds a simulator in which the newer version has an
 * entry and a field of its own (RAFT.TRIAL). */

#ifndef HASP_TESTS_SIM_SIM_VERSION_H
#define HASP_TESTS_SIM_SIM_VERSION_H

#include "tests/sim/sim.h"

/* At the beginning of a run. */
void sim_version_begin(struct sim *sim);
/* With which feature level a node starts, after 'before' (0: for the first
 * time). */
uint32_t sim_version_choose(struct sim *sim, uint32_t before);

/* The cluster could be raised, as far as one can see from outside. */
bool sim_version_is_ripe(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_VERSION_H */
