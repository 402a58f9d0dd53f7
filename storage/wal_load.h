/* SPDX-License-Identifier: MIT */

/* Recovery of the write-ahead log: from the files to the entries.
 *
 * Reads all segments, checks them (storage/wal_format.h has the rule that
 * distinguishes torn from corrupt), replays truncations, compares with the
 * durable mark and only then repairs: the torn tail becomes zeros, files after
 * the end are removed. Afterwards the log on disk is exactly the one returned,
 * durably. */

#ifndef HASP_STORAGE_WAL_LOAD_H
#define HASP_STORAGE_WAL_LOAD_H

#include "storage/wal.h"
#include "storage/wal_file.h"
#include "storage/wal_format.h"

struct wal_image_segment {
    uint64_t number;
    uint64_t size;
    uint64_t low;  /* No entry in it or later has an index below. */
    uint64_t high; /* No living entry in it has an index above. */
    uint8_t *data; /* The whole file. */
};

struct wal_image {
    struct wal_mark mark;
    struct wal_chain chain; /* For the next batch. */
    uint64_t first;         /* Index of the first entry. */
    uint64_t next;          /* Index of the next; 'first' if there is none. */
    struct wal_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
    struct wal_image_segment *segments; /* Those in use; the last is active. */
    size_t segment_count;
    uint64_t tail;       /* Offset of the next batch in the active segment. */
    uint64_t spare_size; /* Size of a zeroed segment after it, or 0. */
    bool was_torn;
};

/* Errors as wal_open(); what was allocated is released by wal_image_done() in
 * any case. A new log gets its mark, with 'log_id' (0: one is drawn), and has
 * no segments. */
MUST_CHECK int wal_load(int folder_fd, const char *path, uint64_t log_id,
                        struct wal_image *image, char why[HASP_WHY_SIZE]);
void wal_image_done(struct wal_image *image);

#endif /* HASP_STORAGE_WAL_LOAD_H */
