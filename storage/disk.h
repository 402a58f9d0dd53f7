/* SPDX-License-Identifier: MIT */

/* Small durable operations on files, each of which is on disk when it returns.
 *
 * Nothing here is retried: after a failed flush the kernel may have dropped the
 * pages, and a second flush would succeed with the data missing (Rebello et
 * al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). */

#ifndef HASP_STORAGE_DISK_H
#define HASP_STORAGE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* HASP_ENOSPC for a full disk, a quota and a limit on the size of files;
 * HASP_EIO for anything else. */
int disk_error(int system_error);

/* True if there are too many open files in this process or on the machine. The
 * disk is fine, and the open can be retried. */
bool disk_is_starved(int system_error);
#define DISK_STARVED_RETRY_MS 100

/* Fills 'why' with "cannot VERB 'FOLDER/NAME': REASON" and returns
 * disk_error(). 'name' may be NULL. */
int disk_fail(char why[HASP_WHY_SIZE], int system_error, const char *verb,
              const char *folder, const char *name);

/* Writes all of 'data' at 'offset', durably (data and what is needed to find
 * it). Returns 0 or an errno. */
MUST_CHECK int disk_write(int fd, struct bytes data, uint64_t offset);

/* Writes all of 'data' at 'offset'; a later flush makes it durable. Returns 0
 * or an errno. */
MUST_CHECK int disk_write_cached(int fd, struct bytes data, uint64_t offset);

/* As disk_write() at two places, with one flush for both. */
MUST_CHECK int disk_write_two(int fd, struct bytes data, uint64_t offset,
                              uint64_t other_offset);

/* fsync(2), reported by disk_watch as 'what'. Returns 0 or an errno. */
MUST_CHECK int disk_flush(int fd, const char *what);

/* Reads up to 'size' bytes from 'offset'; '*ret_size' is less at the end of the
 * file. Returns 0 or an errno. */
MUST_CHECK int disk_read(int fd, void *data, size_t size, uint64_t offset,
                         size_t *ret_size);

/* Makes 'name' in the folder 'folder_fd' hold exactly 'data': a temporary file,
 * flushed, renamed, and the folder flushed. Returns 0 or an errno. If there is
 * no file descriptor it waits up to a second for one. */
MUST_CHECK int disk_replace(int folder_fd, const char *name, struct bytes data);

/* The same in the folder 'folder'. Returns 0 or disk_error() and 'why'. */
MUST_CHECK int disk_replace_in(const char *folder, const char *name,
                               struct bytes data, char why[HASP_WHY_SIZE]);

/* Removes 'name' from the folder 'folder', durably; it need not be there.
 * Returns 0 or disk_error() and 'why'. */
MUST_CHECK int disk_remove_in(const char *folder, const char *name,
                              char why[HASP_WHY_SIZE]);

/* Reads what 'name' in the folder 'folder' begins with as a text of less than
 * 'size' bytes. Returns 0, HASP_ENOENT if it is not there, or disk_error() and
 * 'why'. */
MUST_CHECK int disk_load_text(const char *folder, const char *name,
                              char *ret_text, size_t size,
                              char why[HASP_WHY_SIZE]);

/* The end of an error text if the data directory can no longer be used. */
#define DISK_LOSS_ADVICE                                                  \
    "; remove this node from the cluster and add it again with an empty " \
    "data directory"

/* Suffix of the temporary file that disk_replace() can leave after a crash. */
#define DISK_TEMPORARY_SUFFIX ".new"

/* Opens the folder 'path', and makes it (mode 0700) if it does not exist; its
 * entry in the parent folder is durable in any case. Returns 0 or an errno. */
MUST_CHECK int disk_make_folder(const char *path, int *ret_fd);

#endif /* HASP_STORAGE_DISK_H */
