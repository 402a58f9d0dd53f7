/* SPDX-License-Identifier: MIT */

/* The end of an entry: what the operation has left is put right, in this order:
 *
 *   1. Requests for several locks that counted on a hold which has gone are
 *      searched for deadlocks.
 *   2. A Redis session that has lost its hold ends.
 *   3. Lock delays that began are told.
 *   4. Every touched lock is handed over, or forgotten.
 *
 * Nothing is granted to anybody who waits before step 4, so whatever an entry
 * takes away is gone before, and each lock is handed over once. A hand-over to
 * more than an entry may grant is cut off, and SWEEP goes on with it: until
 * then those who are left stand in the queue as they did, and who comes later
 * stands behind them. */

#include "lockfsm/state.h"

static uint64_t grant_wait(struct lockfsm *fsm, struct wait *wait)
{
    struct hold *own = hold_find(fsm, wait->lock, wait->session->id,
                                 wait->owner);
    if (own != NULL && wait->is_upgrade) {
        hold_upgrade(fsm, own, wait->wait_index);
        return own->token;
    }
    if (own != NULL) {
        hold_enter_again(fsm, own);
        return own->token;
    }
    struct hold_terms terms = {.owner = wait->owner,
                               .value = wait->value,
                               .mode = wait->mode,
                               .slots = wait->slots,
                               .delay_ms = wait->delay_ms,
                               .hold_ms = wait->hold_ms};
    return hold_grant(fsm, wait->lock, wait->session, &terms, wait->wait_index)
        ->token;
}

static void grant_request(struct lockfsm *fsm, struct wait *wait)
{
    struct wait *first = request_first(wait);
    CHECK(fsm->grants_left > 0);
    fsm->grants_left--;
    uint64_t tokens[MULTI_COUNT_MAX];
    uint32_t count = 0;
    REQUEST_EACH (struct wait, member, first) {
        CHECK(count < MULTI_COUNT_MAX);
        tokens[count++] = grant_wait(fsm, member);
    }
    struct result result = {.code = RESULT_OK,
                            .token = tokens[0],
                            .tokens = tokens,
                            .token_count = count};
    wait_answer(fsm, first, &result);
    request_free(fsm, first);
}

/* Grants from the head as far as it goes. Steps: those granted, and the
 * requests for several locks that block nobody behind them. (An upgrade at the
 * head goes through since its lock is held shared, and blocks all behind it if
 * it is not free.) False if it has to stop before that. */
static bool grant_queue(struct lockfsm *fsm, struct lock *lock)
{
    uint32_t ahead[3] = {0};
    if (is_quarantined(fsm)) {
        return true;
    }
    LIST_FOR_SAFE (struct wait, wait, &lock->queue, in_lock) {
        if (!lock_can_go_on(lock, ahead)) {
            return true;
        }
        if (!request_is_free(fsm, wait)) {
            ahead[wait->mode]++;
        } else if (fsm->grants_left > 0) {
            grant_request(fsm, wait);
        } else {
            return false;
        }
    }
    return true;
}

static bool is_wanted(const struct lock *lock)
{
    return lock->hold_count > 0 || lock->wait_count > 0 || lock->delay_ms > 0;
}

/* A request that has lost its hold now waits like others, also for those who
 * wait for its owner: so a deadlock is searched as if it had just queued. */
static void search_unbacked(struct lockfsm *fsm)
{
    while (!list_is_empty(&fsm->unbacked)) {
        struct wait *wait = LIST_FIRST(&fsm->unbacked, struct wait,
                                       in_unbacked);
        struct result result = {.code = RESULT_DEADLOCK};
        list_remove(&wait->in_unbacked);
        if (deadlock_found(fsm, wait->asker, &result.text)) {
            wait_end(fsm, wait, "deadlock", &result);
        }
    }
}

static void tell_delays(struct lockfsm *fsm)
{
    LIST_FOR (struct lock, lock, &fsm->touched, in_touched) {
        if (lock->delay_ms > 0 && lock->delay_index == fsm->log_index) {
            struct effect *effect = effect_add(fsm, EFFECT_DELAYED);
            effect->lock = effect_copy(fsm, lock->name);
            effect->time_ms = lock->delay_ms;
            effect->wait_index = lock->delay_index;
        }
    }
}

void settle(struct lockfsm *fsm)
{
    search_unbacked(fsm);
    if (fsm->emptied != NULL) {
        CHECK(fsm->emptied->is_redis && fsm->emptied->wait_count == 0);
        session_end(fsm, fsm->emptied, SESSION_RELEASED);
    }
    CHECK(fsm->emptied == NULL);
    tell_delays(fsm);
    while (!list_is_empty(&fsm->touched)) {
        struct lock *lock = LIST_FIRST(&fsm->touched, struct lock, in_touched);
        list_remove(&lock->in_touched);
        /* The lock is still marked as touched, so that a grant does not list it
         * again. */
        lock_set_cut(fsm, lock, !grant_queue(fsm, lock));
        lock->is_touched = false;
        if (!is_wanted(lock) && !has_payer(&lock->stored)) {
            lock_free(fsm, lock);
        } else if (!is_wanted(lock)) {
            lock->slots = 0; /* The next request sets the slots anew. */
            record_changed(fsm, &lock->stored);
        }
    }
    /* Handing over takes nothing from anybody. */
    CHECK(list_is_empty(&fsm->unbacked) && fsm->emptied == NULL);
}
