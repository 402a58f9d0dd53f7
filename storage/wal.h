/* SPDX-License-Identifier: MIT */

/* The write-ahead log: Raft's entries on disk.
 *
 * The log is a run of segment files in one folder, each pre-zeroed to its full
 * size and named by the index of its first entry. A record is length, CRC32C
 * (chained from the record before, so that what an earlier, longer tail left
 * behind never looks valid), term, index, type and body; storage/wal_format.h
 * has the table. A record whose index is not above the last one replaces that
 * one and all after it: this is how a suffix is truncated.
 *
 * Writing is asynchronous and grouped: wal_append() and wal_truncate() only
 * queue; wal_start() puts all that is queued into ONE durable write if none is
 * in flight (Linux KAIO with O_DIRECT and RWF_DSYNC where the file system has
 * it, else a writer thread with pwritev2 RWF_DSYNC); the loop polls wal_fd()
 * for reading and then calls wal_complete(). The order of durability is the
 * order of the calls.
 *
 * At start the torn tail is cut: the log ends before the first record that does
 * not check. A bad record that valid ones follow is corruption, not a torn tail
 * (only the last write can be torn): HASP_ECORRUPT with file and offset. The
 * durable mark, (term, index) kept in a file of its own and written after the
 * log, tells a cut tail from lost data: a log that ends before its mark has
 * lost entries that this node acknowledged, and HASP_ECORRUPT says so. The mark
 * is lowered before a suffix is cut.
 *
 * Errors: any failed write is fatal (wal_complete returns it, the node exits
 * with 70); nothing is retried. HASP_ENOSPC is told apart so that the message
 * can say it.
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
    uint64_t segment_size; /* Bytes, multiple of 4096; 0: 64 MiB. */
    uint64_t body_size_max; /* Of one entry; 0: 16 MiB. */
    bool without_kaio; /* Use the writer thread even where KAIO works. */
};

/* Called for each entry found at start, in order of index, after truncations
 * have been carried out; 'entry->body' is borrowed. */
typedef void wal_load_fn(void *data, const struct wal_entry *entry);

/* Opens (creates) the log in the folder 'path' and loads it. Errors, each with
 * a message for a person: HASP_EIO, HASP_ENOSPC, HASP_ECORRUPT. */
MUST_CHECK int wal_open(const char *path, const struct wal_options *options,
                        wal_load_fn *load, void *data, struct wal **ret_wal,
                        char why[HASP_WHY_SIZE]);

/* Waits for the write in flight, drops what is only queued. NULL is fine. */
void wal_close(struct wal *wal);

/* Index of the first and the last entry in the log, queued ones included;
 * first = last + 1 if the log is empty. */
uint64_t wal_first(const struct wal *wal);
uint64_t wal_last(const struct wal *wal);

/* Queues entries; the first must follow wal_last(), or be any index if the log
 * is empty. The bodies are copied. */
void wal_append(struct wal *wal, const struct wal_entry *entries,
                uint32_t count);

/* Queues the removal of all entries from 'from_index' on. */
void wal_truncate(struct wal *wal, uint64_t from_index);

/* Starts the write of all that is queued, if none is in flight. */
MUST_CHECK int wal_start(struct wal *wal);

/* A file descriptor that turns readable when a write has ended. */
int wal_fd(const struct wal *wal);

/* Takes note of writes that have ended, and starts the next one. Gives the term
 * and index of the newest durable entry (0, 0 if nothing has become durable). An
 * error is fatal. */
MUST_CHECK int wal_complete(struct wal *wal, uint64_t *ret_term,
                            uint64_t *ret_index);

/* True while a write is in flight or something is queued. */
bool wal_is_busy(const struct wal *wal);

/* Deletes whole segments that hold no entry above 'up_to_index': they are in a
 * snapshot that is on disk and was read back. */
MUST_CHECK int wal_trim(struct wal *wal, uint64_t up_to_index);

/* Empties the log after a snapshot was installed: the next entry is
 * 'next_index'. Synchronous and durable. */
MUST_CHECK int wal_reset(struct wal *wal, uint64_t next_index);

/* Bytes on disk of all segments, for the metrics and the disk reserve. */
uint64_t wal_disk_size(const struct wal *wal);

#endif /* HASP_STORAGE_WAL_H */
