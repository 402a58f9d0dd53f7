/* SPDX-License-Identifier: MIT */

/* Commands on keys of any type, on their times, and without keys. */

#include "base/check.h"
#include "core/redis/views.h"

#define PX_MAX_MS ((int64_t)TTL_ASKED_MS_MAX)

bool view_px(struct key_call *call, struct bytes text, enum time_form form,
             int64_t *ret_px_ms)
{
    bool is_seconds = form == TIME_EX || form == TIME_EXAT;
    bool is_point = form == TIME_PXAT || form == TIME_EXAT;
    int64_t number;
    if (!view_integer(text, &number) ||
        (is_seconds && number > INT64_C(1) << 42)) {
        return view_fail(call, "a time to live must be from 1 ms to 1 h");
    }
    number *= is_seconds ? 1000 : 1;
    if (is_point && !call->keys->asked_time) {
        return view_fail(call, "a point in time needs a script that calls TIME "
                               "before: hasp uses only the clock of the log");
    }
    number -= is_point ? (int64_t)call->keys->time_ms : 0;
    if (number > PX_MAX_MS) {
        return view_fail(call, "a time to live must be from 1 ms to 1 h");
    }
    *ret_px_ms = number;
    return true;
}

static bool do_exists(struct key_call *call)
{
    int64_t there = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        struct redis_view *view;
        if (!view_find(call, call->argument[i], &view)) {
            return false;
        }
        there += view->is_there;
    }
    return answer_number(call, there);
}

static bool do_type(struct key_call *call)
{
    struct redis_view *view;
    if (!view_find(call, call->argument[1], &view)) {
        return false;
    }
    const char *name = view->is_there ? key_type_name(view->type) : "none";
    return view_answer(
        call, value_of_status(call->keys->arena, "ok", bytes_of_text(name)));
}

/* PTTL, or TTL if the variant is 1. */
static bool do_ttl(struct key_call *call)
{
    struct redis_view *view;
    if (!view_find(call, call->argument[1], &view)) {
        return false;
    }
    int64_t left = view_left_ms(call->keys, view);
    if (left > 0 && call->command->variant == 1) {
        left = (left + 500) / 1000;
    }
    return answer_number(call, left);
}

/* True if the option after EXPIRE (NX, XX, GT or LT) permits the new end. */
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

/* EXPIRE and its siblings; the variant is an enum time_form. A time that is
 * over deletes the key in a script, as in Redis; in a separate command it is an
 * error. */
static bool do_expire(struct key_call *call)
{
    const struct bytes *option = &call->argument[3];
    uint32_t count = call->count - 3;
    struct redis_view *view;
    int64_t px_ms = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!bytes_is_word(option[i], "NX") &&
            !bytes_is_word(option[i], "XX") &&
            !bytes_is_word(option[i], "GT") &&
            !bytes_is_word(option[i], "LT")) {
            return view_fail(call, "syntax error: use NX, XX, GT or LT");
        }
    }
    enum time_form form = (enum time_form)call->command->variant;
    CHECK(form <= TIME_EXAT); /* The command's row sets the variant. */
    if (!view_px(call, call->argument[2], form, &px_ms) ||
        !view_find(call, call->argument[1], &view)) {
        return false;
    }
    if (px_ms <= 0 && !call->keys->is_script) {
        return view_fail(call, "a time to live must be from 1 ms to 1 h");
    }
    if (!view->is_there || view_is_foreign(view) ||
        !expire_applies(call->keys, view, option, count, px_ms)) {
        return answer_number(call, 0);
    }
    if (px_ms > 0) {
        view_set_time(view, (uint64_t)px_ms);
    } else if (!view_delete(call, view)) {
        return false;
    }
    return answer_number(call, 1);
}

static bool do_persist(struct key_call *call)
{
    struct redis_view *view;
    if (!view_find(call, call->argument[1], &view)) {
        return false;
    }
    if (!view->is_there || view_is_foreign(view) ||
        view_left_ms(call->keys, view) == -1) {
        return answer_number(call, 0);
    }
    view->is_timed = false;
    view->lacks_ttl = true;
    return answer_number(call, 1);
}

static bool do_del(struct key_call *call)
{
    int64_t deleted = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        struct redis_view *view;
        if (!view_find(call, call->argument[i], &view)) {
            return false;
        }
        deleted += view->is_there;
        if (!view_delete(call, view)) {
            return false;
        }
        CHECK(!view->is_there);
    }
    return answer_number(call, deleted);
}

/* RENAME moves the value to the new key, with what is left of its time. A
 * script must have read both keys, as before DEL. */
static bool do_rename(struct key_call *call)
{
    struct redis_view *from, *to;
    if (!view_find(call, call->argument[1], &from) ||
        !view_find(call, call->argument[2], &to)) {
        return false;
    }
    if (!from->is_there) {
        return view_fail(call, "no such key");
    }
    if (from == to) {
        return answer_ok(call);
    }
    /* Everything is read before the keys are deleted, which drops the members
     * and the time. */
    enum key_type type = from->type;
    view_read_members(call->keys, from);
    struct collection members = from->members;
    struct bytes value = from->value;
    int64_t left_ms = view_left_ms(call->keys, from);
    if (!view_delete(call, from) || !view_delete(call, to)) {
        return false;
    }
    CHECK(!from->is_there && !to->is_there);
    if (type == KEY_TEXT ? !view_write(call, to, value)
                         : !view_edit(call, to, type)) {
        return false;
    }
    if (type != KEY_TEXT) {
        to->members = members;
        if (!view_edited(call, to, true)) {
            return false;
        }
    }
    if (left_ms > 0) {
        view_set_time(to, (uint64_t)left_ms);
    }
    return answer_ok(call);
}

/* TIME answers seconds, and the microseconds of the current second. */
static bool do_time(struct key_call *call)
{
    struct redis_keys *keys = call->keys;
    keys->asked_time = true;
    answer_list(call);
    uint64_t us = keys->time_ms % 1000 * 1000;
    answer_append(call, view_digits(keys, (int64_t)(keys->time_ms / 1000)));
    answer_append(call, view_digits(keys, (int64_t)us));
    return true;
}

/* SELECT: scripts of some libraries begin with it. */
static bool do_select(struct key_call *call)
{
    return bytes_equal(call->argument[1], BYTES_LITERAL("0"))
               ? answer_ok(call)
               : view_fail(call, "there is only database 0");
}

/* PUBLISH channel message: sent to the subscribers if the run changes
 * something, as a release does. This node does not know how many there are.
 * hasp's own channels carry only hasp's events. */
static bool do_publish(struct key_call *call)
{
    struct redis_keys *keys = call->keys;
    struct bytes channel = call->argument[1], text = call->argument[2];
    if (keys->message_count == REDIS_MESSAGES_MAX ||
        channel.size > LOCK_NAME_SIZE_MAX || text.size > VALUE_SIZE_MAX) {
        return view_fail(
            call, "at most %d messages of %d bytes, on channels of %d",
            REDIS_MESSAGES_MAX, VALUE_SIZE_MAX, LOCK_NAME_SIZE_MAX);
    }
    if (!bytes_has_prefix(channel, BYTES_LITERAL("lock:"))) {
        CHECK(keys->message_count < REDIS_MESSAGES_MAX);
        keys->message[keys->message_count++] = (struct redis_message){
            .channel = arena_copy(keys->arena, channel),
            .text = arena_copy(keys->arena, text)};
    }
    return answer_number(call, 0);
}

const struct key_command key_any_commands[] = {
    {"EXISTS", 2, UINT32_MAX, do_exists, KEY_ANY, 0},
    {"TYPE", 2, 2, do_type, KEY_ANY, 0},
    {"PTTL", 2, 2, do_ttl, KEY_ANY, 0},
    {"TTL", 2, 2, do_ttl, KEY_ANY, 1},
    {"PEXPIRE", 3, 5, do_expire, KEY_ANY, TIME_PX},
    {"EXPIRE", 3, 5, do_expire, KEY_ANY, TIME_EX},
    {"PEXPIREAT", 3, 5, do_expire, KEY_ANY, TIME_PXAT},
    {"EXPIREAT", 3, 5, do_expire, KEY_ANY, TIME_EXAT},
    {"PERSIST", 2, 2, do_persist, KEY_ANY, 0},
    {"DEL", 2, UINT32_MAX, do_del, KEY_ANY, 0},
    {"UNLINK", 2, UINT32_MAX, do_del, KEY_ANY, 0},
    {"RENAME", 3, 3, do_rename, KEY_ANY, 0},
    {"TIME", 1, 1, do_time, KEY_ANY, 0},
    {"SELECT", 2, 2, do_select, KEY_ANY, 0},
    {"PUBLISH", 3, 3, do_publish, KEY_ANY, 0},
    {"SPUBLISH", 3, 3, do_publish, KEY_ANY, 0},
    {.name = NULL},
};
