/* SPDX-License-Identifier: MIT */

#include "storage/wal_kaio.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"

struct wal_kaio {
    struct wal_writer writer;
    aio_context_t context;
    int event_fd;
    struct iocb iocb;
    bool is_busy;
};

static int kaio_start(struct wal_writer *writer, int fd, struct bytes data,
                      uint64_t offset);
static bool kaio_finish(struct wal_writer *writer, bool wait, int *ret_error);
static void kaio_close(struct wal_writer *writer);

static const struct wal_writer_class kaio_class = {.name = "kaio",
                                                   .is_direct = true,
                                                   .start = kaio_start,
                                                   .finish = kaio_finish,
                                                   .close = kaio_close};

int wal_kaio_open(int event_fd, struct wal_writer **ret_writer)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 1, &context) != 0) {
        return HASP_EREFUSED;
    }
    struct wal_kaio *kaio = memory_new(sizeof *kaio);
    kaio->writer.class = &kaio_class;
    kaio->context = context;
    kaio->event_fd = event_fd;
    *ret_writer = &kaio->writer;
    return 0;
}

static int kaio_start(struct wal_writer *writer, int fd, struct bytes data,
                      uint64_t offset)
{
    struct wal_kaio *kaio = (struct wal_kaio *)writer;
    CHECK(!kaio->is_busy);
    kaio->iocb = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                               .aio_fildes = (uint32_t)fd,
                               .aio_buf = (uint64_t)(uintptr_t)data.data,
                               .aio_nbytes = data.size,
                               .aio_offset = (int64_t)offset,
                               .aio_rw_flags = RWF_DSYNC,
                               .aio_flags = IOCB_FLAG_RESFD,
                               .aio_resfd = (uint32_t)kaio->event_fd};
    struct iocb *list[1] = {&kaio->iocb};
    long count = syscall(SYS_io_submit, kaio->context, 1, list);
    if (count != 1) {
        return count < 0 ? errno : EIO;
    }
    kaio->is_busy = true;
    return 0;
}

static bool kaio_finish(struct wal_writer *writer, bool wait, int *ret_error)
{
    struct wal_kaio *kaio = (struct wal_kaio *)writer;
    struct timespec zero = {0};
    struct io_event event = {0};
    long count = 0;
    CHECK(kaio->is_busy);
    do {
        count = syscall(SYS_io_getevents, kaio->context, wait ? 1 : 0, 1,
                        &event, wait ? NULL : &zero);
    } while (count < 0 && errno == EINTR);
    if (count == 0) {
        return false;
    }
    kaio->is_busy = false;
    if (count < 0) {
        *ret_error = errno;
    } else if (event.res < 0) {
        *ret_error = (int)-event.res;
    } else {
        /* A part of it: the disk is full, or something is broken. The rest is
         * not tried again, as after any error. */
        *ret_error = (uint64_t)event.res == kaio->iocb.aio_nbytes ? 0 : EIO;
    }
    return true;
}

static void kaio_close(struct wal_writer *writer)
{
    struct wal_kaio *kaio = (struct wal_kaio *)writer;
    CHECK(!kaio->is_busy);
    syscall(SYS_io_destroy, kaio->context);
    free(kaio);
}
