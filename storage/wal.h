/* SPDX-License-Identifier: MIT */

/* The write-ahead log: Raft's entries on disk.
 *
 * The log is a run of segment files in one folder, each zeroed in advance to
 * its full size and numbered in the order of use. One durable write adds one
 * batch: a header with a sequence number and a CRC32C chained from the previous
 * batch, and records (tables in storage/wal_format.h). Written data is never
 * changed: a truncation, and the reset after a snapshot was installed, are
 * records, too.
 *
 * Writing is asynchronous and grouped: wal_append() and wal_truncate() only
 * queue; wal_start() writes the queue as ONE durable write on a thread, if none
 * is in flight. It uses O_DIRECT and RWF_DSYNC if the file system supports
 * them, and the page cache with a flush otherwise. The loop polls wal_fd() for
 * reading and then calls wal_complete(). The order of durability is the order
 * of the calls. A second thread does all slow work (zeroing the next segment,
 * removing old ones, writing the mark). If the next segment is not ready in
 * time, the queue waits for it; the caller never does.
 *
 * At the start a torn tail is cut off: a batch with a bad checksum, without
 * proof after it that it was ever durable. With such a proof it is corruption:
 * HASP_ECORRUPT with file and offset. The durable mark distinguishes a cut tail
 * from lost data. It has a file of its own and is written lazily (a few times a
 * second, and at wal_close()). A log that ends before its mark has lost entries
 * that this node may have acknowledged, which is HASP_ECORRUPT. A loss after
 * the last mark is not detected if the disk itself crashes.
 *
 * Errors: any failed write is fatal (wal_complete() returns it, wal_why() has
 * the message, the node exits with 70); nothing is retried. HASP_ENOSPC is
 * separate so that the message can name it.
 *
 * Time: the log has no clock. The caller measures how long a write takes (a
 * hung disk).
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
     * are smaller, so that a new node starts quickly; a segment that must hold
     * a larger entry is larger. */
    uint64_t segment_size;
    uint64_t body_size_max; /* Largest body of an entry; 0: 16 MiB. */
    bool without_direct;    /* Even where O_DIRECT works. */
    uint64_t log_id;        /* Random id for a new log; 0: the log draws it. */
};

/* Called for each entry found at start, in order of index, after truncations
 * have been carried out; 'entry->body' is borrowed. */
typedef void wal_load_fn(void *data, const struct wal_entry *entry);

/* Opens (creates) the log in the folder 'path' and loads it. Errors, each with
 * a message for a person: HASP_EIO, HASP_ENOSPC, HASP_ECORRUPT, HASP_EINVALID
 * (options). The data directory's lock keeps others from opening the log. */
MUST_CHECK int wal_open(const char *path, const struct wal_options *options,
                        wal_load_fn *load, void *data, struct wal **ret_wal,
                        char why[HASP_WHY_SIZE]);

/* Waits for the write in flight, drops the queue, writes the mark. NULL is
 * fine. */
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

/* Starts writing the whole queue, if no write is in flight. */
MUST_CHECK int wal_start(struct wal *wal);

/* While it is held no write begins: one in flight continues, and the queue
 * waits. This applies to wal_reset_start(), but not to wal_reset(). */
void wal_hold(struct wal *wal, bool is_held);

/* A file descriptor that becomes readable when a write has ended. */
int wal_fd(const struct wal *wal);

/* While it is not awaited wal_fd() does not become readable when a write ends,
 * which saves two system calls. After wal_open() it is awaited. Returns true if
 * a write has ended: wal_complete() is due, even if wal_fd() is not readable.
 */
bool wal_await(struct wal *wal, bool is_awaited);

/* Handles writes that have ended, and starts the next one. Returns the term and
 * index of the newest entry on disk: (0, 0) if the log is empty; after a
 * truncation without new entries, the entry before it (its term is 0 if that
 * entry is no longer in the log). An error is fatal. */
MUST_CHECK int wal_complete(struct wal *wal, uint64_t *ret_term,
                            uint64_t *ret_index);

/* After an error: a message for the operator. */
const char *wal_why(const struct wal *wal);

/* The way of writing: "direct" or "buffered". */
const char *wal_mode(const struct wal *wal);

/* Number of durable writes since the log was opened. */
uint64_t wal_write_count(const struct wal *wal);
/* True while a write is in flight. */
bool wal_is_writing(const struct wal *wal);
/* True while a write is in flight or something is queued. */
bool wal_is_busy(const struct wal *wal);
/* True while the next segment, or the mark, cannot be opened because of too
 * many open files: the queue waits, and the open is retried. */
bool wal_is_starved(const struct wal *wal);

/* Deletes whole segments that hold no entry above 'up_to_index': a snapshot on
 * disk that was read back covers them. The files are removed in the background;
 * wal_first() changes at once. */
MUST_CHECK int wal_trim(struct wal *wal, uint64_t up_to_index);

/* Empties the log, for a snapshot that is installed: the next entry is
 * 'next_index'. The queue is dropped. The reset is asynchronous, durable once
 * wal_is_busy() is false, and a single record: after a crash all entries are
 * gone, or none. */
void wal_reset_start(struct wal *wal, uint64_t next_index);
/* The same, but waits until it is durable; for the start. */
MUST_CHECK int wal_reset(struct wal *wal, uint64_t next_index);

/* Bytes on disk of all segments, the prepared one included, for the metrics and
 * the disk reserve. */
uint64_t wal_disk_size(const struct wal *wal);

#endif /* HASP_STORAGE_WAL_H */
