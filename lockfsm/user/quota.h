/* SPDX-License-Identifier: MIT */

/* Quotas: what one user may have of what the limits (lockfsm/limits.h) bound
 * for all, so that nobody uses up what others need. The bounds are part of the
 * user's record; what he uses is counted as entries are applied.
 *
 *     sessions     those that he has opened, and that have not ended
 *     holds        with the waits: each may become one
 *     waits        places in queues
 *     bytes        RECORD_SIZE (lockfsm/limits.h) and the text of each record
 *                  of his sessions (their holds and waits with the lock's name,
 *                  numbers, results), of each fence that he was the first to
 *                  admit a token to, of each note that he has left, of each
 *                  lock that is closed since his hold ended
 *     connections  to each node by itself; not part of the state
 *     watches      at each node by itself, streams of events (HTTP) among
 *                  them; not part of the state
 *
 * What is new is refused where it would pass a bound, and nothing else: what
 * there is stays, what only gives back is never refused. The users that are
 * built in have no bounds. */

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

/* Those behind QUOTA_CONNECTIONS, and itself. */
#define LOCAL_QUOTA_COUNT (QUOTA_COUNT - QUOTA_CONNECTIONS)

/* A number of each: a bound, a use, or what is to come. */
struct quota {
    uint64_t of[QUOTA_COUNT];
};

struct quota_rule {
    const char *name;  /* "sessions", as in USER.SHOW. */
    const char *word;  /* "SESSIONS", as in USER.SET. */
    uint64_t max;      /* No bound may be above it. */
    uint64_t standard; /* Where nothing is said. */
};

extern const struct quota_rule quota_rules[QUOTA_COUNT];
extern const struct quota quota_standard;

struct user;
/* Of a user that is built in, UINT64_MAX: none. */
uint64_t user_bound(const struct user *user, enum quota_key key);
/* Nodes count it, each for itself; the state has only its bound. */
static inline bool quota_is_local(enum quota_key key)
{
    return key >= QUOTA_CONNECTIONS;
}

/* Holds with the waits. Of a local quota, 0. */
uint64_t user_use(const struct user *user, enum quota_key key);
/* True, with the refusal and what helps appended to 'out', if so many more
 * would pass the bound of what he uses. */
bool quota_refuses(const struct user *user, enum quota_key key, uint64_t use,
                   uint64_t more, struct buffer *out);

#endif /* HASP_LOCKFSM_USER_QUOTA_H */
