/* SPDX-License-Identifier: MIT */

/* Whether a request can be granted.
 *
 * A request can be granted if the holders allow it and no incompatible wait is
 * ahead of it. Waits that are compatible with all waits ahead do not wait for
 * those: readers at the head are granted together. With slots, the waits ahead
 * are granted first: each of them counts as a holder.
 *
 * A request for several locks is in all their queues and is granted when it is
 * free in all of them at once. Until then it keeps its places: a lock is
 * reserved for the request at the head of its queue. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

/* In longer queues waits are not compared with a count of those ahead. */
#define COMPARED_MAX 64

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

/* True if a request after these waits, counted by mode, need not wait for any
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

/* The entry that granted the oldest hold which blocks 'wait', ignoring its
 * owner's own. If there is none, the entry of the lock's newest grant; 0 if the
 * lock was never granted. */
static uint64_t oldest_in_the_way(const struct lockfsm *fsm,
                                  const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        if (hold->session != wait->session ||
            !bytes_equal(hold->owner, wait->owner)) {
            /* Holds are in the order of their grants. */
            return hold->granted_index;
        }
    }
    /* A token of an earlier epoch is older than all waits. */
    return lock->last_token > fsm->epoch.token_base
               ? lock->last_token - fsm->epoch.token_base
               : 0;
}

bool may_pass_queue(const struct lockfsm *fsm, const struct lock *lock,
                    enum lock_mode mode)
{
    if (lock->cut_serial != 0) {
        return false; /* The lock is being granted to its waiters. */
    }
    for (int of = LOCK_EXCLUSIVE; of <= LOCK_SLOTS; of++) {
        if (mode == LOCK_SHARED && of == LOCK_SHARED) {
            continue;
        }
        LIST_FOR (const struct wait, wait, &lock->waits_of[of], in_mode) {
            if (oldest_in_the_way(fsm, wait) > wait->wait_index) {
                return false;
            }
            if (!wait->is_upgrade) {
                /* All later waits are younger. The hold that blocks this one
                 * blocks them, too, unless it is their own, which their request
                 * does not lack here. */
                break;
            }
        }
    }
    return true;
}

bool lock_is_free_for_upgrade(const struct lockfsm *fsm,
                              const struct lock *lock)
{
    return !is_quarantined(fsm) && lock->delay_ms == 0 && lock->hold_count == 1;
}

/* True if a wait of this mode is ahead of 'wait': an upgrade is ahead of all,
 * the others are in the order of their serials. */
static bool has_ahead(const struct wait *wait, enum lock_mode mode)
{
    const struct list *list = &wait->lock->waits_of[mode];
    const struct wait *head = list_is_empty(list)
                                  ? wait
                                  : LIST_FIRST(list, struct wait, in_mode);
    return head != wait && !wait->is_upgrade &&
           (head->is_upgrade || head->serial < wait->serial);
}

/* True if the waits for slots ahead of 'wait' leave a slot free. */
static bool has_slot_left(const struct wait *wait)
{
    lock_move_edge(wait->lock);
    const struct wait *edge = wait->lock->slot_edge;
    return edge == NULL || wait->serial < edge->serial;
}

/* True if the waits ahead of 'wait' allow a request of this mode there. */
static bool place_allows(const struct wait *wait, enum lock_mode mode)
{
    if (has_ahead(wait, LOCK_EXCLUSIVE)) {
        return false;
    }
    switch (mode) {
    case LOCK_EXCLUSIVE:
        return !has_ahead(wait, LOCK_SHARED) && !has_ahead(wait, LOCK_SLOTS);
    case LOCK_SHARED:
        return !has_ahead(wait, LOCK_SLOTS);
    case LOCK_SLOTS:
        return !has_ahead(wait, LOCK_SHARED) && has_slot_left(wait);
    }
    UNREACHABLE();
}

#ifdef HASP_CHECK_SLOW
/* The same for the mode of 'wait', by counting the waits ahead. */
static bool waits_counted_allow(const struct wait *wait)
{
    uint32_t ahead[3] = {0};
    for (const struct list *node = wait->in_lock.prev;
         node != &wait->lock->queue; node = node->prev) {
        ahead[LIST_ENTRY(node, const struct wait, in_lock)->mode]++;
    }
    return waits_allow(wait->lock, wait->mode, wait->slots, ahead);
}
#endif

static bool waits_ahead_allow(const struct wait *wait)
{
    bool is_allowed = place_allows(wait, wait->mode);
    CHECK_SLOW(wait->lock->wait_count > COMPARED_MAX ||
               is_allowed == waits_counted_allow(wait));
    return is_allowed;
}

/* True if the wait's own lock is free for it; other locks of its request may
 * not be. */
static bool wait_is_free(const struct lockfsm *fsm, const struct wait *wait)
{
    const struct lock *lock = wait->lock;
    const struct hold *own = hold_find(fsm, lock, wait->session->id,
                                       wait->owner);
    if (wait->is_upgrade) {
        /* An upgrade ends with its shared hold, so the hold exists. */
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
    if (session->recheck_serial == 0 && fsm->relist.at == 0) {
        return false;
    }
    REQUEST_EACH (const struct wait, member, wait) {
        if (!wait_is_allowed(fsm, member)) {
            return true;
        }
    }
    return false;
}

bool request_is_free(const struct lockfsm *fsm, const struct wait *wait,
                     uint64_t *ret_looks)
{
    *ret_looks = 1;
    if (request_is_going(fsm, wait)) {
        return false;
    }
    REQUEST_EACH (const struct wait, member, wait) {
        ++*ret_looks;
        if (!wait_is_free(fsm, member)) {
            return false;
        }
    }
    return true;
}

bool lock_can_go_on(const struct wait *wait)
{
    for (int mode = LOCK_EXCLUSIVE; mode <= LOCK_SLOTS; mode++) {
        if (holders_allow(wait->lock, (enum lock_mode)mode,
                          wait->lock->slots) &&
            place_allows(wait, (enum lock_mode)mode)) {
            return true;
        }
    }
    return false;
}
