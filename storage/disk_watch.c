/* SPDX-License-Identifier: MIT */

/* The register of operations that wait for the disk, and the worker that
 * reports those that hang. */

#include "storage/disk_watch.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/check.h"
#include "storage/worker.h"

/* Fewer threads than this wait for a disk. */
#define PLACE_COUNT 64u
#define LOOK_NS (100 * NS_PER_MS)

struct disk_operation {
    const char *what; /* NULL if the place is free. */
    uint64_t began_ns;
    uint64_t reported_ns; /* Its age when it was last reported. */
};

/* 'mutex' guards all, and is never held for long. */
static struct {
    pthread_mutex_t mutex;
    struct disk_operation operations[PLACE_COUNT];
    struct worker *worker; /* NULL if it was not started. */
    bool is_stopping;
    disk_watch_tell_fn *tell;
    void *data;
} watch = {.mutex = PTHREAD_MUTEX_INITIALIZER};

uint32_t disk_watch_begin(const char *what)
{
    uint64_t now = worker_now_ns();
    uint32_t place = 0;
    pthread_mutex_lock(&watch.mutex);
    while (place < PLACE_COUNT && watch.operations[place].what != NULL) {
        place++;
    }
    if (place < PLACE_COUNT) {
        watch.operations[place] = (struct disk_operation){.what = what,
                                                          .began_ns = now};
    }
    pthread_mutex_unlock(&watch.mutex);
    return place;
}

void disk_watch_end(uint32_t place)
{
    struct disk_operation ended = {0};
    if (place >= PLACE_COUNT) {
        return; /* The operation had found no place. */
    }
    int error = errno; /* The caller has not read errno yet. */
    uint64_t now = worker_now_ns();
    pthread_mutex_lock(&watch.mutex);
    ended = watch.operations[place];
    CHECK(ended.what != NULL);
    watch.operations[place] = (struct disk_operation){0};
    disk_watch_tell_fn *tell = ended.reported_ns > 0 ? watch.tell : NULL;
    void *data = watch.data;
    pthread_mutex_unlock(&watch.mutex);
    if (tell != NULL) {
        tell(data, ended.what, now - ended.began_ns, true);
    }
    errno = error;
}

uint64_t disk_watch_oldest(const char **ret_what)
{
    uint64_t now = worker_now_ns();
    uint64_t age_ns = 0;
    pthread_mutex_lock(&watch.mutex);
    for (uint32_t i = 0; i < PLACE_COUNT; i++) {
        const struct disk_operation *operation = &watch.operations[i];
        if (operation->what != NULL && now > operation->began_ns &&
            now - operation->began_ns > age_ns) {
            age_ns = now - operation->began_ns;
            *ret_what = operation->what;
        }
    }
    pthread_mutex_unlock(&watch.mutex);
    return age_ns;
}

/* Reports operations that hang. The caller holds 'mutex', which is released
 * while one is reported. */
static void disk_watch_look(void)
{
    uint64_t now = worker_now_ns();
    for (uint32_t i = 0; i < PLACE_COUNT; i++) {
        struct disk_operation *operation = &watch.operations[i];
        if (operation->what == NULL || now <= operation->began_ns ||
            watch.tell == NULL) {
            continue;
        }
        uint64_t age_ns = now - operation->began_ns;
        if (age_ns < DISK_HANGS_NS || age_ns < 2 * operation->reported_ns) {
            continue;
        }
        operation->reported_ns = age_ns;
        disk_watch_tell_fn *tell = watch.tell;
        void *tell_data = watch.data;
        const char *what = operation->what;
        pthread_mutex_unlock(&watch.mutex);
        tell(tell_data, what, age_ns, false);
        pthread_mutex_lock(&watch.mutex);
    }
}

static uint64_t disk_watch_step(void *data, uint64_t now_ns)
{
    (void)data;
    pthread_mutex_lock(&watch.mutex);
    bool is_stopping = watch.is_stopping;
    if (!is_stopping) {
        disk_watch_look();
    }
    pthread_mutex_unlock(&watch.mutex);
    return is_stopping ? WORKER_OVER : now_ns + LOOK_NS;
}

int disk_watch_start(disk_watch_tell_fn *tell, void *data)
{
    CHECK(watch.worker == NULL);
    watch.is_stopping = false;
    watch.tell = tell;
    watch.data = data;
    int error = worker_start("hasp-disk-watch", disk_watch_step, NULL,
                             &watch.worker);
    if (error != 0) {
        watch.tell = NULL;
    }
    return error;
}

void disk_watch_stop(void)
{
    if (watch.worker == NULL) {
        return;
    }
    pthread_mutex_lock(&watch.mutex);
    watch.is_stopping = true;
    watch.tell = NULL;
    pthread_mutex_unlock(&watch.mutex);
    worker_wake(watch.worker);
    worker_join(watch.worker);
    watch.worker = NULL;
}
