/* SPDX-License-Identifier: MIT */

/* Creates and frees the state, applies entries, and answers queries about the
 * state. */

#include "lockfsm/lockfsm.h"

#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/feature.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

const char *lock_mode_name(enum lock_mode mode)
{
    switch (mode) {
    case LOCK_EXCLUSIVE:
        return "exclusive";
    case LOCK_SHARED:
        return "shared";
    case LOCK_SLOTS:
        return "slots";
    }
    UNREACHABLE();
}

static void lockfsm_init(struct lockfsm *fsm)
{
    fsm->limits = lockfsm_default_limits;
    list_init(&fsm->durable);
    list_init(&fsm->left.to_sweep);
    list_init(&fsm->left.to_recheck);
    list_init(&fsm->left.cut);
    list_init(&fsm->blacklist);
    list_init(&fsm->members.list);
    list_init(&fsm->acts.list);
    list_init(&fsm->cells.list);
    users_init(fsm);
    list_init(&fsm->settle.touched);
    list_init(&fsm->settle.unbacked);
    list_init(&fsm->waits);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        list_init(&fsm->ledger.changed[kind]);
        list_init(&fsm->ledger.settled[kind]);
    }
}

struct lockfsm *lockfsm_new(void)
{
    struct lockfsm *fsm = memory_new(sizeof *fsm);
    fsm->node_level = FEATURE_LEVEL;
    fsm->slice = SLICE_DEFAULT;
    lockfsm_init(fsm);
    return fsm;
}

/* Frees everything except 'fsm' itself. The pool frees what it contains. */
static void lockfsm_done(struct lockfsm *fsm)
{
    HASH_CLEAR(by_id, fsm->sessions);
    HASH_CLEAR(by_id, fsm->left.swept);
    HASH_CLEAR(by_name, fsm->locks);
    HASH_CLEAR(by_resource, fsm->fences);
    users_done(fsm);
    HASH_CLEAR(by_fingerprint, fsm->access.revocations);
    former_done(fsm);
    holder_index_done(&fsm->places);
    pool_done(&fsm->pool);
    arena_done(&fsm->scratch.decoded);
    buffer_done(&fsm->ledger.deleted);
    buffer_done(&fsm->scratch.identity);
    buffer_done(&fsm->scratch.refusal);
    buffer_done(&fsm->scratch.listed);
    buffer_done(&fsm->scratch.what);
    deadlock_search_free(fsm->search);
    max_counter_done(&fsm->uses.places_of_session);
    max_counter_done(&fsm->uses.waits_of_session);
    max_counter_done(&fsm->uses.waits_of_lock);
    max_counter_done(&fsm->uses.owners_of_session);
}

void lockfsm_free(struct lockfsm *fsm)
{
    if (fsm != NULL) {
        lockfsm_done(fsm);
        free(fsm);
    }
}

void lockfsm_reset(struct lockfsm *fsm)
{
    uint32_t node_level = fsm->node_level;
    uint32_t slice = fsm->slice;
    lockfsm_done(fsm);
    *fsm = (struct lockfsm){.node_level = node_level, .slice = slice};
    lockfsm_init(fsm);
}

/* --- Applying ------------------------------------------------------------- */

static command_fn *const commands[] = {
#define ENTRY(number, NAME, name, ...) [OP_##NAME] = apply_##name,
#include "lockfsm/entry.def"
};

int lockfsm_apply(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                  struct bytes command, struct effects *effects)
{
    struct entry decoded;
    struct codec_level needed;
    CHECK(log_index > fsm->applied_index);
    arena_reset(&fsm->scratch.decoded);
    if (!entry_get(command, &fsm->scratch.decoded, &decoded, &needed)) {
        return HASP_ECORRUPT;
    }
    if (needed.level > fsm->node_level ||
        command_raises_to(fsm, &decoded) > fsm->node_level) {
        return HASP_ETOOOLD;
    }
    if (decoded.op == OP_NONE) {
        return HASP_ECORRUPT;
    }
    const struct origin *origin = entry_origin(&decoded);
    fsm->entry = (struct applying){
        .log_index = log_index,
        .effects = effects,
        .origin = origin != NULL ? *origin : (struct origin){0},
        .user = user_numbered(fsm, decoded.user),
        .slice_left = fsm->slice,
        .grants_left = fsm->slice,
        .looks_left = (uint64_t)fsm->slice * LOOKS_PER_PLACE,
        .edges_left = DEADLOCK_STEP_MAX,
        .reductions_left = REDUCTION_STEP_MAX,
    };
    trail_note(fsm, &decoded);
    uint32_t slot = effects->count;
    effect_add(fsm, EFFECT_RESULT);
    struct result result = {.code = RESULT_OK};
    if (needed.level <= lockfsm_feature_level(fsm)) {
        dedup_run(fsm, &decoded, commands[decoded.op], &result);
    } else {
        /* No leader proposes such an entry. */
        entry_refuse(&result, RESULT_LEVEL, needed.what);
    }
    finish_entry(fsm);
    CHECK_SLOW(fsm->entry.steps <= lockfsm_step_max(fsm));
    CHECK(IMPLIES(result.code == RESULT_QUEUED, fsm->entry.queued_index != 0));
    audit_note(fsm, &decoded, &result);

    struct result copy;
    effect_copy_result(fsm, &copy, &result);
    struct effect *effect = &effects->effect[slot];
    effect->result = copy;
    effect->session = fsm->entry.origin.session;
    effect->wait_index = fsm->entry.queued_index;
    fsm->applied_index = log_index;
    fsm->applied_term = term;
    fsm->entry.effects = NULL;
    return 0;
}

void lockfsm_skip(struct lockfsm *fsm, uint64_t log_index, uint64_t term)
{
    CHECK(log_index > fsm->applied_index);
    trail_none(fsm);
    fsm->applied_index = log_index;
    fsm->applied_term = term;
}

/* --- Reading -------------------------------------------------------------- */

uint64_t lockfsm_applied_index(const struct lockfsm *fsm)
{
    return fsm->applied_index;
}

uint64_t lockfsm_applied_term(const struct lockfsm *fsm)
{
    return fsm->applied_term;
}

uint64_t lockfsm_flushed_index(const struct lockfsm *fsm)
{
    return fsm->ledger.flushed_index;
}

uint64_t lockfsm_token_base(const struct lockfsm *fsm)
{
    return fsm->epoch.token_base;
}

void lockfsm_cluster_id(const struct lockfsm *fsm,
                        uint8_t ret_id[CLUSTER_ID_SIZE])
{
    memcpy(ret_id, fsm->epoch.cluster_id, sizeof fsm->epoch.cluster_id);
}

bool lockfsm_former_id(const struct lockfsm *fsm, uint32_t at,
                       uint8_t ret_id[CLUSTER_ID_SIZE])
{
    const uint8_t *id = fsm->epoch.former_ids + (size_t)at * CLUSTER_ID_SIZE;
    if (at >= FORMER_ID_MAX || !cluster_id_is_known(id)) {
        return false;
    }
    memcpy(ret_id, id, CLUSTER_ID_SIZE);
    return true;
}

uint64_t lockfsm_steps(const struct lockfsm *fsm)
{
    return fsm->entry.steps;
}

uint64_t lockfsm_step_max(const struct lockfsm *fsm)
{
    return STEPS_PER_ENTRY + fsm->slice * STEPS_PER_PLACE;
}

void lockfsm_set_node_level(struct lockfsm *fsm, uint32_t level)
{
    fsm->node_level = level;
}

void lockfsm_set_slice(struct lockfsm *fsm, uint32_t slice)
{
    CHECK(slice > 0);
    fsm->slice = slice;
}

bool lockfsm_has_limits(const struct lockfsm *fsm)
{
    return fsm->limit_count > 0;
}

uint64_t lockfsm_quarantine(const struct lockfsm *fsm, uint64_t *ret_ms)
{
    if (ret_ms != NULL) {
        *ret_ms = fsm->epoch.quarantine_ms;
    }
    return fsm->epoch.quarantine_index;
}

uint64_t lockfsm_quarantine_clock(const struct lockfsm *fsm)
{
    return fsm->epoch.quarantine_clock_ms;
}

const struct session *lockfsm_session(const struct lockfsm *fsm, uint64_t id)
{
    return session_find(fsm, id);
}

bool lockfsm_is_rechecked(const struct lockfsm *fsm,
                          const struct session *session)
{
    return reevaluate_has_reached(fsm, session) && session->recheck_serial == 0;
}

const struct lock *lockfsm_lock(const struct lockfsm *fsm, struct bytes name)
{
    return lock_find(fsm, name);
}

const struct hold *lockfsm_hold(const struct lockfsm *fsm,
                                const struct lock *lock, uint64_t session,
                                struct bytes owner)
{
    return hold_find(fsm, lock, session, owner);
}

uint32_t lockfsm_fence_count(const struct lockfsm *fsm)
{
    return HASH_CNT(by_resource, fsm->fences);
}

struct treap *lockfsm_fence_order(struct lockfsm *fsm)
{
    return &fsm->fence_order;
}

struct treap *lockfsm_lock_order(struct lockfsm *fsm)
{
    return &fsm->lock_order;
}

struct treap *lockfsm_session_order(struct lockfsm *fsm)
{
    return &fsm->session_order;
}

struct treap *lockfsm_session_order_of(struct lockfsm *fsm, uint64_t user)
{
    struct user *found = user_numbered(fsm, user);
    CHECK(found != NULL);
    return &found->sessions;
}

struct treap *lockfsm_hold_order(struct lockfsm *fsm, uint64_t session)
{
    struct session *found = session_find(fsm, session);
    return found != NULL ? &found->hold_order : NULL;
}

uint64_t lockfsm_newest_token(const struct lockfsm *fsm)
{
    return fsm->epoch.token_base + fsm->applied_index;
}

const struct fence *lockfsm_fence(const struct lockfsm *fsm,
                                  struct bytes resource)
{
    return fence_find(fsm, resource);
}

const struct session *lockfsm_sessions(const struct lockfsm *fsm)
{
    return fsm->sessions;
}

const struct lock *lockfsm_locks(const struct lockfsm *fsm)
{
    return fsm->locks;
}

const struct list *lockfsm_blacklist(const struct lockfsm *fsm)
{
    return &fsm->blacklist;
}

const struct blacklisting *lockfsm_blacklisting(const struct lockfsm *fsm,
                                                uint64_t since_index)
{
    return blacklist_find(fsm, since_index);
}

bool lockfsm_kept_result(const struct lockfsm *fsm, uint64_t session,
                         uint64_t req, struct result *ret_result)
{
    const struct kept_result *kept = result_cache_find(fsm, session, req);
    if (kept == NULL || kept->wait_index != 0 ||
        kept->numbers->session->end != SESSION_LIVES) {
        return false;
    }
    result_cache_result_of(kept, ret_result);
    return true;
}

bool lockfsm_was_asked(const struct lockfsm *fsm, uint64_t session,
                       uint64_t req)
{
    const struct session *found = session_find(fsm, session);
    return found != NULL && found->numbers != NULL &&
           request_ids_has(found->numbers, req);
}
