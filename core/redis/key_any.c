/* SPDX-License-Identifier: MIT */

/* Commands on keys of any type, on their times, and on none. */

#include <inttypes.h>
#include <stdio.h>

#include "core/redis/views.h"

#define PX_MAX_MS ((int64_t)TTL_ASKED_MS_MAX)

bool view_px(struct redis_keys *keys, struct bytes text, enum time_form form,
             int64_t *ret_px_ms, struct value *ret)
{
    bool is_seconds = form == TIME_EX || form == TIME_EXAT;
    bool is_point = form == TIME_PXAT || form == TIME_EXAT;
    int64_t number;
    if (!view_integer(text, &number) ||
        (is_seconds && number > INT64_C(1) << 42)) {
        return view_fail(keys, ret, "a time to live is 1 ms to 1 h");
    }
    number *= is_seconds ? 1000 : 1;
    if (is_point && !keys->asked_time) {
        return view_fail(keys, ret,
                         "a point in time needs a script that asks for TIME "
                         "before: no clock but that counts here");
    }
    number -= is_point ? (int64_t)keys->time_ms : 0;
    if (number > PX_MAX_MS) {
        return view_fail(keys, ret, "a time to live is 1 ms to 1 h");
    }
    *ret_px_ms = number;
    return true;
}

static bool do_exists(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    int64_t there = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct redis_view *view;
        if (!view_find(keys, argument[i], &view, ret)) {
            return false;
        }
        there += view->is_there;
    }
    return answer_number(ret, there);
}

static bool do_type(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    *ret = value_of_status(keys->arena, "ok",
                           view->is_there
                               ? bytes_of_text(key_type_name(view->type))
                               : BYTES_LITERAL("none"));
    return true;
}

static bool do_ttl(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    int64_t left = view_left_ms(keys, view);
    if (left > 0 && bytes_is_word(argument[0], "TTL")) {
        left = (left + 500) / 1000;
    }
    return answer_number(ret, left);
}

/* NX, XX, GT and LT behind EXPIRE and its like: may it be? */
static bool expire_applies(struct redis_keys *keys,
                           const struct redis_view *view,
                           const struct bytes *option, uint32_t count,
                           int64_t px_ms)
{
    int64_t left_ms = view_left_ms(keys, view);
    bool is_endless = left_ms == -1;
    bool applies = true;
    for (uint32_t i = 0; i < count; i++) {
        applies &= bytes_is_word(option[i], "NX")   ? is_endless
                   : bytes_is_word(option[i], "XX") ? !is_endless
                   : bytes_is_word(option[i], "GT")
                       ? !is_endless && px_ms > left_ms
                       : is_endless || px_ms < left_ms;
    }
    return applies;
}

/* A time that is over deletes the key if a script says so, as in Redis; of a
 * command of its own it is a mistake. */
static bool expire(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, enum time_form form, struct value *ret)
{
    struct redis_view *view;
    int64_t px_ms = 0;
    for (uint32_t i = 3; i < count; i++) {
        if (!bytes_is_word(argument[i], "NX") &&
            !bytes_is_word(argument[i], "XX") &&
            !bytes_is_word(argument[i], "GT") &&
            !bytes_is_word(argument[i], "LT")) {
            return view_fail(keys, ret, "syntax error: NX, XX, GT or LT");
        }
    }
    if (!view_px(keys, argument[2], form, &px_ms, ret) ||
        !view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (px_ms <= 0 && !keys->is_script) {
        return view_fail(keys, ret, "a time to live is 1 ms to 1 h");
    }
    if (!view->is_there || view_is_foreign(view) ||
        !expire_applies(keys, view, &argument[3], count - 3, px_ms)) {
        return answer_number(ret, 0);
    }
    if (px_ms > 0) {
        view_set_time(view, (uint64_t)px_ms);
    } else if (!view_delete(keys, view, ret)) {
        return false;
    }
    return answer_number(ret, 1);
}

static bool do_expire(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    return expire(keys, argument, count, TIME_EX, ret);
}

static bool do_pexpire(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    return expire(keys, argument, count, TIME_PX, ret);
}

static bool do_expireat(struct redis_keys *keys, const struct bytes *argument,
                        uint32_t count, struct value *ret)
{
    return expire(keys, argument, count, TIME_EXAT, ret);
}

static bool do_pexpireat(struct redis_keys *keys, const struct bytes *argument,
                         uint32_t count, struct value *ret)
{
    return expire(keys, argument, count, TIME_PXAT, ret);
}

static bool do_persist(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view->is_there || view_is_foreign(view) ||
        view_left_ms(keys, view) == -1) {
        return answer_number(ret, 0);
    }
    view->is_timed = false;
    view->lacks_ttl = true;
    return answer_number(ret, 1);
}

static bool do_del(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    int64_t deleted = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct redis_view *view;
        if (!view_find(keys, argument[i], &view, ret)) {
            return false;
        }
        deleted += view->is_there;
        if (!view_delete(keys, view, ret)) {
            return false;
        }
    }
    return answer_number(ret, deleted);
}

/* RENAME key new: with its value and what is left of its time. Both must have
 * been looked at, as what DEL takes. */
static bool do_rename(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *from, *to;
    (void)count;
    if (!view_find(keys, argument[1], &from, ret) ||
        !view_find(keys, argument[2], &to, ret)) {
        return false;
    }
    if (!from->is_there) {
        return view_fail(keys, ret, "no such key");
    }
    if (from == to) {
        return answer_ok(keys, ret);
    }
    enum key_type type = from->type;
    view_read_members(keys, from);
    struct collection members = from->members;
    struct bytes value = from->value;
    int64_t left_ms = view_left_ms(keys, from);
    if (!view_delete(keys, from, ret) || !view_delete(keys, to, ret)) {
        return false;
    }
    if (type == KEY_TEXT ? !view_write(keys, to, value, ret)
                         : !view_edit(keys, to, type, ret)) {
        return false;
    }
    if (type != KEY_TEXT) {
        to->members = members;
        if (!view_edited(keys, to, true, ret)) {
            return false;
        }
    }
    if (left_ms > 0) {
        view_set_time(to, (uint64_t)left_ms);
    }
    return answer_ok(keys, ret);
}

/* TIME: seconds, and microseconds of the next one. */
static bool do_time(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    const uint64_t parts[] = {keys->time_ms / 1000,
                              keys->time_ms % 1000 * 1000};
    (void)argument;
    (void)count;
    keys->asked_time = true;
    *ret = value_new_table(keys->arena);
    for (size_t i = 0; i < 2; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, parts[i]);
        answer_append(
            keys, ret,
            value_of_text(arena_copy(keys->arena, bytes_of_text(text))));
    }
    return true;
}

/* PUBLISH channel message: told to who has subscribed if the run changes
 * something, as a release does. How many they are nobody knows here. hasp's own
 * channels tell of hasp's events alone. */
static bool do_publish(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    (void)count;
    if (keys->message_count == REDIS_MESSAGES_MAX ||
        argument[1].size > LOCK_NAME_SIZE_MAX ||
        argument[2].size > VALUE_SIZE_MAX) {
        return view_fail(
            keys, ret, "at most %d messages of %d bytes, on channels of %d",
            REDIS_MESSAGES_MAX, VALUE_SIZE_MAX, LOCK_NAME_SIZE_MAX);
    }
    if (!bytes_has_prefix(argument[1], BYTES_LITERAL("lock:"))) {
        keys->message[keys->message_count++] = (struct redis_message){
            .channel = arena_copy(keys->arena, argument[1]),
            .text = arena_copy(keys->arena, argument[2])};
    }
    return answer_number(ret, 0);
}

const struct key_command key_any_commands[] = {
    {"EXISTS", 2, UINT32_MAX, do_exists},
    {"TYPE", 2, 2, do_type},
    {"PTTL", 2, 2, do_ttl},
    {"TTL", 2, 2, do_ttl},
    {"PEXPIRE", 3, 5, do_pexpire},
    {"EXPIRE", 3, 5, do_expire},
    {"PEXPIREAT", 3, 5, do_pexpireat},
    {"EXPIREAT", 3, 5, do_expireat},
    {"PERSIST", 2, 2, do_persist},
    {"DEL", 2, UINT32_MAX, do_del},
    {"UNLINK", 2, UINT32_MAX, do_del},
    {"RENAME", 3, 3, do_rename},
    {"TIME", 1, 1, do_time},
    {"PUBLISH", 3, 3, do_publish},
    {"SPUBLISH", 3, 3, do_publish},
    {.name = NULL},
};
