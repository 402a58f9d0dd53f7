/* SPDX-License-Identifier: MIT */

/* Keeps the parts of a state that its successors are compared with. */

#include "tests/unit/lockfsm_delta.h"

#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/session/session.h"

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
    uint64_t spent; /* Count of spent numbers. */
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
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
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

/* Ids grow with the log, so a session that was not in the earlier state must be
 * newer than that state. */
static const char *compare_sessions(const struct lockfsm_delta *delta,
                                    const struct lockfsm *fsm)
{
    for (const struct session *session = fsm->sessions; session != NULL;
         session = session->by_id.next) {
        struct known_session *known = NULL;
        HASH_FIND(by_id, delta->sessions, &session->id, sizeof session->id,
                  known);
        if (known == NULL &&
            session->id <= fsm->epoch.token_base + delta->applied_index) {
            return "a session came back";
        }
        if (known != NULL && spent_of(session) < known->spent) {
            return "a spent number that may be used again";
        }
        if (known == NULL || session->heard_index > known->heard_index) {
            continue; /* Heard since then, regardless of earlier marks. */
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
    if (fsm->epoch.token_base < delta->token_base) {
        return "the token base went back";
    }
    uint64_t entries = fsm->applied_index - delta->applied_index;
    if (fsm->clock.ms < delta->clock_ms ||
        fsm->clock.index < delta->clock_index ||
        fsm->clock.ms - delta->clock_ms > entries * CLOCK_STEP_MS_MAX) {
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
    delta->token_base = fsm->epoch.token_base;
    delta->clock_ms = fsm->clock.ms;
    delta->clock_index = fsm->clock.index;
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

const char *lockfsm_delta_check(struct lockfsm_delta *delta,
                                const struct lockfsm *fsm)
{
    const char *wrong = delta->has_before ? compare(delta, fsm) : NULL;
    remember(delta, fsm);
    return wrong;
}
