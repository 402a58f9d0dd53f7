/* SPDX-License-Identifier: MIT */

/* One durable write at a time, in the background: an interface with two
 * implementations, storage/wal_kaio.h and storage/wal_thread.h.
 *
 * Whoever opens a writer gives it an eventfd, which it signals when a write has
 * ended. Errors are errno values; after an error the writer is only closed. */

#ifndef HASP_STORAGE_WAL_WRITER_H
#define HASP_STORAGE_WAL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct wal_writer;

struct wal_writer_class {
    const char *name; /* "kaio", "thread": for people. */
    bool is_direct;   /* Files must have been opened with O_DIRECT. */
    int (*start)(struct wal_writer *writer, int fd, struct bytes data,
                 uint64_t offset);
    bool (*finish)(struct wal_writer *writer, bool wait, int *ret_error);
    void (*close)(struct wal_writer *writer);
};

struct wal_writer {
    const struct wal_writer_class *class;
};

/* Starts to write 'data' (kept until the write has ended; address, size and
 * 'offset' are multiples of WAL_BLOCK_SIZE). None may be in flight. Returns 0
 * or an errno. */
MUST_CHECK static inline int wal_writer_start(struct wal_writer *writer, int fd,
                                              struct bytes data,
                                              uint64_t offset)
{
    return writer->class->start(writer, fd, data, offset);
}

/* True if the write in flight has ended, '*ret_error' then tells how; with
 * 'wait' it always has. */
MUST_CHECK static inline bool wal_writer_finish(struct wal_writer *writer,
                                                bool wait, int *ret_error)
{
    return writer->class->finish(writer, wait, ret_error);
}

/* None may be in flight. NULL is fine. */
static inline void wal_writer_close(struct wal_writer *writer)
{
    if (writer != NULL) {
        writer->class->close(writer);
    }
}

#endif /* HASP_STORAGE_WAL_WRITER_H */
