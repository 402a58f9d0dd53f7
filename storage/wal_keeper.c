/* SPDX-License-Identifier: MIT */

/* The thread beside the log: it prepares and removes segments and writes
 * the mark. */

#include "storage/wal_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/port.h"
#include "storage/worker.h"

struct wal_keeper {
    struct wal_keeper_options options;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* All below is guarded by 'mutex'. */
    bool is_stopping;
    int error;
    char why[HASP_WHY_SIZE];

    uint64_t wanted_number; /* 0: none. */
    uint64_t wanted_size;
    uint64_t spare_size; /* Of 'wanted_number', as far as it is done. */
    bool has_no_room;
    bool is_starved;
    int spare_fd; /* -1: it is not open. */
    int old_fd;   /* To be closed; -1: none. */

    uint64_t oldest;       /* The oldest segment there is. */
    uint64_t remove_below; /* Those with a smaller number are to go. */

    struct wal_mark mark;        /* What the file should say. */
    uint64_t marked_sequence;    /* What it says. */
    struct timespec marked_time; /* When that was written. */
};

static void *run(void *data);
static bool close_old(struct wal_keeper *keeper);
static bool prepare_next(struct wal_keeper *keeper);
static bool remove_next(struct wal_keeper *keeper);
static void save_mark(struct wal_keeper *keeper);

int wal_keeper_new(const struct wal_keeper_options *options,
                   struct wal_keeper **ret_keeper)
{
    struct wal_keeper *keeper = memory_new(sizeof *keeper);
    keeper->options = *options;
    keeper->mark = options->mark;
    keeper->marked_sequence = options->mark.sequence;
    keeper->oldest = options->first_number;
    keeper->spare_fd = keeper->old_fd = -1;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = worker_start(run, keeper, &keeper->thread);
    if (error != 0) {
        pthread_cond_destroy(&keeper->changed);
        pthread_mutex_destroy(&keeper->mutex);
        free(keeper);
        return error;
    }
    *ret_keeper = keeper;
    return 0;
}

int wal_keeper_free(struct wal_keeper *keeper)
{
    if (keeper == NULL) {
        return 0;
    }
    pthread_mutex_lock(&keeper->mutex);
    keeper->is_stopping = true;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
    pthread_join(keeper->thread, NULL);
    if (keeper->spare_fd >= 0) {
        storage_port->close(keeper->spare_fd);
    }
    if (keeper->old_fd >= 0) {
        storage_port->close(keeper->old_fd);
    }
    int error = keeper->error;
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
    return error;
}

void wal_keeper_prepare(struct wal_keeper *keeper, uint64_t number,
                        uint64_t size)
{
    pthread_mutex_lock(&keeper->mutex);
    if (keeper->wanted_number != number) {
        keeper->wanted_number = number;
        keeper->wanted_size = 0;
        keeper->spare_size = 0;
    }
    if (keeper->wanted_size < size) {
        keeper->wanted_size = size;
    }
    keeper->has_no_room = false;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
}

int wal_keeper_prepared(struct wal_keeper *keeper, uint64_t number,
                        uint64_t size)
{
    int error = 0;
    pthread_mutex_lock(&keeper->mutex);
    if (keeper->wanted_number != number || keeper->wanted_size < size) {
        error = HASP_ENOENT;
    } else if (keeper->has_no_room) {
        error = HASP_ENOSPC;
    } else if (keeper->spare_size < keeper->wanted_size) {
        error = HASP_EBUSY;
    }
    pthread_mutex_unlock(&keeper->mutex);
    return error;
}

uint64_t wal_keeper_spare_size(struct wal_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    uint64_t size = keeper->spare_size;
    pthread_mutex_unlock(&keeper->mutex);
    return size;
}

int wal_keeper_take(struct wal_keeper *keeper, uint64_t number, int old_fd,
                    uint64_t *ret_size)
{
    pthread_mutex_lock(&keeper->mutex);
    CHECK(keeper->wanted_number == number);
    CHECK(keeper->spare_size >= keeper->wanted_size);
    CHECK(keeper->spare_fd >= 0);
    int fd = keeper->spare_fd;
    *ret_size = keeper->spare_size;
    if (keeper->old_fd >= 0) {
        storage_port->close(
            keeper->old_fd); /* Two in a row, before it could. */
    }
    keeper->old_fd = old_fd;
    keeper->spare_fd = -1;
    keeper->wanted_number = 0;
    keeper->wanted_size = 0;
    keeper->spare_size = 0;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
    return fd;
}

bool wal_keeper_is_starved(struct wal_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool is_starved = keeper->is_starved;
    pthread_mutex_unlock(&keeper->mutex);
    return is_starved;
}

void wal_keeper_remove_below(struct wal_keeper *keeper, uint64_t number)
{
    pthread_mutex_lock(&keeper->mutex);
    if (keeper->remove_below < number) {
        keeper->remove_below = number;
        pthread_cond_signal(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

void wal_keeper_mark(struct wal_keeper *keeper, uint64_t sequence,
                     uint64_t term, uint64_t log_index)
{
    pthread_mutex_lock(&keeper->mutex);
    CHECK(sequence > keeper->mark.sequence);
    /* The thread waits with a time-out while a mark is to be written, without
     * one while there is none: it is woken for the first only. */
    bool is_first = keeper->mark.sequence == keeper->marked_sequence;
    keeper->mark.sequence = sequence;
    keeper->mark.term = term;
    keeper->mark.log_index = log_index;
    if (is_first) {
        pthread_cond_signal(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

int wal_keeper_error(struct wal_keeper *keeper, char why[HASP_WHY_SIZE])
{
    pthread_mutex_lock(&keeper->mutex);
    int error = keeper->error;
    if (error != 0) {
        memcpy(why, keeper->why, HASP_WHY_SIZE);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return error;
}

/* --- The thread: 'mutex' is held, except around the work itself ---------- */

static bool has_time_come(const struct wal_keeper *keeper,
                          struct timespec *ret_when)
{
    struct timespec now;
    struct timespec when = keeper->marked_time;
    when.tv_nsec += WAL_MARK_INTERVAL_MS * 1000000L;
    when.tv_sec += when.tv_nsec / 1000000000L;
    when.tv_nsec %= 1000000000L;
    *ret_when = when;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > when.tv_sec ||
           (now.tv_sec == when.tv_sec && now.tv_nsec >= when.tv_nsec);
}

static void *run(void *data)
{
    struct wal_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->error == 0) {
        struct timespec when;
        bool has_mark = keeper->mark.sequence != keeper->marked_sequence;
        bool is_time = has_time_come(keeper, &when);
        if (has_mark && (is_time || keeper->is_stopping)) {
            save_mark(keeper);
        } else if (close_old(keeper) || prepare_next(keeper) ||
                   remove_next(keeper)) {
            continue;
        } else if (keeper->is_stopping) {
            break;
        } else if (has_mark) {
            pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &when);
        } else {
            pthread_cond_wait(&keeper->changed, &keeper->mutex);
        }
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

static void tell(struct wal_keeper *keeper)
{
    uint64_t one = 1;
    CHECK(write(keeper->options.event_fd, &one, sizeof one) == sizeof one);
}

/* Waits for a while if there was no file descriptor: the work is still to be
 * done. False if it failed otherwise, or the log is being closed. */
static bool wait_starved(struct wal_keeper *keeper, int system_error)
{
    struct timespec when;
    keeper->is_starved = disk_is_starved(system_error);
    if (!keeper->is_starved || keeper->is_stopping) {
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_nsec += DISK_STARVED_RETRY_MS * 1000000L;
    when.tv_sec += when.tv_nsec / 1000000000L;
    when.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &when);
    return true;
}

static void fail(struct wal_keeper *keeper, int system_error, const char *verb,
                 const char *name)
{
    keeper->error = disk_fail(keeper->why, system_error, verb,
                              keeper->options.path, name);
    tell(keeper);
}

static bool is_stopping(void *data)
{
    struct wal_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    bool stop = keeper->is_stopping;
    pthread_mutex_unlock(&keeper->mutex);
    return stop;
}

/* True if there was something to do, as for the next two. */
static bool close_old(struct wal_keeper *keeper)
{
    int fd = keeper->old_fd;
    if (fd < 0) {
        return false;
    }
    keeper->old_fd = -1;
    pthread_mutex_unlock(&keeper->mutex);
    storage_port->close(fd);
    pthread_mutex_lock(&keeper->mutex);
    return true;
}

static bool prepare_next(struct wal_keeper *keeper)
{
    uint64_t number = keeper->wanted_number;
    uint64_t size = keeper->wanted_size;
    if (number == 0 || keeper->spare_size >= size || keeper->has_no_room ||
        keeper->is_stopping) {
        return false;
    }
    int fd = keeper->spare_fd; /* Of a smaller one. */
    keeper->spare_fd = -1;
    pthread_mutex_unlock(&keeper->mutex);
    uint32_t place = disk_watch_begin("prepare a segment of the log");
    if (fd >= 0) {
        storage_port->close(fd);
    }
    int error = wal_file_prepare(keeper->options.folder_fd, number, size,
                                 keeper->options.is_direct, is_stopping,
                                 keeper);
    if (error == 0) {
        error = wal_file_open(keeper->options.folder_fd, number,
                              keeper->options.is_direct, &fd, &size);
    }
    disk_watch_end(place);
    pthread_mutex_lock(&keeper->mutex);
    if (error == 0) {
        keeper->spare_fd = fd;
        keeper->spare_size = size;
        keeper->is_starved = false;
        tell(keeper);
    } else if (wait_starved(keeper, error)) {
        return true;
    } else if (disk_error(error) == HASP_ENOSPC) {
        /* Nothing was lost: the file was not in use. */
        keeper->spare_size = 0;
        keeper->has_no_room = true;
        tell(keeper);
    } else if (error != ECANCELED) {
        char name[WAL_FILE_NAME_SIZE];
        wal_file_name(number, name);
        fail(keeper, error, "prepare", name);
    }
    return true;
}

static bool remove_next(struct wal_keeper *keeper)
{
    uint64_t number = keeper->oldest;
    if (number >= keeper->remove_below) {
        return false;
    }
    pthread_mutex_unlock(&keeper->mutex);
    uint32_t place = disk_watch_begin("remove a segment of the log");
    int error = wal_file_remove(keeper->options.folder_fd, number);
    disk_watch_end(place);
    pthread_mutex_lock(&keeper->mutex);
    if (error == 0) {
        keeper->oldest++;
    } else {
        char name[WAL_FILE_NAME_SIZE];
        wal_file_name(number, name);
        fail(keeper, error, "remove", name);
    }
    return true;
}

static void save_mark(struct wal_keeper *keeper)
{
    keeper->mark.count++;
    struct wal_mark mark = keeper->mark;
    pthread_mutex_unlock(&keeper->mutex);
    uint32_t place = disk_watch_begin("write the log's mark");
    int error = wal_mark_save(keeper->options.folder_fd, &mark);
    disk_watch_end(place);
    pthread_mutex_lock(&keeper->mutex);
    if (error == 0) {
        keeper->marked_sequence = mark.sequence;
        keeper->is_starved = false;
        clock_gettime(CLOCK_MONOTONIC, &keeper->marked_time);
    } else if (!wait_starved(keeper, error)) {
        fail(keeper, error, "write", WAL_MARK_NAME);
    }
}
