/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_rights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "tests/sim/sim_past.h"
#include "tests/sim/sim_users.h"

/* The user of a session, and what the log has given it. A session that is over
 * may still have something until SWEEP has reached it. */
struct owned_session {
    UT_hash_handle hh;
    uint64_t id;
    uint64_t user;
    uint64_t holds;
    uint64_t waits;
    bool is_over;
};

/* A wait, and the right that it needs. */
struct owned_wait {
    struct list in_rights;
    uint64_t wait_index;
    struct owned_session *session;
    enum verb verb;
    char lock[32];
};

struct sim_rights {
    struct sim *sim;
    struct rights *version; /* By their entries. */
    uint32_t count;
    uint32_t capacity;
    bool is_founded;
    bool is_to_check; /* Rights have changed, and some waits may still exist. */
    struct owned_session *sessions;
    uint32_t over_count; /* Of those. */
    struct list waits;
    uint64_t used[RIGHT_USER_MAX]
                 [QUOTA_COUNT]; /* As they were after the previous entry. */
};

/* The entry that is checked. */
struct judging {
    struct sim_rights *rights;
    struct sim *sim;
    uint64_t place;
    uint64_t token;
    const struct entry *command;
    bool is_repeated;
    const struct effects *effects;
    const struct result *result;
    const struct lockfsm *fsm;
};

/* --- Versions ------------------------------------------------------------- */

const struct rights *sim_rights_now(const struct sim_rights *rights)
{
    return &rights->version[rights->count - 1];
}

/* A separate version for the entry at that place, to be changed. */
static struct rights *version_at(struct sim_rights *rights, uint64_t place)
{
    struct rights *newest = &rights->version[rights->count - 1];
    if (newest->from == place) {
        return newest;
    }
    if (rights->count == rights->capacity) {
        rights->capacity *= 2;
        rights->version = memory_resize(
            rights->version, rights->capacity * sizeof *rights->version);
    }
    newest = &rights->version[rights->count];
    *newest = rights->version[rights->count - 1];
    newest->from = place;
    rights->count++;
    return newest;
}

static struct rights *next_version(const struct judging *j)
{
    return version_at(j->rights, j->place);
}

struct sim_rights *sim_rights_new(struct sim *sim)
{
    struct sim_rights *rights = memory_new(sizeof *rights);
    rights->sim = sim;
    rights->capacity = 4;
    rights->count = 1;
    rights->version = memory_new(rights->capacity * sizeof *rights->version);
    list_init(&rights->waits);
    return rights;
}

static void drop_session(struct sim_rights *rights,
                         struct owned_session *session)
{
    rights->over_count -= session->is_over;
    HASH_DEL(rights->sessions, session);
    free(session);
}

static void drop_wait(struct owned_wait *wait)
{
    wait->session->waits--;
    list_remove(&wait->in_rights);
    free(wait);
}

static void forget_sessions(struct sim_rights *rights)
{
    struct owned_session *session, *next;
    LIST_EACH_SAFE (node, &rights->waits) {
        drop_wait(LIST_ENTRY(node, struct owned_wait, in_rights));
    }
    HASH_ITER (hh, rights->sessions, session, next) {
        drop_session(rights, session);
    }
}

void sim_rights_free(struct sim_rights *rights)
{
    forget_sessions(rights);
    free(rights->version);
    free(rights);
}

const struct rights *sim_rights_between(const struct sim_rights *rights,
                                        uint64_t from, uint64_t to,
                                        uint32_t *ret_count)
{
    uint32_t first = rights->count - 1;
    while (first > 0 && rights->version[first].from > from) {
        first--;
    }
    *ret_count = 1;
    while (first + *ret_count < rights->count &&
           rights->version[first + *ret_count].from <= to) {
        ++*ret_count;
    }
    return &rights->version[first];
}

/* --- Whose ---------------------------------------------------------------- */

static struct owned_session *find_session(const struct sim_rights *rights,
                                          uint64_t id)
{
    struct owned_session *session = NULL;
    HASH_FIND(hh, rights->sessions, &id, sizeof id, session);
    return session;
}

uint32_t sim_rights_session_count(const struct sim_rights *rights,
                                  uint64_t number)
{
    uint32_t count = 0;
    for (const struct owned_session *session = rights->sessions;
         session != NULL; session = session->hh.next) {
        count += session->user == number && !session->is_over;
    }
    return count;
}

/* Sessions that are over and may have something left; with 'is_sure', that
 * certainly do. */
static uint32_t left_over_count(const struct sim_rights *rights,
                                uint64_t number, bool is_sure)
{
    uint32_t count = 0;
    for (const struct owned_session *session = rights->sessions;
         session != NULL; session = session->hh.next) {
        count += session->user == number && session->is_over &&
                 (!is_sure || session->holds + session->waits > 0);
    }
    return count;
}

static void fail(const struct judging *j, enum sim_oracle oracle,
                 const char *rule, const char *what)
{
    sim_fail(j->sim, oracle, "%s: entry %" PRIu64 " of user %" PRIu64 ": %s",
             rule, j->place, j->command->user, what);
}

/* --- Rights are decided once, by the log ---------------------------------- */

static bool is_about_number(enum result_code code)
{
    return code == RESULT_BAD_ARGUMENT || code == RESULT_FORGOTTEN ||
           code == RESULT_LIMIT || code == RESULT_QUOTA ||
           code == RESULT_NO_SESSION || code == RESULT_EXPIRED;
}

static void check_done(const struct judging *j, enum verdict verdict)
{
    enum result_code code = j->result->code;
    bool is_refusal = code == RESULT_NO_AUTH || code == RESULT_NO_PERMISSION;
    const struct origin *origin = entry_origin(j->command);
    bool is_numbered = origin != NULL && origin->req != 0;
    if (j->is_repeated) {
        return; /* It gets the result of the first. */
    }
    if (verdict == MAY && is_refusal) {
        fail(j, ORACLE_RIGHTS, "a refusal for lack of a right is true",
             "the user has the right");
    } else if (verdict != MAY && !is_refusal &&
               !(is_numbered && is_about_number(code))) {
        fail(j, ORACLE_RIGHTS,
             "what is done is allowed by the rights at its index",
             verdict == NO_AUTH ? "the user has no rights"
                                : "the user lacks the right");
    } else if (verdict != MAY && is_refusal &&
               (code == RESULT_NO_AUTH) != (verdict == NO_AUTH)) {
        fail(j, ORACLE_RIGHTS, "a refusal says why",
             verdict == NO_AUTH ? "the user has no rights, and gets NOPERM"
                                : "the user lacks the right, and gets NOAUTH");
    }
    if (is_refusal && j->effects->count > 1) {
        fail(j, ORACLE_RIGHTS,
             "what is refused for want of a right changes nothing",
             "it has effects");
    }
}

/* A session belongs to its user alone. */
static bool check_session(const struct judging *j)
{
    const struct origin *origin = entry_origin(j->command);
    const struct owned_session *session = origin != NULL
                                              ? find_session(j->rights,
                                                             origin->session)
                                              : NULL;
    if (session == NULL || session->is_over ||
        session->user == j->command->user) {
        return false;
    }
    if (j->result->code != RESULT_NO_SESSION || j->effects->count > 1) {
        fail(j, ORACLE_RIGHTS, "a session is its user's alone",
             "another one uses it");
    }
    return true;
}

static bool is_lasting(const struct effect *effect)
{
    return effect->type == EFFECT_RELEASED ||
           effect->type == EFFECT_HOLD_EXPIRED ||
           effect->type == EFFECT_SESSION_ENDED || past_is_renewal(effect);
}

static bool is_named_dead(const struct entry *command, uint64_t session)
{
    for (uint32_t i = 0;
         command->op == OP_DIED && i < command->died->testimony_count; i++) {
        if (command->died->testimonies[i].session == session) {
            return true;
        }
    }
    return false;
}

/* A hold or wait of another user ends by kicking, by its death word, or by the
 * blacklist if there is no lease, and never by a change of rights. */
static void check_others(const struct judging *j)
{
    const struct entry *command = j->command;
    bool is_list = command->op == OP_BLACKLIST_ADD ||
                   command->op == OP_BLACKLIST_REMOVE;
    bool is_rights = rights_are_changed_by(command);
    for (uint32_t i = 0; i < j->effects->count; i++) {
        const struct effect *effect = &j->effects->effect[i];
        const struct owned_session *session = find_session(j->rights,
                                                           effect->session);
        if (!is_lasting(effect) || session == NULL) {
            continue;
        }
        if (is_rights) {
            fail(j, ORACLE_WITHDRAWAL, "a change of rights ends no hold",
                 "it ends one");
        } else if (session->user != command->user && !is_list &&
                   !is_named_dead(command, session->id) &&
                   !(command->op == OP_RELEASE_IF &&
                     rights_allow(sim_rights_now(j->rights), command->user,
                                  VERB_KICK, command->release_if->name,
                                  EXTENT_NAME) == MAY)) {
            fail(j, ORACLE_RIGHTS, "nobody ends or renews what is another's",
                 "it does, without the right to");
        }
    }
}

/* --- What the log has given ----------------------------------------------- */

static struct owned_session *add_session(struct sim_rights *rights, uint64_t id,
                                         uint64_t user)
{
    struct owned_session *session = memory_new(sizeof *session);
    session->id = id;
    session->user = user;
    HASH_ADD(hh, rights->sessions, id, sizeof session->id, session);
    return session;
}

/* Sessions that are over, and have nothing left. */
static void forget_swept(const struct judging *j)
{
    uint32_t places;
    struct owned_session *session, *next;
    if (j->rights->over_count == 0 || lockfsm_has_left_over(j->fsm, &places)) {
        return;
    }
    HASH_ITER (hh, j->rights->sessions, session, next) {
        if (session->is_over && session->holds + session->waits == 0) {
            drop_session(j->rights, session);
        }
    }
}

static struct owned_wait *find_wait(const struct sim_rights *rights,
                                    uint64_t wait_index, struct bytes lock)
{
    LIST_FOR (struct owned_wait, wait, &rights->waits, in_rights) {
        if (wait->wait_index == wait_index && right_name_is(wait->lock, lock)) {
            return wait;
        }
    }
    return NULL;
}

static void queue(const struct judging *j, const struct effect *effect)
{
    struct owned_wait *wait = find_wait(j->rights, effect->wait_index,
                                        effect->lock);
    struct owned_session *session = find_session(j->rights, effect->session);
    CHECK(session != NULL && effect->lock.size < sizeof wait->lock);
    if (wait == NULL) {
        wait = memory_new(sizeof *wait);
        list_push_back(&j->rights->waits, &wait->in_rights);
        wait->wait_index = effect->wait_index;
        wait->session = session;
        session->waits++;
        memcpy(wait->lock, effect->lock.data, effect->lock.size);
    }
    wait->verb = j->command->op == OP_ACQUIRE
                     ? rights_verb_to_wait(j->command->acquire)
                     : VERB_LOCK;
}

static void take_effect(const struct judging *j, const struct effect *effect)
{
    struct owned_session *session = find_session(j->rights, effect->session);
    struct owned_wait *wait = find_wait(j->rights, effect->wait_index,
                                        effect->lock);
    switch (effect->type) {
    case EFFECT_SESSION_OPENED:
        add_session(j->rights, effect->session, j->command->user);
        break;
    case EFFECT_SESSION_ENDED:
        if (session != NULL) {
            session->is_over = true;
            j->rights->over_count++;
        }
        break;
    case EFFECT_QUEUED:
        queue(j, effect);
        break;
    case EFFECT_GRANTED:
        session->holds += effect->reason == NULL;
        if (effect->wait_index != 0 && wait != NULL) {
            drop_wait(wait);
        }
        break;
    case EFFECT_WAIT_ENDED:
        if (wait != NULL) {
            drop_wait(wait);
        }
        break;
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        session->holds--;
        break;
    default:
        break;
    }
}

/* --- Users and roles ------------------------------------------------------ */

static void found(const struct judging *j)
{
    struct rights *rights = next_version(j);
    struct right_user *admin = &rights->user[0];
    right_name_set(admin->name, BYTES_LITERAL("admin"));
    admin->number = USER_LOCAL + j->token;
    admin->changed = j->token;
    admin->role_count = 1;
    right_name_set(admin->role[0], BYTES_LITERAL("admin"));
    for (int key = 0; key < QUOTA_COUNT; key++) {
        admin->bound[key] = quota_rules[key].standard;
    }
    struct right_role *observer = &rights->role[0];
    observer->is_there = true;
    right_name_set(observer->name, BYTES_LITERAL("observer"));
    observer->changed = j->token;
    observer->grant_count = 2;
    observer->grant[0] = (struct right_grant){1u << VERB_READ, true, ""};
    observer->grant[1] = (struct right_grant){1u << VERB_SESSIONS, false, ""};
    rights->is_required = j->command->begin->is_access_required;
    j->rights->is_founded = true;
}

/* The state that a user should have. */
static struct right_user as_set(const struct user_set_command *set)
{
    struct right_user user = {.is_disabled = set->is_disabled,
                              .role_count = set->role_count};
    right_name_set(user.name, set->name);
    for (int key = 0; key < QUOTA_COUNT; key++) {
        user.bound[key] = quota_rules[key].standard;
    }
    for (uint32_t key = 0; key < set->bound_count; key++) {
        user.bound[key] = set->bounds[key];
    }
    CHECK(set->role_count <= RIGHT_ROLE_MAX);
    for (uint32_t i = 0; i < set->role_count; i++) {
        right_name_set(user.role[i], set->roles[i].name);
    }
    return user;
}

static void expect(const struct judging *j, bool is_ok)
{
    if ((j->result->code == RESULT_OK) != is_ok) {
        fail(j, ORACLE_RIGHTS, "users, roles and access are as the log says",
             is_ok ? "it is refused" : "it is not refused");
    }
}

static bool has_roles(const struct rights *rights, const struct right_user *set)
{
    bool has = true;
    for (uint32_t i = 0; i < set->role_count; i++) {
        has &= strcmp(set->role[i], "admin") == 0 ||
               rights_role(rights, set->role[i]) != NULL;
    }
    return has;
}

static bool is_same_user(const struct right_user *old,
                         const struct right_user *new)
{
    return old->number != 0 && old->is_disabled == new->is_disabled &&
           old->role_count ==
               new->role_count &&memcmp(old->role, new->role,
                                        sizeof old->role) == 0 &&
           memcmp(old->bound, new->bound, sizeof old->bound) == 0;
}

static void set_user(const struct judging *j)
{
    const struct user_set_command *set = j->command->user_set;
    const struct rights *now = sim_rights_now(j->rights);
    struct right_user wanted = as_set(set);
    const struct right_user *old = rights_user(now, wanted.name);
    bool is_new = old == NULL || old->number == 0;
    bool is_good = has_roles(now, &wanted);
    if (is_good && old != NULL && is_same_user(old, &wanted)) {
        expect(j, true);
        return;
    }
    is_good = is_good && (old == NULL || old->number != 0 || set->is_reused) &&
              set->if_changed == (is_new ? 0 : old->changed);
    expect(j, is_good);
    if (!is_good) {
        return;
    }
    struct rights *rights = next_version(j);
    struct right_user *user = NULL;
    for (int i = RIGHT_USER_MAX - 1; i >= 0; i--) {
        if (rights->user[i].name[0] == '\0' ||
            strcmp(rights->user[i].name, wanted.name) == 0) {
            user = &rights->user[i];
            if (user->name[0] != '\0') {
                break;
            }
        }
    }
    CHECK(user != NULL);
    wanted.number = is_new ? USER_LOCAL + j->token : user->number;
    wanted.changed = j->token;
    wanted.secret_count = is_new ? 0 : user->secret_count;
    memcpy(wanted.secret, user->secret, sizeof wanted.secret);
    *user = wanted;
}

static struct right_user *user_to_change(const struct judging *j,
                                         struct bytes name)
{
    struct rights *rights = next_version(j);
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        if (right_name_is(rights->user[i].name, name)) {
            return &rights->user[i];
        }
    }
    return NULL;
}

static void remove_user(const struct judging *j)
{
    struct right_user *user = user_to_change(j, j->command->user_remove->name);
    if (user == NULL || user->number == 0) {
        expect(j, true);
        return;
    }
    bool is_good = user->is_disabled &&
                   sim_rights_session_count(j->rights, user->number) == 0 &&
                   left_over_count(j->rights, user->number, true) == 0;
    if (is_good && left_over_count(j->rights, user->number, false) > 0) {
        is_good = j->result->code == RESULT_OK; /* Both are correct. */
    }
    expect(j, is_good);
    if (is_good) {
        user->number = 0;
        user->is_disabled = false;
        user->role_count = user->secret_count = 0;
    }
}

static void add_secret(const struct judging *j)
{
    const struct secret_add_command *add = j->command->secret_add;
    struct right_user *user = user_to_change(j, add->name);
    bool is_good = user != NULL && user->number != 0;
    bool is_same = is_good && right_has_secret(user, add->hash);
    is_good = is_good && (is_same || user->secret_count < SECRET_COUNT_MAX);
    expect(j, is_good);
    if (is_good && !is_same) {
        struct right_secret *secret = &user->secret[user->secret_count++];
        secret->number = j->token;
        memcpy(secret->hash, add->hash, sizeof secret->hash);
    }
}

static void remove_secret(const struct judging *j)
{
    const struct secret_remove_command *remove = j->command->secret_remove;
    struct right_user *user = user_to_change(j, remove->name);
    expect(j, user != NULL && user->number != 0);
    for (uint32_t i = 0; user != NULL && i < user->secret_count; i++) {
        if (user->secret[i].number == remove->number) {
            user->secret[i] = user->secret[--user->secret_count];
        }
    }
}

static void set_grants(struct right_role *role,
                       const struct role_set_command *set)
{
    CHECK(set->grant_count <= RIGHT_GRANT_MAX);
    memset(role->grant, 0, sizeof role->grant);
    role->grant_count = set->grant_count;
    for (uint32_t i = 0; i < set->grant_count; i++) {
        role->grant[i].verbs = set->grants[i].verbs;
        role->grant[i].is_prefix = set->grants[i].is_prefix;
        right_name_set(role->grant[i].name, set->grants[i].name);
    }
}

static void set_role(const struct judging *j)
{
    const struct role_set_command *set = j->command->role_set;
    struct right_role wanted = {.is_there = true};
    struct right_role *role = NULL;
    struct rights *rights = next_version(j);
    right_name_set(wanted.name, set->name);
    set_grants(&wanted, set);
    for (int i = RIGHT_ROLE_MAX - 1; i >= 0; i--) {
        struct right_role *one = &rights->role[i];
        bool is_it = one->is_there && strcmp(one->name, wanted.name) == 0;
        if (is_it || (!one->is_there && (role == NULL || !role->is_there))) {
            role = one;
        }
    }
    CHECK(role != NULL);
    bool is_same = role->is_there && role->grant_count == wanted.grant_count &&
                   memcmp(role->grant, wanted.grant, sizeof role->grant) == 0;
    bool is_good = is_same ||
                   set->if_changed == (role->is_there ? role->changed : 0);
    expect(j, is_good);
    if (is_good && !is_same) {
        wanted.changed = j->token;
        *role = wanted;
    }
}

static void remove_role(const struct judging *j)
{
    struct rights *rights = next_version(j);
    struct bytes name = j->command->role_remove->name;
    bool is_had = false;
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        const struct right_user *user = &rights->user[i];
        for (uint32_t k = 0; k < user->role_count; k++) {
            is_had |= right_name_is(user->role[k], name);
        }
    }
    bool is_there = false;
    for (int i = 0; i < RIGHT_ROLE_MAX; i++) {
        if (rights->role[i].is_there &&
            right_name_is(rights->role[i].name, name)) {
            is_there = true;
            rights->role[i].is_there = is_had;
        }
    }
    expect(j, !is_there || !is_had);
}

static void set_access(const struct judging *j)
{
    const struct access_set_command *set = j->command->access_set;
    bool is_good = !set->is_required || set->is_forced ||
                   sim_rights_now(j->rights)->is_required ||
                   sim_rights_session_count(j->rights, USER_ANYONE) == 0;
    expect(j, is_good);
    if (is_good) {
        next_version(j)->is_required = set->is_required;
    }
}

static void revoke(const struct judging *j)
{
    const uint8_t *fingerprint = j->command->cert_revoke->fingerprint;
    if (!rights_are_revoked(sim_rights_now(j->rights), fingerprint)) {
        struct rights *rights = next_version(j);
        CHECK(rights->revoked_count < RIGHT_REVOKED_MAX);
        memcpy(rights->revoked[rights->revoked_count++], fingerprint,
               FINGERPRINT_SIZE);
    }
    expect(j, true);
}

static void change_rights(const struct judging *j)
{
    switch (j->command->op) {
    case OP_USER_SET:
        set_user(j);
        break;
    case OP_USER_REMOVE:
        remove_user(j);
        break;
    case OP_SECRET_ADD:
        add_secret(j);
        break;
    case OP_SECRET_REMOVE:
        remove_secret(j);
        break;
    case OP_ROLE_SET:
        set_role(j);
        break;
    case OP_ROLE_REMOVE:
        remove_role(j);
        break;
    case OP_ACCESS_SET:
        set_access(j);
        break;
    case OP_CERT_REVOKE:
        revoke(j);
        break;
    default:
        break;
    }
}

/* The state agrees. */
static void compare(const struct judging *j)
{
    struct rights real;
    rights_load(j->fsm, &real);
    if (!rights_are_same(sim_rights_now(j->rights), &real)) {
        fail(j, ORACLE_RIGHTS, "users, roles and access are as the log says",
             "the state differs");
    }
}

/* --- Withdrawal ----------------------------------------------------------- */

static bool is_allowed(const struct sim_rights *rights,
                       const struct owned_wait *wait)
{
    return rights_allow(sim_rights_now(rights), wait->session->user, wait->verb,
                        bytes_of_text(wait->lock), EXTENT_NAME) == MAY;
}

/* For all waits of this request. */
bool sim_rights_lets_wait(const struct sim_rights *rights, uint64_t wait_index)
{
    bool is_all = true;
    LIST_FOR (const struct owned_wait, wait, &rights->waits, in_rights) {
        is_all &= wait->wait_index != wait_index || is_allowed(rights, wait);
    }
    return is_all;
}

/* By the new rights, before the ended waits are forgotten. */
static void check_withdrawn(const struct judging *j)
{
    for (uint32_t i = 0; i < j->effects->count; i++) {
        const struct effect *effect = &j->effects->effect[i];
        bool is_granted = effect->type == EFFECT_GRANTED &&
                          effect->wait_index != 0;
        bool is_withdrawn = effect->type == EFFECT_WAIT_ENDED &&
                            strcmp(effect->reason, "withdrawn") == 0;
        if (is_withdrawn &&
            sim_rights_lets_wait(j->rights, effect->wait_index)) {
            fail(j, ORACLE_WITHDRAWAL,
                 "a change of rights ends the waits that are not allowed",
                 "it ends one that is");
        } else if (is_granted &&
                   !sim_rights_lets_wait(j->rights, effect->wait_index)) {
            fail(j, ORACLE_WITHDRAWAL,
                 "a change of rights ends the waits that are not allowed",
                 "one is granted");
        }
    }
}

/* Waits that SWEEP has yet to reach may be granted nothing. */
static void check_waits(const struct judging *j)
{
    uint32_t places;
    if (!j->rights->is_to_check || lockfsm_has_left_over(j->fsm, &places)) {
        return;
    }
    j->rights->is_to_check = false;
    LIST_FOR (const struct owned_wait, wait, &j->rights->waits, in_rights) {
        if (!wait->session->is_over && !is_allowed(j->rights, wait)) {
            sim_fail(j->sim, ORACLE_WITHDRAWAL,
                     "a change of rights ends the waits that are not allowed: "
                     "session %" PRIu64 " waits for '%s' after entry %" PRIu64,
                     wait->session->id, wait->lock, j->place);
        }
    }
}

/* --- Quotas --------------------------------------------------------------- */

static bool gives_back(const struct entry *command)
{
    bool deletes = command->op == OP_REDIS;
    for (uint32_t i = 0; deletes && i < command->redis->key_count; i++) {
        deletes &= command->redis->keys[i].change == REDIS_DELETE;
    }
    return deletes || entry_row(command->op)->only_frees ||
           (command->op == OP_CONVERT && command->convert->to == LOCK_SHARED);
}

/* The results of a session that is over are left to SWEEP, too, and nothing
 * reports them: the number of its user's sessions is uncertain. */
static void count_use(const struct sim_rights *rights,
                      const struct lockfsm *fsm, uint64_t number,
                      uint64_t use[QUOTA_COUNT])
{
    const struct user *user = lockfsm_user(fsm, number);
    uint64_t told = user_use(user, QUOTA_SESSIONS);
    uint64_t least = 0, most = 0;
    for (const struct owned_session *session = rights->sessions;
         session != NULL; session = session->hh.next) {
        if (session->user == number) {
            uint64_t places = session->holds + session->waits;
            use[QUOTA_HOLDS] += places;
            use[QUOTA_WAITS] += session->waits;
            least += !session->is_over || places > 0;
            most++;
        }
    }
    use[QUOTA_SESSIONS] = told < least ? least : told > most ? most : told;
    use[QUOTA_BYTES] = user_use(user, QUOTA_BYTES);
}

/* LIMIT is the answer only if the log shows that the request would exceed the
 * user's quota. */
static void check_limit(const struct judging *j, const struct right_user *mine,
                        const uint64_t used[QUOTA_COUNT])
{
    uint64_t more = j->command->op == OP_ACQUIRE
                        ? j->command->acquire->name_count
                    : j->command->op == OP_REDIS ? j->command->redis->key_count
                                                 : 1;
    for (int key = 0; key < QUOTA_CONNECTIONS; key++) {
        char words[64];
        snprintf(words, sizeof words, "%s of user '%s'", quota_rules[key].name,
                 mine->name);
        if (!bytes_has_prefix(j->result->text, bytes_of_text(words))) {
            continue; /* It is a limit for all, see sim_full.h. */
        }
        if (gives_back(j->command)) {
            fail(j, ORACLE_QUOTAS, "a release is never refused by a quota",
                 words);
        }
        if (key != QUOTA_BYTES && used[key] + more <= mine->bound[key]) {
            fail(j, ORACLE_QUOTAS, "what a quota refuses would pass it", words);
        }
    }
}

static void check_quota(const struct judging *j, const struct right_user *mine,
                        uint64_t used[QUOTA_COUNT])
{
    const struct user *user = lockfsm_user(j->fsm, mine->number);
    uint64_t use[QUOTA_COUNT] = {0};
    bool is_his = j->command->user == mine->number;
    bool is_done = j->result->code == RESULT_OK ||
                   j->result->code == RESULT_QUEUED;
    count_use(j->rights, j->fsm, mine->number, use);
    if (is_his && !j->is_repeated && j->result->code == RESULT_QUOTA) {
        check_limit(j, mine, used);
    }
    for (int i = 0; i < QUOTA_CONNECTIONS; i++) {
        enum quota_key key = (enum quota_key)i;
        if (use[i] != user_use(user, key)) {
            fail(j, ORACLE_QUOTAS, "a user has what the log granted",
                 quota_rules[i].name);
        }
        if (use[i] > mine->bound[i] && use[i] > used[i] &&
            !gives_back(j->command) &&
            (i != QUOTA_BYTES || (is_his && is_done))) {
            fail(j, ORACLE_QUOTAS,
                 "no change that was acknowledged passes a quota",
                 quota_rules[i].name);
        }
        used[i] = use[i];
    }
}

static void check_quotas(const struct judging *j)
{
    const struct rights *rights = sim_rights_now(j->rights);
    for (int i = 0; sim_users_are_there(j->sim) && i < RIGHT_USER_MAX; i++) {
        if (rights->user[i].number != 0) {
            check_quota(j, &rights->user[i], j->rights->used[i]);
        } else {
            memset(j->rights->used[i], 0, sizeof j->rights->used[i]);
        }
    }
}

/* --- Entries -------------------------------------------------------------- */

static const struct result *result_of(const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        if (effects->effect[i].type == EFFECT_RESULT) {
            return &effects->effect[i].result;
        }
    }
    return NULL;
}

static void judge_entry(const struct judging *j)
{
    if (j->command->op == OP_ACT && j->command->act->kind != ACT_LOGIN) {
        return; /* The leader reports an entry of its own about a user. */
    }
    if (rights_is_own(j->command)) {
        if (j->command->user != 0) {
            fail(j, ORACLE_RIGHTS, "what the leader asks of itself is nobody's",
                 "it is the user's own");
        }
        return;
    }
    if (!check_session(j)) {
        check_done(j, rights_judge(sim_rights_now(j->rights), j->command));
    }
    check_others(j);
}

void sim_rights_entry(struct sim_rights *rights, uint64_t place, uint64_t token,
                      const struct entry *command, bool is_repeated,
                      const struct effects *effects, const struct lockfsm *fsm)
{
    struct judging j = {.rights = rights,
                        .sim = rights->sim,
                        .place = place,
                        .token = token,
                        .command = command,
                        .is_repeated = is_repeated,
                        .effects = effects,
                        .result = result_of(effects),
                        .fsm = fsm};
    uint32_t count = rights->count;
    CHECK(j.result != NULL);
    judge_entry(&j);
    if (command->op == OP_BEGIN && !rights->is_founded) {
        found(&j);
    } else if (j.result->code != RESULT_NO_AUTH &&
               j.result->code != RESULT_NO_PERMISSION) {
        change_rights(&j);
    }
    check_withdrawn(&j);
    for (uint32_t i = 0; i < effects->count; i++) {
        take_effect(&j, &effects->effect[i]);
    }
    forget_swept(&j);
    if (rights->count != count) {
        rights->is_to_check = true;
        compare(&j);
    }
    check_waits(&j);
    check_quotas(&j);
}

void sim_rights_begin_life(struct sim_rights *rights, uint64_t place,
                           const struct lockfsm *fsm)
{
    struct rights *now = version_at(rights, place);
    rights_load(fsm, now);
    forget_sessions(rights);
    memset(rights->used, 0, sizeof rights->used);
    for (const struct session *kept = lockfsm_sessions(fsm); kept != NULL;
         kept = kept->by_id.next) {
        add_session(rights, kept->id, kept->user_number)
            ->holds = kept->hold_count;
    }
    for (int i = 0; i < RIGHT_USER_MAX; i++) {
        if (now->user[i].number != 0) {
            count_use(rights, fsm, now->user[i].number, rights->used[i]);
        }
    }
}
