/* SPDX-License-Identifier: MIT */

/* Invariants of the state. A node checks a state after loading it. Tests check
 * it after every step, together with the changes that a step may make
 * (tests/unit/lockfsm_delta.h). */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"
#include "lockfsm/user/user.h"

/* --- Invariants ---------------------------------------------------------- */

/* True if the session may come from before a restore. Such a session is
 * durable, but a Redis value can get a lease later. */
static bool may_be_of_former_life(const struct session *session)
{
    return session->is_durable || session->is_redis;
}

static const char *check_break(const struct lockfsm *fsm,
                               const struct hold *hold)
{
    const struct hold_break *one = hold->breaks;
    if (hold->break_count == 0) {
        return one != NULL ? "half a break" : NULL;
    }
    if (hold->break_count > 1 || !hold->session->is_durable) {
        return "a break of a hold that has a lease";
    }
    if (one->since_index > fsm->applied_index || one->after_ms == 0 ||
        one->clock_ms > fsm->clock.ms) {
        return "a break from the future";
    }
    return NULL;
}

static const char *check_holds(const struct lockfsm *fsm,
                               const struct lock *lock)
{
    uint32_t count = 0;
    uint64_t serial = 0;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        count++;
        if (hold->lock != lock ||
            session_find_any(fsm, hold->session->id) != hold->session) {
            return "a hold without its lock or session";
        }
        if (hold_find(fsm, lock, hold->session->id, hold->owner) != hold) {
            return "a hold that is missing from the index";
        }
        if (!claims_are_right(fsm, hold)) {
            return "a hold that is missing from its owner's claims";
        }
        if (hold->mode != lock->mode) {
            return "a hold in another mode than its lock";
        }
        if (hold->count == 0) {
            return "a hold with a count of 0";
        }
        /* A token is derived from the index of its grant, so the tokens of a
         * lock only increase; tokens of an earlier epoch are below the base
         * (rule 21). */
        if (hold->token > lock->last_token ||
            (hold->token <= fsm->epoch.token_base
                 ? !may_be_of_former_life(hold->session)
                 : hold->token !=
                       fsm->epoch.token_base + hold->granted_index) ||
            hold->granted_index > fsm->applied_index) {
            return "a token out of its range";
        }
        if (hold->first_token == 0 || hold->first_token > hold->token) {
            return "a hold whose first token is later than its token";
        }
        if (is_quarantined(fsm) && !may_be_of_former_life(hold->session)) {
            return "a hold in quarantine";
        }
        const char *wrong = check_break(fsm, hold);
        if (wrong != NULL) {
            return wrong;
        }
        if (hold->serial <= serial || hold->serial > fsm->next_serial) {
            return "holds out of order";
        }
        if (hold->hold_clock_ms > span_clock(fsm, hold->hold_ms)) {
            return "a hold granted in the future";
        }
        serial = hold->serial;
    }
    if (count != lock->hold_count) {
        return "a wrong count of holds";
    }
    if (count > 1 && lock->mode == LOCK_EXCLUSIVE) {
        return "two exclusive holds";
    }
    if (count > 0 && lock->mode == LOCK_SLOTS &&
        (uint64_t)count + lock->delay_slots > lock->slots) {
        return "more holds than slots";
    }
    return NULL;
}

static const char *invariants_check_wait(const struct lockfsm *fsm,
                                         const struct wait *wait)
{
    const struct hold *own = hold_find(fsm, wait->lock, wait->session->id,
                                       wait->owner);
    if (session_find_any(fsm, wait->session->id) != wait->session ||
        lock_find(fsm, wait->lock->name) != wait->lock) {
        return "a wait without its lock or session";
    }
    if (wait_find(fsm, wait->lock, wait->session->id, wait->owner) != wait) {
        return "a wait that is missing from the index";
    }
    if (wait->waiter == NULL ||
        waiter_find(fsm, wait->session->id, wait->owner) != wait->waiter) {
        return "a wait without its waiter";
    }
    if (wait->is_upgrade && (own == NULL || own->mode != LOCK_SHARED)) {
        return "an upgrade without a shared hold";
    }
    if (!wait->is_upgrade && own != NULL && !hold_covers(own, wait->mode)) {
        return "a wait for a lock that its owner holds";
    }
    if (wait->mode == LOCK_SLOTS && wait->slots != wait->lock->slots) {
        return "a wait with a number of slots other than the lock's";
    }
    bool is_going = request_is_going(fsm, wait);
    /* A wait that SWEEP has yet to end is exempt (request_is_going()). */
    if (!is_going && session_is_refused(fsm, wait->session)) {
        return "a wait of a session that is refused";
    }
    if (!is_going && !wait_is_allowed(fsm, wait)) {
        return "a wait without the right to it";
    }
    if (wait->wait_index > wait->asked_index ||
        wait->asked_index > fsm->applied_index ||
        wait->wait_clock_ms > span_clock(fsm, wait->wait_ms)) {
        return "a wait from the future";
    }
    return NULL;
}

/* True if SWEEP has yet to reach the request at one of its locks. */
static bool has_cut(const struct wait *wait)
{
    REQUEST_EACH (const struct wait, member, wait) {
        const struct lock *lock = member->lock;
        if (lock->cut_serial != 0 &&
            (lock->cut_again || lock->cut_at == 0 ||
             (!member->is_upgrade && member->serial >= lock->cut_at))) {
            return true;
        }
    }
    return false;
}

/* True if SWEEP's position is the wait in the lock's record. */
static bool cut_is_right(const struct lock *lock)
{
    if (lock->cut_serial == 0 || lock->cut_at == 0) {
        return lock->cut_at == 0 && !lock->cut_again && lock->cut_wait == NULL;
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (!wait->is_upgrade && wait->serial >= lock->cut_at) {
            return lock->cut_wait == wait;
        }
    }
    return false;
}

/* True if the waits of each mode are in its list in the order of the queue, and
 * the waits for slots have the right edge. */
static bool modes_are_right(const struct lock *lock)
{
    const struct list *at[3];
    uint32_t rank = 0;
    for (int mode = LOCK_EXCLUSIVE; mode <= LOCK_SLOTS; mode++) {
        at[mode] = lock->waits_of[mode].next;
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (at[wait->mode] != &wait->in_mode) {
            return false;
        }
        at[wait->mode] = at[wait->mode]->next;
        /* The edge's rank is the number of waits for slots ahead of it. */
        if (wait == lock->slot_edge && rank != lock->slot_rank) {
            return false;
        }
        rank += wait->mode == LOCK_SLOTS;
    }
    for (int mode = LOCK_EXCLUSIVE; mode <= LOCK_SLOTS; mode++) {
        if (at[mode] != &lock->waits_of[mode]) {
            return false;
        }
    }
    return lock->slot_edge != NULL || lock->slot_rank == rank;
}

static const char *check_queue(const struct lockfsm *fsm,
                               const struct lock *lock)
{
    uint32_t count = 0;
    uint32_t waits_by_mode[3] = {0};
    uint64_t last_index = 0;
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        count++;
        waits_by_mode[wait->mode]++;
        const char *wrong = invariants_check_wait(fsm, wait);
        if (wrong != NULL) {
            return wrong;
        }
        /* Two waiting upgrades of one lock would be a deadlock, so there is at
         * most one, at the head. */
        if (wait->is_upgrade && count > 1) {
            return "an upgrade after the head of the queue";
        }
        if (!wait->is_upgrade && wait->wait_index <= last_index) {
            return "a queue out of order";
        }
        last_index = wait->is_upgrade ? 0 : wait->wait_index;
        uint64_t looks;
        if (request_is_free(fsm, wait, &looks) && !has_cut(wait) &&
            lockfsm_is_rechecked(fsm, wait->session)) {
            return "a wait that could be granted";
        }
    }
    if (count != lock->wait_count ||
        memcmp(waits_by_mode, lock->waits_by_mode, sizeof waits_by_mode) != 0) {
        return "a wrong count of waits";
    }
    return modes_are_right(lock) ? NULL
                                 : "a wait that is not in its mode's list";
}

static const char *invariants_check_lock(const struct lockfsm *fsm,
                                         const struct lock *lock)
{
    if (lock->hold_count == 0 && lock->wait_count == 0 && lock->delay_ms == 0 &&
        (!has_payer(&lock->stored) || lock->slots != 0)) {
        return "a lock without hold, wait or delay";
    }
    /* The entry that touched a lock has granted it, or has left it to SWEEP:
     * nothing else would grant it later. */
    if (lock->is_touched) {
        return "a lock that was not settled";
    }
    if (lock->id > fsm->next_serial || lock->cut_serial > fsm->next_serial) {
        return "a lock from the future";
    }
    if (lock->last_token > fsm->epoch.token_base + fsm->applied_index) {
        return "a lock whose last token was never granted";
    }
    if (list_is_empty(&lock->in_cut) != (lock->cut_serial == 0)) {
        return "a lock whose granting was cut off, unknown to SWEEP";
    }
    if (!cut_is_right(lock)) {
        return "a lock whose granting continues at a wrong wait";
    }
    if ((lock->delay_ms == 0) != (lock->delay_index == 0) ||
        (lock->delay_ms == 0 && lock->delay_slots != 0)) {
        return "half a delay";
    }
    if (!payers_are_right(&lock->stored)) {
        return "a note or delay without its user";
    }
    if (lock->delay_clock_ms > span_clock(fsm, lock->delay_ms)) {
        return "a delay from the future";
    }
    const char *wrong = check_holds(fsm, lock);
    return wrong != NULL ? wrong : check_queue(fsm, lock);
}

static const char *check_waiter(const struct lockfsm *fsm,
                                const struct waiter *waiter)
{
    uint32_t count = 0;
    LIST_FOR (struct wait, one, &waiter->waits, in_asker) {
        count++;
        if (one->waiter != waiter) {
            return "a wait of another waiter";
        }
    }
    if (count != waiter->wait_count) {
        return "a wrong count of a waiter's waits";
    }
    if (count == 0) {
        return "a waiter without waits";
    }
    uint64_t serial = 0;
    count = 0;
    LIST_FOR (const struct kept_result, kept, &waiter->waiting, in_order) {
        count++;
        if (kept->waiter != waiter || kept->wait_index == 0 ||
            result_cache_find(fsm, waiter->session->id, kept->req) != kept ||
            request_find(fsm, kept->wait_index, waiter->session->id,
                         waiter->owner) == NULL) {
            return "a waiting request without a wait";
        }
        /* All nodes have this list in the order of the serials. */
        if (kept->serial <= serial || kept->serial > fsm->next_serial) {
            return "waiting requests out of order";
        }
        serial = kept->serial;
    }
    if (count != waiter->waiting_count || count > WAITING_COUNT_MAX) {
        return "a wrong count of waiting requests";
    }
    return NULL;
}

static const char *invariants_check_mark(const struct lockfsm *fsm,
                                         const struct session *session)
{
    if (session->is_durable && session->mark_index != 0) {
        return "a mark of a durable session";
    }
    uint64_t opened_index = session->id > fsm->epoch.token_base
                                ? session->id - fsm->epoch.token_base
                                : 0;
    if (session->heard_index < opened_index ||
        session->heard_index > fsm->applied_index) {
        return "a session with an impossible heard_index";
    }
    if (session->mark_index == 0) {
        return session->mark_quiet_ms != 0 || session->mark_clock_ms != 0
                   ? "half a mark"
                   : NULL;
    }
    /* A mark binds only until a later HEARD (rule 15), which removes it. */
    if (session->mark_index <= session->heard_index ||
        session->mark_index > fsm->clock.index ||
        session->mark_quiet_ms > session->ttl_ms ||
        session->mark_clock_ms > fsm->clock.ms) {
        return "a mark out of its range";
    }
    return NULL;
}

static const char *invariants_check_numbers(const struct lockfsm *fsm,
                                            const struct numbers *numbers)
{
    uint64_t serial = 0;
    uint32_t count = 0;
    if (numbers->spent_count == 0 || numbers->spent_count > SPENT_RANGE_MAX ||
        numbers->spent[0] == 0) {
        return "no spent numbers, or too many ranges";
    }
    for (uint32_t i = 0; i < numbers->spent_count; i++) {
        const uint64_t *range = &numbers->spent[2 * i];
        /* Ranges that touch are joined, so an unused number lies between
         * two. */
        if (range[0] > range[1] || (i > 0 && range[0] - 2 < range[-1])) {
            return "ranges of spent numbers out of order";
        }
    }
    LIST_FOR (const struct kept_result, kept, &numbers->answered, in_order) {
        count++;
        if (kept->waiter != NULL || kept->wait_index != 0 ||
            result_cache_find(fsm, numbers->session->id, kept->req) != kept ||
            !request_ids_has(numbers, kept->req)) {
            return "a stored result that should have been dropped";
        }
        if (kept->serial <= serial || kept->serial > fsm->next_serial) {
            return "results out of order";
        }
        serial = kept->serial;
    }
    return count != numbers->answered_count || count > ANSWERED_COUNT_MAX
               ? "a wrong count of results"
               : NULL;
}

/* Checks an ended session that left something to SWEEP. */
static const char *check_end(const struct lockfsm *fsm,
                             const struct session *session)
{
    if (session->is_redis || session->end > SESSION_DIED) {
        return "a Redis session that ended in part";
    }
    if (session->blacklist_index != 0 || !list_is_empty(&session->in_durable)) {
        return "a session that has ended and is still in the sets";
    }
    if (list_is_empty(&session->in_swept) || session->recheck_serial != 0 ||
        session_find(fsm, session->id) != NULL) {
        return "an ended session that can be found";
    }
    return session->end_serial == 0 || session->end_serial > fsm->next_serial
               ? "an end from the future"
               : NULL;
}

static const char *check_swept(const struct lockfsm *fsm)
{
    uint64_t count = 0, last = 0;
    LIST_FOR (const struct session, session, &fsm->left.to_sweep, in_swept) {
        /* SWEEP follows this order: all nodes must have the same. */
        if (session->end == SESSION_LIVES || session->end_serial <= last) {
            return "ends of sessions out of order";
        }
        last = session->end_serial;
        count++;
    }
    if (count != HASH_CNT(by_id, fsm->left.swept)) {
        return "an ended session that SWEEP does not know";
    }
    last = 0;
    LIST_FOR (const struct session, session, &fsm->left.to_recheck,
              in_recheck) {
        if (session->recheck_serial <= last ||
            session->recheck_serial > fsm->next_serial) {
            return "sessions to be rechecked out of order";
        }
        last = session->recheck_serial;
    }
    return NULL;
}

/* True if SWEEP's position is the first wait that it has yet to check. */
static bool recheck_is_right(const struct session *session)
{
    LIST_FOR (const struct wait, wait, &session->waits, in_session) {
        if (session->recheck_serial != 0 &&
            wait->serial >= session->recheck_from) {
            return session->recheck_at == wait;
        }
    }
    return session->recheck_at == NULL;
}

/* Checks the refusals of a live session. */
static const char *check_refusal(const struct lockfsm *fsm,
                                 const struct session *session)
{
    const struct blacklisting *hit = blacklist_hit(fsm, session->id,
                                                   session->name);
    uint64_t index = hit != NULL ? hit->since_index : 0;
    if (reevaluate_has_reached(fsm, session) &&
        session->blacklist_index != index) {
        return "a session with a wrong blacklist_index";
    }
    if (reevaluate_has_reached(fsm, session) &&
        session->is_disabled != session->user->is_disabled) {
        return "a session with a wrong is_disabled";
    }
    if (lockfsm_listed(fsm, session) != hit) {
        return "a session whose refusal has no reason, or the reverse";
    }
    return NULL;
}

/* Notices are in the order of their numbers, after the dropped ones. */
static const char *check_notices(const struct lockfsm *fsm,
                                 const struct session *session)
{
    uint64_t number = session->dropped_number;
    uint64_t last = fsm->epoch.token_base + fsm->applied_index;
    uint32_t count = 0;
    LIST_FOR (const struct ended_hold, ended, &session->ended, in_session) {
        if (ended->number < number || ended->first_token > ended->token ||
            ended->token > ended->number) {
            return "a notice out of order";
        }
        number = ended->number;
        count++;
    }
    if (count != session->ended_count || count > ENDED_COUNT_MAX) {
        return "a wrong count of notices";
    }
    return number > last && !may_be_of_former_life(session)
               ? "a notice from the future"
               : NULL;
}

static const char *invariants_check_session(const struct lockfsm *fsm,
                                            const struct session *session)
{
    uint32_t hold_count = 0;
    uint32_t wait_count = 0;
    uint32_t asker_count = 0;
    uint32_t result_count = 0;
    LIST_FOR (struct hold, hold, &session->holds, in_session) {
        hold_count += hold->session == session &&
                      treap_has(&session->hold_order, &hold->in_order);
    }
    LIST_FOR (struct wait, wait, &session->waits, in_session) {
        wait_count += wait->session == session;
    }
    LIST_FOR (const struct waiter, waiter, &session->waiters, in_session) {
        const char *wrong = check_waiter(fsm, waiter);
        if (wrong != NULL) {
            return wrong;
        }
        asker_count++;
        result_count += waiter->waiting_count;
    }
    if (session->numbers != NULL) {
        const char *wrong = invariants_check_numbers(fsm, session->numbers);
        if (wrong != NULL) {
            return wrong;
        }
        result_count += session->numbers->answered_count;
    }
    if (hold_count != session->hold_count ||
        session->hold_order.count != hold_count ||
        wait_count != session->wait_count ||
        asker_count != session->asker_count ||
        result_count != session->result_count) {
        return "a wrong count in a session";
    }
    if ((session->id <= fsm->epoch.token_base &&
         !may_be_of_former_life(session)) ||
        session->id > fsm->epoch.token_base + fsm->applied_index) {
        return "a session id out of its range";
    }
    /* Rule 18: a durable session has no lease, and blacklisting ends it at
     * once. */
    if (session->is_durable != (session->ttl_ms == 0) ||
        (session->is_durable &&
         (session->linger_ms != 0 || session->blacklist_index != 0))) {
        return "a durable session with a lease";
    }
    if (session->is_redis && session->hold_count == 0) {
        return "a Redis session without a value";
    }
    if (lockfsm_user(fsm, session->user_number) != session->user) {
        return "a session without a user";
    }
    const char *wrong = check_notices(fsm, session);
    if (wrong == NULL) {
        wrong = invariants_check_mark(fsm, session);
    }
    if (wrong != NULL) {
        return wrong;
    }
    if (list_is_empty(&session->in_recheck) != (session->recheck_serial == 0) ||
        (session->recheck_serial == 0 && session->recheck_from != 0) ||
        !recheck_is_right(session)) {
        return "forbidden waits that SWEEP does not know";
    }
    if (session->end != SESSION_LIVES) {
        return check_end(fsm, session);
    }
    return check_refusal(fsm, session);
}

/* The bytes of a lock that count for LIMIT_STATE_SIZE. */
static uint64_t size_of_lock(const struct lock *lock)
{
    uint64_t size = structure_size(&lock->stored) + lock->name.size;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        size += structure_size(&hold->stored) + hold->owner.size;
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        size += structure_size(&wait->stored) + wait->owner.size;
    }
    return size;
}

static uint64_t size_of_users(const struct lockfsm *fsm)
{
    uint64_t size = 0;
    HASH_FOR (const struct user, user, fsm->access.users, by_name) {
        size += structure_size(&user->stored) + user->name.size;
    }
    HASH_FOR (const struct role, role, fsm->access.roles, by_name) {
        size += structure_size(&role->stored) + role->name.size;
    }
    HASH_FOR (const struct revocation, one, fsm->access.revocations,
              by_fingerprint) {
        size += structure_size(&one->stored);
    }
    return size;
}

static const char *invariants_check_size(const struct lockfsm *fsm)
{
    uint64_t size = size_of_users(fsm);
    LIST_FOR (const struct member, member, &fsm->members.list, in_order) {
        size += structure_size(&member->stored);
    }
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        size += size_of_lock(lock);
    }
    SESSION_EACH (const struct session, session, fsm) {
        size += session_bytes(session);
    }
    HASH_FOR (const struct fence, fence, fsm->fences, by_resource) {
        size += structure_size(&fence->stored) + fence->resource.size;
    }
    LIST_FOR (const struct blacklisting, entry, &fsm->blacklist, in_order) {
        size += structure_size(&entry->stored);
    }
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        size += structure_size(&cell->stored) + cell->prefix.size;
    }
    return size != lockfsm_limit_use(fsm, LIMIT_STATE_SIZE)
               ? "a wrong size of the state"
               : NULL;
}

static bool waits_are_by_age(const struct lockfsm *fsm)
{
    uint64_t count = 0, last = 0;
    LIST_EACH (node, &fsm->waits) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_state);
        if (wait->wait_index < last) {
            return false;
        }
        last = wait->wait_index;
        count++;
    }
    return count == fsm->uses.waits;
}

/* Checks the limits and their running counts. Every hold and wait of a lock is
 * one of a session, and vice versa: the lists were walked from both sides, so
 * equal sums suffice. */
static const char *check_uses(const struct lockfsm *fsm)
{
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (!limit_allows((enum limit_key)key, fsm->limits.of[key])) {
            return "a limit out of its range";
        }
    }
    uint64_t holds = 0, session_holds = 0;
    uint64_t waits = 0, session_waits = 0;
    uint64_t of_lock = 0, of_session = 0;
    uint64_t places = 0, owners = 0;
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        holds += lock->hold_count;
        waits += lock->wait_count;
        of_lock = u64_max(of_lock, lock->wait_count);
    }
    SESSION_EACH (const struct session, session, fsm) {
        session_holds += session->hold_count;
        session_waits += session->wait_count;
        of_session = u64_max(of_session, session->wait_count);
        places = u64_max(places, session_places(session));
        owners = u64_max(owners, session->asker_count);
    }
    if (holds != session_holds || waits != session_waits) {
        return "locks and sessions disagree";
    }
    if (!waits_are_by_age(fsm) || holds != fsm->uses.holds) {
        return "a wrong list of waits, or a wrong count of holds";
    }
    /* Limits are checked against these running counts, not by counting
     * again. */
    if (waits != fsm->uses.waits ||
        of_lock != fsm->uses.waits_of_lock.highest ||
        of_session != fsm->uses.waits_of_session.highest ||
        places != fsm->uses.places_of_session.highest ||
        owners != fsm->uses.owners_of_session.highest) {
        return "a wrong use of a limit";
    }
    return NULL;
}

/* True if all held tokens of earlier epochs are registered. */
static bool former_tokens_are_right(const struct lockfsm *fsm)
{
    uint64_t known = 0;
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
            bool is_former = hold_is_former(fsm, hold);
            if (is_former && former_count(fsm, hold->token) == 0) {
                return false;
            }
            known += is_former;
        }
    }
    return known == former_sum(fsm);
}

static const char *check_clock(const struct lockfsm *fsm)
{
    if (fsm->clock.index > fsm->applied_index ||
        fsm->clock.begin_count > BEGIN_MARK_MAX) {
        return "a clock from the future";
    }
    for (uint32_t i = 0; i < fsm->clock.begin_count; i++) {
        const struct begin_mark *begin = &fsm->clock.begins[i];
        /* K never goes back, so neither do the BEGINs that advanced it. */
        bool has_next = i + 1 < fsm->clock.begin_count;
        if (begin->log_index >=
                (has_next ? begin[1].log_index : fsm->clock.index + 1) ||
            begin->clock_ms > (has_next ? begin[1].since_ms : fsm->clock.ms) ||
            begin->since_ms > begin->clock_ms) {
            return "BEGINs out of order";
        }
    }
    LIST_FOR (const struct blacklisting, entry, &fsm->blacklist, in_order) {
        if (entry->clock_ms > span_clock(fsm, entry->for_ms)) {
            return "a blacklisting from the future";
        }
    }
    if ((fsm->relist.at != 0 && session_find(fsm, fsm->relist.at) == NULL) ||
        (fsm->relist.at == 0) != (fsm->relist.since == 0) ||
        (fsm->relist.again != 0 && fsm->relist.again <= fsm->relist.since) ||
        u64_max(fsm->relist.since, fsm->relist.again) > fsm->applied_index) {
        return "a reevaluation that skips sessions";
    }
    return fsm->epoch.quarantine_clock_ms >
                   span_clock(fsm, fsm->epoch.quarantine_ms)
               ? "a quarantine from the future"
               : NULL;
}

static const char *invariants_check_user(const struct lockfsm *fsm,
                                         const struct user *user)
{
    uint32_t count = 0;
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        count++;
        if (secret->user != user ||
            lockfsm_secret(fsm, secret->hash) != secret) {
            return "a secret of another user";
        }
    }
    for (uint32_t i = 0; i < user->role_count; i++) {
        if (lockfsm_role(fsm, user->roles[i].name) == NULL) {
            return "a user with an unknown role";
        }
    }
    if (count != user->secret_count || (user->number == 0 && count > 0) ||
        user->bound_count != QUOTA_COUNT ||
        (user->number != 0 && lockfsm_user(fsm, user->number) != user)) {
        return "a removed user with properties, or the reverse";
    }
    return NULL;
}

static const char *check_users(const struct lockfsm *fsm)
{
    uint64_t secrets = 0, roles = 0, counted = fsm->access.admin.user_count;
    HASH_FOR (const struct role, role, fsm->access.roles, by_name) {
        counted += role->user_count;
    }
    HASH_FOR (const struct user, user, fsm->access.users, by_name) {
        const char *wrong = invariants_check_user(fsm, user);
        if (wrong != NULL) {
            return wrong;
        }
        secrets += user->secret_count;
        roles += user->role_count;
    }
    /* The count protects a role from removal while users have it. */
    if (roles != counted) {
        return "a wrong count of a role's users";
    }
    if (secrets != HASH_CNT(by_hash, fsm->access.secrets)) {
        return "users and secrets disagree";
    }
    if (!quota_is_right(fsm)) {
        return "a wrong use of a user's quota";
    }
    return fsm->access.local.is_disabled ? "the local user is disabled" : NULL;
}

#ifdef HASP_CHECK_SLOW
static bool is_in_order(const struct lockfsm *fsm)
{
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        if (!treap_has(&fsm->lock_order, &lock->in_order)) {
            return false;
        }
    }
    HASH_FOR (const struct session, session, fsm->sessions, by_id) {
        if (!treap_has(&fsm->session_order, &session->in_order) ||
            !treap_has(&session->user->sessions, &session->in_user)) {
            return false;
        }
    }
    return true;
}
#else
static bool is_in_order(const struct lockfsm *fsm)
{
    (void)fsm;
    /* Skipped in release builds: a node that starts with a million locks must
     * not wait for this. */
    return true;
}
#endif

/* The ordered sets contain exactly the members of the tables. */
static const char *check_orders(const struct lockfsm *fsm)
{
    bool is_complete = fsm->lock_order.count == HASH_CNT(by_name, fsm->locks) &&
                       fsm->session_order.count ==
                           HASH_CNT(by_id, fsm->sessions) &&
                       fsm->fence_order.count ==
                           HASH_CNT(by_resource, fsm->fences) &&
                       fsm->access.user_order.count ==
                           HASH_CNT(by_name, fsm->access.users) &&
                       fsm->access.role_order.count ==
                           HASH_CNT(by_name, fsm->access.roles) &&
                       fsm->access.revocation_order.count ==
                           HASH_CNT(by_fingerprint, fsm->access.revocations);
    return is_complete && is_in_order(fsm)
               ? NULL
               : "a structure is missing from its ordered set";
}

/* What a cell has given away, or never had, is empty: so nothing is left that
 * the next owner could grant again. */
static const char *check_cells(const struct lockfsm *fsm)
{
    const struct cell *before = NULL;
    uint32_t count = 0;
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        if ((before != NULL &&
             bytes_compare(before->prefix, cell->prefix) >= 0) ||
            cell->epoch > fsm->cells.epoch) {
            return "a row of the map of cells out of its order";
        }
        before = cell;
        count++;
    }
    if (count != fsm->cells.count || count > CELL_COUNT_MAX ||
        (fsm->cells.is_doubtful && count == 0)) {
        return "a wrong count of cells";
    }
    if (count == 0) {
        return NULL;
    }
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        const struct cell *cell = lockfsm_cell_of(fsm, lock->name);
        if (cell != NULL && !cell->is_own) {
            return "a lock under a prefix of another cell";
        }
    }
    HASH_FOR (const struct fence, fence, fsm->fences, by_resource) {
        const struct cell *cell = lockfsm_cell_of(fsm, fence->resource);
        if (cell != NULL && !cell->is_own) {
            return "a fence under a prefix of another cell";
        }
    }
    return NULL;
}

static const char *invariants_check_members(const struct lockfsm *fsm)
{
    uint32_t count = 0, removed = 0;
    LIST_FOR (const struct member, member, &fsm->members.list, in_order) {
        count += member->incarnation != 0;
        removed += member->incarnation == 0;
    }
    return count == fsm->members.count &&
                   removed == fsm->members.removed_count &&
                   removed <= REMOVED_COUNT_MAX
               ? NULL
               : "a wrong count of members";
}

const char *lockfsm_check_basic(const struct lockfsm *fsm)
{
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        const char *wrong = invariants_check_lock(fsm, lock);
        if (wrong != NULL) {
            return wrong;
        }
    }
    SESSION_EACH (const struct session, session, fsm) {
        const char *wrong = invariants_check_session(fsm, session);
        if (wrong != NULL) {
            return wrong;
        }
    }
    HASH_FOR (const struct fence, fence, fsm->fences, by_resource) {
        /* A token that nobody was granted would lock all later holders out of
         * the resource. */
        if (!fence_may_have(fence->token,
                            fsm->epoch.token_base + fsm->applied_index)) {
            return "a fence has admitted a token that was never granted";
        }
    }
    if (!list_is_empty(&fsm->settle.touched) ||
        !list_is_empty(&fsm->settle.unbacked) || fsm->settle.emptied != NULL) {
        return "a touched lock was not settled";
    }
    if (!former_tokens_are_right(fsm)) {
        return "a held token of an earlier epoch that is not registered";
    }
    const char *wrong = check_swept(fsm);
    wrong = wrong != NULL ? wrong : check_clock(fsm);
    wrong = wrong != NULL ? wrong : audit_check(fsm);
    wrong = wrong != NULL ? wrong : check_uses(fsm);
    wrong = wrong != NULL ? wrong : check_users(fsm);
    wrong = wrong != NULL ? wrong : check_orders(fsm);
    wrong = wrong != NULL ? wrong : invariants_check_members(fsm);
    wrong = wrong != NULL ? wrong : check_cells(fsm);
    return wrong != NULL ? wrong : invariants_check_size(fsm);
}
