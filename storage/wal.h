/* SPDX-License-Identifier: MIT */

/* The write-ahead log: Raft's entries on disk.
 *
 * The log is a run of segment files in one folder, each zeroed in advance to
 * its full size and numbered in the order of use. What one durable write adds
 * is a batch: a header with a sequence number and a CRC32C that is chained from
 * the batch before, and records (storage/wal_format.h has the tables). Nothing
 * that was written is ever changed: a truncation, and the reset after a
 * snapshot was installed, are records, too.
 *
 * Writing is asynchronous and grouped: wal_append() and wal_truncate() only
 * queue; wal_start() puts what is queued into ONE durable write if none is in
 * flight, by a thread (O_DIRECT and RWF_DSYNC where the file system has them,
 * else through the page cache and flushed); the loop polls wal_fd() for
 * reading and then calls wal_complete(). The order of durability is the order
 * of the calls. Everything slow (zeroing the next segment, removing old ones,
 * the mark) is done by a thread of the log's own; if the next segment is not
 * ready in time, the queue waits for it, never the caller.
 *
 * At start the torn tail is cut: a batch that does not check and behind which
 * nothing proves that it was durable once. Where there is a proof it is
 * corruption: HASP_ECORRUPT with file and offset. The durable mark, kept in a
 * file of its own and written lazily (a few times a second, and at
 * wal_close()), tells a cut tail from lost data: a log that ends before its
 * mark has lost entries that this node may have acknowledged, and HASP_ECORRUPT
 * says so. What is lost between the last mark and a crash of the disk itself is
 * not told.
 *
 * Errors: any failed write is fatal (wal_complete() returns it, wal_why() tells
 * a person, the node exits with 70); nothing is retried. HASP_ENOSPC is told
 * apart so that the message can say it.
 *
 * Time: none here. How long a write has been out (a hung disk) is the caller's
 * to measure.
 *
 * Threads: one. */

#ifndef HASP_STORAGE_WAL_H
#define HASP_STORAGE_WAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct wal;

struct wal_entry {
    uint64_t term;
    uint64_t log_index;
    uint8_t type; /* raft/replica.h: enum replica_entry_type. */
    struct bytes body;
};

struct wal_options {
    /* Bytes, a multiple of 4096, at least 8192; 0: 16 MiB. The first segments
     * are smaller, so that a new node is up at once, and one that must hold a
     * bigger entry is bigger. */
    uint64_t segment_size;
    uint64_t body_size_max; /* Of one entry; 0: 16 MiB. */
    bool without_direct;    /* Even where O_DIRECT works. */
    uint64_t log_id;        /* Of a new log, random; 0: drawn. */
};

/* Called for each entry found at start, in order of index, after truncations
 * have been carried out; 'entry->body' is borrowed. */
typedef void wal_load_fn(void *data, const struct wal_entry *entry);

/* Opens (creates) the log in the folder 'path' and loads it. Errors, each with
 * a message for a person: HASP_EIO, HASP_ENOSPC, HASP_ECORRUPT,
 * HASP_EINVALID (options). That nobody else has the log open is the data
 * directory's lock's matter. */
MUST_CHECK int wal_open(const char *path, const struct wal_options *options,
                        wal_load_fn *load, void *data, struct wal **ret_wal,
                        char why[HASP_WHY_SIZE]);

/* Waits for the write in flight, drops what is only queued, writes the mark.
 * NULL is fine. */
void wal_close(struct wal *wal);

/* Index of the first and the last entry in the log, queued ones included;
 * first = last + 1 if the log is empty. */
uint64_t wal_first(const struct wal *wal);
uint64_t wal_last(const struct wal *wal);

/* Queues entries; the first must follow wal_last(), or be any index if the log
 * is empty. The bodies are copied. */
void wal_append(struct wal *wal, const struct wal_entry *entries,
                uint32_t count);

/* Queues the removal of all entries from 'from_index' on, which is not below
 * wal_first(); nothing happens if it is above wal_last(). */
void wal_truncate(struct wal *wal, uint64_t from_index);

/* Starts the write of all that is queued, if none is in flight. */
MUST_CHECK int wal_start(struct wal *wal);

/* While it is held no write begins: one that is in flight goes on, what is
 * queued waits. wal_reset() is not held up, wal_reset_start() is. */
void wal_hold(struct wal *wal, bool is_held);

/* A file descriptor that turns readable when a write has ended. */
int wal_fd(const struct wal *wal);

/* While it is not awaited wal_fd() does not turn readable for a write that has
 * ended, which saves two system calls; from the start it is. True if a write
 * has ended: wal_complete() is due, whatever wal_fd() says. */
bool wal_await(struct wal *wal, bool is_awaited);

/* Takes note of writes that have ended, and starts the next one. Gives the term
 * and index of the newest entry of the log as it is on disk: (0, 0) if that is
 * empty; after a truncation without new entries, the entry before it (its term
 * is 0 if that entry is no longer in the log). An error is fatal. */
MUST_CHECK int wal_complete(struct wal *wal, uint64_t *ret_term,
                            uint64_t *ret_index);

/* After an error: what happened, for a person. */
const char *wal_why(const struct wal *wal);

/* How it writes: "direct" or "buffered". */
const char *wal_mode(const struct wal *wal);

/* Writes that have become durable since it was opened. */
uint64_t wal_write_count(const struct wal *wal);
/* True while a write is in flight. */
bool wal_is_writing(const struct wal *wal);
/* True while a write is in flight or something is queued. */
bool wal_is_busy(const struct wal *wal);
/* True while the next segment, or the mark, cannot be opened since there are
 * too many open files: what is queued waits, and it is tried again. */
bool wal_is_starved(const struct wal *wal);

/* Deletes whole segments that hold no entry above 'up_to_index': they are in a
 * snapshot that is on disk and was read back. It happens in the background;
 * wal_first() tells at once what is left. */
MUST_CHECK int wal_trim(struct wal *wal, uint64_t up_to_index);

/* Empties the log, for a snapshot that is installed: the next entry is
 * 'next_index'. What is queued is dropped. Asynchronous as all else, durable
 * when wal_is_busy() is false, and one record: after a crash either all is gone
 * or nothing. */
void wal_reset_start(struct wal *wal, uint64_t next_index);
/* The same, but waits until it is durable; for the start. */
MUST_CHECK int wal_reset(struct wal *wal, uint64_t next_index);

/* Bytes on disk of all segments, the prepared one included, for the metrics and
 * the disk reserve. */
uint64_t wal_disk_size(const struct wal *wal);

#endif /* HASP_STORAGE_WAL_H */
