/* SPDX-License-Identifier: MIT */

/* A small world of replicas on virtual time, for the tests of raft/.
 *
 * Up to WORLD_NODES_MAX replicas in one process; a network that delays, drops,
 * doubles and reorders; disks whose writes take time and of which a crash keeps
 * a part; snapshots that travel in one piece. All of it is drawn from one seed.
 *
 * Oracles, checked after every update:
 *
 *     election safety    one leader per term
 *     log matching       an (index, term) has one content and one predecessor
 *     committed stays    all nodes that commit an index commit the same entry
 *     one history        equal applied indexes, equal states
 *     questions          a confirmed leader had no successor, and knew all that
 *                        was committed, when the question was asked
 *     no false alarm     replica_receive() never refuses an honest message */

#ifndef HASP_TESTS_UNIT_REPLICA_WORLD_H
#define HASP_TESTS_UNIT_REPLICA_WORLD_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "raft/message.h"
#include "raft/replica.h"

/* The data directory of node 'id'. */
#define DIRECTORY(id) (500 + (uint64_t)(id))

/* Contents of a disk, and the writes on their way to it. */

struct world_entry {
    uint64_t term;
    enum replica_entry_type type;
    struct buffer body;
};

struct world_disk {
    struct world_entry *entries;
    uint64_t base; /* The first entry is base + 1. */
    uint64_t count;
    uint64_t capacity;
};

struct world_write {
    uint64_t at_ms;
    uint64_t flush_ms;
    uint64_t truncate_from; /* 0: none. */
    uint64_t first;
    struct world_entry *entries;
    uint64_t count;
};

struct world_snapshot {
    uint64_t log_index;
    uint64_t term;
    uint64_t state;
    struct buffer members;
    uint64_t members_index;
};

void world_disk_truncate(struct world_disk *disk, uint64_t from);
void world_disk_trim(struct world_disk *disk, uint64_t up_to);

/* Takes the entry over. */
void world_disk_append(struct world_disk *disk, uint64_t log_index,
                       struct world_entry entry);

void world_write_done(struct world_write *write);
void world_snapshot_copy(struct world_snapshot *to,
                         const struct world_snapshot *from);

#define WORLD_NODES_MAX 8 /* Ids 1 to 7. */

#define WORLD_QUESTIONS 64

struct world_question {
    uint64_t number;
    uint64_t term;
    uint64_t newest_leader_term; /* Maximum over all nodes when it was asked. */
    uint64_t committed;          /* The same, for commit indexes. */
    uint64_t known;              /* The asker's commit index, 0: not serving. */
};

struct world_node {
    uint64_t id;
    struct replica *replica; /* NULL: down. */
    uint64_t term;           /* On disk. */
    uint64_t voted_for;
    uint64_t asked_term; /* To be saved, */
    uint64_t asked_vote;
    uint64_t saving_term; /* being saved ... */
    uint64_t saving_vote;
    uint64_t save_due_ms; /* ... until then; 0: nothing is. */
    uint64_t save_ms;
    struct world_disk disk;
    struct world_write *writes;
    uint32_t write_count;
    struct world_snapshot snapshot;
    struct world_snapshot taking;
    uint64_t taking_until_ms; /* 0: none under way. */
    uint64_t applied;
    uint64_t state;
    uint64_t seen_commit;
    uint64_t trimmed;   /* The cache begins above. */
    bool has_joined;    /* Started once. */
    bool is_installing; /* Sometimes until a crash ends it. */
    bool wants_begin;
    uint64_t begin_index; /* Index of its own entry of this term. */
    struct world_question questions[WORLD_QUESTIONS];
    uint64_t confirmed_count;
    uint64_t installed_count;
};

struct world_message {
    uint64_t at_ms;
    uint64_t from;
    uint64_t to;
    bool is_snapshot;
    uint64_t leader_term;
    struct world_snapshot snapshot;
    struct buffer bytes;
};

struct world_seen {
    uint64_t log_index;
    uint64_t term;
    uint64_t prev_term; /* UINT64_MAX: not known. */
    uint64_t hash;
};

struct world {
    uint64_t seed;
    struct prng prng;
    uint64_t now_ms;
    struct world_node nodes[WORLD_NODES_MAX];
    uint32_t node_count; /* Founders; others join. */
    bool cut[WORLD_NODES_MAX][WORLD_NODES_MAX];
    struct world_message *messages;
    uint32_t message_count;
    uint32_t message_capacity;

    double drop;
    double twice;
    uint32_t delay_ms;                  /* At most. */
    uint32_t disk_ms;                   /* At most ... */
    uint32_t flush_ms[WORLD_NODES_MAX]; /* ... plus this much, always. */
    uint32_t in_flight_max;
    uint64_t snapshot_entries; /* Take one after this many entries; 0: never. */
    bool stops_half_way;       /* Some installations end only with a crash. */
    bool loses_tables; /* A crash throws the table back to the snapshot. */

    uint64_t *leader_of_term;
    uint64_t term_capacity;
    uint64_t newest_leader_term;
    uint64_t *committed; /* Hash by index. */
    uint64_t committed_capacity;
    uint64_t committed_last;
    uint64_t *state_at; /* By applied index. */
    uint64_t state_capacity;
    struct world_seen *seen;
    uint64_t seen_capacity;
    uint64_t seen_count;
    uint64_t trace; /* Hash of all output. */
    uint64_t last_command;
};

#define WORLD_CHECK(world, fact)                                            \
    do {                                                                    \
        if (!(fact)) {                                                      \
            print_error("%s:%d: seed %" PRIu64 " at %" PRIu64 " ms: %s\n",  \
                        __FILE__, __LINE__, (world)->seed, (world)->now_ms, \
                        #fact);                                             \
            fail();                                                         \
        }                                                                   \
    } while (0)

uint64_t world_below(struct world *world, uint64_t bound);
void world_carry_out(struct world *world, struct world_node *node,
                     const struct replica_update *update);
void world_start_node(struct world *world, struct world_node *node);

/* The process dies; a part of the writes under way has reached the disk. */
void world_crash(struct world *world, struct world_node *node);

/* The process of 'node' dies and its connections are closed. */
void world_kill(struct world *world, struct world_node *node);

int world_submit(struct world *world, struct world_node *node, uint32_t count,
                 uint64_t *ret_first);
void world_ask(struct world *world, struct world_node *node);

/* Runs one millisecond. */
void world_step(struct world *world);

void world_run(struct world *world, uint64_t duration_ms);

/* A world of 'count' founders that are all up, with a fast and faultless
 * network; the caller changes the settings that it needs. */
void world_init(struct world *world, uint64_t seed, uint32_t count);

void world_done(struct world *world);

/* The leader of the newest term, if it is up and its first entry has been
 * applied, or NULL. */
struct world_node *world_leader(struct world *world);

struct world_node *world_wait_leader(struct world *world);

/* Removes every fault, starts every node that is down, and expects all members
 * but spares to reach the same state, with one leader that can commit. */
void world_heal(struct world *world);

void world_settle(struct world *world);

#endif /* HASP_TESTS_UNIT_REPLICA_WORLD_H */
