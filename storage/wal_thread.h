/* SPDX-License-Identifier: MIT */

/* A wal_writer by a thread that calls pwritev2(2) with RWF_DSYNC, or pwrite(2)
 * and fdatasync(2) where that flag is refused: works on every file system. */

#ifndef HASP_STORAGE_WAL_THREAD_H
#define HASP_STORAGE_WAL_THREAD_H

#include "storage/wal_writer.h"

/* HASP_EREFUSED if no thread can be had. */
MUST_CHECK int wal_thread_open(int event_fd, struct wal_writer **ret_writer);

#endif /* HASP_STORAGE_WAL_THREAD_H */
