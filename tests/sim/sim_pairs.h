/* SPDX-License-Identifier: MIT */

/* All pairs of options, with two lock objects of one owner.
 *
 * A life of (session, owner, lock) begins when its owner first asks for the
 * lock, and ends when for a while it has neither had a lock object there nor
 * asked for one: what was taken away, cancelled or has ended may still be about
 * when the owner comes back, and belongs to the same life. Each life with two
 * objects or more counts for every pair of options that were met in it. An
 * option is met when the cluster has answered, or has done it: what was only
 * asked for is not counted.
 *
 * In one run of four the callers of programs draw these options freely
 * (sim_caller.c), and some programs have a session without end. */

#ifndef HASP_TESTS_SIM_SIM_PAIRS_H
#define HASP_TESTS_SIM_SIM_PAIRS_H

#include "tests/sim/sim.h"

enum pair_option {
    PAIR_SHARED,
    PAIR_SLOTS,
    PAIR_WAIT,
    PAIR_BARGE,
    PAIR_REENTRY, /* Granted to an owner that has an object there. */
    PAIR_HOLD,
    PAIR_DELAY,
    PAIR_DURABLE,
    PAIR_SEVERAL,
    PAIR_PUSH, /* A push has told the end of its wait. */
    PAIR_REQ,  /* Asked again under its number, on another connection. */
    PAIR_CONVERT,
    PAIR_CANCEL, /* A wait that was interrupted. */
    PAIR_NOTE,
    PAIR_LINGER,
    PAIR_CONNECTION, /* Shared with another session. */
    PAIR_RELEASEIF,  /* It has taken what an object stands for; likewise: */
    PAIR_BREAK,
    PAIR_BLACKLIST,
    PAIR_MAX_HOLD /* The limit of HOLD has ended belief. */
};

struct sim_caller;

/* The runs in which they are drawn. */
bool sim_pairs_are_drawn(const struct sim *sim);

/* A lock object of the caller's own name asks for 'lock'. */
void sim_pairs_object(struct sim_caller *caller, uint32_t lock);
void sim_pairs_meet(struct sim_caller *caller, uint32_t lock,
                    enum pair_option option);
/* What the answer to the caller's call says of options. */
void sim_pairs_told(struct sim_caller *caller);
/* Ends the lives of which nothing is left; or all, since the session ends. */
void sim_pairs_end(struct sim_caller *caller, bool is_all);

/* Prints the table of pairs, and the reasons for those that are impossible.
 * Returns how many are below 'least', or were met though they are impossible.
 */
uint32_t sim_pairs_print(const struct sim_cover *cover, uint32_t least);

#endif /* HASP_TESTS_SIM_SIM_PAIRS_H */
