/* SPDX-License-Identifier: MIT */

/* The node's disk: the log, the vote, and how much room is left.
 *
 * Both are written asynchronously (storage/wal.h, storage/vote_saver.h); that
 * they are durable comes back through the loop; in which order is decided by
 * node/durable.h. Everything that fails here ends the node (exit 70):
 * after a failed write nobody knows what is on the disk, and only a start that
 * reads it back can tell.
 *
 * Each second the free space is looked at. Below the reserve the core is told
 * that the disk is scarce (it refuses changes of clients and hands leadership
 * over) until there is twice the reserve again. A write that does not end
 * within a second (or two election time-outs, if these are shorter) is treated
 * as scarcity, too; one that does not end within ten election time-outs ends
 * the node: a hung disk must not keep a leader.
 *
 * Nothing here waits for the disk once the node has begun. What other threads
 * wait for, and for how long, is told by a thread of its own
 * (storage/disk_watch.h): a line of the log, whatever the loop does. */

#ifndef HASP_NODE_JOURNAL_H
#define HASP_NODE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "core/core.h"
#include "node/durable.h"
#include "raft/replica.h"

struct hasp_node;

struct journal {
    struct hasp_node *node;
    struct durable durable; /* Its saver: from journal_begin() on. */
    uv_poll_t poll;
    bool is_polling;
    uv_poll_t saver_poll;
    uv_work_t space_work;
    bool is_asking; /* For the free space, on a worker's thread ... */
    int space_error;
    uint64_t space_found; /* ... which writes these. */
    bool is_full;
    enum core_disk told; /* What the core knows of the disk. */
    uint64_t free_size;
    uint64_t starved_told_ns; /* 0: there are files enough. */
};

/* Begins to watch the log, which is open, and the disk. */
void journal_watch(struct journal *journal);
/* From now on votes are saved by a thread of their own; fails with turn_fail().
 */
void journal_begin(struct journal *journal);
/* Stops watching; the handles are gone when the loop has run once more. */
void journal_unwatch(struct journal *journal);
/* Frees what journal_begin() has made. */
void journal_done(struct journal *journal);
/* The end of a turn: starts the write of what was appended. */
void journal_start(struct journal *journal);
/* The loop is about to sleep, or is awake and asks by itself: takes note of a
 * write that has ended. */
void journal_await(struct journal *journal, bool is_awaited);
/* Housekeeping: each second. */
void journal_tick(struct journal *journal, uint64_t now_ns);
/* Looks how long writes have been in flight; to be called at journal_next(). */
void journal_look(struct journal *journal, uint64_t now_ns);
uint64_t journal_next(const struct journal *journal);
/* Empties the log, which then goes on at 'next_index'; 'durable.is_resetting'
 * until it has. */
void journal_reset(struct journal *journal, uint64_t next_index);
enum core_disk journal_disk(const struct journal *journal);
/* Bytes that may be written until the reserve is reached. */
uint64_t journal_room(const struct journal *journal);
/* Writes entries and waits until they are durable: only before the loop
 * runs. */
MUST_CHECK int journal_write_now(struct journal *journal,
                                 const struct replica_entry *entries,
                                 uint32_t count);

/* Of struct core_port; 'data' is the node. */
void journal_port_save_vote(void *data, uint64_t term, uint64_t voted_for);
void journal_port_log_truncate(void *data, uint64_t from_index);
void journal_port_log_append(void *data, const struct replica_entry *entries,
                             uint32_t count);
void journal_port_log_trim(void *data, uint64_t up_to_index);

#endif /* HASP_NODE_JOURNAL_H */
