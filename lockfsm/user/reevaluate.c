/* SPDX-License-Identifier: MIT */

/* Updates sessions after a change of the blacklist, of a user, or of a role:
 * waits that are no longer allowed end, waits that are allowed again are
 * checked for a grant, and an effect reports each session that becomes refused
 * or is no longer refused.
 *
 * If a change concerns more sessions than an entry may update, SWEEP visits all
 * of them in the order of their ids, from relist.at on. The change takes effect
 * for all of them at once: until SWEEP has visited a session, each check reads
 * the blacklist, the user and its roles (lockfsm_listed(), request_is_going()).
 * The effects, and the end of waits and of a durable session, come with SWEEP.
 */

#include <stdlib.h>

#include "base/minmax.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* The number of entries of the blacklist that can be compared with a session at
 * the cost of one place. */
#define ENTRIES_PER_PLACE 64

/* The cost, in places, of updating a session whose refusal has changed. */
static uint64_t cost_of_change(const struct lockfsm *fsm)
{
    return 1 + fsm->blacklist_count / ENTRIES_PER_PLACE;
}

/* --- One session ---------------------------------------------------------- */

static void reevaluate_tell(struct lockfsm *fsm, const struct session *session,
                            uint64_t was_index, bool was_disabled,
                            struct bytes reason)
{
    bool is_listed = session->blacklist_index != 0;
    struct bytes nothing = {NULL, 0};
    if (session->is_disabled && !was_disabled && !is_listed) {
        struct result result = {0};
        user_refuse(fsm, session->user, &result);
        session_tell_changed(fsm, session, "blacklisted",
                             effect_copy(fsm, result.text));
    } else if (is_listed && was_index == 0) {
        session_tell_changed(fsm, session, "blacklisted", reason);
    } else if (!is_listed &&
               (was_index != 0 || session->is_disabled != was_disabled)) {
        session_tell_changed(fsm, session, "pardoned", nothing);
    }
}

/* Sets the matching entry of the blacklist, 'hit' or NULL, and whether the user
 * is disabled; ends waits, and reports what has changed. */
static void reevaluate_update(struct lockfsm *fsm, struct session *session,
                              const struct blacklisting *hit)
{
    uint64_t was_index = session->blacklist_index;
    bool was_disabled = session->is_disabled;
    session->blacklist_index = hit != NULL ? hit->since_index : 0;
    session->is_disabled = session->user->is_disabled;
    /* A durable session has no lease that would run out (rule 18). */
    if (session->is_durable && hit != NULL) {
        session_end(fsm, session, SESSION_BLACKLISTED);
        return;
    }
    struct result listed = {0};
    if (hit != NULL) {
        blacklist_refuse(fsm, hit, &listed);
    }
    access_recheck_session(fsm, session, hit != NULL ? &listed : NULL);
    if (session->blacklist_index != was_index ||
        session->is_disabled != was_disabled) {
        record_changed(fsm, &session->stored);
        reevaluate_tell(fsm, session, was_index, was_disabled, listed.text);
    }
}

/* --- The sessions that a change concerns --------------------------------- */

struct relisting reevaluate_begin(const struct lockfsm *fsm)
{
    return (struct relisting){
        .looks_left = (uint64_t)fsm->slice * LOOKS_PER_PLACE,
        .room = u64_max(1, fsm->slice / cost_of_change(fsm))};
}

bool reevaluate_look(struct relisting *relisting, struct session *session,
                     bool is_concerned)
{
    if (relisting->looks_left == 0 ||
        (is_concerned && relisting->found.count == relisting->room)) {
        relisting->is_cut = true;
        return false;
    }
    relisting->looks_left--;
    if (is_concerned) {
        session_array_add(&relisting->found, session);
    }
    return true;
}

/* Has SWEEP visit all sessions, again if it is visiting them already. */
static void leave_to_sweep(struct lockfsm *fsm)
{
    if (fsm->relist.at == 0 && fsm->sessions != NULL) {
        fsm->relist.at = fsm->sessions->id;
        fsm->relist.since = fsm->entry.log_index;
    } else if (fsm->relist.at != 0 &&
               fsm->relist.since != fsm->entry.log_index &&
               fsm->relist.again == 0) {
        fsm->relist.again = fsm->entry.log_index;
    }
}

bool reevaluate_has_reached(const struct lockfsm *fsm,
                            const struct session *session)
{
    return fsm->relist.at == 0 ||
           (session->id < fsm->relist.at && fsm->relist.again == 0);
}

void reevaluate_end(struct lockfsm *fsm, struct relisting *relisting)
{
    struct session_array *found = &relisting->found;
    fsm->entry.steps += (uint64_t)fsm->slice * LOOKS_PER_PLACE -
                        relisting->looks_left;
    if (relisting->is_cut) {
        leave_to_sweep(fsm);
    } else {
        session_array_sort(found);
        for (uint32_t i = 0; i < found->count; i++) {
            struct session *session = found->session[i];
            reevaluate_update(fsm, session,
                              blacklist_hit(fsm, session->id, session->name));
        }
    }
    free(found->session);
}

/* --- All sessions --------------------------------------------------------- */

/* Updates the session at relist_at; returns the cost in places. */
static uint64_t reevaluate_one(struct lockfsm *fsm)
{
    uint64_t id = fsm->relist.at;
    uint64_t left = fsm->entry.slice_left;
    uint64_t cost = 0;
    struct session *session = session_find(fsm, id);
    const struct blacklisting *hit = lockfsm_listed(fsm, session);
    if (session->blacklist_index != (hit != NULL ? hit->since_index : 0) ||
        session->is_disabled != session->user->is_disabled ||
        session->wait_count > left) {
        cost = cost_of_change(fsm);
    }
    reevaluate_update(fsm, session, hit);
    if (fsm->relist.at == id) { /* It has not ended. */
        session_pass(fsm, session, false);
    }
    return cost + left - fsm->entry.slice_left;
}

uint64_t reevaluate_sweep(struct lockfsm *fsm, uint64_t places)
{
    uint64_t looks = places * LOOKS_PER_PLACE;
    while (fsm->relist.at != 0 && places > 0 && looks > 0) {
        places -= u64_min(reevaluate_one(fsm), places);
        fsm->entry.steps++;
        looks--;
    }
    return places;
}
