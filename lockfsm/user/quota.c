/* SPDX-License-Identifier: MIT */

/* The use of each user's quotas: updated with every change, recounted when a
 * state is loaded; the invariants compare both. */

#include "lockfsm/user/quota.h"

#include <inttypes.h>

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"
#include "lockfsm/user/user.h"

#define MANY 100000000
#define MIB (UINT64_C(1024) * 1024)
/* The quotas: key, name, greatest, default. */
#define ALL_QUOTAS(X)                            \
    X(SESSIONS, "sessions", MANY, 10000)         \
    X(HOLDS, "holds", MANY, 100000)              \
    X(WAITS, "waits", MANY, 10000)               \
    X(BYTES, "bytes", 64 * 1024 * MIB, 64 * MIB) \
    X(CONNECTIONS, "connections", MANY, 1000)    \
    X(WATCHES, "watches", MANY, 10000)

#define RULE(key, name, max, standard) \
    [QUOTA_##key] = {name, #key, max, standard},
#define STANDARD(key, name, max, standard) [QUOTA_##key] = (standard),

const struct quota_rule quota_rules[QUOTA_COUNT] = {ALL_QUOTAS(RULE)};
const struct quota quota_standard = {{ALL_QUOTAS(STANDARD)}};

/* --- Bounds --------------------------------------------------------------- */

uint64_t user_bound(const struct user *user, enum quota_key key)
{
    return user->number == USER_ANYONE || user->number == USER_LOCAL
               ? UINT64_MAX
               : user->bound.of[key];
}

uint64_t user_use(const struct user *user, enum quota_key key)
{
    return user->use.of[key] +
           (key == QUOTA_HOLDS ? user->use.of[QUOTA_WAITS] : 0);
}

bool quota_refuses(const struct user *user, enum quota_key key, uint64_t use,
                   uint64_t more, struct buffer *out)
{
    uint64_t bound = user_bound(user, key);
    if (more == 0 || (use <= bound && more <= bound - use)) {
        return false;
    }
    buffer_printf(out,
                  "%s of user '%.*s'%s: %" PRIu64 " of %" PRIu64
                  " are in use, and %" PRIu64
                  " more asked for; end some, or have it raised by an "
                  "administrator: hasp user set %.*s --%s N",
                  quota_rules[key].name, (int)user->name.size,
                  (const char *)user->name.data,
                  quota_is_local(key) ? " at this node" : "", use, bound, more,
                  (int)user->name.size, (const char *)user->name.data,
                  quota_rules[key].name);
    return true;
}

bool user_growth_is_refused(struct lockfsm *fsm, const struct quota *more,
                            struct result *result)
{
    const struct user *user = fsm->entry.user;
    struct buffer *why = &fsm->scratch.refusal;
    for (int i = 0; user != NULL && !quota_is_local((enum quota_key)i); i++) {
        enum quota_key key = (enum quota_key)i;
        buffer_clear(why);
        if (quota_refuses(user, key, user_use(user, key), more->of[key], why)) {
            result->code = RESULT_QUOTA;
            result->text = effect_copy(fsm, buffer_bytes(why));
            return true;
        }
    }
    return false;
}

bool user_is_full(const struct user *user)
{
    return user != NULL && user_bound(user, QUOTA_BYTES) <
                               user_use(user, QUOTA_BYTES) + RECORD_SIZE;
}

/* --- Counting ------------------------------------------------------------- */

void user_takes(struct user *user, enum quota_key key, uint64_t count)
{
    CHECK(!quota_is_local(key));
    user->use.of[key] += count;
}

void user_gives(struct user *user, enum quota_key key, uint64_t count)
{
    CHECK(user->use.of[key] >= count);
    user->use.of[key] -= count;
}

/* --- What users have left ------------------------------------------------- */

struct left {
    uint64_t payer; /* The user's number; 0 if nothing is left there. */
    uint64_t bytes;
    bool is_there;
};

/* Finds the next LEFT_ row of the structure from '*at' on. */
static bool next_left(const struct stored *stored, struct bytes name,
                      size_t *at, struct left *ret_left)
{
    const struct codec_message *owned = record_kinds[stored->kind].owned();
    const char *structure = structure_of(stored);
    while (*at < owned->field_count && !owned->fields[*at].payer_offset) {
        ++*at;
    }
    if (*at == owned->field_count) {
        return false;
    }
    const struct codec_field *field = &owned->fields[(*at)++];
    const void *member = structure + field->offset;
    bool is_text = field->type == CODEC_TYPE_BYTES;
    uint64_t value = is_text ? ((const struct bytes *)member)->size
                             : *(const uint64_t *)member;
    CHECK(is_text || field->type == CODEC_TYPE_U64);
    ret_left->payer = *(const uint64_t *)(const void *)(structure +
                                                        field->payer_offset);
    ret_left->bytes = left_bytes(name, is_text ? value : 0);
    ret_left->is_there = value != 0;
    return true;
}

void payers_count(const struct lockfsm *fsm, const struct stored *stored,
                  struct bytes name, user_count_fn *count)
{
    struct left left;
    if (!has_payer(stored)) {
        return;
    }
    for (size_t at = 0; next_left(stored, name, &at, &left);) {
        struct user *user = user_numbered(fsm, left.payer);
        if (user != NULL) {
            count(user, QUOTA_BYTES, left.bytes);
        }
    }
}

bool has_payer(const struct stored *stored)
{
    return record_kinds[stored->kind].is_left(structure_of(stored));
}

bool payers_are_right(const struct stored *stored)
{
    struct left left;
    for (size_t at = 0;
         next_left(stored, (struct bytes){NULL, 0}, &at, &left);) {
        if (left.is_there != (left.payer != 0)) {
            return false;
        }
    }
    return true;
}

/* --- Sizes ---------------------------------------------------------------- */

uint64_t place_bytes(struct bytes lock, struct bytes owner, struct bytes value)
{
    return RECORD_SIZE + lock.size + owner.size + value.size;
}

uint64_t left_bytes(struct bytes name, uint64_t text_size)
{
    return RECORD_SIZE + name.size + text_size;
}

uint64_t kept_bytes(const struct kept_result *kept)
{
    return RECORD_SIZE + kept->text.size +
           (kept->token_count > 1 ? kept->token_count * sizeof(uint64_t) : 0);
}

uint64_t numbers_bytes(const struct numbers *numbers)
{
    return numbers->spent_count == 0
               ? 0
               : RECORD_SIZE + numbers->spent_count * 2 * sizeof(uint64_t);
}

static uint64_t bytes_of_results(const struct list *results)
{
    uint64_t bytes = 0;
    LIST_FOR (const struct kept_result, kept, results, in_order) {
        bytes += kept_bytes(kept);
    }
    return bytes;
}

uint64_t session_bytes(const struct session *session)
{
    uint64_t bytes = structure_size(&session->stored);
    LIST_FOR (const struct waiter, waiter, &session->waiters, in_session) {
        bytes += waiter->owner.size + bytes_of_results(&waiter->waiting);
    }
    if (session->numbers != NULL) {
        bytes += numbers_bytes(session->numbers) +
                 bytes_of_results(&session->numbers->answered);
    }
    return bytes;
}

/* --- Recounting ----------------------------------------------------------- */

static void recount_session(const struct session *session)
{
    struct quota *count = &session->user->recounted;
    count->of[QUOTA_SESSIONS]++;
    count->of[QUOTA_HOLDS] += session->hold_count;
    count->of[QUOTA_WAITS] += session->wait_count;
    count->of[QUOTA_BYTES] += session_bytes(session);
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        count->of[QUOTA_BYTES] += place_bytes(hold->lock->name, hold->owner,
                                              hold->value);
    }
    LIST_FOR (const struct wait, wait, &session->waits, in_session) {
        count->of[QUOTA_BYTES] += place_bytes(wait->lock->name, wait->owner,
                                              wait->value);
    }
}

static void recount_takes(struct user *user, enum quota_key key, uint64_t count)
{
    user->recounted.of[key] += count;
}

static void quota_recount_all(const struct lockfsm *fsm)
{
    user_numbered(fsm, USER_ANYONE)->recounted = (struct quota){0};
    user_numbered(fsm, USER_LOCAL)->recounted = (struct quota){0};
    HASH_FOR (struct user, user, fsm->access.users, by_name) {
        user->recounted = (struct quota){0};
    }
    SESSION_EACH (const struct session, session, fsm) {
        recount_session(session);
    }
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        payers_count(fsm, &lock->stored, lock->name, recount_takes);
    }
    HASH_FOR (const struct fence, fence, fsm->fences, by_resource) {
        payers_count(fsm, &fence->stored, fence->resource, recount_takes);
    }
}

void quota_recount(struct lockfsm *fsm)
{
    quota_recount_all(fsm);
    fsm->access.anyone.use = fsm->access.anyone.recounted;
    fsm->access.local.use = fsm->access.local.recounted;
    HASH_FOR (struct user, user, fsm->access.users, by_name) {
        user->use = user->recounted;
    }
}

static bool quota_user_is_right(const struct user *user)
{
    return memcmp(&user->use, &user->recounted, sizeof user->use) == 0;
}

bool quota_is_right(const struct lockfsm *fsm)
{
    bool all = true;
    quota_recount_all(fsm);
    HASH_FOR (const struct user, user, fsm->access.users, by_name) {
        all &= quota_user_is_right(user);
    }
    return all && quota_user_is_right(&fsm->access.anyone) &&
           quota_user_is_right(&fsm->access.local);
}
