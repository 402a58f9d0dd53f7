/* SPDX-License-Identifier: MIT */

/* The worker that does the log's housekeeping, so that the loop never waits for
 * it: it zeroes and opens the next segment in advance, removes segments that
 * were trimmed, and writes the durable mark, at most every
 * WAL_MARK_INTERVAL_MS.
 *
 * All functions but new and close return at once. The eventfd reports when
 * their request is done or has failed. A failure is final, with two exceptions.
 * If the disk is full while a segment is prepared, wal_keeper_prepared()
 * returns that, and the segment can be requested again. If no file can be
 * opened because of too many open files, the open is retried until it succeeds.
 */

#ifndef HASP_STORAGE_WAL_KEEPER_H
#define HASP_STORAGE_WAL_KEEPER_H

#include "storage/wal_file.h"

#define WAL_MARK_INTERVAL_MS 250

struct wal_keeper;

struct wal_keeper_options {
    int folder_fd;
    const char *path; /* For messages; must outlive the keeper. */
    int event_fd;
    bool is_direct;
    struct wal_mark mark;  /* The mark on disk. */
    uint64_t first_number; /* Number of the oldest segment. */
};

/* HASP_EREFUSED if no thread can be had. */
MUST_CHECK int wal_keeper_new(const struct wal_keeper_options *options,
                              struct wal_keeper **ret_keeper);
/* Finishes removals and the mark, gives up a preparation. NULL is fine. */
MUST_CHECK int wal_keeper_free(struct wal_keeper *keeper);

/* Requests the unused segment 'number' with at least 'size' bytes. */
void wal_keeper_prepare(struct wal_keeper *keeper, uint64_t number,
                        uint64_t size);
/* Waits until the requested segment is ready or has failed. */
void wal_keeper_wait(struct wal_keeper *keeper);
/* 0: it is ready. HASP_EBUSY: not yet. HASP_ENOENT: it was not requested.
 * HASP_ENOSPC: the disk was full; request it again. */
MUST_CHECK int wal_keeper_prepared(struct wal_keeper *keeper, uint64_t number,
                                   uint64_t size);
/* Bytes of the prepared segment that is not in use yet. */
uint64_t wal_keeper_spare_size(struct wal_keeper *keeper);
/* The prepared segment 'number' is in use from now on. Returns its file, open
 * for writing, and its size; the file that was in use before, 'old_fd', is
 * closed by the thread. */
int wal_keeper_take(struct wal_keeper *keeper, uint64_t number, int old_fd,
                    uint64_t *ret_size);

/* True while it waits for a file descriptor. */
bool wal_keeper_is_starved(struct wal_keeper *keeper);

/* Requests the removal of all segments with a smaller number. */
void wal_keeper_remove_below(struct wal_keeper *keeper, uint64_t number);

/* The log is durable up to this batch. */
void wal_keeper_mark(struct wal_keeper *keeper, uint64_t sequence,
                     uint64_t term, uint64_t log_index);

/* 0, or the error of a failed request, with a message. */
MUST_CHECK int wal_keeper_error(struct wal_keeper *keeper,
                                char why[HASP_WHY_SIZE]);

#endif /* HASP_STORAGE_WAL_KEEPER_H */
