/* SPDX-License-Identifier: MIT */

/* A client that sends requests drawn from the tables of commands
 * (tests/unit/drawn_requests.h), one after the other, to any node: scripts that
 * change and fail, transactions, every command of Redis and every command that
 * reads. Values come from pools that all clients share, so that requests of
 * several clients meet. Commands that would change what the other clients'
 * oracles rely on are left out: administration, attached sessions, and
 * subscriptions. In a quarter of the runs. In the end each client releases what
 * has no end (SET with DURABLE).
 *
 * Oracle: no request ends a node (ORACLE_NODES), and each answer is a complete
 * reply. */

#ifndef HASP_TESTS_SIM_SIM_DRAWN_H
#define HASP_TESTS_SIM_SIM_DRAWN_H

#include "tests/sim/sim_channel.h"
#include "tests/unit/drawn_requests.h"

struct sim_client;

struct sim_drawn {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    bool is_asking;
    uint64_t think_until_ns;
    uint32_t released; /* Names that it has released, in the end. */
    struct prng prng;  /* Not the run's, whose choices stay the same. */
    struct drawn_heard heard;
};

void sim_drawn_init(struct sim_drawn *drawn, struct sim_client *client);
/* The process is gone. */
void sim_drawn_done(struct sim_drawn *drawn);
void sim_drawn_work(struct sim_drawn *drawn);
/* When it next has work, in true time. */
uint64_t sim_drawn_next(const struct sim_drawn *drawn);

#endif /* HASP_TESTS_SIM_SIM_DRAWN_H */
