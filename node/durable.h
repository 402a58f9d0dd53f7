/* SPDX-License-Identifier: MIT */

/* Writes the vote and the log of a node, in a safe order.
 *
 * Workers write both (storage/wal.h, storage/vote_saver.h); the order is
 * decided here. While a vote is being saved, no write of the log starts: a
 * leader's entries must not be on disk before its term is. If further votes are
 * requested meanwhile, only the newest is saved. The duration of writes is
 * measured (node/write_latency.h).
 *
 * It has no loop and no clock: times are arguments. node/journal.c drives it on
 * libuv, the simulator with its events. Errors are final, as everywhere in
 * storage/. Threads: one. */

#ifndef HASP_NODE_DURABLE_H
#define HASP_NODE_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "node/write_latency.h"
#include "raft/replica.h"

struct vote_saved;
struct vote_saver;
struct wal;

struct durable {
    struct wal *wal;          /* Owned by the caller, as 'saver'. */
    struct vote_saver *saver; /* NULL: no votes before the start. */
    uint64_t asked_term;      /* Newest vote that was requested ... */
    uint64_t asked_vote;
    bool is_saving; /* ... and is not saved yet. */
    bool is_resetting;
    struct write_latency votes;
    struct write_latency writes;
};

void durable_save_vote(struct durable *durable, uint64_t term,
                       uint64_t voted_for, uint64_t now_ns);
/* Queues entries; durable_start() begins to write. */
void durable_append(struct durable *durable,
                    const struct replica_entry *entries, uint32_t count);
/* Empties the log, which continues at 'next_index'; 'is_resetting' until that
 * is durable. */
void durable_reset(struct durable *durable, uint64_t next_index);
/* At the end of a turn: starts to write the queued entries. */
MUST_CHECK int durable_start(struct durable *durable, uint64_t now_ns);

/* Call it when a vote may have been saved; returns as vote_saver_take(). If it
 * was the newest, writes of the log continue. */
MUST_CHECK int durable_take_vote(struct durable *durable, uint64_t now_ns,
                                 struct vote_saved *ret_saved);
/* Call it when a write of the log may have ended or the next segment may be
 * ready; returns as wal_complete(). */
MUST_CHECK int durable_take_log(struct durable *durable, uint64_t now_ns,
                                uint64_t *ret_term, uint64_t *ret_index);

#endif /* HASP_NODE_DURABLE_H */
