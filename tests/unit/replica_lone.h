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

/* The data directory of member 'id', unless a test says otherwise. */
#define DIRECTORY(id) (500 + (uint64_t)(id))

/* The replica under test is member 1; what its log on disk holds is kept. */
struct lone {
    struct replica *replica;
    struct replica_update update;
    struct replica_entry entries[ENTRIES_MAX];
    struct buffer bodies[ENTRIES_MAX];
    uint32_t count;
    uint64_t now_ms;
    uint64_t incarnation; /* 0: DIRECTORY(1). */
    bool saves_no_vote;   /* The test does. */
    uint64_t flush_ms;    /* What it takes. */
};

void make_members(struct replica_members *members, uint32_t voters,
                  uint32_t standbys);
struct replica_entry *add_entry(struct lone *lone, uint64_t term,
                                const struct replica_members *members);

/* The i'th message of the last update. */
struct message sent(const struct lone *lone, uint32_t i);

/* Saves the vote if that was asked for: the update then has as well what waited
 * for it. */
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

/* Wins an election with the votes of members 2 and, if need be, 3. */
void lead(struct lone *lone);

void accept_up_to(struct lone *lone, uint64_t from, uint64_t last);
uint64_t submit(struct lone *lone);

/* Leads, with an entry of its own term committed; returns its index. */
uint64_t serve(struct lone *lone);

void take_snapshot(struct lone *lone, uint64_t log_index);

#endif /* HASP_TESTS_UNIT_REPLICA_LONE_H */
