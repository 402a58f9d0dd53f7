/* SPDX-License-Identifier: MIT */

/* Users with their secrets, and roles, as structures, and the entries that
 * change them. access.c has checked the right to do so before. */

#include "lockfsm/user/access.h"

#include <inttypes.h>

#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* --- Structures ----------------------------------------------------------- */

void users_init(struct lockfsm *fsm)
{
    static struct grant everything[] = {
        {.verbs = (UINT32_C(1) << VERB_COUNT) - 1, .is_prefix = true}};
    fsm->access.anyone.number = USER_ANYONE;
    fsm->access.anyone.name = BYTES_LITERAL("anyone");
    fsm->access.local.number = USER_LOCAL;
    fsm->access.local.name = BYTES_LITERAL("local");
    list_init(&fsm->access.anyone.secrets);
    list_init(&fsm->access.local.secrets);
    fsm->access.admin = (struct role){.name = BYTES_LITERAL(ROLE_ADMIN),
                                      .grants = everything,
                                      .grant_count = 1};
}

void users_done(struct lockfsm *fsm)
{
    HASH_CLEAR(by_number, fsm->access.users_by_number);
    HASH_CLEAR(by_name, fsm->access.users);
    HASH_CLEAR(by_hash, fsm->access.secrets);
    HASH_CLEAR(by_name, fsm->access.roles);
}

static struct user *user_find(const struct lockfsm *fsm, struct bytes name)
{
    struct user *user = NULL;
    HASH_FIND(by_name, fsm->access.users, name.data, name.size, user);
    return user;
}

struct user *user_new(struct lockfsm *fsm, struct bytes name)
{
    struct user *user = pool_take(&fsm->pool, sizeof *user);
    user->name = pool_copy(&fsm->pool, name);
    list_init(&user->secrets);
    user->bound = quota_standard;
    user->bound_count = QUOTA_COUNT;
    stored_init(&user->stored, RECORD_USER);
    HASH_ADD_KEYPTR(by_name, fsm->access.users, user->name.data,
                    user->name.size, user);
    treap_add(&fsm->access.user_order, &user->in_order, user->name, 0);
    return user;
}

void user_number_in(struct lockfsm *fsm, struct user *user)
{
    CHECK(user->number > USER_LOCAL);
    HASH_ADD(by_number, fsm->access.users_by_number, number,
             sizeof user->number, user);
}

void secret_hash_in(struct lockfsm *fsm, struct user *user,
                    struct secret *secret)
{
    secret->user = user;
    HASH_ADD(by_hash, fsm->access.secrets, hash, sizeof secret->hash, secret);
}

static struct role *role_find(const struct lockfsm *fsm, struct bytes name)
{
    struct role *role = NULL;
    HASH_FIND(by_name, fsm->access.roles, name.data, name.size, role);
    return role;
}

void user_count_roles(struct lockfsm *fsm, const struct user *user, bool is_new)
{
    for (uint32_t i = 0; i < user->role_count; i++) {
        struct bytes name = user->roles[i].name;
        struct role *role = bytes_equal(name, fsm->access.admin.name)
                                ? &fsm->access.admin
                                : role_find(fsm, name);
        /* A role in use is not removed. */
        CHECK(role != NULL && (is_new || role->user_count > 0));
        role->user_count += is_new ? 1 : -1u;
    }
}

static void drop_roles(struct lockfsm *fsm, struct user *user)
{
    user_count_roles(fsm, user, false);
    for (uint32_t i = 0; i < user->role_count; i++) {
        pool_drop(&fsm->pool, &user->roles[i].name);
    }
    pool_give(&fsm->pool, user->roles, user->role_count * sizeof *user->roles);
    user->roles = NULL;
    user->role_count = 0;
}

static void secret_free(struct lockfsm *fsm, struct secret *secret)
{
    HASH_DELETE(by_hash, fsm->access.secrets, secret);
    list_remove(&secret->in_user);
    secret->user->secret_count--;
    pool_drop(&fsm->pool, &secret->label);
    pool_give(&fsm->pool, secret, sizeof *secret);
}

struct role *role_new(struct lockfsm *fsm, struct bytes name)
{
    struct role *role = pool_take(&fsm->pool, sizeof *role);
    role->name = pool_copy(&fsm->pool, name);
    stored_init(&role->stored, RECORD_ROLE);
    HASH_ADD_KEYPTR(by_name, fsm->access.roles, role->name.data,
                    role->name.size, role);
    treap_add(&fsm->access.role_order, &role->in_order, role->name, 0);
    return role;
}

/* A number above the fixed ones that, like a token, is never used again. */
static uint64_t new_number(const struct lockfsm *fsm)
{
    return USER_LOCAL + new_token(fsm);
}

/* --- Reading -------------------------------------------------------------- */

bool lockfsm_access_is_required(const struct lockfsm *fsm)
{
    return fsm->access.anyone.is_disabled;
}

const struct user *lockfsm_user(const struct lockfsm *fsm, uint64_t number)
{
    return user_numbered(fsm, number);
}

const struct user *lockfsm_user_named(const struct lockfsm *fsm,
                                      struct bytes name)
{
    return user_find(fsm, name);
}

const struct secret *lockfsm_secret(const struct lockfsm *fsm,
                                    const uint8_t hash[PROOF_SIZE])
{
    struct secret *secret = NULL;
    HASH_FIND(by_hash, fsm->access.secrets, hash, PROOF_SIZE, secret);
    return secret;
}

const struct secret *user_secret(const struct user *user, uint64_t number)
{
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        if (secret->number == number) {
            return secret;
        }
    }
    return NULL;
}

const struct role *lockfsm_role(const struct lockfsm *fsm, struct bytes name)
{
    return bytes_equal(name, fsm->access.admin.name) ? &fsm->access.admin
                                                     : role_find(fsm, name);
}

struct user_counts lockfsm_user_counts(const struct lockfsm *fsm)
{
    struct user_counts counts = {
        .secrets = HASH_CNT(by_hash, fsm->access.secrets)};
    HASH_FOR (const struct user, user, fsm->access.users, by_name) {
        counts.users += user->number != 0 &&
                        !bytes_equal(user->name, fsm->access.admin.name);
    }
    return counts;
}

void lockfsm_suspend_users(struct lockfsm *fsm)
{
    HASH_FOR (struct user, user, fsm->access.users, by_name) {
        if (user->number != 0 && !user->is_disabled) {
            user->is_disabled = true;
            record_changed(fsm, &user->stored);
        }
    }
    HASH_FOR (struct session, session, fsm->sessions, by_id) {
        if (session->is_disabled != session->user->is_disabled) {
            session->is_disabled = session->user->is_disabled;
            record_changed(fsm, &session->stored);
        }
    }
}

struct treap *lockfsm_user_order(struct lockfsm *fsm)
{
    return &fsm->access.user_order;
}

struct treap *lockfsm_role_order(struct lockfsm *fsm)
{
    return &fsm->access.role_order;
}

/* --- Users ---------------------------------------------------------------- */

static void set_roles(struct lockfsm *fsm, struct user *user,
                      const struct role_name *roles, uint32_t count)
{
    drop_roles(fsm, user);
    user->roles = pool_take(&fsm->pool, count * sizeof *user->roles);
    user->role_count = count;
    for (uint32_t i = 0; i < count; i++) {
        user->roles[i].name = pool_copy(&fsm->pool, roles[i].name);
    }
    user_count_roles(fsm, user, true);
}

static const char *users_what_is_wrong(const struct lockfsm *fsm,
                                       const struct user_set_command *set)
{
    if (!user_name_is_valid(set->name)) {
        return "a name has 1 to 64 letters, digits, '.', '_', '-'";
    }
    /* Redis clients without a user name log in as "default". */
    if (bytes_equal(set->name, fsm->access.anyone.name) ||
        bytes_equal(set->name, fsm->access.local.name) ||
        bytes_equal(set->name, BYTES_LITERAL("default"))) {
        return "anyone, local and default are reserved names";
    }
    for (uint32_t key = 0; key < set->bound_count; key++) {
        if (key >= QUOTA_COUNT || set->bounds[key] > quota_rules[key].max) {
            return "unknown quota, or value too high";
        }
    }
    if (set->role_count > USER_ROLE_COUNT_MAX) {
        return "a user has at most 16 roles";
    }
    for (uint32_t i = 0; i < set->role_count; i++) {
        if (lockfsm_role(fsm, set->roles[i].name) == NULL) {
            return "there is no such role";
        }
        for (uint32_t j = 0; j < i; j++) {
            if (bytes_equal(set->roles[i].name, set->roles[j].name)) {
                return "duplicate role";
            }
        }
    }
    return NULL;
}

/* The bounds that the command sets, and the defaults for the others. */
static struct quota bounds_of(const struct user_set_command *set)
{
    struct quota bound = quota_standard;
    for (uint32_t key = 0; key < set->bound_count; key++) {
        bound.of[key] = set->bounds[key];
    }
    return bound;
}

static bool is_same_user(const struct user *user,
                         const struct user_set_command *set)
{
    struct quota bound = bounds_of(set);
    if (user->number == 0 || user->is_disabled != set->is_disabled ||
        user->role_count != set->role_count ||
        memcmp(&user->bound, &bound, sizeof bound) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < set->role_count; i++) {
        if (!bytes_equal(user->roles[i].name, set->roles[i].name)) {
            return false;
        }
    }
    return true;
}

/* Refuses a change that was decided without knowledge of the newest state. */
static void refuse_changed(struct result *result)
{
    entry_refuse(
        result, RESULT_BAD_ARGUMENT,
        "it was changed meanwhile: read it again, then repeat the change");
}

static uint64_t size_of_roles(const struct role_name *roles, uint32_t count)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        size += roles[i].name.size;
    }
    return size;
}

/* Creates a user, or reuses a removed one; NULL with the refusal. */
static struct user *make_user(struct lockfsm *fsm, struct user *removed,
                              const struct user_set_command *set,
                              struct result *result)
{
    uint64_t roles_size = size_of_roles(set->roles, set->role_count);
    if (set->if_changed != 0) {
        refuse_changed(result);
        return NULL;
    }
    if (removed != NULL && !set->is_reused) {
        entry_refuse(
            result, RESULT_BAD_ARGUMENT,
            "a user of this name was removed; REUSE makes a new one of it");
        return NULL;
    }
    if (removed == NULL &&
        HASH_CNT(by_name, fsm->access.users) >= USER_COUNT_MAX) {
        entry_refuse(result, RESULT_LIMIT, "users: at most 100000");
        return NULL;
    }
    if (growth_is_refused(fsm, 1, set->name.size + roles_size, result)) {
        return NULL;
    }
    struct user *user = removed != NULL ? removed : user_new(fsm, set->name);
    /* A new number each time: sessions and rights of a removed user of this
     * name are not passed on. */
    user->number = new_number(fsm);
    user_number_in(fsm, user);
    return user;
}

void apply_user_set(struct lockfsm *fsm, const struct entry *command,
                    struct result *result)
{
    const struct user_set_command *set = command->user_set;
    struct user *user = user_find(fsm, set->name);
    if (is_wrong(result, users_what_is_wrong(fsm, set))) {
        return;
    }
    if (user != NULL && is_same_user(user, set)) {
        result->token = user->changed;
        return;
    }
    if (user == NULL || user->number == 0) {
        user = make_user(fsm, user, set, result);
        if (user == NULL) {
            return;
        }
    } else if (user->changed != set->if_changed) {
        /* Compare and set: two administrators who edit one user at a time do
         * not undo each other's changes. */
        refuse_changed(result);
        return;
    }
    bool was_disabled = user->is_disabled;
    user->is_disabled = set->is_disabled;
    user->bound = bounds_of(set);
    user->changed = new_token(fsm);
    set_roles(fsm, user, set->roles, set->role_count);
    record_changed(fsm, &user->stored);
    result->token = user->changed;
    access_changed(fsm, user, NULL, was_disabled != user->is_disabled);
}

/* Removes the user. The record stays, so that the name is not reused by
 * mistake. */
void apply_user_remove(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    struct user *user = user_find(fsm, command->user_remove->name);
    if (user == NULL || user->number == 0) {
        return;
    }
    uint64_t sessions = user_use(user, QUOTA_SESSIONS);
    if (!user->is_disabled || sessions > 0) {
        refuse_because(fsm, result, RESULT_BAD_ARGUMENT,
                       "the user must be disabled, and without sessions: "
                       "%" PRIu64 " are left",
                       sessions);
        return;
    }
    while (user->secret_count > 0) {
        secret_free(fsm, LIST_FIRST(&user->secrets, struct secret, in_user));
    }
    drop_roles(fsm, user);
    HASH_DELETE(by_number, fsm->access.users_by_number, user);
    user->number = 0;
    /* The fences and notes that the user left no longer count. */
    user->use = (struct quota){0};
    user->is_disabled = false;
    user->changed = new_token(fsm);
    record_changed(fsm, &user->stored);
    result->count = 1;
    effect_add(fsm, EFFECT_ACCESS_CHANGED);
}

/* --- Secrets -------------------------------------------------------------- */

static struct user *find_user(struct lockfsm *fsm, struct bytes name,
                              struct result *result)
{
    struct user *user = user_find(fsm, name);
    if (user == NULL || user->number == 0) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "there is no such user");
        return NULL;
    }
    return user;
}

void apply_secret_add(struct lockfsm *fsm, const struct entry *command,
                      struct result *result)
{
    const struct secret_add_command *add = command->secret_add;
    static const uint8_t none[PROOF_SIZE];
    struct user *user = find_user(fsm, add->name, result);
    if (user == NULL) {
        return;
    }
    const struct secret *same = lockfsm_secret(fsm, add->hash);
    if (same != NULL && same->user == user) {
        result->token = same->number; /* The request was repeated. */
        return;
    }
    if (same != NULL || add->label.size > LABEL_SIZE_MAX ||
        memcmp(add->hash, none, sizeof none) == 0) {
        entry_refuse(
            result, RESULT_BAD_ARGUMENT,
            "the hash of a new secret, and a label of at most 128 bytes");
        return;
    }
    if (user->secret_count >= SECRET_COUNT_MAX) {
        entry_refuse(result, RESULT_LIMIT, "secrets of a user: at most 4");
        return;
    }
    if (growth_is_refused(fsm, 1, add->label.size, result)) {
        return;
    }
    struct secret *secret = pool_take(&fsm->pool, sizeof *secret);
    secret->number = new_token(fsm);
    memcpy(secret->hash, add->hash, sizeof secret->hash);
    secret->label = pool_copy(&fsm->pool, add->label);
    list_push_back(&user->secrets, &secret->in_user);
    user->secret_count++;
    secret_hash_in(fsm, user, secret);
    record_changed(fsm, &user->stored);
    result->token = secret->number;
    effect_add(fsm, EFFECT_ACCESS_CHANGED);
}

void apply_secret_remove(struct lockfsm *fsm, const struct entry *command,
                         struct result *result)
{
    const struct secret_remove_command *remove = command->secret_remove;
    struct user *user = find_user(fsm, remove->name, result);
    if (user == NULL) {
        return;
    }
    LIST_FOR (struct secret, secret, &user->secrets, in_user) {
        if (secret->number == remove->number) {
            secret_free(fsm, secret);
            record_changed(fsm, &user->stored);
            result->count = 1;
            effect_add(fsm, EFFECT_ACCESS_CHANGED);
            return;
        }
    }
}

/* --- Roles ---------------------------------------------------------------- */

static void set_grants(struct lockfsm *fsm, struct role *role,
                       const struct grant *grants, uint32_t count)
{
    members_drop(&fsm->pool, record_kinds[RECORD_ROLE].owned(), role);
    role->grants = pool_take(&fsm->pool, count * sizeof *role->grants);
    role->grant_count = count;
    for (uint32_t i = 0; i < count; i++) {
        role->grants[i] = grants[i];
        role->grants[i].name = pool_copy(&fsm->pool, grants[i].name);
    }
}

static bool is_same_role(const struct role *role,
                         const struct role_set_command *set)
{
    if (role->grant_count != set->grant_count) {
        return false;
    }
    for (uint32_t i = 0; i < set->grant_count; i++) {
        const struct grant *old = &role->grants[i], *new = &set->grants[i];
        if (old->verbs != new->verbs || old->is_prefix != new->is_prefix ||
            !bytes_equal(old->name, new->name)) {
            return false;
        }
    }
    return true;
}

static const char *what_is_wrong_with_role(const struct lockfsm *fsm,
                                           const struct role_set_command *set)
{
    if (!user_name_is_valid(set->name)) {
        return "a name has 1 to 64 letters, digits, '.', '_', '-'";
    }
    if (bytes_equal(set->name, fsm->access.admin.name)) {
        return "the role 'admin' is built in";
    }
    if (set->grant_count > GRANT_COUNT_MAX) {
        return "a role has at most 64 grants";
    }
    for (uint32_t i = 0; i < set->grant_count; i++) {
        const char *wrong = grant_check(&set->grants[i]);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}

static struct role *make_role(struct lockfsm *fsm,
                              const struct role_set_command *set,
                              struct result *result)
{
    if (set->if_changed != 0) {
        refuse_changed(result);
        return NULL;
    }
    if (HASH_CNT(by_name, fsm->access.roles) >= ROLE_COUNT_MAX) {
        entry_refuse(result, RESULT_LIMIT, "roles: at most 1000");
        return NULL;
    }
    return role_new(fsm, set->name);
}

void apply_role_set(struct lockfsm *fsm, const struct entry *command,
                    struct result *result)
{
    const struct role_set_command *set = command->role_set;
    struct role *role = role_find(fsm, set->name);
    uint64_t size = set->name.size;
    if (is_wrong(result, what_is_wrong_with_role(fsm, set))) {
        return;
    }
    if (role != NULL && is_same_role(role, set)) {
        result->token = role->changed;
        return;
    }
    /* Compare and set, as for users. */
    if (role != NULL && role->changed != set->if_changed) {
        refuse_changed(result);
        return;
    }
    for (uint32_t i = 0; i < set->grant_count; i++) {
        size += set->grants[i].name.size;
    }
    if (growth_is_refused(fsm, 1, size, result)) {
        return;
    }
    role = role != NULL ? role : make_role(fsm, set, result);
    if (role == NULL) {
        return;
    }
    set_grants(fsm, role, set->grants, set->grant_count);
    role->changed = new_token(fsm);
    record_changed(fsm, &role->stored);
    result->token = role->changed;
    access_changed(fsm, NULL, role, false);
}

void apply_role_remove(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    struct bytes name = command->role_remove->name;
    struct role *role = role_find(fsm, name);
    if (role == NULL) {
        return;
    }
    /* A user with an unknown role would be a state that lockfsm_check_basic()
     * refuses. */
    if (role->user_count > 0) {
        refuse_because(fsm, result, RESULT_BAD_ARGUMENT,
                       "the role is assigned to users: %" PRIu32,
                       role->user_count);
        return;
    }
    record_gone(fsm, &role->stored);
    HASH_DELETE(by_name, fsm->access.roles, role);
    treap_remove(&fsm->access.role_order, &role->in_order);
    pool_drop(&fsm->pool, &role->name);
    structure_free(fsm, &role->stored);
    result->count = 1;
}

/* --- Access --------------------------------------------------------------- */

void apply_access_set(struct lockfsm *fsm, const struct entry *command,
                      struct result *result)
{
    const struct access_set_command *set = command->access_set;
    uint64_t sessions = user_use(&fsm->access.anyone, QUOTA_SESSIONS);
    if (fsm->access.anyone.is_disabled == set->is_required) {
        return;
    }
    if (set->is_required && !set->is_forced && sessions > 0) {
        refuse_because(fsm, result, RESULT_BAD_ARGUMENT,
                       "%" PRIu64 " sessions of 'anyone' would be "
                       "ended: have their clients authenticate first, or use "
                       "FORCE",
                       sessions);
        return;
    }
    fsm->access.anyone.is_disabled = set->is_required;
    access_changed(fsm, &fsm->access.anyone, NULL, true);
}

void users_found(struct lockfsm *fsm, bool is_access_required)
{
    struct role_name admin = {fsm->access.admin.name};
    struct grant grants[] = {
        {.verbs = UINT32_C(1) << VERB_READ, .is_prefix = true},
        {.verbs = UINT32_C(1) << VERB_SESSIONS}};
    struct role *observer = role_new(fsm, BYTES_LITERAL(ROLE_OBSERVER));
    set_grants(fsm, observer, grants, 2);
    observer->changed = new_token(fsm);
    record_changed(fsm, &observer->stored);
    struct user *user = user_new(fsm, fsm->access.admin.name);
    user->number = new_number(fsm);
    user->changed = new_token(fsm);
    user_number_in(fsm, user);
    set_roles(fsm, user, &admin, 1);
    record_changed(fsm, &user->stored);
    fsm->access.anyone.is_disabled = is_access_required;
}
