/* SPDX-License-Identifier: MIT */

/* Commands on lists. */

#include "base/check.h"
#include "core/redis/views.h"

enum end { END_RIGHT, END_LEFT };

static void list_key_insert(struct key_call *call, struct redis_view *view,
                            enum end end, struct bytes item)
{
    /* view_edit() has made it a list. */
    CHECK(view->type == KEY_LIST && view->is_there);
    struct collection *list = &view->members;
    collection_insert(list, call->keys->arena,
                      end == END_LEFT ? 0 : list->count,
                      &(struct collection_member){.name = item});
    call->keys->steps++;
}

/* LPUSH and RPUSH; the variant is the end. */
static bool do_push(struct key_call *call)
{
    struct redis_view *view = call->view;
    enum end end = (enum end)call->command->variant;
    if (!view_edit(call, view, KEY_LIST)) {
        return false;
    }
    for (uint32_t i = 2; i < call->count; i++) {
        /* An item at the front moves all others. */
        if (!view_spend(call, end == END_LEFT ? view->members.count : 0)) {
            return false;
        }
        list_key_insert(call, view, end, call->argument[i]);
    }
    CHECK(view->members.count >= call->count - 2);
    return view_edited(call, view, true) && answer_count(call);
}

/* Removes and returns the item at one end of a list that has items. */
static struct bytes list_key_take(struct redis_view *view, enum end end)
{
    struct collection *list = &view->members;
    CHECK(list->count > 0);
    uint32_t place = end == END_LEFT ? 0 : list->count - 1;
    struct bytes item = list->member[place].name;
    collection_remove(list, place, 1);
    return item;
}

static bool do_lpop(struct key_call *call)
{
    int64_t wanted;
    if (!view_take_wanted(call, &wanted) || !view_find_first(call, KEY_LIST)) {
        return false;
    }
    struct collection *list = &call->view->members;
    if (list->count == 0) {
        return answer_nil(call);
    }
    struct value popped = value_new_table(call->keys->arena);
    view_answer(call, popped);
    uint32_t count = wanted < list->count ? (uint32_t)wanted : list->count;
    for (uint32_t i = 0; i < count; i++) {
        answer_append(call, value_of_text(list->member[i].name));
    }
    collection_remove(list, 0, count);
    if (count > 0 && !view_edited(call, call->view, true)) {
        return false;
    }
    CHECK(call->count == 3 || popped.table->count == 1);
    return call->count == 3 || view_answer(call, popped.table->item[0]);
}

/* Moves an item from an end of one list to an end of another, or of the same.
 */
static bool list_key_move(struct key_call *call, enum end from_end,
                          enum end to_end)
{
    struct redis_view *from, *to;
    if (!view_find_type(call, call->argument[1], KEY_LIST, &from)) {
        return false;
    }
    if (from->members.count == 0) {
        /* Nothing moves, whatever the other key holds. */
        return answer_nil(call);
    }
    if (!view_find_type(call, call->argument[2], KEY_LIST, &to)) {
        return false;
    }
    if (from == to && from->members.count == 1) {
        return answer_text(call, from->members.member[0].name);
    }
    /* A list with items exists. */
    CHECK(from->is_there && !view_is_foreign(from));
    struct bytes item = list_key_take(from, from_end);
    call->keys->steps++;
    if (!view_edited(call, from, true) || !view_edit(call, to, KEY_LIST)) {
        return false;
    }
    list_key_insert(call, to, to_end, item);
    return view_edited(call, to, true) && answer_text(call, item);
}

/* LMOVE from to LEFT|RIGHT LEFT|RIGHT. */
static bool do_lmove(struct key_call *call)
{
    enum end end[2];
    for (int i = 0; i < 2; i++) {
        struct bytes word = call->argument[3 + i];
        end[i] = bytes_is_word(word, "LEFT") ? END_LEFT : END_RIGHT;
        if (end[i] == END_RIGHT && !bytes_is_word(word, "RIGHT")) {
            return view_fail(call, "syntax error: use LEFT or RIGHT");
        }
    }
    return list_key_move(call, end[0], end[1]);
}

/* Parses the index of LINDEX and LSET, for a list that may have no item there;
 * a negative index counts from the end. */
static bool list_key_take_place(struct key_call *call, int64_t *ret_place)
{
    if (!view_take_integer(call, 2, ret_place)) {
        return false;
    }
    *ret_place += *ret_place < 0 ? (int64_t)call->view->members.count : 0;
    return true;
}

static bool do_lindex(struct key_call *call)
{
    const struct collection *list = &call->view->members;
    int64_t place;
    if (!list_key_take_place(call, &place)) {
        return false;
    }
    return place >= 0 && place < (int64_t)list->count
               ? answer_text(call, list->member[place].name)
               : answer_nil(call);
}

static bool do_lset(struct key_call *call)
{
    const struct collection *list = &call->view->members;
    int64_t place;
    if (!list_key_take_place(call, &place)) {
        return false;
    }
    if (place < 0 || place >= (int64_t)list->count) {
        return view_fail(call, list->count == 0 ? "no such key"
                                                : "index out of range");
    }
    CHECK(call->view->is_there && !view_is_foreign(call->view));
    list->member[place].name = call->argument[3];
    return view_edited(call, call->view, true) && answer_ok(call);
}

static bool do_lrange(struct key_call *call)
{
    uint32_t from, to;
    return view_range(call, call->view->members.count, &from, &to) &&
           answer_members(call, from, to);
}

static bool do_ltrim(struct key_call *call)
{
    struct collection *list = &call->view->members;
    uint32_t from, to, before = list->count;
    if (!view_range(call, before, &from, &to)) {
        return false;
    }
    collection_remove(list, to, before - to);
    collection_remove(list, 0, from);
    CHECK(list->count == to - from);
    return (before == list->count || view_edited(call, call->view, true)) &&
           answer_ok(call);
}

static uint32_t count_equal(const struct collection *list, struct bytes item)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        count += bytes_equal(list->member[i].name, item);
    }
    return count;
}

/* LREM removes the first 'count' such items, the last ones if 'count' is
 * negative, all if it is 0. */
static bool do_lrem(struct key_call *call)
{
    struct collection *list = &call->view->members;
    struct bytes item = call->argument[3];
    int64_t wanted;
    if (!view_take_integer(call, 2, &wanted)) {
        return false;
    }
    int64_t most = wanted < 0 ? -wanted : wanted;
    uint32_t there = count_equal(list, item);
    uint32_t count = most == 0 || most > there ? there : (uint32_t)most;
    uint32_t first = wanted < 0 ? there - count : 0;
    uint32_t seen = 0, kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        /* One pass that moves the kept items forward: removing them one by one
         * would be quadratic. */
        bool is_equal = bytes_equal(list->member[i].name, item);
        if (!is_equal || seen < first || seen >= first + count) {
            list->member[kept++] = list->member[i];
        }
        seen += is_equal;
    }
    CHECK(list->count - kept == count);
    list->count = kept;
    return (count == 0 || view_edited(call, call->view, true)) &&
           answer_number(call, count);
}

const struct key_command key_list_commands[] = {
    {"LPUSH", 3, UINT32_MAX, do_push, KEY_LIST, END_LEFT},
    {"RPUSH", 3, UINT32_MAX, do_push, KEY_LIST, END_RIGHT},
    {"LPOP", 2, 3, do_lpop, KEY_ANY, 0},
    {"LLEN", 2, 2, answer_count, KEY_LIST, 0},
    {"LINDEX", 3, 3, do_lindex, KEY_LIST, 0},
    {"LSET", 4, 4, do_lset, KEY_LIST, 0},
    {"LRANGE", 4, 4, do_lrange, KEY_LIST, 0},
    {"LTRIM", 4, 4, do_ltrim, KEY_LIST, 0},
    {"LREM", 4, 4, do_lrem, KEY_LIST, 0},
    {"LMOVE", 5, 5, do_lmove, KEY_ANY, 0},
    {.name = NULL},
};
