/* SPDX-License-Identifier: MIT */

/* An operator that replaces members, as docs/operations.md describes: a member
 * that is silent, or only cut off from some, is removed, and another machine is
 * added under its number, with an empty directory at its own address. The
 * operator may first remove the member's vote, add the new one as a standby,
 * hand over in between, and replace the replacement, whether it is a member yet
 * or not.
 *
 * The replaced machine still exists: see sim_old.h. Clients know the addresses
 * of all machines. Only some runs have such an operator, and as many additional
 * machines as it may use up.
 *
 * The operator's plan outlives the client whose connection it uses. */

#ifndef HASP_TESTS_SIM_SIM_REPLACE_H
#define HASP_TESTS_SIM_SIM_REPLACE_H

#include "tests/sim/sim_channel.h"

struct sim_client;
struct sim_node;
struct sim_replace;

/* The number of machines that this run has beyond those with a number from the
 * start; 0: it has no such operator. */
uint32_t sim_replace_machines(const struct sim *sim);
struct sim_replace *sim_replace_new(struct sim *sim);
void sim_replace_free(struct sim_replace *replace);

/* The fault: starts to replace a member, unless a replacement is in
 * progress. */
void sim_replace_begin(struct sim *sim);
/* After a calm: finishes the replacement of a member that has lost its disk. */
void sim_replace_finish(struct sim *sim);
/* A machine that was never used; NULL: none is left. */
struct sim_node *sim_replace_unused(const struct sim *sim);
/* The machine to which the operator gave this number last. */
struct sim_node *sim_replace_newest(const struct sim *sim, uint64_t id);

/* The operator's connection. */
struct sim_replacer {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
};

void sim_replacer_init(struct sim_replacer *replacer,
                       struct sim_client *client);
void sim_replacer_done(struct sim_replacer *replacer);
void sim_replacer_work(struct sim_replacer *replacer);
/* When it next has work, in true time. */
uint64_t sim_replacer_next(const struct sim_replacer *replacer);

#endif /* HASP_TESTS_SIM_SIM_REPLACE_H */
