/* SPDX-License-Identifier: MIT */

/* An operator that saves the cluster's state while it serves, as `hasp snapshot
 * save` does: part by part from any node that it reaches, which may die, lose
 * leadership or lose its disk meanwhile. A complete backup is checked against
 * the log (sim_backup.h) and kept for a restore.
 *
 * After a restore the operator adds nodes until there are as many as are
 * wanted. It also acts as a late writer of the former life, whose tokens must
 * not be admitted, and removes votes (sim_voter.h). Only some runs have one. */

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
    struct sim_backup backup; /* The part received so far. */
    uint64_t size;
    uint64_t applied;      /* By the node, when the request was sent. */
    struct sim_node *node; /* ADD. */
    struct sim_vote vote;
    uint32_t lock; /* ADMIT. */
    uint64_t rest_until_ns;
};

void sim_saver_init(struct sim_saver *saver, struct sim_client *client);
/* The process is gone. */
void sim_saver_done(struct sim_saver *saver);
void sim_saver_work(struct sim_saver *saver);
/* When it next has work, in true time. */
uint64_t sim_saver_next(const struct sim_saver *saver);

#endif /* HASP_TESTS_SIM_SIM_SAVER_H */
