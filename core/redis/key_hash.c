/* SPDX-License-Identifier: MIT */

/* Commands on hashes. */

#include <inttypes.h>
#include <stdio.h>

#include "core/redis/views.h"

static bool find_hash(struct redis_keys *keys, struct bytes name,
                      struct redis_view **ret_view, struct value *ret)
{
    return view_find_type(keys, name, KEY_HASH, ret_view, ret);
}

/* NULL: there is no such field. */
static struct member *find_field(const struct redis_view *view,
                                 struct bytes field)
{
    uint32_t place = collection_find(&view->members, field);
    return place < view->members.count ? &view->members.member[place] : NULL;
}

/* False with the error. */
static bool set_field(struct redis_keys *keys, struct redis_view *view,
                      struct bytes field, struct bytes value, struct value *ret)
{
    struct member *member = find_field(view, field);
    if (!view_edit(keys, view, KEY_HASH, ret)) {
        return false;
    }
    if (member != NULL) {
        member->value = value;
    } else {
        collection_insert(&view->members, keys->arena, view->members.count,
                          &(struct member){.name = field, .value = value});
    }
    return view_edited(keys, view, member == NULL, ret);
}

static bool do_hget(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    const struct member *member = find_field(view, argument[2]);
    return member != NULL ? answer_text(ret, member->value) : answer_nil(ret);
}

static bool do_hexists(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_hash(keys, argument[1], &view, ret) &&
           answer_number(ret, find_field(view, argument[2]) != NULL);
}

static bool do_hstrlen(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    return do_hget(keys, argument, count, ret) &&
           answer_number(ret,
                         ret->type == VALUE_TEXT ? (int64_t)ret->text.size : 0);
}

static bool do_hmget(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    *ret = value_new_table(keys->arena);
    for (uint32_t i = 2; i < count; i++) {
        const struct member *member = find_field(view, argument[i]);
        answer_append(keys, ret,
                      member != NULL ? value_of_text(member->value)
                                     : value_of_bool(false));
    }
    return true;
}

/* HKEYS, HVALS, HGETALL. */
static bool tell_all(struct redis_keys *keys, struct bytes name,
                     bool tells_fields, bool tells_values, struct value *ret)
{
    struct redis_view *view;
    if (!find_hash(keys, name, &view, ret)) {
        return false;
    }
    *ret = value_new_table(keys->arena);
    for (uint32_t i = 0; i < view->members.count; i++) {
        const struct member *member = &view->members.member[i];
        if (tells_fields) {
            answer_append(keys, ret, value_of_text(member->name));
        }
        if (tells_values) {
            answer_append(keys, ret, value_of_text(member->value));
        }
    }
    return true;
}

static bool do_hkeys(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    (void)count;
    return tell_all(keys, argument[1], true, false, ret);
}

static bool do_hvals(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    (void)count;
    return tell_all(keys, argument[1], false, true, ret);
}

static bool do_hgetall(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    (void)count;
    return tell_all(keys, argument[1], true, true, ret);
}

/* HSET key field value...: how many fields are new. */
static bool do_hset(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    if (count % 2 != 0) {
        return view_fail(keys, ret, "wrong number of arguments");
    }
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    uint32_t before = view->members.count;
    for (uint32_t i = 2; i < count; i += 2) {
        if (!set_field(keys, view, argument[i], argument[i + 1], ret)) {
            return false;
        }
    }
    return answer_number(ret, view->members.count - before);
}

static bool do_hmset(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    return do_hset(keys, argument, count, ret) && answer_ok(keys, ret);
}

static bool do_hsetnx(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    if (find_field(view, argument[2]) != NULL) {
        return answer_number(ret, 0);
    }
    return set_field(keys, view, argument[2], argument[3], ret) &&
           answer_number(ret, 1);
}

/* HINCRBY key field number: what it comes to. */
static bool do_hincrby(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    struct redis_view *view;
    char digits[32];
    int64_t old = 0, by = 0;
    (void)count;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    const struct member *member = find_field(view, argument[2]);
    if ((member != NULL && !view_integer(member->value, &old)) ||
        !view_integer(argument[3], &by)) {
        return view_fail_integer(keys, ret);
    }
    snprintf(digits, sizeof digits, "%" PRId64, old + by);
    return set_field(keys, view, argument[2],
                     arena_copy(keys->arena, bytes_of_text(digits)), ret) &&
           answer_number(ret, old + by);
}

/* HDEL key field... */
static bool do_hdel(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    return find_hash(keys, argument[1], &view, ret) &&
           view_remove(keys, view, &argument[2], count - 2, ret);
}

static bool do_hlen(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_hash(keys, argument[1], &view, ret) &&
           answer_number(ret, view->members.count);
}

const struct key_command key_hash_commands[] = {
    {"HEXISTS", 3, 3, do_hexists},
    {"HGET", 3, 3, do_hget},
    {"HMGET", 3, UINT32_MAX, do_hmget},
    {"HGETALL", 2, 2, do_hgetall},
    {"HKEYS", 2, 2, do_hkeys},
    {"HVALS", 2, 2, do_hvals},
    {"HLEN", 2, 2, do_hlen},
    {"HSTRLEN", 3, 3, do_hstrlen},
    {"HSET", 4, UINT32_MAX, do_hset},
    {"HMSET", 4, UINT32_MAX, do_hmset},
    {"HSETNX", 4, 4, do_hsetnx},
    {"HINCRBY", 4, 4, do_hincrby},
    {"HDEL", 3, UINT32_MAX, do_hdel},
    {.name = NULL},
};
