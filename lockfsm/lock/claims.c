/* SPDX-License-Identifier: MIT */

/* Holds of a lock by their owner's tag in all sessions, because RELEASEIF need
 * not name a session. Only shared holds and slots are here, since an exclusive
 * hold is the only one of its lock. The first hold of an owner is in the holder
 * index; the others follow it in a ring, in the order of their grants. */

#include "lockfsm/lock/lock.h"

static struct place_key claims_key_of(const struct lock *lock, uint64_t user,
                                      struct bytes owner)
{
    return (struct place_key){PLACE_CLAIM, lock->id, user, owner};
}

static struct place_key key_at(const struct hold *hold, int which)
{
    return claims_key_of(
        hold->lock, which == CLAIM_OF_USER ? hold->session->user_number : 0,
        hold->owner);
}

static struct claim *claims_first_of(const struct lockfsm *fsm,
                                     const struct place_key *key)
{
    struct holder_place *place = holder_index_find(&fsm->places, key);
    return place == NULL ? NULL : LIST_ENTRY(place, struct claim, place);
}

static struct hold *hold_of(struct claim *claim, int which)
{
    return which == CLAIM_OF_USER
               ? LIST_ENTRY(claim, struct claims, of[CLAIM_OF_USER])->hold
               : LIST_ENTRY(claim, struct claims, of[CLAIM_OF_ALL])->hold;
}

static bool is_first(const struct claim *claim)
{
    return claim->place.kind == PLACE_CLAIM;
}

static struct claim *next_of(const struct claim *claim)
{
    return LIST_ENTRY(claim->ring.next, struct claim, ring);
}

void claims_add(struct lockfsm *fsm, struct hold *hold)
{
    CHECK(hold->claims == NULL && hold->mode != LOCK_EXCLUSIVE);
    hold->claims = pool_take(&fsm->pool, sizeof *hold->claims);
    hold->claims->hold = hold;
    for (int which = 0; which < CLAIM_COUNT; which++) {
        struct claim *claim = &hold->claims->of[which];
        struct place_key key = key_at(hold, which);
        struct claim *first = claims_first_of(fsm, &key);
        list_init(&claim->ring);
        if (first != NULL) {
            list_push_back(&first->ring, &claim->ring);
        } else {
            holder_index_add(&fsm->places, &claim->place, &key);
        }
    }
}

void claims_remove(struct lockfsm *fsm, struct hold *hold)
{
    if (hold->claims == NULL) {
        return;
    }
    for (int which = 0; which < CLAIM_COUNT; which++) {
        struct claim *claim = &hold->claims->of[which];
        struct claim *next = next_of(claim);
        list_remove(&claim->ring);
        if (!is_first(claim)) {
            continue;
        }
        holder_index_remove(&fsm->places, &claim->place);
        /* The index holds the first claim of each ring; its successor takes the
         * place. */
        if (next != claim) {
            struct place_key key = key_at(hold_of(next, which), which);
            holder_index_add(&fsm->places, &next->place, &key);
        }
    }
    pool_give(&fsm->pool, hold->claims, sizeof *hold->claims);
    hold->claims = NULL;
}

static bool has_token(const struct hold *hold, uint64_t token)
{
    return token == 0 || hold->token == token;
}

/* Used if the lock has no other hold. */
static struct hold *find_sole(const struct lock *lock, const struct user *user,
                              struct bytes owner, uint64_t token)
{
    struct hold *sole = LIST_FIRST(&lock->holds, struct hold, in_lock);
    bool is_meant = bytes_equal(sole->owner, owner) && has_token(sole, token) &&
                    (user == NULL || sole->session->user == user);
    return is_meant ? sole : NULL;
}

struct hold *claim_find(struct lockfsm *fsm, const struct lock *lock,
                        const struct user *user, struct bytes owner,
                        uint64_t token, bool *ret_many)
{
    int which = user != NULL ? CLAIM_OF_USER : CLAIM_OF_ALL;
    *ret_many = false;
    if (lock->hold_count <= 1) {
        return lock->hold_count == 0 ? NULL
                                     : find_sole(lock, user, owner, token);
    }
    struct place_key key = claims_key_of(lock, user != NULL ? user->number : 0,
                                         owner);
    struct claim *first = claims_first_of(fsm, &key);
    struct claim *claim = first;
    struct hold *found = NULL;
    for (int looks = 0; claim != NULL && looks < CLAIM_LOOK_MAX; looks++) {
        struct hold *hold = hold_of(claim, which);
        fsm->entry.steps++;
        if (has_token(hold, token)) {
            *ret_many = found != NULL;
            found = hold;
        }
        claim = next_of(claim) == first || *ret_many ? NULL : next_of(claim);
    }
    /* The remaining ones were not checked. */
    *ret_many |= claim != NULL;
    return *ret_many ? NULL : found;
}

bool claims_are_right(const struct lockfsm *fsm, const struct hold *hold)
{
    if (hold->claims == NULL || hold->mode == LOCK_EXCLUSIVE) {
        return hold->claims == NULL && hold->mode == LOCK_EXCLUSIVE;
    }
    for (int which = 0; which < CLAIM_COUNT; which++) {
        struct claim *claim = &hold->claims->of[which];
        struct place_key key = key_at(hold, which);
        const struct hold *before = hold_of(
            LIST_ENTRY(claim->ring.prev, struct claim, ring), which);
        if (is_first(claim) ? claims_first_of(fsm, &key) != claim
                            : before->lock != hold->lock ||
                                  before->serial >= hold->serial ||
                                  !bytes_equal(before->owner, hold->owner)) {
            return false;
        }
    }
    return true;
}
