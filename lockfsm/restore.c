/* SPDX-License-Identifier: MIT */

/* A new epoch of the cluster after a restore: drops what must not outlive the
 * old epoch. Durable sessions stay with their holds and tokens, since their
 * clients were promised that only they or an operator end them. cluster.c has
 * the quarantine that follows. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* Drops the results of the session's waiting requests, which end without an
 * effect; the numbers are freed with the session. */
static void drop_numbers(struct lockfsm *fsm, struct session *session)
{
    LIST_FOR (struct waiter, waiter, &session->waiters, in_session) {
        struct list *waiting = &waiter->waiting;
        while (!list_is_empty(waiting)) {
            result_cache_drop(
                fsm, LIST_FIRST(waiting, struct kept_result, in_order));
        }
    }
    bool stays = session->is_durable && session->end == SESSION_LIVES;
    if (session->numbers != NULL && !stays) {
        request_ids_free(fsm, session->numbers);
    }
}

/* Keeps a hold without its break. The operator must announce it again, because
 * the holder may have objected since the backup. */
static void keep_hold(struct lockfsm *fsm, struct hold *hold)
{
    if (hold->break_count > 0) {
        hold_break_drop(fsm, hold);
        record_changed(fsm, &hold->stored);
    }
}

static void open_again(struct lockfsm *fsm, struct lock *lock)
{
    list_remove(&lock->in_touched);
    lock->is_touched = false;
    lock_end_cut(fsm, lock);
    lock_delay_drop(fsm, lock);
}

/* Drops everything at the lock except the holds of durable sessions. */
static void empty_lock(struct lockfsm *fsm, struct lock *lock)
{
    while (lock->wait_count > 0) {
        request_free(fsm, LIST_FIRST(&lock->queue, struct wait, in_lock));
    }
    LIST_FOR_SAFE (struct hold, hold, &lock->holds, in_lock) {
        if (hold->session->is_durable && hold->session->end == SESSION_LIVES) {
            keep_hold(fsm, hold);
        } else {
            hold_free(fsm, hold);
        }
    }
}

void lockfsm_new_life(struct lockfsm *fsm, uint64_t quarantine_ms)
{
    CHECK(quarantine_ms <= TIME_MS_MAX);
    SESSION_EACH (struct session, one, fsm) {
        drop_numbers(fsm, one);
    }
    HASH_FOR (struct lock, lock, fsm->locks, by_name) {
        empty_lock(fsm, lock);
    }
    /* Locks are freed after all were emptied, because a request may have waited
     * at several. */
    HASH_FOR_SAFE (struct lock, lock, fsm->locks, by_name) {
        if (lock->hold_count == 0) {
            lock_free(fsm, lock);
        } else {
            open_again(fsm, lock);
        }
    }
    HASH_FOR_SAFE (struct session, session, fsm->sessions, by_id) {
        if (session->is_durable) {
            session_set_recheck(fsm, session,
                                false); /* It has no waits left. */
            continue;
        }
        blacklist_forget_session(fsm, session);
        session_free(fsm, session);
    }
    while (!list_is_empty(&fsm->left.to_sweep)) {
        session_free(fsm,
                     LIST_FIRST(&fsm->left.to_sweep, struct session, in_swept));
    }
    while (!list_is_empty(&fsm->members.list)) {
        member_free(fsm,
                    LIST_FIRST(&fsm->members.list, struct member, in_order));
    }
    CHECK(fsm->uses.waits == 0 && fsm->members.count == 0);
    CHECK(list_is_empty(&fsm->left.cut) &&
          list_is_empty(&fsm->left.to_recheck));
    /* It may have given away, since the backup, what the restored map calls its
     * own. */
    fsm->cells.is_doubtful = fsm->cells.count > 0;
    fsm->acts.first = fsm->acts.last + 1;
    if (cluster_id_is_known(fsm->epoch.cluster_id)) {
        memmove(fsm->epoch.former_ids + CLUSTER_ID_SIZE, fsm->epoch.former_ids,
                FORMER_IDS_SIZE - CLUSTER_ID_SIZE);
        memcpy(fsm->epoch.former_ids, fsm->epoch.cluster_id, CLUSTER_ID_SIZE);
    }
    memset(fsm->epoch.cluster_id, 0, sizeof fsm->epoch.cluster_id);
    fsm->epoch.is_begun = false;
    fsm->epoch.is_new_life = true;
    fsm->epoch.quarantine_ms = quarantine_ms;
    fsm->epoch.quarantine_index = 0;
    fsm->clock.begin_count = 0;
}
