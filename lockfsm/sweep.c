/* SPDX-License-Identifier: MIT */

/* The work that an entry leaves undone so that no entry blocks the loop for
 * long. finish_entry.c has another part: grants to very many waiters, and the
 * grants that a quarantine has put off. Waits that are no longer allowed
 * (blacklisting, withdrawal) are found and ended here, too, if one entry has
 * made very many of them; they are granted nothing until then. reevaluate.c
 * updates very many sessions after a change of the blacklist, a user or a role.
 *
 * A session that ends with more than the entry may remove (lockfsm.slice) can
 * no longer be found, and is never granted anything. Its holds and its places
 * in queues remain until SWEEP removes them: so nothing is granted twice, and
 * at worst a waiter waits some milliseconds longer. SWEEP visits the sessions
 * in the order of their ends, and removes first the waits and then the holds of
 * each, in the order of their serials. */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

bool lockfsm_has_left_over(const struct lockfsm *fsm, uint32_t *ret_places)
{
    *ret_places = fsm->slice;
    return !list_is_empty(&fsm->left.to_sweep) ||
           (!list_is_empty(&fsm->left.cut) && !is_quarantined(fsm)) ||
           !list_is_empty(&fsm->left.to_recheck) || fsm->relist.at != 0;
}

void sweep_cut(struct lockfsm *fsm)
{
    uint64_t left = is_quarantined(fsm) ? 0 : fsm->entry.grants_left;
    fsm->entry.goes_on = true;
    LIST_FOR (struct lock, lock, &fsm->left.cut, in_cut) {
        if (left-- == 0) {
            return;
        }
        lock_list_touched(fsm, lock);
    }
}

/* Ends waits that are no longer allowed; returns how many of the 'left' places
 * remain. */
static uint64_t sweep_recheck(struct lockfsm *fsm, uint64_t left,
                              uint64_t *ret_count)
{
    while (left > 0 && !list_is_empty(&fsm->left.to_recheck)) {
        struct session *session = LIST_FIRST(&fsm->left.to_recheck,
                                             struct session, in_recheck);
        struct result listed = {0};
        bool is_listed = blacklist_refuses(fsm, session, &listed);
        uint32_t before = session->wait_count;
        uint64_t looks;
        if (access_recheck(fsm, session, is_listed ? &listed : NULL,
                           left * LOOKS_PER_PLACE, &looks)) {
            session_set_recheck(fsm, session, false);
        }
        *ret_count += before - session->wait_count;
        left -= u64_min(1 + looks / LOOKS_PER_PLACE, left);
    }
    return left;
}

void apply_sweep(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    uint64_t left = command->sweep->places;
    fsm->entry.grants_left = left;
    fsm->entry.looks_left = left * LOOKS_PER_PLACE;
    sweep_cut(fsm);
    left = reevaluate_sweep(fsm, left);
    left = sweep_recheck(fsm, left, &result->count);
    while (left > 0 && !list_is_empty(&fsm->left.to_sweep)) {
        struct session *session = LIST_FIRST(&fsm->left.to_sweep,
                                             struct session, in_swept);
        uint64_t taken = session_sweep(fsm, session, left);
        CHECK(taken > 0 || session_places(session) ==
                               0); /* Otherwise SWEEP would never finish. */
        result->count += taken;
        if (session_places(session) == 0) {
            taken += session->result_count;
            session_free(fsm, session);
        }
        left -= u64_min(taken, left);
    }
    effect_add(fsm, EFFECT_SWEPT);
}
