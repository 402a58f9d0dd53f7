/* SPDX-License-Identifier: MIT */

/* Commands on hashes. */

#include "base/check.h"
#include "core/redis/views.h"

/* NULL if there is no such field. */
static struct collection_member *
hash_key_find_field(const struct redis_view *view, struct bytes field)
{
    uint32_t place = collection_find(&view->members, field);
    return place < view->members.count ? &view->members.member[place] : NULL;
}

/* False, with the error, if the hash has no space. */
static bool set_field(struct key_call *call, struct bytes field,
                      struct bytes value)
{
    struct redis_view *view = call->view;
    struct collection_member *member = hash_key_find_field(view, field);
    if (!view_spend(call, view->members.count) ||
        !view_edit(call, view, KEY_HASH)) {
        return false;
    }
    if (member != NULL) {
        member->value = value;
    } else {
        collection_insert(
            &view->members, call->keys->arena, view->members.count,
            &(struct collection_member){.name = field, .value = value});
    }
    CHECK(view->members.count > 0); /* An empty hash would be deleted. */
    return view_edited(call, view, member == NULL);
}

/* A missing field has the value nil. */
static struct value value_of_field(const struct collection_member *member)
{
    return member != NULL ? value_of_text(member->value) : value_of_bool(false);
}

static bool do_hget(struct key_call *call)
{
    return view_answer(call, value_of_field(hash_key_find_field(
                                 call->view, call->argument[2])));
}

static bool do_hexists(struct key_call *call)
{
    return answer_number(
        call, hash_key_find_field(call->view, call->argument[2]) != NULL);
}

static bool do_hmget(struct key_call *call)
{
    answer_list(call);
    for (uint32_t i = 2; i < call->count; i++) {
        if (!view_spend(call, call->view->members.count)) {
            return false;
        }
        answer_append(call, value_of_field(hash_key_find_field(
                                call->view, call->argument[i])));
    }
    return true;
}

/* HGETALL, or HKEYS if the variant is 1. */
static bool do_hgetall(struct key_call *call)
{
    const struct collection *hash = &call->view->members;
    answer_list(call);
    for (uint32_t i = 0; i < hash->count; i++) {
        answer_append(call, value_of_text(hash->member[i].name));
        if (call->command->variant == 0) {
            answer_append(call, value_of_text(hash->member[i].value));
        }
    }
    return true;
}

/* HSET answers how many fields are new. */
static bool do_hset(struct key_call *call)
{
    if (call->count % 2 != 0) {
        return view_fail(call, "wrong number of arguments");
    }
    if (!view_find_first(call, KEY_HASH)) {
        return false;
    }
    uint32_t before = call->view->members.count;
    for (uint32_t i = 2; i < call->count; i += 2) {
        if (!set_field(call, call->argument[i], call->argument[i + 1])) {
            return false;
        }
    }
    /* Setting a field removes none. */
    CHECK(call->view->members.count >= before);
    return answer_number(call, call->view->members.count - before);
}

static bool do_hmset(struct key_call *call)
{
    return do_hset(call) && answer_ok(call);
}

static bool do_hsetnx(struct key_call *call)
{
    CHECK(call->count == 4); /* The command's row sets the arity. */
    if (hash_key_find_field(call->view, call->argument[2]) != NULL) {
        return answer_number(call, 0);
    }
    return set_field(call, call->argument[2], call->argument[3]) &&
           answer_number(call, 1);
}

/* HINCRBY answers the new number. */
static bool do_hincrby(struct key_call *call)
{
    int64_t old = 0, by = 0;
    const struct collection_member *member = hash_key_find_field(
        call->view, call->argument[2]);
    if (member != NULL && !view_integer(member->value, &old)) {
        return view_fail_integer(call);
    }
    return view_take_integer(call, 3, &by) &&
           set_field(call, call->argument[2],
                     view_digits(call->keys, old + by).text) &&
           answer_number(call, old + by);
}

const struct key_command key_hash_commands[] = {
    {"HEXISTS", 3, 3, do_hexists, KEY_HASH, 0},
    {"HGET", 3, 3, do_hget, KEY_HASH, 0},
    {"HMGET", 3, UINT32_MAX, do_hmget, KEY_HASH, 0},
    {"HGETALL", 2, 2, do_hgetall, KEY_HASH, 0},
    {"HKEYS", 2, 2, do_hgetall, KEY_HASH, 1},
    {"HLEN", 2, 2, answer_count, KEY_HASH, 0},
    {"HSET", 4, UINT32_MAX, do_hset, KEY_ANY, 0},
    {"HMSET", 4, UINT32_MAX, do_hmset, KEY_ANY, 0},
    {"HSETNX", 4, 4, do_hsetnx, KEY_HASH, 0},
    {"HINCRBY", 4, 4, do_hincrby, KEY_HASH, 0},
    {"HDEL", 3, UINT32_MAX, view_remove, KEY_HASH, 0},
    {.name = NULL},
};
