/* SPDX-License-Identifier: MIT */

/* A wal_writer by the kernel's own asynchronous I/O (io_submit(2)) with
 * O_DIRECT and RWF_DSYNC: no thread, no wake-up between the loop and the
 * disk. */

#ifndef HASP_STORAGE_WAL_KAIO_H
#define HASP_STORAGE_WAL_KAIO_H

#include "storage/wal_writer.h"

/* HASP_EREFUSED where there is no such thing (sandboxes, fs.aio-max-nr). That a
 * file system takes part is known after the first write only. */
MUST_CHECK int wal_kaio_open(int event_fd, struct wal_writer **ret_writer);

#endif /* HASP_STORAGE_WAL_KAIO_H */
