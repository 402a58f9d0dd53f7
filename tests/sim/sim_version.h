/* SPDX-License-Identifier: MIT */

/* Nodes of two versions: in half of the runs each start of a node may use the
 * other version, older or newer by a feature level, and an operator finalizes
 * (sim_admin.c). An operator errs: after the cluster was raised an old version
 * is still started occasionally, and has to stop without harm.
 *
 * The newer version has an additional entry and field (RAFT.TRIAL), in all
 * builds for tests. */

#ifndef HASP_TESTS_SIM_SIM_VERSION_H
#define HASP_TESTS_SIM_SIM_VERSION_H

#include "tests/sim/sim.h"

/* At the beginning of a run. */
void sim_version_begin(struct sim *sim);
/* The feature level of a node's start, after 'before' (0: the first start). */
uint32_t sim_version_choose(struct sim *sim, uint32_t before);

/* The cluster looks ready to be raised, from outside. */
bool sim_version_is_ripe(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_VERSION_H */
