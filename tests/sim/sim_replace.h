/* SPDX-License-Identifier: MIT */

/* An operator who replaces members, as docs/operations.md says: a member that
 * is silent, or only cut off from some, is removed, and another machine is
 * added under its number, with an empty directory at an address of its own. He
 * may take the member's vote first, add the new one as a standby, hand over in
 * between, and replace the replacement, whether it is a member yet or not.
 *
 * The machine that was replaced is still there: see sim_old.h. Clients know the
 * addresses of all machines. Only some runs have such an operator, and as many
 * machines more as he may use up.
 *
 * What he has in mind is his own: it outlives the client whose connection he
 * uses. */

#ifndef HASP_TESTS_SIM_SIM_REPLACE_H
#define HASP_TESTS_SIM_SIM_REPLACE_H

#include "tests/sim/sim_channel.h"

struct sim_client;
struct sim_node;
struct sim_replace;

/* How many machines this run has beyond those that have a number from the
 * start; 0: it has no such operator. */
uint32_t sim_replace_machines(const struct sim *sim);
struct sim_replace *sim_replace_new(struct sim *sim);
void sim_replace_free(struct sim_replace *replace);

/* The fault: a member is to be replaced, unless one is just now. */
void sim_replace_begin(struct sim *sim);
/* After a calm: a member that has lost its disk has been replaced, or is. */
void sim_replace_finish(struct sim *sim);
/* A machine that was never used; NULL: there is none any more. */
struct sim_node *sim_replace_unused(const struct sim *sim);
/* The machine on which the operator has put this number last. */
struct sim_node *sim_replace_newest(const struct sim *sim, uint64_t id);

/* His connection. */
struct sim_replacer {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
};

void sim_replacer_init(struct sim_replacer *replacer,
                       struct sim_client *client);
void sim_replacer_done(struct sim_replacer *replacer);
void sim_replacer_work(struct sim_replacer *replacer);
/* When there is something to do, in true time. */
uint64_t sim_replacer_next(const struct sim_replacer *replacer);

#endif /* HASP_TESTS_SIM_SIM_REPLACE_H */
