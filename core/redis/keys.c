/* SPDX-License-Identifier: MIT */

#include "core/redis/keys.h"

#include <stdio.h>

#include "base/check.h"
#include "core/redis/views.h"
#include "core/state.h"
#include "lease/rules.h"

static const struct key_command *const tables[] = {
    key_any_commands,  key_text_commands, key_hash_commands,
    key_list_commands, key_set_commands,  key_zset_commands};

/* NULL if there is no such command. */
static const struct key_command *find_command(struct bytes name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct key_command *c = tables[i]; c->name != NULL; c++) {
            if (bytes_is_word(name, c->name)) {
                return c;
            }
        }
    }
    return NULL;
}

bool redis_keys_know(struct bytes command)
{
    return find_command(command) != NULL;
}

bool redis_keys_call(void *data, const struct bytes *argument, uint32_t count,
                     struct value *ret)
{
    struct key_call call = {
        .keys = data, .argument = argument, .count = count, .ret = ret};
    CHECK(count > 0);
    const struct key_command *command = find_command(argument[0]);
    if (command == NULL) {
        return view_fail(&call,
                         "hasp does not support this command in scripts");
    }
    if (count < command->min || count > command->max) {
        return view_fail(&call, "%s: wrong number of arguments", command->name);
    }
    call.command = command;
    return (command->type == KEY_ANY ||
            view_find_first(&call, command->type)) &&
           command->run(&call);
}

/* The version is the token of the value, 0 if the key is free; the version of
 * another user's value is marked. */
bool redis_keys_watch(struct redis_keys *keys, struct bytes name,
                      uint64_t *ret_version)
{
    static const uint64_t foreign = UINT64_C(1) << 63;
    struct redis_view *view;
    struct value error;
    struct key_call call = {.keys = keys, .ret = &error};
    if (!view_find(&call, name, &view)) {
        return false;
    }
    view->is_looked_at = true;
    *ret_version = 0;
    CHECK(view->hold == NULL || view->is_there);
    if (view->hold != NULL) {
        *ret_version = view->hold->token;
    } else if (view->is_there) {
        const struct lock *lock = lockfsm_lock(keys->fsm, name);
        /* A session's lock has a token as well, but it must never equal the
         * version of a value with that token. */
        *ret_version = foreign;
        if (lock != NULL && lock->hold_count > 0) {
            *ret_version |= LIST_FIRST(&lock->holds, struct hold, in_lock)
                                ->token;
        }
    }
    return true;
}

/* --- The result ----------------------------------------------------------- */

static enum redis_change change_of(const struct redis_view *view)
{
    if (view_is_foreign(view)) {
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

static bool keys_is_taken(const struct redis_view *view)
{
    return view->key.change == REDIS_SET && view->key.was == REDIS_FREE;
}

/* True if some new values have a lease and others are durable: they share one
 * session, which is one or the other. */
static bool takes_both(const struct redis_keys *keys)
{
    uint32_t taken = 0, durable = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        taken += keys_is_taken(&keys->view[i]);
        durable += keys_is_taken(&keys->view[i]) &&
                   keys->view[i].key.is_durable;
    }
    CHECK(durable <= taken);
    return durable > 0 && durable < taken;
}

/* Encodes the members of a collection; false with keys->error. */
static bool write_members(struct redis_keys *keys, struct redis_view *view)
{
    if (view->type == KEY_TEXT || !view->has_members) {
        return true;
    }
    if (!collection_write(view->type, &view->members, VALUE_SIZE_MAX,
                          keys->arena, &view->value)) {
        snprintf(keys->error, sizeof keys->error,
                 "a %s may have at most %d bytes, with all its members",
                 key_type_name(view->type), VALUE_SIZE_MAX);
        return false;
    }
    return true;
}

bool redis_keys_finish(struct redis_keys *keys)
{
    CHECK(keys->count <= MULTI_COUNT_MAX);
    for (uint32_t i = 0; i < keys->count; i++) {
        struct redis_view *view = &keys->view[i];
        struct redis_key *key = &view->key;
        if (!write_members(keys, view)) {
            return false;
        }
        key->change = change_of(view);
        if (view->is_there && view->lacks_ttl && !keys->may_endure &&
            !view->may_endure) {
            snprintf(keys->error, sizeof keys->error,
                     "a lock needs a time to live: use PX ms or EX s");
            return false;
        }
        key->is_durable = view->is_there && view->lacks_ttl;
        if (key->change == REDIS_SET) {
            /* Each function that writes a value has checked its size. */
            CHECK(view->value.size <= VALUE_SIZE_MAX);
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
                 "a command cannot change keys with and without a time to "
                 "live at once: SET the one without it in a command of its "
                 "own first");
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
        if (keys_is_taken(&keys->view[i])) {
            return true;
        }
    }
    return false;
}
