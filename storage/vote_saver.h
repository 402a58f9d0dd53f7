/* SPDX-License-Identifier: MIT */

/* The thread that saves votes, so that the loop never waits for one.
 *
 * vote_saver_save() returns at once. If several saves are requested while
 * another is under way, only the newest is carried out: it covers the others.
 * An error is final, as everywhere in storage/.
 *
 * While a saver exists nothing else may access the data directory's vote.
 * Threads: all functions are called by one. */

#ifndef HASP_STORAGE_VOTE_SAVER_H
#define HASP_STORAGE_VOTE_SAVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct datadir;
struct vote_saver;

/* HASP_EREFUSED if no thread can be had. 'datadir' is borrowed. */
MUST_CHECK int vote_saver_new(struct datadir *datadir,
                              struct vote_saver **ret_saver);
/* Waits for the save under way; a waiting one is dropped. NULL is fine. */
void vote_saver_free(struct vote_saver *saver);

void vote_saver_save(struct vote_saver *saver, uint64_t term,
                     uint64_t voted_for);

/* A file descriptor that becomes readable when a save has ended. */
int vote_saver_fd(const struct vote_saver *saver);

struct vote_saved {
    uint64_t term;
    uint64_t voted_for;
    uint64_t flush_ns; /* How long it took. */
};

/* 0: '*ret_saved' has become durable since the last call. HASP_EBUSY: nothing
 * new. HASP_EIO, HASP_ENOSPC, HASP_ECORRUPT: it has failed. */
MUST_CHECK int vote_saver_take(struct vote_saver *saver,
                               struct vote_saved *ret_saved);

#endif /* HASP_STORAGE_VOTE_SAVER_H */
