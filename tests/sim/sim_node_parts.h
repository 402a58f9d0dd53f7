/* SPDX-License-Identifier: MIT */

/* The parts of a simulated node, for sim_node.c, which begins and ends its
 * lives, sim_port.c, which is the core's port, and sim_turn.c, which is the
 * loop around the core. */

#ifndef HASP_TESTS_SIM_SIM_NODE_PARTS_H
#define HASP_TESTS_SIM_SIM_NODE_PARTS_H

#include "base/account.h"
#include "net/resp.h"
#include "raft/replica.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_peers.h"

/* A client's connection as the node sees it. */
struct server_conn {
    struct list in_node;
    struct sim_node *node;
    struct account_claim claim;
    uint64_t id;
    struct sim_wire *wire;
    struct buffer input;
    struct buffer output;
    struct resp_parser parser;
    bool is_blocked;
    bool is_closing; /* By the core, after the output was sent. */
    bool is_gone;    /* The other end has closed, and the core knows. */
};

struct sim_node {
    struct sim *sim;
    struct sim_host host;
    uint64_t id;      /* 0: none yet. */
    uint64_t settled; /* Order of numbering; 0: at the start. */
    uint32_t port;    /* Where it listens, see sim_move.h. */
    uint32_t life;
    struct core *core;
    struct sim_disk disk;
    struct sim_peers *peers;
    struct replica_members known; /* For the oracle, see sim_majority.h. */
    struct list conns;
    uint64_t conn_count;
    uint64_t began_index; /* Last log index when it began. */
    uint64_t incarnation;
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* As on its disk. */
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    uint32_t feature_level; /* 0: it was never started. */
    struct account account; /* While the process runs. */
    int64_t began_left;     /* What it had left when the turn began. */
    uint64_t next_turn_ns;  /* Local time. */
    uint64_t taken_ns;      /* Everything that had arrived by then was received;
                               likewise. */
    uint64_t read_ns;       /* And was fed, or its connection has been since. */
    uint64_t slow_until_ns;
    uint64_t stopping_until_ns; /* 0: not stopping. */
    struct sim_event probed; /* A probe that this node has sent was answered. */
    uint64_t probe_number;
    uint64_t probe_id;
    uint32_t probe_host;
    uint32_t probe_port;
    bool was_wiped;
    bool is_unmarked;    /* Its volume looks like a missing mount. */
    uint64_t wiped_ns;   /* When, the last time. */
    bool was_removed;    /* It is not started again before it is wiped. */
    bool is_dying;       /* Nothing it does reaches the world. */
    uint32_t calls_left; /* Calls until it dies; 0: it does not. */
    bool is_in_turn;
    bool was_clean; /* The process ended that way. */
    bool rots;      /* After a clean end a bit of its files flips. */
};

/* Its process has died, or its disk has failed. */
bool sim_node_is_excused(const struct sim_node *node);
/* The process loses its memory, and no longer runs. */
void sim_node_drop_process(struct sim_node *node);

/* sim_port.c */
struct core_port sim_port_of(struct sim_node *node);
void sim_port_probed(struct sim *sim, struct sim_event *event);

/* sim_turn.c */
void sim_turn_wake(struct sim *sim, struct sim_event *event);
void sim_turn_free_conn(struct server_conn *conn);
/* The connection has that user from now on. */
void sim_turn_set_user(struct server_conn *conn, uint64_t user);
/* Units of the account that a turn may spend on clients: in some runs so few
 * that clients have to wait. */
uint64_t sim_turn_units(const struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_NODE_PARTS_H */
