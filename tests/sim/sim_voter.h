/* SPDX-License-Identifier: MIT */

/* In four runs of ten the operator of sim_saver.h takes votes away, not by
 * force, and gives them back: whenever it comes to his mind, which is seldom
 * while all voters are up. So leaders are asked who hear too few others, who do
 * not hear the one that is asked for, who are about to be cut off; what they
 * do is for the oracle of sim_majority.h. */

#ifndef HASP_TESTS_SIM_SIM_VOTER_H
#define HASP_TESTS_SIM_SIM_VOTER_H

#include "tests/sim/sim.h"

struct sim_channel;

struct sim_vote {
    uint64_t id;
    bool is_taken; /* Else it is given back. */
    bool led;      /* When it was asked for. */
    bool is_open;  /* It was asked for, and may come to be taken. */
};

/* True if this run has such an operator. */
bool sim_voter_is_there(const struct sim *sim);
/* Whose vote is to be taken, or given back; false: nobody's just now. '*vote'
 * is the last one that was chosen. */
bool sim_voter_choose(struct sim *sim, struct sim_vote *vote);
void sim_voter_put(struct sim_channel *channel, struct sim_vote *vote);
/* The answer to that in 'channel'; 'word' is its error, or "": which were
 * refused is counted, and what is done has to be committed. */
void sim_voter_take(struct sim_channel *channel, struct sim_vote *vote,
                    const char *word);

#endif /* HASP_TESTS_SIM_SIM_VOTER_H */
