/* SPDX-License-Identifier: MIT */

/* Locks as structures: created, found, freed, and listed to be settled at the
 * end of the entry. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct lock *lock_find(const struct lockfsm *fsm, struct bytes name)
{
    struct lock *lock = NULL;
    HASH_FIND(by_name, fsm->locks, name.data, name.size, lock);
    return lock;
}

struct lock *lock_new(struct lockfsm *fsm, struct bytes name)
{
    CHECK(name_is_valid(name));
    CHECK_SLOW(lock_find(fsm, name) == NULL);
    struct lock *lock = pool_take(&fsm->pool, sizeof *lock);
    lock->name = pool_copy(&fsm->pool, name);
    list_init(&lock->holds);
    list_init(&lock->queue);
    for (int mode = LOCK_EXCLUSIVE; mode <= LOCK_SLOTS; mode++) {
        list_init(&lock->waits_of[mode]);
    }
    list_init(&lock->in_touched);
    list_init(&lock->in_cut);
    stored_init(&lock->stored, RECORD_LOCK);
    HASH_ADD_KEYPTR(by_name, fsm->locks, lock->name.data, lock->name.size,
                    lock);
    treap_add(&fsm->lock_order, &lock->in_order, lock->name, 0);
    return lock;
}

struct lock *lock_obtain(struct lockfsm *fsm, struct bytes name)
{
    struct lock *lock = lock_find(fsm, name);
    if (lock == NULL) {
        lock = lock_new(fsm, name);
        lock->id = ++fsm->next_serial;
        record_changed(fsm, &lock->stored);
    }
    return lock;
}

void lock_free(struct lockfsm *fsm, struct lock *lock)
{
    CHECK(lock->hold_count == 0);
    CHECK(lock->wait_count == 0);
    record_gone(fsm, &lock->stored);
    payers_count(fsm, &lock->stored, lock->name, user_gives);
    list_remove(&lock->in_touched);
    list_remove(&lock->in_cut);
    HASH_DELETE(by_name, fsm->locks, lock);
    treap_remove(&fsm->lock_order, &lock->in_order);
    pool_drop(&fsm->pool, &lock->name);
    structure_free(fsm, &lock->stored);
}

void lock_list_touched(struct lockfsm *fsm, struct lock *lock)
{
    if (!lock->is_touched) {
        lock->is_touched = true;
        fsm->entry.steps++;
        list_push_back(&fsm->settle.touched, &lock->in_touched);
    }
}

void lock_touch(struct lockfsm *fsm, struct lock *lock)
{
    /* A wait that granting removes from its own queue concerns only later
     * waits, which it has yet to reach. */
    bool is_settled_now = lock->is_touched && list_is_empty(&lock->in_touched);
    if (lock->cut_at != 0 && !lock->cut_again && !is_settled_now) {
        lock->cut_again = true;
        record_changed(fsm, &lock->stored);
    }
    lock_list_touched(fsm, lock);
}

void lock_set_cut(struct lockfsm *fsm, struct lock *lock, struct wait *wait,
                  bool is_new_round)
{
    bool is_first = wait->in_lock.prev == &lock->queue;
    CHECK(wait->lock == lock);
    lock->cut_wait = is_first ? NULL : wait;
    lock->cut_at = is_first ? 0 : wait->serial;
    if (is_first) {
        lock->cut_again = false; /* It starts at the head anyway. */
    }
    if (lock->cut_serial == 0 || is_new_round) {
        list_remove(&lock->in_cut);
        lock->cut_serial = ++fsm->next_serial;
        list_push_back(&fsm->left.cut, &lock->in_cut);
    }
    record_changed(fsm, &lock->stored);
}

void lock_leave_to_sweep(struct lockfsm *fsm, struct lock *lock)
{
    if (lock->cut_serial == 0) {
        lock->cut_serial = ++fsm->next_serial;
        list_push_back(&fsm->left.cut, &lock->in_cut);
        record_changed(fsm, &lock->stored);
    }
}

void lock_end_cut(struct lockfsm *fsm, struct lock *lock)
{
    if (lock->cut_serial != 0) {
        list_remove(&lock->in_cut);
        lock->cut_serial = lock->cut_at = 0;
        lock->cut_again = false;
        lock->cut_wait = NULL;
        record_changed(fsm, &lock->stored);
    }
}

void lock_move_edge(struct lock *lock)
{
    uint64_t used = used_slots(lock);
    uint64_t left = lock->slots > used ? lock->slots - used : 0;
    struct list *end = &lock->waits_of[LOCK_SLOTS];
    struct list *node = lock->slot_edge != NULL ? &lock->slot_edge->in_mode
                                                : end;
    while (lock->slot_rank < left && node != end) {
        lock->slot_rank++;
        node = node->next;
    }
    while (lock->slot_rank > left) {
        lock->slot_rank--;
        node = node->prev;
    }
    lock->slot_edge = node == end ? NULL
                                  : LIST_ENTRY(node, struct wait, in_mode);
}

void lock_delay_drop(struct lockfsm *fsm, struct lock *lock)
{
    payers_count(fsm, &lock->stored, lock->name, user_gives);
    lock->delay_ms = 0;
    lock->delay_user = 0;
    lock->delay_index = 0;
    lock->delay_clock_ms = 0;
    lock->delay_slots = 0;
    payers_count(fsm, &lock->stored, lock->name, user_takes);
    record_changed(fsm, &lock->stored);
}
