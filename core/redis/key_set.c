/* SPDX-License-Identifier: MIT */

/* Commands on sets. Their members stand in the order in which they came. */

#include "core/redis/views.h"

static bool find_set(struct redis_keys *keys, struct bytes name,
                     struct redis_view **ret_view, struct value *ret)
{
    return view_find_type(keys, name, KEY_SET, ret_view, ret);
}

static bool do_sadd(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    if (!find_set(keys, argument[1], &view, ret) ||
        !view_edit(keys, view, KEY_SET, ret)) {
        return false;
    }
    struct collection *set = &view->members;
    uint32_t before = set->count;
    for (uint32_t i = 2; i < count; i++) {
        if (collection_find(set, argument[i]) == set->count) {
            collection_insert(set, keys->arena, set->count,
                              &(struct member){.name = argument[i]});
        }
    }
    uint32_t added = set->count - before;
    return view_edited(keys, view, added > 0, ret) && answer_number(ret, added);
}

static bool do_srem(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    return find_set(keys, argument[1], &view, ret) &&
           view_remove(keys, view, &argument[2], count - 2, ret);
}

static bool do_scard(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_set(keys, argument[1], &view, ret) &&
           answer_number(ret, view->members.count);
}

static bool do_sismember(struct redis_keys *keys, const struct bytes *argument,
                         uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_set(keys, argument[1], &view, ret) &&
           answer_number(ret, collection_find(&view->members, argument[2]) <
                                  view->members.count);
}

static bool do_smembers(struct redis_keys *keys, const struct bytes *argument,
                        uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find_set(keys, argument[1], &view, ret)) {
        return false;
    }
    *ret = value_new_table(keys->arena);
    for (uint32_t i = 0; i < view->members.count; i++) {
        answer_append(keys, ret, value_of_text(view->members.member[i].name));
    }
    return true;
}

const struct key_command key_set_commands[] = {
    {"SADD", 3, UINT32_MAX, do_sadd}, {"SREM", 3, UINT32_MAX, do_srem},
    {"SCARD", 2, 2, do_scard},        {"SISMEMBER", 3, 3, do_sismember},
    {"SMEMBERS", 2, 2, do_smembers},  {.name = NULL},
};
