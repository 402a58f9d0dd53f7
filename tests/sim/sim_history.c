/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "tests/sim/sim_belief.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_full.h"
#include "tests/sim/sim_past.h"
#include "tests/sim/sim_promise.h"
#include "tests/sim/sim_push.h"
#include "tests/sim/sim_rights.h"
#include "tests/sim/sim_silence.h"

/* The entry that is being recorded. */
struct writing {
    struct sim_history *history;
    struct sim *sim;
    const struct lockfsm *fsm;
    const struct effects *effects;
    uint64_t index;  /* Its place. */
    uint64_t offset; /* Difference between places and indexes. */
    uint64_t token;
    const struct entry *command; /* NULL: no command. */
};

static struct past_lock *obtain_lock(struct sim_history *history,
                                     struct bytes name)
{
    struct past_lock *lock = past_find_lock(history, name);
    if (lock == NULL) {
        lock = memory_new(sizeof *lock + name.size);
        lock->name_size = name.size;
        memcpy(lock->name, name.data, name.size);
        list_init(&lock->grants);
        list_init(&lock->waits);
        HASH_ADD_KEYPTR(hh, history->locks, lock->name, lock->name_size, lock);
    }
    return lock;
}

static struct bytes copy(struct bytes bytes)
{
    return bytes_of(memory_copy(bytes.data, bytes.size), bytes.size);
}

static void free_bytes(struct bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

struct sim_history *sim_history_new(struct sim *sim,
                                    struct sim_silence *silence)
{
    struct sim_history *history = memory_new(sizeof *history);
    history->sim = sim;
    history->promises = sim_promises_new(sim);
    history->pushes = sim_pushes_new(sim);
    history->rights = sim_rights_new(sim);
    history->silence = silence;
    return history;
}

static void free_lock(struct past_lock *lock)
{
    LIST_EACH_SAFE (node, &lock->grants) {
        struct past_grant *grant = LIST_ENTRY(node, struct past_grant, in_lock);
        free_bytes(grant->owner);
        free(grant);
    }
    LIST_EACH_SAFE (node, &lock->waits) {
        struct past_wait *wait = LIST_ENTRY(node, struct past_wait, in_lock);
        free_bytes(wait->owner);
        free(wait);
    }
    free(lock);
}

void sim_history_free(struct sim_history *history)
{
    struct past_lock *lock, *next_lock;
    HASH_ITER (hh, history->locks, lock, next_lock) {
        HASH_DEL(history->locks, lock);
        free_lock(lock);
    }
    struct past_session *session, *next_session;
    HASH_ITER (hh, history->sessions, session, next_session) {
        HASH_DEL(history->sessions, session);
        buffer_done(&session->also);
        free(session);
    }
    struct past_request *request, *next_request;
    HASH_ITER (hh, history->requests, request, next_request) {
        HASH_DEL(history->requests, request);
        free(request);
    }
    sim_promises_free(history->promises);
    sim_pushes_free(history->pushes);
    sim_rights_free(history->rights);
    buffer_done(&history->key);
    free(history);
}

/* --- Holds and waits ------------------------------------------------------ */

/* The place of a wait's entry; 0: there is none. */
static uint64_t wait_of(const struct writing *w, const struct effect *e)
{
    return e->wait_index != 0 ? w->offset + e->wait_index : 0;
}

static struct past_grant *current_grant(struct past_lock *lock,
                                        uint64_t session, struct bytes owner)
{
    LIST_EACH (node, &lock->grants) {
        struct past_grant *grant = LIST_ENTRY(node, struct past_grant, in_lock);
        if (grant->to == NEVER && grant->session == session &&
            bytes_equal(grant->owner, owner)) {
            return grant;
        }
    }
    return NULL;
}

static struct past_wait *find_wait(struct past_lock *lock, uint64_t wait_index)
{
    LIST_EACH (node, &lock->waits) {
        struct past_wait *wait = LIST_ENTRY(node, struct past_wait, in_lock);
        if (wait->wait_index == wait_index) {
            return wait;
        }
    }
    return NULL;
}

static void drop_wait(struct past_wait *wait)
{
    list_remove(&wait->in_lock);
    free_bytes(wait->owner);
    free(wait);
}

static bool ends_here(const struct writing *w, uint64_t session)
{
    for (uint32_t i = 0; i < w->effects->count; i++) {
        const struct effect *effect = &w->effects->effect[i];
        if (effect->type == EFFECT_SESSION_ENDED &&
            effect->session == session) {
            return true;
        }
    }
    return false;
}

static bool is_barging(const struct writing *w)
{
    return w->command->op == OP_ACQUIRE && w->command->acquire->is_barging;
}

static void check_token(const struct writing *w, const struct past_lock *lock,
                        const struct effect *e)
{
    bool is_shared = false;
    if (e->token == lock->last_token && !list_is_empty(&lock->grants)) {
        const struct past_grant *last = LIST_ENTRY(lock->grants.prev,
                                                   struct past_grant, in_lock);
        is_shared = last->from == w->index && !last->is_exclusive;
    }
    if (e->token <= lock->last_token && !is_shared) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "tokens of a lock grow: '%.*s' was granted with %" PRIu64
                 " after %" PRIu64,
                 (int)e->lock.size, e->lock.data, e->token, lock->last_token);
    } else if (e->token != w->token) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "a token is token_base plus log index: entry %" PRIu64
                 " granted '%.*s' with %" PRIu64,
                 w->index, (int)e->lock.size, e->lock.data, e->token);
    }
}

/* A request that also waits for another lock does not hold up compatible
 * requests: a reader, or one for another slot. */
static bool lets_pass(const struct past_wait *wait, bool is_shared,
                      bool is_slots)
{
    return wait->is_several &&
           ((wait->is_shared && is_shared) || (wait->is_slots && is_slots));
}

/* Requests that a barging request overtakes must wait for a holder that was
 * there first. */
static void check_passing(const struct writing *w, const struct past_lock *lock)
{
    LIST_EACH (at, &lock->waits) {
        const struct past_wait *wait = LIST_ENTRY(at, struct past_wait,
                                                  in_lock);
        uint64_t newest = 0, oldest = NEVER;
        LIST_EACH (node, &lock->grants) {
            const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                        in_lock);
            bool is_own = grant->session == wait->session &&
                          bytes_equal(grant->owner, wait->owner);
            if (grant->to == NEVER && !is_own && grant->from < oldest) {
                oldest = grant->from;
            }
            newest = grant->from;
        }
        bool is_shared = w->command->acquire->mode == LOCK_SHARED;
        bool is_slots = w->command->acquire->mode == LOCK_SLOTS;
        bool needs_no_barge = (wait->is_shared && is_shared) ||
                              lets_pass(wait, is_shared, is_slots);
        if (!needs_no_barge &&
            (oldest != NEVER ? oldest : newest) > wait->wait_index) {
            sim_fail(w->sim, ORACLE_ORDER,
                     "nobody is overtaken forever: entry %" PRIu64
                     " barges past the wait of entry %" PRIu64 " for '%.*s'",
                     w->index, wait->wait_index, (int)lock->name_size,
                     lock->name);
        }
    }
}

/* True if there is a wait that may still be granted the lock. A wait does not
 * count if its session has ended, or if it lacks the right and SWEEP has yet to
 * reach it. */
static bool is_awaited(const struct writing *w, const struct past_lock *lock)
{
    LIST_EACH (at, &lock->waits) {
        const struct past_wait *wait = LIST_ENTRY(at, struct past_wait,
                                                  in_lock);
        const struct session *session = lockfsm_session(w->fsm, wait->session);
        bool is_passed = w->command->op == OP_ACQUIRE &&
                         lets_pass(wait,
                                   w->command->acquire->mode == LOCK_SHARED,
                                   w->command->acquire->mode == LOCK_SLOTS);
        if (session != NULL && lockfsm_is_rechecked(w->fsm, session) &&
            !is_passed) {
            return true;
        }
    }
    return false;
}

static void check_grantee(const struct writing *w, const struct past_lock *lock,
                          const struct effect *e)
{
    const struct past_session *session = past_find_session(w->history,
                                                           e->session);
    if (session == NULL || session->ended_index != 0 ||
        ends_here(w, e->session)) {
        sim_fail(w->sim, ORACLE_DEATH,
                 "nothing is granted to the dead: entry %" PRIu64
                 " grants '%.*s' to session %" PRIu64,
                 w->index, (int)e->lock.size, e->lock.data, e->session);
    } else if (e->wait_index == 0 && e->reason == NULL && is_awaited(w, lock) &&
               !is_barging(w)) {
        sim_fail(w->sim, ORACLE_ORDER,
                 "nobody overtakes the queue: entry %" PRIu64
                 " grants '%.*s' to session %" PRIu64 " past those who wait",
                 w->index, (int)e->lock.size, e->lock.data, e->session);
    } else if (e->wait_index == 0 && e->reason == NULL && is_barging(w)) {
        check_passing(w, lock);
    }
}

static bool is_exclusive_now(const struct writing *w, const struct effect *e)
{
    const struct lock *lock = lockfsm_lock(w->fsm, e->lock);
    return lock != NULL && lock->mode == LOCK_EXCLUSIVE;
}

static void write_grant(const struct writing *w, const struct effect *e)
{
    struct past_lock *lock = obtain_lock(w->history, e->lock);
    struct past_grant *before = current_grant(lock, e->session, e->owner);
    if (e->reason != NULL && strcmp(e->reason, "downgraded") == 0) {
        CHECK(before != NULL && before->token == e->token);
        before->is_exclusive = false;
        return;
    }
    check_token(w, lock, e);
    check_grantee(w, lock, e);
    if (before != NULL) {
        before->to = w->index; /* An upgrade. */
    }
    struct past_grant *grant = memory_new(sizeof *grant);
    grant->owner = copy(e->owner);
    grant->session = e->session;
    grant->token = e->token;
    grant->from = w->index;
    grant->to = NEVER;
    grant->is_exclusive = is_exclusive_now(w, e);
    list_push_back(&lock->grants, &grant->in_lock);
    lock->last_token = e->token;
    w->sim->stats.grants++;
    struct past_wait *wait = find_wait(lock, wait_of(w, e));
    if (e->wait_index != 0 && wait == NULL) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "a grant from the queue ends a wait: entry %" PRIu64
                 ", lock '%.*s'",
                 w->index, (int)e->lock.size, e->lock.data);
    } else if (wait != NULL) {
        wait->is_granted = true;
    }
}

static bool is_durable(const struct writing *w, uint64_t session)
{
    const struct past_session *past = past_find_session(w->history, session);
    return past != NULL && past->ttl_ms == 0;
}

/* An operator has ended it, and no lease of its holder has ended before. */
static bool is_taken(const struct writing *w, const struct effect *e)
{
    const char *reason = e->reason != NULL ? e->reason : "";
    return strcmp(reason, "releaseif") == 0 || strcmp(reason, "broken") == 0 ||
           (strcmp(reason, "blacklisted") == 0 && is_durable(w, e->session));
}

static void write_end(const struct writing *w, const struct effect *e)
{
    struct past_lock *lock = obtain_lock(w->history, e->lock);
    struct past_grant *grant = current_grant(lock, e->session, e->owner);
    if (grant == NULL || grant->token != e->token) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "grant and end of a hold alternate: entry %" PRIu64
                 " ends a hold of '%.*s' that is not there",
                 w->index, (int)e->lock.size, e->lock.data);
        return;
    }
    if (e->type == EFFECT_RELEASED && e->reason != NULL &&
        strcmp(e->reason, "died") == 0) {
        sim_fail(w->sim, ORACLE_DEATH,
                 "the dead release nothing: entry %" PRIu64
                 " ends a hold of '%.*s' cleanly",
                 w->index, (int)e->lock.size, e->lock.data);
    }
    grant->to = w->index;
    grant->taken = is_taken(w, e) ? e->reason : NULL;
    if (grant->taken != NULL) {
        return; /* A heartbeat reports it to its holder (sim_told.c). */
    }
    sim_beliefs_end(w->sim, w->index, e->lock, e->session, e->owner, e->token);
}

static void write_wait(const struct writing *w, const struct effect *e)
{
    struct past_lock *lock = obtain_lock(w->history, e->lock);
    struct past_wait *wait = find_wait(lock, wait_of(w, e));
    if (e->count == 1) {
        if (wait == NULL) {
            sim_fail(w->sim, ORACLE_GRANTS,
                     "a repeated request keeps its place: entry %" PRIu64
                     ", lock '%.*s'",
                     w->index, (int)e->lock.size, e->lock.data);
        }
        return;
    }
    CHECK(wait == NULL);
    wait = memory_new(sizeof *wait);
    wait->owner = copy(e->owner);
    wait->session = e->session;
    wait->wait_index = wait_of(w, e);
    wait->is_upgrade = w->command->op == OP_CONVERT;
    if (w->command->op == OP_ACQUIRE) {
        const struct acquire_command *acquire = w->command->acquire;
        wait->is_shared = acquire->mode == LOCK_SHARED;
        wait->is_slots = acquire->mode == LOCK_SLOTS;
        wait->is_several = acquire->name_count > 1;
    }
    list_push_back(&lock->waits, &wait->in_lock);
}

static void write_wait_end(const struct writing *w, const struct effect *e)
{
    struct past_lock *lock = obtain_lock(w->history, e->lock);
    struct past_wait *wait = find_wait(lock, wait_of(w, e));
    if (wait == NULL) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "a wait that ends was in the queue: entry %" PRIu64
                 ", lock '%.*s'",
                 w->index, (int)e->lock.size, e->lock.data);
        return;
    }
    drop_wait(wait);
}

static bool is_before(const struct past_wait *a, const struct past_wait *b)
{
    if (a->is_upgrade != b->is_upgrade) {
        return a->is_upgrade;
    }
    return a->wait_index < b->wait_index;
}

/* SWEEP has yet to end it: meanwhile others are granted the lock, and it is
 * not. */
static bool is_to_end(const struct writing *w, const struct past_wait *wait)
{
    const struct session *session = lockfsm_session(w->fsm, wait->session);
    return sim_history_ended(w->history, wait->session) != 0 ||
           (session != NULL && session->blacklist_index != 0) ||
           !sim_rights_lets_wait(w->history->rights,
                                 wait->wait_index - w->offset);
}

/* Removes the granted waits; none of the remaining ones may have been ahead of
 * them. */
static void settle_queue(const struct writing *w, struct past_lock *lock)
{
    LIST_EACH_SAFE (node, &lock->waits) {
        struct past_wait *granted = LIST_ENTRY(node, struct past_wait, in_lock);
        if (!granted->is_granted) {
            continue;
        }
        LIST_EACH (other, &lock->waits) {
            struct past_wait *wait = LIST_ENTRY(other, struct past_wait,
                                                in_lock);
            if (!wait->is_granted && is_before(wait, granted) &&
                !lets_pass(wait, granted->is_shared, granted->is_slots) &&
                !is_to_end(w, wait)) {
                sim_fail(w->sim, ORACLE_ORDER,
                         "first come, first served: entry %" PRIu64
                         " grants '%.*s' to the wait of entry %" PRIu64
                         " before that of %" PRIu64,
                         w->index, (int)lock->name_size, lock->name,
                         granted->wait_index, wait->wait_index);
            }
        }
        drop_wait(granted);
    }
}

static void compare_lock(const struct writing *w, struct past_lock *lock)
{
    struct bytes name = bytes_of(lock->name, lock->name_size);
    const struct lock *real = lockfsm_lock(w->fsm, name);
    uint32_t holds = 0, exclusive = 0, waits = 0;
    LIST_EACH (node, &lock->grants) {
        const struct past_grant *grant = LIST_ENTRY(node, struct past_grant,
                                                    in_lock);
        if (grant->to != NEVER) {
            continue;
        }
        holds++;
        exclusive += grant->is_exclusive ? 1 : 0;
        const struct hold *hold = real == NULL ? NULL
                                               : lockfsm_hold(w->fsm, real,
                                                              grant->session,
                                                              grant->owner);
        if (hold == NULL || hold->token != grant->token) {
            sim_fail(w->sim, ORACLE_GRANTS,
                     "effects report what happened: after entry %" PRIu64
                     " the holder of '%.*s' is not who was granted it",
                     w->index, (int)name.size, name.data);
        }
    }
    LIST_EACH (node, &lock->waits) {
        waits++;
    }
    if (holds != (real == NULL ? 0 : real->hold_count) ||
        waits != (real == NULL ? 0 : real->wait_count)) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "effects report what happened: after entry %" PRIu64
                 " '%.*s' has %u holds and %u waits, by its effects "
                 "%u and %u",
                 w->index, (int)name.size, name.data,
                 real == NULL ? 0 : real->hold_count,
                 real == NULL ? 0 : real->wait_count, holds, waits);
    }
    if (exclusive > 0 && holds > 1) {
        sim_fail(w->sim, ORACLE_GRANTS,
                 "one owner per exclusive lock: after entry %" PRIu64
                 " '%.*s' has %u",
                 w->index, (int)name.size, name.data, holds);
    }
}

/* --- Sessions ------------------------------------------------------------- */

static void write_opened(const struct writing *w, const struct effect *e)
{
    if (past_find_session(w->history, e->session) != NULL) {
        sim_fail(w->sim, ORACLE_DEATH,
                 "a session id is never reused: %" PRIu64 " at entry %" PRIu64,
                 e->session, w->index);
        return;
    }
    struct past_session *session = memory_new(sizeof *session);
    session->id = e->session;
    session->ttl_ms = e->time_ms;
    session->opened_ns = w->sim->now_ns;
    HASH_ADD(hh, w->history->sessions, id, sizeof session->id, session);
}

/* The leader's clock runs at most at 1.1: since the newest heartbeat that was
 * answered OK at least T/1.1 of true time must have passed. With linger a close
 * may have been seen. */
static void check_expiry(const struct writing *w,
                         const struct past_session *session)
{
    w->sim->stats.expired++;
    uint64_t least_ms = session->ttl_ms;
    if (session->linger_ms != 0 && session->linger_ms < least_ms) {
        least_ms = session->linger_ms;
    }
    uint64_t least_ns = least_ms * SIM_MS * 10 / 11;
    uint64_t quiet_ns = w->sim->now_ns - session->beat_sent_ns;
    if (session->beat_sent_ns != 0 && quiet_ns < least_ns) {
        sim_fail(w->sim, ORACLE_LEASES,
                 "no session expires too early: %" PRIu64 " at entry %" PRIu64
                 ", %" PRIu64
                 " ms after a heartbeat that was answered, %" PRIu64
                 " ms promised",
                 session->id, w->index, quiet_ns / SIM_MS, least_ms);
    }
    const char *believer = sim_clients_believe_in(w->sim, session->id);
    if (believer != NULL) {
        sim_fail(w->sim, ORACLE_LEASES,
                 "the client ends first: %s trusts session %" PRIu64
                 ", which entry %" PRIu64 " expires",
                 believer, session->id, w->index);
    }
}

static void write_ended(const struct writing *w, const struct effect *e)
{
    struct past_session *session = past_find_session(w->history, e->session);
    if (session == NULL || session->ended_index != 0) {
        sim_fail(w->sim, ORACLE_DEATH,
                 "a session ends once: %" PRIu64 " at entry %" PRIu64,
                 e->session, w->index);
        return;
    }
    session->ended_index = w->index;
    session->is_blacklisted = e->reason != NULL &&
                              strcmp(e->reason, "blacklisted") == 0;
    if (e->reason != NULL && session->ttl_ms != 0 &&
        (strcmp(e->reason, "expired") == 0 ||
         strcmp(e->reason, "blacklisted") == 0)) {
        check_expiry(w, session);
    }
    if (e->reason != NULL && strcmp(e->reason, "died") == 0 &&
        sim_clients_use(w->sim, session->id)) {
        sim_fail(w->sim, ORACLE_LEASES,
                 "DIED ends only sessions of the dead: %" PRIu64
                 " at entry %" PRIu64,
                 session->id, w->index);
    }
}

/* True if the entry sets the time of a Redis value that the session holds. */
static bool sets_time(const struct writing *w, uint64_t session)
{
    if (w->command->op != OP_REDIS) {
        return false;
    }
    const struct redis_command *redis = w->command->redis;
    for (uint32_t i = 0; i < redis->key_count; i++) {
        const struct redis_key *key = &redis->keys[i];
        if ((key->ttl_ms != 0 || key->is_durable) &&
            past_holds(w->history, key->name, session)) {
            return true;
        }
    }
    return false;
}

/* No client sends heartbeats for a Redis value: the requests that set its time
 * keep its session alive, whichever client sends them. */
static void write_renewed(const struct writing *w, const struct effect *e)
{
    struct past_session *session = past_find_session(w->history, e->session);
    if (session == NULL || session->ended_index != 0) {
        sim_fail(w->sim, ORACLE_DEATH,
                 "dead stays dead: entry %" PRIu64 " renews session %" PRIu64
                 ", which has ended",
                 w->index, e->session);
        return;
    }
    if (!sets_time(w, e->session)) {
        sim_fail(w->sim, ORACLE_PROGRESS,
                 "only a request for its value renews a session: entry %" PRIu64
                 " renews %" PRIu64,
                 w->index, e->session);
    }
    session->renewed_ns = w->sim->now_ns;
    session->ttl_ms = e->time_ms;
}

/* --- Exactly once --------------------------------------------------------- */

/* An OPEN does not yet belong to a session. */
static const struct origin *origin_of(const struct entry *c)
{
    return c->op == OP_OPEN ? NULL : entry_origin(c);
}

static bool changes_locks(const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        switch (effects->effect[i].type) {
        case EFFECT_GRANTED:
        case EFFECT_RELEASED:
        case EFFECT_WAIT_ENDED:
        case EFFECT_HOLD_EXPIRED:
            return true;
        default:
            break;
        }
    }
    return false;
}

/* Refusals that depend on the moment are not stored. */
static bool is_kept(enum result_code code)
{
    return code == RESULT_OK || code == RESULT_NOT_ACQUIRED ||
           code == RESULT_NOT_HELD || code == RESULT_QUEUED;
}

static bool ends_wait(const struct writing *w, uint64_t wait_index,
                      enum result_code code)
{
    for (uint32_t i = 0; i < w->effects->count; i++) {
        const struct effect *effect = &w->effects->effect[i];
        if (effect->type == EFFECT_WAIT_RESULT &&
            wait_of(w, effect) == wait_index) {
            return effect->result.code == code;
        }
    }
    return false;
}

/* A wait ends when it is repeated without WAIT, or by a blacklisted session. */
static void write_repetition(const struct writing *w, uint64_t req,
                             struct past_request *past,
                             const struct result *result)
{
    bool is_over = (result->code == RESULT_NOT_ACQUIRED ||
                    result->code == RESULT_BLACKLISTED) &&
                   ends_wait(w, past->wait_index, result->code);
    bool is_same = past->wait_index != 0
                       ? result->code == RESULT_QUEUED || is_over
                       : result->code == past->result.code &&
                             result->token == past->result.token &&
                             result->count == past->result.count;
    if (!is_same || (past->wait_index == 0 && changes_locks(w->effects))) {
        sim_fail(w->sim, ORACLE_RESULTS,
                 "a request takes effect once: REQ %" PRIu64
                 " of entry %" PRIu64 " was asked again in entry %" PRIu64
                 " and had another result (%d, was %d)",
                 req, past->result.first_index, w->index, (int)result->code,
                 (int)past->result.code);
    }
}

static void acknowledge(struct past_session *session,
                        const struct origin *origin)
{
    if (origin->acked > session->acked) {
        session->acked = origin->acked;
    }
    for (size_t i = 0; i < 2 * origin->also_acked_count; i += 2) {
        if (origin->also_acked[i + 1] > session->acked) {
            buffer_put_u64(&session->also, origin->also_acked[i]);
            buffer_put_u64(&session->also, origin->also_acked[i + 1]);
        }
    }
}

static bool is_acked(const struct past_session *session, uint64_t req)
{
    struct reader reader = reader_of(buffer_bytes(&session->also));
    bool is_found = req <= session->acked;
    while (reader_left(&reader) > 0) {
        uint64_t from = reader_u64(&reader);
        uint64_t to = reader_u64(&reader);
        is_found |= req >= from && req <= to;
    }
    return is_found;
}

static void write_result(const struct writing *w, const struct effect *e)
{
    sim_full_check(w->sim, w->history->promises, w->index, w->command,
                   &e->result, w->fsm);
    const struct origin *origin = origin_of(w->command);
    if (origin == NULL || origin->req == 0) {
        return;
    }
    struct past_session *session = past_find_session(w->history,
                                                     origin->session);
    if (session == NULL || session->ended_index != 0) {
        if (is_kept(e->result.code) && e->result.code != RESULT_NOT_HELD) {
            sim_fail(w->sim, ORACLE_DEATH,
                     "dead stays dead: entry %" PRIu64
                     " does what session %" PRIu64 " asks, which has "
                     "ended",
                     w->index, origin->session);
        }
        return;
    }
    acknowledge(session, origin);
    if (is_acked(session, origin->req)) {
        if (is_kept(e->result.code) || changes_locks(w->effects)) {
            sim_fail(w->sim, ORACLE_RESULTS,
                     "an acknowledged request is refused forever: REQ %" PRIu64
                     " in entry %" PRIu64,
                     origin->req, w->index);
        }
        return;
    }
    struct past_request *past = past_find_request(w->history, origin->session,
                                                  origin->req);
    if (past != NULL) {
        write_repetition(w, origin->req, past, &e->result);
        return;
    }
    if (!is_kept(e->result.code)) {
        return;
    }
    struct bytes key = past_key(w->history, origin->session, origin->req);
    past = memory_new(sizeof *past + key.size);
    past->key_size = key.size;
    memcpy(past->key, key.data, key.size);
    past->result = (struct past_result){
        .code = e->result.code,
        .token = e->result.token,
        .count = e->result.count,
        .first_index = w->index,
    };
    past->wait_index = e->result.code == RESULT_QUEUED ? wait_of(w, e) : 0;
    HASH_ADD_KEYPTR(hh, w->history->requests, past->key, past->key_size, past);
}

static void write_wait_result(const struct writing *w, const struct effect *e)
{
    struct past_request *request, *next;
    HASH_ITER (hh, w->history->requests, request, next) {
        if (request->wait_index != 0 && request->wait_index == wait_of(w, e)) {
            request->wait_index = 0;
            request->result.code = e->result.code;
            request->result.token = e->result.token;
            request->result.count = e->result.count;
        }
    }
}

/* --- Writing -------------------------------------------------------------- */

static void write_effect(const struct writing *w, const struct effect *e)
{
    switch (e->type) {
    case EFFECT_SESSION_OPENED:
        write_opened(w, e);
        break;
    case EFFECT_SESSION_ENDED:
        write_ended(w, e);
        break;
    case EFFECT_SESSION_CHANGED:
        if (past_is_renewal(e)) {
            write_renewed(w, e);
        }
        break;
    case EFFECT_GRANTED:
        write_grant(w, e);
        break;
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        write_end(w, e);
        break;
    case EFFECT_QUEUED:
        write_wait(w, e);
        break;
    case EFFECT_WAIT_ENDED:
        write_wait_end(w, e);
        break;
    case EFFECT_WAIT_RESULT:
        write_wait_result(w, e);
        break;
    default:
        break;
    }
    sim_say(w->sim, NULL,
            "    effect %d session %" PRIu64 " lock %.*s owner "
            "%.*s token %" PRIu64 " wait %" PRIu64 " code %d %s",
            (int)e->type, e->session, (int)e->lock.size,
            (const char *)e->lock.data, (int)e->owner.size,
            (const char *)e->owner.data, e->token, e->wait_index,
            (int)e->result.code, e->reason != NULL ? e->reason : "");
}

/* An earlier entry had its number, if it has one. */
static bool is_repeated(const struct writing *w)
{
    const struct origin *origin = origin_of(w->command);
    return origin != NULL && origin->req != 0 &&
           sim_promises_entry_of(w->history->promises, origin->session,
                                 origin->req) != w->index;
}

void sim_history_write(struct sim_history *history, uint64_t place,
                       const struct replica_entry *entry,
                       const struct effects *effects, const struct lockfsm *fsm)
{
    if (entry->type != ENTRY_COMMAND) {
        return;
    }
    static const char *const names[] = {
#define ENTRY(number, NAME, name, ...) [OP_##NAME] = #name,
#include "lockfsm/entry.def"
    };
    struct arena arena = {0};
    struct codec_level level;
    struct entry decoded;
    CHECK(entry_get(entry->body, &arena, &decoded, &level));
    const struct entry *command = &decoded;
    struct writing w = {
        .history = history,
        .sim = history->sim,
        .fsm = fsm,
        .effects = effects,
        .index = place,
        .offset = place - entry->log_index,
        .token = lockfsm_token_base(fsm) + entry->log_index,
        .command = command,
    };
    sim_say(w.sim, NULL, "  entry %" PRIu64 " (place %" PRIu64 "): %s",
            entry->log_index, w.index, names[command->op]);
    sim_promises_entry(history->promises, w.index, command, origin_of(command),
                       effects);
    sim_pushes_entry(history->pushes, effects);
    sim_rights_entry(history->rights, w.index, w.token, command,
                     is_repeated(&w), effects, fsm);
    /* Results first: they refer to the sessions as they were. */
    for (uint32_t i = 0; i < effects->count; i++) {
        if (effects->effect[i].type == EFFECT_RESULT) {
            write_result(&w, &effects->effect[i]);
        }
    }
    for (uint32_t i = 0; i < effects->count; i++) {
        write_effect(&w, &effects->effect[i]);
    }
    sim_silence_entry(history->silence, entry, command, effects, fsm);
    sim_full_entry(w.sim, &history->uses, w.index, fsm);
    struct past_lock *lock, *next;
    HASH_ITER (hh, history->locks, lock, next) {
        settle_queue(&w, lock);
        compare_lock(&w, lock);
    }
    arena_done(&arena);
}

/* --- A new life ----------------------------------------------------------- */

static void drop_lock(struct past_lock *lock, uint64_t place)
{
    LIST_EACH (node, &lock->grants) {
        struct past_grant *grant = LIST_ENTRY(node, struct past_grant, in_lock);
        grant->to = grant->to == NEVER ? place : grant->to;
    }
    LIST_EACH_SAFE (node, &lock->waits) {
        drop_wait(LIST_ENTRY(node, struct past_wait, in_lock));
    }
}

static void keep_holds(struct sim_history *history, uint64_t place,
                       const struct lock *kept)
{
    struct past_lock *lock = obtain_lock(history, kept->name);
    LIST_FOR (const struct hold, hold, &kept->holds, in_lock) {
        struct past_grant *grant = memory_new(sizeof *grant);
        grant->owner = copy(hold->owner);
        grant->session = hold->session->id;
        grant->token = hold->token;
        grant->from = place;
        grant->to = NEVER;
        grant->is_exclusive = kept->mode == LOCK_EXCLUSIVE;
        list_push_back(&lock->grants, &grant->in_lock);
    }
}

void sim_history_begin_life(struct sim_history *history, uint64_t place,
                            const struct lockfsm *fsm)
{
    struct past_session *session, *next_session;
    HASH_ITER (hh, history->sessions, session, next_session) {
        if (lockfsm_session(fsm, session->id) != NULL) {
            session->ended_index = 0; /* It may have ended since the backup. */
        } else if (session->ended_index == 0) {
            session->ended_index = place;
            session->is_dropped = true;
        }
    }
    struct past_lock *lock, *next_lock;
    HASH_ITER (hh, history->locks, lock, next_lock) {
        drop_lock(lock, place);
    }
    for (const struct lock *kept = lockfsm_locks(fsm); kept != NULL;
         kept = kept->by_name.next) {
        keep_holds(history, place, kept);
    }
    sim_rights_begin_life(history->rights, place, fsm);
}

void sim_history_follow(struct sim_history *history,
                        struct sim_silence *silence)
{
    history->silence = silence;
}

struct sim_promises *sim_history_promises(struct sim_history *history)
{
    return history->promises;
}

struct sim_rights *sim_history_rights(const struct sim_history *history)
{
    return history->rights;
}

struct sim_pushes *sim_history_pushes(struct sim_history *history)
{
    return history->pushes;
}
