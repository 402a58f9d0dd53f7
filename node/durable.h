/* SPDX-License-Identifier: MIT */

/* The vote and the log of a node on their way to the disk.
 *
 * Both are written by workers (storage/wal.h, storage/vote_saver.h); what is
 * decided here is the order. While a vote is being saved no write of the log
 * begins: what a leader has sent must not be on disk before its term is. Of
 * votes that are asked for meanwhile only the newest is saved. How long writes
 * take is measured (node/write_latency.h).
 *
 * No loop and no clock: the times come in. node/journal.c drives it on libuv,
 * the simulator on its events. Errors are final, as everywhere in storage/.
 * Threads: one. */

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
    struct wal *wal;          /* The owner's, as is the next. */
    struct vote_saver *saver; /* NULL: no vote may be saved yet. */
    uint64_t asked_term;      /* Of the newest vote that is to be saved ... */
    uint64_t asked_vote;
    bool is_saving; /* ... and has not been saved yet. */
    bool is_resetting;
    struct write_latency votes;
    struct write_latency writes;
};

void durable_save_vote(struct durable *durable, uint64_t term,
                       uint64_t voted_for, uint64_t now_ns);
/* Queues entries; durable_start() begins to write. */
void durable_append(struct durable *durable,
                    const struct replica_entry *entries, uint32_t count);
/* Empties the log, which goes on at 'next_index'; 'is_resetting' until that is
 * durable. */
void durable_reset(struct durable *durable, uint64_t next_index);
/* The end of a turn: the write of what was queued begins. */
MUST_CHECK int durable_start(struct durable *durable, uint64_t now_ns);

/* A vote may have been saved: as vote_saver_take(). If none is waited for any
 * more, the log goes on. */
MUST_CHECK int durable_take_vote(struct durable *durable, uint64_t now_ns,
                                 struct vote_saved *ret_saved);
/* A write of the log may have ended, or the next segment may be there: as
 * wal_complete(). */
MUST_CHECK int durable_take_log(struct durable *durable, uint64_t now_ns,
                                uint64_t *ret_term, uint64_t *ret_index);

#endif /* HASP_NODE_DURABLE_H */
