/* SPDX-License-Identifier: MIT */

/* Coverage of a run: kinds of faults, pairs of them that struck within a second
 * of each other, and interesting states. It judges nothing; `make sim-long`
 * adds it up over all seeds. */

#ifndef HASP_TESTS_SIM_SIM_COVER_H
#define HASP_TESTS_SIM_SIM_COVER_H

#include "tests/sim/sim.h"

/* By their numbers, in the order of enum fault. */
const char *sim_fault_name(uint32_t fault);
/* A fault strikes. */
void sim_cover_fault(struct sim *sim, uint32_t fault);
/* A turn of a node is over. */
void sim_cover_look(struct sim *sim);

/* Adds the coverage of 'one'. */
void sim_cover_add(struct sim_cover *sum, const struct sim_cover *one);
/* Prints lines: "covers KIND NAME COUNT", tabs between. */
void sim_cover_print(const struct sim_cover *cover);
/* That many holds of one session have ended between two heartbeats. */
void sim_cover_ended(struct sim *sim, uint32_t count);
/* A vote was removed without force, or was not removed for lack of a
 * majority. */
void sim_cover_vote(struct sim *sim, bool is_taken);
/* A member has lost its disk. */
void sim_cover_lost_disk(struct sim *sim);
/* A leader has begun a replacement without a request. */
void sim_cover_unasked(struct sim *sim);
/* The vote of a node that led when it was requested. */
void sim_cover_leader_goes(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_COVER_H */
