/* SPDX-License-Identifier: MIT */

#include "lockfsm/lockfsm.h"

#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/feature.h"
#include "lockfsm/state.h"

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

static void init(struct lockfsm *fsm)
{
    fsm->limits = lockfsm_default_limits;
    list_init(&fsm->blacklist);
    list_init(&fsm->members);
    list_init(&fsm->touched);
    list_init(&fsm->unbacked);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        list_init(&fsm->changed[kind]);
        list_init(&fsm->settled[kind]);
    }
}

struct lockfsm *lockfsm_new(void)
{
    struct lockfsm *fsm = memory_new(sizeof *fsm);
    fsm->node_level = FEATURE_LEVEL;
    init(fsm);
    return fsm;
}

/* Frees all but 'fsm' itself. What the pool holds goes with the pool. */
static void done(struct lockfsm *fsm)
{
    HASH_CLEAR(by_id, fsm->sessions);
    HASH_CLEAR(by_name, fsm->locks);
    HASH_CLEAR(by_resource, fsm->fences);
    places_done(&fsm->places);
    pool_done(&fsm->pool);
    arena_done(&fsm->decoded);
    buffer_done(&fsm->deleted);
    deadlock_search_free(fsm->search);
    tally_done(&fsm->places_of_session);
    tally_done(&fsm->waits_of_session);
    tally_done(&fsm->waits_of_lock);
    tally_done(&fsm->owners_of_session);
}

void lockfsm_free(struct lockfsm *fsm)
{
    if (fsm != NULL) {
        done(fsm);
        free(fsm);
    }
}

void lockfsm_reset(struct lockfsm *fsm)
{
    uint32_t node_level = fsm->node_level;
    done(fsm);
    *fsm = (struct lockfsm){.node_level = node_level};
    init(fsm);
}

/* --- Applying ------------------------------------------------------------- */

/* In the order of command.proto's numbers. */
static command_fn *const commands[] = {
    [HASP__COMMAND__OP_BEGIN] = apply_begin,
    [HASP__COMMAND__OP_OPEN] = apply_open,
    [HASP__COMMAND__OP_CLOSE] = apply_close,
    [HASP__COMMAND__OP_EXPIRE] = apply_expire,
    [HASP__COMMAND__OP_ACQUIRE] = apply_acquire,
    [HASP__COMMAND__OP_RELEASE] = apply_release,
    [HASP__COMMAND__OP_RELEASE_IF] = apply_release_if,
    [HASP__COMMAND__OP_CONVERT] = apply_convert,
    [HASP__COMMAND__OP_CANCEL] = apply_cancel,
    [HASP__COMMAND__OP_WAIT_TIMEOUT] = apply_wait_timeout,
    [HASP__COMMAND__OP_DELAY_OVER] = apply_delay_over,
    [HASP__COMMAND__OP_HOLD_OVER] = apply_hold_over,
    [HASP__COMMAND__OP_PLEASE] = apply_please,
    [HASP__COMMAND__OP_BLACKLIST_ADD] = apply_blacklist_add,
    [HASP__COMMAND__OP_BLACKLIST_REMOVE] = apply_blacklist_remove,
    [HASP__COMMAND__OP_BLACKLIST_OVER] = apply_blacklist_over,
    [HASP__COMMAND__OP_FENCE_ADMIT] = apply_fence_admit,
    [HASP__COMMAND__OP_QUARANTINE_OVER] = apply_quarantine_over,
    [HASP__COMMAND__OP_REDIS_SET] = apply_redis_set,
    [HASP__COMMAND__OP_REDIS_DELETE] = apply_redis_delete,
    [HASP__COMMAND__OP_REDIS_EXPIRE] = apply_redis_expire,
    [HASP__COMMAND__OP_REGISTER] = apply_register,
    [HASP__COMMAND__OP_SET_FEATURE] = apply_set_feature,
    [HASP__COMMAND__OP_ACT] = apply_act,
    [HASP__COMMAND__OP_TIME] = apply_time,
    [HASP__COMMAND__OP_HEARD] = apply_heard,
    [HASP__COMMAND__OP_FENCE_REMOVE] = apply_fence_remove,
#ifdef HASP_FEATURE_LEVEL_EXTRA
    [HASP__COMMAND__OP_TRIAL] = apply_trial,
#endif
    [HASP__COMMAND__OP_SET_LIMIT] = apply_set_limit,
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

Hasp__Command *command_decode(struct lockfsm *fsm, struct bytes command)
{
    ProtobufCAllocator allocator = arena_allocator(&fsm->decoded);
    arena_reset(&fsm->decoded);
    return hasp__command__unpack(&allocator, command.size, command.data);
}

static bool has_op(const Hasp__Command *command)
{
    return (size_t)command->op_case < COMMAND_COUNT &&
           commands[command->op_case] != NULL;
}

static const Hasp__Origin *origin_in(const Hasp__Command *command)
{
    switch (command->op_case) {
    case HASP__COMMAND__OP_OPEN:
        return command->open->origin;
    case HASP__COMMAND__OP_CLOSE:
        return command->close->origin;
    case HASP__COMMAND__OP_ACQUIRE:
        return command->acquire->origin;
    case HASP__COMMAND__OP_RELEASE:
        return command->release->origin;
    case HASP__COMMAND__OP_RELEASE_IF:
        return command->release_if->origin;
    case HASP__COMMAND__OP_CONVERT:
        return command->convert->origin;
    case HASP__COMMAND__OP_CANCEL:
        return command->cancel->origin;
    case HASP__COMMAND__OP_PLEASE:
        return command->please->origin;
    case HASP__COMMAND__OP_BLACKLIST_ADD:
        return command->blacklist_add->origin;
    case HASP__COMMAND__OP_BLACKLIST_REMOVE:
        return command->blacklist_remove->origin;
    case HASP__COMMAND__OP_FENCE_ADMIT:
        return command->fence_admit->origin;
    case HASP__COMMAND__OP_SET_LIMIT:
        return command->set_limit->origin;
    case HASP__COMMAND__OP_FENCE_REMOVE:
        return command->fence_remove->origin;
    default:
        return NULL;
    }
}

static struct origin origin_of(const Hasp__Command *command)
{
    const Hasp__Origin *origin = origin_in(command);
    if (origin == NULL) {
        return (struct origin){0};
    }
    return (struct origin){
        .session = origin->session,
        .owner = bytes_from(origin->owner),
        .req = origin->req,
        .acked = origin->acked,
        .also_acked = origin->also_acked,
        .also_acked_count = (uint32_t)(origin->n_also_acked / 2)};
}

int lockfsm_apply(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                  struct bytes command, struct effects *effects)
{
    const char *what;
    CHECK(log_index > fsm->applied_index);
    const Hasp__Command *decoded = command_decode(fsm, command);
    if (decoded == NULL) {
        return HASP_ECORRUPT;
    }
    uint32_t level = command_level(decoded, &what);
    if (level > fsm->node_level ||
        command_raises_to(fsm, decoded) > fsm->node_level) {
        return HASP_ETOOOLD;
    }
    if (!has_op(decoded)) {
        return HASP_ECORRUPT;
    }
    fsm->log_index = log_index;
    fsm->effects = effects;
    fsm->origin = origin_of(decoded);
    fsm->queued_index = 0;
    trail_note(fsm, decoded);
    uint32_t slot = effects->count;
    effect_add(fsm, EFFECT_RESULT);
    struct result result = {.code = RESULT_OK};
    if (level <= lockfsm_feature_level(fsm)) {
        results_run(fsm, decoded, commands[decoded->op_case], &result);
    } else {
        refuse(&result, RESULT_LEVEL, what); /* No leader proposes it. */
    }
    settle(fsm);

    struct result copy;
    effect_copy_result(fsm, &copy, &result);
    struct effect *effect = &effects->effect[slot];
    effect->result = copy;
    effect->session = fsm->origin.session;
    effect->token = result.token;
    effect->wait_index = fsm->queued_index;
    fsm->applied_index = log_index;
    fsm->applied_term = term;
    fsm->effects = NULL;
    return 0;
}

void lockfsm_skip(struct lockfsm *fsm, uint64_t log_index, uint64_t term)
{
    CHECK(log_index > fsm->applied_index);
    fsm->trail.command = NULL;
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
    return fsm->flushed_index;
}

uint64_t lockfsm_token_base(const struct lockfsm *fsm)
{
    return fsm->token_base;
}

void lockfsm_cluster_id(const struct lockfsm *fsm,
                        uint8_t ret_id[CLUSTER_ID_SIZE])
{
    memcpy(ret_id, fsm->cluster_id, sizeof fsm->cluster_id);
}

void lockfsm_set_node_level(struct lockfsm *fsm, uint32_t level)
{
    fsm->node_level = level;
}

bool lockfsm_has_limits(const struct lockfsm *fsm)
{
    return fsm->limit_count > 0;
}

uint64_t lockfsm_quarantine(const struct lockfsm *fsm, uint64_t *ret_ms)
{
    if (ret_ms != NULL) {
        *ret_ms = fsm->quarantine_ms;
    }
    return fsm->quarantine_index;
}

uint64_t lockfsm_quarantine_clock(const struct lockfsm *fsm)
{
    return fsm->quarantine_clock_ms;
}

const struct session *lockfsm_session(const struct lockfsm *fsm, uint64_t id)
{
    return session_find(fsm, id);
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

const struct fence *lockfsm_fences(const struct lockfsm *fsm)
{
    return fsm->fences;
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
    const struct kept_result *kept = kept_find(fsm, session, req);
    if (kept == NULL || kept->wait_index != 0) {
        return false;
    }
    kept_result_of(kept, ret_result);
    return true;
}

bool lockfsm_was_asked(const struct lockfsm *fsm, uint64_t session,
                       uint64_t req)
{
    const struct session *found = session_find(fsm, session);
    return found != NULL && found->numbers != NULL &&
           numbers_has(found->numbers, req);
}

uint32_t lockfsm_level_of(struct lockfsm *fsm, struct bytes command,
                          const char **ret_what)
{
    const Hasp__Command *decoded = command_decode(fsm, command);
    *ret_what = "";
    return decoded == NULL ? FEATURE_LEVEL_UNKNOWN
                           : command_level(decoded, ret_what);
}
