/* SPDX-License-Identifier: MIT */

/* Exactly once: a request that comes again under its number gets the result of
 * the first time.
 *
 * Numbers are those of a session: each is used for one request, whoever its
 * owner is. One that an entry had, or acknowledged, is spent for ever
 * (numbers.c), and so can never be done again. Its result is kept until it is
 * acknowledged; of those that are not, the newest ANSWERED_COUNT_MAX of a
 * session; refusals are results, too. A request that was queued has no result
 * yet: its record names the place, a repetition waits at the same place, and
 * the end of the wait fills the record (kept_finish). What tells two
 * requests of one number apart is a hash of the command.
 *
 * What is refused for its number is not kept: a spent one without a result, one
 * used for another command, too many that wait. */

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

static bool is_acked(const struct origin *origin, uint64_t req)
{
    if (req <= origin->acked) {
        return true;
    }
    for (uint32_t i = 0; i < origin->also_acked_count; i++) {
        if (req >= origin->also_acked[2 * i] &&
            req <= origin->also_acked[2 * i + 1]) {
            return true;
        }
    }
    return false;
}

/* Takes note of what is over. One that waits is dropped when it is answered and
 * its client says so again. */
static void acknowledge(struct lockfsm *fsm, struct session *session)
{
    const struct origin *origin = &fsm->origin;
    if (origin->acked == 0 && origin->also_acked_count == 0) {
        return;
    }
    struct numbers *numbers = numbers_obtain(fsm, session);
    numbers_spend(fsm, numbers, 1, origin->acked);
    for (uint32_t i = 0; i < origin->also_acked_count; i++) {
        numbers_spend(fsm, numbers, origin->also_acked[2 * i],
                      origin->also_acked[2 * i + 1]);
    }
    LIST_EACH_SAFE (node, &numbers->answered) {
        struct kept_result *kept = LIST_ENTRY(node, struct kept_result,
                                              in_order);
        if (is_acked(origin, kept->req)) {
            kept_drop(fsm, kept);
        }
    }
}

/* True if the request is new; else 'result' has the answer, except for one that
 * still waits: it is to be applied, and finds its place. */
static bool is_new(struct lockfsm *fsm, const struct session *session,
                   uint64_t hash, struct result *result, bool *ret_is_waiting)
{
    const struct origin *origin = &fsm->origin;
    const struct kept_result *kept = kept_find(fsm, session->id, origin->req);
    const struct asker *asker = asker_find(fsm, session->id, origin->owner);
    *ret_is_waiting = false;
    if (kept != NULL && kept->hash != hash) {
        refuse(result, RESULT_BAD_ARGUMENT,
               "the number was used for another command");
    } else if (kept != NULL && kept->wait_index != 0) {
        *ret_is_waiting = true;
    } else if (kept != NULL) {
        kept_result_of(kept, result);
    } else if (session->numbers != NULL &&
               numbers_has(session->numbers, origin->req)) {
        refuse(result, RESULT_FORGOTTEN,
               "the number was used or acknowledged before, and what came of "
               "it is kept no more");
    } else if (asker != NULL && asker->waiting_count >= WAITING_COUNT_MAX) {
        refuse(result, RESULT_LIMIT, "numbers of the owner that wait");
    } else {
        return true;
    }
    return false;
}

/* Commands that only take from the state. Their results are kept all the same;
 * but each of those that did something has made more room than that. */
static bool only_frees(const Hasp__Command *command)
{
    switch (command->op_case) {
    case HASP__COMMAND__OP_RELEASE:
    case HASP__COMMAND__OP_RELEASE_IF:
    case HASP__COMMAND__OP_CLOSE:
    case HASP__COMMAND__OP_CANCEL:
    case HASP__COMMAND__OP_BLACKLIST_ADD:
    case HASP__COMMAND__OP_BLACKLIST_REMOVE:
    case HASP__COMMAND__OP_FENCE_REMOVE:
    case HASP__COMMAND__OP_SET_LIMIT:
        return true;
    case HASP__COMMAND__OP_CONVERT:
        return command->convert->to == HASP__MODE__MODE_SHARED;
    default:
        return false;
    }
}

/* Keeps the result of the entry. It may have ended the session itself. In a
 * full state a refusal is not kept: it has done nothing, so whoever asks again
 * may be told something else. */
static void keep(struct lockfsm *fsm, uint64_t hash,
                 const struct result *result)
{
    const struct origin *origin = &fsm->origin;
    struct session *session = session_find(fsm, origin->session);
    if (session == NULL ||
        (result->code != RESULT_OK && result->code != RESULT_QUEUED &&
         state_is_full(fsm))) {
        return;
    }
    struct numbers *numbers = numbers_obtain(fsm, session);
    numbers_spend(fsm, numbers, origin->req, origin->req);
    struct kept_result *kept = kept_add(fsm, numbers, origin->req);
    kept->hash = hash;
    if (result->code == RESULT_QUEUED) {
        kept->code = RESULT_QUEUED;
        kept->wait_index = fsm->queued_index;
        kept->asker = asker_find(fsm, session->id, origin->owner);
        kept->serial = ++fsm->next_serial;
        kept_link(kept);
        record_changed(fsm, &kept->stored);
    } else {
        kept_answer(fsm, kept, result);
    }
}

void results_run(struct lockfsm *fsm, const Hasp__Command *command,
                 command_fn *apply, struct result *result)
{
    struct session *session;
    bool is_waiting;
    /* OPEN begins where there may be no session that could keep its result. */
    bool may_begin = command->op_case == HASP__COMMAND__OP_OPEN &&
                     session_find(fsm, fsm->origin.session) == NULL;
    if (fsm->origin.req == 0 || may_begin) {
        apply(fsm, command, result);
        return;
    }
    if (!session_find_asking(fsm, &session, result)) {
        return;
    }
    uint64_t hash = mix_bytes(
        command_hash(command),
        (ProtobufCBinaryData){.len = fsm->origin.owner.size,
                              .data = (uint8_t *)fsm->origin.owner.data});
    acknowledge(fsm, session);
    if (is_new(fsm, session, hash, result, &is_waiting)) {
        /* The result, and the numbers. */
        if (only_frees(command) || !growth_is_refused(fsm, 2, 0, result)) {
            apply(fsm, command, result);
        }
        keep(fsm, hash, result);
    } else if (is_waiting) {
        apply(fsm, command, result);
    }
}
