/* SPDX-License-Identifier: MIT */

/* A durable session: without lease, it takes locks that nobody else wants,
 * announces to take them from itself, objects or does not, gives them back. It
 * remembers its session on a disk: when its process dies, and for however long
 * nobody keeps it, what it holds stays. At the end what is left of such
 * sessions, whose OPEN nobody answered, is blacklisted by their name.
 *
 * Oracle, with sim_silence.c: no such session expires; a hold of it is broken
 * only if that was announced, the time is over and nobody has objected since;
 * and what it is told of its session's end is in the log. Only some runs have
 * one. */

#ifndef HASP_TESTS_SIM_SIM_DURABLE_H
#define HASP_TESTS_SIM_SIM_DURABLE_H

#include "tests/sim/sim_channel.h"

/* The name under which all sessions without end are opened. */
#define SIM_DURABLE_NAME "durable"

struct sim_client;

struct sim_durable {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    enum {
        DURABLE_REST,
        DURABLE_OPEN,
        DURABLE_WORK,
        DURABLE_CLOSE,
        DURABLE_LIST,   /* All that are called so are blacklisted ... */
        DURABLE_PARDON, /* ... and what comes later is not. */
        DURABLE_DONE
    } stage;
    bool is_attaching;
    bool has_swept;   /* In a run of pairs, once all is healed. */
    uint64_t session; /* 0: none. */
    char secret[40];
    uint64_t rest_until_ns;
};

void sim_durable_init(struct sim_durable *durable, struct sim_client *client);
/* The process is there no more; what is on its disk is. */
void sim_durable_die(struct sim_durable *durable);
void sim_durable_work(struct sim_durable *durable);
/* When there is something to do, in true time. */
uint64_t sim_durable_next(const struct sim_durable *durable);
bool sim_durable_is_idle(const struct sim_durable *durable);

#endif /* HASP_TESTS_SIM_SIM_DURABLE_H */
