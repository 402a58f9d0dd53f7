/* SPDX-License-Identifier: MIT */

/* The thread that writes the log. */

#include "storage/wal_writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/worker.h"

enum writer_state { WRITER_IDLE, WRITER_ASKED, WRITER_DONE, WRITER_STOP };

struct wal_writer {
    int event_fd;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by 'mutex'. */
    enum writer_state state;
    int fd;
    struct bytes data;
    uint64_t offset;
    int error;
};

static void *run(void *data)
{
    struct wal_writer *writer = data;
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (writer->state == WRITER_IDLE || writer->state == WRITER_DONE) {
            pthread_cond_wait(&writer->changed, &writer->mutex);
        }
        if (writer->state == WRITER_STOP) {
            break;
        }
        int fd = writer->fd;
        struct bytes bytes = writer->data;
        uint64_t offset = writer->offset;
        pthread_mutex_unlock(&writer->mutex);

        uint32_t place = disk_watch_begin("write the log");
        int error = disk_write(fd, bytes, offset);
        disk_watch_end(place);

        pthread_mutex_lock(&writer->mutex);
        writer->error = error;
        writer->state = WRITER_DONE;
        pthread_cond_signal(&writer->changed);
        /* Cannot fail: the counter is far from its end. */
        uint64_t one = 1;
        CHECK(write(writer->event_fd, &one, sizeof one) == sizeof one);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

int wal_writer_open(int event_fd, struct wal_writer **ret_writer)
{
    struct wal_writer *writer = memory_new(sizeof *writer);
    writer->event_fd = event_fd;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    int error = worker_start(run, writer, &writer->thread);
    if (error != 0) {
        pthread_cond_destroy(&writer->changed);
        pthread_mutex_destroy(&writer->mutex);
        free(writer);
        return error;
    }
    *ret_writer = writer;
    return 0;
}

void wal_writer_start(struct wal_writer *writer, int fd, struct bytes data,
                      uint64_t offset)
{
    pthread_mutex_lock(&writer->mutex);
    CHECK(writer->state == WRITER_IDLE);
    writer->state = WRITER_ASKED;
    writer->fd = fd;
    writer->data = data;
    writer->offset = offset;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
}

bool wal_writer_finish(struct wal_writer *writer, bool wait, int *ret_error)
{
    pthread_mutex_lock(&writer->mutex);
    CHECK(writer->state != WRITER_IDLE);
    while (wait && writer->state != WRITER_DONE) {
        pthread_cond_wait(&writer->changed, &writer->mutex);
    }
    bool is_done = writer->state == WRITER_DONE;
    if (is_done) {
        writer->state = WRITER_IDLE;
        *ret_error = writer->error;
    }
    pthread_mutex_unlock(&writer->mutex);
    return is_done;
}

void wal_writer_close(struct wal_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    pthread_mutex_lock(&writer->mutex);
    CHECK(writer->state == WRITER_IDLE);
    writer->state = WRITER_STOP;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    free(writer);
}
