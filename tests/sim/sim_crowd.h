/* SPDX-License-Identifier: MIT */

/* A crowd: one session with hundreds of owners, each of which acquires its own
 * lock. It uses every second number, acknowledges none, repeats some requests,
 * and sends some under numbers that it has left out. For a while an operator
 * allows fewer locks than it wants. Then everything is released, or the session
 * is closed. Only some runs have a crowd.
 *
 * Oracle: a repeated request gets its first answer again. FORGOTTEN is the
 * answer for a number that enough gaps have overtaken, and for no other. A full
 * table refuses new entries (the log must show that it is full, sim_history.c),
 * and never a request that gives back. */

#ifndef HASP_TESTS_SIM_SIM_CROWD_H
#define HASP_TESTS_SIM_SIM_CROWD_H

#include "tests/sim/sim_channel.h"

#define CROWD_MAX 400

struct sim_client;

struct sim_crowd {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    enum {
        CROWD_REST,
        CROWD_OPEN,
        CROWD_LIMIT, /* Allows each session more holds, or all fewer locks. */
        CROWD_FILL,
        CROWD_AGAIN,
        CROWD_LEFT_OUT, /* Numbers that were left out. */
        CROWD_GIVE,
        CROWD_UNLIMIT,
        CROWD_CLOSE
    } stage;
    enum { CROWD_ASKS_NOTHING, CROWD_ASKS, CROWD_KEEPS, CROWD_ATTACHES } asked;
    uint64_t session;
    char secret[40];
    uint64_t keep_ns; /* When a heartbeat is due, in true time. */
    uint64_t rest_until_ns;
    uint32_t count;       /* Owners. */
    uint32_t next;        /* The owner whose turn it is in this stage. */
    uint32_t steps;       /* Steps left in this stage. */
    uint64_t req;         /* Number of the present request. */
    uint64_t release_req; /* Number of the next release. */
    bool is_full;         /* Fewer locks are allowed than are wanted. */
    bool is_given[CROWD_MAX + 1]; /* By half the number: it was requested. */
    uint64_t token[CROWD_MAX];    /* By owner; 0: no hold. */
};

void sim_crowd_init(struct sim_crowd *crowd, struct sim_client *client);
/* The process is gone. */
void sim_crowd_done(struct sim_crowd *crowd);
void sim_crowd_work(struct sim_crowd *crowd);
/* When it next has work, in true time. */
uint64_t sim_crowd_next(const struct sim_crowd *crowd);
bool sim_crowd_is_idle(const struct sim_crowd *crowd);

#endif /* HASP_TESTS_SIM_SIM_CROWD_H */
