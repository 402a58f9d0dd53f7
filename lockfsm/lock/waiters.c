/* SPDX-License-Identifier: MIT */

/* Waiters: the owners of a session that wait. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

struct waiter *waiter_find(const struct lockfsm *fsm, uint64_t session,
                           struct bytes owner)
{
    struct holder_place *place = holder_index_find(
        &fsm->places, &(struct place_key){PLACE_ASKER, 0, session, owner});
    return place == NULL ? NULL : LIST_ENTRY(place, struct waiter, place);
}

struct waiter *waiter_obtain(struct lockfsm *fsm, struct session *session,
                             struct bytes owner)
{
    struct waiter *waiter = waiter_find(fsm, session->id, owner);
    if (waiter != NULL) {
        return waiter;
    }
    CHECK(owner.size <= OWNER_SIZE_MAX);
    waiter = pool_take(&fsm->pool, sizeof *waiter);
    waiter->session = session;
    waiter->owner = pool_copy(&fsm->pool, owner);
    list_init(&waiter->waits);
    list_init(&waiter->waiting);
    list_push_back(&session->waiters, &waiter->in_session);
    session->asker_count++;
    max_counter_up(&fsm->uses.owners_of_session, session->asker_count);
    user_takes(session->user, QUOTA_BYTES, owner.size);
    holder_index_add(
        &fsm->places, &waiter->place,
        &(struct place_key){PLACE_ASKER, 0, session->id, waiter->owner});
    return waiter;
}

void waiter_release(struct lockfsm *fsm, struct waiter *waiter)
{
    if (waiter->wait_count > 0) {
        return;
    }
    CHECK(list_is_empty(&waiter->waiting));
    holder_index_remove(&fsm->places, &waiter->place);
    list_remove(&waiter->in_session);
    waiter->session->asker_count--;
    max_counter_down(&fsm->uses.owners_of_session,
                     waiter->session->asker_count);
    user_gives(waiter->session->user, QUOTA_BYTES, waiter->owner.size);
    pool_drop(&fsm->pool, &waiter->owner);
    pool_give(&fsm->pool, waiter, sizeof *waiter);
}
