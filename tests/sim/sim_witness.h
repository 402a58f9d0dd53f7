/* SPDX-License-Identifier: MIT */

/* A witness, as 'hasp agent' is one: clients tie their sessions without linger
 * to their processes, and it sends SESSION.DIED for those whose process is
 * dead. It does so once it knows, at any node, until it is answered; sometimes
 * with a wrong word or twice. Its ties die with its own process. Each
 * client has one, which watches the client before it.
 *
 * Oracles, with sim_history.c: DIED ends no session of a process that lives; a
 * session whose DIED was answered has ended; its holds end uncleanly. */

#ifndef HASP_TESTS_SIM_SIM_WITNESS_H
#define HASP_TESTS_SIM_SIM_WITNESS_H

#include "tests/sim/sim_channel.h"

#define SIM_TIE_MAX 256

struct sim_client;

/* A session, its death word, and the life of the process that uses it. */
struct sim_tie {
    struct sim_client *of; /* NULL: unused. */
    uint64_t process;      /* sim_client.process at that time. */
    uint32_t life;         /* Of the cluster. */
    uint64_t session;
    char word[40];
    uint64_t known_ns; /* When it learns of the death; 0: not dead yet. */
};

struct sim_witness {
    struct sim_client *client;
    struct sim_channel channel;
    struct sim_tie tie[SIM_TIE_MAX];
    uint32_t asked; /* Of tie, + 1; 0: none. */
    bool is_wrong;  /* The word that was sent is wrong. */
};

void sim_witness_init(struct sim_witness *witness, struct sim_client *client);
/* The process is gone. */
void sim_witness_done(struct sim_witness *witness);
/* The client has opened the session with the hash of this word. */
void sim_witness_tie(struct sim_client *client, uint64_t session,
                     const char *word);
void sim_witness_work(struct sim_witness *witness);
/* When it next has work, in true time. */
uint64_t sim_witness_next(const struct sim_witness *witness);

#endif /* HASP_TESTS_SIM_SIM_WITNESS_H */
