/* SPDX-License-Identifier: MIT */

/* Who keeps the users: by the local door of a node, or as 'admin'. He makes
 * roles and users, and once the faults have begun he takes rights away and
 * gives them back, disables, removes and makes again, sets quotas, exchanges
 * secrets, revokes certificates, opens and closes the cluster to those who do
 * not say who they are. When all is healed everybody may do everything again,
 * so that there must be progress. */

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
/* The process is there no more. */
void sim_keeper_done(struct sim_keeper *keeper);
void sim_keeper_work(struct sim_keeper *keeper);
/* When there is something to do, in true time. */
uint64_t sim_keeper_next(const struct sim_keeper *keeper);

#endif /* HASP_TESTS_SIM_SIM_KEEPER_H */
