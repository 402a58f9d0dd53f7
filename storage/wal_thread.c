/* SPDX-License-Identifier: MIT */

#include "storage/wal_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/worker.h"

enum thread_state { THREAD_IDLE, THREAD_ASKED, THREAD_DONE, THREAD_STOP };

struct wal_thread {
    struct wal_writer writer;
    int event_fd;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by 'mutex'. */
    enum thread_state state;
    int fd;
    struct bytes data;
    uint64_t offset;
    int error;
};

static int thread_start(struct wal_writer *writer, int fd, struct bytes data,
                        uint64_t offset);
static bool thread_finish(struct wal_writer *writer, bool wait, int *ret_error);
static void thread_close(struct wal_writer *writer);
static void *run(void *data);

static const struct wal_writer_class thread_class = {.name = "thread",
                                                     .is_direct = false,
                                                     .start = thread_start,
                                                     .finish = thread_finish,
                                                     .close = thread_close};

int wal_thread_open(int event_fd, struct wal_writer **ret_writer)
{
    struct wal_thread *self = memory_new(sizeof *self);
    self->writer.class = &thread_class;
    self->event_fd = event_fd;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    int error = worker_start(run, self, &self->thread);
    if (error != 0) {
        pthread_cond_destroy(&self->changed);
        pthread_mutex_destroy(&self->mutex);
        free(self);
        return error;
    }
    *ret_writer = &self->writer;
    return 0;
}

static int thread_start(struct wal_writer *writer, int fd, struct bytes data,
                        uint64_t offset)
{
    struct wal_thread *self = (struct wal_thread *)writer;
    pthread_mutex_lock(&self->mutex);
    CHECK(self->state == THREAD_IDLE);
    self->state = THREAD_ASKED;
    self->fd = fd;
    self->data = data;
    self->offset = offset;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return 0;
}

static bool thread_finish(struct wal_writer *writer, bool wait, int *ret_error)
{
    struct wal_thread *self = (struct wal_thread *)writer;
    pthread_mutex_lock(&self->mutex);
    CHECK(self->state != THREAD_IDLE);
    while (wait && self->state != THREAD_DONE) {
        pthread_cond_wait(&self->changed, &self->mutex);
    }
    bool is_done = self->state == THREAD_DONE;
    if (is_done) {
        self->state = THREAD_IDLE;
        *ret_error = self->error;
    }
    pthread_mutex_unlock(&self->mutex);
    return is_done;
}

static void thread_close(struct wal_writer *writer)
{
    struct wal_thread *self = (struct wal_thread *)writer;
    pthread_mutex_lock(&self->mutex);
    CHECK(self->state == THREAD_IDLE);
    self->state = THREAD_STOP;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

static void *run(void *data)
{
    struct wal_thread *self = data;
    pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (self->state == THREAD_IDLE || self->state == THREAD_DONE) {
            pthread_cond_wait(&self->changed, &self->mutex);
        }
        if (self->state == THREAD_STOP) {
            break;
        }
        int fd = self->fd;
        struct bytes bytes = self->data;
        uint64_t offset = self->offset;
        pthread_mutex_unlock(&self->mutex);

        int error = disk_write(fd, bytes, offset);

        pthread_mutex_lock(&self->mutex);
        self->error = error;
        self->state = THREAD_DONE;
        pthread_cond_signal(&self->changed);
        /* Cannot fail: the counter is far from its end. */
        uint64_t one = 1;
        CHECK(write(self->event_fd, &one, sizeof one) == sizeof one);
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}
