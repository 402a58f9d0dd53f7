/* SPDX-License-Identifier: MIT */

/* The end of an entry settles what the operation has touched, in this order:
 *
 *   1. Requests for several locks that counted on a hold which has ended are
 *      searched for deadlocks.
 *   2. A Redis session that has lost its hold ends.
 *   3. Lock delays that began are reported.
 *   4. Every touched lock is granted to waiters, or forgotten.
 *
 * No waiter is granted anything before step 4. So whatever an entry removes is
 * gone before that, and each lock is granted once. Granting to more waits than
 * an entry may grant, or past more requests than it may check, is cut off, and
 * SWEEP continues it: until then the remaining waits keep their places, and
 * later ones queue after them. The place of the cut depends on the records
 * alone, so a node that has just loaded them does the same as one that made
 * them. */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

static uint64_t grant_wait(struct lockfsm *fsm, struct wait *wait)
{
    struct hold *own = hold_find(fsm, wait->lock, wait->session->id,
                                 wait->owner);
    if (own != NULL && wait->is_upgrade) {
        hold_upgrade(fsm, own, wait->wait_index);
        return own->token;
    }
    /* A request for several locks can name one that its owner holds already,
     * and an owner has one hold of a lock (rule 17). */
    if (own != NULL) {
        hold_enter_again(fsm, own);
        wait_tell_ended(fsm, wait, "re-entered");
        return own->token;
    }
    struct hold_terms terms = {.owner = wait->owner,
                               .value = wait->value,
                               .trace = wait->trace,
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
    uint64_t tokens[MULTI_COUNT_MAX];
    uint32_t count = 0;
    REQUEST_EACH (struct wait, member, first) {
        CHECK(count < MULTI_COUNT_MAX);
        tokens[count++] = grant_wait(fsm, member);
    }
    CHECK(fsm->entry.grants_left > 0);
    fsm->entry.grants_left -= u64_min(count, fsm->entry.grants_left);
    struct result result = {.code = RESULT_OK,
                            .token = tokens[0],
                            .tokens = tokens,
                            .token_count = count};
    wait_answer(fsm, first, &result);
    request_free(fsm, first);
}

static struct wait *head_of(const struct lock *lock)
{
    return list_is_empty(&lock->queue)
               ? NULL
               : LIST_FIRST(&lock->queue, struct wait, in_lock);
}

/* The next wait in the queue, or NULL. */
static struct wait *finish_entry_behind(const struct lock *lock,
                                        const struct wait *wait)
{
    struct list *next = wait->in_lock.next;
    return next == &lock->queue ? NULL : LIST_ENTRY(next, struct wait, in_lock);
}

/* A position in the queue of a lock that is being granted. */
struct handing {
    struct wait *at;   /* The next wait to check; NULL: the end. */
    bool is_new_round; /* It has started again at the head. */
};

/* Continues from 'at' until no later wait can be granted. (An upgrade at the
 * head is checked because its lock is held shared; it blocks all later waits if
 * it is not free.) False if the entry's budget is used up. */
static bool grant_from(struct lockfsm *fsm, struct lock *lock,
                       struct handing *handing)
{
    /* Granting that was cut off is left to SWEEP, so that no other entry pays
     * for it. */
    bool may_look = lock->cut_serial == 0 || fsm->entry.goes_on;
    while (handing->at != NULL && lock_can_go_on(handing->at)) {
        struct wait *wait = handing->at;
        uint64_t looks;
        if (!may_look || fsm->entry.looks_left == 0) {
            return false;
        }
        bool is_free = request_is_free(fsm, wait, &looks);
        if (is_free && fsm->entry.grants_left == 0) {
            return false;
        }
        fsm->entry.looks_left -= u64_min(looks, fsm->entry.looks_left);
        fsm->entry.steps += looks;
        handing->at = finish_entry_behind(lock, wait);
        if (is_free) {
            grant_request(fsm, wait);
        }
    }
    return true;
}

/* Grants the lock to waiters within the entry's budget, from where it was cut
 * off or from the head. Steps: the granted waits, and the requests for several
 * locks that block no later ones. If the lock was touched meanwhile, waits that
 * were checked before may now be free: then there is another round from the
 * head, but only after the end was reached; otherwise the waits at the end
 * might never be reached. */
static void finish_entry_hand_over(struct lockfsm *fsm, struct lock *lock)
{
    struct handing handing = {
        lock->cut_at != 0 ? lock->cut_wait : head_of(lock), false};
    if (is_quarantined(fsm)) {
        if (lock->wait_count == 0) {
            lock_end_cut(fsm, lock);
        }
        return;
    }
    bool is_through = grant_from(fsm, lock, &handing);
    if (is_through && lock->cut_again) {
        handing = (struct handing){head_of(lock), true};
        is_through = grant_from(fsm, lock, &handing);
    }
    if (is_through) {
        lock_end_cut(fsm, lock);
    } else {
        lock_set_cut(fsm, lock, handing.at, handing.is_new_round);
    }
}

static bool finish_entry_is_wanted(const struct lock *lock)
{
    return lock->hold_count > 0 || lock->wait_count > 0 || lock->delay_ms > 0;
}

/* A request that has lost its hold now waits like others, and may wait for
 * those that wait for its owner: so the graph is searched as if the request had
 * just been queued. */
static void search_unbacked(struct lockfsm *fsm)
{
    while (!list_is_empty(&fsm->settle.unbacked)) {
        struct wait *wait = LIST_FIRST(&fsm->settle.unbacked, struct wait,
                                       in_unbacked);
        struct result result = {.code = RESULT_DEADLOCK};
        list_remove(&wait->in_unbacked);
        if (deadlock_found(fsm, wait->waiter, &result.text)) {
            wait_end(fsm, wait, "deadlock", &result);
        }
    }
}

static void tell_delays(struct lockfsm *fsm)
{
    LIST_FOR (struct lock, lock, &fsm->settle.touched, in_touched) {
        if (lock->delay_ms > 0 && lock->delay_index == fsm->entry.log_index) {
            struct effect *effect = effect_add(fsm, EFFECT_DELAYED);
            effect->lock = effect_copy(fsm, lock->name);
            effect->time_ms = lock->delay_ms;
            effect->wait_index = lock->delay_index;
        }
    }
}

void finish_entry(struct lockfsm *fsm)
{
    search_unbacked(fsm);
    if (fsm->settle.emptied != NULL) {
        CHECK(fsm->settle.emptied->is_redis &&
              fsm->settle.emptied->wait_count == 0);
        session_end(fsm, fsm->settle.emptied, SESSION_RELEASED);
    }
    CHECK(fsm->settle.emptied == NULL);
    tell_delays(fsm);
    while (!list_is_empty(&fsm->settle.touched)) {
        struct lock *lock = LIST_FIRST(&fsm->settle.touched, struct lock,
                                       in_touched);
        list_remove(&lock->in_touched);
        /* The lock stays marked as touched, so that a grant does not list it
         * again. */
        finish_entry_hand_over(fsm, lock);
        lock->is_touched = false;
        if (!finish_entry_is_wanted(lock) && !has_payer(&lock->stored)) {
            lock_free(fsm, lock);
        } else if (!finish_entry_is_wanted(lock)) {
            lock->slots = 0; /* The next request sets the slots again. */
            record_changed(fsm, &lock->stored);
        }
    }
    /* Granting removes nothing. */
    CHECK(list_is_empty(&fsm->settle.unbacked) && fsm->settle.emptied == NULL);
}
