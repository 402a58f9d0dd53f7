/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_users.h"

uint64_t user_in(const struct script *script, uint64_t otherwise)
{
    struct bytes name = text_of(script, "as");
    if (name.size == 0) {
        return otherwise;
    }
    if (name.data[0] == '#') {
        return strtoull(option(script, "as") + 1, NULL, 10);
    }
    if (bytes_equal(name, BYTES_LITERAL("local"))) {
        return USER_LOCAL;
    }
    if (bytes_equal(name, BYTES_LITERAL("anyone"))) {
        return USER_ANYONE;
    }
    const struct user *user = lockfsm_user_named(script->plain.fsm, name);
    if (user == NULL) {
        bad(script, "no such user");
    }
    return user->number;
}

/* "if=5"; "if=now": the current revision. */
static uint64_t changed_in(const struct script *script, uint64_t now)
{
    const char *text = option(script, "if");
    return text != NULL && strcmp(text, "now") == 0 ? now
                                                    : number(script, "if");
}

/* "user app roles=a,b if=5 disabled reuse" */
void run_user(struct script *script, struct buffer *out)
{
    struct role_name roles[USER_ROLE_COUNT_MAX + 1];
    struct bytes names[MULTI_COUNT_MAX];
    struct quota bound;
    const char *given = option(script, "roles");
    char *list = memory_text(given != NULL ? given : "");
    const struct user *user = lockfsm_user_named(
        script->plain.fsm, bytes_of_text(word(script, 1)));
    uint64_t changed = changed_in(script, user != NULL ? user->changed : 0);
    struct user_set_command c = {.name = bytes_of_text(word(script, 1)),
                                 .roles = roles,
                                 .role_count = split_names(list, names),
                                 .is_disabled = flag(script, "disabled"),
                                 .is_reused = flag(script, "reuse"),
                                 .bounds = bound.of,
                                 .bound_count = QUOTA_COUNT,
                                 .if_changed = changed};
    CHECK(c.role_count <= USER_ROLE_COUNT_MAX + 1);
    for (int key = 0; key < QUOTA_COUNT; key++) {
        const char *name = quota_rules[key].name;
        bound.of[key] = option(script, name) != NULL ? number(script, name)
                                                     : quota_standard.of[key];
    }
    for (uint32_t i = 0; i < c.role_count; i++) {
        roles[i].name = names[i];
    }
    encode_user_set(out, &c);
    free(list);
}

void run_unuser(struct script *script, struct buffer *out)
{
    encode_user_remove(out, &(struct user_remove_command){
                                .name = bytes_of_text(word(script, 1))});
}

/* "secret app 7 label=2026": the hash begins with that byte. */
void run_secret(struct script *script, struct buffer *out)
{
    struct secret_add_command c = {
        .name = bytes_of_text(word(script, 1)),
        .hash = {(uint8_t)strtoul(word(script, 2), NULL, 10)},
        .label = text_of(script, "label")};
    encode_secret_add(out, &c);
}

void run_unsecret(struct script *script, struct buffer *out)
{
    encode_secret_remove(out,
                         &(struct secret_remove_command){
                             .name = bytes_of_text(word(script, 1)),
                             .number = strtoull(word(script, 2), NULL, 10)});
}

/* "role billing lock,read:orders sessions if=5" */
void run_role(struct script *script, struct buffer *out)
{
    struct grant grants[WORD_MAX];
    const struct role *role = lockfsm_role(script->plain.fsm,
                                           bytes_of_text(word(script, 1)));
    uint64_t changed = changed_in(script, role != NULL ? role->changed : 0);
    struct role_set_command c = {.name = bytes_of_text(word(script, 1)),
                                 .grants = grants,
                                 .if_changed = changed};
    for (uint32_t i = 2; i < script->word_count; i++) {
        if (strchr(script->word[i], '=') == NULL &&
            grant_parse(bytes_of_text(script->word[i]),
                        &grants[c.grant_count++]) != NULL) {
            bad(script, "grant");
        }
    }
    encode_role_set(out, &c);
}

void run_unrole(struct script *script, struct buffer *out)
{
    encode_role_remove(out, &(struct role_remove_command){
                                .name = bytes_of_text(word(script, 1))});
}

void run_access(struct script *script, struct buffer *out)
{
    encode_access_set(out, &(struct access_set_command){
                               .is_required = flag(script, "required"),
                               .is_forced = flag(script, "force")});
}

static void fingerprint_in(const struct script *script,
                           uint8_t fingerprint[FINGERPRINT_SIZE])
{
    memset(fingerprint, 0, FINGERPRINT_SIZE);
    fingerprint[0] = (uint8_t)strtoul(word(script, 1), NULL, 10);
}

/* "revoke 7 name=node.2": the fingerprint begins with that byte. */
void run_revoke(struct script *script, struct buffer *out)
{
    struct cert_revoke_command c = {.subject = text_of(script, "name")};
    fingerprint_in(script, c.fingerprint);
    encode_cert_revoke(out, &c);
}

void show_revoked(struct script *script, struct buffer *out)
{
    uint8_t fingerprint[FINGERPRINT_SIZE];
    fingerprint_in(script, fingerprint);
    const struct revocation *found = lockfsm_revocation(script->shown,
                                                        fingerprint);
    if (found == NULL) {
        buffer_put_text(out, "nothing\n");
        return;
    }
    buffer_put_text(out, "revoked");
    put_text(out, " name=", found->subject);
    put_number(out, "index", found->log_index);
    buffer_put_text(out, "\n");
}

void show_user(struct script *script, struct buffer *out)
{
    const struct user *user = lockfsm_user_named(
        script->shown, bytes_of_text(word(script, 1)));
    if (user == NULL) {
        buffer_put_text(out, "nothing\n");
        return;
    }
    buffer_put_text(out, user->number != 0 ? "user" : "removed");
    put_number(out, "number", user->number);
    put_number(out, "changed", user->changed);
    for (int key = 0; key < QUOTA_COUNT; key++) {
        put_number(out, quota_rules[key].name,
                   user_use(user, (enum quota_key)key));
    }
    for (uint32_t i = 0; i < user->role_count; i++) {
        put_text(out, " role=", user->roles[i].name);
    }
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        buffer_printf(out, " secret=%" PRIu64 "/%u", secret->number,
                      secret->hash[0]);
        put_text(out, "/", secret->label);
    }
    buffer_put_text(out, user->is_disabled ? " disabled\n" : "\n");
}

void show_role(struct script *script, struct buffer *out)
{
    const struct role *role = lockfsm_role(script->shown,
                                           bytes_of_text(word(script, 1)));
    if (role == NULL) {
        buffer_put_text(out, "nothing\n");
        return;
    }
    buffer_put_text(out, "role");
    put_number(out, "changed", role->changed);
    for (uint32_t i = 0; i < role->grant_count; i++) {
        buffer_put_text(out, " ");
        grant_print(out, &role->grants[i]);
    }
    buffer_put_text(out, "\n");
}

void show_acts(struct script *script, struct buffer *out)
{
    LIST_FOR (const struct act, act, lockfsm_acts(script->shown), in_order) {
        buffer_put_text(out, "act");
        put_number(out, "", act->number);
        put_number(out, "index", act->log_index);
        put_number(out, "wall", act->wall_ms);
        put_text(out, " ", act->command);
        put_text(out, " user=", act->user);
        put_text(out, " from=", act->from);
        put_text(out, " by=", act->by);
        put_text(out, ": ", act->what);
        put_text(out, " refused: ", act->why);
        put_number(out, "code", act->code);
        buffer_put_text(out, "\n");
    }
}
