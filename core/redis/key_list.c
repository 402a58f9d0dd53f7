/* SPDX-License-Identifier: MIT */

/* Commands on lists. */

#include "base/check.h"
#include "core/redis/views.h"

static bool find_list(struct redis_keys *keys, struct bytes name,
                      struct redis_view **ret_view, struct value *ret)
{
    return view_find_type(keys, name, KEY_LIST, ret_view, ret);
}

bool view_range(struct redis_keys *keys, const struct bytes *argument,
                uint32_t count, uint32_t *ret_from, uint32_t *ret_to,
                struct value *ret)
{
    int64_t from, to, size = count;
    if (!view_integer(argument[0], &from) || !view_integer(argument[1], &to)) {
        return view_fail_integer(keys, ret);
    }
    from = from < 0 ? from + size : from;
    to = to < 0 ? to + size : to;
    from = from < 0 ? 0 : from;
    to = to >= size ? size - 1 : to;
    bool is_any = from <= to;
    *ret_from = is_any ? (uint32_t)from : 0;
    *ret_to = is_any ? (uint32_t)to + 1 : 0;
    CHECK(*ret_from <= *ret_to && *ret_to <= count);
    return true;
}

/* 'must_be': only to a list that there is. */
static bool push(struct redis_keys *keys, const struct bytes *argument,
                 uint32_t count, bool is_left, bool must_be, struct value *ret)
{
    struct redis_view *view;
    if (!find_list(keys, argument[1], &view, ret)) {
        return false;
    }
    if (must_be && !view->is_there) {
        return answer_number(ret, 0);
    }
    if (!view_edit(keys, view, KEY_LIST, ret)) {
        return false;
    }
    for (uint32_t i = 2; i < count; i++) {
        collection_insert(&view->members, keys->arena,
                          is_left ? 0 : view->members.count,
                          &(struct member){.name = argument[i]});
        keys->steps++;
    }
    return view_edited(keys, view, true, ret) &&
           answer_number(ret, view->members.count);
}

static bool do_lpush(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    return push(keys, argument, count, true,
                bytes_is_word(argument[0], "LPUSHX"), ret);
}

static bool do_rpush(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    return push(keys, argument, count, false,
                bytes_is_word(argument[0], "RPUSHX"), ret);
}

/* LPOP key [count], RPOP key [count]. */
static bool pop(struct redis_keys *keys, const struct bytes *argument,
                uint32_t count, bool is_left, struct value *ret)
{
    struct redis_view *view;
    int64_t wanted = 1;
    if (count == 3 && (!view_integer(argument[2], &wanted) || wanted < 0)) {
        return view_fail_integer(keys, ret);
    }
    if (!find_list(keys, argument[1], &view, ret)) {
        return false;
    }
    struct collection *list = &view->members;
    if (list->count == 0) {
        return answer_nil(ret);
    }
    struct value popped = value_new_table(keys->arena);
    for (; wanted > 0 && list->count > 0; wanted--) {
        uint32_t place = is_left ? 0 : list->count - 1;
        answer_append(keys, &popped, value_of_text(list->member[place].name));
        collection_remove(list, place, 1);
    }
    if (popped.table->count > 0 && !view_edited(keys, view, true, ret)) {
        return false;
    }
    CHECK(count == 3 || popped.table->count == 1);
    *ret = count == 3 ? popped : popped.table->item[0];
    return true;
}

static bool do_lpop(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    return pop(keys, argument, count, true, ret);
}

static bool do_rpop(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    return pop(keys, argument, count, false, ret);
}

/* From one end of a list to one of another, which may be itself. */
static bool move(struct redis_keys *keys, const struct bytes *name,
                 bool is_from_left, bool is_to_left, struct value *ret)
{
    const struct bytes taken[] = {BYTES_LITERAL("LPOP"), name[0]};
    struct redis_view *view;
    struct value ignored;
    if (!find_list(keys, name[1], &view, ret)) {
        return false;
    }
    if (bytes_equal(name[0], name[1]) && view->members.count == 1) {
        return answer_text(ret, view->members.member[0].name);
    }
    if (!pop(keys, taken, 2, is_from_left, ret)) {
        return false;
    }
    if (ret->type != VALUE_TEXT) {
        return true;
    }
    const struct bytes put[] = {BYTES_LITERAL("LPUSH"), name[1], ret->text};
    if (!push(keys, put, 3, is_to_left, false, &ignored)) {
        *ret = ignored;
        return false;
    }
    return true;
}

static bool do_rpoplpush(struct redis_keys *keys, const struct bytes *argument,
                         uint32_t count, struct value *ret)
{
    (void)count;
    return move(keys, &argument[1], false, true, ret);
}

/* LMOVE from to LEFT|RIGHT LEFT|RIGHT. */
static bool do_lmove(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    bool is_left[2];
    (void)count;
    for (int i = 0; i < 2; i++) {
        is_left[i] = bytes_is_word(argument[3 + i], "LEFT");
        if (!is_left[i] && !bytes_is_word(argument[3 + i], "RIGHT")) {
            return view_fail(keys, ret, "syntax error: LEFT or RIGHT");
        }
    }
    return move(keys, &argument[1], is_left[0], is_left[1], ret);
}

static bool do_llen(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_list(keys, argument[1], &view, ret) &&
           answer_number(ret, view->members.count);
}

/* LINDEX and LSET: the list, and the place in it that is named, which it may
 * not have; below 0 it counts from the end. */
static bool find_place(struct redis_keys *keys, const struct bytes *argument,
                       struct redis_view **ret_view, int64_t *ret_place,
                       struct value *ret)
{
    if (!find_list(keys, argument[1], ret_view, ret)) {
        return false;
    }
    if (!view_integer(argument[2], ret_place)) {
        return view_fail_integer(keys, ret);
    }
    *ret_place += *ret_place < 0 ? (int64_t)(*ret_view)->members.count : 0;
    return true;
}

static bool do_lindex(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    int64_t place;
    (void)count;
    if (!find_place(keys, argument, &view, &place, ret)) {
        return false;
    }
    return place >= 0 && place < (int64_t)view->members.count
               ? answer_text(ret, view->members.member[place].name)
               : answer_nil(ret);
}

static bool do_lset(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    int64_t place;
    (void)count;
    if (!find_place(keys, argument, &view, &place, ret)) {
        return false;
    }
    if (place < 0 || place >= (int64_t)view->members.count) {
        return view_fail(keys, ret,
                         view->members.count == 0 ? "no such key"
                                                  : "index out of range");
    }
    view->members.member[place].name = argument[3];
    return view_edited(keys, view, true, ret) && answer_ok(keys, ret);
}

static bool do_lrange(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    (void)count;
    if (!find_list(keys, argument[1], &view, ret) ||
        !view_range(keys, &argument[2], view->members.count, &from, &to, ret)) {
        return false;
    }
    *ret = value_new_table(keys->arena);
    for (uint32_t i = from; i < to; i++) {
        answer_append(keys, ret, value_of_text(view->members.member[i].name));
    }
    return true;
}

static bool do_ltrim(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    (void)count;
    if (!find_list(keys, argument[1], &view, ret) ||
        !view_range(keys, &argument[2], view->members.count, &from, &to, ret)) {
        return false;
    }
    uint32_t before = view->members.count;
    collection_remove(&view->members, to, view->members.count - to);
    collection_remove(&view->members, 0, from);
    bool is_changed = before != view->members.count;
    return (!is_changed || view_edited(keys, view, true, ret)) &&
           answer_ok(keys, ret);
}

/* LREM key count item: the first so many, from the end if it is negative, all
 * if it is 0. */
static bool do_lrem(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    int64_t wanted, removed = 0;
    (void)count;
    if (!find_list(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view_integer(argument[2], &wanted)) {
        return view_fail_integer(keys, ret);
    }
    struct collection *list = &view->members;
    bool is_back = wanted < 0;
    int64_t most = wanted == 0 ? INT64_MAX : is_back ? -wanted : wanted;
    for (uint32_t left = list->count, i = 0; left > 0 && removed < most;
         left--) {
        uint32_t place = is_back ? left - 1 : i;
        if (bytes_equal(list->member[place].name, argument[3])) {
            collection_remove(list, place, 1);
            removed++;
        } else {
            i++;
        }
    }
    return (removed == 0 || view_edited(keys, view, true, ret)) &&
           answer_number(ret, removed);
}

/* LPOS key item: where it is first. */
static bool do_lpos(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find_list(keys, argument[1], &view, ret)) {
        return false;
    }
    uint32_t place = collection_find(&view->members, argument[2]);
    return place < view->members.count ? answer_number(ret, place)
                                       : answer_nil(ret);
}

const struct key_command key_list_commands[] = {
    {"LPUSH", 3, UINT32_MAX, do_lpush},
    {"RPUSH", 3, UINT32_MAX, do_rpush},
    {"LPUSHX", 3, UINT32_MAX, do_lpush},
    {"RPUSHX", 3, UINT32_MAX, do_rpush},
    {"LPOP", 2, 3, do_lpop},
    {"RPOP", 2, 3, do_rpop},
    {"LLEN", 2, 2, do_llen},
    {"LINDEX", 3, 3, do_lindex},
    {"LSET", 4, 4, do_lset},
    {"LRANGE", 4, 4, do_lrange},
    {"LTRIM", 4, 4, do_ltrim},
    {"LREM", 4, 4, do_lrem},
    {"LPOS", 3, 3, do_lpos},
    {"RPOPLPUSH", 3, 3, do_rpoplpush},
    {"LMOVE", 5, 5, do_lmove},
    {.name = NULL},
};
