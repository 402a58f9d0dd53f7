/* SPDX-License-Identifier: MIT */

/* A new life of the cluster after a restore: what must not outlive the old one
 * goes. cluster.c has the quarantine that follows. */

#include "lockfsm/state.h"

/* With the results of its requests that wait, as those end without a word. */
static void drop_numbers(struct lockfsm *fsm, struct session *session)
{
    LIST_FOR (struct asker, asker, &session->askers, in_session) {
        struct list *waiting = &asker->waiting;
        while (!list_is_empty(waiting)) {
            kept_drop(fsm, LIST_FIRST(waiting, struct kept_result, in_order));
        }
    }
    if (session->numbers != NULL) {
        numbers_free(fsm, session->numbers);
    }
}

static void drop_lock(struct lockfsm *fsm, struct lock *lock)
{
    while (lock->wait_count > 0) {
        request_free(fsm, LIST_FIRST(&lock->queue, struct wait, in_lock));
    }
    while (lock->hold_count > 0) {
        hold_free(fsm, LIST_FIRST(&lock->holds, struct hold, in_lock));
    }
}

void lockfsm_new_life(struct lockfsm *fsm, uint64_t quarantine_ms)
{
    CHECK(quarantine_ms <= TIME_MS_MAX);
    struct session *session;
    struct session *next_session;
    HASH_ITER (by_id, fsm->sessions, session, next_session) {
        drop_numbers(fsm, session);
    }
    struct lock *lock;
    struct lock *next_lock;
    HASH_ITER (by_name, fsm->locks, lock, next_lock) {
        drop_lock(fsm, lock);
    }
    HASH_ITER (by_name, fsm->locks, lock, next_lock) {
        lock_free(fsm, lock);
    }
    HASH_ITER (by_id, fsm->sessions, session, next_session) {
        blacklist_forget_session(fsm, session);
        session_free(fsm, session);
    }
    while (!list_is_empty(&fsm->members)) {
        member_free(fsm, LIST_FIRST(&fsm->members, struct member, in_order));
    }
    memset(fsm->cluster_id, 0, sizeof fsm->cluster_id);
    fsm->is_begun = false;
    fsm->is_new_life = true;
    fsm->quarantine_ms = quarantine_ms;
    fsm->quarantine_index = 0;
    fsm->begin_count = 0;
}
