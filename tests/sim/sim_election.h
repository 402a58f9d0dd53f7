/* SPDX-License-Identifier: MIT */

/* A leader dies while all else is well and disks are slow: how long does it
 * take until another one serves, and how many terms? */

#ifndef HASP_TESTS_SIM_SIM_ELECTION_H
#define HASP_TESTS_SIM_SIM_ELECTION_H

#include "tests/sim/sim.h"

/* Runs the world until this is over; fails the run if a rule is broken. */
void sim_election(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_ELECTION_H */
