/* SPDX-License-Identifier: MIT */

/* Commands on sorted sets, from which semaphores and queues of waiters are
 * made. */

#include <math.h>

#include "base/check.h"
#include "core/redis/views.h"

static bool read_score(struct key_call *call, struct bytes text,
                       double *ret_score)
{
    return score_read(text, ret_score) ||
           view_fail(call, "value is not a valid float");
}

static struct value value_of_score(struct redis_keys *keys, double score)
{
    char text[SCORE_TEXT_SIZE];
    return value_of_text(arena_copy(keys->arena, score_text(score, text)));
}

static bool answer_score(struct key_call *call, double score)
{
    /* A sum that is not a number is refused, or becomes 0. */
    CHECK(!isnan(score));
    return view_answer(call, value_of_score(call->keys, score));
}

/* --- Changes -------------------------------------------------------------- */

struct add_options {
    /* The options that say which members may change. */
    bool is_nx, is_xx, is_gt, is_lt;
    bool counts_changed;
    bool increments;
};

/* Returns the index of the first score. */
static uint32_t read_add_options(const struct bytes *argument, uint32_t count,
                                 struct add_options *options)
{
    uint32_t at = 2;
    *options = (struct add_options){0};
    for (; at < count; at++) {
        if (bytes_is_word(argument[at], "NX")) {
            options->is_nx = true;
        } else if (bytes_is_word(argument[at], "XX")) {
            options->is_xx = true;
        } else if (bytes_is_word(argument[at], "GT")) {
            options->is_gt = true;
        } else if (bytes_is_word(argument[at], "LT")) {
            options->is_lt = true;
        } else if (bytes_is_word(argument[at], "CH")) {
            options->counts_changed = true;
        } else if (bytes_is_word(argument[at], "INCR")) {
            options->increments = true;
        } else {
            break;
        }
    }
    CHECK(at <= count);
    return at;
}

static bool may_set(const struct add_options *options,
                    const struct collection_member *member, double score)
{
    /* A score that is not a number has no place in the order. */
    CHECK(!isnan(score));
    if (member == NULL) {
        return !options->is_xx;
    }
    return !options->is_nx && !(options->is_gt && score <= member->score) &&
           !(options->is_lt && score >= member->score);
}

struct added {
    uint32_t new_count;
    uint32_t changed_count;
    double score; /* The score of the last member. */
    bool is_set;  /* True if the last member was set. */
};

/* Sets one member's score, or adds to it; false with the error. */
static bool set_score(struct key_call *call, struct bytes name, double score,
                      const struct add_options *options, struct added *added)
{
    struct collection *zset = &call->view->members;
    /* Finding the member and its place, and moving those after it. */
    if (!view_spend(call, 2 * zset->count)) {
        return false;
    }
    uint32_t place = collection_find(zset, name);
    struct collection_member *member = place < zset->count
                                           ? &zset->member[place]
                                           : NULL;
    if (options->increments && member != NULL) {
        score += member->score;
    }
    if (isnan(score)) {
        return view_fail(call, "resulting score is not a number (NaN)");
    }
    added->is_set = may_set(options, member, score);
    added->score = score;
    if (!added->is_set) {
        return true;
    }
    added->new_count += member == NULL;
    added->changed_count += member == NULL || member->score != score;
    if (member != NULL) {
        collection_remove(zset, place, 1);
    }
    collection_insert(
        zset, call->keys->arena, collection_place(zset, name, score),
        &(struct collection_member){.name = name, .score = score});
    return true;
}

/* Sets the scores and members from 'at' on; 'added' receives what was done. */
static bool zset_key_add(struct key_call *call, uint32_t at,
                         const struct add_options *options, struct added *added)
{
    const struct bytes *argument = call->argument;
    double score;
    *added = (struct added){0};
    /* The caller has checked that each score has a member. */
    CHECK((call->count - at) % 2 == 0);
    if (!view_find_first(call, KEY_ZSET)) {
        return false;
    }
    for (uint32_t i = at; i < call->count; i += 2) {
        if (!read_score(call, argument[i], &score)) {
            return false; /* A wrong score prevents all changes. */
        }
    }
    if (options->is_xx && !call->view->is_there) {
        return true;
    }
    if (!view_edit(call, call->view, KEY_ZSET)) {
        return false;
    }
    for (uint32_t i = at; i < call->count; i += 2) {
        if (!read_score(call, argument[i], &score) ||
            !set_score(call, argument[i + 1], score, options, added)) {
            return false;
        }
    }
    return view_edited(call, call->view, added->new_count > 0);
}

/* ZADD key [options] score member... */
static bool do_zadd(struct key_call *call)
{
    struct add_options options;
    struct added added;
    uint32_t at = read_add_options(call->argument, call->count, &options);
    uint32_t left = call->count - at;
    bool is_both = options.is_gt && options.is_lt;
    if (left == 0 || left % 2 != 0 || is_both ||
        (options.is_nx && (options.is_xx || options.is_gt || options.is_lt)) ||
        (options.increments && left != 2)) {
        return view_fail(call,
                         "syntax error: use ZADD key [NX|XX] [GT|LT] [CH] "
                         "[INCR] score member...");
    }
    if (!zset_key_add(call, at, &options, &added)) {
        return false;
    }
    if (options.increments) {
        return added.is_set ? answer_score(call, added.score)
                            : answer_nil(call);
    }
    return answer_number(call, options.counts_changed ? added.changed_count
                                                      : added.new_count);
}

/* ZINCRBY is ZADD with INCR. */
static bool do_zincrby(struct key_call *call)
{
    static const struct add_options options = {.increments = true};
    struct added added;
    return zset_key_add(call, 2, &options, &added) &&
           answer_score(call, added.score);
}

/* --- Ranges --------------------------------------------------------------- */

/* Parses a bound; "(5" excludes 5 itself. */
static bool read_bound(struct key_call *call, struct bytes text,
                       double *ret_score, bool *ret_is_open)
{
    *ret_is_open = text.size > 0 && text.data[0] == '(';
    if (*ret_is_open) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    return score_read(text, ret_score) ||
           view_fail(call, "min or max is not a float");
}

/* The members whose scores are from 'min' to 'max', as the first place and the
 * one after the last. */
static bool range_by_score(struct key_call *call, struct bytes min,
                           struct bytes max, uint32_t *ret_from,
                           uint32_t *ret_to)
{
    const struct collection_member *member = call->view->members.member;
    double low, high;
    bool is_low_open, is_high_open;
    if (!read_bound(call, min, &low, &is_low_open) ||
        !read_bound(call, max, &high, &is_high_open)) {
        return false;
    }
    /* The members are in the order of their scores. */
    uint32_t from = 0, to = call->view->members.count;
    while (from < to && (member[from].score < low ||
                         (is_low_open && member[from].score == low))) {
        from++;
    }
    while (to > from && (member[to - 1].score > high ||
                         (is_high_open && member[to - 1].score == high))) {
        to--;
    }
    CHECK(from <= to && to <= call->view->members.count);
    *ret_from = from;
    *ret_to = to;
    return true;
}

struct range_options {
    bool by_score;
    bool is_reverse;
    bool with_scores;
    int64_t skip;
    int64_t most; /* Negative: all. */
};

static bool read_range_options(struct key_call *call,
                               struct range_options *options)
{
    for (uint32_t i = 4; i < call->count; i++) {
        if (bytes_is_word(call->argument[i], "WITHSCORES")) {
            options->with_scores = true;
        } else if (bytes_is_word(call->argument[i], "BYSCORE")) {
            options->by_score = true;
        } else if (bytes_is_word(call->argument[i], "REV")) {
            options->is_reverse = true;
        } else if (bytes_is_word(call->argument[i], "LIMIT") &&
                   i + 2 < call->count) {
            if (!view_take_integer(call, i + 1, &options->skip) ||
                !view_take_integer(call, i + 2, &options->most)) {
                return false;
            }
            i += 2;
        } else {
            return view_fail(call,
                             "syntax error: use [BYSCORE] [REV] [LIMIT skip "
                             "count] [WITHSCORES]");
        }
    }
    return true;
}

static void zset_key_tell(struct key_call *call,
                          const struct collection_member *member,
                          bool with_score)
{
    answer_append(call, value_of_text(member->name));
    if (with_score) {
        answer_append(call, value_of_score(call->keys, member->score));
    }
}

static bool tell_range(struct key_call *call, uint32_t from, uint32_t to,
                       const struct range_options *options)
{
    int64_t most = options->most < 0 ? INT64_MAX : options->most;
    const struct collection_member *member = call->view->members.member;
    answer_list(call);
    CHECK(from <= to && to <= call->view->members.count);
    for (uint32_t i = 0; i < to - from; i++) {
        uint32_t place = options->is_reverse ? to - 1 - i : from + i;
        if (options->skip >= 0 && i >= options->skip &&
            i - options->skip < most) {
            zset_key_tell(call, &member[place], options->with_scores);
        }
    }
    return true;
}

enum range_kind { RANGE_REVERSE = 1, RANGE_BY_SCORE = 2 };

/* ZRANGE and its siblings; the variant is what the command's name implies. */
static bool do_zrange(struct key_call *call)
{
    struct range_options options = {
        .by_score = (call->command->variant & RANGE_BY_SCORE) != 0,
        .is_reverse = (call->command->variant & RANGE_REVERSE) != 0,
        .most = -1};
    uint32_t from, to;
    if (!read_range_options(call, &options) ||
        !view_find_first(call, KEY_ZSET)) {
        return false;
    }
    uint32_t size = call->view->members.count;
    if (options.by_score) {
        struct bytes low = call->argument[options.is_reverse ? 3 : 2];
        struct bytes high = call->argument[options.is_reverse ? 2 : 3];
        if (!range_by_score(call, low, high, &from, &to)) {
            return false;
        }
    } else if (!view_range(call, size, &from, &to)) {
        return false;
    } else if (options.is_reverse) {
        /* The places count from the other end; an empty range stays empty. */
        uint32_t end = size - from;
        from = from == to ? end : size - to;
        to = end;
    }
    return tell_range(call, from, to, &options);
}

static bool do_zremrangebyscore(struct key_call *call)
{
    uint32_t from, to;
    if (!range_by_score(call, call->argument[2], call->argument[3], &from,
                        &to)) {
        return false;
    }
    collection_remove(&call->view->members, from, to - from);
    return (from == to || view_edited(call, call->view, true)) &&
           answer_number(call, to - from);
}

static bool do_zcount(struct key_call *call)
{
    uint32_t from, to;
    return range_by_score(call, call->argument[2], call->argument[3], &from,
                          &to) &&
           answer_number(call, to - from);
}

/* --- Commands on several keys --------------------------------------------- */

/* The arguments of ZINTERSTORE: into count key... [WEIGHTS number...]. */
struct combination {
    struct redis_view *source[MULTI_COUNT_MAX];
    double weight[MULTI_COUNT_MAX];
    uint32_t count;
};

static bool fail_combination(struct key_call *call)
{
    return view_fail(call,
                     "syntax error: use count key... [WEIGHTS number...]");
}

/* Finds a source; a set counts as a sorted set in which each member has the
 * score 1. */
static bool find_source(struct key_call *call, struct bytes name,
                        struct redis_view **ret_view)
{
    if (!view_find(call, name, ret_view)) {
        return false;
    }
    bool is_set = (*ret_view)->type == KEY_SET;
    return view_find_type(call, name, is_set ? KEY_SET : KEY_ZSET, ret_view);
}

static double score_of(const struct combination *combination, uint32_t source,
                       const struct collection_member *member)
{
    CHECK(source < combination->count);
    bool is_set = combination->source[source]->type == KEY_SET;
    double score = combination->weight[source] * (is_set ? 1 : member->score);
    return isnan(score) ? 0 : score; /* Infinity times 0 is 0, as in Redis. */
}

/* Parses the arguments after the name of the new key. */
static bool read_combination(struct key_call *call,
                             struct combination *ret_combination)
{
    const struct bytes *argument = call->argument;
    uint32_t count = call->count;
    int64_t sources;
    *ret_combination = (struct combination){0};
    if (!view_take_integer(call, 2, &sources)) {
        return false;
    }
    /* The last bound is the size of the arrays of sources and weights. */
    if (sources < 1 || sources > count - 3 || sources > MULTI_COUNT_MAX) {
        return fail_combination(call);
    }
    uint32_t size = (uint32_t)sources;
    for (uint32_t i = 0; i < size; i++) {
        ret_combination->weight[i] = 1;
        if (!find_source(call, argument[3 + i], &ret_combination->source[i])) {
            return false;
        }
    }
    ret_combination->count = size;
    if (count == 3 + size) {
        return true;
    }
    if (count != 4 + 2 * size ||
        !bytes_is_word(argument[3 + size], "WEIGHTS")) {
        return fail_combination(call);
    }
    for (uint32_t i = 0; i < size; i++) {
        if (!read_score(call, argument[4 + size + i],
                        &ret_combination->weight[i])) {
            return false;
        }
    }
    return true;
}

/* Adds a member of the first source to the result, with the sum of its scores;
 * one that another source lacks is omitted. */
static void intersect_member(struct redis_keys *keys,
                             const struct combination *combination,
                             const struct collection_member *member,
                             struct collection *result)
{
    double score = score_of(combination, 0, member);
    for (uint32_t i = 1; i < combination->count; i++) {
        const struct collection *other = &combination->source[i]->members;
        uint32_t place = collection_find(other, member->name);
        if (place == other->count) {
            return;
        }
        score += score_of(combination, i, &other->member[place]);
        score = isnan(score) ? 0 : score;
    }
    collection_insert(
        result, keys->arena, collection_place(result, member->name, score),
        &(struct collection_member){.name = member->name, .score = score});
}

/* Counts the steps; false, with the error, if the command would delay other
 * clients. */
static bool take_steps(struct key_call *call,
                       const struct combination *combination)
{
    uint64_t members = 0;
    CHECK(combination->count > 0 && combination->count <= MULTI_COUNT_MAX);
    for (uint32_t i = 0; i < combination->count; i++) {
        members += combination->source[i]->members.count;
    }
    uint64_t steps = members + members * members / 16;
    if (steps > SCRIPT_STEPS_MAX) {
        return view_fail(call, "the sorted sets have too many members");
    }
    call->keys->steps += (uint32_t)steps;
    return true;
}

/* Stores the result and replaces what the key held, including its time to
 * live. */
static bool store_result(struct key_call *call, struct bytes name,
                         const struct collection *result)
{
    struct redis_view *view;
    if (!view_find(call, name, &view) || !view_delete(call, view)) {
        return false;
    }
    CHECK(!view->is_there);
    if (result->count > 0) {
        if (!view_edit(call, view, KEY_ZSET)) {
            return false;
        }
        view->members = *result;
    }
    return answer_number(call, result->count);
}

static bool do_zinterstore(struct key_call *call)
{
    struct combination combination;
    struct collection result = {0};
    if (!read_combination(call, &combination) ||
        !take_steps(call, &combination)) {
        return false;
    }
    const struct collection *first = &combination.source[0]->members;
    for (uint32_t i = 0; i < first->count; i++) {
        intersect_member(call->keys, &combination, &first->member[i], &result);
    }
    return store_result(call, call->argument[1], &result);
}

/* --- Reads ---------------------------------------------------------------- */

static bool do_zscore(struct key_call *call)
{
    const struct collection *zset = &call->view->members;
    uint32_t place = collection_find(zset, call->argument[2]);
    return place < zset->count ? answer_score(call, zset->member[place].score)
                               : answer_nil(call);
}

static bool do_zrank(struct key_call *call)
{
    const struct collection *zset = &call->view->members;
    uint32_t place = collection_find(zset, call->argument[2]);
    return place < zset->count ? answer_number(call, place) : answer_nil(call);
}

const struct key_command key_zset_commands[] = {
    {"ZADD", 4, UINT32_MAX, do_zadd, KEY_ANY, 0},
    {"ZINCRBY", 4, 4, do_zincrby, KEY_ANY, 0},
    {"ZREM", 3, UINT32_MAX, view_remove, KEY_ZSET, 0},
    {"ZREMRANGEBYSCORE", 4, 4, do_zremrangebyscore, KEY_ZSET, 0},
    {"ZRANGE", 4, 10, do_zrange, KEY_ANY, 0},
    {"ZREVRANGE", 4, 5, do_zrange, KEY_ANY, RANGE_REVERSE},
    {"ZRANGEBYSCORE", 4, 8, do_zrange, KEY_ANY, RANGE_BY_SCORE},
    {"ZINTERSTORE", 4, UINT32_MAX, do_zinterstore, KEY_ANY, 0},
    {"ZCARD", 2, 2, answer_count, KEY_ZSET, 0},
    {"ZCOUNT", 4, 4, do_zcount, KEY_ZSET, 0},
    {"ZSCORE", 3, 3, do_zscore, KEY_ZSET, 0},
    {"ZRANK", 3, 3, do_zrank, KEY_ZSET, 0},
    {.name = NULL},
};
