/* SPDX-License-Identifier: MIT */

/* The thread that writes the log, one durable write at a time: pwritev2(2) with
 * RWF_DSYNC, or pwrite(2) and fdatasync(2) if that is refused. (io_submit(2)
 * would save a thread, but blocks its caller when the disk hangs.)
 *
 * The caller provides an eventfd, which the writer signals at the end of a
 * write if that is awaited. A caller whose loop is running checks by itself and
 * saves the wake-up. Errors are errno values; after an error the writer can
 * only be closed. */

#ifndef HASP_STORAGE_WAL_WRITER_H
#define HASP_STORAGE_WAL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct wal_writer;

/* HASP_EREFUSED if no thread can be had. */
MUST_CHECK int wal_writer_open(int event_fd, struct wal_writer **ret_writer);

/* Starts to write 'data', which must stay unchanged until the write has ended;
 * for a file that was opened with O_DIRECT address, size and 'offset' are
 * multiples of WAL_BLOCK_SIZE. None may be in flight. */
void wal_writer_start(struct wal_writer *writer, int fd, struct bytes data,
                      uint64_t offset);

/* True if the write in flight has ended; '*ret_error' is then its result. With
 * 'wait' the function waits for the end. */
MUST_CHECK bool wal_writer_finish(struct wal_writer *writer, bool wait,
                                  int *ret_error);

/* Sets whether the eventfd is signalled (initially it is). Returns true if a
 * write has ended that wal_writer_finish() has not returned yet: its end may
 * not have been signalled. */
bool wal_writer_await(struct wal_writer *writer, bool is_awaited);

/* None may be in flight. NULL is fine. */
void wal_writer_close(struct wal_writer *writer);

#endif /* HASP_STORAGE_WAL_WRITER_H */
