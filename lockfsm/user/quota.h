/* SPDX-License-Identifier: MIT */

/* Quotas: each user's share of what the limits (lockfsm/limits.h) bound for
 * all, so that no user exhausts them for others. The bounds are part of the
 * user's record; the use is counted as entries are applied.
 *
 *     sessions     opened by the user and not ended
 *     holds        including waits, since each can become a hold
 *     waits        places in queues
 *     bytes        RECORD_SIZE (lockfsm/limits.h) and the text of each record
 *                  of the user's sessions (holds and waits with the lock's
 *                  name, numbers, results), of each fence to which it was the
 *                  first to admit a token, of each note that it has left, of
 *                  each lock that is closed since a hold of the user ended
 *     connections  to each node separately; not part of the state
 *     watches      at each node separately, including streams of events (HTTP);
 *                  not part of the state
 *
 * Only new uses that would pass a bound are refused. Existing uses stay, and
 * commands that only give back are never refused. Built-in users have no
 * bounds. */

#ifndef HASP_LOCKFSM_USER_QUOTA_H
#define HASP_LOCKFSM_USER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Stored, and written into entries: append only. */
enum quota_key {
    QUOTA_SESSIONS,
    QUOTA_HOLDS,
    QUOTA_WAITS,
    QUOTA_BYTES,
    QUOTA_CONNECTIONS,
    QUOTA_WATCHES,
    QUOTA_COUNT
};

/* The number of quotas that nodes count, from QUOTA_CONNECTIONS on. */
#define LOCAL_QUOTA_COUNT (QUOTA_COUNT - QUOTA_CONNECTIONS)

/* A number for each key: a bound, a use, or an intended use. */
struct quota {
    uint64_t of[QUOTA_COUNT];
};

struct quota_rule {
    const char *name; /* "sessions", as in USER.SHOW. */
    const char *word; /* "SESSIONS", as in USER.SET. */
    uint64_t max;     /* The greatest bound. */
    uint64_t standard;
};

extern const struct quota_rule quota_rules[QUOTA_COUNT];
extern const struct quota quota_standard;

struct user;
/* The bound of a user; UINT64_MAX, none, if the user is built in. */
uint64_t user_bound(const struct user *user, enum quota_key key);
/* True if each node counts its own use; the state has only the bound. */
static inline bool quota_is_local(enum quota_key key)
{
    return key >= QUOTA_CONNECTIONS;
}

/* The use of a user. Holds include waits; 0 for local quotas. */
uint64_t user_use(const struct user *user, enum quota_key key);
/* True, with the refusal and its remedy appended to 'out', if 'more' would pass
 * the user's bound. */
bool quota_refuses(const struct user *user, enum quota_key key, uint64_t use,
                   uint64_t more, struct buffer *out);

#endif /* HASP_LOCKFSM_USER_QUOTA_H */
