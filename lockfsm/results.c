/* SPDX-License-Identifier: MIT */

/* Exactly once: a request that comes again under its number gets the result of
 * the first time.
 *
 * Results are kept by (session, owner, req) until acknowledged or until the
 * session ends; refusals are results, too. A request that was queued has no
 * result yet: its record names the place, a repetition waits at the same place,
 * and the end of the wait fills the record (results_finish). What tells two
 * requests of one number apart is a hash of the command.
 *
 * Not kept, since nothing was done and the number is the mistake: a number that
 * was acknowledged, a number used for another command, too many results. */

#include "lockfsm/state.h"

/* Two multiplications per eight bytes; the same on every node, whatever the
 * seed of the hash tables. It guards against a client's mistake, not against an
 * enemy, who could only fool himself. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, ProtobufCBinaryData data)
{
    hash = mix(hash, data.len);
    size_t at = 0;
    for (; at + 8 <= data.len; at += 8) {
        hash = mix(hash, load_u64(data.data + at));
    }
    uint8_t rest[8] = {0};
    if (at < data.len) {
        memcpy(rest, data.data + at, data.len - at);
        hash = mix(hash, load_u64(rest));
    }
    return hash;
}

static uint64_t mix_names(uint64_t hash, const ProtobufCBinaryData *names,
                          size_t count)
{
    hash = mix(hash, count);
    for (size_t i = 0; i < count; i++) {
        hash = mix_bytes(hash, names[i]);
    }
    return hash;
}

static uint64_t hash_acquire(uint64_t hash, const Hasp__Acquire *message)
{
    hash = mix_names(hash, message->names, message->n_names);
    hash = mix(hash, (uint64_t)message->mode);
    hash = mix(hash, message->slots);
    hash = mix(hash, (uint64_t)message->is_barging);
    hash = mix_bytes(hash, message->value);
    hash = mix(hash, message->delay_ms);
    return mix(hash, message->hold_ms);
}

/* Not of the address, which a repetition may have changed. */
static uint64_t hash_open(uint64_t hash, const Hasp__Open *message)
{
    hash = mix_bytes(hash, message->proof);
    hash = mix(hash, message->ttl_ms);
    hash = mix(hash, message->linger_ms);
    hash = mix_bytes(hash, message->name);
    for (size_t i = 0; i < message->n_labels; i++) {
        hash = mix_bytes(hash, message->labels[i]->key);
        hash = mix_bytes(hash, message->labels[i]->value);
    }
    return hash;
}

static uint64_t hash_blacklist_add(uint64_t hash,
                                   const Hasp__BlacklistAdd *message)
{
    hash = mix(hash, message->session);
    hash = mix_bytes(hash, message->client);
    hash = mix_bytes(hash, message->reason);
    hash = mix_bytes(hash, message->by);
    return mix(hash, message->for_ms);
}

static uint64_t hash_release_if(uint64_t hash, const Hasp__ReleaseIf *message)
{
    hash = mix_bytes(hash, message->name);
    hash = mix(hash, message->session);
    hash = mix_bytes(hash, message->owner);
    return mix(hash, message->token);
}

/* A hash of what the command asks; not of ACKED, nor of how long it would wait,
 * which a repetition may change. */
static uint64_t command_hash(const Hasp__Command *command)
{
    uint64_t hash = mix(0, (uint64_t)command->op_case);
    switch (command->op_case) {
    case HASP__COMMAND__OP_OPEN:
        return hash_open(hash, command->open);
    case HASP__COMMAND__OP_ACQUIRE:
        return hash_acquire(hash, command->acquire);
    case HASP__COMMAND__OP_RELEASE:
        hash = mix_names(hash, command->release->names,
                         command->release->n_names);
        hash = mix(hash, command->release->token);
        return command->release->is_counting ? mix(hash, 1) : hash;
    case HASP__COMMAND__OP_RELEASE_IF:
        return hash_release_if(hash, command->release_if);
    case HASP__COMMAND__OP_CONVERT:
        hash = mix_bytes(hash, command->convert->name);
        return mix(hash, (uint64_t)command->convert->to);
    case HASP__COMMAND__OP_CANCEL:
        return mix_bytes(hash, command->cancel->name);
    case HASP__COMMAND__OP_PLEASE:
        hash = mix_bytes(hash, command->please->name);
        return mix_bytes(hash, command->please->message);
    case HASP__COMMAND__OP_BLACKLIST_ADD:
        return hash_blacklist_add(hash, command->blacklist_add);
    case HASP__COMMAND__OP_BLACKLIST_REMOVE:
        hash = mix(hash, command->blacklist_remove->session);
        return mix_bytes(hash, command->blacklist_remove->client);
    case HASP__COMMAND__OP_FENCE_ADMIT:
        hash = mix_bytes(hash, command->fence_admit->resource);
        return mix(hash, command->fence_admit->token);
    case HASP__COMMAND__OP_SET_LIMIT:
        hash = mix(hash, command->set_limit->key);
        return mix(hash, command->set_limit->value);
    case HASP__COMMAND__OP_FENCE_REMOVE:
        return mix_bytes(hash, command->fence_remove->resource);
    default:
        return hash; /* The others have no REQ, or nothing but it. */
    }
}

struct kept_result *results_add(struct lockfsm *fsm, struct asker *asker,
                                uint64_t req)
{
    struct kept_result *kept = pool_take(&fsm->pool, sizeof *kept);
    kept->asker = asker;
    kept->req = req;
    stored_init(&kept->stored);
    list_push_back(&asker->results, &kept->in_asker);
    asker->result_count++;
    asker->session->result_count++;
    return kept;
}

void results_drop(struct lockfsm *fsm, struct kept_result *kept)
{
    result_gone(fsm, kept);
    list_remove(&kept->in_asker);
    kept->asker->result_count--;
    kept->asker->session->result_count--;
    if (kept->tokens != NULL) {
        pool_give(&fsm->pool, kept->tokens,
                  kept->token_count * sizeof(uint64_t));
    }
    pool_drop(&fsm->pool, &kept->text);
    pool_give(&fsm->pool, kept, sizeof *kept);
}

struct kept_result *results_find(const struct asker *asker, uint64_t req)
{
    /* From the newest, which is what is asked for most. */
    for (const struct list *node = asker->results.prev; node != &asker->results;
         node = node->prev) {
        struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                              in_asker);
        if (kept->req == req) {
            return kept;
        }
    }
    return NULL;
}

void results_restore(struct lockfsm *fsm, struct kept_result *kept,
                     const struct result *result)
{
    CHECK(kept->tokens == NULL);
    CHECK(kept->text.size == 0);
    kept->code = result->code;
    kept->token = result->token;
    kept->count = result->count;
    kept->text = pool_copy(&fsm->pool, result->text);
    kept->token_count = result->token_count;
    if (result->token_count > 1) {
        size_t size = result->token_count * sizeof(uint64_t);
        kept->tokens = pool_take(&fsm->pool, size);
        memcpy(kept->tokens, result->tokens, size);
    }
}

static void results_fill(struct lockfsm *fsm, struct kept_result *kept,
                         const struct result *result)
{
    results_restore(fsm, kept, result);
    kept->wait_index = 0;
    result_changed(fsm, kept);
}

void results_finish(struct lockfsm *fsm, struct asker *asker,
                    uint64_t wait_index, const struct result *result)
{
    LIST_EACH (node, &asker->results) {
        struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                              in_asker);
        if (kept->wait_index == wait_index) {
            results_fill(fsm, kept, result);
        }
    }
}

void result_of_kept(const struct kept_result *kept, struct result *ret_result)
{
    *ret_result = (struct result){
        .code = kept->code,
        .token = kept->token,
        .count = kept->count,
        .tokens = kept->token_count > 1 ? kept->tokens : &kept->token,
        .token_count = kept->token_count,
        .text = kept->text};
}

/* Takes note that everything up to 'acked' has been answered. */
static void acknowledge(struct lockfsm *fsm, struct asker *asker,
                        uint64_t acked)
{
    if (acked <= asker->acked) {
        return;
    }
    asker->acked = acked;
    asker_changed(fsm, asker);
    LIST_EACH_SAFE (node, &asker->results) {
        struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                              in_asker);
        if (kept->req <= acked) {
            results_drop(fsm, kept);
        }
    }
}

/* True if the request is new and may be kept; else 'result' has the answer,
 * except for one that still waits (its record in 'ret_waiting'): it is to be
 * applied, and finds its place. */
static bool is_new(struct lockfsm *fsm, const struct session *session,
                   struct asker *asker, uint64_t hash, struct result *result,
                   bool *ret_is_waiting)
{
    const struct origin *origin = &fsm->origin;
    *ret_is_waiting = false;
    uint64_t acked = asker != NULL ? asker->acked : 0;
    if (origin->req <= origin->acked || origin->req <= acked) {
        refuse(result, RESULT_BAD_ARGUMENT, "the number was acknowledged");
        return false;
    }
    if (asker == NULL) {
        if (session->asker_count >= fsm->limits.of[LIMIT_OWNERS_PER_SESSION]) {
            refuse(result, RESULT_LIMIT, "owners of the session");
            return false;
        }
        return true;
    }
    acknowledge(fsm, asker, origin->acked);
    struct kept_result *kept = results_find(asker, origin->req);
    if (kept == NULL) {
        if (asker->result_count >= RESULT_COUNT_MAX) {
            refuse(result, RESULT_LIMIT, "unacknowledged results");
            return false;
        }
        return true;
    }
    if (kept->hash != hash) {
        refuse(result, RESULT_BAD_ARGUMENT,
               "the number was used for another command");
    } else if (kept->wait_index != 0) {
        *ret_is_waiting = true;
    } else {
        result_of_kept(kept, result);
    }
    return false;
}

/* Keeps the result of the entry. It may have ended the session itself. */
static void keep(struct lockfsm *fsm, uint64_t hash,
                 const struct result *result)
{
    const struct origin *origin = &fsm->origin;
    struct session *session = session_find(fsm, origin->session);
    if (session == NULL) {
        return;
    }
    struct asker *asker = asker_obtain(fsm, session, origin->owner);
    acknowledge(fsm, asker, origin->acked);
    struct kept_result *kept = results_add(fsm, asker, origin->req);
    kept->hash = hash;
    if (result->code == RESULT_QUEUED) {
        kept->wait_index = fsm->queued_index;
        kept->code = RESULT_QUEUED;
        result_changed(fsm, kept);
    } else {
        results_fill(fsm, kept, result);
    }
}

/* OPEN begins where there may be no session yet. Its number is kept with the
 * session that asks, if there is one, and with the new one, which asks when the
 * same connection repeats it; and as that of an owner whom no client knows,
 * since the new session's own numbers begin from 1. */
static void run_open(struct lockfsm *fsm, const Hasp__Command *command,
                     command_fn *apply, struct result *result)
{
    struct session *session = session_find(fsm, fsm->origin.session);
    uint64_t hash = command_hash(command);
    bool is_waiting;
    fsm->origin.owner = BYTES_LITERAL("\0SESSION.OPEN");
    if (session != NULL) {
        struct asker *asker = asker_find(fsm, session->id, fsm->origin.owner);
        if (!is_new(fsm, session, asker, hash, result, &is_waiting)) {
            return;
        }
    }
    apply(fsm, command, result);
    keep(fsm, hash, result);
    if (result->code == RESULT_OK) {
        fsm->origin.session = result->token;
        keep(fsm, hash, result);
    }
}

void results_run(struct lockfsm *fsm, const Hasp__Command *command,
                 command_fn *apply, struct result *result)
{
    struct session *session;
    if (fsm->origin.req == 0) {
        apply(fsm, command, result);
        return;
    }
    if (command->op_case == HASP__COMMAND__OP_OPEN) {
        run_open(fsm, command, apply, result);
        return;
    }
    if (!find_asking_session(fsm, &session, result)) {
        return;
    }
    struct asker *asker = asker_find(fsm, session->id, fsm->origin.owner);
    uint64_t hash = command_hash(command);
    bool is_waiting;
    if (is_new(fsm, session, asker, hash, result, &is_waiting)) {
        apply(fsm, command, result);
        keep(fsm, hash, result);
    } else if (is_waiting) {
        apply(fsm, command, result);
    }
}
