/* SPDX-License-Identifier: MIT */

#include "core/authorize.h"

#include <string.h>

#include "base/check.h"
#include "core/command.h"
#include "core/events/watches.h"
#include "core/read_index.h"
#include "core/request.h"
#include "core/state.h"

/* The size of a refusal's text; a longer one is cut. */
#define WHY_SIZE 1024

static bool authorize_is_free(const struct core *core,
                              const struct request *request)
{
    return request->user == USER_LOCAL ||
           (request->user == USER_ANYONE &&
            !lockfsm_access_is_required(core->fsm));
}

/* Refuses the request, or delays that until it is confirmed that no other node
 * leads. */
static bool authorize_refuse(struct core *core, struct request *request,
                             enum core_word word, struct bytes why,
                             bool is_final)
{
    char text[WHY_SIZE];
    size_t size = why.size < sizeof text - 1 ? why.size : sizeof text - 1;
    if (!is_final && !request->is_confirmed) {
        request->must_be_refused = true;
        read_index_enqueue(core, request);
        return false;
    }
    CHECK(size < sizeof text);
    memcpy(text, why.data, size);
    text[size] = '\0';
    return request_refuse(core, request, word, text);
}

static bool refuse_verb(struct core *core, struct request *request,
                        enum verb verb, struct bytes name, bool is_final)
{
    return authorize_refuse(
        core, request, WORD_NOPERM,
        lockfsm_refusal(core->fsm, lockfsm_user(core->fsm, request->user), verb,
                        name),
        is_final);
}

static bool authorize_verb(struct core *core, struct request *request,
                           enum verb verb, struct bytes name,
                           enum extent extent, bool is_final)
{
    return lockfsm_may(core->fsm, lockfsm_user(core->fsm, request->user), verb,
                       name, extent, NULL) ||
           refuse_verb(core, request, verb, name, is_final);
}

static bool passes_who(struct core *core, struct request *request,
                       bool is_final)
{
    const char *why;
    return identity_is_good(core, request->user, request->secret_number,
                            &why) ||
           authorize_refuse(core, request, WORD_NOAUTH, bytes_of_text(why),
                            is_final);
}

static bool passes_names(struct core *core, struct request *request,
                         const struct bytes *names, uint32_t count,
                         bool is_final)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!authorize_verb(core, request, VERB_READ, names[i], EXTENT_NAME,
                            is_final)) {
            return false;
        }
    }
    return true;
}

/* True if a right lets the user know the key, or the user owns its value. */
static bool knows_key(const struct core *core, const struct user *user,
                      struct bytes key)
{
    const struct hold *hold;
    return lockfsm_may(core->fsm, user, VERB_LOCK, key, EXTENT_NAME, NULL) ||
           lockfsm_may(core->fsm, user, VERB_READ, key, EXTENT_NAME, NULL) ||
           lockfsm_redis(core->fsm, user, key, &hold) == REDIS_VALUE;
}

bool authorize_passes_keys(struct core *core, struct request *request,
                           const struct call *call, bool is_final)
{
    const struct user *user = lockfsm_user(core->fsm, request->user);
    for (uint32_t i = 0;
         i < call->name_count && !authorize_is_free(core, request); i++) {
        if (!knows_key(core, user, call->names[i])) {
            return refuse_verb(core, request, VERB_LOCK, call->names[i],
                               is_final);
        }
    }
    return true;
}

static bool passes_read(struct core *core, struct request *request,
                        const struct call *call, bool is_final)
{
    uint32_t key_at = call->command->key_at;
    if (call->name_count > 0) {
        return passes_names(core, request, call->names, call->name_count,
                            is_final);
    }
    CHECK(key_at < call->count && (key_at != 0 || call->name.size > 0));
    return key_at != 0 ? passes_names(core, request, &call->argument[key_at],
                                      call->count - key_at, is_final)
                       : passes_names(core, request, &call->name, 1, is_final);
}

static bool passes_watch(struct core *core, struct request *request,
                         const struct call *call, enum watch_kind kind)
{
    for (uint32_t i = 1; i < call->count; i++) {
        struct bytes name;
        enum extent extent;
        if (watch_tells(kind, call->argument[i], &extent, &name) &&
            !authorize_verb(core, request, VERB_READ, name, extent, true)) {
            return false;
        }
    }
    return true;
}

static bool passes_prefix(struct core *core, struct request *request,
                          const struct call *call, bool is_final)
{
    struct bytes prefix = call_has(call, OPTION_PREFIX)
                              ? call->text[OPTION_PREFIX]
                              : call->name;
    return authorize_verb(core, request, VERB_READ, prefix, EXTENT_PREFIX,
                          is_final);
}

/* True for a command whose pushes continue after its answer. */
static bool is_watch(const struct command *command)
{
    return (command->flags & COMMAND_LOCAL) != 0 &&
           (command->needs == NEEDS_READ_PREFIX ||
            command->needs == NEEDS_READ_CHANNELS ||
            command->needs == NEEDS_READ_PATTERNS);
}

bool authorize_passes(struct core *core, struct request *request,
                      const struct call *call, bool is_final)
{
    static const struct bytes none = {NULL, 0};
    enum command_needs needs = request->command->needs;
    CHECK(needs != NEEDS_MISSING);
    bool is_guarded = needs == NEEDS_ACCESS || needs == NEEDS_BACKUP;
    if ((authorize_is_free(core, request) && !is_guarded) ||
        needs == NEEDS_NOTHING) {
        return true;
    }
    if (!passes_who(core, request, is_final)) {
        return false;
    }
    /* A watch outlives its answer, and this node may have missed that the right
     * was revoked. */
    if (is_watch(request->command) && request->user != USER_LOCAL &&
        identity_is_blind(core)) {
        return authorize_refuse(
            core, request, WORD_NOLEADER,
            BYTES_LITERAL("this node has heard no leader for 10 s, so "
                          "it does not know who may watch"),
            true);
    }
    switch (needs) {
    case NEEDS_MISSING:
    case NEEDS_NOTHING:
    case NEEDS_USER:
    case NEEDS_ENTRY:
        return true;
    case NEEDS_READ:
        return passes_read(core, request, call, is_final);
    case NEEDS_READ_PREFIX:
        return passes_prefix(core, request, call, is_final);
    case NEEDS_READ_CHANNELS:
        return passes_watch(core, request, call, WATCH_CHANNEL);
    case NEEDS_READ_PATTERNS:
        return passes_watch(core, request, call, WATCH_PATTERN);
    case NEEDS_SESSIONS:
        return authorize_verb(core, request, VERB_SESSIONS, none, EXTENT_NAME,
                              is_final);
    case NEEDS_CLUSTER:
        return authorize_verb(core, request, VERB_CLUSTER, none, EXTENT_NAME,
                              is_final);
    case NEEDS_BACKUP:
        return authorize_verb(core, request, VERB_BACKUP, none, EXTENT_NAME,
                              is_final);
    case NEEDS_AUDIT:
        return authorize_verb(core, request, VERB_AUDIT, none, EXTENT_NAME,
                              is_final);
    case NEEDS_ADMIN:
        return authorize_verb(core, request, VERB_ADMIN, none, EXTENT_NAME,
                              is_final);
    case NEEDS_ACCESS:
        return authorize_verb(core, request, VERB_ACCESS, none, EXTENT_NAME,
                              is_final);
    }
    UNREACHABLE();
}

bool authorize_is_own(struct core *core, struct request *request,
                      const struct call *call)
{
    struct result result;
    if (lockfsm_cell_count(core->fsm) == 0 ||
        request->command->needs != NEEDS_READ ||
        (request->command->flags & COMMAND_REDIS) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < call->name_count; i++) {
        if (lockfsm_name_is_foreign(core->fsm, call->names[i], &result)) {
            return authorize_refuse(core, request, WORD_FOREIGN, result.text,
                                    true);
        }
    }
    return true;
}

bool authorize_has(const struct core *core, const struct request *request,
                   enum verb verb)
{
    return lockfsm_may(core->fsm, lockfsm_user(core->fsm, request->user), verb,
                       (struct bytes){NULL, 0}, EXTENT_NAME, NULL);
}

bool authorize_reads(const struct core *core, const struct request *request,
                     struct bytes name)
{
    return authorize_is_free(core, request) ||
           lockfsm_may(core->fsm, lockfsm_user(core->fsm, request->user),
                       VERB_READ, name, EXTENT_NAME, NULL);
}

bool authorize_sees(const struct core *core, const struct request *request,
                    uint64_t user)
{
    return request->user == user || authorize_has(core, request, VERB_SESSIONS);
}

/* A repeated request may have been executed before: then the log knows its
 * result. */
bool authorize_refuses_entry(struct core *core, struct request *request,
                             const struct entry *entry)
{
    struct result result = {.code = RESULT_OK};
    CHECK(entry->op != OP_NONE && entry->user == request->user);
    if (request->req != 0 ||
        !(authorize_is_free(core, request)
              ? cells_refuse(core->fsm, entry, &result)
              : lockfsm_refuses(core->fsm, entry, &result))) {
        return false;
    }
    (void)authorize_refuse(core, request, result_word(result.code),
                           result_text(result.code, result.text), false);
    return true;
}
