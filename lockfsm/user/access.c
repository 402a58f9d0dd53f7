/* SPDX-License-Identifier: MIT */

/* Checks the rights that the rows of entry.def require; and grants as text. */

#include "lockfsm/user/access.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

/* The most roles of a user that a refusal names. */
#define ROLES_SHOWN_MAX 4

static uint32_t access_bit(enum verb verb)
{
    return UINT32_C(1) << verb;
}

/* --- Texts ---------------------------------------------------------------- */

static const char *const verb_names[VERB_COUNT] = {
    [VERB_READ] = "read",           [VERB_SHARE] = "share",
    [VERB_LOCK] = "lock",           [VERB_FENCE] = "fence",
    [VERB_KICK] = "kick",           [VERB_SESSIONS] = "sessions",
    [VERB_BLACKLIST] = "blacklist", [VERB_CLUSTER] = "cluster",
    [VERB_BACKUP] = "backup",       [VERB_AUDIT] = "audit",
    [VERB_ADMIN] = "admin",         [VERB_ACCESS] = "access",
};

const char *verb_name(enum verb verb)
{
    CHECK((unsigned)verb < VERB_COUNT);
    return verb_names[verb];
}

bool verb_find(struct bytes name, enum verb *ret_verb)
{
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        if (bytes_equal(name, bytes_of_text(verb_names[verb]))) {
            *ret_verb = (enum verb)verb;
            return true;
        }
    }
    return false;
}

bool user_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return name.size > 0 && name.size <= USER_NAME_SIZE_MAX;
}

const char *grant_check(const struct grant *grant)
{
    uint32_t named = access_bit(VERB_NAMED_COUNT) - 1;
    uint32_t composed = access_bit(VERB_COMPOSED_COUNT) - 1;
    if (grant->verbs == 0) {
        return "a grant needs a verb";
    }
    /* Otherwise a user that may make roles could make itself an
     * administrator. */
    if ((grant->verbs & ~composed) != 0) {
        return "'admin' and 'access' are in the role 'admin' alone";
    }
    if ((grant->verbs & named) != 0 && (grant->verbs & ~named) != 0) {
        return "verbs of names and of the cluster need a grant each";
    }
    if ((grant->verbs & named) == 0) {
        return grant->name.size > 0 || grant->is_prefix
                   ? "a verb of the cluster has no name"
                   : NULL;
    }
    if (grant->name.size == 0 && !grant->is_prefix) {
        return "a verb of names needs a name, or a beginning with '*'";
    }
    return grant->name.size > LOCK_NAME_SIZE_MAX
               ? "a name has at most 511 bytes"
               : NULL;
}

const char *grant_parse(struct bytes text, struct grant *ret_grant)
{
    struct grant grant = {0};
    size_t at = 0;
    for (;;) {
        size_t start = at;
        enum verb verb;
        while (at < text.size && text.data[at] != ',' && text.data[at] != ':') {
            at++;
        }
        if (!verb_find(bytes_of(text.data + start, at - start), &verb)) {
            return "a verb must be one of read, share, lock, fence, kick, "
                   "sessions, blacklist, cluster, backup, audit";
        }
        grant.verbs |= access_bit(verb);
        if (at == text.size || text.data[at] == ':') {
            break;
        }
        at++;
    }
    if (at < text.size) {
        grant.name = bytes_of(text.data + at + 1, text.size - at - 1);
        if (grant.name.size > 0 &&
            grant.name.data[grant.name.size - 1] == '*') {
            grant.name.size--;
            grant.is_prefix = true;
        }
    }
    *ret_grant = grant;
    return grant_check(&grant);
}

void grant_print(struct buffer *out, const struct grant *grant)
{
    const char *comma = "";
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        if ((grant->verbs & access_bit((enum verb)verb)) != 0) {
            buffer_printf(out, "%s%s", comma, verb_names[verb]);
            comma = ",";
        }
    }
    if (grant->name.size > 0 || grant->is_prefix) {
        buffer_put_text(out, ":");
        buffer_put_bytes(out, grant->name);
        buffer_put_text(out, grant->is_prefix ? "*" : "");
    }
}

/* --- Grants --------------------------------------------------------------- */

static bool access_covers(const struct grant *grant, enum verb verb,
                          struct bytes name, enum extent extent)
{
    uint32_t verbs = access_bit(verb) |
                     (verb == VERB_SHARE ? access_bit(VERB_LOCK) : 0);
    if ((grant->verbs & verbs) == 0) {
        return false;
    }
    if (verb >= VERB_NAMED_COUNT) {
        return true;
    }
    return grant->is_prefix
               ? bytes_has_prefix(name, grant->name)
               : extent == EXTENT_NAME && bytes_equal(name, grant->name);
}

static bool role_may(const struct role *role, enum verb verb, struct bytes name,
                     enum extent extent, struct permission *permission)
{
    for (uint32_t i = 0; i < role->grant_count; i++) {
        if (access_covers(&role->grants[i], verb, name, extent)) {
            *permission = (struct permission){role, &role->grants[i]};
            return true;
        }
    }
    return false;
}

bool lockfsm_may(const struct lockfsm *fsm, const struct user *user,
                 enum verb verb, struct bytes name, enum extent extent,
                 struct permission *ret_permission)
{
    struct permission permission = {NULL, NULL};
    bool may = false;
    if (user == NULL || user->is_disabled) {
        may = false;
    } else if (user == &fsm->access.anyone) {
        /* Nothing that is set up while access is open may remain in force
         * afterwards (ARCHITECTURE, "Rights are checked when the entry is
         * applied"). */
        may = verb != VERB_ACCESS && verb != VERB_ADMIN && verb != VERB_BACKUP;
    } else if (user == &fsm->access.local) {
        may = true;
    }
    if (user != NULL && !user->is_disabled) {
        for (uint32_t i = 0; i < user->role_count && !may; i++) {
            may = role_may(lockfsm_role(fsm, user->roles[i].name), verb, name,
                           extent, &permission);
        }
    }
    if (ret_permission != NULL) {
        *ret_permission = permission;
    }
    return may;
}

/* --- Refusals ------------------------------------------------------------- */

/* The text of a refusal for a user without a right. */
struct bytes lockfsm_refusal(struct lockfsm *fsm, const struct user *user,
                             enum verb verb, struct bytes name)
{
    struct buffer *text = &fsm->scratch.refusal;
    buffer_clear(text);
    if (user == &fsm->access.anyone) {
        buffer_put_text(text, "only a user with the role 'admin' may do that: "
                              "say who you are, or use the node's own socket "
                              "(hasp --socket)");
        return buffer_bytes(text);
    }
    buffer_printf(text, "user '%.*s' ", (int)user->name.size,
                  (const char *)user->name.data);
    if (verb < VERB_NAMED_COUNT && name.size == 0) {
        buffer_printf(text,
                      "may not %s all names: ask for a prefix that a "
                      "role has",
                      verb_name(verb));
    } else if (verb < VERB_NAMED_COUNT) {
        buffer_printf(text, "may not %s '%.*s'", verb_name(verb),
                      (int)name.size, (const char *)name.data);
    } else {
        buffer_printf(text, "has no right '%s'", verb_name(verb));
    }
    buffer_put_text(text, user->role_count > 0 ? " (roles:" : " (no roles)");
    for (uint32_t i = 0; i < user->role_count; i++) {
        /* The text has a bound, however many roles the user has. */
        if (i == ROLES_SHOWN_MAX) {
            buffer_put_text(text, " ...");
            break;
        }
        buffer_put_text(text, i > 0 ? ", " : " ");
        buffer_put_bytes(text, user->roles[i].name);
    }
    buffer_put_text(text, user->role_count > 0 ? ")" : "");
    return buffer_bytes(text);
}

void user_refuse(struct lockfsm *fsm, const struct user *user,
                 struct result *result)
{
    struct buffer *text = &fsm->scratch.refusal;
    buffer_clear(text);
    if (user == &fsm->access.anyone) {
        buffer_put_text(text, "not authenticated: present a client "
                              "certificate or use AUTH");
    } else if (user == NULL) {
        buffer_put_text(text, "the user was removed");
    } else {
        buffer_printf(text, "user '%.*s' is disabled", (int)user->name.size,
                      (const char *)user->name.data);
    }
    result->code = RESULT_NO_AUTH;
    result->text = buffer_bytes(text);
}

/* --- Entries -------------------------------------------------------------- */

/* Readers that exclude others for longer than they hold the lock (a delay) need
 * the right of writers. */
static enum verb verb_of(enum lock_mode mode, bool is_barging,
                         uint64_t delay_ms, uint64_t hold_ms)
{
    return mode == LOCK_SHARED && !is_barging && delay_ms == 0 && hold_ms == 0
               ? VERB_SHARE
               : VERB_LOCK;
}

static bool verb_is_refused(struct lockfsm *fsm, const struct user *user,
                            enum verb verb, struct bytes name,
                            struct result *result)
{
    if (lockfsm_may(fsm, user, verb, name, EXTENT_NAME, NULL)) {
        return false;
    }
    result->code = RESULT_NO_PERMISSION;
    result->text = lockfsm_refusal(fsm, user, verb, name);
    return true;
}

static bool acquire_is_refused(struct lockfsm *fsm, const struct user *user,
                               const struct acquire_command *acquire,
                               struct result *result)
{
    enum verb verb = verb_of(acquire->mode, acquire->is_barging,
                             acquire->delay_ms, acquire->hold_ms);
    for (uint32_t i = 0; i < acquire->name_count; i++) {
        if (verb_is_refused(fsm, user, verb, acquire->names[i], result)) {
            return true;
        }
    }
    return false;
}

/* Setting or renewing a key needs VERB_LOCK; every user may delete its own. */
static bool keys_are_refused(struct lockfsm *fsm, const struct user *user,
                             const struct redis_command *redis,
                             struct result *result)
{
    for (uint32_t i = 0; i < redis->key_count; i++) {
        const struct redis_key *key = &redis->keys[i];
        if ((key->change == REDIS_SET || key->change == REDIS_RENEW) &&
            verb_is_refused(fsm, user, VERB_LOCK, key->name, result)) {
            return true;
        }
    }
    return false;
}

static bool contents_are_refused(struct lockfsm *fsm, const struct user *user,
                                 const struct entry *command,
                                 struct result *result)
{
    switch (command->op) {
    case OP_ACQUIRE:
        return acquire_is_refused(fsm, user, command->acquire, result);
    case OP_CONVERT: /* Every user may give up a part of a hold. */
        return command->convert->to != LOCK_SHARED &&
               verb_is_refused(fsm, user, VERB_LOCK, command->convert->name,
                               result);
    case OP_REDIS:
        return keys_are_refused(fsm, user, command->redis, result);
    default: /* All entries with BY_CONTENTS in entry.def are above. */
        UNREACHABLE();
    }
}

/* True if only the leader proposes such an entry, which then needs no check. */
static bool access_is_of_leader(const struct entry *command,
                                const struct demand *demand)
{
    return demand->kind == DEMAND_LEADER ||
           (demand->may_be_leader && command->user == 0) ||
           (command->op == OP_ACT && command->act->kind != ACT_LOGIN);
}

bool access_refuses(struct lockfsm *fsm, const struct entry *command,
                    struct result *result)
{
    const struct demand *demand = &entry_row(command->op)->demand;
    const struct user *user = lockfsm_user(fsm, command->user);
    /* EXPIRE, TIME and their like have no user: the leader proposes them. */
    if (access_is_of_leader(command, demand)) {
        return false;
    }
    if (user == NULL || user->is_disabled) {
        user_refuse(fsm, user, result);
        return true;
    }
    switch (demand->kind) {
    case DEMAND_LEADER:
    case DEMAND_USER:
        return false;
    case DEMAND_NAME:
        return verb_is_refused(
            fsm, user, demand->verb,
            *(const struct bytes *)((const char *)command->body +
                                    demand->name_offset),
            result);
    case DEMAND_CLUSTER:
        return verb_is_refused(fsm, user, demand->verb, (struct bytes){NULL, 0},
                               result);
    case DEMAND_CONTENTS:
        return contents_are_refused(fsm, user, command, result);
    }
    UNREACHABLE();
}

bool access_hides_session(struct lockfsm *fsm, const struct entry *command,
                          struct result *result)
{
    const struct origin *origin = entry_origin(command);
    const struct session *session = origin != NULL && origin->session != 0
                                        ? session_find(fsm, origin->session)
                                        : NULL;
    if (session == NULL || session->user_number == command->user) {
        return false;
    }
    result->code = RESULT_NO_SESSION;
    return true;
}

bool lockfsm_refuses(struct lockfsm *fsm, const struct entry *entry,
                     struct result *ret_result)
{
    *ret_result = (struct result){.code = RESULT_OK};
    return access_hides_session(fsm, entry, ret_result) ||
           access_refuses(fsm, entry, ret_result) ||
           cells_refuse(fsm, entry, ret_result);
}

/* --- Withdrawal ----------------------------------------------------------- */

bool wait_is_allowed(const struct lockfsm *fsm, const struct wait *wait)
{
    enum verb verb = verb_of(wait->mode, false, wait->delay_ms, wait->hold_ms);
    return lockfsm_may(fsm, wait->session->user, verb, wait->lock->name,
                       EXTENT_NAME, NULL);
}

static bool user_has_role(const struct user *user, struct bytes name)
{
    for (uint32_t i = 0; i < user->role_count; i++) {
        if (bytes_equal(user->roles[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Refuses the request, with the reason, if one of its waits is no longer
 * allowed. */
static bool refuses_request(struct lockfsm *fsm, struct wait *first,
                            struct result *result)
{
    const struct user *user = first->session->user;
    REQUEST_EACH (const struct wait, wait, first) {
        if (!wait_is_allowed(fsm, wait)) {
            if (user->is_disabled) {
                user_refuse(fsm, user, result);
                /* The request has ended, so this result is stored even if the
                 * user gets the right later. */
                result->code = RESULT_NO_PERMISSION;
            } else {
                result->code = RESULT_NO_PERMISSION;
                result->text = lockfsm_refusal(
                    fsm, user,
                    verb_of(wait->mode, false, wait->delay_ms, wait->hold_ms),
                    wait->lock->name);
            }
            return true;
        }
    }
    return false;
}

/* The first wait of the next request; the waits of one request are adjacent. */
static struct wait *next_request(const struct session *session,
                                 struct wait *wait)
{
    struct list *at = &wait->in_session;
    uint64_t index = wait->wait_index;
    while (at != &session->waits &&
           LIST_ENTRY(at, struct wait, in_session)->wait_index == index) {
        at = at->next;
    }
    return at == &session->waits ? NULL
                                 : LIST_ENTRY(at, struct wait, in_session);
}

/* Touches the locks of the request: it was not granted because it was to be
 * refused, and may be granted now. */
static void touch_request(struct lockfsm *fsm, struct wait *first)
{
    REQUEST_EACH (const struct wait, wait, first) {
        lock_touch(fsm, wait->lock);
    }
}

bool access_recheck(struct lockfsm *fsm, struct session *session,
                    const struct result *listed, uint64_t looks_max,
                    uint64_t *ret_looks)
{
    bool is_left = session->recheck_serial != 0;
    struct wait *wait = is_left ? session->recheck_at
                                : LIST_FIRST(&session->waits, struct wait,
                                             in_session);
    CHECK(wait == NULL ||
          (listed != NULL) == (lockfsm_listed(fsm, session) != NULL));
    *ret_looks = 0;
    while (wait != NULL && *ret_looks < looks_max) {
        struct result withdrawn = {0};
        struct wait *next = next_request(session, wait);
        struct wait *first = request_first(wait);
        uint32_t count = request_count(first);
        if (listed != NULL || refuses_request(fsm, first, &withdrawn)) {
            *ret_looks += (uint64_t)count * LOOKS_PER_PLACE;
            wait_end(fsm, first, listed != NULL ? "blacklisted" : "withdrawn",
                     listed != NULL ? listed : &withdrawn);
        } else {
            *ret_looks += count;
            if (is_left || fsm->relist.at != 0) {
                touch_request(fsm, first);
            }
        }
        wait = next;
    }
    if (is_left) {
        session_recheck_from(fsm, session, wait);
    }
    /* The work of an entry has a budget; SWEEP does the rest. */
    fsm->entry.steps += *ret_looks / LOOKS_PER_PLACE;
    return wait == NULL;
}

void access_recheck_session(struct lockfsm *fsm, struct session *session,
                            const struct result *listed)
{
    uint64_t looks;
    if (session->recheck_serial != 0 ||
        session->wait_count > fsm->entry.slice_left) {
        session_set_recheck(fsm, session, true);
    } else {
        fsm->entry.slice_left -= session->wait_count;
        (void)access_recheck(fsm, session, listed, UINT64_MAX, &looks);
    }
}

struct changing {
    struct relisting relisting;
    bool with_idle; /* Includes sessions without waits. */
};

static bool access_look_at(struct treap_node *node, void *data)
{
    struct changing *changing = data;
    struct session *session = LIST_ENTRY(node, struct session, in_user);
    return reevaluate_look(&changing->relisting, session,
                           changing->with_idle || session->wait_count > 0);
}

static bool access_find_sessions(struct user *user, struct changing *changing)
{
    treap_each(&user->sessions, bytes_of("", 0), access_look_at, changing);
    return reevaluate_look(&changing->relisting, NULL, false);
}

void access_changed(struct lockfsm *fsm, struct user *user,
                    const struct role *role, bool tells_sessions)
{
    struct changing changing = {.relisting = reevaluate_begin(fsm),
                                .with_idle = tells_sessions};
    bool goes_on = user == NULL || access_find_sessions(user, &changing);
    for (struct user *with =
             user == NULL && role->user_count > 0 ? fsm->access.users : NULL;
         with != NULL && goes_on; with = with->by_name.next) {
        goes_on = user_has_role(with, role->name)
                      ? access_find_sessions(with, &changing)
                      : reevaluate_look(&changing.relisting, NULL, false);
    }
    reevaluate_end(fsm, &changing.relisting);
    effect_add(fsm, EFFECT_ACCESS_CHANGED);
}
