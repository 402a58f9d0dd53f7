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
 * A crash damages at most the save in progress, which has not been reported as
 * durable: the previous save is intact. If a record rots later, its copy
 * remains. (If both records of a save rotted, the previous save would count, so
 * they are apart: no single sector holds both.)
 *
 * Each load writes the newest record again, in its two places, and flushes. The
 * record may have been read from the page cache and exist nowhere else, because
 * the process that wrote it died before the flush or because the flush failed.
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
    uint64_t count; /* Number of the newest save. */
    uint64_t term;
    uint64_t voted_for;
};

/* Makes the file with (0, 0), durably. Returns 0 or an errno. */
MUST_CHECK int vote_file_create(int folder_fd, struct vote_file *ret_file);
/* Opens and reads it. HASP_ECORRUPT, if it is missing or has no valid record;
 * HASP_EIO; HASP_ENOSPC: with a message that names 'folder'. */
MUST_CHECK int vote_file_open(int folder_fd, const char *folder,
                              struct vote_file *ret_file,
                              char why[HASP_WHY_SIZE]);
void vote_file_close(struct vote_file *file);
/* Durable on return, with one flush. Returns 0 or an errno. */
MUST_CHECK int vote_file_save(struct vote_file *file, uint64_t term,
                              uint64_t voted_for);
/* False if the file is missing, or holds only what vote_file_create() has
 * written. A file that cannot be read counts as used. */
bool vote_file_is_used(int folder_fd);

#endif /* HASP_STORAGE_VOTE_FILE_H */
