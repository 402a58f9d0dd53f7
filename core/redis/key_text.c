/* SPDX-License-Identifier: MIT */

/* Commands on strings. */

#include <string.h>

#include "base/check.h"
#include "core/redis/views.h"

static bool do_get(struct key_call *call)
{
    return view_answer(call, view_value(call->keys, call->view));
}

static bool do_mget(struct key_call *call)
{
    struct value list = value_new_table(call->keys->arena);
    for (uint32_t i = 1; i < call->count; i++) {
        struct redis_view *view;
        if (!view_find_type(call, call->argument[i], KEY_TEXT, &view)) {
            return false;
        }
        struct value value = view_value(call->keys, view);
        value_append(call->keys->arena, list.table, &value);
    }
    return view_answer(call, list);
}

/* The text of the first key; empty if there is no such key. */
static struct bytes text_text_of(const struct key_call *call)
{
    return view_value(call->keys, call->view).text;
}

static bool do_getrange(struct key_call *call)
{
    uint32_t from, to;
    struct bytes text = text_text_of(call);
    return view_range(call, (uint32_t)text.size, &from, &to) &&
           answer_text(call, from < to ? bytes_of(text.data + from, to - from)
                                       : (struct bytes){NULL, 0});
}

static bool do_strlen(struct key_call *call)
{
    return do_get(call) && answer_length(call);
}

/* The options of SET. */
struct set_options {
    bool is_nx;
    bool is_xx;
    /* AGAIN and FRESH, which only hasp has: whether NX of the value that holds
     * the key is a repetition, whatever redis.same_value says. */
    bool is_again;
    bool is_fresh;
    /* DURABLE, which only hasp has: NX without a time to live. */
    bool is_durable;
    bool gets;
    bool keeps_ttl;
    bool has_expected;
    struct bytes expected;
    int64_t px_ms; /* 0 if not given. */
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

/* Parses a time to live, which must not be over. */
static bool read_px(struct key_call *call, struct bytes text,
                    enum time_form form, struct set_options *options)
{
    return view_px(call, text, form, &options->px_ms) &&
           (options->px_ms > 0 ||
            view_fail(call, "a time to live must be from 1 ms to 1 h"));
}

static bool read_set_options(struct key_call *call, struct set_options *options)
{
    const struct bytes *argument = call->argument;
    *options = (struct set_options){0};
    for (uint32_t i = 3; i < call->count; i++) {
        struct bytes word = argument[i];
        bool has_next = i + 1 < call->count;
        enum time_form form;
        if (bytes_is_word(word, "NX")) {
            options->is_nx = true;
        } else if (bytes_is_word(word, "XX")) {
            options->is_xx = true;
        } else if (bytes_is_word(word, "AGAIN")) {
            options->is_again = true;
        } else if (bytes_is_word(word, "FRESH")) {
            options->is_fresh = true;
        } else if (bytes_is_word(word, "DURABLE")) {
            options->is_durable = true;
        } else if (bytes_is_word(word, "GET")) {
            options->gets = true;
        } else if (bytes_is_word(word, "KEEPTTL")) {
            options->keeps_ttl = true;
        } else if (bytes_is_word(word, "IFEQ") && has_next) {
            options->has_expected = true;
            options->expected = argument[++i];
        } else if (find_form(word, &form) && has_next && options->px_ms == 0) {
            if (!read_px(call, argument[++i], form, options)) {
                return false;
            }
        } else {
            return view_fail(
                call,
                "syntax error: use SET key value [NX|XX|IFEQ value] [GET] [PX "
                "ms|EX s|PXAT ms|EXAT s|KEEPTTL]");
        }
    }
    if (options->is_nx + options->is_xx + options->has_expected > 1 ||
        ((options->is_again || options->is_fresh || options->is_durable) &&
         !options->is_nx) ||
        (options->is_again && options->is_fresh) ||
        (options->keeps_ttl && options->px_ms > 0) ||
        (options->is_durable && options->keeps_ttl + options->px_ms > 0)) {
        return view_fail(call, "syntax error: options of SET exclude each "
                               "other");
    }
    return true;
}

/* True if NX of the value that holds the key is a repetition, and OK. Nothing
 * proves that: values are not unique in all libraries (a time in ms, the id of
 * a process), and then two clients would hold the lock. So the client or the
 * operator must say that they are. */
static bool set_may_repeat(const struct redis_keys *keys,
                           const struct set_options *options)
{
    return !keys->is_script && !options->is_fresh &&
           (options->is_again || keys->may_repeat);
}

/* True if the key meets the options. */
static bool set_applies(struct redis_keys *keys, struct redis_view *view,
                        const struct set_options *options, struct bytes value)
{
    /* read_set_options() accepts only one of them. */
    CHECK(options->is_nx + options->is_xx + options->has_expected <= 1);
    if (options->is_nx) {
        return !view->is_there ||
               (set_may_repeat(keys, options) && view_equals(view, value));
    }
    if (options->has_expected) {
        view->is_looked_at = true;
        return view_equals(view, options->expected);
    }
    return !options->is_xx || view->is_there;
}

static bool text_set(struct key_call *call, struct bytes name,
                     struct bytes value, const struct set_options *options)
{
    struct redis_view *view;
    if (!view_find(call, name, &view)) {
        return false;
    }
    if (options->gets && view->type != KEY_TEXT) {
        return view_fail_type(call);
    }
    struct value old = view_value(call->keys, view);
    bool applies = set_applies(call->keys, view, options, value);
    call->keys->is_as_if_done |= !applies && view_equals(view, value);
    /* Read before the write, which ends the time as SET in Redis does. */
    bool was_timed = view->is_timed;
    if (applies && !view_write(call, view, value)) {
        return false;
    }
    CHECK(!applies || (view->is_there && view->type == KEY_TEXT));
    if (applies && options->px_ms > 0) {
        view_set_time(view, (uint64_t)options->px_ms);
    } else if (applies && options->is_durable) {
        view->may_endure = true;
    } else if (applies && options->keeps_ttl) {
        view->is_timed = was_timed;
        view->lacks_ttl = view->hold == NULL && !was_timed;
    }
    return options->gets ? view_answer(call, old)
           : applies     ? answer_ok(call)
                         : answer_nil(call);
}

static bool do_set(struct key_call *call)
{
    struct set_options options;
    return read_set_options(call, &options) &&
           text_set(call, call->argument[1], call->argument[2], &options);
}

/* SETEX and PSETEX, whose time precedes the value. The variant is an enum
 * time_form. */
static bool do_setex(struct key_call *call)
{
    struct set_options options = {0};
    enum time_form form = (enum time_form)call->command->variant;
    CHECK(form <= TIME_EX); /* The command's row sets the variant. */
    return read_px(call, call->argument[2], form, &options) &&
           text_set(call, call->argument[1], call->argument[3], &options);
}

static bool do_setnx(struct key_call *call)
{
    static const struct set_options options = {.is_nx = true};
    return text_set(call, call->argument[1], call->argument[2], &options) &&
           answer_number(call, value_is_true(call->ret));
}

/* MSET, or MSETNX (all or none) if the variant is 1. */
static bool do_mset(struct key_call *call)
{
    static const struct set_options options = {0};
    bool is_nx = call->command->variant == 1;
    if (call->count % 2 == 0) {
        return view_fail(call, "wrong number of arguments");
    }
    /* MSETNX sets all or none, so all keys are checked before the first is
     * set. */
    for (uint32_t i = 1; is_nx && i < call->count; i += 2) {
        struct redis_view *view;
        if (!view_find(call, call->argument[i], &view)) {
            return false;
        }
        if (view->is_there) {
            return answer_number(call, 0);
        }
    }
    for (uint32_t i = 1; i < call->count; i += 2) {
        if (!text_set(call, call->argument[i], call->argument[i + 1],
                      &options)) {
            return false;
        }
    }
    return is_nx ? answer_number(call, 1) : answer_ok(call);
}

/* DELIFEQ key value (Valkey 9) and DELEX key IFEQ value (Redis 8.4); the
 * variant is the index of the value. */
static bool do_delex(struct key_call *call)
{
    struct redis_view *view;
    uint32_t at = (uint32_t)call->command->variant;
    if (at == 3 &&
        (call->count != 4 || !bytes_is_word(call->argument[2], "IFEQ"))) {
        return view_fail(call, "syntax error: use DELEX key IFEQ value");
    }
    if (!view_find(call, call->argument[1], &view)) {
        return false;
    }
    CHECK(at < call->count);
    if (!view_equals(view, call->argument[at])) {
        return answer_number(call, 0);
    }
    view->is_looked_at = true;
    return view_delete(call, view) && answer_number(call, 1);
}

/* GETDEL key. */
static bool do_getdel(struct key_call *call)
{
    struct redis_view *view;
    if (!view_find(call, call->argument[1], &view)) {
        return false;
    }
    if (view->type != KEY_TEXT) {
        return view_fail_type(call);
    }
    struct value old = view_value(call->keys, view);
    return view_delete(call, view) && view_answer(call, old);
}

/* GETSET is SET with GET, without a time to live. */
static bool do_getset(struct key_call *call)
{
    static const struct set_options options = {.gets = true};
    return text_set(call, call->argument[1], call->argument[2], &options);
}

/* INCR, DECR, INCRBY and DECRBY; the variant is the sign. The counter keeps its
 * holder and its time. */
static bool do_incr(struct key_call *call)
{
    int64_t old = 0, by = 1;
    if ((call->count > 2 && !view_take_integer(call, 2, &by)) ||
        !view_find_first(call, KEY_TEXT)) {
        return false;
    }
    struct redis_view *view = call->view;
    CHECK(call->command->variant == 1 || call->command->variant == -1);
    by *= call->command->variant;
    if (view->is_there && !view_is_foreign(view) &&
        !view_integer(view->value, &old)) {
        return view_fail_integer(call);
    }
    if (!view_edit(call, view, KEY_TEXT)) {
        return false;
    }
    view->value = view_digits(call->keys, old + by).text;
    return answer_number(call, old + by);
}

/* Parses the place of a bit; 0 is the highest bit of the first byte. */
static bool take_bit(struct key_call *call, int64_t *ret_place)
{
    return (view_integer(call->argument[2], ret_place) && *ret_place >= 0 &&
            *ret_place < 8 * (int64_t)VALUE_SIZE_MAX) ||
           view_fail(call, "bit offset is not an integer or out of range");
}

static int bit_of(struct bytes text, int64_t place)
{
    CHECK(place >= 0); /* take_bit() has checked the place. */
    size_t byte = (size_t)place / 8;
    return byte < text.size ? text.data[byte] >> (7 - place % 8) & 1 : 0;
}

static bool do_getbit(struct key_call *call)
{
    int64_t place;
    return take_bit(call, &place) && view_find_first(call, KEY_TEXT) &&
           answer_number(call, bit_of(text_text_of(call), place));
}

static bool do_setbit(struct key_call *call)
{
    int64_t place, bit;
    if (!view_integer(call->argument[3], &bit) || bit < 0 || bit > 1) {
        return view_fail(call, "bit is not an integer or out of range");
    }
    if (!take_bit(call, &place) || !view_find_first(call, KEY_TEXT)) {
        return false;
    }
    struct redis_view *view = call->view;
    struct bytes old = view_text(call->keys, view);
    size_t byte = (size_t)place / 8;
    size_t size = byte + 1 > old.size ? byte + 1 : old.size;
    CHECK(byte < size && size <= VALUE_SIZE_MAX);
    uint8_t *data = arena_take(call->keys->arena, size);
    memset(data, 0, size);
    if (old.size > 0) {
        memcpy(data, old.data, old.size);
    }
    uint8_t mask = (uint8_t)(1 << (7 - place % 8));
    data[byte] = (uint8_t)(bit == 1 ? data[byte] | mask : data[byte] & ~mask);
    /* Collections are stored as text with a mark at the start: bits must not
     * forge one. */
    if (collection_type(bytes_of(data, size)) != KEY_TEXT) {
        return view_fail(call,
                         "a value must not start with the bytes that mark a "
                         "stored hash");
    }
    if (!view_edit(call, view, KEY_TEXT)) {
        return false;
    }
    view->value = bytes_of(data, size);
    view->is_replaced = true;
    return answer_number(call, bit_of(old, place));
}

const struct key_command key_text_commands[] = {
    {"GET", 2, 2, do_get, KEY_TEXT, 0},
    {"MGET", 2, UINT32_MAX, do_mget, KEY_ANY, 0},
    {"GETRANGE", 4, 4, do_getrange, KEY_TEXT, 0},
    {"STRLEN", 2, 2, do_strlen, KEY_TEXT, 0},
    {"SET", 3, UINT32_MAX, do_set, KEY_ANY, 0},
    {"SETEX", 4, 4, do_setex, KEY_ANY, TIME_EX},
    {"PSETEX", 4, 4, do_setex, KEY_ANY, TIME_PX},
    {"SETNX", 3, 3, do_setnx, KEY_ANY, 0},
    {"MSET", 3, UINT32_MAX, do_mset, KEY_ANY, 0},
    {"MSETNX", 3, UINT32_MAX, do_mset, KEY_ANY, 1},
    {"GETSET", 3, 3, do_getset, KEY_ANY, 0},
    {"GETDEL", 2, 2, do_getdel, KEY_ANY, 0},
    {"INCR", 2, 2, do_incr, KEY_ANY, 1},
    {"INCRBY", 3, 3, do_incr, KEY_ANY, 1},
    {"DECR", 2, 2, do_incr, KEY_ANY, -1},
    {"DECRBY", 3, 3, do_incr, KEY_ANY, -1},
    {"GETBIT", 3, 3, do_getbit, KEY_ANY, 0},
    {"SETBIT", 4, 4, do_setbit, KEY_ANY, 0},
    {"DELEX", 2, 4, do_delex, KEY_ANY, 3},
    {"DELIFEQ", 3, 3, do_delex, KEY_ANY, 2},
    {.name = NULL},
};
