/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_may.h"

#include <string.h>

#include "base/check.h"

void right_name_set(char to[16], struct bytes from)
{
    CHECK(from.size < 16);
    memset(to, 0, 16);
    memcpy(to, from.size > 0 ? from.data : (const uint8_t *)"", from.size);
}

bool right_name_is(const char *name, struct bytes bytes)
{
    return bytes_equal(bytes_of_text(name), bytes);
}

const struct right_user *rights_user(const struct rights *rights,
                                     const char *name)
{
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        if (rights->user[i].name[0] != '\0' &&
            strcmp(rights->user[i].name, name) == 0) {
            return &rights->user[i];
        }
    }
    return NULL;
}

static const struct right_user *numbered(const struct rights *rights,
                                         uint64_t number)
{
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        if (rights->user[i].number == number && number != 0) {
            return &rights->user[i];
        }
    }
    return NULL;
}

const struct right_role *rights_role(const struct rights *rights,
                                     const char *name)
{
    for (int i = 0; i < RIGHT_ROLE_MAX; i++) {
        if (rights->role[i].is_there &&
            strcmp(rights->role[i].name, name) == 0) {
            return &rights->role[i];
        }
    }
    return NULL;
}

bool rights_are_revoked(const struct rights *rights,
                        const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    for (uint32_t i = 0; i < rights->revoked_count; i++) {
        if (memcmp(rights->revoked[i], fingerprint, FINGERPRINT_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

/* --- Who may -------------------------------------------------------------- */

static bool has_verb(uint32_t verbs, enum verb verb)
{
    return (verbs >> verb & 1) != 0;
}

static bool role_allows(const struct right_role *role, enum verb verb,
                        struct bytes name, enum extent extent)
{
    for (uint32_t i = 0; i < role->grant_count; i++) {
        const struct right_grant *grant = &role->grant[i];
        bool has = has_verb(grant->verbs, verb) ||
                   (verb == VERB_SHARE && has_verb(grant->verbs, VERB_LOCK));
        bool fits = verb >= VERB_SESSIONS ||
                    (grant->is_prefix
                         ? bytes_has_prefix(name, bytes_of_text(grant->name))
                         : extent == EXTENT_NAME &&
                               right_name_is(grant->name, name));
        if (has && fits) {
            return true;
        }
    }
    return false;
}

static enum verdict user_may(const struct rights *rights,
                             const struct right_user *user, enum verb verb,
                             struct bytes name, enum extent extent)
{
    if (user == NULL || user->number == 0 || user->is_disabled) {
        return NO_AUTH;
    }
    for (uint32_t i = 0; i < user->role_count; i++) {
        const struct right_role *role = rights_role(rights, user->role[i]);
        if (strcmp(user->role[i], "admin") == 0 ||
            (role != NULL && role_allows(role, verb, name, extent))) {
            return MAY;
        }
    }
    return NO_PERMISSION;
}

enum verdict rights_allow(const struct rights *rights, uint64_t number,
                          enum verb verb, struct bytes name, enum extent extent)
{
    const struct right_user *user = numbered(rights, number);
    if (number == USER_LOCAL) {
        return MAY;
    }
    if (number == USER_ANYONE) {
        bool is_guarded = verb == VERB_ACCESS || verb == VERB_ADMIN ||
                          verb == VERB_BACKUP;
        return rights->is_required ? NO_AUTH : is_guarded ? NO_PERMISSION : MAY;
    }
    if (verb == VERB_COUNT) {
        return user == NULL || user->is_disabled ? NO_AUTH : MAY;
    }
    return user_may(rights, user, verb, name, extent);
}

uint64_t rights_number(const struct rights *rights, const char *name)
{
    const struct right_user *user = rights_user(rights, name);
    return strcmp(name, "anyone") == 0  ? USER_ANYONE
           : strcmp(name, "local") == 0 ? USER_LOCAL
           : user != NULL               ? user->number
                                        : 0;
}

/* --- As the state has it -------------------------------------------------- */

static void load_user(const struct user *user, struct right_user *mine)
{
    CHECK(user->role_count <= RIGHT_ROLE_MAX);
    right_name_set(mine->name, user->name);
    mine->number = user->number;
    mine->changed = user->changed;
    mine->is_disabled = user->is_disabled;
    mine->role_count = user->role_count;
    for (uint32_t i = 0; i < user->role_count; i++) {
        right_name_set(mine->role[i], user->roles[i].name);
    }
    memcpy(mine->bound, user->bound.of, sizeof mine->bound);
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        struct right_secret *one = &mine->secret[mine->secret_count++];
        one->number = secret->number;
        memcpy(one->hash, secret->hash, sizeof one->hash);
    }
}

static void load_role(const struct role *role, struct right_role *mine)
{
    CHECK(role->grant_count <= RIGHT_GRANT_MAX);
    mine->is_there = true;
    right_name_set(mine->name, role->name);
    mine->changed = role->changed;
    mine->grant_count = role->grant_count;
    for (uint32_t i = 0; i < role->grant_count; i++) {
        mine->grant[i].verbs = role->grants[i].verbs;
        mine->grant[i].is_prefix = role->grants[i].is_prefix;
        right_name_set(mine->grant[i].name, role->grants[i].name);
    }
}

/* The node after 'at', or the first. */
static struct treap_node *next_of(struct treap *order,
                                  const struct treap_node *at)
{
    struct bytes none = {NULL, 0};
    return at == NULL ? treap_from(order, none, 0)
                      : treap_from(order, at->key, at->number + 1);
}

void rights_load(const struct lockfsm *fsm, struct rights *rights)
{
    /* The cast is for the walk; the state does not change. */
    struct lockfsm *state = (struct lockfsm *)(uintptr_t)fsm;
    struct treap *order = lockfsm_user_order(state);
    struct treap_node *at = NULL;
    uint32_t count = 0;
    *rights = (struct rights){.from = rights->from};
    rights->is_required = lockfsm_access_is_required(fsm);
    while ((at = next_of(order, at)) != NULL) {
        CHECK(count < RIGHT_USER_MAX);
        load_user(LIST_ENTRY(at, struct user, in_order), &rights->user[count]);
        count++;
    }
    count = 0;
    order = lockfsm_role_order(state);
    while ((at = next_of(order, at)) != NULL) {
        CHECK(count < RIGHT_ROLE_MAX);
        load_role(LIST_ENTRY(at, struct role, in_order), &rights->role[count]);
        count++;
    }
    order = lockfsm_revocation_order(state);
    while ((at = next_of(order, at)) != NULL) {
        CHECK(rights->revoked_count < RIGHT_REVOKED_MAX);
        memcpy(rights->revoked[rights->revoked_count++],
               LIST_ENTRY(at, struct revocation, in_order)->fingerprint,
               FINGERPRINT_SIZE);
    }
}

bool right_has_secret(const struct right_user *user, const uint8_t *hash)
{
    for (uint32_t i = 0; user != NULL && i < user->secret_count; i++) {
        if (memcmp(user->secret[i].hash, hash, PROOF_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

/* Only the name of a removed user is left. */
static bool is_same_one(const struct right_user *a, const struct right_user *b)
{
    bool is_same = a->number == b->number && a->role_count == b->role_count &&
                   a->secret_count == b->secret_count &&
                   a->is_disabled == b->is_disabled;
    if (!is_same || a->number == 0) {
        return is_same;
    }
    for (uint32_t i = 0; i < a->secret_count; i++) {
        is_same = is_same && right_has_secret(b, a->secret[i].hash);
    }
    return is_same && a->changed == b->changed &&
           memcmp(a->role, b->role, sizeof a->role) == 0 &&
           memcmp(a->bound, b->bound, sizeof a->bound) == 0;
}

static bool has_role(const struct rights *rights, const struct right_role *a)
{
    const struct right_role *b = rights_role(rights, a->name);
    bool is_same = b != NULL && a->changed == b->changed &&
                   a->grant_count == b->grant_count;
    for (uint32_t i = 0; is_same && i < a->grant_count; i++) {
        is_same = a->grant[i].verbs == b->grant[i].verbs &&
                  a->grant[i].is_prefix == b->grant[i].is_prefix &&
                  strcmp(a->grant[i].name, b->grant[i].name) == 0;
    }
    return is_same;
}

/* All that 'a' has, 'b' has. */
static bool has_all(const struct rights *b, const struct rights *a)
{
    bool has = true;
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        const struct right_user *user = &a->user[i];
        const struct right_user *other = rights_user(b, user->name);
        has = has && (user->name[0] == '\0' ||
                      (other != NULL && is_same_one(user, other)));
    }
    for (int i = 0; i < RIGHT_ROLE_MAX; i++) {
        has = has && (!a->role[i].is_there || has_role(b, &a->role[i]));
    }
    for (uint32_t i = 0; i < a->revoked_count; i++) {
        has = has && rights_are_revoked(b, a->revoked[i]);
    }
    return has;
}

bool rights_are_same(const struct rights *a, const struct rights *b)
{
    return a->is_required == b->is_required && has_all(a, b) && has_all(b, a);
}

/* --- What an entry needs -------------------------------------------------- */

struct need {
    enum verb verb; /* VERB_COUNT: to be authenticated. */
    const struct bytes *name;
    uint32_t count;
};

static struct need of_one(enum verb verb, const struct bytes *name)
{
    return (struct need){verb, name, 1};
}

enum verb rights_verb_to_wait(const struct acquire_command *acquire)
{
    bool is_plain = acquire->delay_ms == 0 && acquire->hold_ms == 0;
    return acquire->mode == LOCK_SHARED && is_plain ? VERB_SHARE : VERB_LOCK;
}

static struct need need_of(const struct entry *command)
{
    switch (command->op) {
    case OP_ACQUIRE:
        return (struct need){command->acquire->is_barging
                                 ? VERB_LOCK
                                 : rights_verb_to_wait(command->acquire),
                             command->acquire->names,
                             command->acquire->name_count};
    case OP_CONVERT:
        return of_one(command->convert->to == LOCK_SHARED ? VERB_COUNT
                                                          : VERB_LOCK,
                      &command->convert->name);
    case OP_PLEASE:
        return of_one(VERB_SHARE, &command->please->name);
    case OP_NOTE:
        return of_one(VERB_SHARE, &command->note->name);
    case OP_FENCE_ADMIT:
        return of_one(VERB_FENCE, &command->fence_admit->resource);
    case OP_BREAK_HOLDS:
        return of_one(VERB_KICK, &command->break_holds->name);
    case OP_FENCE_REMOVE:
        return of_one(VERB_KICK, &command->fence_remove->resource);
    case OP_BLACKLIST_ADD:
    case OP_BLACKLIST_REMOVE:
        return (struct need){.verb = VERB_BLACKLIST};
    case OP_SET_FEATURE:
    case OP_QUARANTINE_OVER:
        return (struct need){.verb = VERB_CLUSTER};
    case OP_SET_LIMIT:
        return (struct need){.verb = VERB_ADMIN};
    case OP_USER_SET:
    case OP_USER_REMOVE:
    case OP_SECRET_ADD:
    case OP_SECRET_REMOVE:
    case OP_ROLE_SET:
    case OP_ROLE_REMOVE:
    case OP_ACCESS_SET:
    case OP_CERT_REVOKE:
    case OP_ACT: /* For a local login; see rights_is_own(). */
        return (struct need){.verb = VERB_ACCESS};
    default:
        return (struct need){.verb = VERB_COUNT};
    }
}

bool rights_is_own(const struct entry *command)
{
    switch (command->op) {
    case OP_BEGIN:
    case OP_EXPIRE:
    case OP_SWEEP:
    case OP_TIME:
    case OP_HEARD:
    case OP_WAIT_TIMEOUT:
    case OP_DELAY_OVER:
    case OP_HOLD_OVER:
    case OP_BREAK_OVER:
    case OP_BLACKLIST_OVER:
        return true;
    case OP_SET_FEATURE:
    case OP_QUARANTINE_OVER:
        return command->user == 0;
    default:
        return false;
    }
}

static enum verdict judge_keys(const struct rights *rights, uint64_t user,
                               const struct redis_command *redis)
{
    for (uint32_t i = 0; i < redis->key_count; i++) {
        const struct redis_key *key = &redis->keys[i];
        bool takes = key->change == REDIS_SET || key->change == REDIS_RENEW;
        enum verdict verdict = rights_allow(rights, user,
                                            takes ? VERB_LOCK : VERB_COUNT,
                                            key->name, EXTENT_NAME);
        if (verdict != MAY) {
            return verdict;
        }
    }
    return MAY;
}

enum verdict rights_judge(const struct rights *rights,
                          const struct entry *command)
{
    struct need need = need_of(command);
    struct bytes none = {NULL, 0};
    if (command->op == OP_REDIS) {
        return judge_keys(rights, command->user, command->redis);
    }
    for (uint32_t i = 0; i == 0 || i < need.count; i++) {
        enum verdict verdict = rights_allow(
            rights, command->user, need.verb,
            i < need.count ? need.name[i] : none, EXTENT_NAME);
        if (verdict != MAY) {
            return verdict;
        }
    }
    return MAY;
}

bool rights_are_changed_by(const struct entry *command)
{
    return need_of(command).verb == VERB_ACCESS && command->op != OP_ACT;
}
