/* SPDX-License-Identifier: MIT */

/* Commands on strings. */

#include <inttypes.h>
#include <stdio.h>

#include "core/redis/script_lex.h"
#include "core/redis/views.h"

static bool do_get(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!view_find_type(keys, argument[1], KEY_TEXT, &view, ret)) {
        return false;
    }
    *ret = view->is_there ? value_of_text(view_text(keys, view))
                          : value_of_bool(false);
    return true;
}

static bool do_mget(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct value list = value_new_table(keys->arena);
    for (uint32_t i = 1; i < count; i++) {
        const struct bytes get[] = {BYTES_LITERAL("GET"), argument[i]};
        if (!do_get(keys, get, 2, ret)) {
            return false;
        }
        value_append(keys->arena, list.table, ret);
    }
    *ret = list;
    return true;
}

static bool do_getrange(struct redis_keys *keys, const struct bytes *argument,
                        uint32_t count, struct value *ret)
{
    uint32_t from, to;
    struct value whole;
    if (!do_get(keys, argument, count, &whole)) {
        *ret = whole;
        return false;
    }
    struct bytes text = whole.type == VALUE_TEXT ? whole.text
                                                 : (struct bytes){NULL, 0};
    if (!view_range(keys, &argument[2], (uint32_t)text.size, &from, &to, ret)) {
        return false;
    }
    return answer_text(ret, from < to ? bytes_of(text.data + from, to - from)
                                      : (struct bytes){NULL, 0});
}

static bool do_strlen(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    return do_get(keys, argument, count, ret) &&
           answer_number(ret,
                         ret->type == VALUE_TEXT ? (int64_t)ret->text.size : 0);
}

/* What SET is told beside key and value. */
struct set_options {
    bool is_nx;
    bool is_xx;
    bool is_fresh; /* hasp's own: NX of the value that is there is nil. */
    bool gets;
    bool keeps_ttl;
    bool has_expected;
    struct bytes expected;
    int64_t px_ms; /* 0: not given. */
};

static bool find_form(struct bytes word, enum time_form *ret_form)
{
    static const char *const words[] = {[TIME_PX] = "PX",
                                        [TIME_EX] = "EX",
                                        [TIME_PXAT] = "PXAT",
                                        [TIME_EXAT] = "EXAT"};
    for (enum time_form form = TIME_PX; form <= TIME_EXAT; form++) {
        if (bytes_is_word(word, words[form])) {
            *ret_form = form;
            return true;
        }
    }
    return false;
}

static bool read_set_options(struct redis_keys *keys,
                             const struct bytes *argument, uint32_t count,
                             struct set_options *options, struct value *ret)
{
    *options = (struct set_options){0};
    for (uint32_t i = 3; i < count; i++) {
        struct bytes word = argument[i];
        enum time_form form;
        if (bytes_is_word(word, "NX")) {
            options->is_nx = true;
        } else if (bytes_is_word(word, "XX")) {
            options->is_xx = true;
        } else if (bytes_is_word(word, "FRESH")) {
            options->is_fresh = true;
        } else if (bytes_is_word(word, "GET")) {
            options->gets = true;
        } else if (bytes_is_word(word, "KEEPTTL")) {
            options->keeps_ttl = true;
        } else if (bytes_is_word(word, "IFEQ") && i + 1 < count) {
            options->has_expected = true;
            options->expected = argument[++i];
        } else if (find_form(word, &form) && i + 1 < count &&
                   options->px_ms == 0) {
            if (!view_px(keys, argument[++i], form, &options->px_ms, ret)) {
                return false;
            }
            if (options->px_ms <= 0) {
                return view_fail(keys, ret, "a time to live is 1 ms to 1 h");
            }
        } else {
            return view_fail(
                keys, ret,
                "syntax error: SET key value [NX|XX|IFEQ "
                "value] [GET] [PX ms|EX s|PXAT ms|EXAT s|KEEPTTL]");
        }
    }
    if (options->is_nx + options->is_xx + options->has_expected > 1 ||
        (options->is_fresh && !options->is_nx) ||
        (options->keeps_ttl && options->px_ms > 0)) {
        return view_fail(keys, ret,
                         "syntax error: options of SET exclude each "
                         "other");
    }
    return true;
}

/* True if the key is as the options demand. */
static bool set_applies(struct redis_keys *keys, struct redis_view *view,
                        const struct set_options *options, struct bytes value)
{
    if (options->is_nx) {
        bool is_repeated = !keys->is_script && !options->is_fresh &&
                           view_equals(view, value);
        return !view->is_there || is_repeated;
    }
    if (options->has_expected) {
        view->is_looked_at = true;
        return view_equals(view, options->expected);
    }
    return !options->is_xx || view->is_there;
}

static bool do_set(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct set_options options;
    struct redis_view *view;
    if (!read_set_options(keys, argument, count, &options, ret) ||
        !view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (options.gets && view->type != KEY_TEXT) {
        return view_fail_type(keys, ret);
    }
    struct value old = view->is_there ? value_of_text(view_text(keys, view))
                                      : value_of_bool(false);
    bool applies = set_applies(keys, view, &options, argument[2]);
    bool was_timed = view->is_timed;
    if (applies && !view_write(keys, view, argument[2], ret)) {
        return false;
    }
    if (applies && options.px_ms > 0) {
        view_set_time(view, (uint64_t)options.px_ms);
    } else if (applies && options.keeps_ttl) {
        view->is_timed = was_timed;
        view->lacks_ttl = view->hold == NULL && !was_timed;
    }
    if (options.gets) {
        *ret = old;
        return true;
    }
    return applies ? answer_ok(keys, ret) : answer_nil(ret);
}

/* SETEX, PSETEX: the time stands before the value. */
static bool do_setex(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    (void)count;
    const struct bytes set[] = {argument[0], argument[1], argument[3],
                                bytes_is_word(argument[0], "SETEX")
                                    ? BYTES_LITERAL("EX")
                                    : BYTES_LITERAL("PX"),
                                argument[2]};
    return do_set(keys, set, 5, ret);
}

static bool do_setnx(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct bytes set[] = {argument[0], argument[1], argument[2],
                          BYTES_LITERAL("NX")};
    (void)count;
    return do_set(keys, set, 4, ret) && answer_number(ret, value_is_true(ret));
}

/* MSET, and MSETNX: all or none. */
static bool do_mset(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    bool is_nx = bytes_is_word(argument[0], "MSETNX");
    if (count % 2 == 0) {
        return view_fail(keys, ret, "wrong number of arguments");
    }
    for (uint32_t i = 1; is_nx && i < count; i += 2) {
        struct redis_view *view;
        if (!view_find(keys, argument[i], &view, ret)) {
            return false;
        }
        if (view->is_there) {
            return answer_number(ret, 0);
        }
    }
    for (uint32_t i = 1; i < count; i += 2) {
        const struct bytes set[] = {argument[0], argument[i], argument[i + 1]};
        if (!do_set(keys, set, 3, ret)) {
            return false;
        }
    }
    return is_nx ? answer_number(ret, 1) : answer_ok(keys, ret);
}

/* DELIFEQ key value (Valkey 9), DELEX key IFEQ value (Redis 8.4). */
static bool do_delex(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    bool is_delex = bytes_is_word(argument[0], "DELEX");
    if (is_delex && (count != 4 || !bytes_is_word(argument[2], "IFEQ"))) {
        return view_fail(keys, ret, "syntax error: DELEX key IFEQ value");
    }
    if (!view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view_equals(view, argument[is_delex ? 3 : 2])) {
        return answer_number(ret, 0);
    }
    view->is_looked_at = true;
    return view_delete(keys, view, ret) && answer_number(ret, 1);
}

/* GETDEL key. */
static bool do_getdel(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct value old;
    (void)count;
    if (!view_find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (view->type != KEY_TEXT) {
        return view_fail_type(keys, ret);
    }
    old = view->is_there ? value_of_text(view_text(keys, view))
                         : value_of_bool(false);
    if (!view_delete(keys, view, ret)) {
        return false;
    }
    *ret = old;
    return true;
}

/* GETSET key value: as SET .. GET, without a time to live. */
static bool do_getset(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    const struct bytes set[] = {argument[0], argument[1], argument[2],
                                BYTES_LITERAL("GET")};
    (void)count;
    return do_set(keys, set, 4, ret);
}

/* Adds to a counter. It is its holder's as before, and keeps its time. */
static bool add(struct redis_keys *keys, struct bytes name, int64_t by,
                struct value *ret)
{
    struct redis_view *view;
    char digits[32];
    int64_t old = 0;
    if (!view_find_type(keys, name, KEY_TEXT, &view, ret)) {
        return false;
    }
    if (view->is_there && !view_is_foreign(view) &&
        !view_integer(view->value, &old)) {
        return view_fail_integer(keys, ret);
    }
    if (!view_edit(keys, view, KEY_TEXT, ret)) {
        return false;
    }
    snprintf(digits, sizeof digits, "%" PRId64, old + by);
    view->value = arena_copy(keys->arena, bytes_of_text(digits));
    return answer_number(ret, old + by);
}

static bool do_incr(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    (void)count;
    return add(keys, argument[1], 1, ret);
}

static bool do_decr(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    (void)count;
    return add(keys, argument[1], -1, ret);
}

/* INCRBY, DECRBY. */
static bool do_incrby(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    int64_t by;
    (void)count;
    if (!view_integer(argument[2], &by)) {
        return view_fail_integer(keys, ret);
    }
    bool is_down = bytes_is_word(argument[0], "DECRBY");
    return add(keys, argument[1], is_down ? -by : by, ret);
}

/* The place of a bit, 0 being the highest of the first byte. */
static bool take_bit(struct redis_keys *keys, struct bytes text,
                     int64_t *ret_place, struct value *ret)
{
    return (view_integer(text, ret_place) && *ret_place >= 0 &&
            *ret_place < 8 * (int64_t)VALUE_SIZE_MAX) ||
           view_fail(keys, ret, "bit offset is not an integer or out of range");
}

static int bit_of(struct bytes text, int64_t place)
{
    size_t byte = (size_t)place / 8;
    return byte < text.size ? text.data[byte] >> (7 - place % 8) & 1 : 0;
}

static bool do_getbit(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    int64_t place;
    struct value whole;
    if (!take_bit(keys, argument[2], &place, ret)) {
        return false;
    }
    if (!do_get(keys, argument, count, &whole)) {
        *ret = whole;
        return false;
    }
    return answer_number(
        ret, whole.type == VALUE_TEXT ? bit_of(whole.text, place) : 0);
}

static bool do_setbit(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    int64_t place, bit;
    (void)count;
    if (!view_integer(argument[3], &bit) || bit < 0 || bit > 1) {
        return view_fail(keys, ret, "bit is not an integer or out of range");
    }
    if (!take_bit(keys, argument[2], &place, ret) ||
        !view_find_type(keys, argument[1], KEY_TEXT, &view, ret)) {
        return false;
    }
    struct bytes old = view_text(keys, view);
    size_t byte = (size_t)place / 8;
    size_t size = byte + 1 > old.size ? byte + 1 : old.size;
    uint8_t *data = arena_take(keys->arena, size);
    memset(data, 0, size);
    if (old.size > 0) {
        memcpy(data, old.data, old.size);
    }
    uint8_t mask = (uint8_t)(1 << (7 - place % 8));
    data[byte] = (uint8_t)(bit == 1 ? data[byte] | mask : data[byte] & ~mask);
    if (collection_type(bytes_of(data, size)) != KEY_TEXT) {
        return view_fail(keys, ret,
                         "a value may not begin as a hash is stored");
    }
    if (!view_edit(keys, view, KEY_TEXT, ret)) {
        return false;
    }
    view->value = bytes_of(data, size);
    view->is_replaced = true;
    return answer_number(ret, bit_of(old, place));
}

const struct key_command key_text_commands[] = {
    {"GET", 2, 2, do_get},
    {"MGET", 2, UINT32_MAX, do_mget},
    {"GETRANGE", 4, 4, do_getrange},
    {"STRLEN", 2, 2, do_strlen},
    {"SET", 3, UINT32_MAX, do_set},
    {"SETEX", 4, 4, do_setex},
    {"PSETEX", 4, 4, do_setex},
    {"SETNX", 3, 3, do_setnx},
    {"MSET", 3, UINT32_MAX, do_mset},
    {"MSETNX", 3, UINT32_MAX, do_mset},
    {"GETSET", 3, 3, do_getset},
    {"GETDEL", 2, 2, do_getdel},
    {"INCR", 2, 2, do_incr},
    {"INCRBY", 3, 3, do_incrby},
    {"DECR", 2, 2, do_decr},
    {"DECRBY", 3, 3, do_incrby},
    {"GETBIT", 3, 3, do_getbit},
    {"SETBIT", 4, 4, do_setbit},
    {"DELEX", 2, 4, do_delex},
    {"DELIFEQ", 3, 3, do_delex},
    {.name = NULL},
};
