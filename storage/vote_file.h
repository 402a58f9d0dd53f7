/* SPDX-License-Identifier: MIT */

/* DIR/vote: Raft's current term and vote.
 *
 * The file has four places in blocks of their own. A save writes one record to
 * two of them, those that the save before did not write, and then flushes once:
 *
 *     place      0        1        2        3       a record, 36 bytes:
 *     save 4     record            record            0  8  magic "haspvote"
 *     save 5              record            record   8  8  count of the save
 *                                                   16  8  term
 *                                                   24  8  voted for
 *                                                   32  4  CRC32C of these
 *
 * A crash spoils at most what is being written, and nobody has been told of
 * that: the save before is whole. A record that rots later has its double. (If
 * a save's two records rot both, the save before it would count: they stand
 * apart, so that no single sector holds both.)
 *
 * Each load writes the newest record again, in its two places, and flushes: it
 * may have been read from the kernel's memory and stand nowhere else, since the
 * process that wrote it died before its flush, or of a flush that failed.
 *
 * Threads: one at a time. */

#ifndef HASP_STORAGE_VOTE_FILE_H
#define HASP_STORAGE_VOTE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define VOTE_FILE_NAME "vote"
#define VOTE_FILE_PLACE_SIZE 4096u
#define VOTE_FILE_PLACE_COUNT 4u

struct vote_file {
    int fd;         /* -1: not open. */
    uint64_t count; /* Of the newest save. */
    uint64_t term;
    uint64_t voted_for;
};

/* Makes the file with (0, 0), durably. Returns 0 or an errno. */
MUST_CHECK int vote_file_create(int folder_fd, struct vote_file *ret_file);
/* Opens and reads it. HASP_ECORRUPT, if it is not there or no record checks;
 * HASP_EIO; HASP_ENOSPC: with a message that names 'folder'. */
MUST_CHECK int vote_file_open(int folder_fd, const char *folder,
                              struct vote_file *ret_file,
                              char why[HASP_WHY_SIZE]);
void vote_file_close(struct vote_file *file);
/* Durable on return, with one flush. Returns 0 or an errno. */
MUST_CHECK int vote_file_save(struct vote_file *file, uint64_t term,
                              uint64_t voted_for);
/* True unless the file holds nothing but what vote_file_create() has written,
 * or cannot be read, or is not there. */
bool vote_file_is_used(int folder_fd);

#endif /* HASP_STORAGE_VOTE_FILE_H */
