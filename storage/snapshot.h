/* SPDX-License-Identifier: MIT */

/* Snapshots: the whole state as one portable, checksummed stream.
 *
 * A header (magic, format, last index and term, Raft configuration and its
 * index), then the records of every map of the table in the order of enum
 * table_map and of their keys, then a trailer with the record count and a
 * checksum (XXH3-128) of all before it. The stream depends on the state alone:
 * equal state gives equal bytes on every node, so checksums can be compared.
 * The same file is the backup.
 *
 * TABLE_META's applied index is not among the records: it is in the header.
 * (Keys: see SNAPSHOT_META_APPLIED.)
 *
 *     offset  size  field (integers little-endian)
 *     0       8     magic "HASPSNAP"
 *     8       4     format, 1
 *     12      8     last index
 *     20      8     last term
 *     28      8     configuration index
 *     36      4     size of the configuration, c
 *     40      c     the configuration
 *             1     per record: its map + 1,
 *             4+k   the key's size and the key,
 *             4+v   the value's size and the value
 *             1     0: end of the records
 *             8     the number of records
 *             16    XXH3-128 (canonical) of all before it
 *
 * Records that are duplicate or out of order are refused, so a valid stream is
 * the only encoding of its state. lockfsm defines the values.
 *
 * Files are named 'snapshot-<index>-<term>' (16 hex digits each); they are
 * written under a temporary name, flushed, read back and checked, and renamed.
 * Temporary names end in '.tmp'. A writer holds flock() on its temporary file,
 * so that a file in use is distinguished from one that a dead process left.
 *
 * Threads: all functions touch only their arguments and their own files, so a
 * worker may run them on a read transaction. */

#ifndef HASP_STORAGE_SNAPSHOT_H
#define HASP_STORAGE_SNAPSHOT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/err.h"
#include "storage/table.h"

#define SNAPSHOT_CONFIGURATION_SIZE_MAX (64 * 1024)

/* The key in TABLE_META of the applied index and term (two big-endian u64);
 * lockfsm writes it in each flush. */
#define SNAPSHOT_META_APPLIED "applied"

struct snapshot_header {
    uint64_t last_index;
    uint64_t last_term;
    uint64_t configuration_index;
    struct bytes configuration; /* Opaque: raft/replica.h encodes it. */
};

/* Receives the next piece of the stream; an error ends the encoding. */
typedef int snapshot_sink_fn(void *data, struct bytes piece);

/* Encodes the table as 'txn' sees it. */
MUST_CHECK int snapshot_encode(const struct snapshot_header *header,
                               struct table_txn *txn, snapshot_sink_fn *sink,
                               void *data);

/* Checks a whole stream, in memory or mapped, and returns its header (borrowed
 * from 'stream'). HASP_ECORRUPT with a message if anything is wrong. */
MUST_CHECK int snapshot_check(struct bytes stream,
                              struct snapshot_header *ret_header,
                              char why[HASP_WHY_SIZE]);

/* Replaces the contents of the table of the write transaction 'txn' with a
 * stream that passed snapshot_check(), including the applied index. On an error
 * the transaction must be aborted. */
MUST_CHECK int snapshot_decode(struct bytes stream, struct table_txn *txn);

/* The checksum in the trailer of a checked stream. */
void snapshot_checksum(struct bytes stream, uint8_t ret_checksum[DIGEST_SIZE]);

/* --- Files ---------------------------------------------------------------- */

/* Writes a snapshot file in 'folder': temporary name, flush, read back, check,
 * rename, flush of the folder. Keeps the newest two. */
MUST_CHECK int snapshot_file_write(const char *folder,
                                   const struct snapshot_header *header,
                                   struct table_txn *txn, uint64_t *ret_size,
                                   char why[HASP_WHY_SIZE]);

/* The same for a file 'path' in any folder, which replaces an existing one: it
 * is written as 'path'.part and renamed after it was checked. */
MUST_CHECK int snapshot_file_save(const char *path,
                                  const struct snapshot_header *header,
                                  struct table_txn *txn, uint64_t *ret_size,
                                  char why[HASP_WHY_SIZE]);

/* Takes over a received file: checks and flushes 'temporary_path' (on the same
 * file system), renames it to its name in 'folder'. Keeps the newest two. A
 * refused file stays in place. */
MUST_CHECK int snapshot_file_adopt(const char *folder,
                                   const char *temporary_path,
                                   char why[HASP_WHY_SIZE]);

/* A snapshot file mapped for reading and checked. */
struct snapshot_file {
    struct bytes stream;
    struct snapshot_header header;
};

/* Maps the newest valid snapshot of 'folder'; its name is durable. HASP_ENOENT
 * if there are no snapshots; HASP_ECORRUPT if none of them is valid. 'why'
 * names an invalid one even if an older valid one was found, and is empty
 * otherwise. Removes left-over temporary files that are not locked, so lock a
 * file while it is being received. */
MUST_CHECK int snapshot_file_newest(const char *folder,
                                    struct snapshot_file *ret_file,
                                    char why[HASP_WHY_SIZE]);
MUST_CHECK int snapshot_file_map(const char *path,
                                 struct snapshot_file *ret_file,
                                 char why[HASP_WHY_SIZE]);
void snapshot_file_unmap(struct snapshot_file *file);

#endif /* HASP_STORAGE_SNAPSHOT_H */
