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
 * TABLE_META's applied index is left out of the records: it stands in the
 * header. (Keys: see SNAPSHOT_META_APPLIED.)
 *
 * Files are named 'snapshot-<index>-<term>' (16 hex digits each); they are
 * written under a temporary name, flushed, read back and checked, and renamed.
 *
 * Threads: the encoding and decoding functions touch only their arguments, so a
 * worker may run them on a read transaction. */

#ifndef HASP_STORAGE_SNAPSHOT_H
#define HASP_STORAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "storage/table.h"

/* The key in TABLE_META under which the applied index and term stand (two
 * big-endian u64); written by lockfsm in each flush. */
#define SNAPSHOT_META_APPLIED "applied"

struct snapshot_header {
    uint64_t last_index;
    uint64_t last_term;
    uint64_t configuration_index;
    struct bytes configuration; /* Opaque: raft/replica.h encodes it. */
};

/* Takes the next piece of the stream; an error ends the encoding. */
typedef int snapshot_sink_fn(void *data, struct bytes piece);

/* Encodes the table as 'txn' sees it. */
MUST_CHECK int snapshot_encode(const struct snapshot_header *header,
                               struct table_txn *txn, snapshot_sink_fn *sink,
                               void *data);

/* Checks a whole stream in memory or mapped, and gives its header (borrowed
 * from 'stream'). HASP_ECORRUPT with a message if anything is wrong. */
MUST_CHECK int snapshot_check(struct bytes stream,
                              struct snapshot_header *ret_header,
                              char why[HASP_WHY_SIZE]);

/* Replaces what is in the table of the write transaction 'txn' by a stream that
 * snapshot_check() has passed, the applied index included. */
MUST_CHECK int snapshot_decode(struct bytes stream, struct table_txn *txn);

/* The checksum in the trailer of a checked stream. */
void snapshot_checksum(struct bytes stream, uint8_t ret_checksum[16]);

/* --- Files -------------------------------------------------------------- */

/* Writes a snapshot file in 'folder': temporary name, flush, read back, check,
 * rename, flush of the folder. Keeps the newest two. */
MUST_CHECK int snapshot_file_write(const char *folder,
                                   const struct snapshot_header *header,
                                   struct table_txn *txn, uint64_t *ret_size,
                                   char why[HASP_WHY_SIZE]);

/* Takes over a received file: checks and flushes 'temporary_path', renames it
 * to its name in 'folder'. */
MUST_CHECK int snapshot_file_adopt(const char *folder,
                                   const char *temporary_path,
                                   char why[HASP_WHY_SIZE]);

/* A snapshot file mapped for reading and checked. */
struct snapshot_file {
    struct bytes stream;
    struct snapshot_header header;
};

/* Maps the newest good snapshot of 'folder'. HASP_ENOENT if there is none;
 * HASP_ECORRUPT if there are some and none is good. A bad one is named in 'why'
 * even where an older good one was found. Removes left-over temporary files. */
MUST_CHECK int snapshot_file_newest(const char *folder,
                                    struct snapshot_file *ret_file,
                                    char why[HASP_WHY_SIZE]);
MUST_CHECK int snapshot_file_map(const char *path,
                                 struct snapshot_file *ret_file,
                                 char why[HASP_WHY_SIZE]);
void snapshot_file_unmap(struct snapshot_file *file);

#endif /* HASP_STORAGE_SNAPSHOT_H */
