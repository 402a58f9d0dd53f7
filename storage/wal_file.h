/* SPDX-License-Identifier: MIT */

/* The files of the write-ahead log: segments and the durable mark.
 *
 * A segment is zeroed to its full size before it is used, under its final name:
 * overwriting blocks that hold data needs no journal of the file system, while
 * blocks that were only reserved would cost half as much again for each write.
 *
 * The mark records a recent durable end of the log. It names a batch by its
 * sequence number, which never goes back (a truncation is a batch, too), so the
 * mark never has to be lowered: a log whose last batch is older than its mark
 * has lost something. Two records are written in turn:
 *
 *      0  8  magic "haspmark"          32  8  term, and
 *      8  8  log id                    40  8  index of the last entry then
 *     16  8  count of this record      48  4  CRC32C of bytes 0 to 47
 *     24  8  sequence of the batch
 *
 * at offset 0 if the count is even, otherwise at 4096. */

#ifndef HASP_STORAGE_WAL_FILE_H
#define HASP_STORAGE_WAL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define WAL_MARK_NAME "mark"
#define WAL_FILE_NAME_SIZE 32

/* "segment-" and the number in 16 hex digits. */
void wal_file_name(uint64_t number, char ret_name[WAL_FILE_NAME_SIZE]);
bool wal_file_number(const char *name, uint64_t *ret_number);

/* Called between the slices of a long preparation; returns true to stop it. */
typedef bool wal_file_stop_fn(void *data);

/* Makes sure that the unused segment 'number' exists with at least 'size' bytes
 * of zeros, durably. On failure the file is removed. Returns 0 or an errno,
 * ECANCELED if it was stopped. */
MUST_CHECK int wal_file_prepare(int folder_fd, uint64_t number, uint64_t size,
                                bool is_direct, wal_file_stop_fn *stop,
                                void *data);

/* Opens a segment for writing. Returns 0 or an errno; EINVAL if the file system
 * does not support O_DIRECT. */
MUST_CHECK int wal_file_open(int folder_fd, uint64_t number, bool is_direct,
                             int *ret_fd, uint64_t *ret_size);

/* Removes a segment, durably. Returns 0 or an errno. */
MUST_CHECK int wal_file_remove(int folder_fd, uint64_t number);

/* Reads a whole segment, from the disk instead of the page cache if the file
 * system can. The caller frees '*ret_data'. */
MUST_CHECK int wal_file_read(int folder_fd, uint64_t number, uint8_t **ret_data,
                             uint64_t *ret_size);

struct wal_mark {
    uint64_t log_id;
    uint64_t count;
    uint64_t sequence; /* 0: nothing has been written yet. */
    uint64_t term;
    uint64_t log_index;
};

/* Makes the mark of a new log, durably. Returns 0 or an errno. */
MUST_CHECK int wal_mark_create(int folder_fd, uint64_t log_id);

/* HASP_ENOENT; HASP_ECORRUPT; HASP_EIO with errno, if it cannot be read. */
MUST_CHECK int wal_mark_load(int folder_fd, struct wal_mark *ret_mark);

/* Writes the next record, durably. Returns 0 or an errno. */
MUST_CHECK int wal_mark_save(int folder_fd, const struct wal_mark *mark);

#endif /* HASP_STORAGE_WAL_FILE_H */
