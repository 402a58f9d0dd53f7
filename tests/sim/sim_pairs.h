/* SPDX-License-Identifier: MIT */

/* All pairs of options, with two lock objects of one owner.
 *
 * A life of (session, owner, lock) begins when its owner first requests the
 * lock, and ends when for a while it has neither had a lock object there nor
 * requested one. What was ended or cancelled may still exist somewhere when the
 * owner comes back, and belongs to the same life. Each life with two objects or
 * more counts for every pair of options that occurred in it. An option occurs
 * when the cluster has answered, or has carried it out; an unanswered request
 * does not count.
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
    PAIR_REENTRY, /* Granted to an owner that already has an object there. */
    PAIR_HOLD,
    PAIR_DELAY,
    PAIR_DURABLE,
    PAIR_SEVERAL,
    PAIR_PUSH, /* A push has reported the end of its wait. */
    PAIR_REQ,  /* Repeated under its number, on another connection. */
    PAIR_CONVERT,
    PAIR_CANCEL, /* A wait that was interrupted. */
    PAIR_NOTE,
    PAIR_LINGER,
    PAIR_CONNECTION, /* Shared with another session. */
    PAIR_RELEASEIF,  /* It has ended the hold of an object; likewise: */
    PAIR_BREAK,
    PAIR_BLACKLIST,
    PAIR_MAX_HOLD /* The limit of HOLD has ended belief. */
};

struct sim_caller;

/* The runs in which they are drawn. */
bool sim_pairs_are_drawn(const struct sim *sim);

/* A lock object of the caller's own name requests 'lock'. */
void sim_pairs_object(struct sim_caller *caller, uint32_t lock);
void sim_pairs_meet(struct sim_caller *caller, uint32_t lock,
                    enum pair_option option);
/* Options that the answer to the caller's call shows. */
void sim_pairs_told(struct sim_caller *caller);
/* Ends the lives of which nothing is left; or all, because the session ends. */
void sim_pairs_end(struct sim_caller *caller, bool is_all);

/* Prints the table of pairs, and the reasons for the impossible ones. Returns
 * how many are below 'least', or occurred although they are impossible. */
uint32_t sim_pairs_print(const struct sim_cover *cover, uint32_t least);

#endif /* HASP_TESTS_SIM_SIM_PAIRS_H */
