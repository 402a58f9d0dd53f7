/* SPDX-License-Identifier: MIT */

/* The agent of a host: 'hasp agent's table of ties (cmd/hasp/agent/ties.h) with
 * a driver. Clients tie their sessions without linger to their processes, and
 * the agent sends SESSION.DIED for those whose process is dead. It does so once
 * it knows, at any node, until it is answered; sometimes with a wrong word or
 * twice. Its ties are lost with its own process; after its restart the living
 * tie again, and those who died meanwhile are left to their TTL. Each client
 * has an agent, which watches the client before it.
 *
 * Oracles, with sim_history.c: DIED ends no session of a process that lives; a
 * session whose DIED was answered has ended; its holds end uncleanly, so that a
 * delay runs; what was dead and tied is reported in a bound. The bound is 15 s
 * of a calm, without the time that requests to nodes outside the cluster take:
 * a node that a restore has left outside answers NOLEADER after 3 s. This time
 * has a bound as well, because after a futile request the agent asks the next
 * node: the time limit of one request for each node. */

#ifndef HASP_TESTS_SIM_SIM_WITNESS_H
#define HASP_TESTS_SIM_SIM_WITNESS_H

#include "cmd/hasp/agent/ties.h"
#include "tests/sim/sim_channel.h"

/* Processes of one client that are not yet known to be dead. */
#define SIM_WATCHED_MAX 16

struct sim_client;

/* A process, as its descriptor shows it. */
struct sim_watched {
    struct tied_process *tied; /* NULL: unused. */
    uint64_t known_ns;         /* When its death is noticed; 0: not dead yet. */
};

struct sim_witness {
    struct sim_client *client;
    struct sim_channel channel;
    struct ties *ties;
    struct sim_watched watched[SIM_WATCHED_MAX];
    struct tie_death death[TIE_BATCH_MAX]; /* Being reported. */
    uint32_t death_count;
    uint32_t life; /* Of the cluster, when they were sent. */
    bool is_wrong; /* The first word that was sent is wrong. */
    /* True time, at the earliest that of the calm; 0: no death is pending. */
    uint64_t pending_since_ns;
    uint64_t outside_ns;       /* Time that futile requests took since then. */
    uint64_t outside_since_ns; /* When the one in progress began; 0: none. */
    uint64_t again_ns;         /* When the living tie again; 0: they have. */
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
/* The calm begins. */
void sim_witness_calm(struct sim_witness *witness);
/* In a calm: a death has been pending for longer than the bound, with the time
 * of futile requests. */
bool sim_witness_is_late(const struct sim_witness *witness);
/* At the end of a calm: no death waits too long. */
void sim_witness_check(const struct sim_witness *witness);

#endif /* HASP_TESTS_SIM_SIM_WITNESS_H */
