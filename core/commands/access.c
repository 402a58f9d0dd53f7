/* SPDX-License-Identifier: MIT */

/* USER.*, SECRET.*, ROLE.*, ACCESS.SET, CERT.*, WHOAMI. */

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "core/authorize.h"
#include "core/commands/listing.h"
#include "core/propose.h"
#include "core/request.h"
#include "core/state.h"

/* --- Arguments ------------------------------------------------------------ */

static bool access_is_name(struct call *call, struct resp_writer *writer,
                           struct bytes name)
{
    return user_name_is_valid(name) ||
           call_fail(call, writer,
                     "a name has 1 to 64 letters, digits, '.', '_', '-'");
}

/* Parses "name IF changed"; '*ret_at' is the index of the next argument. */
static bool access_parse_if(struct call *call, struct resp_writer *writer,
                            uint32_t *ret_at)
{
    CHECK(call->count >= 3); /* The table of commands sets the arity. */
    call->name = call->argument[1];
    if (!access_is_name(call, writer, call->name)) {
        return false;
    }
    if (!bytes_is_word(call->argument[2], "IF") || call->count < 4 ||
        !bytes_to_u64(call->argument[3], &call->id)) {
        return call_fail(call, writer,
                         "IF must be the 'changed' that was last shown, or 0 "
                         "to create it");
    }
    *ret_at = 4;
    return true;
}

/* Takes all arguments after 'word' as the names. */
static bool parse_rest(struct call *call, struct resp_writer *writer,
                       uint32_t at, const char *word, uint32_t max)
{
    CHECK(at <= call->count);
    if (at == call->count) {
        return true;
    }
    if (!bytes_is_word(call->argument[at], word) ||
        call->count - at - 1 > max) {
        return call_fail(call, writer, "unknown option, or too many names");
    }
    call->names = &call->argument[at + 1];
    call->name_count = call->count - at - 1;
    return true;
}

/* Parses a quota such as "SESSIONS 100" at '*at' and advances it; false if
 * there is none, with an error if its number is out of range. */
static bool parse_bound(struct call *call, struct resp_writer *writer,
                        uint32_t *at, bool *ret_failed)
{
    for (int key = 0; key < QUOTA_COUNT; key++) {
        const struct quota_rule *rule = &quota_rules[key];
        uint64_t *bound = &call->bound.of[key];
        if (!bytes_is_word(call->argument[*at], rule->word)) {
            continue;
        }
        *at += 1;
        if (*at == call->count || !bytes_to_u64(call->argument[*at], bound) ||
            *bound > rule->max) {
            char why[96];
            snprintf(why, sizeof why, "%s must be from 0 to %" PRIu64,
                     rule->name, rule->max);
            *ret_failed = true;
            return call_fail(call, writer, why);
        }
        return true;
    }
    return false;
}

bool user_set_parse(struct call *call, struct resp_writer *writer)
{
    uint32_t at;
    bool has_failed = false;
    call->is_disabled = call->is_reused = false;
    call->bound = quota_standard;
    if (!access_parse_if(call, writer, &at)) {
        return false;
    }
    for (; at < call->count; at++) {
        if (bytes_is_word(call->argument[at], "DISABLED")) {
            call->is_disabled = true;
        } else if (bytes_is_word(call->argument[at], "REUSE")) {
            call->is_reused = true;
        } else if (!parse_bound(call, writer, &at, &has_failed)) {
            break;
        }
    }
    if (has_failed ||
        !parse_rest(call, writer, at, "ROLES", USER_ROLE_COUNT_MAX)) {
        return false;
    }
    for (uint32_t i = 0; i < call->name_count; i++) {
        if (!access_is_name(call, writer, call->names[i])) {
            return false;
        }
    }
    return true;
}

bool role_set_parse(struct call *call, struct resp_writer *writer)
{
    uint32_t at;
    if (!access_parse_if(call, writer, &at) ||
        !parse_rest(call, writer, at, "GRANTS", GRANT_COUNT_MAX)) {
        return false;
    }
    for (uint32_t i = 0; i < call->name_count; i++) {
        struct grant grant;
        const char *wrong = grant_parse(call->names[i], &grant);
        if (wrong != NULL) {
            return call_fail(call, writer, wrong);
        }
    }
    return true;
}

bool access_set_parse(struct call *call, struct resp_writer *writer)
{
    struct bytes word = call->argument[1];
    call->is_required = bytes_is_word(word, "REQUIRED");
    if (!call->is_required && !bytes_is_word(word, "OPEN")) {
        return call_fail(call, writer, "OPEN or REQUIRED expected");
    }
    if (call->count == 2) {
        return true;
    }
    call->given |= UINT64_C(1) << OPTION_FORCE;
    return (call->count == 3 && bytes_is_word(call->argument[2], "FORCE")) ||
           call_fail(call, writer, "only FORCE may follow");
}

/* --- Changes -------------------------------------------------------------- */

void user_set_propose(struct core *core, struct request *request,
                      const struct call *call)
{
    struct role_name roles[USER_ROLE_COUNT_MAX];
    CHECK(call->name_count <= USER_ROLE_COUNT_MAX);
    for (uint32_t i = 0; i < call->name_count; i++) {
        roles[i].name = call->names[i];
    }
    propose_user_set(
        core, request,
        &(struct user_set_command){.name = call->name,
                                   .roles = roles,
                                   .role_count = call->name_count,
                                   .is_disabled = call->is_disabled,
                                   .is_reused = call->is_reused,
                                   .bounds = call->bound.of,
                                   .bound_count = QUOTA_COUNT,
                                   .if_changed = call->id});
}

void secret_add_propose(struct core *core, struct request *request,
                        const struct call *call)
{
    struct secret_add_command add = {.name = call->name,
                                     .label = call_text(call, OPTION_NAME)};
    memcpy(add.hash, call->proof, sizeof add.hash);
    propose_secret_add(core, request, &add);
}

void role_set_propose(struct core *core, struct request *request,
                      const struct call *call)
{
    struct grant grants[GRANT_COUNT_MAX];
    CHECK(call->name_count <= GRANT_COUNT_MAX);
    for (uint32_t i = 0; i < call->name_count; i++) {
        const char *wrong = grant_parse(call->names[i], &grants[i]);
        CHECK(wrong == NULL); /* The grant was checked on receipt. */
    }
    propose_role_set(core, request,
                     &(struct role_set_command){.name = call->name,
                                                .grants = grants,
                                                .grant_count = call->name_count,
                                                .if_changed = call->id});
}

void cert_revoke_propose(struct core *core, struct request *request,
                         const struct call *call)
{
    struct cert_revoke_command revoke = {
        .subject = call_text(call, OPTION_NAME)};
    memcpy(revoke.fingerprint, call->proof, sizeof revoke.fingerprint);
    propose_cert_revoke(core, request, &revoke);
}

/* --- Reading -------------------------------------------------------------- */

static void put_roles(const struct user *user, struct resp_writer *writer)
{
    CHECK(user->role_count <= USER_ROLE_COUNT_MAX);
    resp_key_array(writer, "roles", user->role_count);
    for (uint32_t i = 0; i < user->role_count; i++) {
        resp_bulk(writer, user->roles[i].name);
    }
}

/* Shows "sessions" and "sessions_max"; for what each node counts for itself
 * only the bound. */
static void put_quotas(const struct user *user, struct resp_writer *writer)
{
    for (int i = 0; i < QUOTA_COUNT; i++) {
        enum quota_key key = (enum quota_key)i;
        char name[32];
        if (!quota_is_local(key)) {
            resp_key_integer(writer, quota_rules[key].name,
                             (int64_t)user_use(user, key));
        }
        snprintf(name, sizeof name, "%s_max", quota_rules[key].name);
        resp_key_number(writer, name, user_bound(user, key));
    }
}

static void access_put_user(const struct user *user, struct resp_writer *writer)
{
    resp_map(writer, 6 + 2 * QUOTA_COUNT - LOCAL_QUOTA_COUNT);
    resp_key_bulk(writer, "name", user->name);
    resp_key_number(writer, "number", user->number);
    resp_key_number(writer, "changed", user->changed);
    resp_key_text(writer, "state",
                  user->number == 0   ? "removed"
                  : user->is_disabled ? "disabled"
                                      : "enabled");
    put_roles(user, writer);
    put_quotas(user, writer);
    resp_key_array(writer, "secrets", user->secret_count);
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        resp_map(writer, 2);
        resp_key_number(writer, "number", secret->number);
        resp_key_bulk(writer, "label", secret->label);
    }
}

static void put_grant(const struct grant *grant, struct resp_writer *writer)
{
    struct buffer text = {0};
    grant_print(&text, grant);
    resp_bulk(writer, buffer_bytes(&text));
    buffer_done(&text);
}

static void put_role(const struct role *role, struct resp_writer *writer)
{
    CHECK(role->grant_count <= GRANT_COUNT_MAX);
    resp_map(writer, 3);
    resp_key_bulk(writer, "name", role->name);
    resp_key_number(writer, "changed", role->changed);
    resp_key_array(writer, "grants", role->grant_count);
    for (uint32_t i = 0; i < role->grant_count; i++) {
        put_grant(&role->grants[i], writer);
    }
}

void user_show_read(struct core *core, struct request *request)
{
    const struct user *user = lockfsm_user_named(core->fsm,
                                                 request->call->name);
    if (user == NULL) {
        request_refuse(core, request, WORD_BADARG, "there is no such user");
        return;
    }
    access_put_user(user, request_reply(core, request));
    request_done(core, request);
}

void role_show_read(struct core *core, struct request *request)
{
    const struct role *role = lockfsm_role(core->fsm, request->call->name);
    if (role == NULL) {
        request_refuse(core, request, WORD_BADARG, "there is no such role");
        return;
    }
    put_role(role, request_reply(core, request));
    request_done(core, request);
}

static void user_row(struct core *core, const struct request *request,
                     const struct treap_node *node, struct resp_writer *writer)
{
    (void)core;
    (void)request;
    access_put_user(LIST_ENTRY(node, const struct user, in_order), writer);
}

void user_list_read(struct core *core, struct request *request)
{
    listing_answer(core, request, lockfsm_user_order(core->fsm), false,
                   user_row);
}

static void role_row(struct core *core, const struct request *request,
                     const struct treap_node *node, struct resp_writer *writer)
{
    (void)core;
    (void)request;
    put_role(LIST_ENTRY(node, const struct role, in_order), writer);
}

void role_list_read(struct core *core, struct request *request)
{
    listing_answer(core, request, lockfsm_role_order(core->fsm), false,
                   role_row);
}

static void revocation_row(struct core *core, const struct request *request,
                           const struct treap_node *node,
                           struct resp_writer *writer)
{
    const struct revocation *revocation = LIST_ENTRY(
        node, const struct revocation, in_order);
    (void)core;
    (void)request;
    resp_map(writer, 3);
    resp_key_text(writer, "fingerprint", revocation->digits);
    resp_key_bulk(writer, "name", revocation->subject);
    resp_key_number(writer, "index", revocation->log_index);
}

void cert_revoked_read(struct core *core, struct request *request)
{
    listing_answer(core, request, lockfsm_revocation_order(core->fsm), false,
                   revocation_row);
}

/* Arguments: name, verb and lock; the lock of a verb of the cluster is empty.
 */
void user_can_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    const struct user *user = lockfsm_user_named(core->fsm, call->argument[1]);
    struct permission permission;
    if (user == NULL || user->number == 0) {
        request_refuse(core, request, WORD_BADARG, "there is no such user");
        return;
    }
    /* The function that decides requests answers here, too, so that the answer
     * cannot differ from what would happen. */
    bool may = lockfsm_may(core->fsm, user, call->verb, call->name, EXTENT_NAME,
                           &permission);
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 4);
    resp_key_bool(writer, "may", may);
    resp_key_bool(writer, "disabled", user->is_disabled);
    resp_text(writer, "role");
    if (permission.role != NULL) {
        resp_bulk(writer, permission.role->name);
        resp_text(writer, "grant");
        put_grant(permission.grant, writer);
    } else {
        resp_null(writer);
        resp_text(writer, "grant");
        resp_null(writer);
    }
    request_done(core, request);
}

/* Shows the names of the verbs of the cluster that the user has. */
static void put_may(const struct core *core, const struct request *request,
                    struct resp_writer *writer)
{
    uint32_t count = 0;
    for (enum verb verb = VERB_NAMED_COUNT; verb < VERB_COUNT; verb++) {
        count += authorize_has(core, request, verb);
    }
    resp_key_array(writer, "may", count);
    for (enum verb verb = VERB_NAMED_COUNT; verb < VERB_COUNT; verb++) {
        if (authorize_has(core, request, verb)) {
            resp_text(writer, verb_name(verb));
        }
    }
}

void whoami_run(struct core *core, struct request *request)
{
    const struct conn *conn = request->conn;
    const struct user *user = lockfsm_user(core->fsm, request->user);
    static const char *const ways[] = {[IDENTITY_NONE] = "secret",
                                       [IDENTITY_LOCAL] = "local",
                                       [IDENTITY_CERTIFICATE] = "certificate"};
    CHECK(conn != NULL); /* A COMMAND_LOCAL comes from no peer. */
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 5);
    resp_key_bulk(writer, "user", identity_name(core, request->user));
    resp_key_text(writer, "by",
                  request->user == USER_ANYONE ? "nothing" : ways[conn->way]);
    resp_key_text(writer, "access",
                  lockfsm_access_is_required(core->fsm) ? "required" : "open");
    if (user != NULL) {
        put_roles(user, writer);
    } else {
        resp_key_array(writer, "roles", 0);
    }
    put_may(core, request, writer);
    request_done(core, request);
}
