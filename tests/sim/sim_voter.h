/* SPDX-License-Identifier: MIT */

/* In four runs of ten the operator of sim_saver.h removes votes, without force,
 * and gives them back, at random moments, which are rare while all voters are
 * up. So the requests reach leaders that hear too few others, that do not hear
 * the voter in question, or that are about to be cut off. The oracle of
 * sim_majority.h judges what they do. */

#ifndef HASP_TESTS_SIM_SIM_VOTER_H
#define HASP_TESTS_SIM_SIM_VOTER_H

#include "tests/sim/sim.h"

struct sim_channel;

struct sim_vote {
    uint64_t id;
    bool is_taken; /* False: it is given back. */
    bool led;      /* When it was requested. */
    bool is_open;  /* It was requested, and may still be removed. */
};

/* True if this run has such an operator. */
bool sim_voter_is_there(const struct sim *sim);
/* Chooses the vote that is to be removed, or given back; false: none at
 * present. '*vote' is the last one that was chosen. */
bool sim_voter_choose(struct sim *sim, struct sim_vote *vote);
void sim_voter_put(struct sim_channel *channel, struct sim_vote *vote);
/* The answer to that in 'channel'; 'word' is its error, or "". Refusals are
 * counted, and what was done has to be committed. */
void sim_voter_take(struct sim_channel *channel, struct sim_vote *vote,
                    const char *word);

#endif /* HASP_TESTS_SIM_SIM_VOTER_H */
