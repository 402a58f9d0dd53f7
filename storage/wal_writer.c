/* SPDX-License-Identifier: MIT */

/* The worker that writes the log. */

#include "storage/wal_writer.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/worker.h"

/* 'is_asked' passes a write to the worker, and 'done' passes it back. Between
 * the two the fields below belong to the worker, otherwise to the caller. There
 * is no mutex: the woken thread would wait for it at once. */
struct wal_writer {
    int event_fd;
    struct worker *worker;
    atomic_bool is_asked;
    atomic_bool is_stopping;
    sem_t done;
    /* The caller sleeps, so the eventfd has to wake it. */
    atomic_bool is_awaited;
    bool is_busy; /* Only the caller uses this. */

    int fd;
    struct bytes data;
    uint64_t offset;
    int error;
};

static uint64_t wal_writer_step(void *data, uint64_t now_ns)
{
    struct wal_writer *writer = data;
    if (!atomic_exchange(&writer->is_asked, false)) {
        return atomic_load(&writer->is_stopping) ? WORKER_OVER : WORKER_IDLE;
    }
    uint32_t place = disk_watch_begin("write the log");
    writer->error = disk_write(writer->fd, writer->data, writer->offset);
    disk_watch_end(place);
    CHECK(sem_post(&writer->done) == 0);
    /* After 'done' in one order for both sides: either the caller, about to
     * sleep, sees 'done', or this sees that it is awaited. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&writer->is_awaited)) {
        /* This cannot fail: the counter is far from its end. */
        uint64_t one = 1;
        CHECK(write(writer->event_fd, &one, sizeof one) == sizeof one);
    }
    (void)now_ns;
    return WORKER_IDLE;
}

int wal_writer_open(int event_fd, struct wal_writer **ret_writer)
{
    struct wal_writer *writer = memory_new(sizeof *writer);
    writer->event_fd = event_fd;
    atomic_init(&writer->is_awaited, true);
    atomic_init(&writer->is_asked, false);
    atomic_init(&writer->is_stopping, false);
    CHECK(sem_init(&writer->done, 0, 0) == 0);
    int error = worker_start("hasp-log", wal_writer_step, writer,
                             &writer->worker);
    if (error != 0) {
        sem_destroy(&writer->done);
        free(writer);
        return error;
    }
    *ret_writer = writer;
    return 0;
}

void wal_writer_start(struct wal_writer *writer, int fd, struct bytes data,
                      uint64_t offset)
{
    CHECK(!writer->is_busy);
    writer->is_busy = true;
    writer->fd = fd;
    writer->data = data;
    writer->offset = offset;
    atomic_store(&writer->is_asked, true);
    worker_wake(writer->worker);
}

bool wal_writer_finish(struct wal_writer *writer, bool wait, int *ret_error)
{
    CHECK(writer->is_busy);
    if (wait) {
        worker_wait_for(writer->worker, &writer->done);
    } else if (sem_trywait(&writer->done) != 0) {
        CHECK(errno == EAGAIN || errno == EINTR);
        return false;
    }
    writer->is_busy = false;
    *ret_error = writer->error;
    return true;
}

bool wal_writer_await(struct wal_writer *writer, bool is_awaited)
{
    int done = 0;
    atomic_store(&writer->is_awaited, is_awaited);
    atomic_thread_fence(memory_order_seq_cst);
    CHECK(sem_getvalue(&writer->done, &done) == 0);
    return done > 0;
}

void wal_writer_close(struct wal_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    CHECK(!writer->is_busy);
    atomic_store(&writer->is_stopping, true);
    worker_wake(writer->worker);
    worker_join(writer->worker);
    sem_destroy(&writer->done);
    free(writer);
}
