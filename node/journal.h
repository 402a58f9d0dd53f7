/* SPDX-License-Identifier: MIT */

/* The node's disk: the log, the vote, and the free space.
 *
 * Log and vote are written asynchronously (storage/wal.h,
 * storage/vote_saver.h), in the order that node/durable.h decides; their
 * completion is reported through the loop. Every failure here ends the node
 * (exit 70): after a failed write the content of the disk is unknown until a
 * start reads it back.
 *
 * The free space is checked each second. Below the reserve the core treats the
 * disk as full (it refuses clients' changes and hands leadership over) until
 * twice the reserve is free. A write that takes longer than a second (or two
 * election timeouts, if these are shorter) has the same effect. A write that
 * takes longer than ten election timeouts ends the node, since a node with a
 * hung disk must not stay leader.
 *
 * Nothing here waits for the disk once the core has started. A separate thread
 * (storage/disk_watch.h) logs what other threads wait for and how long, even if
 * the loop hangs. */

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
    struct durable durable; /* Its saver exists from journal_begin() on. */
    uv_poll_t poll;
    bool is_polling;
    uv_poll_t saver_poll;
    uv_work_t space_work;
    bool is_asking; /* A worker reads the free space ... */
    int space_error;
    uint64_t space_found; /* ... into these. */
    bool is_full;
    enum core_disk reported; /* As last reported to the core. */
    uint64_t free_size;
    uint64_t starved_logged_ns; /* 0: files can be opened. */
};

/* Starts to watch the disk and the log, which must be open. */
void journal_watch(struct journal *journal);
/* Starts the thread that saves votes; fails with turn_fail(). */
void journal_begin(struct journal *journal);
/* Stops watching; the handles are closed when the loop has run once more. */
void journal_unwatch(struct journal *journal);
/* Frees the objects of journal_begin(). */
void journal_done(struct journal *journal);
/* At the end of a turn: starts to write the appended entries. */
void journal_start(struct journal *journal);
/* 'is_awaited': the loop is about to sleep and needs a wake-up when a write
 * ends. Otherwise it is awake. Handles a write that has ended. */
void journal_await(struct journal *journal, bool is_awaited);
/* Housekeeping: each second. */
void journal_tick(struct journal *journal, uint64_t now_ns);
/* Checks how long writes have been in flight; call it at journal_next(). */
void journal_look(struct journal *journal, uint64_t now_ns);
uint64_t journal_next(const struct journal *journal);
/* Empties the log, which continues at 'next_index'; 'durable.is_resetting'
 * until that is durable. */
void journal_reset(struct journal *journal, uint64_t next_index);
enum core_disk journal_disk(const struct journal *journal);
/* Bytes that can be written until the reserve is reached. */
uint64_t journal_room(const struct journal *journal);
/* Writes entries and waits until they are durable: only before the loop
 * runs. */
MUST_CHECK int journal_write_now(struct journal *journal,
                                 const struct replica_entry *entries,
                                 uint32_t count);

/* For struct core_port; 'data' is the node. */
void journal_port_save_vote(void *data, uint64_t term, uint64_t voted_for);
void journal_port_log_truncate(void *data, uint64_t from_index);
void journal_port_log_append(void *data, const struct replica_entry *entries,
                             uint32_t count);
void journal_port_log_trim(void *data, uint64_t up_to_index);

#endif /* HASP_NODE_JOURNAL_H */
