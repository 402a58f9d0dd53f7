/* SPDX-License-Identifier: MIT */

/* One replica and messages made by hand. */

#ifndef HASP_TESTS_UNIT_REPLICA_LONE_H
#define HASP_TESTS_UNIT_REPLICA_LONE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raft/message.h"
#include "raft/replica.h"

#define ENTRIES_MAX 64

/* The data directory of member 'id', unless a test replaces it. */
#define DIRECTORY(id) (500 + (uint64_t)(id))

/* The replica under test is member 1; the contents of its log on disk are
 * kept. */
struct lone {
    struct replica *replica;
    struct replica_update update;
    struct replica_entry entries[ENTRIES_MAX];
    struct buffer bodies[ENTRIES_MAX];
    uint32_t count;
    uint64_t now_ms;
    uint64_t incarnation; /* 0: DIRECTORY(1). */
    bool saves_no_vote;   /* The test does. */
    uint64_t flush_ms;    /* Duration of a flush. */
};

void make_members(struct replica_members *members, uint32_t voters,
                  uint32_t standbys);
struct replica_entry *add_entry(struct lone *lone, uint64_t term,
                                const struct replica_members *members);

/* The i'th message of the last update. */
struct message sent(const struct lone *lone, uint32_t i);

/* Saves the vote if that was requested: the update then also has the messages
 * that waited for it. */
void save_vote(struct lone *lone);

/* 'members' are the founders; more entries may have been added before. */
void begin(struct lone *lone, uint64_t term, uint64_t voted_for);

void found(struct lone *lone, uint32_t voters, uint32_t standbys);
void done(struct lone *lone);
int receive(struct lone *lone, uint64_t from, const struct message *message);
/* From that directory of it. */
int receive_from(struct lone *lone, uint64_t from, uint64_t incarnation,
                 const struct message *message);

/* An AppendEntries from member 2 with 'count' of our entries after 'prev'. */
int append(struct lone *lone, uint64_t term, uint64_t prev, uint32_t count,
           uint64_t commit);

void persist(struct lone *lone, uint64_t term, uint64_t log_index);
void tick(struct lone *lone);

/* Wins an election with the votes of members 2 and, if necessary, 3. */
void lead(struct lone *lone);

void accept_up_to(struct lone *lone, uint64_t from, uint64_t last);
uint64_t submit(struct lone *lone);

/* Becomes the leader, with a committed entry of its own term; returns its
 * index. */
uint64_t serve(struct lone *lone);

void take_snapshot(struct lone *lone, uint64_t log_index);

#endif /* HASP_TESTS_UNIT_REPLICA_LONE_H */
