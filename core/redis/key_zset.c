/* SPDX-License-Identifier: MIT */

/* Commands on sorted sets, of which semaphores and queues of waiters are made.
 */

#include <math.h>

#include "core/redis/views.h"

static bool find_zset(struct redis_keys *keys, struct bytes name,
                      struct redis_view **ret_view, struct value *ret)
{
    return view_find_type(keys, name, KEY_ZSET, ret_view, ret);
}

static bool read_score(struct redis_keys *keys, struct bytes text,
                       double *ret_score, struct value *ret)
{
    return score_read(text, ret_score) ||
           view_fail(keys, ret, "value is not a valid float");
}

static struct value value_of_score(struct redis_keys *keys, double score)
{
    char text[SCORE_TEXT_SIZE];
    return value_of_text(arena_copy(keys->arena, score_text(score, text)));
}

/* --- Changes -------------------------------------------------------------- */

struct add_options {
    bool is_nx, is_xx, is_gt, is_lt; /* Which members may change. */
    bool counts_changed;
    bool increments;
};

/* Returns the place of the first score. */
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
    return at;
}

static bool may_set(const struct add_options *options,
                    const struct member *member, double score)
{
    if (member == NULL) {
        return !options->is_xx;
    }
    return !options->is_nx && !(options->is_gt && score <= member->score) &&
           !(options->is_lt && score >= member->score);
}

struct added {
    uint32_t new_count;
    uint32_t changed_count;
    double score; /* Of the last one. */
    bool is_set;  /* The last one was. */
};

/* Sets one member's score, or adds to it. False with the error. */
static bool set_score(struct redis_keys *keys, struct redis_view *view,
                      struct bytes name, double score,
                      const struct add_options *options, struct added *added,
                      struct value *ret)
{
    struct collection *zset = &view->members;
    uint32_t place = collection_find(zset, name);
    struct member *member = place < zset->count ? &zset->member[place] : NULL;
    if (options->increments && member != NULL) {
        score += member->score;
    }
    if (isnan(score)) {
        return view_fail(keys, ret, "resulting score is not a number (NaN)");
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
    collection_insert(zset, keys->arena, collection_place(zset, name, score),
                      &(struct member){.name = name, .score = score});
    return true;
}

/* ZADD key [options] score member... 'added' is what was done. */
static bool add(struct redis_keys *keys, struct bytes key,
                const struct bytes *pair, uint32_t count,
                const struct add_options *options, struct added *added,
                struct value *ret)
{
    struct redis_view *view;
    *added = (struct added){0};
    if (!find_zset(keys, key, &view, ret)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i += 2) {
        double score; /* Nothing is done if one of them is none. */
        if (!read_score(keys, pair[i], &score, ret)) {
            return false;
        }
    }
    if (options->is_xx && !view->is_there) {
        return true;
    }
    if (!view_edit(keys, view, KEY_ZSET, ret)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i += 2) {
        double score;
        if (!read_score(keys, pair[i], &score, ret) ||
            !set_score(keys, view, pair[i + 1], score, options, added, ret)) {
            return false;
        }
    }
    return view_edited(keys, view, added->new_count > 0, ret);
}

static bool do_zadd(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct add_options options;
    struct added added;
    uint32_t at = read_add_options(argument, count, &options);
    bool is_both = options.is_gt && options.is_lt;
    if (at == count || (count - at) % 2 != 0 || is_both ||
        (options.is_nx && (options.is_xx || options.is_gt || options.is_lt)) ||
        (options.increments && count - at != 2)) {
        return view_fail(keys, ret,
                         "syntax error: ZADD key [NX|XX] [GT|LT] "
                         "[CH] [INCR] score member...");
    }
    if (!add(keys, argument[1], &argument[at], count - at, &options, &added,
             ret)) {
        return false;
    }
    if (options.increments) {
        *ret = added.is_set ? value_of_score(keys, added.score)
                            : value_of_bool(false);
        return true;
    }
    return answer_number(ret, options.counts_changed ? added.changed_count
                                                     : added.new_count);
}

/* ZINCRBY key by member. */
static bool do_zincrby(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    static const struct add_options options = {.increments = true};
    struct added added;
    (void)count;
    if (!add(keys, argument[1], &argument[2], 2, &options, &added, ret)) {
        return false;
    }
    *ret = value_of_score(keys, added.score);
    return true;
}

static bool do_zrem(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, struct value *ret)
{
    struct redis_view *view;
    return find_zset(keys, argument[1], &view, ret) &&
           view_remove(keys, view, &argument[2], count - 2, ret);
}

/* --- Ranges --------------------------------------------------------------- */

/* "(5" is beyond 5. */
static bool read_bound(struct redis_keys *keys, struct bytes text,
                       double *ret_score, bool *ret_is_open, struct value *ret)
{
    *ret_is_open = text.size > 0 && text.data[0] == '(';
    if (*ret_is_open) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    return score_read(text, ret_score) ||
           view_fail(keys, ret, "min or max is not a float");
}

/* From 'min' to 'max' by score, as from and behind the last. */
static bool range_by_score(struct redis_keys *keys,
                           const struct redis_view *view, struct bytes min,
                           struct bytes max, uint32_t *ret_from,
                           uint32_t *ret_to, struct value *ret)
{
    double low, high;
    bool is_low_open, is_high_open;
    if (!read_bound(keys, min, &low, &is_low_open, ret) ||
        !read_bound(keys, max, &high, &is_high_open, ret)) {
        return false;
    }
    uint32_t from = 0, to = view->members.count;
    while (from < to &&
           (view->members.member[from].score < low ||
            (is_low_open && view->members.member[from].score == low))) {
        from++;
    }
    while (to > from &&
           (view->members.member[to - 1].score > high ||
            (is_high_open && view->members.member[to - 1].score == high))) {
        to--;
    }
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

static bool read_range_options(struct redis_keys *keys,
                               const struct bytes *argument, uint32_t count,
                               struct range_options *options, struct value *ret)
{
    for (uint32_t i = 4; i < count; i++) {
        if (bytes_is_word(argument[i], "WITHSCORES")) {
            options->with_scores = true;
        } else if (bytes_is_word(argument[i], "BYSCORE")) {
            options->by_score = true;
        } else if (bytes_is_word(argument[i], "REV")) {
            options->is_reverse = true;
        } else if (bytes_is_word(argument[i], "LIMIT") && i + 2 < count) {
            if (!view_integer(argument[i + 1], &options->skip) ||
                !view_integer(argument[i + 2], &options->most)) {
                return view_fail_integer(keys, ret);
            }
            i += 2;
        } else {
            return view_fail(keys, ret,
                             "syntax error: [BYSCORE] [REV] [LIMIT skip count] "
                             "[WITHSCORES]");
        }
    }
    return true;
}

static void tell(struct redis_keys *keys, const struct member *member,
                 bool with_score, const struct value *list)
{
    answer_append(keys, list, value_of_text(member->name));
    if (with_score) {
        answer_append(keys, list, value_of_score(keys, member->score));
    }
}

static bool tell_range(struct redis_keys *keys, const struct redis_view *view,
                       uint32_t from, uint32_t to,
                       const struct range_options *options, struct value *ret)
{
    int64_t most = options->most < 0 ? INT64_MAX : options->most;
    *ret = value_new_table(keys->arena);
    for (uint32_t i = 0; i < to - from; i++) {
        uint32_t place = options->is_reverse ? to - 1 - i : from + i;
        if (options->skip >= 0 && i >= options->skip &&
            i - options->skip < most) {
            tell(keys, &view->members.member[place], options->with_scores, ret);
        }
    }
    return true;
}

/* ZRANGE and its like; 'options' as the name of the command says. */
static bool range(struct redis_keys *keys, const struct bytes *argument,
                  uint32_t count, struct range_options options,
                  struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    options.most = -1;
    if (!read_range_options(keys, argument, count, &options, ret) ||
        !find_zset(keys, argument[1], &view, ret)) {
        return false;
    }
    uint32_t size = view->members.count;
    if (options.by_score) {
        struct bytes low = argument[options.is_reverse ? 3 : 2];
        struct bytes high = argument[options.is_reverse ? 2 : 3];
        if (!range_by_score(keys, view, low, high, &from, &to, ret)) {
            return false;
        }
    } else if (!view_range(keys, &argument[2], size, &from, &to, ret)) {
        return false;
    } else if (options.is_reverse) {
        uint32_t end = size - from;
        from = from == to ? end : size - to;
        to = end;
    }
    return tell_range(keys, view, from, to, &options, ret);
}

static bool do_zrange(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    return range(keys, argument, count, (struct range_options){0}, ret);
}

static bool do_zrevrange(struct redis_keys *keys, const struct bytes *argument,
                         uint32_t count, struct value *ret)
{
    return range(keys, argument, count,
                 (struct range_options){.is_reverse = true}, ret);
}

static bool do_zrangebyscore(struct redis_keys *keys,
                             const struct bytes *argument, uint32_t count,
                             struct value *ret)
{
    return range(keys, argument, count,
                 (struct range_options){.by_score = true}, ret);
}

static bool do_zrevrangebyscore(struct redis_keys *keys,
                                const struct bytes *argument, uint32_t count,
                                struct value *ret)
{
    return range(keys, argument, count,
                 (struct range_options){.by_score = true, .is_reverse = true},
                 ret);
}

static bool remove_range(struct redis_keys *keys, struct redis_view *view,
                         uint32_t from, uint32_t to, struct value *ret)
{
    collection_remove(&view->members, from, to - from);
    return (from == to || view_edited(keys, view, true, ret)) &&
           answer_number(ret, to - from);
}

static bool do_zremrangebyscore(struct redis_keys *keys,
                                const struct bytes *argument, uint32_t count,
                                struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    (void)count;
    return find_zset(keys, argument[1], &view, ret) &&
           range_by_score(keys, view, argument[2], argument[3], &from, &to,
                          ret) &&
           remove_range(keys, view, from, to, ret);
}

static bool do_zremrangebyrank(struct redis_keys *keys,
                               const struct bytes *argument, uint32_t count,
                               struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    (void)count;
    return find_zset(keys, argument[1], &view, ret) &&
           view_range(keys, &argument[2], view->members.count, &from, &to,
                      ret) &&
           remove_range(keys, view, from, to, ret);
}

/* ZPOPMIN key [count], ZPOPMAX. */
static bool pop(struct redis_keys *keys, const struct bytes *argument,
                uint32_t count, bool is_max, struct value *ret)
{
    struct redis_view *view;
    int64_t wanted = 1;
    if (count == 3 && (!view_integer(argument[2], &wanted) || wanted < 0)) {
        return view_fail_integer(keys, ret);
    }
    if (!find_zset(keys, argument[1], &view, ret)) {
        return false;
    }
    struct value popped = value_new_table(keys->arena);
    for (; wanted > 0 && view->members.count > 0; wanted--) {
        uint32_t place = is_max ? view->members.count - 1 : 0;
        tell(keys, &view->members.member[place], true, &popped);
        collection_remove(&view->members, place, 1);
    }
    if (popped.table->count > 0 && !view_edited(keys, view, true, ret)) {
        return false;
    }
    *ret = popped;
    return true;
}

static bool do_zpopmin(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    return pop(keys, argument, count, false, ret);
}

static bool do_zpopmax(struct redis_keys *keys, const struct bytes *argument,
                       uint32_t count, struct value *ret)
{
    return pop(keys, argument, count, true, ret);
}

/* --- Of several keys ------------------------------------------------------ */

enum aggregate { AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX };

/* ZINTERSTORE and ZUNIONSTORE into, count, key... [WEIGHTS number...]
 * [AGGREGATE SUM|MIN|MAX]. */
struct combination {
    struct redis_view *source[MULTI_COUNT_MAX];
    double weight[MULTI_COUNT_MAX];
    uint32_t count;
    enum aggregate aggregate;
    struct collection result;
};

static bool fail_combination(struct redis_keys *keys, struct value *ret)
{
    return view_fail(keys, ret,
                     "syntax error: count key... [WEIGHTS number...] "
                     "[AGGREGATE SUM|MIN|MAX]");
}

/* A set counts as a sorted set in which each member has the score 1. */
static bool find_source(struct redis_keys *keys, struct bytes name,
                        struct redis_view **ret_view, struct value *ret)
{
    if (!view_find(keys, name, ret_view, ret)) {
        return false;
    }
    bool is_set = (*ret_view)->type == KEY_SET;
    return view_find_type(keys, name, is_set ? KEY_SET : KEY_ZSET, ret_view,
                          ret);
}

static double score_of(const struct combination *combination, uint32_t source,
                       const struct member *member)
{
    bool is_set = combination->source[source]->type == KEY_SET;
    double score = combination->weight[source] * (is_set ? 1 : member->score);
    return isnan(score) ? 0 : score; /* Infinite times 0, as in Redis. */
}

static double aggregate(enum aggregate how, double a, double b)
{
    if (how == AGGREGATE_MIN) {
        return a < b ? a : b;
    }
    if (how == AGGREGATE_MAX) {
        return a > b ? a : b;
    }
    return isnan(a + b) ? 0 : a + b;
}

static bool read_aggregate(struct bytes word, enum aggregate *ret)
{
    static const char *const names[] = {"SUM", "MIN", "MAX"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (bytes_is_word(word, names[i])) {
            *ret = (enum aggregate)i;
            return true;
        }
    }
    return false;
}

/* Reads what stands behind the name of the key that is to be made. */
static bool read_combination(struct redis_keys *keys,
                             const struct bytes *argument, uint32_t count,
                             struct combination *ret_combination,
                             struct value *ret)
{
    int64_t sources;
    *ret_combination = (struct combination){.aggregate = AGGREGATE_SUM};
    if (!view_integer(argument[2], &sources)) {
        return view_fail_integer(keys, ret);
    }
    if (sources < 1 || sources > count - 3 || sources > MULTI_COUNT_MAX) {
        return fail_combination(keys, ret);
    }
    uint32_t size = (uint32_t)sources;
    for (uint32_t i = 0; i < size; i++) {
        ret_combination->weight[i] = 1;
        if (!find_source(keys, argument[3 + i], &ret_combination->source[i],
                         ret)) {
            return false;
        }
    }
    ret_combination->count = size;
    for (uint32_t at = 3 + size; at < count;) {
        if (bytes_is_word(argument[at], "WEIGHTS") && count - at > size) {
            for (uint32_t i = 0; i < size; i++) {
                if (!read_score(keys, argument[at + 1 + i],
                                &ret_combination->weight[i], ret)) {
                    return false;
                }
            }
            at += 1 + size;
        } else if (bytes_is_word(argument[at], "AGGREGATE") && count - at > 1 &&
                   read_aggregate(argument[at + 1],
                                  &ret_combination->aggregate)) {
            at += 2;
        } else {
            return fail_combination(keys, ret);
        }
    }
    return true;
}

/* Adds a member of one source. Of an intersection only those of the first are
 * asked for, and are none if another source lacks them. */
static void combine_member(struct redis_keys *keys,
                           struct combination *combination, uint32_t source,
                           const struct member *member, bool is_union)
{
    struct collection *result = &combination->result;
    double score = score_of(combination, source, member);
    if (collection_find(result, member->name) < result->count) {
        return; /* An earlier source had it. */
    }
    for (uint32_t i = source + 1; i < combination->count; i++) {
        const struct collection *other = &combination->source[i]->members;
        uint32_t place = collection_find(other, member->name);
        if (place < other->count) {
            score = aggregate(combination->aggregate, score,
                              score_of(combination, i, &other->member[place]));
        } else if (!is_union) {
            return;
        }
    }
    collection_insert(result, keys->arena,
                      collection_place(result, member->name, score),
                      &(struct member){.name = member->name, .score = score});
}

/* False, with the error, if it would hold up the others. */
static bool take_steps(struct redis_keys *keys,
                       const struct combination *combination, struct value *ret)
{
    uint64_t members = 0;
    for (uint32_t i = 0; i < combination->count; i++) {
        members += combination->source[i]->members.count;
    }
    uint64_t steps = members + members * members / 16;
    if (steps > SCRIPT_STEPS_MAX) {
        return view_fail(keys, ret, "the sorted sets have too many members");
    }
    keys->steps += (uint32_t)steps;
    return true;
}

/* What stood there before is gone, with its time to live. */
static bool store_result(struct redis_keys *keys, struct bytes name,
                         const struct collection *result, struct value *ret)
{
    struct redis_view *view;
    if (!view_find(keys, name, &view, ret) || !view_delete(keys, view, ret)) {
        return false;
    }
    if (result->count > 0) {
        if (!view_edit(keys, view, KEY_ZSET, ret)) {
            return false;
        }
        view->members = *result;
    }
    return answer_number(ret, result->count);
}

static bool combine(struct redis_keys *keys, const struct bytes *argument,
                    uint32_t count, bool is_union, struct value *ret)
{
    struct combination combination;
    if (!read_combination(keys, argument, count, &combination, ret) ||
        !take_steps(keys, &combination, ret)) {
        return false;
    }
    for (uint32_t i = 0; i < (is_union ? combination.count : 1); i++) {
        const struct collection *source = &combination.source[i]->members;
        for (uint32_t j = 0; j < source->count; j++) {
            combine_member(keys, &combination, i, &source->member[j], is_union);
        }
    }
    return store_result(keys, argument[1], &combination.result, ret);
}

static bool do_zinterstore(struct redis_keys *keys,
                           const struct bytes *argument, uint32_t count,
                           struct value *ret)
{
    return combine(keys, argument, count, false, ret);
}

static bool do_zunionstore(struct redis_keys *keys,
                           const struct bytes *argument, uint32_t count,
                           struct value *ret)
{
    return combine(keys, argument, count, true, ret);
}

/* --- Questions ------------------------------------------------------------ */

static bool do_zcard(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    return find_zset(keys, argument[1], &view, ret) &&
           answer_number(ret, view->members.count);
}

static bool do_zcount(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    uint32_t from, to;
    (void)count;
    return find_zset(keys, argument[1], &view, ret) &&
           range_by_score(keys, view, argument[2], argument[3], &from, &to,
                          ret) &&
           answer_number(ret, to - from);
}

static bool do_zscore(struct redis_keys *keys, const struct bytes *argument,
                      uint32_t count, struct value *ret)
{
    struct redis_view *view;
    (void)count;
    if (!find_zset(keys, argument[1], &view, ret)) {
        return false;
    }
    uint32_t place = collection_find(&view->members, argument[2]);
    *ret = place < view->members.count
               ? value_of_score(keys, view->members.member[place].score)
               : value_of_bool(false);
    return true;
}

/* ZRANK key member, ZREVRANK. */
static bool rank(struct redis_keys *keys, const struct bytes *argument,
                 bool is_reverse, struct value *ret)
{
    struct redis_view *view;
    if (!find_zset(keys, argument[1], &view, ret)) {
        return false;
    }
    uint32_t size = view->members.count;
    uint32_t place = collection_find(&view->members, argument[2]);
    if (place == size) {
        return answer_nil(ret);
    }
    return answer_number(ret, is_reverse ? size - 1 - place : place);
}

static bool do_zrank(struct redis_keys *keys, const struct bytes *argument,
                     uint32_t count, struct value *ret)
{
    (void)count;
    return rank(keys, argument, false, ret);
}

static bool do_zrevrank(struct redis_keys *keys, const struct bytes *argument,
                        uint32_t count, struct value *ret)
{
    (void)count;
    return rank(keys, argument, true, ret);
}

const struct key_command key_zset_commands[] = {
    {"ZADD", 4, UINT32_MAX, do_zadd},
    {"ZINCRBY", 4, 4, do_zincrby},
    {"ZREM", 3, UINT32_MAX, do_zrem},
    {"ZREMRANGEBYSCORE", 4, 4, do_zremrangebyscore},
    {"ZREMRANGEBYRANK", 4, 4, do_zremrangebyrank},
    {"ZPOPMIN", 2, 3, do_zpopmin},
    {"ZPOPMAX", 2, 3, do_zpopmax},
    {"ZRANGE", 4, 10, do_zrange},
    {"ZREVRANGE", 4, 5, do_zrevrange},
    {"ZRANGEBYSCORE", 4, 8, do_zrangebyscore},
    {"ZREVRANGEBYSCORE", 4, 8, do_zrevrangebyscore},
    {"ZINTERSTORE", 4, UINT32_MAX, do_zinterstore},
    {"ZUNIONSTORE", 4, UINT32_MAX, do_zunionstore},
    {"ZCARD", 2, 2, do_zcard},
    {"ZCOUNT", 4, 4, do_zcount},
    {"ZSCORE", 3, 3, do_zscore},
    {"ZRANK", 3, 3, do_zrank},
    {"ZREVRANK", 3, 3, do_zrevrank},
    {.name = NULL},
};
