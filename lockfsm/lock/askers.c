/* SPDX-License-Identifier: MIT */

/* Askers: the owners of a session that wait. */

#include "lockfsm/state.h"

struct asker *asker_find(const struct lockfsm *fsm, uint64_t session,
                         struct bytes owner)
{
    struct place *place = places_find(
        &fsm->places, &(struct place_key){PLACE_ASKER, 0, session, owner});
    return place == NULL ? NULL : LIST_ENTRY(place, struct asker, place);
}

struct asker *asker_obtain(struct lockfsm *fsm, struct session *session,
                           struct bytes owner)
{
    struct asker *asker = asker_find(fsm, session->id, owner);
    if (asker != NULL) {
        return asker;
    }
    CHECK(owner.size <= OWNER_SIZE_MAX);
    asker = pool_take(&fsm->pool, sizeof *asker);
    asker->session = session;
    asker->owner = pool_copy(&fsm->pool, owner);
    list_init(&asker->waits);
    list_init(&asker->waiting);
    list_push_back(&session->askers, &asker->in_session);
    session->asker_count++;
    tally_up(&fsm->uses.owners_of_session, session->asker_count);
    user_takes(session->user, QUOTA_BYTES, owner.size);
    places_add(&fsm->places, &asker->place,
               &(struct place_key){PLACE_ASKER, 0, session->id, asker->owner});
    return asker;
}

void asker_release(struct lockfsm *fsm, struct asker *asker)
{
    if (asker->wait_count > 0) {
        return;
    }
    CHECK(list_is_empty(&asker->waiting));
    places_remove(&fsm->places, &asker->place);
    list_remove(&asker->in_session);
    asker->session->asker_count--;
    tally_down(&fsm->uses.owners_of_session, asker->session->asker_count);
    user_gives(asker->session->user, QUOTA_BYTES, asker->owner.size);
    pool_drop(&fsm->pool, &asker->owner);
    pool_give(&fsm->pool, asker, sizeof *asker);
}
