/* SPDX-License-Identifier: MIT */

/* The oracle of lost acknowledgements: a follower gets back an old copy of its
 * disk while the leader to which it has acknowledged more still leads. It has
 * to be told, to bar itself and to condemn its directory, from which no later
 * start may begin (core/members/log_loss.h, node/data_loss_marker.h). Then it
 * gets its own disk again. */

#ifndef HASP_TESTS_SIM_SIM_LOSS_H
#define HASP_TESTS_SIM_SIM_LOSS_H

#include "tests/sim/sim.h"

/* Runs the world on until it is over; fails the run if a rule is broken. */
void sim_loss(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_LOSS_H */
