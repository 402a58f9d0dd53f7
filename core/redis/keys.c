/* SPDX-License-Identifier: MIT */

#include "core/redis/keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "core/redis/hash.h"
#include "core/redis/script_lex.h"
#include "core/state.h"
#include "lease/rules.h"

#define PX_MAX_MS ((uint64_t)TTL_ASKED_MS_MAX)

/* --- Answers -------------------------------------------------------------- */

static bool fail(struct redis_keys *keys, struct value *ret, const char *format,
                 ...) __attribute__((format(printf, 3, 4)));

static bool fail(struct redis_keys *keys, struct value *ret, const char *format,
                 ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(keys->error, sizeof keys->error, format, args);
    va_end(args);
    *ret = value_of_text(arena_copy(keys->arena, bytes_of_text(keys->error)));
    return false;
}

static bool answer_ok(struct redis_keys *keys, struct value *ret)
{
    *ret = value_of_status(keys->arena, "ok", BYTES_LITERAL("OK"));
    return true;
}

static bool answer_number(struct value *ret, int64_t number)
{
    *ret = value_of_number((double)number);
    return true;
}

static bool answer_nil(struct value *ret)
{
    *ret = value_of_bool(false);
    return true;
}

/* --- Keys ----------------------------------------------------------------- */

static bool is_declared(const struct redis_keys *keys, struct bytes name)
{
    for (uint32_t i = 0; i < keys->declared_count; i++) {
        if (bytes_equal(keys->declared[i], name)) {
            return true;
        }
    }
    return keys->declared == NULL;
}

static void look(struct redis_keys *keys, struct redis_view *view)
{
    struct redis_key *key = &view->key;
    const struct hold *hold;
    key->was = lockfsm_redis(keys->fsm, keys->user, key->name, &hold);
    if (hold == NULL) {
        view->is_there = key->was == REDIS_OTHER;
        return;
    }
    view->is_there = true;
    if (timers_is_doomed(keys->timers, hold->session->id)) {
        key->was = REDIS_OTHER; /* Its EXPIRE is on the way. */
        return;
    }
    view->hold = hold;
    view->value = key->value = hold->value;
}

/* False with the error. */
static bool find(struct redis_keys *keys, struct bytes name,
                 struct redis_view **ret_view, struct value *ret)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        if (bytes_equal(keys->view[i].key.name, name)) {
            *ret_view = &keys->view[i];
            return true;
        }
    }
    if (name.size == 0 || name.size > LOCK_NAME_SIZE_MAX) {
        return fail(keys, ret, "a key must have 1 to %d bytes",
                    LOCK_NAME_SIZE_MAX);
    }
    if (!is_declared(keys, name)) {
        return fail(keys, ret,
                    "the key is not one of KEYS: give it with the "
                    "others");
    }
    if (keys->count == MULTI_COUNT_MAX) {
        return fail(keys, ret, "more than %d keys", MULTI_COUNT_MAX);
    }
    struct redis_view *view = &keys->view[keys->count++];
    *view = (struct redis_view){.key = {.name = name}};
    look(keys, view);
    *ret_view = view;
    return true;
}

static bool is_foreign(const struct redis_view *view)
{
    return view->key.was == REDIS_OTHER;
}

static bool refuse_foreign(struct redis_keys *keys, struct value *ret)
{
    return fail(keys, ret,
                "this lock is held by a session, waited for, or "
                "closed: only LOCK commands change it");
}

static bool fail_type(struct redis_keys *keys, struct value *ret)
{
    return fail(keys, ret,
                "WRONGTYPE Operation against a key holding the wrong kind of "
                "value");
}

/* As GET tells it: of a lock that is no client's of Redis the holder's value,
 * if it has one; to a script none, since it might take it for its own. */
static struct bytes value_of(const struct redis_keys *keys,
                             const struct redis_view *view)
{
    const struct lock *lock = lockfsm_lock(keys->fsm, view->key.name);
    if (!is_foreign(view)) {
        return view->value;
    }
    return lock != NULL && lock->hold_count > 0 && !keys->is_script
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)->value
               : (struct bytes){NULL, 0};
}

/* The session that holds a key's lock; of those of others the first. NULL: none
 * does, or it was deleted. */
static const struct session *holder_of(const struct redis_keys *keys,
                                       const struct redis_view *view)
{
    if (!is_foreign(view)) {
        return view->hold != NULL ? view->hold->session : NULL;
    }
    const struct lock *lock = lockfsm_lock(keys->fsm, view->key.name);
    return lock != NULL && lock->hold_count > 0
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)->session
               : NULL;
}

/* As Redis: -2 absent, -1 without a time to live. Of what a session holds its
 * lease, so that clients who wait for so long ask again. */
static int64_t left_ms(const struct redis_keys *keys,
                       const struct redis_view *view)
{
    if (!view->is_there) {
        return -2;
    }
    if (view->is_timed) {
        return (int64_t)view->px_ms;
    }
    const struct session *session = holder_of(keys, view);
    if (view->lacks_ttl || session == NULL || session->is_durable) {
        return -1;
    }
    uint64_t left_ns = timers_lease_left(keys->timers, session->id,
                                         keys->now_ns);
    return (int64_t)(rules_redis_px_ns(left_ns) / NS_PER_MS);
}

/* A time of PX or EX; false with the error. */
static bool to_px(struct redis_keys *keys, struct bytes text, uint64_t unit_ms,
                  uint64_t *ret_px_ms, struct value *ret)
{
    uint64_t number;
    if (!bytes_to_u64(text, &number) || number == 0 ||
        number > PX_MAX_MS / unit_ms) {
        return fail(keys, ret, "a time to live is 1 ms to 1 h");
    }
    *ret_px_ms = number * unit_ms;
    return true;
}

static void set_time(struct redis_view *view, uint64_t px_ms)
{
    view->is_timed = true;
    view->lacks_ttl = false;
    view->px_ms = px_ms;
}

static bool write_value(struct redis_keys *keys, struct redis_view *view,
                        struct bytes value, struct value *ret)
{
    if (is_foreign(view)) {
        return refuse_foreign(keys, ret);
    }
    if (value.size > VALUE_SIZE_MAX) {
        return fail(keys, ret, "a value has at most %d bytes", VALUE_SIZE_MAX);
    }
    if (hash_is(value)) {
        return fail(keys, ret, "a value may not begin as a hash is stored");
    }
    bool is_same = view->is_there && bytes_equal(view->value, value);
    if (view->is_there && !is_same && !view->is_looked_at) {
        return fail(keys, ret,
                    "another value holds this lock: give IFEQ, or "
                    "compare it before");
    }
    view->is_replaced |= !is_same;
    view->is_there = true;
    view->is_looked_at = true;
    view->is_timed = false; /* Until it is said again. */
    view->lacks_ttl = true;
    view->value = value;
    return true;
}

/* True if the key may be deleted though its value was not looked at. A hash
 * that a script deletes is a lock of Redisson, which does so to force its
 * release and looks at it else; and Redisson notes with a key of its own, which
 * it deletes by a plain DEL, that a release has been answered. */
static bool may_delete(const struct redis_keys *keys,
                       const struct redis_view *view)
{
    return keys->may_delete || view->is_looked_at ||
           (keys->is_script && hash_is(view->value)) ||
           bytes_has_prefix(view->key.name,
                            BYTES_LITERAL("redisson_unlock_latch:"));
}

/* False with the error; nothing is done if there is no such key. */
static bool delete_view(struct redis_keys *keys, struct redis_view *view,
                        struct value *ret)
{
    if (!view->is_there) {
        return true;
    }
    if (is_foreign(view) || !may_delete(keys, view)) {
        return fail(keys, ret,
                    "a held lock is released by its holder (with "
                    "the script that compares the value), or taken "
                    "by LOCK.RELEASEIF");
    }
    view->is_there = false;
    view->is_replaced = true;
    view->hold = NULL;
    view->is_timed = false;
    view->value = (struct bytes){NULL, 0};
    return true;
}

/* --- Commands ------------------------------------------------------------- */

static bool do_get(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    view->is_looked_at = true;
    if (hash_is(view->value)) {
        return fail_type(keys, ret);
    }
    *ret = view->is_there ? value_of_text(value_of(keys, view))
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
    double from, to;
    if (!text_to_number(argument[2], &from) ||
        !text_to_number(argument[3], &to)) {
        return fail(keys, ret, "value is not an integer or out of range");
    }
    if (!do_get(keys, argument, count, ret)) {
        return false;
    }
    double size = ret->type == VALUE_TEXT ? (double)ret->text.size : 0;
    from = from < 0 ? from + size : from;
    to = to < 0 ? to + size : to;
    from = from < 0 ? 0 : from;
    to = to >= size ? size - 1 : to;
    *ret = value_of_text(to < from ? (struct bytes){NULL, 0}
                                   : bytes_of(ret->text.data + (size_t)from,
                                              (size_t)(to - from) + 1));
    return true;
}

static bool do_strlen(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    return do_get(keys, argument, count, ret) &&
           answer_number(ret,
                         ret->type == VALUE_TEXT ? (int64_t)ret->text.size : 0);
}

static bool do_exists(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    int64_t there = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct redis_view *view;
        if (!find(keys, argument[i], &view, ret)) {
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
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    *ret = value_of_status(keys->arena, "ok",
                           !view->is_there        ? BYTES_LITERAL("none")
                           : hash_is(view->value) ? BYTES_LITERAL("hash")
                                                  : BYTES_LITERAL("string"));
    return true;
}

static bool do_ttl(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    int64_t left = left_ms(keys, view);
    if (left > 0 && bytes_is_word(argument[0], "TTL")) {
        left = (left + 500) / 1000;
    }
    return answer_number(ret, left);
}

static bool do_expire(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    uint64_t px_ms = 0;
    (void)count;
    if (!to_px(keys, argument[2],
               bytes_is_word(argument[0], "EXPIRE") ? 1000 : 1, &px_ms, ret) ||
        !find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view->is_there || is_foreign(view)) {
        return answer_number(ret, 0);
    }
    set_time(view, px_ms);
    return answer_number(ret, 1);
}

static bool do_persist(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view->is_there || is_foreign(view) || left_ms(keys, view) == -1) {
        return answer_number(ret, 0);
    }
    view->is_timed = false;
    view->lacks_ttl = true;
    return answer_number(ret, 1);
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
    uint64_t px_ms; /* 0: not given. */
};

static bool read_set_options(struct redis_keys *keys,
                             const struct bytes *argument, uint32_t count,
                             struct set_options *options, struct value *ret)
{
    *options = (struct set_options){0};
    for (uint32_t i = 3; i < count; i++) {
        struct bytes word = argument[i];
        bool is_px = bytes_is_word(word, "PX");
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
        } else if ((is_px || bytes_is_word(word, "EX")) && i + 1 < count &&
                   options->px_ms == 0) {
            if (!to_px(keys, argument[++i], is_px ? 1 : 1000, &options->px_ms,
                       ret)) {
                return false;
            }
        } else {
            return fail(keys, ret,
                        "syntax error: SET key value [NX|XX|IFEQ "
                        "value] [GET] [PX ms|EX s|KEEPTTL]");
        }
    }
    if (options->is_nx + options->is_xx + options->has_expected > 1 ||
        (options->is_fresh && !options->is_nx) ||
        (options->keeps_ttl && options->px_ms > 0)) {
        return fail(keys, ret,
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
                           !is_foreign(view) && bytes_equal(view->value, value);
        return !view->is_there || is_repeated;
    }
    if (options->has_expected) {
        view->is_looked_at = true;
        return view->is_there && !is_foreign(view) &&
               bytes_equal(view->value, options->expected);
    }
    return !options->is_xx || view->is_there;
}

static bool do_set(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    struct set_options options;
    struct redis_view *view;
    if (!read_set_options(keys, argument, count, &options, ret) ||
        !find(keys, argument[1], &view, ret)) {
        return false;
    }
    struct value old = view->is_there ? value_of_text(value_of(keys, view))
                                      : value_of_bool(false);
    bool applies = set_applies(keys, view, &options, argument[2]);
    bool was_timed = view->is_timed;
    if (applies && !write_value(keys, view, argument[2], ret)) {
        return false;
    }
    if (applies && options.px_ms > 0) {
        set_time(view, options.px_ms);
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
        return fail(keys, ret, "wrong number of arguments");
    }
    for (uint32_t i = 1; is_nx && i < count; i += 2) {
        struct redis_view *view;
        if (!find(keys, argument[i], &view, ret)) {
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

static bool do_del(struct redis_keys *keys, const struct bytes *argument,
                   uint32_t count, struct value *ret)
{
    int64_t deleted = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct redis_view *view;
        if (!find(keys, argument[i], &view, ret)) {
            return false;
        }
        deleted += view->is_there;
        if (!delete_view(keys, view, ret)) {
            return false;
        }
    }
    return answer_number(ret, deleted);
}

/* DELIFEQ key value (Valkey 9), DELEX key IFEQ value (Redis 8.4). */
static bool do_delex(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    bool is_delex = bytes_is_word(argument[0], "DELEX");
    if (is_delex && (count != 4 || !bytes_is_word(argument[2], "IFEQ"))) {
        return fail(keys, ret, "syntax error: DELEX key IFEQ value");
    }
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    if (!view->is_there || is_foreign(view) ||
        !bytes_equal(view->value, argument[is_delex ? 3 : 2])) {
        return answer_number(ret, 0);
    }
    view->is_looked_at = true;
    return delete_view(keys, view, ret) && answer_number(ret, 1);
}

/* GETDEL key. */
static bool do_getdel(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct value old;
    (void)count;
    if (!find(keys, argument[1], &view, ret)) {
        return false;
    }
    old = view->is_there ? value_of_text(value_of(keys, view))
                         : value_of_bool(false);
    if (!delete_view(keys, view, ret)) {
        return false;
    }
    *ret = old;
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
        return fail(keys, ret,
                    "at most %d messages of %d bytes, on channels of %d",
                    REDIS_MESSAGES_MAX, VALUE_SIZE_MAX, LOCK_NAME_SIZE_MAX);
    }
    if (!bytes_has_prefix(argument[1], BYTES_LITERAL("lock:"))) {
        keys->message[keys->message_count++] = (struct redis_message){
            .channel = arena_copy(keys->arena, argument[1]),
            .text = arena_copy(keys->arena, argument[2])};
    }
    return answer_number(ret, 0);
}

/* --- Hashes --------------------------------------------------------------- */

/* Finds a key that has a hash, or may have one. False with the error. */
static bool find_hash(struct redis_keys *keys, struct bytes name,
                      struct redis_view **ret_view, struct value *ret)
{
    if (!find(keys, name, ret_view, ret)) {
        return false;
    }
    struct redis_view *view = *ret_view;
    view->is_looked_at = true;
    if (view->is_there && !is_foreign(view) && !hash_is(view->value)) {
        return fail_type(keys, ret);
    }
    return true;
}

/* A number that a double holds. */
static bool to_integer(struct bytes text, int64_t *ret)
{
    static const uint64_t max = UINT64_C(1) << 52;
    bool is_negative = text.size > 0 && text.data[0] == '-';
    uint64_t number;
    if (is_negative) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    if (!bytes_to_u64(text, &number) || number > max) {
        return false;
    }
    *ret = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

/* Sets a field, or takes it away if 'value' is NULL. A key without fields is
 * deleted. The time to live stays. False with the error. */
static bool edit_hash(struct redis_keys *keys, struct redis_view *view,
                      struct bytes field, const struct bytes *value,
                      struct value *ret)
{
    struct buffer text = {0};
    struct bytes old;
    bool was_there = hash_find(view->value, field, &old);
    if (is_foreign(view)) {
        return refuse_foreign(keys, ret);
    }
    if (!hash_edit(view->value, field, value, &text)) {
        return fail(keys, ret, "a hash has no '=' or line ends in its fields");
    }
    struct bytes hash = arena_copy(keys->arena, buffer_bytes(&text));
    buffer_done(&text);
    if (hash.size > VALUE_SIZE_MAX) {
        return fail(keys, ret, "a hash has at most %d bytes", VALUE_SIZE_MAX);
    }
    if (hash_count(hash) == 0) {
        return delete_view(keys, view, ret);
    }
    view->lacks_ttl = view->hold == NULL && !view->is_timed;
    view->is_replaced |= was_there != (value != NULL);
    view->is_there = true;
    view->value = hash;
    return true;
}

/* HEXISTS key field, HGET key field. */
static bool do_hget(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct bytes value;
    (void)count;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    bool is_there = hash_find(view->value, argument[2], &value);
    if (bytes_is_word(argument[0], "HEXISTS")) {
        return answer_number(ret, is_there);
    }
    *ret = is_there ? value_of_text(value) : value_of_bool(false);
    return true;
}

/* HSET key field value..., HSETNX key field value. */
static bool do_hset(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct bytes old;
    int64_t added = 0;
    bool is_nx = bytes_is_word(argument[0], "HSETNX");
    if (count % 2 != 0) {
        return fail(keys, ret, "wrong number of arguments");
    }
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    for (uint32_t i = 2; i < count; i += 2) {
        bool is_there = hash_find(view->value, argument[i], &old);
        added += !is_there;
        if (!(is_nx && is_there) &&
            !edit_hash(keys, view, argument[i], &argument[i + 1], ret)) {
            return false;
        }
    }
    return answer_number(ret, added);
}

/* HINCRBY key field number: what it comes to. */
static bool do_hincrby(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct bytes text;
    char digits[32];
    int64_t old = 0, by = 0;
    (void)count;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    bool is_there = hash_find(view->value, argument[2], &text);
    if ((is_there && !to_integer(text, &old)) ||
        !to_integer(argument[3], &by)) {
        return fail(keys, ret, "value is not an integer or out of range");
    }
    snprintf(digits, sizeof digits, "%" PRId64, old + by);
    struct bytes value = bytes_of_text(digits);
    return edit_hash(keys, view, argument[2], &value, ret) &&
           answer_number(ret, old + by);
}

/* HDEL key field... */
static bool do_hdel(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    struct bytes old;
    int64_t deleted = 0;
    if (!find_hash(keys, argument[1], &view, ret)) {
        return false;
    }
    for (uint32_t i = 2; i < count; i++) {
        if (hash_find(view->value, argument[i], &old)) {
            deleted++;
            if (!edit_hash(keys, view, argument[i], NULL, ret)) {
                return false;
            }
        }
    }
    return answer_number(ret, deleted);
}

static bool do_hlen(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_hash(keys, argument[1], &view, ret) &&
           answer_number(ret, hash_count(view->value));
}

static const struct {
    const char *name;
    uint32_t min; /* With the name. */
    uint32_t max;
    bool (*run)(struct redis_keys *keys, const struct bytes *argument,
                uint32_t count, struct value *ret);
} commands[] = {
    {"GET", 2, 2, do_get},
    {"MGET", 2, UINT32_MAX, do_mget},
    {"GETRANGE", 4, 4, do_getrange},
    {"STRLEN", 2, 2, do_strlen},
    {"EXISTS", 2, UINT32_MAX, do_exists},
    {"TYPE", 2, 2, do_type},
    {"PTTL", 2, 2, do_ttl},
    {"TTL", 2, 2, do_ttl},
    {"PEXPIRE", 3, 3, do_expire},
    {"EXPIRE", 3, 3, do_expire},
    {"PERSIST", 2, 2, do_persist},
    {"SET", 3, UINT32_MAX, do_set},
    {"SETEX", 4, 4, do_setex},
    {"PSETEX", 4, 4, do_setex},
    {"SETNX", 3, 3, do_setnx},
    {"MSET", 3, UINT32_MAX, do_mset},
    {"MSETNX", 3, UINT32_MAX, do_mset},
    {"DEL", 2, UINT32_MAX, do_del},
    {"UNLINK", 2, UINT32_MAX, do_del},
    {"DELEX", 2, 4, do_delex},
    {"DELIFEQ", 3, 3, do_delex},
    {"GETDEL", 2, 2, do_getdel},
    {"PUBLISH", 3, 3, do_publish},
    {"SPUBLISH", 3, 3, do_publish},
    {"HEXISTS", 3, 3, do_hget},
    {"HGET", 3, 3, do_hget},
    {"HSET", 4, UINT32_MAX, do_hset},
    {"HMSET", 4, UINT32_MAX, do_hset},
    {"HSETNX", 4, 4, do_hset},
    {"HINCRBY", 4, 4, do_hincrby},
    {"HDEL", 3, UINT32_MAX, do_hdel},
    {"HLEN", 2, 2, do_hlen},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static size_t find_command(struct bytes name)
{
    size_t i = 0;
    while (i < COMMAND_COUNT && !bytes_is_word(name, commands[i].name)) {
        i++;
    }
    return i;
}

bool redis_keys_know(struct bytes command)
{
    return find_command(command) < COMMAND_COUNT;
}

bool redis_keys_call(void *data, const struct bytes *argument, uint32_t count,
                     struct value *ret)
{
    struct redis_keys *keys = data;
    size_t i = find_command(argument[0]);
    if (i == COMMAND_COUNT) {
        return fail(keys, ret, "hasp does not have this command for scripts");
    }
    if (count < commands[i].min || count > commands[i].max) {
        return fail(keys, ret, "%s: wrong number of arguments",
                    commands[i].name);
    }
    return commands[i].run(keys, argument, count, ret);
}

/* The token of a value; 0: it is free. What others have is marked. */
bool redis_keys_watch(struct redis_keys *keys, struct bytes name,
                      uint64_t *ret_version)
{
    static const uint64_t foreign = UINT64_C(1) << 63;
    struct redis_view *view;
    struct value error;
    if (!find(keys, name, &view, &error)) {
        return false;
    }
    view->is_looked_at = true;
    *ret_version = 0;
    if (view->hold != NULL) {
        *ret_version = view->hold->token;
    } else if (view->is_there) {
        const struct lock *lock = lockfsm_lock(keys->fsm, name);
        *ret_version = foreign;
        if (lock != NULL && lock->hold_count > 0) {
            *ret_version |= LIST_FIRST(&lock->holds, struct hold, in_lock)
                                ->token;
        }
    }
    return true;
}

/* --- The end -------------------------------------------------------------- */

static enum redis_change change_of(const struct redis_view *view)
{
    if (is_foreign(view)) {
        return REDIS_KEEP;
    }
    if (view->key.was == REDIS_VALUE && !view->is_there) {
        return REDIS_DELETE;
    }
    if (!view->is_there) {
        return REDIS_KEEP;
    }
    if (view->key.was == REDIS_FREE ||
        !bytes_equal(view->value, view->key.value)) {
        return REDIS_SET;
    }
    return view->is_timed || view->lacks_ttl ? REDIS_RENEW : REDIS_KEEP;
}

static bool is_taken(const struct redis_view *view)
{
    return view->key.change == REDIS_SET && view->key.was == REDIS_FREE;
}

/* What is taken at once shares a session, which has a lease or none. */
static bool takes_both(const struct redis_keys *keys)
{
    uint32_t taken = 0, durable = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        taken += is_taken(&keys->view[i]);
        durable += is_taken(&keys->view[i]) && keys->view[i].key.is_durable;
    }
    return durable > 0 && durable < taken;
}

bool redis_keys_finish(struct redis_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        struct redis_view *view = &keys->view[i];
        struct redis_key *key = &view->key;
        key->change = change_of(view);
        if (view->is_there && view->lacks_ttl && !keys->may_endure) {
            snprintf(keys->error, sizeof keys->error,
                     "a lock needs a time to live: give PX ms or EX s");
            return false;
        }
        key->is_durable = view->is_there && view->lacks_ttl;
        if (key->change == REDIS_SET) {
            key->new_value = view->value;
            key->keeps_grant = key->was == REDIS_VALUE && !view->is_replaced;
        }
        if (view->is_timed && key->change != REDIS_KEEP &&
            key->change != REDIS_DELETE) {
            key->px_ms = view->px_ms;
            key->ttl_ms = (uint32_t)rules_redis_lease_ms(view->px_ms);
        }
    }
    if (takes_both(keys)) {
        snprintf(keys->error, sizeof keys->error,
                 "locks with and without a time to live cannot be taken at "
                 "once");
        return false;
    }
    return true;
}

bool redis_keys_change(const struct redis_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        if (keys->view[i].key.change != REDIS_KEEP) {
            return true;
        }
    }
    return false;
}

bool redis_keys_take(const struct redis_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        if (is_taken(&keys->view[i])) {
            return true;
        }
    }
    return false;
}
