/* SPDX-License-Identifier: MIT */

/* What one entry does not do at once, so that no entry keeps the loop for long.
 * finish_entry.c has the other half, hand-overs to very many, and those at
 * which nobody was granted anything in a quarantine. Waits that may not stand
 * any more (blacklisting, withdrawal) are found and ended here, too, where one
 * entry has made very many of them; they are granted nothing until then.
 * reevaluate.c has very many sessions that are brought up to date with who is
 * refused what.
 *
 * A session that ends with more than the entry may take away (lockfsm.slice) is
 * gone at once for whoever looks for it, and is never granted anything. What it
 * holds stays held, and its places in queues stay taken, until SWEEP comes to
 * them: so nothing is granted twice, and at worst somebody waits for some
 * milliseconds more. SWEEP takes the sessions in the order of their ends, of
 * each the waits before the holds, each in the order of their serials. */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

bool lockfsm_has_left_over(const struct lockfsm *fsm, uint32_t *ret_places)
{
    *ret_places = fsm->slice;
    return !list_is_empty(&fsm->to_sweep) ||
           (!list_is_empty(&fsm->cut) && !is_quarantined(fsm)) ||
           !list_is_empty(&fsm->to_recheck) || fsm->relist_at != 0;
}

void sweep_cut(struct lockfsm *fsm)
{
    uint64_t left = is_quarantined(fsm) ? 0 : fsm->grants_left;
    fsm->goes_on = true;
    LIST_FOR (struct lock, lock, &fsm->cut, in_cut) {
        if (left-- == 0) {
            return;
        }
        lock_list_touched(fsm, lock);
    }
}

/* Ends waits that may not stand any more; returns how many of the 'left' places
 * remain. */
static uint64_t sweep_recheck(struct lockfsm *fsm, uint64_t left,
                              uint64_t *ret_count)
{
    while (left > 0 && !list_is_empty(&fsm->to_recheck)) {
        struct session *session = LIST_FIRST(&fsm->to_recheck, struct session,
                                             in_recheck);
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
    fsm->grants_left = left;
    fsm->looks_left = left * LOOKS_PER_PLACE;
    sweep_cut(fsm);
    left = reevaluate_sweep(fsm, left);
    left = sweep_recheck(fsm, left, &result->count);
    while (left > 0 && !list_is_empty(&fsm->to_sweep)) {
        struct session *session = LIST_FIRST(&fsm->to_sweep, struct session,
                                             in_swept);
        uint64_t taken = session_sweep(fsm, session, left);
        CHECK(taken > 0 || session_places(session) == 0); /* Else no end. */
        result->count += taken;
        if (session_places(session) == 0) {
            taken += session->result_count;
            session_free(fsm, session);
        }
        left -= u64_min(taken, left);
    }
    effect_add(fsm, EFFECT_SWEPT);
}
