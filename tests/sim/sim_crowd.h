/* SPDX-License-Identifier: MIT */

/* A crowd: one session with hundreds of owners, each of which acquires a lock
 * of its own. It asks under every second number, acknowledges none, asks some
 * again, asks under numbers that it has left out; for a while an operator
 * allows fewer locks than it wants. Then all is given back, or the session is
 * closed. Only some runs have one.
 *
 * Oracle: what is asked again is answered as it was; FORGOTTEN is said of a
 * number that so many gaps have overtaken, and of no other; a full table
 * refuses what is new (that it is full the log must show, sim_history.c), and
 * nothing that gives back. */

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
        CROWD_LIMIT, /* More for each session, or fewer locks, are allowed. */
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
    uint32_t count;               /* Owners. */
    uint32_t next;                /* The one whose turn it is in this stage. */
    uint32_t steps;               /* Of this stage are left. */
    uint64_t req;                 /* Of what is asked. */
    uint64_t release_req;         /* The next one. */
    bool is_full;                 /* Fewer locks are allowed than are wanted. */
    bool is_given[CROWD_MAX + 1]; /* By half the number: it was asked. */
    uint64_t token[CROWD_MAX];    /* Of an owner; 0: it has none. */
};

void sim_crowd_init(struct sim_crowd *crowd, struct sim_client *client);
/* The process is there no more. */
void sim_crowd_done(struct sim_crowd *crowd);
void sim_crowd_work(struct sim_crowd *crowd);
/* When there is something to do, in true time. */
uint64_t sim_crowd_next(const struct sim_crowd *crowd);
bool sim_crowd_is_idle(const struct sim_crowd *crowd);

#endif /* HASP_TESTS_SIM_SIM_CROWD_H */
