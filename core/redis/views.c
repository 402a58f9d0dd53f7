/* SPDX-License-Identifier: MIT */

#include "core/redis/views.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "core/state.h"
#include "lease/rules.h"
#include "lockfsm/user/access.h"

/* --- Answers -------------------------------------------------------------- */

bool view_fail(struct key_call *call, const char *format, ...)
{
    struct redis_keys *keys = call->keys;
    va_list args;
    va_start(args, format);
    vsnprintf(keys->error, sizeof keys->error, format, args);
    va_end(args);
    answer_text(call, arena_copy(keys->arena, bytes_of_text(keys->error)));
    return false;
}

bool view_fail_integer(struct key_call *call)
{
    return view_fail(call, "value is not an integer or out of range");
}

bool view_fail_type(struct key_call *call)
{
    return view_fail(call,
                     "WRONGTYPE Operation against a key holding the wrong kind "
                     "of value");
}

void answer_append(struct key_call *call, struct value item)
{
    CHECK(call->ret->type == VALUE_TABLE); /* answer_list() has made it. */
    call->keys->steps++;
    value_append(call->keys->arena, call->ret->table, &item);
}

bool answer_length(struct key_call *call)
{
    bool is_text = call->ret->type == VALUE_TEXT;
    return answer_number(call, is_text ? (int64_t)call->ret->text.size : 0);
}

bool answer_members(struct key_call *call, uint32_t from, uint32_t to)
{
    CHECK(from <= to && to <= call->view->members.count);
    answer_list(call);
    for (uint32_t i = from; i < to; i++) {
        answer_append(call, value_of_text(call->view->members.member[i].name));
    }
    return true;
}

bool answer_count(struct key_call *call)
{
    CHECK(call->view != NULL); /* Its row has a type. */
    return answer_number(call, call->view->members.count);
}

/* --- Finding -------------------------------------------------------------- */

static bool is_declared(const struct redis_keys *keys, struct bytes name)
{
    for (uint32_t i = 0; i < keys->declared_count; i++) {
        if (bytes_equal(keys->declared[i], name)) {
            return true;
        }
    }
    return keys->declared == NULL;
}

/* True if the user may know the key. The keys that the request declares were
 * checked on receipt; a script may name others. */
static bool may_see(const struct redis_keys *keys, struct bytes name)
{
    return is_declared(keys, name) ||
           lockfsm_may(keys->fsm, keys->user, VERB_LOCK, name, EXTENT_NAME,
                       NULL) ||
           lockfsm_may(keys->fsm, keys->user, VERB_READ, name, EXTENT_NAME,
                       NULL);
}

static void views_look(struct redis_keys *keys, struct redis_view *view)
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
        key->was = REDIS_OTHER; /* Its EXPIRE is in flight. */
        return;
    }
    CHECK(key->was == REDIS_VALUE);
    view->hold = hold;
    view->value = key->value = hold->value;
    view->type = collection_type(hold->value);
}

void view_read_members(struct redis_keys *keys, struct redis_view *view)
{
    if (view->has_members || view->hold == NULL || view->type == KEY_TEXT) {
        return;
    }
    CHECK(!view_is_foreign(view)); /* A foreign value is not one of Redis. */
    view->has_members = true;
    view->members = collection_read(view->value, keys->arena);
    keys->steps += view->members.count;
}

bool view_find(struct key_call *call, struct bytes name,
               struct redis_view **ret_view)
{
    for (uint32_t i = 0; i < call->keys->count; i++) {
        if (bytes_equal(call->keys->view[i].key.name, name)) {
            *ret_view = &call->keys->view[i];
            return true;
        }
    }
    if (name.size == 0 || name.size > LOCK_NAME_SIZE_MAX) {
        return view_fail(call, "a key must have 1 to %d bytes",
                         LOCK_NAME_SIZE_MAX);
    }
    /* Rights come before the key is read: even whether it exists is a
     * secret. */
    if (!may_see(call->keys, name)) {
        return view_fail(call, "the key is not one of KEYS, and this user may "
                               "neither lock nor read it");
    }
    if (call->keys->count == MULTI_COUNT_MAX) {
        return view_fail(call, "more than %d keys", MULTI_COUNT_MAX);
    }
    struct redis_view *view = &call->keys->view[call->keys->count++];
    *view = (struct redis_view){.key = {.name = name}, .type = KEY_TEXT};
    views_look(call->keys, view);
    *ret_view = view;
    return true;
}

bool view_spend(struct key_call *call, uint32_t members)
{
    call->keys->steps += 1 + members / MEMBERS_PER_STEP;
    return call->keys->steps <= SCRIPT_STEPS_MAX ||
           view_fail(call, "reading these members takes more than %d steps",
                     SCRIPT_STEPS_MAX);
}

bool view_find_type(struct key_call *call, struct bytes name,
                    enum key_type type, struct redis_view **ret_view)
{
    if (!view_find(call, name, ret_view)) {
        return false;
    }
    CHECK(type != KEY_ANY);
    struct redis_view *view = *ret_view;
    view->is_looked_at = true;
    if (view->is_there && !view_is_foreign(view) && view->type != type) {
        return view_fail_type(call);
    }
    view_read_members(call->keys, view);
    /* Reading them costs steps. */
    call->keys->steps += view->members.count / MEMBERS_PER_STEP;
    return true;
}

bool view_find_first(struct key_call *call, enum key_type type)
{
    CHECK(call->count > 1); /* The rows of commands with a key ensure this. */
    return view_find_type(call, call->argument[1], type, &call->view);
}

/* --- Reading -------------------------------------------------------------- */

struct bytes view_text(const struct redis_keys *keys,
                       const struct redis_view *view)
{
    const struct lock *lock = lockfsm_lock(keys->fsm, view->key.name);
    if (!view_is_foreign(view)) {
        return view->value;
    }
    return lock != NULL && lock->hold_count > 0 && !keys->is_script
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)->value
               : (struct bytes){NULL, 0};
}

struct value view_value(const struct redis_keys *keys,
                        const struct redis_view *view)
{
    return view->is_there ? value_of_text(view_text(keys, view))
                          : value_of_bool(false);
}

/* The session that holds a key's lock; among those of others the first. NULL:
 * none does, or the key was deleted. */
static const struct session *holder_of(const struct redis_keys *keys,
                                       const struct redis_view *view)
{
    CHECK(!view_is_foreign(view) || view->hold == NULL);
    if (!view_is_foreign(view)) {
        return view->hold != NULL ? view->hold->session : NULL;
    }
    const struct lock *lock = lockfsm_lock(keys->fsm, view->key.name);
    return lock != NULL && lock->hold_count > 0
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)->session
               : NULL;
}

int64_t view_left_ms(const struct redis_keys *keys,
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

bool view_integer(struct bytes text, int64_t *ret_number)
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
    *ret_number = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

bool view_take_integer(struct key_call *call, uint32_t at, int64_t *ret_number)
{
    CHECK(at < call->count); /* The row, or the caller, ensures this. */
    return view_integer(call->argument[at], ret_number) ||
           view_fail_integer(call);
}

bool view_take_wanted(struct key_call *call, int64_t *ret_wanted)
{
    *ret_wanted = 1;
    return call->count < 3 || (view_take_integer(call, 2, ret_wanted) &&
                               (*ret_wanted >= 0 || view_fail_integer(call)));
}

bool view_range(struct key_call *call, uint32_t count, uint32_t *ret_from,
                uint32_t *ret_to)
{
    int64_t from, to, size = count;
    if (!view_take_integer(call, 2, &from) ||
        !view_take_integer(call, 3, &to)) {
        return false;
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

struct value view_digits(struct redis_keys *keys, int64_t number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    return value_of_text(arena_copy(keys->arena, bytes_of_text(digits)));
}

/* --- Writing -------------------------------------------------------------- */

static bool refuse_foreign(struct key_call *call)
{
    return view_fail(call,
                     "a session holds this lock, or waits for it, or the lock "
                     "is closed: only LOCK commands change it");
}

void view_set_time(struct redis_view *view, uint64_t px_ms)
{
    CHECK(px_ms > 0); /* A key whose time is over is deleted. */
    view->is_timed = true;
    view->lacks_ttl = false;
    view->px_ms = px_ms;
}

bool view_write(struct key_call *call, struct redis_view *view,
                struct bytes value)
{
    if (view_is_foreign(view)) {
        return refuse_foreign(call);
    }
    if (value.size > VALUE_SIZE_MAX) {
        return view_fail(call, "a value has at most %d bytes", VALUE_SIZE_MAX);
    }
    if (collection_type(value) != KEY_TEXT) {
        return view_fail(call,
                         "a value must not start with the bytes that mark a "
                         "stored hash");
    }
    bool is_same = view->is_there && view->type == KEY_TEXT &&
                   bytes_equal(view->value, value);
    if (view->is_there && !is_same && !view->is_looked_at) {
        return view_fail(call,
                         "another value holds this lock: use IFEQ, or compare "
                         "the value first");
    }
    view->is_replaced |= !is_same;
    view->is_there = true;
    view->is_looked_at = true;
    view->is_timed = false; /* Until a time is set again. */
    view->lacks_ttl = true;
    view->may_endure = false;
    view->type = KEY_TEXT;
    view->has_members = false;
    view->members = (struct collection){0};
    view->value = value;
    return true;
}

/* True if the key may be deleted although its value was not read. A hash that a
 * script deletes is a lock of Redisson, which does so to force its release and
 * reads it otherwise, and what a script deletes of the other types are the
 * waiters for a lock. Redisson also records with a key of its own, which it
 * deletes by a plain DEL, that a release has been answered. */
static bool may_delete(const struct redis_keys *keys,
                       const struct redis_view *view)
{
    return keys->may_delete || view->is_looked_at ||
           (keys->is_script && view->type != KEY_TEXT) ||
           bytes_has_prefix(view->key.name,
                            BYTES_LITERAL("redisson_unlock_latch:"));
}

bool view_delete(struct key_call *call, struct redis_view *view)
{
    if (!view->is_there) {
        return true;
    }
    /* DEL without a comparison could release a lock that another client has
     * acquired meanwhile. */
    if (view_is_foreign(view) || !may_delete(call->keys, view)) {
        return view_fail(call,
                         "a held lock is released only by its holder (with "
                         "the script that compares the value), or by "
                         "LOCK.RELEASEIF");
    }
    view->is_there = false;
    view->is_replaced = true;
    view->hold = NULL;
    view->is_timed = false;
    view->may_endure = false;
    view->type = KEY_TEXT;
    view->has_members = false;
    view->members = (struct collection){0};
    view->value = (struct bytes){NULL, 0};
    return true;
}

bool view_edit(struct key_call *call, struct redis_view *view,
               enum key_type type)
{
    if (view_is_foreign(view)) {
        return refuse_foreign(call);
    }
    if (!view->is_there) {
        view->is_there = true;
        view->lacks_ttl = true;
        view->is_replaced = true;
        view->type = type;
        view->has_members = type != KEY_TEXT; /* For the members that follow. */
    }
    CHECK(view->type == type && view->has_members == (view->type != KEY_TEXT));
    return true;
}

bool view_edited(struct key_call *call, struct redis_view *view,
                 bool is_replaced)
{
    CHECK(view->type != KEY_TEXT && !view_is_foreign(view));
    view->is_replaced |= is_replaced;
    return view->members.count > 0 || view_delete(call, view);
}

bool view_remove(struct key_call *call)
{
    struct collection *members = &call->view->members;
    uint32_t before = members->count;
    for (uint32_t i = 2; i < call->count; i++) {
        if (!view_spend(call, members->count)) {
            return false;
        }
        uint32_t place = collection_find(members, call->argument[i]);
        if (place < members->count) {
            collection_remove(members, place, 1);
        }
    }
    CHECK(members->count <= before);
    uint32_t removed = before - members->count;
    return (removed == 0 || view_edited(call, call->view, true)) &&
           answer_number(call, removed);
}
