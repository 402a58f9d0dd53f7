/* SPDX-License-Identifier: MIT */

/* Waits as structures: their places in the queues and indexes, and their end. A
 * request for several locks has a wait in each queue, all in one ring. */

#include <string.h>

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct wait *wait_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner)
{
    if (lock == NULL || lock->wait_count == 0) {
        return NULL;
    }
    struct holder_place *place = holder_index_find(
        &fsm->places,
        &(struct place_key){PLACE_WAIT, lock->id, session, owner});
    return place == NULL ? NULL : LIST_ENTRY(place, struct wait, place);
}

struct wait *request_find(const struct lockfsm *fsm, uint64_t wait_index,
                          uint64_t session, struct bytes owner)
{
    struct holder_place *place = holder_index_find(
        &fsm->places,
        &(struct place_key){PLACE_REQUEST, wait_index, session, owner});
    return place == NULL ? NULL : LIST_ENTRY(place, struct wait, by_request);
}

struct wait *wait_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct wait_terms *terms)
{
    struct wait *wait = pool_take(&fsm->pool, sizeof *wait);
    wait->lock = lock;
    wait->session = session;
    wait->owner = pool_copy(&fsm->pool, terms->hold.owner);
    wait->value = pool_copy(&fsm->pool, terms->hold.value);
    if (terms->hold.trace != NULL) {
        memcpy(wait->trace, terms->hold.trace, TRACE_SIZE);
    }
    wait->mode = terms->hold.mode;
    wait->slots = terms->hold.slots;
    wait->wait_index = fsm->entry.log_index;
    wait->asked_index = fsm->entry.log_index;
    wait->wait_ms = terms->wait_ms;
    /* K when the span begins (rule 10). */
    wait->wait_clock_ms = span_clock(fsm, wait->wait_ms);
    wait->delay_ms = terms->hold.delay_ms;
    wait->hold_ms = terms->hold.hold_ms;
    wait->is_upgrade = terms->is_upgrade;
    list_init(&wait->in_mode);
    list_init(&wait->in_group);
    list_init(&wait->in_unbacked);
    list_init(&wait->in_state);
    stored_init(&wait->stored, RECORD_WAIT);
    return wait;
}

static uint64_t bytes_of_wait(const struct wait *wait)
{
    return place_bytes(wait->lock->name, wait->owner, wait->value);
}

/* Links the wait with the others of its request, if it is not the first. */
static void link_request(struct lockfsm *fsm, struct wait *wait)
{
    struct wait *first = request_find(fsm, wait->wait_index, wait->session->id,
                                      wait->owner);
    if (first != NULL) {
        list_push_back(&first->in_group, &wait->in_group);
        return;
    }
    holder_index_add(&fsm->places, &wait->by_request,
                     &(struct place_key){PLACE_REQUEST, wait->wait_index,
                                         wait->session->id, wait->owner});
}

static void link_queue(struct lock *lock, struct wait *wait)
{
    if (wait->is_upgrade) {
        list_push_front(&lock->queue, &wait->in_lock);
        list_push_front(&lock->waits_of[wait->mode], &wait->in_mode);
        return;
    }
    list_push_back(&lock->queue, &wait->in_lock);
    list_push_back(&lock->waits_of[wait->mode], &wait->in_mode);
    if (lock->cut_at != 0 && lock->cut_wait == NULL &&
        wait->serial >= lock->cut_at) {
        lock->cut_wait = wait;
    }
    if (wait->mode == LOCK_SLOTS && lock->slot_edge == NULL &&
        lock->slot_rank == lock->waits_by_mode[LOCK_SLOTS]) {
        lock->slot_edge = wait;
    }
}

/* The next wait in the queue, or NULL. */
static struct wait *next_in_queue(const struct wait *wait)
{
    struct list *next = wait->in_lock.next;
    return next == &wait->lock->queue ? NULL
                                      : LIST_ENTRY(next, struct wait, in_lock);
}

static void unlink_queue(struct wait *wait)
{
    struct lock *lock = wait->lock;
    if (lock->cut_wait == wait) {
        lock->cut_wait = next_in_queue(wait);
    }
    if (lock->slot_edge == wait) {
        struct list *next = wait->in_mode.next;
        lock->slot_edge = next == &lock->waits_of[LOCK_SLOTS]
                              ? NULL
                              : LIST_ENTRY(next, struct wait, in_mode);
    } else if (wait->mode == LOCK_SLOTS &&
               (lock->slot_edge == NULL ||
                wait->serial < lock->slot_edge->serial)) {
        lock->slot_rank--;
    }
    list_remove(&wait->in_lock);
    list_remove(&wait->in_mode);
}

void wait_link(struct lockfsm *fsm, struct wait *wait)
{
    struct lock *lock = wait->lock;
    user_takes(wait->session->user, QUOTA_WAITS, 1);
    user_takes(wait->session->user, QUOTA_BYTES, bytes_of_wait(wait));
    holder_index_add(&fsm->places, &wait->place,
                     &(struct place_key){PLACE_WAIT, lock->id,
                                         wait->session->id, wait->owner});
    link_request(fsm, wait);
    link_queue(lock, wait);
    lock->wait_count++;
    fsm->uses.waits++;
    list_push_back(&fsm->waits, &wait->in_state);
    max_counter_up(&fsm->uses.waits_of_lock, lock->wait_count);
    lock->waits_by_mode[wait->mode]++;
    list_push_back(&wait->session->waits, &wait->in_session);
    wait->session->wait_count++;
    /* SWEEP continues at the first wait from recheck_from on: this one, if
     * there was none. */
    if (wait->session->recheck_serial != 0 &&
        wait->session->recheck_at == NULL &&
        wait->serial >= wait->session->recheck_from) {
        wait->session->recheck_at = wait;
    }
    max_counter_up(&fsm->uses.waits_of_session, wait->session->wait_count);
    max_counter_up(&fsm->uses.places_of_session, session_places(wait->session));
    wait->waiter = waiter_obtain(fsm, wait->session, wait->owner);
    list_push_back(&wait->waiter->waits, &wait->in_asker);
    wait->waiter->wait_count++;
}

struct wait *wait_queue(struct lockfsm *fsm, struct lock *lock,
                        struct session *session, const struct wait_terms *terms)
{
    CHECK(!session_is_refused(fsm, session));
    CHECK(!terms->is_upgrade || lock->mode == LOCK_SHARED);
    /* An owner waits only once at a lock: its name is the key of the wait. */
    CHECK_SLOW(wait_find(fsm, lock, session->id, terms->hold.owner) == NULL);
    struct wait *wait = wait_new(fsm, lock, session, terms);
    wait->serial = ++fsm->next_serial;
    wait->req = fsm->entry.origin.req;
    wait_link(fsm, wait);
    if (is_quarantined(fsm)) {
        /* So the end of the quarantine need not check every lock. */
        lock_leave_to_sweep(fsm, lock);
    }
    record_changed(fsm, &wait->stored);
    fsm->entry.queued_index = wait->wait_index;
    return wait;
}

static struct wait *next_in_session(const struct wait *wait)
{
    struct list *next = wait->in_session.next;
    return next == &wait->session->waits
               ? NULL
               : LIST_ENTRY(next, struct wait, in_session);
}

void wait_free(struct lockfsm *fsm, struct wait *wait)
{
    record_gone(fsm, &wait->stored);
    user_gives(wait->session->user, QUOTA_WAITS, 1);
    user_gives(wait->session->user, QUOTA_BYTES, bytes_of_wait(wait));
    holder_index_remove(&fsm->places, &wait->place);
    if (wait->by_request.kind == PLACE_REQUEST) {
        holder_index_remove(&fsm->places, &wait->by_request);
    }
    list_remove(&wait->in_group);
    list_remove(&wait->in_unbacked);
    unlink_queue(wait);
    list_remove(&wait->in_state);
    CHECK(wait->lock->wait_count > 0 && wait->session->wait_count > 0);
    CHECK(wait->lock->waits_by_mode[wait->mode] > 0);
    CHECK(wait->waiter->wait_count > 0 && fsm->uses.waits > 0);
    wait->lock->wait_count--;
    fsm->uses.waits--;
    max_counter_down(&fsm->uses.waits_of_lock, wait->lock->wait_count);
    wait->lock->waits_by_mode[wait->mode]--;
    /* SWEEP continues at this wait; it must not keep a pointer to it. */
    if (wait->session->recheck_at == wait) {
        wait->session->recheck_at = next_in_session(wait);
    }
    list_remove(&wait->in_session);
    wait->session->wait_count--;
    max_counter_down(&fsm->uses.waits_of_session, wait->session->wait_count);
    max_counter_down(&fsm->uses.places_of_session,
                     session_places(wait->session));
    list_remove(&wait->in_asker);
    wait->waiter->wait_count--;
    /* The waits after this one may be free now (rule 14: every removal of a
     * wait grants). */
    lock_touch(fsm, wait->lock);
    waiter_release(fsm, wait->waiter);
    pool_drop(&fsm->pool, &wait->owner);
    structure_free(fsm, &wait->stored);
}

void request_free(struct lockfsm *fsm, struct wait *wait)
{
    for (uint32_t left = request_count(wait); left > 0; left--) {
        struct wait *next = REQUEST_NEXT(wait);
        wait_free(fsm, wait);
        wait = next;
    }
}

uint32_t request_count(const struct wait *wait)
{
    uint32_t count = 0;
    REQUEST_EACH (const struct wait, member, wait) {
        count++;
    }
    CHECK(count <= MULTI_COUNT_MAX);
    return count;
}

struct wait *request_first(struct wait *wait)
{
    struct wait *first = wait;
    while (first->by_request.kind != PLACE_REQUEST) {
        first = REQUEST_NEXT(first);
        CHECK(first != wait); /* A request always has a first wait. */
    }
    return first;
}

/* Copies the names of the locks that the request was granted, in its order. */
static void copy_names(struct lockfsm *fsm, struct effect *effect,
                       const struct wait *first)
{
    uint32_t count = request_count(first);
    struct bytes *names = effect_take(fsm, count * sizeof *names);
    effect->names = names;
    REQUEST_EACH (const struct wait, member, first) {
        CHECK(effect->name_count < count);
        names[effect->name_count++] = effect_copy(fsm, member->lock->name);
    }
}

void wait_answer(struct lockfsm *fsm, const struct wait *wait,
                 const struct result *result)
{
    struct result copy;
    CHECK(result->code != RESULT_QUEUED);
    effect_copy_result(fsm, &copy, result);
    struct effect *effect = effect_add_at(fsm, EFFECT_WAIT_RESULT, wait->lock,
                                          wait->session, wait->owner);
    effect->result = copy;
    effect->asked_index = wait->asked_index;
    effect->wait_index = wait->wait_index;
    if (result->code == RESULT_OK) {
        copy_names(fsm, effect, wait);
    }
    result_cache_finish(fsm, wait->waiter, wait->wait_index, result);
}

void wait_tell_ended(struct lockfsm *fsm, const struct wait *wait,
                     const char *reason)
{
    struct effect *effect = effect_add_at(fsm, EFFECT_WAIT_ENDED, wait->lock,
                                          wait->session, wait->owner);
    effect->wait_index = wait->wait_index;
    effect->reason = reason;
    memcpy(effect->trace, wait->trace, TRACE_SIZE);
}

void wait_end(struct lockfsm *fsm, struct wait *wait, const char *reason,
              const struct result *result)
{
    struct wait *first = request_first(wait);
    CHECK(result->code !=
          RESULT_OK); /* A wait that ends did not get its lock. */
    REQUEST_EACH (const struct wait, member, first) {
        wait_tell_ended(fsm, member, reason);
    }
    wait_answer(fsm, first, result);
    request_free(fsm, first);
}

void wait_tell_queued(struct lockfsm *fsm, const struct wait *wait,
                      bool is_again)
{
    struct effect *effect = effect_add_at(fsm, EFFECT_QUEUED, wait->lock,
                                          wait->session, wait->owner);
    effect->wait_index = wait->wait_index;
    effect->asked_index = wait->asked_index;
    effect->time_ms = wait->wait_ms;
    effect->count = is_again ? 1 : 0;
    memcpy(effect->trace, wait->trace, TRACE_SIZE);
}

void wait_ask_again(struct lockfsm *fsm, struct wait *wait,
                    const struct wait_terms *terms, bool is_waiting,
                    struct result *result)
{
    CHECK(wait->session->id == fsm->entry.origin.session);
    CHECK(bytes_equal(wait->owner, fsm->entry.origin.owner));
    if (!is_waiting) {
        struct result nothing = {.code = RESULT_NOT_ACQUIRED};
        wait_end(fsm, wait, "timeout", &nothing);
        result->code = RESULT_NOT_ACQUIRED;
        return;
    }
    struct wait *first = request_first(wait);
    REQUEST_EACH (struct wait, member, first) {
        member->asked_index = fsm->entry.log_index;
        member->req = fsm->entry.origin.req;
        member->wait_ms = terms->wait_ms;
        member->wait_clock_ms = span_clock(fsm, member->wait_ms);
        member->delay_ms = terms->hold.delay_ms;
        member->hold_ms = terms->hold.hold_ms;
        /* Around the change of the value: the quota counts its size. */
        user_gives(member->session->user, QUOTA_BYTES, bytes_of_wait(member));
        pool_drop(&fsm->pool, &member->value);
        member->value = pool_copy(&fsm->pool, terms->hold.value);
        user_takes(member->session->user, QUOTA_BYTES, bytes_of_wait(member));
        record_changed(fsm, &member->stored);
        wait_tell_queued(fsm, member, true);
    }
    fsm->entry.queued_index = first->wait_index;
    result->code = RESULT_QUEUED;
}
