/* SPDX-License-Identifier: MIT */

/* A durable session, which has no lease. It acquires locks that nobody else
 * wants, announces that it will break its own holds, objects or does not, and
 * releases them. It remembers its session on a disk: when its process dies, its
 * holds stay, however long nobody renews them. At the end sessions of this kind
 * that remain because nobody got the answer to OPEN are blacklisted by their
 * name.
 *
 * Oracle, with sim_silence.c: no such session expires. A hold of it is broken
 * only if that was announced, the time is over and nobody has objected since.
 * The log contains every end of its session that it learns of. Only some runs
 * have one. */

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
        DURABLE_LIST,   /* All sessions of that name are blacklisted ... */
        DURABLE_PARDON, /* ... and later ones are not. */
        DURABLE_DONE
    } stage;
    bool is_attaching;
    bool has_swept;   /* In a run of pairs, after everything is healed. */
    uint64_t session; /* 0: none. */
    char secret[40];
    uint64_t rest_until_ns;
};

void sim_durable_init(struct sim_durable *durable, struct sim_client *client);
/* The process is gone; its disk is not. */
void sim_durable_die(struct sim_durable *durable);
void sim_durable_work(struct sim_durable *durable);
/* When it next has work, in true time. */
uint64_t sim_durable_next(const struct sim_durable *durable);
bool sim_durable_is_idle(const struct sim_durable *durable);

#endif /* HASP_TESTS_SIM_SIM_DURABLE_H */
