/* SPDX-License-Identifier: MIT */

/* The worker that saves votes. */

#include "storage/vote_saver.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/datadir.h"
#include "storage/disk_watch.h"
#include "storage/worker.h"

struct vote_saver {
    struct datadir *datadir;
    int event_fd;
    struct worker *worker;
    pthread_mutex_t mutex;
    /* 'mutex' guards all below. */
    bool is_stopping;
    bool is_asked; /* 'term' and 'voted_for' are to be saved. */
    uint64_t term;
    uint64_t voted_for;
    bool has_saved; /* 'saved' has not been taken yet. */
    struct vote_saved saved;
    int error;
};

static uint64_t vote_saver_step(void *data, uint64_t now_ns)
{
    struct vote_saver *saver = data;
    pthread_mutex_lock(&saver->mutex);
    /* An error is final: after a failed flush a second save could succeed with
     * pages missing (storage/disk.h). */
    bool is_over = saver->is_stopping || saver->error != 0;
    struct vote_saved saved = {.term = saver->term,
                               .voted_for = saver->voted_for};
    bool is_asked = saver->is_asked;
    saver->is_asked = false;
    pthread_mutex_unlock(&saver->mutex);
    if (is_over || !is_asked) {
        return is_over ? WORKER_OVER : WORKER_IDLE;
    }

    uint32_t place = disk_watch_begin("save the vote");
    int error = datadir_save_vote(saver->datadir, saved.term, saved.voted_for);
    disk_watch_end(place);
    saved.flush_ns = storage_port->now_ns() - now_ns;

    pthread_mutex_lock(&saver->mutex);
    saver->error = error;
    saver->has_saved = true;
    saver->saved = saved;
    uint64_t one = 1;
    CHECK(write(saver->event_fd, &one, sizeof one) == sizeof one);
    pthread_mutex_unlock(&saver->mutex);
    return now_ns;
}

int vote_saver_new(struct datadir *datadir, struct vote_saver **ret_saver)
{
    struct vote_saver *saver = memory_new(sizeof *saver);
    saver->datadir = datadir;
    saver->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (saver->event_fd < 0) {
        free(saver);
        return HASP_EREFUSED;
    }
    pthread_mutex_init(&saver->mutex, NULL);
    int error = worker_start("hasp-vote", vote_saver_step, saver,
                             &saver->worker);
    if (error != 0) {
        pthread_mutex_destroy(&saver->mutex);
        close(saver->event_fd);
        free(saver);
        return error;
    }
    *ret_saver = saver;
    return 0;
}

void vote_saver_free(struct vote_saver *saver)
{
    if (saver == NULL) {
        return;
    }
    pthread_mutex_lock(&saver->mutex);
    saver->is_stopping = true;
    pthread_mutex_unlock(&saver->mutex);
    worker_wake(saver->worker);
    worker_join(saver->worker);
    pthread_mutex_destroy(&saver->mutex);
    close(saver->event_fd);
    free(saver);
}

void vote_saver_save(struct vote_saver *saver, uint64_t term,
                     uint64_t voted_for)
{
    pthread_mutex_lock(&saver->mutex);
    CHECK(term >= saver->term);
    saver->is_asked = true;
    saver->term = term;
    saver->voted_for = voted_for;
    pthread_mutex_unlock(&saver->mutex);
    worker_wake(saver->worker);
}

int vote_saver_fd(const struct vote_saver *saver)
{
    return saver->event_fd;
}

int vote_saver_take(struct vote_saver *saver, struct vote_saved *ret_saved)
{
    uint64_t count = 0;
    /* Empties the counter; an empty counter is not an error. */
    (void)!read(saver->event_fd, &count, sizeof count);
    pthread_mutex_lock(&saver->mutex);
    int error = saver->error;
    if (error == 0 && saver->has_saved) {
        saver->has_saved = false;
        *ret_saved = saver->saved;
    } else if (error == 0) {
        error = HASP_EBUSY;
    }
    pthread_mutex_unlock(&saver->mutex);
    return error;
}
