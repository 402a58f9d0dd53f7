/* SPDX-License-Identifier: MIT */

/* What a run has reached: kinds of faults, pairs of them that struck within a
 * second of each other, and states that are worth to be reached. It judges
 * nothing; `make sim-long` sums it up over all seeds. */

#ifndef HASP_TESTS_SIM_SIM_COVER_H
#define HASP_TESTS_SIM_SIM_COVER_H

#include "tests/sim/sim.h"

/* By their numbers, in the order of enum fault. */
const char *sim_fault_name(uint32_t fault);
/* A fault strikes. */
void sim_cover_fault(struct sim *sim, uint32_t fault);
/* A turn of a node is over. */
void sim_cover_look(struct sim *sim);

/* Adds what 'one' has reached. */
void sim_cover_add(struct sim_cover *sum, const struct sim_cover *one);
/* Prints lines: "covers KIND NAME COUNT", tabs between. */
void sim_cover_print(const struct sim_cover *cover);
/* So many holds of one session have ended between two heartbeats. */
void sim_cover_ended(struct sim *sim, uint32_t count);
/* A vote was taken, not by force; or was not, for want of a majority. */
void sim_cover_vote(struct sim *sim, bool is_taken);
/* A member has lost its disk. */
void sim_cover_lost_disk(struct sim *sim);
/* That of one that led when it was asked for. */
void sim_cover_leader_goes(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_COVER_H */
