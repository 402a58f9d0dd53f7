/* SPDX-License-Identifier: MIT */

/* The oracle of lost acknowledgements: a follower gets an old copy of its disk
 * while the leader to which it has acknowledged more still leads. The leader
 * has to inform it, and it has to bar itself and to condemn its directory, from
 * which no later start can begin (core/members/log_loss.h,
 * node/data_loss_marker.h). Then it gets its own disk again. */

#ifndef HASP_TESTS_SIM_SIM_LOSS_H
#define HASP_TESTS_SIM_SIM_LOSS_H

#include "tests/sim/sim.h"

/* Runs the world until this is over; fails the run if a rule is broken. */
void sim_loss(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_LOSS_H */
