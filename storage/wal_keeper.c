/* SPDX-License-Identifier: MIT */

/* The worker beside the log: it prepares and removes segments and writes
 * the mark. */

#include "storage/wal_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/port.h"
#include "storage/worker.h"

struct wal_keeper {
    struct wal_keeper_options options;
    struct worker *worker;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* Signalled by wal_keeper_tell(). */
    /* 'mutex' guards all below. */
    bool is_stopping;
    int error;
    char why[HASP_WHY_SIZE];

    uint64_t wanted_number; /* 0 if none is wanted. */
    uint64_t wanted_size;
    uint64_t spare_size; /* How far 'wanted_number' has been prepared. */
    bool has_no_room;
    uint64_t starved_until_ns; /* 0 if there are descriptors. */
    int spare_fd;              /* -1 if it is not open. */
    int old_fd;                /* The one to be closed; -1 if none. */

    uint64_t oldest; /* The oldest segment there is. */
    /* Segments with smaller numbers are to be removed. */
    uint64_t remove_below;

    struct wal_mark mark;     /* The mark to be saved. */
    uint64_t marked_sequence; /* The sequence of the mark in the file. */
    uint64_t mark_due_ns;     /* When the next mark may be saved. */
};

static uint64_t wal_keeper_step(void *data, uint64_t now_ns);

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
    pthread_cond_init(&keeper->changed, NULL);
    int error = worker_start("hasp-log-keeper", wal_keeper_step, keeper,
                             &keeper->worker);
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
    pthread_mutex_unlock(&keeper->mutex);
    worker_wake(keeper->worker);
    worker_join(keeper->worker);
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
    pthread_mutex_unlock(&keeper->mutex);
    worker_wake(keeper->worker);
}

void wal_keeper_wait(struct wal_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->error == 0 && !keeper->has_no_room &&
           keeper->spare_size < keeper->wanted_size) {
        worker_wait(keeper->worker, &keeper->mutex, &keeper->changed);
    }
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
        /* The worker has not closed the one before yet. */
        storage_port->close(keeper->old_fd);
    }
    keeper->old_fd = old_fd;
    keeper->spare_fd = -1;
    keeper->wanted_number = 0;
    keeper->wanted_size = 0;
    keeper->spare_size = 0;
    pthread_mutex_unlock(&keeper->mutex);
    worker_wake(keeper->worker);
    return fd;
}

bool wal_keeper_is_starved(struct wal_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool is_starved = keeper->starved_until_ns != 0;
    pthread_mutex_unlock(&keeper->mutex);
    return is_starved;
}

void wal_keeper_remove_below(struct wal_keeper *keeper, uint64_t number)
{
    pthread_mutex_lock(&keeper->mutex);
    bool is_more = keeper->remove_below < number;
    if (is_more) {
        keeper->remove_below = number;
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (is_more) {
        worker_wake(keeper->worker);
    }
}

void wal_keeper_mark(struct wal_keeper *keeper, uint64_t sequence,
                     uint64_t term, uint64_t log_index)
{
    pthread_mutex_lock(&keeper->mutex);
    CHECK(sequence > keeper->mark.sequence);
    /* The worker sleeps with a time limit while a mark is to be saved, and
     * without one otherwise: so only the first mark wakes it. */
    bool is_first = keeper->mark.sequence == keeper->marked_sequence;
    keeper->mark.sequence = sequence;
    keeper->mark.term = term;
    keeper->mark.log_index = log_index;
    pthread_mutex_unlock(&keeper->mutex);
    if (is_first) {
        worker_wake(keeper->worker);
    }
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

/* --- The worker: 'mutex' is held, except around the work itself ----------- */

static void wal_keeper_tell(struct wal_keeper *keeper)
{
    uint64_t one = 1;
    CHECK(write(keeper->options.event_fd, &one, sizeof one) == sizeof one);
    pthread_cond_broadcast(&keeper->changed);
}

/* True if there was no file descriptor: the work is tried again later. False if
 * it failed otherwise, or the log is being closed. */
static bool is_starved(struct wal_keeper *keeper, int system_error,
                       uint64_t now_ns)
{
    bool is_so = disk_is_starved(system_error) && !keeper->is_stopping;
    keeper->starved_until_ns = is_so
                                   ? now_ns + DISK_STARVED_RETRY_MS * NS_PER_MS
                                   : 0;
    return is_so;
}

static void wal_keeper_fail(struct wal_keeper *keeper, int system_error,
                            const char *verb, const char *name)
{
    keeper->error = disk_fail(keeper->why, system_error, verb,
                              keeper->options.path, name);
    wal_keeper_tell(keeper);
}

static bool is_stopping(void *data)
{
    struct wal_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    bool stop = keeper->is_stopping;
    pthread_mutex_unlock(&keeper->mutex);
    return stop;
}

/* Closes the old segment. True if it had work to do; so do the functions below.
 */
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

static bool prepare_next(struct wal_keeper *keeper, uint64_t now_ns)
{
    uint64_t number = keeper->wanted_number;
    uint64_t size = keeper->wanted_size;
    if (number == 0 || keeper->spare_size >= size || keeper->has_no_room ||
        keeper->is_stopping) {
        return false;
    }
    /* The file of an earlier try with a smaller size. */
    int fd = keeper->spare_fd;
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
        keeper->starved_until_ns = 0;
        wal_keeper_tell(keeper);
    } else if (is_starved(keeper, error, now_ns)) {
        return true;
    } else if (disk_error(error) == HASP_ENOSPC) {
        /* The segment was not in use, so nothing is lost. */
        keeper->spare_size = 0;
        keeper->has_no_room = true;
        wal_keeper_tell(keeper);
    } else if (error != ECANCELED) {
        char name[WAL_FILE_NAME_SIZE];
        wal_file_name(number, name);
        wal_keeper_fail(keeper, error, "prepare", name);
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
        wal_keeper_fail(keeper, error, "remove", name);
    }
    return true;
}

static bool save_mark(struct wal_keeper *keeper, uint64_t now_ns)
{
    if (keeper->mark.sequence == keeper->marked_sequence ||
        (now_ns < keeper->mark_due_ns && !keeper->is_stopping)) {
        return false;
    }
    keeper->mark.count++;
    struct wal_mark mark = keeper->mark;
    pthread_mutex_unlock(&keeper->mutex);
    uint32_t place = disk_watch_begin("write the log's mark");
    int error = wal_mark_save(keeper->options.folder_fd, &mark);
    disk_watch_end(place);
    pthread_mutex_lock(&keeper->mutex);
    if (error == 0) {
        keeper->marked_sequence = mark.sequence;
        keeper->starved_until_ns = 0;
        keeper->mark_due_ns = now_ns + WAL_MARK_INTERVAL_MS * NS_PER_MS;
    } else if (!is_starved(keeper, error, now_ns)) {
        wal_keeper_fail(keeper, error, "write", WAL_MARK_NAME);
    }
    return true;
}

/* Does one piece of due work; returns the time of the next one. */
static uint64_t wal_keeper_work(struct wal_keeper *keeper, uint64_t now_ns)
{
    if (keeper->starved_until_ns > now_ns && !keeper->is_stopping) {
        return keeper->starved_until_ns;
    }
    if (save_mark(keeper, now_ns) || close_old(keeper) ||
        prepare_next(keeper, now_ns) || remove_next(keeper)) {
        return now_ns;
    }
    if (keeper->is_stopping) {
        return WORKER_OVER;
    }
    return keeper->mark.sequence != keeper->marked_sequence
               ? keeper->mark_due_ns
               : WORKER_IDLE;
}

static uint64_t wal_keeper_step(void *data, uint64_t now_ns)
{
    struct wal_keeper *keeper = data;
    pthread_mutex_lock(&keeper->mutex);
    uint64_t next_ns = keeper->error == 0 ? wal_keeper_work(keeper, now_ns)
                                          : WORKER_OVER;
    pthread_mutex_unlock(&keeper->mutex);
    return next_ns;
}
