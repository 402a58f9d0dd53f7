/* SPDX-License-Identifier: MIT */

/* The keeper of the users, through the local door of a node or as 'admin'. It
 * makes roles and users. Once the faults have begun it revokes rights and
 * grants them again, disables, removes and recreates users, sets quotas,
 * changes secrets, revokes certificates, and opens and closes the cluster to
 * unauthenticated clients. After everything is healed everybody has all rights
 * again, so that there must be progress. */

#ifndef HASP_TESTS_SIM_SIM_KEEPER_H
#define HASP_TESTS_SIM_SIM_KEEPER_H

#include "tests/sim/sim_channel.h"

struct sim_client;

struct sim_keeper {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    uint64_t think_until_ns;
    struct sim_identity who;
};

void sim_keeper_init(struct sim_keeper *keeper, struct sim_client *client);
/* The process is gone. */
void sim_keeper_done(struct sim_keeper *keeper);
void sim_keeper_work(struct sim_keeper *keeper);
/* When it next has work, in true time. */
uint64_t sim_keeper_next(const struct sim_keeper *keeper);

#endif /* HASP_TESTS_SIM_SIM_KEEPER_H */
