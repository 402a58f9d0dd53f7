/* SPDX-License-Identifier: MIT */

/* A world for tests of core: one to five cores, each with a log, a table
 * in memory and clients, joined by an in-process network, on a virtual clock of
 * milliseconds. A message takes 1 ms, a write of the log 1 ms. */

#ifndef HASP_TESTS_UNIT_CORE_WORLD_H
#define HASP_TESTS_UNIT_CORE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/prng.h"
#include "core/core.h"
#include "raft/message.h"

#define NODE_MAX 6
#define CONN_MAX 1024
#define MS UINT64_C(1000000)
#define WRITE_MS 1

struct world_client {
    bool is_open;
    bool is_blocked;
    bool was_closed; /* By the core. */
    struct buffer output;
    struct buffer waiting; /* Requests not fed yet, in RESP. */
};

struct world_log {
    struct replica_entry *entry; /* Bodies owned. */
    uint32_t count, capacity;
    uint64_t first; /* Index of entry[0]. */
};

/* Makes room for 'count' more entries. */
static inline void world_log_reserve(struct world_log *log, uint32_t more)
{
    if (log->count + more > log->capacity) {
        log->capacity = 2 * log->capacity + more;
        log->entry = memory_resize(log->entry,
                                   log->capacity * sizeof *log->entry);
    }
}

#define WORLD_DIRECTORY(id) (77000 + (uint64_t)(id))

/* A node's progress, as seen from outside. */
struct world_progress {
    uint64_t applied, flushed, log_bytes;
};

struct world_node {
    struct world *world;
    uint64_t id;
    uint64_t incarnation; /* Of its directory; first WORLD_DIRECTORY(id). */
    struct core *core;
    struct table *table;
    struct world_log log;
    uint64_t term, voted_for;
    uint64_t asked_term, asked_vote;
    uint64_t vote_due_ms;    /* 0: no vote is being saved. */
    uint64_t durable_due_ms; /* 0: nothing is being written. */
    struct buffer out[NODE_MAX + 1];
    bool link_up[NODE_MAX + 1];
    bool is_unnamed[NODE_MAX + 1];   /* No member, if it drops those. */
    uint64_t heard_ms[NODE_MAX + 1]; /* 0: never. */
    bool has_dropped[NODE_MAX + 1];  /* The core has, that link. */
    uint64_t probe_number;           /* Under way; 0: none. */
    uint64_t probe_id;
    char probe_address[MEMBER_ADDRESS_SIZE];
    uint64_t next_turn_ms;
    uint64_t clock_offset_ns;
    uint64_t clock_permille; /* Its speed; 0: as the world's. */
    struct buffer snapshot;
    uint64_t snapshot_index, snapshot_term, snapshot_members_index;
    bool snapshot_due, snapshot_adopt_due;
    bool adopts_late;      /* The received snapshot is not yet durable. */
    uint64_t install_next; /* 0: nothing is being installed. */
    struct buffer incoming;
    struct world_client client[CONN_MAX];
    void *far;         /* For world->adapt. */
    uint64_t conn_end; /* Connections were opened below this number. */
    bool is_plain;     /* No peer shows it a certificate. */
    bool is_unmarked;  /* The volume of its directory has no marker. */
    bool is_paused;
    uint64_t flush_ms;  /* A write takes this much longer. */
    bool is_disk_stuck; /* Writes do not become durable. */
    bool has_unread;    /* Input may be unread (rule 6) ... */
    uint64_t read_ns;   /* ... if it arrived after this. */
    struct prng prng;
    uint32_t feature_level; /* 0: that of this version. */
    int fatal_code;
    bool may_fail; /* It stops, or its frames are refused. */
    uint64_t log_bytes;
    int stage_next; /* The earliest stage of this turn that may be over next. */
    struct world_progress stage_begin;
    struct core_accusation accused; /* On its disk. */
    uint64_t disk_room; /* For a received snapshot; 0: without end. */
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* As reported to the port. */
};

struct world_message {
    uint64_t due_ms;
    uint64_t from, to;
    enum frame_type type;
    struct bytes body; /* Owned. */
};

struct world {
    uint64_t now_ms;
    struct world_node node[NODE_MAX + 1]; /* From 1. */
    uint64_t node_count;
    uint64_t latency_ms; /* Delay of a message; 1 unless set. */
    bool cut[NODE_MAX + 1][NODE_MAX + 1];
    struct world_message *message;
    uint32_t message_count, message_capacity;
    struct core_limits limits;
    /* For a node whose file has other limits of the state; else NULL. */
    const struct lockfsm_limits *founding[NODE_MAX + 1]; /* Borrowed. */
    enum core_redirect redirect;
    uint64_t trusted; /* For each node started. */
    bool finalizes_itself;
    bool allows_no_ttl;
    bool renews_same_value;
    uint64_t replace_empty_ns; /* For each node started. */
    bool drops_unnamed; /* Links to no members end, as the daemon's do. */
    void (*adapt)(struct core_port *port); /* For each node; or NULL. */
    uint32_t founders_level;               /* For each node started. */
};

/* Why a frame was refused last. */
extern char world_why[HASP_WHY_SIZE];

void port_log_truncate(void *data, uint64_t from_index);
uint64_t clock_permille(const struct world_node *node);
uint64_t node_now(const struct world_node *node);

/* The machines' addresses begin with this, and end with their numbers; NULL:
 * all are on loopback. */
extern const char *world_network;

/* Starts the core on the contents of its "disk". */
void node_start(struct world *world, uint64_t id);

struct world *world_new(uint64_t count);

/* The first entry of a new cluster, the same on each founder. */
void world_found(struct world *world);

/* The process dies; the contents of its disk and table remain. Writes that had
 * not become durable are lost. */
void node_kill(struct world *world, uint64_t id);
/* Kills it, and gives it an empty directory. */
void node_wipe(struct world *world, uint64_t id);

void world_free(struct world *world);
struct frame_hello hello_of(const struct world *world, uint64_t id);

/* Links go up and down as nodes live and cables are cut. */
void links_update(struct world *world);

void world_cut(struct world *world, uint64_t id, bool is_cut);
void client_open(struct world *world, uint64_t node, uint64_t conn);
void client_open_as(struct world *world, uint64_t node, uint64_t conn,
                    const struct identity *identity);
void client_close(struct world *world, uint64_t node, uint64_t conn);

/* Feeds what the core lets in. */
void client_feed(struct world_node *node, uint64_t conn);

/* Sends a request given as words; "''" is the empty one. */
void client_send(struct world *world, uint64_t node, uint64_t conn,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

const char *client_text(struct world *world, uint64_t node, uint64_t conn);
void client_clear(struct world *world, uint64_t node, uint64_t conn);

/* Lets everything happen that is due. */
void world_step(struct world *world);

void world_run(struct world *world, uint64_t ms);

/* The node that serves; 0 if there is none or more than one. */
uint64_t world_leader(struct world *world);

uint64_t world_elect(struct world *world);

/* Sends and waits for an answer; returns it as text, valid until the next
 * call. */
const char *client_ask(struct world *world, uint64_t node, uint64_t conn,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define assert_answer(world, node, conn, answer, ...) \
    assert_string_equal(client_ask(world, node, conn, __VA_ARGS__), answer)

/* The number under 'key' of the last map answered (RESP2), or -1. */
int64_t answer_number(struct world *world, uint64_t node, uint64_t conn,
                      const char *key);

struct credentials {
    uint64_t id;
    char secret[33];
};

struct credentials client_session(struct world *world, uint64_t node,
                                  uint64_t conn, const char *options);

/* What node 'id' reports about its directory, if 'node' reaches it. */
static inline struct core_directory
world_directory(const struct world_node *node, uint64_t id)
{
    const struct world *world = node->world;
    struct core_directory found = {0};
    if (id <= NODE_MAX && world->node[id].core != NULL &&
        !world->cut[node->id][id] && !world->cut[id][node->id]) {
        const struct core *core = world->node[id].core;
        found.incarnation = world->node[id].incarnation;
        found.term = replica_term(core_replica(core));
        found.last_index = replica_last_index(core_replica(core));
        lockfsm_cluster_id(core_state(core), found.cluster_id);
    }
    return found;
}

#endif /* HASP_TESTS_UNIT_CORE_WORLD_H */
