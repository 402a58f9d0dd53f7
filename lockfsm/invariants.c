/* SPDX-License-Identifier: MIT */

/* The checkers of lockfsm.h: what is true of any state, what is true between
 * two of them, and the hash by which replicas are compared. A node checks a
 * state when it has loaded it; tests do so after every step. */

#include "lockfsm/records.h"

#include <stdlib.h>

#include "base/memory.h"

/* --- What is true of any state -------------------------------------------- */

static const char *check_holds(const struct lockfsm *fsm,
                               const struct lock *lock)
{
    uint32_t count = 0;
    uint64_t serial = 0;
    LIST_EACH (node, &lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        count++;
        if (hold->lock != lock ||
            session_find(fsm, hold->session->id) != hold->session) {
            return "a hold without its lock or session";
        }
        if (hold_find(fsm, lock, hold->session->id, hold->owner) != hold) {
            return "a hold that the index does not know";
        }
        if (hold->mode != lock->mode) {
            return "a hold in another mode than its lock";
        }
        if (hold->count == 0) {
            return "a hold that is not held";
        }
        if (hold->token <= fsm->token_base || hold->token > lock->last_token ||
            hold->token != fsm->token_base + hold->granted_index ||
            hold->granted_index > fsm->applied_index) {
            return "a token out of its range";
        }
        if (hold->serial <= serial || hold->serial > fsm->next_serial) {
            return "holds out of order";
        }
        if (hold->hold_clock_ms > span_clock(fsm, hold->hold_ms)) {
            return "a hold that begins in the future";
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

static const char *check_wait(const struct lockfsm *fsm,
                              const struct wait *wait)
{
    const struct hold *own = hold_find(fsm, wait->lock, wait->session->id,
                                       wait->owner);
    if (session_find(fsm, wait->session->id) != wait->session ||
        lock_find(fsm, wait->lock->name) != wait->lock) {
        return "a wait without its lock or session";
    }
    if (wait_find(fsm, wait->lock, wait->session->id, wait->owner) != wait) {
        return "a wait that the index does not know";
    }
    if (wait->asker == NULL ||
        asker_find(fsm, wait->session->id, wait->owner) != wait->asker) {
        return "a wait without its asker";
    }
    if (wait->is_upgrade && (own == NULL || own->mode != LOCK_SHARED)) {
        return "an upgrade without a shared hold";
    }
    if (!wait->is_upgrade && own != NULL && !hold_covers(own, wait->mode)) {
        return "a wait for its own owner";
    }
    if (wait->mode == LOCK_SLOTS && wait->slots != wait->lock->slots) {
        return "a wait for other slots than the lock's";
    }
    if (wait->session->blacklist_index != 0) {
        return "a wait of a blacklisted session";
    }
    if (wait->wait_index > wait->asked_index ||
        wait->asked_index > fsm->applied_index ||
        wait->wait_clock_ms > span_clock(fsm, wait->wait_ms)) {
        return "a wait from the future";
    }
    return NULL;
}

static const char *check_queue(const struct lockfsm *fsm,
                               const struct lock *lock)
{
    uint32_t count = 0;
    uint32_t waits_by_mode[3] = {0};
    uint64_t last_index = 0;
    LIST_EACH (node, &lock->queue) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
        count++;
        waits_by_mode[wait->mode]++;
        const char *wrong = check_wait(fsm, wait);
        if (wrong != NULL) {
            return wrong;
        }
        if (wait->is_upgrade && count > 1) {
            return "an upgrade behind the head";
        }
        if (!wait->is_upgrade && wait->wait_index <= last_index) {
            return "a queue out of order";
        }
        last_index = wait->is_upgrade ? 0 : wait->wait_index;
        if (request_is_free(fsm, wait)) {
            return "a wait for what is free";
        }
    }
    if (count != lock->wait_count ||
        memcmp(waits_by_mode, lock->waits_by_mode, sizeof waits_by_mode) != 0) {
        return "a wrong count of waits";
    }
    return NULL;
}

static const char *check_lock(const struct lockfsm *fsm,
                              const struct lock *lock)
{
    if (lock->hold_count == 0 && lock->wait_count == 0 && lock->delay_ms == 0) {
        return "a lock that nobody wants";
    }
    if (lock->is_touched) {
        return "a lock that was not settled";
    }
    if (lock->id > fsm->next_serial) {
        return "a lock from the future";
    }
    if ((lock->delay_ms == 0) != (lock->delay_index == 0) ||
        (lock->delay_ms == 0 && lock->delay_slots != 0)) {
        return "half a delay";
    }
    if (lock->delay_clock_ms > span_clock(fsm, lock->delay_ms)) {
        return "a delay that begins in the future";
    }
    if (is_quarantined(fsm) && lock->hold_count > 0) {
        return "a hold in quarantine";
    }
    const char *wrong = check_holds(fsm, lock);
    return wrong != NULL ? wrong : check_queue(fsm, lock);
}

static const char *check_asker(const struct lockfsm *fsm,
                               const struct asker *asker)
{
    uint32_t count = 0;
    LIST_EACH (node, &asker->waits) {
        count++;
        if (LIST_ENTRY(node, struct wait, in_asker)->asker != asker) {
            return "a wait of another asker";
        }
    }
    if (count != asker->wait_count) {
        return "a wrong count of an asker's waits";
    }
    if (count == 0) {
        return "an asker that waits for nothing";
    }
    uint64_t serial = 0;
    count = 0;
    LIST_EACH (node, &asker->waiting) {
        const struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                                    in_order);
        count++;
        if (kept->asker != asker || kept->wait_index == 0 ||
            kept_find(fsm, asker->session->id, kept->req) != kept ||
            request_find(fsm, kept->wait_index, asker->session->id,
                         asker->owner) == NULL) {
            return "a request that waits nowhere";
        }
        if (kept->serial <= serial || kept->serial > fsm->next_serial) {
            return "requests that wait out of order";
        }
        serial = kept->serial;
    }
    if (count != asker->waiting_count || count > WAITING_COUNT_MAX) {
        return "a wrong count of requests that wait";
    }
    return NULL;
}

static const char *check_mark(const struct lockfsm *fsm,
                              const struct session *session)
{
    if (session->heard_index < session->id - fsm->token_base ||
        session->heard_index > fsm->applied_index) {
        return "a session that was heard out of its time";
    }
    if (session->mark_index == 0) {
        return session->mark_quiet_ms != 0 || session->mark_clock_ms != 0
                   ? "half a mark"
                   : NULL;
    }
    if (session->mark_index <= session->heard_index ||
        session->mark_index > fsm->clock_index ||
        session->mark_quiet_ms > session->ttl_ms ||
        session->mark_clock_ms > fsm->clock_ms) {
        return "a mark out of its range";
    }
    return NULL;
}

static const char *check_numbers(const struct lockfsm *fsm,
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
        if (range[0] > range[1] || (i > 0 && range[0] - 2 < range[-1])) {
            return "ranges of spent numbers out of order";
        }
    }
    LIST_EACH (node, &numbers->answered) {
        const struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                                    in_order);
        count++;
        if (kept->asker != NULL || kept->wait_index != 0 ||
            kept_find(fsm, numbers->session->id, kept->req) != kept ||
            !numbers_has(numbers, kept->req)) {
            return "a result that should not be kept";
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

static const char *check_session(const struct lockfsm *fsm,
                                 const struct session *session)
{
    uint32_t hold_count = 0;
    uint32_t wait_count = 0;
    uint32_t asker_count = 0;
    uint32_t result_count = 0;
    LIST_EACH (node, &session->holds) {
        hold_count += LIST_ENTRY(node, struct hold, in_session)->session ==
                      session;
    }
    LIST_EACH (node, &session->waits) {
        wait_count += LIST_ENTRY(node, struct wait, in_session)->session ==
                      session;
    }
    LIST_EACH (node, &session->askers) {
        const struct asker *asker = LIST_ENTRY(node, struct asker, in_session);
        const char *wrong = check_asker(fsm, asker);
        if (wrong != NULL) {
            return wrong;
        }
        asker_count++;
        result_count += asker->waiting_count;
    }
    if (session->numbers != NULL) {
        const char *wrong = check_numbers(fsm, session->numbers);
        if (wrong != NULL) {
            return wrong;
        }
        result_count += session->numbers->answered_count;
    }
    if (hold_count != session->hold_count ||
        wait_count != session->wait_count ||
        asker_count != session->asker_count ||
        result_count != session->result_count) {
        return "a wrong count of a session's";
    }
    if (session->id <= fsm->token_base ||
        session->id > fsm->token_base + fsm->applied_index) {
        return "a session id out of its range";
    }
    if (session->is_redis && session->hold_count != 1) {
        return "a Redis session without its value";
    }
    const char *wrong = check_mark(fsm, session);
    if (wrong != NULL) {
        return wrong;
    }
    const struct blacklisting *hit = blacklist_hit(fsm, session->id,
                                                   session->name);
    if (session->blacklist_index != (hit != NULL ? hit->since_index : 0)) {
        return "a session that does not know its blacklisting";
    }
    return NULL;
}

static uint32_t greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* LIMIT_STATE_SIZE, from what there is. */
static uint64_t size_of_lock(const struct lock *lock)
{
    uint64_t size = RECORD_SIZE + lock->name.size;
    LIST_EACH (node, &lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        size += RECORD_SIZE + hold->owner.size + hold->value.size;
    }
    LIST_EACH (node, &lock->queue) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
        size += RECORD_SIZE + wait->owner.size + wait->value.size;
    }
    return size;
}

static uint64_t size_of_results(const struct list *results)
{
    uint64_t size = 0;
    LIST_EACH (node, results) {
        const struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                                    in_order);
        size += RECORD_SIZE + kept->text.size;
        size += kept->token_count > 1 ? kept->token_count * sizeof(uint64_t)
                                      : 0;
    }
    return size;
}

static uint64_t size_of_session(const struct session *session)
{
    uint64_t size = RECORD_SIZE + session->name.size + session->address.size;
    for (uint32_t i = 0; i < session->label_count; i++) {
        size += session->labels[i].key.size + session->labels[i].value.size;
    }
    LIST_EACH (node, &session->ended) {
        const struct ended_hold *ended = LIST_ENTRY(node, struct ended_hold,
                                                    in_session);
        size += ended->lock.size + ended->owner.size;
    }
    LIST_EACH (node, &session->askers) {
        const struct asker *asker = LIST_ENTRY(node, struct asker, in_session);
        size += asker->owner.size + size_of_results(&asker->waiting);
    }
    const struct numbers *numbers = session->numbers;
    if (numbers != NULL && numbers->spent_count > 0) {
        size += RECORD_SIZE + numbers->spent_count * 2 * sizeof(uint64_t) +
                size_of_results(&numbers->answered);
    }
    return size;
}

static const char *check_size(const struct lockfsm *fsm)
{
    uint64_t size = 0;
    LIST_EACH (node, &fsm->members) {
        const struct member *member = LIST_ENTRY(node, struct member, in_order);
        size += RECORD_SIZE + member->removed_by.size;
    }
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        size += size_of_lock(lock);
    }
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        size += size_of_session(session);
    }
    for (const struct fence *fence = fsm->fences; fence != NULL;
         fence = fence->by_resource.next) {
        size += RECORD_SIZE + fence->resource.size;
    }
    LIST_EACH (node, &fsm->blacklist) {
        const struct blacklisting *entry = LIST_ENTRY(node, struct blacklisting,
                                                      in_order);
        size += RECORD_SIZE + entry->client.size + entry->reason.size +
                entry->by.size;
    }
    return size != lockfsm_limit_use(fsm, LIMIT_STATE_SIZE)
               ? "a wrong size of the state"
               : NULL;
}

/* The limits, and what is kept up from entry to entry for them. */
static const char *check_uses(const struct lockfsm *fsm)
{
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (!limit_allows((enum limit_key)key, fsm->limits.of[key])) {
            return "a limit out of its range";
        }
    }
    uint64_t waits = 0;
    uint32_t of_lock = 0;
    uint32_t of_session = 0;
    uint32_t places = 0;
    uint32_t owners = 0;
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        waits += lock->wait_count;
        of_lock = greater(of_lock, lock->wait_count);
    }
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        of_session = greater(of_session, session->wait_count);
        places = greater(places, session_places(session));
        owners = greater(owners, session->asker_count);
    }
    if (waits != fsm->wait_count || of_lock != fsm->waits_of_lock.highest ||
        of_session != fsm->waits_of_session.highest ||
        places != fsm->places_of_session.highest ||
        owners != fsm->owners_of_session.highest) {
        return "a wrong use of a limit";
    }
    return NULL;
}

/* Every hold and wait of a lock is one of a session, and the other way round:
 * the lists were walked from both sides, so equal sums are enough. */
static const char *check_sums(const struct lockfsm *fsm)
{
    uint64_t lock_holds = 0;
    uint64_t lock_waits = 0;
    uint64_t session_holds = 0;
    uint64_t session_waits = 0;
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        lock_holds += lock->hold_count;
        lock_waits += lock->wait_count;
    }
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        session_holds += session->hold_count;
        session_waits += session->wait_count;
    }
    if (lock_holds != session_holds || lock_waits != session_waits) {
        return "locks and sessions disagree";
    }
    return NULL;
}

static const char *check_clock(const struct lockfsm *fsm)
{
    if (fsm->clock_index > fsm->applied_index ||
        fsm->begin_count > BEGIN_MARK_MAX) {
        return "a clock from the future";
    }
    for (uint32_t i = 0; i < fsm->begin_count; i++) {
        const struct begin_mark *begin = &fsm->begins[i];
        bool has_next = i + 1 < fsm->begin_count;
        if (begin->log_index >=
                (has_next ? begin[1].log_index : fsm->clock_index + 1) ||
            begin->clock_ms > (has_next ? begin[1].since_ms : fsm->clock_ms) ||
            begin->since_ms > begin->clock_ms) {
            return "BEGINs out of order";
        }
    }
    LIST_EACH (node, &fsm->blacklist) {
        const struct blacklisting *entry = LIST_ENTRY(node, struct blacklisting,
                                                      in_order);
        if (entry->clock_ms > span_clock(fsm, entry->for_ms)) {
            return "a blacklisting that begins in the future";
        }
    }
    return fsm->quarantine_clock_ms > span_clock(fsm, fsm->quarantine_ms)
               ? "a quarantine that begins in the future"
               : NULL;
}

const char *lockfsm_check_basic(const struct lockfsm *fsm)
{
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        const char *wrong = check_lock(fsm, lock);
        if (wrong != NULL) {
            return wrong;
        }
    }
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        const char *wrong = check_session(fsm, session);
        if (wrong != NULL) {
            return wrong;
        }
    }
    for (const struct fence *fence = fsm->fences; fence != NULL;
         fence = fence->by_resource.next) {
        if (!fence_may_have(fence->token,
                            fsm->token_base + fsm->applied_index)) {
            return "a fence has admitted a token that was never granted";
        }
    }
    if (!list_is_empty(&fsm->touched)) {
        return "something was not settled";
    }
    const char *wrong = check_clock(fsm);
    if (wrong == NULL) {
        wrong = check_sums(fsm);
    }
    wrong = wrong != NULL ? wrong : check_uses(fsm);
    return wrong != NULL ? wrong : check_size(fsm);
}

/* --- What may change between two states ----------------------------------- */

struct known_lock {
    UT_hash_handle by_name;
    struct bytes name;
    uint64_t last_token;
};

struct known_session {
    UT_hash_handle by_id;
    uint64_t id;
    uint64_t heard_index;
    uint64_t mark_index;
    uint64_t spent; /* So many numbers. */
};

struct lockfsm_delta {
    bool has_before;
    uint64_t applied_index;
    uint64_t next_serial;
    uint64_t token_base;
    uint64_t clock_ms;
    uint64_t clock_index;
    uint32_t feature_level;
    struct known_lock *locks;
    struct known_session *sessions;
};

static void forget(struct lockfsm_delta *delta)
{
    struct known_lock *lock;
    struct known_lock *next_lock;
    HASH_ITER (by_name, delta->locks, lock, next_lock) {
        HASH_DELETE(by_name, delta->locks, lock);
        free((void *)lock->name.data);
        free(lock);
    }
    struct known_session *session;
    struct known_session *next_session;
    HASH_ITER (by_id, delta->sessions, session, next_session) {
        HASH_DELETE(by_id, delta->sessions, session);
        free(session);
    }
}

struct lockfsm_delta *lockfsm_delta_new(void)
{
    return memory_new(sizeof(struct lockfsm_delta));
}

void lockfsm_delta_free(struct lockfsm_delta *delta)
{
    if (delta != NULL) {
        forget(delta);
        free(delta);
    }
}

static const char *compare_locks(const struct lockfsm_delta *delta,
                                 const struct lockfsm *fsm)
{
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        struct known_lock *known = NULL;
        HASH_FIND(by_name, delta->locks, lock->name.data, lock->name.size,
                  known);
        if (known != NULL && lock->last_token != 0 &&
            lock->last_token < known->last_token) {
            return "a lock's token went back";
        }
        LIST_EACH (node, &lock->holds) {
            const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
            if (known != NULL && hold->token > known->last_token &&
                hold->granted_index <= delta->applied_index) {
                return "a new hold with an old token";
            }
        }
    }
    return NULL;
}

static uint64_t spent_of(const struct session *session)
{
    uint64_t sum = 0;
    for (uint32_t i = 0;
         session->numbers != NULL && i < session->numbers->spent_count; i++) {
        const uint64_t *range = &session->numbers->spent[2 * i];
        sum += range[1] - range[0] + 1;
    }
    return sum;
}

/* Ids grow with the log, so a session that was not there before must be younger
 * than the state before. */
static const char *compare_sessions(const struct lockfsm_delta *delta,
                                    const struct lockfsm *fsm)
{
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        struct known_session *known = NULL;
        HASH_FIND(by_id, delta->sessions, &session->id, sizeof session->id,
                  known);
        if (known == NULL &&
            session->id <= fsm->token_base + delta->applied_index) {
            return "a session came back";
        }
        if (known != NULL && spent_of(session) < known->spent) {
            return "a spent number that may be used again";
        }
        if (known == NULL || session->heard_index > known->heard_index) {
            continue; /* Heard since then, whatever was before. */
        }
        if (session->heard_index < known->heard_index ||
            session->mark_index < known->mark_index) {
            return "a mark that went without a HEARD";
        }
    }
    return NULL;
}

static const char *compare(const struct lockfsm_delta *delta,
                           const struct lockfsm *fsm)
{
    if (fsm->applied_index < delta->applied_index) {
        return "the applied index went back";
    }
    if (fsm->next_serial < delta->next_serial ||
        fsm->feature_level < delta->feature_level) {
        return "a counter went back";
    }
    if (fsm->token_base < delta->token_base) {
        return "the token base went back";
    }
    uint64_t entries = fsm->applied_index - delta->applied_index;
    if (fsm->clock_ms < delta->clock_ms ||
        fsm->clock_index < delta->clock_index ||
        fsm->clock_ms - delta->clock_ms > entries * CLOCK_STEP_MS_MAX) {
        return "the clock went back, or too far";
    }
    const char *wrong = compare_locks(delta, fsm);
    return wrong != NULL ? wrong : compare_sessions(delta, fsm);
}

static void remember(struct lockfsm_delta *delta, const struct lockfsm *fsm)
{
    forget(delta);
    delta->has_before = true;
    delta->applied_index = fsm->applied_index;
    delta->next_serial = fsm->next_serial;
    delta->token_base = fsm->token_base;
    delta->clock_ms = fsm->clock_ms;
    delta->clock_index = fsm->clock_index;
    delta->feature_level = fsm->feature_level;
    for (const struct lock *lock = fsm->locks; lock != NULL;
         lock = lock->by_name.next) {
        struct known_lock *known = memory_new(sizeof *known);
        known->name = bytes_of(memory_copy(lock->name.data, lock->name.size),
                               lock->name.size);
        known->last_token = lock->last_token;
        HASH_ADD_KEYPTR(by_name, delta->locks, known->name.data,
                        known->name.size, known);
    }
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        struct known_session *known = memory_new(sizeof *known);
        known->id = session->id;
        known->heard_index = session->heard_index;
        known->mark_index = session->mark_index;
        known->spent = spent_of(session);
        HASH_ADD(by_id, delta->sessions, id, sizeof known->id, known);
    }
}

const char *lockfsm_check_delta(struct lockfsm_delta *delta,
                                const struct lockfsm *fsm)
{
    const char *wrong = delta->has_before ? compare(delta, fsm) : NULL;
    remember(delta, fsm);
    return wrong;
}
