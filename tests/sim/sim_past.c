/* SPDX-License-Identifier: MIT */

/* The queries on the history. */

#include "tests/sim/sim_past.h"

#include <inttypes.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_faces.h"

struct past_lock *past_find_lock(const struct sim_history *history,
                                 struct bytes name)
{
    struct past_lock *lock = NULL;
    HASH_FIND(hh, history->locks, name.data, name.size, lock);
    return lock;
}

struct past_session *past_find_session(const struct sim_history *history,
                                       uint64_t id)
{
    struct past_session *session = NULL;
    HASH_FIND(hh, history->sessions, &id, sizeof id, session);
    return session;
}

struct bytes past_key(struct sim_history *history, uint64_t session,
                      uint64_t req)
{
    buffer_clear(&history->key);
    buffer_put_u64(&history->key, session);
    buffer_put_u64(&history->key, req);
    return buffer_bytes(&history->key);
}

struct past_request *past_find_request(struct sim_history *history,
                                       uint64_t session, uint64_t req)
{
    struct bytes key = past_key(history, session, req);
    struct past_request *request = NULL;
    HASH_FIND(hh, history->requests, key.data, key.size, request);
    return request;
}

/* --- Reading -------------------------------------------------------------- */

bool sim_history_result(const struct sim_history *history, uint64_t session,
                        uint64_t req, struct past_result *ret_result)
{
    struct past_request *past = past_find_request(
        (struct sim_history *)(uintptr_t)history, session, req);
    if (past == NULL || past->wait_index != 0) {
        return false;
    }
    *ret_result = past->result;
    return true;
}

bool sim_history_held_sometime(const struct sim_history *history,
                               struct bytes name, uint64_t token, uint64_t from,
                               uint64_t to)
{
    const struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        return false;
    }
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->token == token && grant->from <= to && grant->to > from) {
            return true;
        }
    }
    return false;
}

bool sim_history_held_always(const struct sim_history *history,
                             struct bytes name, uint64_t token, uint64_t from,
                             uint64_t to)
{
    const struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        return false;
    }
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->token == token && grant->from <= from && grant->to > to) {
            return true;
        }
    }
    return false;
}

bool sim_history_taken_always(const struct sim_history *history,
                              struct bytes name, uint64_t from, uint64_t to)
{
    const struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        return false;
    }
    /* Grants are in the order of their beginnings: one continues where others
     * end, or there is a moment without. */
    uint64_t covered = from;
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->from <= covered && grant->to > covered) {
            covered = grant->to;
        }
    }
    return covered > to;
}

static struct past_grant *find_grant(const struct sim_history *history,
                                     struct bytes name, uint64_t session,
                                     struct bytes owner, uint64_t token)
{
    const struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        return NULL;
    }
    LIST_EACH (node, &lock->grants) {
        struct past_grant *grant = LIST_ENTRY(node, struct past_grant, in_lock);
        if (grant->token == token && grant->session == session &&
            bytes_equal(grant->owner, owner)) {
            return grant;
        }
    }
    return NULL;
}

bool sim_history_granted(const struct sim_history *history, struct bytes name,
                         uint64_t session, struct bytes owner, uint64_t token)
{
    return find_grant(history, name, session, owner, token) != NULL;
}

uint32_t sim_history_tell_grant(struct sim_history *history, struct bytes name,
                                uint64_t session, struct bytes owner,
                                uint64_t token)
{
    struct past_grant *grant = find_grant(history, name, session, owner, token);
    return grant == NULL ? 0 : ++grant->told;
}

bool sim_history_holds(const struct sim_history *history, struct bytes name,
                       uint64_t session, uint64_t token)
{
    const struct past_lock *lock = past_find_lock(history, name);
    bool is_held = false;
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->token != token || grant->session != session) {
            continue;
        }
        if (grant->to != NEVER) {
            return false;
        }
        is_held = true;
    }
    return is_held;
}

static const struct past_grant *find_taken(const struct sim_history *history,
                                           struct bytes name, uint64_t session,
                                           struct bytes owner, uint64_t token)
{
    const struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        return NULL;
    }
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->taken != NULL && grant->session == session &&
            grant->token >= token &&
            (owner.data == NULL || bytes_equal(grant->owner, owner))) {
            return grant;
        }
    }
    return NULL;
}

uint64_t sim_history_taken(const struct sim_history *history, struct bytes name,
                           uint64_t session, struct bytes owner, uint64_t token)
{
    const struct past_grant *grant = find_taken(history, name, session, owner,
                                                token);
    return grant == NULL ? 0 : grant->to;
}

const char *sim_history_taken_by(const struct sim_history *history,
                                 struct bytes name, uint64_t session,
                                 struct bytes owner, uint64_t token)
{
    const struct past_grant *grant = find_taken(history, name, session, owner,
                                                token);
    return grant == NULL ? "" : grant->taken;
}

bool sim_history_was_blacklisted(const struct sim_history *history,
                                 uint64_t session)
{
    const struct past_session *past = past_find_session(history, session);
    return past != NULL && past->is_blacklisted;
}

bool past_is_renewal(const struct effect *effect)
{
    return effect->type == EFFECT_SESSION_CHANGED && effect->reason != NULL &&
           strcmp(effect->reason, "renewed") == 0;
}

static bool holds(const struct past_lock *lock, uint64_t session)
{
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->session == session && grant->to == NEVER) {
            return true;
        }
    }
    return false;
}

bool past_holds(const struct sim_history *history, struct bytes name,
                uint64_t session)
{
    const struct past_lock *lock = past_find_lock(history, name);
    return lock != NULL && holds(lock, session);
}

static bool uses(const struct past_lock *lock, uint64_t session)
{
    if (holds(lock, session)) {
        return true;
    }
    LIST_EACH (node, &lock->waits) {
        if (LIST_ENTRY(node, struct past_wait, in_lock)->session == session) {
            return true;
        }
    }
    return false;
}

const char *sim_history_left(struct sim_history *history, uint64_t session)
{
    struct past_lock *lock, *next;
    HASH_ITER (hh, history->locks, lock, next) {
        if (uses(lock, session)) {
            buffer_clear(&history->key);
            buffer_put(&history->key, lock->name, lock->name_size);
            buffer_put(&history->key, "", 1);
            return (const char *)history->key.data;
        }
    }
    return NULL;
}

uint64_t sim_history_ended(const struct sim_history *history, uint64_t session)
{
    const struct past_session *past = past_find_session(history, session);
    return past == NULL ? 0 : past->ended_index;
}

bool sim_history_opened(const struct sim_history *history, uint64_t session)
{
    return past_find_session(history, session) != NULL;
}

bool sim_history_dropped(const struct sim_history *history, uint64_t session)
{
    const struct past_session *past = past_find_session(history, session);
    return past != NULL && past->is_dropped;
}

void sim_history_beat(struct sim_history *history, uint64_t session,
                      uint64_t sent_ns, uint64_t ttl_ms, uint64_t linger_ms)
{
    struct past_session *past = past_find_session(history, session);
    sim_say(history->sim, NULL,
            "session %" PRIu64 " is heard: sent %.6f, %" PRIu64 " ms", session,
            (double)sent_ns / 1e9, ttl_ms);
    sim_faces_beat(sim_check_faces(history->sim), session, sent_ns);
    if (past != NULL && sent_ns > past->beat_sent_ns) {
        past->beat_sent_ns = sent_ns;
        past->ttl_ms = ttl_ms;
        past->linger_ms = linger_ms;
    }
}

uint64_t sim_history_overdue(const struct sim_history *history,
                             uint64_t before_ns)
{
    struct past_session *session, *next;
    HASH_ITER (hh, history->sessions, session, next) {
        bool is_durable = session->ttl_ms == 0;
        if (!is_durable && session->ended_index == 0 &&
            session->opened_ns < before_ns &&
            session->beat_sent_ns < before_ns &&
            session->renewed_ns < before_ns &&
            !sim_clients_use(history->sim, session->id)) {
            return session->id;
        }
    }
    return 0;
}
