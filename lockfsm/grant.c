/* SPDX-License-Identifier: MIT */

/* Who may have a lock.
 *
 * A request is free to be granted if the holders allow it and nobody waits
 * ahead of it who is incompatible with it. Waiters that are compatible with all
 * ahead of them do not wait for those: readers at the head are granted
 * together. With slots, those ahead are served first: each of them is counted
 * as a holder.
 *
 * A request for several locks stands in all their queues and is granted when it
 * is free in all at once. Until then it keeps its place: a lock at the head of
 * whose queue it stands is reserved for it. */

#include "lockfsm/state.h"

/* How many slots are taken: held, or closed by a delay. */
static uint64_t used_slots(const struct lock *lock)
{
    return (uint64_t)lock->hold_count + lock->delay_slots;
}

bool holders_allow(const struct lock *lock, enum lock_mode mode, uint32_t slots)
{
    if (lock->delay_ms > 0 && (lock->delay_slots == 0 || mode != LOCK_SLOTS)) {
        return false;
    }
    switch (mode) {
    case LOCK_EXCLUSIVE:
        return lock->hold_count == 0;
    case LOCK_SHARED:
        return lock->hold_count == 0 || lock->mode == LOCK_SHARED;
    case LOCK_SLOTS:
        return (lock->hold_count == 0 || lock->mode == LOCK_SLOTS) &&
               used_slots(lock) < slots;
    }
    UNREACHABLE();
}

/* True if a request behind these waits, counted by mode, need not wait for any
 * of them. */
static bool waits_allow(const struct lock *lock, enum lock_mode mode,
                        uint32_t slots, const uint32_t waits_by_mode[3])
{
    if (waits_by_mode[LOCK_EXCLUSIVE] > 0) {
        return false;
    }
    switch (mode) {
    case LOCK_EXCLUSIVE:
        return waits_by_mode[LOCK_SHARED] == 0 &&
               waits_by_mode[LOCK_SLOTS] == 0;
    case LOCK_SHARED:
        return waits_by_mode[LOCK_SLOTS] == 0;
    case LOCK_SLOTS:
        return waits_by_mode[LOCK_SHARED] == 0 &&
               used_slots(lock) + waits_by_mode[LOCK_SLOTS] < slots;
    }
    UNREACHABLE();
}

bool lock_is_free(const struct lockfsm *fsm, const struct lock *lock,
                  enum lock_mode mode, uint32_t slots)
{
    if (is_quarantined(fsm)) {
        return false;
    }
    return lock == NULL ||
           (lock->cut_serial == 0 && holders_allow(lock, mode, slots) &&
            waits_allow(lock, mode, slots, lock->waits_by_mode));
}

/* The entry that granted the oldest hold which stands in the way of 'wait': its
 * own is in nobody's way. Without any, that of the lock's newest grant; 0 if
 * nobody has had it since there is this lock. */
static uint64_t oldest_in_the_way(const struct lockfsm *fsm,
                                  const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        if (hold->session != wait->session ||
            !bytes_equal(hold->owner, wait->owner)) {
            /* Holds stand in the order of their grants. */
            return hold->granted_index;
        }
    }
    /* A token of a former life is older than all waits. */
    return lock->last_token > fsm->token_base
               ? lock->last_token - fsm->token_base
               : 0;
}

bool may_pass_queue(const struct lockfsm *fsm, const struct lock *lock,
                    enum lock_mode mode)
{
    if (lock->cut_serial != 0) {
        return false; /* The lock is being handed to those who wait. */
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (mode == LOCK_SHARED && wait->mode == LOCK_SHARED) {
            continue;
        }
        if (oldest_in_the_way(fsm, wait) > wait->wait_index) {
            return false;
        }
        if (!wait->is_upgrade) {
            return true; /* All waits behind have come later. */
        }
    }
    return true;
}

bool lock_is_free_for_upgrade(const struct lockfsm *fsm,
                              const struct lock *lock)
{
    return !is_quarantined(fsm) && lock->delay_ms == 0 && lock->hold_count == 1;
}

/* True if the waits ahead of 'wait' allow it; stops counting as soon as it is
 * clear that they do not. */
static bool waits_ahead_allow(const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    uint32_t ahead[3] = {0};
    if (wait->mode == LOCK_SHARED && lock->waits_by_mode[LOCK_EXCLUSIVE] == 0 &&
        lock->waits_by_mode[LOCK_SLOTS] == 0) {
        return true;
    }
    const struct list *node = wait->in_lock.prev;
    while (node != &lock->queue) {
        ahead[LIST_ENTRY(node, const struct wait, in_lock)->mode]++;
        if (!waits_allow(lock, wait->mode, wait->slots, ahead)) {
            return false;
        }
        node = node->prev;
    }
    return true;
}

/* True if the wait's own lock is free for it; other locks of its request may
 * not be. */
static bool wait_is_free(const struct lockfsm *fsm, const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    const struct hold *own = hold_find(fsm, lock, wait->session->id,
                                       wait->owner);
    if (wait->is_upgrade) {
        /* An upgrade ends with the hold that it stands on. */
        CHECK(own != NULL && own->mode == LOCK_SHARED);
        return lock_is_free_for_upgrade(fsm, lock);
    }
    if (own != NULL && hold_covers(own, wait->mode)) {
        return true;
    }
    return !is_quarantined(fsm) &&
           holders_allow(lock, wait->mode, wait->slots) &&
           waits_ahead_allow(wait);
}

bool request_is_going(const struct lockfsm *fsm, const struct wait *wait)
{
    const struct session *session = wait->session;
    if (session->end != SESSION_LIVES || session_is_refused(fsm, session)) {
        return true;
    }
    if (session->recheck_serial == 0 && fsm->relist_at == 0) {
        return false;
    }
    REQUEST_EACH (const struct wait, member, wait) {
        if (!wait_is_allowed(fsm, member)) {
            return true;
        }
    }
    return false;
}

bool request_is_free(const struct lockfsm *fsm, const struct wait *wait)
{
    if (request_is_going(fsm, wait)) {
        return false;
    }
    REQUEST_EACH (const struct wait, member, wait) {
        if (!wait_is_free(fsm, member)) {
            return false;
        }
    }
    return true;
}

bool lock_can_go_on(const struct lock *lock, const uint32_t ahead[3])
{
    for (int mode = LOCK_EXCLUSIVE; mode <= LOCK_SLOTS; mode++) {
        if (holders_allow(lock, (enum lock_mode)mode, lock->slots) &&
            waits_allow(lock, (enum lock_mode)mode, lock->slots, ahead)) {
            return true;
        }
    }
    return false;
}
