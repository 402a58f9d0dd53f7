/* SPDX-License-Identifier: MIT */

/* What the connections of this node watch, and who of them an event hits.
 *
 * A pattern that many connections watch is kept, and matched, once: prefixes
 * are found by one way down a tree, channels by name, and only globs are tried
 * one after the other. What that costs is counted in steps, of which a turn has
 * MATCH_STEPS_MAX: beyond, connections are closed that have cost most, until
 * half of it is left again. So no pattern, and no number of them, keeps a node
 * from its work.
 *
 * Bounds: a channel or glob has at most WATCH_SIZE_MAX bytes; a connection
 * WATCH_COUNT_MAX prefixes and channels and GLOB_COUNT_MAX globs; a node
 * WATCH_COUNT_NODE_MAX of all. Of those a user has his quota `watches`, and all
 * that are nobody's from one address WATCH_COUNT_ORIGIN_MAX. */

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

/* What is watched, once for all who do. */
struct pattern {
    UT_hash_handle by_key;
    struct list in_core; /* Of a glob: watches.globs. */
    struct list watches;
    uint64_t turn;       /* Of the steps. */
    uint64_t steps;      /* That it has cost in that turn. */
    uint64_t event;      /* The newest that it was tried for. */
    uint64_t bound;      /* Of a glob: what one try may cost. */
    uint32_t open_count; /* Of those who watch it: not being closed. */
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
    bool is_closed; /* It was too costly, and the connection is closed. */
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
    struct buffer message; /* The one at hand, as JSON. */
    struct buffer refusal; /* See watch_add(). */
};

/* Of which locks a watch may tell: of that name, or of all that begin so.
 * False: of none. '*ret_name' is borrowed from 'text'. */
bool watch_tells(enum watch_kind kind, struct bytes text,
                 enum extent *ret_extent, struct bytes *ret_name);

void watches_init(struct core *core);
/* NULL, or the limit that is reached, until the next call. The same again is
 * fine. */
const char *watch_add(struct core *core, struct conn *conn,
                      enum watch_kind kind, struct bytes text);
struct watch *watch_find(struct core *core, struct conn *conn,
                         enum watch_kind kind, struct bytes text);
void watch_drop(struct core *core, struct watch *watch);
/* All that the connection watches. */
void watches_remove(struct core *core, struct conn *conn);

typedef void watch_hit_fn(struct core *core, const struct watch *watch,
                          void *data);
/* Calls 'hit' for each watch that a lock's name hits: prefixes first, the
 * longer ones later, then the channel, then globs. */
void watches_hit(struct core *core, struct bytes lock, watch_hit_fn *hit,
                 void *data);
/* Likewise for each watch of a channel's name; it is no lock's. */
void watches_hit_channel(struct core *core, struct bytes channel,
                         watch_hit_fn *hit, void *data);
/* The end of a turn. */
void watches_turn(struct core *core);

/* What is watched, without the kind; borrowed. */
struct bytes watch_text(const struct watch *watch);

#endif /* HASP_CORE_EVENTS_WATCHES_H */
