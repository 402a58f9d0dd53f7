/* SPDX-License-Identifier: MIT */

/* Commands on sets. Members are in the order in which they were added. */

#include "base/check.h"
#include "core/redis/views.h"

static bool do_sadd(struct key_call *call)
{
    if (!view_edit(call, call->view, KEY_SET)) {
        return false;
    }
    struct collection *set = &call->view->members;
    uint32_t before = set->count;
    for (uint32_t i = 2; i < call->count; i++) {
        if (!view_spend(call, set->count)) {
            return false;
        }
        if (collection_find(set, call->argument[i]) == set->count) {
            collection_insert(
                set, call->keys->arena, set->count,
                &(struct collection_member){.name = call->argument[i]});
        }
    }
    /* Otherwise the difference would wrap around. */
    CHECK(set->count >= before);
    uint32_t added = set->count - before;
    return view_edited(call, call->view, added > 0) &&
           answer_number(call, added);
}

static bool do_sismember(struct key_call *call)
{
    const struct collection *set = &call->view->members;
    return answer_number(call,
                         collection_find(set, call->argument[2]) < set->count);
}

static bool do_smembers(struct key_call *call)
{
    return answer_members(call, 0, call->view->members.count);
}

const struct key_command key_set_commands[] = {
    {"SADD", 3, UINT32_MAX, do_sadd, KEY_SET, 0},
    {"SREM", 3, UINT32_MAX, view_remove, KEY_SET, 0},
    {"SCARD", 2, 2, answer_count, KEY_SET, 0},
    {"SISMEMBER", 3, 3, do_sismember, KEY_SET, 0},
    {"SMEMBERS", 2, 2, do_smembers, KEY_SET, 0},
    {.name = NULL},
};
