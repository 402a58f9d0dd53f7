/* SPDX-License-Identifier: MIT */

#include "lockfsm/trail.h"

#include "lockfsm/encode.h"
#include "lockfsm/state.h"

static void put_number(struct trail *trail, const char *key, uint64_t number)
{
    if (number != 0) {
        CHECK(trail->count < TRAIL_FIELD_MAX);
        trail->field[trail->count++] = (struct trail_field){.key = key,
                                                            .number = number};
    }
}

static void put_text(struct trail *trail, const char *key,
                     ProtobufCBinaryData text)
{
    if (text.len != 0) {
        CHECK(trail->count < TRAIL_FIELD_MAX);
        trail->field[trail->count++] = (struct trail_field){
            .key = key, .is_text = true, .text = bytes_from(text)};
    }
}

/* --- What each one is about ----------------------------------------------- */

typedef void trail_fn(const struct lockfsm *fsm, const Hasp__Command *command,
                      struct trail *trail);

/* Only the first BEGIN of a life is more than a leader's beginning. */
static void of_begin(const struct lockfsm *fsm, const Hasp__Command *command,
                     struct trail *trail)
{
    if (fsm->is_begun || command->begin->cluster_id.len == 0) {
        trail->command = NULL;
        return;
    }
    put_number(trail, "node", command->begin->node);
    put_number(trail, "restored", fsm->is_new_life);
    put_number(trail, "quarantine_ms", fsm->quarantine_ms);
}

static void of_release_if(const struct lockfsm *fsm,
                          const Hasp__Command *command, struct trail *trail)
{
    const Hasp__ReleaseIf *message = command->release_if;
    (void)fsm;
    put_text(trail, "lock", message->name);
    put_number(trail, "of_session", message->session);
    put_text(trail, "owner", message->owner);
    put_number(trail, "token", message->token);
}

static void of_please(const struct lockfsm *fsm, const Hasp__Command *command,
                      struct trail *trail)
{
    (void)fsm;
    put_text(trail, "lock", command->please->name);
    put_text(trail, "message", command->please->message);
}

static void of_blacklist_add(const struct lockfsm *fsm,
                             const Hasp__Command *command, struct trail *trail)
{
    const Hasp__BlacklistAdd *message = command->blacklist_add;
    (void)fsm;
    put_number(trail, "of_session", message->session);
    put_text(trail, "pattern", message->client);
    put_text(trail, "reason", message->reason);
    put_number(trail, "for_ms", message->for_ms);
    if (trail->by.size == 0) {
        trail->by = bytes_from(message->by);
    }
}

static void of_blacklist_remove(const struct lockfsm *fsm,
                                const Hasp__Command *command,
                                struct trail *trail)
{
    (void)fsm;
    put_number(trail, "of_session", command->blacklist_remove->session);
    put_text(trail, "pattern", command->blacklist_remove->client);
}

static void of_blacklist_over(const struct lockfsm *fsm,
                              const Hasp__Command *command, struct trail *trail)
{
    (void)fsm;
    put_number(trail, "since_index", command->blacklist_over->since_index);
}

static void of_quarantine_over(const struct lockfsm *fsm,
                               const Hasp__Command *command,
                               struct trail *trail)
{
    (void)fsm;
    put_number(trail, "since_index", command->quarantine_over->since_index);
    put_text(trail, "reason", command->quarantine_over->reason);
}

static void of_set_feature(const struct lockfsm *fsm,
                           const Hasp__Command *command, struct trail *trail)
{
    put_number(trail, "level", command->set_feature->level);
    put_number(trail, "before", lockfsm_feature_level(fsm));
}

static void of_set_limit(const struct lockfsm *fsm,
                         const Hasp__Command *command, struct trail *trail)
{
    const Hasp__SetLimit *message = command->set_limit;
    (void)fsm;
    if (message->key < LIMIT_COUNT) {
        put_text(trail, "limit",
                 (ProtobufCBinaryData){
                     strlen(limit_rules[message->key].name),
                     (uint8_t *)(uintptr_t)limit_rules[message->key].name});
    }
    put_number(trail, "value", message->value);
}

static void of_fence_remove(const struct lockfsm *fsm,
                            const Hasp__Command *command, struct trail *trail)
{
    struct bytes resource = bytes_from(command->fence_remove->resource);
    const struct fence *fence = fence_find(fsm, resource);
    put_text(trail, "resource", command->fence_remove->resource);
    put_number(trail, "token", fence != NULL ? fence->token : 0);
}

static void of_act(const struct lockfsm *fsm, const Hasp__Command *command,
                   struct trail *trail)
{
    static const char *const names[] = {
        [ACT_ADD] = "RAFT.ADD",
        [ACT_PROMOTE] = "RAFT.PROMOTE",
        [ACT_DEMOTE] = "RAFT.DEMOTE",
        [ACT_REMOVE] = "RAFT.REMOVE",
    };
    uint32_t kind = command->act->kind;
    (void)fsm;
    if (kind < sizeof names / sizeof names[0]) {
        trail->command = names[kind];
    }
    put_number(trail, "member", command->act->member);
    put_text(trail, "address", command->act->address);
}

/* By the numbers of command.proto. */
static const struct {
    const char *command;
    trail_fn *fill;
} rows[] = {
    [HASP__COMMAND__OP_BEGIN] = {"LIFE", of_begin},
    [HASP__COMMAND__OP_RELEASE_IF] = {"LOCK.RELEASEIF", of_release_if},
    [HASP__COMMAND__OP_PLEASE] = {"LOCK.PLEASE", of_please},
    [HASP__COMMAND__OP_BLACKLIST_ADD] = {"BLACKLIST.ADD", of_blacklist_add},
    [HASP__COMMAND__OP_BLACKLIST_REMOVE] = {"BLACKLIST.REMOVE",
                                            of_blacklist_remove},
    [HASP__COMMAND__OP_BLACKLIST_OVER] = {"BLACKLIST.OVER", of_blacklist_over},
    [HASP__COMMAND__OP_QUARANTINE_OVER] = {"QUARANTINE.OVER",
                                           of_quarantine_over},
    [HASP__COMMAND__OP_SET_FEATURE] = {"RAFT.FINALIZE", of_set_feature},
    [HASP__COMMAND__OP_SET_LIMIT] = {"LIMITS.SET", of_set_limit},
    [HASP__COMMAND__OP_FENCE_REMOVE] = {"FENCE.REMOVE", of_fence_remove},
    [HASP__COMMAND__OP_ACT] = {"ACT", of_act},
};

void trail_note(struct lockfsm *fsm, const Hasp__Command *command)
{
    struct trail *trail = &fsm->trail;
    size_t op = (size_t)command->op_case;
    *trail = (struct trail){.command = NULL};
    if (op >= sizeof rows / sizeof rows[0] || rows[op].command == NULL) {
        return;
    }
    trail->command = rows[op].command;
    trail->from = bytes_from(command->from);
    trail->by = bytes_from(command->by);
    trail->session = fsm->origin.session;
    rows[op].fill(fsm, command, trail);
}

const struct trail *lockfsm_trail(const struct lockfsm *fsm)
{
    return &fsm->trail;
}
