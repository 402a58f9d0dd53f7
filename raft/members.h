/* SPDX-License-Identifier: MIT */

/* Configurations: the members, each with the log entry that set them.
 *
 * Encoded as libraft encodes them (so that the core can decode the entry),
 * followed by what the core does not read:
 *
 *     u8 1, u64 count, count x (u64 id, address with its NUL, u8 role),
 *     zeros up to a multiple of 8, count x u64 incarnation
 *
 * The history holds each configuration that is in the log, and the newest one
 * before it: for snapshots (the core's own copy is not reliable for that, see
 * README.md T1), for reporting the committed one to the core, and for finding
 * the member that was promoted last. */

#ifndef HASP_RAFT_MEMBERS_H
#define HASP_RAFT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/replica.h"

struct raft_configuration;

uint32_t members_voter_count(const struct replica_members *members);

/* The core knows members by their ids alone. A new data directory that catches
 * up reads configurations which name its id with the former directory. The core
 * must not take that member for itself, or it would become a candidate with the
 * former directory's vote. So such a member has this id, which no node has, in
 * the core's view. */
#define MEMBERS_FORMER_SELF UINT64_MAX
/* The view for the core of node 'id' with the directory 'incarnation'. */
void members_core_view(const struct replica_members *members, uint64_t id,
                       uint64_t incarnation, struct replica_members *ret_view);
/* A copy of such a view for the core, which owns it from then on. */
void members_to_core(const struct replica_members *view,
                     struct raft_configuration *ret_configuration);

struct members_record {
    uint64_t log_index;
    struct replica_members members;
};

struct members_history {
    struct members_record *records; /* By index, ascending. */
    uint32_t count;
    uint32_t capacity;
};

void members_history_done(struct members_history *history);
void members_history_clear(struct members_history *history);
void members_history_put(struct members_history *history, uint64_t log_index,
                         const struct replica_members *members);
/* Drops the records from 'from_index' on. */
void members_history_truncate(struct members_history *history,
                              uint64_t from_index);
/* Drops the records older than the newest at or below 'log_index'. */
void members_history_trim(struct members_history *history, uint64_t log_index);
/* The newest record at or below 'log_index', or NULL. */
const struct members_record *
members_history_at(const struct members_history *history, uint64_t log_index);

#endif /* HASP_RAFT_MEMBERS_H */
