/* SPDX-License-Identifier: MIT */

/* Matching patterns, what that costs, and which connection is closed for it. */

#include "core/events/watches.h"

#include <stdlib.h>

#include "base/account.h"
#include "base/address.h"
#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/state.h"

/* The cost of a message for one watcher; a step is one compared byte of a
 * glob. */
#define HIT_STEPS 32

void watches_init(struct core *core)
{
    list_init(&core->watches.globs);
}

static struct bytes watches_text_of(const struct pattern *pattern)
{
    return bytes_of(pattern->key + 1, pattern->size - 1);
}

/* Puts the kind before the text, so that one table holds all kinds. */
static size_t watches_put_key(uint8_t key[1 + WATCH_SIZE_MAX],
                              enum watch_kind kind, struct bytes text)
{
    CHECK(text.size <= WATCH_SIZE_MAX);
    key[0] = (uint8_t)kind;
    if (text.size > 0) {
        memcpy(key + 1, text.data, text.size);
    }
    return 1 + text.size;
}

static struct pattern *find_pattern(struct core *core, enum watch_kind kind,
                                    struct bytes text)
{
    uint8_t key[1 + WATCH_SIZE_MAX];
    struct pattern *pattern = NULL;
    if (core->watches.patterns == NULL || text.size > WATCH_SIZE_MAX) {
        return NULL;
    }
    size_t size = watches_put_key(key, kind, text);
    HASH_FIND(by_key, core->watches.patterns, key, size, pattern);
    return pattern;
}

/* An upper bound of the steps: the part before the first '*' is compared once,
 * the rest again for each byte of the name. */
static uint64_t bound_of(struct bytes glob)
{
    const uint8_t *star = glob.size > 0 ? memchr(glob.data, '*', glob.size)
                                        : NULL;
    size_t first = star != NULL ? (size_t)(star - glob.data) : glob.size;
    return first + (glob.size - first) * WATCH_SIZE_MAX;
}

static struct pattern *new_pattern(struct core *core, enum watch_kind kind,
                                   struct bytes text)
{
    uint8_t key[1 + WATCH_SIZE_MAX];
    size_t size = watches_put_key(key, kind, text);
    struct pattern *pattern = memory_new(sizeof *pattern + size);
    pattern->kind = kind;
    pattern->size = size;
    memcpy(pattern->key, key, size);
    pattern->bound = bound_of(text);
    list_init(&pattern->in_core);
    list_init(&pattern->watches);
    HASH_ADD(by_key, core->watches.patterns, key, size, pattern);
    if (kind == WATCH_PREFIX) {
        radix_tree_add(&core->watches.prefixes, watches_text_of(pattern),
                       pattern);
    }
    return pattern;
}

/* Lists the pattern as a glob to be tried; it leaves the list when it is found
 * there without a watcher. */
static void list_glob(struct core *core, struct pattern *pattern)
{
    CHECK(pattern->open_count > 0 && pattern->kind == WATCH_PATTERN);
    if (list_is_empty(&pattern->in_core)) {
        list_push_back(&core->watches.globs, &pattern->in_core);
    }
}

static struct watch_payer *watch_payer_of(struct core *core,
                                          const struct conn *conn)
{
    char origin[ADDRESS_SIZE];
    struct watch_payer *payer = NULL;
    address_origin(conn->address, origin);
    uint64_t key = conn->user != USER_ANYONE ? account_key_of_user(conn->user)
                                             : account_key_of_origin(origin);
    HASH_FIND(by_key, core->watches.payers, &key, sizeof key, payer);
    if (payer == NULL) {
        payer = memory_new(sizeof *payer);
        payer->key = key;
        HASH_ADD(by_key, core->watches.payers, key, sizeof payer->key, payer);
    }
    return payer;
}

/* Frees it if it has no watches. */
static void watch_payer_free(struct core *core, struct watch_payer *payer)
{
    if (payer->count == 0) {
        HASH_DELETE(by_key, core->watches.payers, payer);
        free(payer);
    }
}

/* True, with the refusal in watches.refusal, if the connection's user, or its
 * address if it has none, may have no more than these 'count' watches. */
static bool watches_are_over(struct core *core, const struct conn *conn,
                             uint32_t count)
{
    struct buffer *why = &core->watches.refusal;
    const struct user *user = lockfsm_user(core->fsm, conn->user);
    bool is_over = false;
    buffer_clear(why);
    if (conn->user > USER_LOCAL && user != NULL) {
        is_over = quota_refuses(user, QUOTA_WATCHES, count, 1, why);
    } else if (conn->user == USER_ANYONE && count >= WATCH_COUNT_ORIGIN_MAX) {
        is_over = true;
        buffer_printf(why,
                      "watches of clients without a user from one address: %u "
                      "of %u are in use at this node; end some, or use AUTH",
                      (unsigned)count, (unsigned)WATCH_COUNT_ORIGIN_MAX);
    }
    buffer_put_u8(why, '\0');
    return is_over;
}

/* NULL, or the limit of the connection or the node that one watch more would
 * exceed. */
static const char *watch_limit(const struct core *core, const struct conn *conn,
                               bool is_glob)
{
    if (is_glob && conn->glob_count >= GLOB_COUNT_MAX) {
        return "patterns of a connection";
    }
    if (!is_glob && conn->watch_count - conn->glob_count >= WATCH_COUNT_MAX) {
        return "watches of a connection";
    }
    return HASH_CNT(by_owner, core->watches.by_owner) >= WATCH_COUNT_NODE_MAX
               ? "watches of this node"
               : NULL;
}

enum core_word watch_add(struct core *core, struct conn *conn,
                         enum watch_kind kind, struct bytes text,
                         const char **ret_why)
{
    bool is_glob = kind == WATCH_PATTERN;
    CHECK(text.size <= WATCH_SIZE_MAX);
    if (watch_find(core, conn, kind, text) != NULL) {
        return WORD_NONE;
    }
    *ret_why = watch_limit(core, conn, is_glob);
    if (*ret_why != NULL) {
        return WORD_LIMIT;
    }
    struct watch_payer *payer = conn->watch_payer != NULL
                                    ? conn->watch_payer
                                    : watch_payer_of(core, conn);
    if (watches_are_over(core, conn, payer->count)) {
        watch_payer_free(core, payer);
        *ret_why = (const char *)core->watches.refusal.data;
        return conn->user == USER_ANYONE ? WORD_LIMIT : WORD_QUOTA;
    }
    payer->count++;
    conn->watch_payer = payer;
    struct pattern *pattern = find_pattern(core, kind, text);
    if (pattern == NULL) {
        pattern = new_pattern(core, kind, text);
    }
    struct watch *watch = memory_new(sizeof *watch);
    watch->of.conn = conn;
    watch->of.pattern = pattern;
    /* A glob without watchers may have left the list of those that are
     * tried. */
    if (pattern->open_count++ == 0 && is_glob) {
        list_glob(core, pattern);
    }
    HASH_ADD(by_owner, core->watches.by_owner, of, sizeof watch->of, watch);
    list_push_back(&pattern->watches, &watch->in_pattern);
    list_push_back(&conn->watches, &watch->in_conn);
    conn->watch_count++;
    conn->glob_count += is_glob;
    conn->channel_count += kind != WATCH_PREFIX;
    return WORD_NONE;
}

struct watch *watch_find(struct core *core, struct conn *conn,
                         enum watch_kind kind, struct bytes text)
{
    struct watch *watch = NULL;
    struct watch_of of = {.conn = conn,
                          .pattern = find_pattern(core, kind, text)};
    if (of.pattern != NULL) {
        HASH_FIND(by_owner, core->watches.by_owner, &of, sizeof of, watch);
    }
    return watch;
}

static void free_pattern(struct core *core, struct pattern *pattern)
{
    CHECK(list_is_empty(&pattern->watches));
    if (pattern->kind == WATCH_PREFIX) {
        radix_tree_remove(&core->watches.prefixes, watches_text_of(pattern));
    }
    HASH_DELETE(by_key, core->watches.patterns, pattern);
    list_remove(&pattern->in_core);
    free(pattern);
}

void watch_drop(struct core *core, struct watch *watch)
{
    struct conn *conn = watch->of.conn;
    struct pattern *pattern = watch->of.pattern;
    CHECK(conn->watch_count > 0);
    CHECK(watch->is_closed || pattern->open_count > 0);
    conn->watch_count--;
    conn->watch_payer->count--;
    watch_payer_free(core, conn->watch_payer);
    /* The payer has been freed if this was its last watch. */
    conn->watch_payer = conn->watch_count > 0 ? conn->watch_payer : NULL;
    conn->glob_count -= pattern->kind == WATCH_PATTERN;
    conn->channel_count -= pattern->kind != WATCH_PREFIX;
    HASH_DELETE(by_owner, core->watches.by_owner, watch);
    list_remove(&watch->in_conn);
    list_remove(&watch->in_pattern);
    if (!watch->is_closed) {
        pattern->open_count--;
    }
    free(watch);
    if (list_is_empty(&pattern->watches)) {
        free_pattern(core, pattern);
    }
}

void watches_remove(struct core *core, struct conn *conn)
{
    LIST_FOR_SAFE (struct watch, watch, &conn->watches, in_conn) {
        watch_drop(core, watch);
    }
    CHECK(conn->watch_count == 0 && conn->channel_count == 0);
}

struct bytes watch_text(const struct watch *watch)
{
    return watches_text_of(watch->of.pattern);
}

static uint64_t steps_of(const struct core *core, const struct pattern *pattern)
{
    return pattern->turn == core->watches.turn ? pattern->steps : 0;
}

static void watches_spend(struct core *core, struct pattern *pattern,
                          uint64_t steps)
{
    pattern->steps = steps_of(core, pattern) + steps;
    pattern->turn = core->watches.turn;
    core->watches.steps += steps;
}

static void hit_all(struct core *core, struct pattern *pattern,
                    watch_hit_fn *hit, void *data)
{
    uint64_t count = 0;
    LIST_FOR (struct watch, watch, &pattern->watches, in_pattern) {
        hit(core, watch, data);
        count++;
    }
    watches_spend(core, pattern, HIT_STEPS * count);
}

struct cost {
    struct conn *conn;
    uint64_t steps;
};

static int by_cost(const void *a, const void *b)
{
    const struct cost *left = a, *right = b;
    return u64_order(right->steps, left->steps);
}

/* The cost of a pattern in this turn; with 'is_trying', also what it can still
 * cost for the current event: otherwise one costly pattern after the other
 * would be tried before it is removed. */
static uint64_t weight_of(const struct core *core,
                          const struct pattern *pattern, bool is_trying)
{
    bool is_due = is_trying && pattern->kind == WATCH_PATTERN &&
                  pattern->event != core->watches.event;
    return steps_of(core, pattern) + (is_due ? pattern->bound : 0);
}

static uint64_t watches_cost_of(const struct core *core,
                                const struct conn *conn, bool is_trying)
{
    uint64_t steps = 0;
    LIST_FOR (struct watch, watch, &conn->watches, in_conn) {
        steps += weight_of(core, watch->of.pattern, is_trying);
    }
    return steps;
}

/* Ends the connection; its own patterns are then no longer tried. Returns their
 * weight. */
static uint64_t close_watcher(struct core *core, struct conn *conn,
                              bool is_trying)
{
    uint64_t weight = 0;
    CHECK(!conn->is_closing && conn->watch_count > 0);
    struct buffer *out = core->port.client_output(core->port.data, conn->id);
    if (out != NULL) {
        struct resp_writer writer = {out, conn->version};
        word_put(&writer, WORD_LIMIT, CORE_TOO_COSTLY);
    }
    conn->is_closing = true;
    core->port.client_close(core->port.data, conn->id, CORE_TOO_COSTLY);
    LIST_FOR (struct watch, watch, &conn->watches, in_conn) {
        struct pattern *pattern = watch->of.pattern;
        /* The watch stays linked until the connection is gone, because a caller
         * can be walking the list of patterns. */
        watch->is_closed = true;
        if (--pattern->open_count == 0) {
            weight += weight_of(core, pattern, is_trying);
            CHECK(core->watches.steps >= steps_of(core, pattern));
            core->watches.steps -= steps_of(core, pattern);
            pattern->steps = 0;
        }
    }
    return weight;
}

static void close_costliest(struct core *core, bool is_trying)
{
    struct cost *cost = memory_new(core->conns.count * sizeof *cost);
    uint32_t count = 0, closed = 0;
    uint64_t weight = core->watches.steps;
    HASH_FOR (struct conn, conn, core->conns.by_id, by_id) {
        if (!conn->is_closing && conn->watch_count > 0) {
            cost[count++] = (struct cost){
                conn, watches_cost_of(core, conn, is_trying)};
        }
    }
    LIST_FOR (const struct pattern, glob, &core->watches.globs, in_core) {
        weight += glob->open_count == 0
                      ? 0
                      : weight_of(core, glob, is_trying) - steps_of(core, glob);
    }
    qsort(cost, count, sizeof *cost, by_cost);
    /* Down to half, so that the next few events do not close connections
     * again. */
    while (closed < count && weight > MATCH_STEPS_MAX / 2) {
        weight -= close_watcher(core, cost[closed++].conn, is_trying);
    }
    free(cost);
    LOG_WARN("watchers closed", "count=%u reason=\"" CORE_TOO_COSTLY "\"",
             closed);
}

static void hit_prefixes(struct core *core, struct bytes lock,
                         watch_hit_fn *hit, void *data)
{
    struct radix_tree_walk walk = radix_tree_begin(&core->watches.prefixes,
                                                   lock);
    struct pattern *pattern;
    while ((pattern = radix_tree_next(&walk)) != NULL) {
        if (pattern->open_count > 0) {
            hit_all(core, pattern, hit, data);
        }
    }
    if (core->watches.steps > MATCH_STEPS_MAX) {
        close_costliest(core, false);
    }
}

static void hit_globs(struct core *core, struct bytes name, watch_hit_fn *hit,
                      void *data)
{
    LIST_FOR_SAFE (struct pattern, glob, &core->watches.globs, in_core) {
        uint64_t steps = 0;
        /* close_costliest() leaves closed patterns in the list, because it can
         * run while this loop walks it; they leave it here. */
        if (glob->open_count == 0) {
            list_remove(&glob->in_core);
            continue;
        }
        bool is_match = bytes_match_counted(watches_text_of(glob), name,
                                            &steps);
        glob->event = core->watches.event;
        watches_spend(core, glob, steps);
        if (is_match) {
            hit_all(core, glob, hit, data);
        }
        if (core->watches.steps > MATCH_STEPS_MAX) {
            close_costliest(core, true);
        }
    }
}

/* Notifies the watchers of a channel with that name, or of a matching glob. */
static void hit_named(struct core *core, struct bytes name, watch_hit_fn *hit,
                      void *data)
{
    struct pattern *exact = find_pattern(core, WATCH_CHANNEL, name);
    if (exact != NULL) {
        hit_all(core, exact, hit, data);
    }
    hit_globs(core, name, hit, data);
}

void watches_hit(struct core *core, struct bytes lock, watch_hit_fn *hit,
                 void *data)
{
    uint8_t channel[WATCH_SIZE_MAX];
    size_t prefix_size = sizeof CHANNEL_PREFIX - 1;
    core->watches.event++;
    if (core->watches.by_owner == NULL || lock.size > LOCK_NAME_SIZE_MAX) {
        return;
    }
    hit_prefixes(core, lock, hit, data);
    memcpy(channel, CHANNEL_PREFIX, prefix_size);
    memcpy(channel + prefix_size, lock.data, lock.size);
    hit_named(core, bytes_of(channel, prefix_size + lock.size), hit, data);
}

void watches_hit_channel(struct core *core, struct bytes channel,
                         watch_hit_fn *hit, void *data)
{
    core->watches.event++;
    if (core->watches.by_owner != NULL) {
        hit_named(core, channel, hit, data);
    }
}

void watches_turn(struct core *core)
{
    core->watches.turn++;
    core->watches.steps = 0;
}

bool watch_tells(enum watch_kind kind, struct bytes text,
                 enum extent *ret_extent, struct bytes *ret_name)
{
    struct bytes channel = BYTES_LITERAL(CHANNEL_PREFIX);
    struct bytes fixed = kind == WATCH_CHANNEL ? text : bytes_fixed(text);
    *ret_extent = kind == WATCH_CHANNEL ? EXTENT_NAME : EXTENT_PREFIX;
    if (kind == WATCH_PREFIX) {
        *ret_name = text;
        return true;
    }
    *ret_name = (struct bytes){NULL, 0};
    if (fixed.size < channel.size) {
        return kind == WATCH_PATTERN && bytes_has_prefix(channel, fixed);
    }
    *ret_name = bytes_of(fixed.data + channel.size, fixed.size - channel.size);
    return bytes_has_prefix(fixed, channel);
}
