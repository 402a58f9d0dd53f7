/* SPDX-License-Identifier: MIT */

/* Holds as structures: created, found, linked, ended, freed, with their
 * effects. grant.c decides whether a lock can be granted. */

#include <string.h>

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct hold *hold_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner)
{
    if (lock == NULL || lock->hold_count == 0) {
        return NULL;
    }
    struct holder_place *place = holder_index_find(
        &fsm->places,
        &(struct place_key){PLACE_HOLD, lock->id, session, owner});
    return place == NULL ? NULL : LIST_ENTRY(place, struct hold, place);
}

bool hold_is(const struct hold *hold, uint64_t token)
{
    return hold->first_token <= token && token <= hold->token;
}

struct hold *hold_find_meant(const struct lockfsm *fsm, const struct lock *lock,
                             const struct session *session, uint64_t token)
{
    struct hold *hold = hold_find(fsm, lock, session->id,
                                  fsm->entry.origin.owner);
    return hold != NULL && (token == 0 || hold_is(hold, token)) ? hold : NULL;
}

struct hold *hold_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct hold_terms *terms)
{
    CHECK(terms->owner.size <= OWNER_SIZE_MAX);
    CHECK(terms->value.size <= VALUE_SIZE_MAX);
    struct hold *hold = pool_take(&fsm->pool, sizeof *hold);
    hold->lock = lock;
    hold->session = session;
    hold->owner = pool_copy(&fsm->pool, terms->owner);
    hold->value = pool_copy(&fsm->pool, terms->value);
    if (terms->trace != NULL) {
        memcpy(hold->trace, terms->trace, TRACE_SIZE);
    }
    hold->mode = terms->mode;
    hold->count = 1;
    hold->delay_ms = terms->delay_ms;
    hold->hold_ms = terms->hold_ms;
    hold->has_barged = terms->has_barged;
    hold->hold_clock_ms = span_clock(fsm, hold->hold_ms);
    stored_init(&hold->stored, RECORD_HOLD);
    return hold;
}

static uint64_t bytes_of_hold(const struct hold *hold)
{
    return place_bytes(hold->lock->name, hold->owner, hold->value);
}

void hold_link(struct lockfsm *fsm, struct hold *hold)
{
    user_takes(hold->session->user, QUOTA_HOLDS, 1);
    user_takes(hold->session->user, QUOTA_BYTES, bytes_of_hold(hold));
    holder_index_add(&fsm->places, &hold->place,
                     &(struct place_key){PLACE_HOLD, hold->lock->id,
                                         hold->session->id, hold->owner});
    former_takes(fsm, hold);
    if (hold->mode != LOCK_EXCLUSIVE) {
        claims_add(fsm, hold);
    }
    list_push_back(&hold->lock->holds, &hold->in_lock);
    hold->lock->hold_count++;
    /* After the count: the edge depends on how many slots are free. */
    lock_move_edge(hold->lock);
    fsm->uses.holds++;
    list_push_back(&hold->session->holds, &hold->in_session);
    treap_add(&hold->session->hold_order, &hold->in_order, hold->lock->name,
              hold->serial);
    hold->session->hold_count++;
    max_counter_up(&fsm->uses.places_of_session, session_places(hold->session));
}

void hold_free(struct lockfsm *fsm, struct hold *hold)
{
    /* Before the hold is unlinked: the record's key has the lock and the
     * session. */
    record_gone(fsm, &hold->stored);
    user_gives(hold->session->user, QUOTA_HOLDS, 1);
    user_gives(hold->session->user, QUOTA_BYTES, bytes_of_hold(hold));
    holder_index_remove(&fsm->places, &hold->place);
    former_gives(fsm, hold);
    claims_remove(fsm, hold);
    list_remove(&hold->in_lock);
    CHECK(hold->lock->hold_count > 0 && hold->session->hold_count > 0);
    hold->lock->hold_count--;
    lock_move_edge(hold->lock);
    CHECK(fsm->uses.holds > 0);
    fsm->uses.holds--;
    list_remove(&hold->in_session);
    treap_remove(&hold->session->hold_order, &hold->in_order);
    hold->session->hold_count--;
    max_counter_down(&fsm->uses.places_of_session,
                     session_places(hold->session));
    pool_drop(&fsm->pool, &hold->owner);
    structure_free(fsm, &hold->stored);
}

void hold_tell(struct lockfsm *fsm, const struct hold *hold,
               uint64_t wait_index, const char *reason)
{
    struct bytes note = effect_copy(fsm, hold->lock->note);
    struct effect *effect = effect_add_at(fsm, EFFECT_GRANTED, hold->lock,
                                          hold->session, hold->owner);
    effect->token = hold->token;
    effect->wait_index = wait_index;
    effect->hold_ms = hold->hold_ms;
    effect->reason = reason;
    effect->text = reason == NULL ? note : (struct bytes){NULL, 0};
    memcpy(effect->trace, hold->trace, TRACE_SIZE);
}

struct hold *hold_grant(struct lockfsm *fsm, struct lock *lock,
                        struct session *session, const struct hold_terms *terms,
                        uint64_t wait_index)
{
    CHECK(!is_quarantined(fsm) && !session_is_refused(fsm, session));
    CHECK(lock->hold_count == 0 ||
          (lock->mode == terms->mode && terms->mode != LOCK_EXCLUSIVE));
    struct hold *hold = hold_new(fsm, lock, session, terms);
    hold->serial = ++fsm->next_serial;
    hold->token = new_token(fsm);
    hold->first_token = hold->token;
    hold->granted_index = fsm->entry.log_index;
    hold_link(fsm, hold);
    /* A lock's tokens never decrease: this is what a fenced resource relies on
     * (rule 11). */
    CHECK(lock->last_token <= hold->token);
    lock->mode = terms->mode;
    lock->last_token = hold->token;
    if (terms->mode == LOCK_SLOTS) {
        lock->slots = terms->slots;
    }
    record_changed(fsm, &lock->stored);
    record_changed(fsm, &hold->stored);
    hold_tell(fsm, hold, wait_index, NULL);
    return hold;
}

void hold_edit(struct lockfsm *fsm, struct hold *hold, struct bytes value)
{
    CHECK(hold->session->is_redis && value.size <= VALUE_SIZE_MAX);
    user_gives(hold->session->user, QUOTA_BYTES, bytes_of_hold(hold));
    pool_drop(&fsm->pool, &hold->value);
    hold->value = pool_copy(&fsm->pool, value);
    user_takes(hold->session->user, QUOTA_BYTES, bytes_of_hold(hold));
    record_changed(fsm, &hold->stored);
}

void hold_replace(struct lockfsm *fsm, struct hold *hold, struct bytes value)
{
    struct effect *effect = effect_add_at(fsm, EFFECT_RELEASED, hold->lock,
                                          hold->session, hold->owner);
    effect->token = hold->token;
    effect->reason = "deleted";
    hold_edit(fsm, hold, value);
    former_gives(fsm, hold);
    hold->token = new_token(fsm);
    hold->first_token = hold->token; /* For clients with a token, another hold.
                                      */
    hold->granted_index = fsm->entry.log_index;
    hold->lock->last_token = hold->token;
    record_changed(fsm, &hold->lock->stored);
    hold_tell(fsm, hold, 0, NULL);
}

void hold_enter_again(struct lockfsm *fsm, struct hold *hold)
{
    (void)hold_object(fsm, hold, (struct bytes){NULL, 0});
    if (hold->count < UINT32_MAX) {
        hold->count++;
        record_changed(fsm, &hold->stored);
    }
}

void hold_upgrade(struct lockfsm *fsm, struct hold *hold, uint64_t wait_index)
{
    CHECK(hold->mode == LOCK_SHARED && hold->lock->hold_count == 1);
    claims_remove(fsm, hold);
    hold->mode = LOCK_EXCLUSIVE;
    former_gives(fsm, hold);
    hold->token = new_token(fsm);
    hold->granted_index = fsm->entry.log_index;
    hold->has_barged = false;
    hold->hold_clock_ms = span_clock(fsm, hold->hold_ms);
    hold->lock->mode = LOCK_EXCLUSIVE;
    hold->lock->last_token = hold->token;
    record_changed(fsm, &hold->lock->stored);
    record_changed(fsm, &hold->stored);
    hold_tell(fsm, hold, wait_index, "upgraded");
}

/* Begins a delay, which never shortens another one: the longer of the two
 * begins now. Slots are closed one by one, other locks as a whole. */
static void start_delay(struct lockfsm *fsm, struct lock *lock,
                        const struct hold *hold)
{
    bool is_closed = lock->delay_ms > 0 && lock->delay_slots == 0;
    payers_count(fsm, &lock->stored, lock->name, user_gives);
    lock->delay_ms = u64_max(lock->delay_ms, hold->delay_ms);
    CHECK(lock->delay_ms > 0);
    lock->delay_index = fsm->entry.log_index;
    lock->delay_clock_ms = fsm->clock.ms;
    lock->delay_user = hold->session->user_number;
    payers_count(fsm, &lock->stored, lock->name, user_takes);
    if (hold->mode == LOCK_SLOTS && !is_closed) {
        lock->delay_slots++;
    } else {
        lock->delay_slots = 0;
    }
    record_changed(fsm, &lock->stored);
}

/* If its owner waits at the same lock, ends the wait that depends on this hold:
 * an upgrade, or a request for several locks that counts on it. */
static void end_backing(struct lockfsm *fsm, const struct hold *hold)
{
    struct wait *wait = wait_find(fsm, hold->lock, hold->session->id,
                                  hold->owner);
    if (wait != NULL && wait->is_upgrade) {
        struct result result = {.code = RESULT_NOT_HELD};
        wait_end(fsm, wait, "released", &result);
    } else if (wait != NULL) {
        list_push_back(&fsm->settle.unbacked, &wait->in_unbacked);
    }
}

void hold_end(struct lockfsm *fsm, struct hold *hold, const char *reason,
              bool is_clean)
{
    struct lock *lock = hold->lock;
    struct session *session = hold->session;
    if (session->end != SESSION_LIVES) {
        /* The session's end is the reason, even if something else takes the
         * hold now. */
        reason = session_end_name(session->end);
        is_clean = session_end_is_clean(session->end);
    }
    struct effect *effect = effect_add_at(
        fsm, is_clean ? EFFECT_RELEASED : EFFECT_HOLD_EXPIRED, lock, session,
        hold->owner);
    effect->token = hold->token;
    effect->granted_index = hold->granted_index;
    effect->reason = reason;
    memcpy(effect->trace, hold->trace, TRACE_SIZE);
    end_backing(fsm, hold);
    if (!is_clean && hold->delay_ms > 0) {
        start_delay(fsm, lock, hold);
    }
    hold_free(fsm, hold);
    lock_touch(fsm, lock);
    if (session->is_redis && session->hold_count == 0) {
        CHECK(fsm->settle.emptied == NULL);
        fsm->settle.emptied = session;
    }
}

bool hold_covers(const struct hold *hold, enum lock_mode mode)
{
    return hold->mode == LOCK_EXCLUSIVE ||
           (hold->mode == mode && mode != LOCK_EXCLUSIVE);
}
