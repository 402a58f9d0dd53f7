/* SPDX-License-Identifier: MIT */

/* The watches of this node's connections, and which of them an event concerns.
 *
 * A pattern that many connections watch is stored and matched once. Prefixes
 * are found by one descent of a tree, channels by name; only globs are tried
 * one by one. The cost is counted in steps, of which a turn has
 * MATCH_STEPS_MAX: beyond that, the connections that have cost most are closed
 * until half of the steps are free again. So no pattern, and no number of them,
 * keeps a node from its work.
 *
 * Bounds: a channel or glob has at most WATCH_SIZE_MAX bytes; a connection
 * WATCH_COUNT_MAX prefixes and channels and GLOB_COUNT_MAX globs; a node
 * WATCH_COUNT_NODE_MAX in total. A user has the quota `watches` of those, and
 * all unauthenticated clients of one address have WATCH_COUNT_ORIGIN_MAX. */

#ifndef HASP_CORE_EVENTS_WATCHES_H
#define HASP_CORE_EVENTS_WATCHES_H

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/radix_tree.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"

struct conn;
struct core;

#define CHANNEL_PREFIX "lock:"
#define WATCH_SIZE_MAX (sizeof CHANNEL_PREFIX - 1 + LOCK_NAME_SIZE_MAX)
#define WATCH_COUNT_MAX 1024
#define GLOB_COUNT_MAX 64
#define WATCH_COUNT_NODE_MAX 100000
#define WATCH_COUNT_ORIGIN_MAX (WATCH_COUNT_NODE_MAX / 8)
/* A few milliseconds. */
#define MATCH_STEPS_MAX 2000000

enum watch_kind { WATCH_PREFIX, WATCH_CHANNEL, WATCH_PATTERN };

/* A watched pattern, shared by all its watchers. */
struct pattern {
    UT_hash_handle by_key;
    struct list in_core; /* A glob's place in watches.globs. */
    struct list watches;
    uint64_t turn;       /* The turn of 'steps'. */
    uint64_t steps;      /* Steps that it has cost in that turn. */
    uint64_t event;      /* The newest event for which it was tried. */
    uint64_t bound;      /* A glob's cost of one try, at most. */
    uint32_t open_count; /* Its watchers that are not being closed. */
    enum watch_kind kind;
    size_t size;
    uint8_t key[]; /* The kind, then the text. */
};

/* What one user, or one address without a user, watches at this node. */
struct watch_payer {
    UT_hash_handle by_key;
    uint64_t key; /* See base/account.h. */
    uint32_t count;
};

struct watch {
    UT_hash_handle by_owner;
    struct list in_conn;
    struct list in_pattern;
    struct watch_of {
        struct conn *conn;
        struct pattern *pattern;
    } of;
    bool is_closed; /* It cost too much; its connection is closed. */
};

/* Lives as long as the core. */
struct watches {
    struct watch *by_owner;
    struct watch_payer *payers;
    struct pattern *patterns;
    struct radix_tree prefixes; /* Items: struct pattern. */
    struct list globs;
    uint64_t turn;         /* The number of this turn, ... */
    uint64_t steps;        /* ... and what matching has cost in it. */
    uint64_t event;        /* The newest one's number. */
    struct buffer message; /* The current one, as JSON. */
    struct buffer refusal; /* See watch_add(). */
};

/* Which locks a watch concerns: the one of that name, or all with that prefix.
 * False: none. '*ret_name' is borrowed from 'text'. */
bool watch_tells(enum watch_kind kind, struct bytes text,
                 enum extent *ret_extent, struct bytes *ret_name);

void watches_init(struct core *core);
/* WORD_NONE, or WORD_LIMIT or WORD_QUOTA with the limit that is reached, valid
 * until the next call. Adding the same watch again succeeds. */
MUST_CHECK enum core_word watch_add(struct core *core, struct conn *conn,
                                    enum watch_kind kind, struct bytes text,
                                    const char **ret_why);
struct watch *watch_find(struct core *core, struct conn *conn,
                         enum watch_kind kind, struct bytes text);
void watch_drop(struct core *core, struct watch *watch);
/* Removes everything that the connection watches. */
void watches_remove(struct core *core, struct conn *conn);

typedef void watch_hit_fn(struct core *core, const struct watch *watch,
                          void *data);
/* Calls 'hit' for each watch that matches a lock's name: prefixes first,
 * shorter ones before longer ones, then the channel, then globs. */
void watches_hit(struct core *core, struct bytes lock, watch_hit_fn *hit,
                 void *data);
/* The same for each watch of a channel's name that is not a lock's. */
void watches_hit_channel(struct core *core, struct bytes channel,
                         watch_hit_fn *hit, void *data);
/* The end of a turn. */
void watches_turn(struct core *core);

/* The watched text, without the kind; borrowed. */
struct bytes watch_text(const struct watch *watch);

#endif /* HASP_CORE_EVENTS_WATCHES_H */
