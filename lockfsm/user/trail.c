/* SPDX-License-Identifier: MIT */

/* Fills in the operators' log line of an administrative entry, before it is
 * applied. */

#include "lockfsm/user/trail.h"

#include <inttypes.h>

#include "lockfsm/entry.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/user/user.h"

/* The largest size of a list of roles or grants in a line. */
#define LIST_SIZE_MAX 800

static void trail_write_number(struct buffer *what, const char *key,
                               uint64_t number)
{
    if (number != 0) {
        buffer_printf(what, "%s%s=%" PRIu64, what->size > 0 ? " " : "", key,
                      number);
    }
}

/* Writes a value that cannot be mistaken for two: quoted if it contains
 * characters that names do not have. */
static void trail_write_text(struct buffer *what, const char *key,
                             struct bytes text)
{
    bool is_plain = true;
    if (text.size == 0) {
        return;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        is_plain &= c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
    }
    buffer_printf(what, "%s%s=%s", what->size > 0 ? " " : "", key,
                  is_plain ? "" : "\"");
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c < ' ' || c >= 0x7f || c == '"' || c == '\\') {
            buffer_printf(what, "\\x%02x", c);
        } else {
            buffer_put_u8(what, c);
        }
    }
    buffer_put_text(what, is_plain ? "" : "\"");
}

/* Adds the members that the rows of entry.def mark for the trail. */
static void put_fields(struct buffer *what, const struct entry *command)
{
    const struct codec_message *message = entry_row(command->op)->message();
    for (size_t i = 0; i < message->field_count; i++) {
        const struct codec_field *field = &message->fields[i];
        const void *at = (const char *)command->body + field->offset;
        if (field->trail == NULL) {
            continue;
        }
        if (field->type == CODEC_TYPE_BYTES) {
            trail_write_text(what, field->trail, *(const struct bytes *)at);
        } else if (field->type == CODEC_TYPE_U32) {
            trail_write_number(what, field->trail, *(const uint32_t *)at);
        } else {
            CHECK(field->type == CODEC_TYPE_U64);
            trail_write_number(what, field->trail, *(const uint64_t *)at);
        }
    }
}

/* Adds the list that was gathered from 'start' on. */
static void trail_put_list(struct lockfsm *fsm, const char *key, size_t start,
                           size_t end)
{
    size_t size = end - start;
    trail_write_text(&fsm->scratch.what, key,
                     bytes_of(fsm->scratch.listed.data + start,
                              size < LIST_SIZE_MAX ? size : LIST_SIZE_MAX));
}

/* Adds the user's roles, and the bounds that differ from the default. */
static void trail_put_user(struct lockfsm *fsm,
                           const struct user_set_command *set)
{
    struct buffer *list = &fsm->scratch.listed;
    buffer_clear(list);
    for (uint32_t i = 0; i < set->role_count; i++) {
        buffer_put_text(list, i > 0 ? "," : "");
        buffer_put_bytes(list, set->roles[i].name);
    }
    size_t roles_end = list->size;
    for (uint32_t key = 0; key < set->bound_count && key < QUOTA_COUNT; key++) {
        if (set->bounds[key] != quota_standard.of[key]) {
            buffer_printf(list, "%s%s:%" PRIu64,
                          list->size > roles_end ? "," : "",
                          quota_rules[key].name, set->bounds[key]);
        }
    }
    trail_put_list(fsm, "roles", 0, roles_end);
    trail_put_list(fsm, "quotas", roles_end, list->size);
    trail_write_number(&fsm->scratch.what, "disabled", set->is_disabled);
}

static void trail_put_grants(struct lockfsm *fsm,
                             const struct role_set_command *set)
{
    buffer_clear(&fsm->scratch.listed);
    for (uint32_t i = 0; i < set->grant_count; i++) {
        buffer_put_text(&fsm->scratch.listed, i > 0 ? " " : "");
        grant_print(&fsm->scratch.listed, &set->grants[i]);
    }
    trail_put_list(fsm, "grants", 0, fsm->scratch.listed.size);
}

static const char *trail_of_act(uint32_t kind)
{
    static const char *const acts[] = {
        [ACT_ADD] = "RAFT.ADD",         [ACT_PROMOTE] = "RAFT.PROMOTE",
        [ACT_DEMOTE] = "RAFT.DEMOTE",   [ACT_REMOVE] = "RAFT.REMOVE",
        [ACT_LOGIN] = "AUDIT.LOGIN",    [ACT_UPDATE] = "RAFT.UPDATE",
        [ACT_REPLACE] = "RAFT.REPLACE",
    };
    return kind < sizeof acts / sizeof acts[0] ? acts[kind] : "ACT";
}

static const char *trail_of_cells(uint32_t kind)
{
    static const char *const cells[] = {
        [CELLS_JOIN] = "CELLS.JOIN",   [CELLS_GIVE] = "CELLS.GIVE",
        [CELLS_TAKE] = "CELLS.TAKE",   [CELLS_POINT] = "CELLS.POINT",
        [CELLS_VOUCH] = "CELLS.VOUCH", [CELLS_CONFIRM] = "CELLS.CONFIRM",
    };
    return kind < sizeof cells / sizeof cells[0] ? cells[kind] : "CELLS";
}

/* Adds further information for operators, from the state before the entry is
 * applied. */
static void trail_put_more(struct lockfsm *fsm, const struct entry *command,
                           struct trail *trail)
{
    struct buffer *what = &fsm->scratch.what;
    char digits[2 * FINGERPRINT_SIZE + 1];
    const struct fence *fence;
    switch (command->op) {
    case OP_BEGIN:
        trail_write_number(what, "restored", fsm->epoch.is_new_life);
        trail_write_number(what, "quarantine_ms", fsm->epoch.quarantine_ms);
        trail->tells_itself = true;
        trail->begins_life = true;
        return;
    case OP_BLACKLIST_ADD:
        if (trail->by.size == 0) {
            trail->by = command->blacklist_add->by;
        }
        return;
    case OP_SET_FEATURE:
        trail_write_number(what, "before", lockfsm_feature_level(fsm));
        trail->tells_itself = true;
        return;
    case OP_SET_LIMIT:
        if (command->set_limit->key < LIMIT_COUNT) {
            trail_write_text(
                what, "limit",
                bytes_of_text(limit_rules[command->set_limit->key].name));
        }
        trail_write_number(what, "value", command->set_limit->value);
        return;
    case OP_FENCE_REMOVE:
        fence = fence_find(fsm, command->fence_remove->resource);
        trail_write_number(what, "token", fence != NULL ? fence->token : 0);
        return;
    case OP_ACCESS_SET:
        trail_write_text(what, "access",
                         bytes_of_text(command->access_set->is_required
                                           ? "required"
                                           : "open"));
        return;
    case OP_CERT_REVOKE:
        hex_put(digits,
                bytes_of(command->cert_revoke->fingerprint, FINGERPRINT_SIZE));
        trail_write_text(what, "fingerprint", bytes_of_text(digits));
        return;
    case OP_ACT:
        trail->command = trail_of_act(command->act->kind);
        return;
    case OP_CELLS:
        trail->command = trail_of_cells(command->cells->kind);
        return;
    case OP_USER_SET:
        trail_put_user(fsm, command->user_set);
        return;
    case OP_ROLE_SET:
        trail_put_grants(fsm, command->role_set);
        return;
    case OP_PLEASE:
    /* release.c turns this into an act if another user's hold is released. */
    case OP_RELEASE_IF:
        trail->is_for_log = true;
        return;
    default:
        return;
    }
}

void trail_note(struct lockfsm *fsm, const struct entry *command)
{
    struct trail *trail = &fsm->entry.trail;
    *trail = (struct trail){.command = entry_row(command->op)->trail};
    if (command->op == OP_BEGIN &&
        (fsm->epoch.is_begun || command->begin->cluster_id.size == 0)) {
        trail->command = NULL; /* A BEGIN is an act only if it starts an epoch.
                                */
    }
    if (trail->command == NULL) {
        return;
    }
    trail->from = command->from;
    trail->by = command->by;
    if (fsm->entry.user != NULL && fsm->entry.user != &fsm->access.anyone) {
        trail->user = fsm->entry.user->name;
    }
    trail->session = fsm->entry.origin.session;
    buffer_clear(&fsm->scratch.what);
    put_fields(&fsm->scratch.what, command);
    trail_put_more(fsm, command, trail);
    trail->what = buffer_bytes(&fsm->scratch.what);
}

const struct trail *lockfsm_trail(const struct lockfsm *fsm)
{
    return &fsm->entry.trail;
}

void trail_none(struct lockfsm *fsm)
{
    fsm->entry.trail.command = NULL;
}

void trail_is_for_log(struct lockfsm *fsm, bool is_for_log)
{
    fsm->entry.trail.is_for_log = is_for_log;
}
