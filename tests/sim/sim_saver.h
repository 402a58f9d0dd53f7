/* SPDX-License-Identifier: MIT */

/* An operator who saves the cluster's state while it serves, as `hasp snapshot
 * save` does: part by part from whichever node it reaches, which may die, lead
 * no more or lose its disk meanwhile. What he has got to the end is held
 * against the log (sim_backup.h) and kept for a restore.
 *
 * After a restore he adds nodes until there are as many as are wanted, and is a
 * writer of the former life who comes late: its tokens must not be admitted.
 * He takes votes, too (sim_voter.h). Only some runs have one. */

#ifndef HASP_TESTS_SIM_SIM_SAVER_H
#define HASP_TESTS_SIM_SIM_SAVER_H

#include "tests/sim/sim_backup.h"
#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_voter.h"

struct sim_client;

struct sim_saver {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    enum {
        SAVER_REST,
        SAVER_TAKE,
        SAVER_READ,
        SAVER_ADD,
        SAVER_VOTE,
        SAVER_ADMIT
    } stage;
    struct sim_backup backup; /* As far as it has come. */
    uint64_t size;
    uint64_t applied;      /* By the node, when it was asked. */
    struct sim_node *node; /* ADD. */
    struct sim_vote vote;
    uint32_t lock; /* ADMIT. */
    uint64_t rest_until_ns;
};

void sim_saver_init(struct sim_saver *saver, struct sim_client *client);
/* The process is there no more. */
void sim_saver_done(struct sim_saver *saver);
void sim_saver_work(struct sim_saver *saver);
/* When there is something to do, in true time. */
uint64_t sim_saver_next(const struct sim_saver *saver);

#endif /* HASP_TESTS_SIM_SIM_SAVER_H */
