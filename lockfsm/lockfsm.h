/* SPDX-License-Identifier: MIT */

/* The replicated state machine: (state, index, command) -> (state, effects).
 *
 * Pure and deterministic: no clock, no random, no I/O; every node that applies
 * the same entries has the same state. It knows no time: TTLs, delays and
 * limits are stored values, and that one has run out is told by an entry.
 *
 * The state lives in memory (lockfsm/model.h). Applying marks what it changed;
 * lockfsm_flush() writes the marked records and the applied index into one
 * transaction of the table. Flushing every so many entries instead of after
 * each costs nothing in safety (the log holds the rest and is applied again)
 * and spares the table all that came and went in between.
 *
 * Effects tell the node what an entry did: the result for whoever proposed it,
 * grants to waiters, ends of sessions, events. Every node gets the same effects
 * and acts on those that concern its own connections and, on the leader, its
 * timers. A refusal (held, limit, deadlock) is a result, not an error: applying
 * cannot fail, except that a damaged command (HASP_ECORRUPT) stops the node,
 * and so does one that this version does not know (HASP_ETOOOLD,
 * lockfsm/feature.h), since going on would make the nodes differ.
 *
 * What each word and each operation means: lockfsm/README.md.
 * Threads: one. */

#ifndef HASP_LOCKFSM_LOCKFSM_H
#define HASP_LOCKFSM_LOCKFSM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"
#include "lockfsm/limits.h"
#include "lockfsm/model.h"
#include "storage/table.h"

/* Sizes that are part of the format. */
#define LOCK_NAME_SIZE_MAX 511
#define OWNER_SIZE_MAX 128
#define LABEL_SIZE_MAX 128
#define VALUE_SIZE_MAX 4096
#define CLIENT_NAME_SIZE_MAX 128
#define LABEL_COUNT_MAX 16
#define REDIS_MESSAGES_MAX 16
#define MULTI_COUNT_MAX 64
/* How many holders one PLEASE tells. */
#define PLEASE_COUNT_MAX 1000
/* How many holds one BREAK looks at. */
#define BREAK_LOOK_MAX 1000
/* How many results of a session are kept without being acknowledged, the newest
 * ones (as many as a connection may have in flight), and ranges of numbers. */
#define ANSWERED_COUNT_MAX 1024
#define SPENT_RANGE_MAX 64
/* Requests of one owner that wait, some of them at one place. */
#define WAITING_COUNT_MAX 64
#define ENDED_COUNT_MAX 64
#define FORMER_ID_MAX 8 /* Ids of former lives that the state keeps. */
#define FORMER_IDS_SIZE ((size_t)FORMER_ID_MAX * CLUSTER_ID_SIZE)
#define TOKEN_MAX ((UINT64_C(1) << 53) - 1)
/* A cluster's first token_base is at least this: smaller numbers are nobody's
 * tokens, and a fence admits them as what they are. */
#define TOKEN_BASE_MIN (UINT64_C(1) << 40)
/* A new life's tokens lie so far above the old one's, and above the date's. */
#define LIFE_TOKEN_GAP (UINT64_C(1) << 40)
/* What a client may ask for at most, where LIMIT_TTL_MAX says no less. */
#define TTL_ASKED_MS_MAX 3600000
/* No lease is longer: 1.25 h + 5 ms, that of a Redis value of an hour. */
#define SESSION_TTL_MS_MAX 4500005
/* Longest WAIT, DELAY, HOLD, FOR: 34 years. In nanoseconds it fits 64 bits. */
#define TIME_MS_MAX (UINT64_C(1) << 40)
/* One entry moves the log's clock by so much at most. */
#define CLOCK_STEP_MS_MAX 1000
/* Deadlock detection looks at this many edges at most, then grants the place
 * (an undetected deadlock still ends by WAIT or lease). */
#define DEADLOCK_STEP_MAX 10000

/* Kept results are stored with these values: append only. */
enum result_code {
    RESULT_OK,           /* token, count or text as the command says. */
    RESULT_QUEUED,       /* No answer yet: a wait stands in the queue. */
    RESULT_NOT_ACQUIRED, /* nil: not free, and not (or no longer) waiting. */
    RESULT_NOT_HELD,
    RESULT_NO_SESSION,    /* Unknown, or below token_base. */
    RESULT_EXPIRED,       /* It has ended. */
    RESULT_BLACKLISTED,   /* text: the reason. */
    RESULT_DEADLOCK,      /* text: the cycle. */
    RESULT_LIMIT,         /* text: which. */
    RESULT_BAD_ARGUMENT,  /* text: what. */
    RESULT_LEVEL,         /* text: what the cluster's feature level forbids. */
    RESULT_FORGOTTEN,     /* text: why nothing is known of that number. */
    RESULT_NO_AUTH,       /* text: why that user may do nothing. */
    RESULT_NO_PERMISSION, /* text: what he may not do. */
    RESULT_QUARANTINED /* Not waiting, while nothing is granted: try later. */
};

/* What 'token' and 'count' mean with RESULT_OK:
 *
 *   OPEN                    token: the session's id
 *   ACQUIRE, CONVERT        token, and tokens: one per name
 *   RELEASE                 count: holds left; of several names: released
 *   CLOSE, EXPIRE           count: holds released; sessions ended
 *   RELEASEIF, BLACKLIST_REMOVE, times that are over   count: 1 or 0
 *   CANCEL                  count: 1 or 0; 0 with a token: it came too late
 *   PLEASE                  count: holders told, PLEASE_COUNT_MAX at most
 *   BREAK                   count: holds that will be taken
 *   OBJECT                  count: 1; 0: no break stood
 *   FENCE_ADMIT             count: 1 or 0; token: the highest admitted
 *   FENCE_REMOVE            count: 1 or 0
 *   USER_SET, ROLE_SET      token: 'changed' of the user, of the role
 *   SECRET_ADD              token: its number
 *   USER_REMOVE, SECRET_REMOVE, ROLE_REMOVE   count: 1 or 0
 *   REDIS                   count: 1, or 0: a key is not what it was; token:
 *                           the id of the session that it opened, or 0 */
struct result {
    enum result_code code;
    uint64_t token;
    uint64_t count;
    const uint64_t *tokens; /* Borrowed as 'text'. */
    uint32_t token_count;
    struct bytes text; /* Borrowed until the effects are cleared. */
};

enum effect_type {
    /* The answer of the applied entry itself; the first effect of each entry.
     * With RESULT_QUEUED: wait_index is the place. */
    EFFECT_RESULT,
    /* The answer of an earlier entry that had queued: asked_index. Once per
     * request, also if it waited for several locks. With session, owner and
     * wait_index. */
    EFFECT_WAIT_RESULT,
    EFFECT_SESSION_OPENED, /* session; time_ms: its TTL; 0: it is durable. */
    /* What it still has may end with later entries (SWEEP). */
    EFFECT_SESSION_ENDED,  /* reason: "closed", "expired", "blacklisted",
                              "deleted" (Redis), "released" (Redis). */
    EFFECT_SESSION_MARKED, /* time_ms: quiet for so long. */
    EFFECT_SESSION_HEARD,  /* Its mark is gone. */
    /* time_ms: the TTL. reason: "renewed" (Redis: heard from now; 0: durable
     * from now on), "blacklisted" (text: why), "pardoned". */
    EFFECT_SESSION_CHANGED,
    /* Events of a lock, for WATCH: */
    EFFECT_GRANTED,      /* reason: NULL, "upgraded", "downgraded". wait_index
                            if it had waited. text: the lock's note, if reason
                            is NULL. Not told of a re-entry. */
    EFFECT_QUEUED,       /* time_ms: WAIT. count: 1 if it was asked again and
                            kept its place; asked_index is the newest. */
    EFFECT_RELEASED,     /* reason: "released", "closed", "releaseif",
                            "deleted" (Redis). */
    EFFECT_HOLD_EXPIRED, /* An unclean end: reason "expired", "blacklisted",
                            "max hold", "broken". */
    EFFECT_WAIT_ENDED,   /* reason: "timeout", "cancelled", "session",
                            "blacklisted", "withdrawn" (the right to it),
                            "released" (an upgrade whose hold has gone),
                            "deadlock" (a request for several that counted on
                            a hold that has gone), "re-entered" (the same, and
                            it was granted: the hold counts once more). */
    /* Whether this wait (wait_index) closes a circle was not found out within
     * DEADLOCK_STEP_MAX: it stands, and if so WAIT or a lease ends it. */
    EFFECT_SEARCH_GIVEN_UP,
    EFFECT_DELAYED, /* time_ms; wait_index: since_index (this entry). */
    EFFECT_DELAY_OVER,
    EFFECT_BREAKING,    /* Once per hold: taken in time_ms. text: the reason. */
    EFFECT_OBJECTED,    /* Its holder is there: it is not. text: the message. */
    EFFECT_PLEASE,      /* Once per hold. text: the message. */
    EFFECT_BLACKLISTED, /* Once per addition: session or 0, text: the reason,
                           time_ms: FOR; since_index is this entry. */
    EFFECT_SWEPT,       /* A SWEEP. */
    EFFECT_BEGUN,       /* A leader's BEGIN: count is the node. */
    EFFECT_TIME,        /* A TIME or BEGIN; time_ms: moved the clock so far. */
    EFFECT_ACCESS_CHANGED, /* Users, secrets, roles, access, certificates that
                              are refused. */
    EFFECT_LIMIT_SET,      /* count: enum limit_key; token: its value now. */
    EFFECT_MESSAGE         /* PUBLISH by a script of the user 'count'; lock: the
                              channel; text. */
};

/* Names and owners are copied into the effects' arena: an effect stays readable
 * after what it tells of has gone. */
struct effect {
    enum effect_type type;
    uint64_t log_index;   /* The entry being applied. */
    struct result result; /* EFFECT_RESULT, EFFECT_WAIT_RESULT. */
    uint64_t asked_index; /* WAIT_RESULT: the entry whose asker waits. */
    uint64_t session;
    struct bytes lock;
    struct bytes owner;
    uint64_t token; /* Of a hold; a result has its own. */
    uint64_t wait_index;
    uint64_t granted_index; /* RELEASED, HOLD_EXPIRED: its grant's. */
    uint64_t time_ms;       /* WAIT, DELAY, HOLD: a leader starts this timer. */
    uint64_t hold_ms;       /* GRANTED: max hold. */
    uint64_t count;
    const char *reason; /* Static text or NULL. */
    struct bytes text;
    const struct bytes *names; /* WAIT_RESULT of a grant: the locks. */
    uint32_t name_count;
};

/* A growing array of effects with an arena for their bytes. Zeroed memory is an
 * empty one; apply appends, the caller clears when it has acted on them. */
struct effects {
    struct effect *effect;
    uint32_t count;
    uint32_t capacity;
    void *arena; /* Private to lockfsm/effects.c. */
};
void effects_clear(struct effects *effects);
void effects_done(struct effects *effects);

struct lockfsm;

/* Empty, with the default limits. */
struct lockfsm *lockfsm_new(void);
void lockfsm_free(struct lockfsm *fsm);

/* Up to which feature level this node understands entries: FEATURE_LEVEL unless
 * a test says otherwise. It is no part of the state. */
void lockfsm_set_node_level(struct lockfsm *fsm, uint32_t level);

/* How many holds, waits and results of sessions that end, and how many grants,
 * one entry takes away or makes at most: about a millisecond's work. What is
 * left over is for SWEEP. It decides what the states are, so it has to be the
 * same on all nodes: SLICE_DEFAULT unless a test says otherwise. */
#define SLICE_DEFAULT 400
void lockfsm_set_slice(struct lockfsm *fsm, uint32_t slice);

/* What the newest entry has cost, in steps: the places, waits, sessions and
 * effects that it has looked at, made or taken away, and cache lines of text
 * that it has copied; the edges of a search for deadlocks have a bound of their
 * own (DEADLOCK_STEP_MAX). Part of no state: nothing follows from it. */
uint64_t lockfsm_steps(const struct lockfsm *fsm);
/* No entry costs more. */
uint64_t lockfsm_step_max(const struct lockfsm *fsm);

/* Loads the state from a table (at start, and after a snapshot was decoded into
 * it); what was in 'fsm' is dropped. HASP_ECORRUPT with a message, HASP_ETOOOLD
 * if its feature level is above this node's. */
MUST_CHECK int lockfsm_load(struct lockfsm *fsm, struct table *table,
                            char why[HASP_WHY_SIZE]);

/* Applies the entry 'log_index' (the applied index plus one, or above it where
 * entries without a command lie between). */
MUST_CHECK int lockfsm_apply(struct lockfsm *fsm, uint64_t log_index,
                             uint64_t term, struct bytes command,
                             struct effects *effects);
/* An entry without a command (barrier): only the applied index moves. */
void lockfsm_skip(struct lockfsm *fsm, uint64_t log_index, uint64_t term);
/* An entry that makes these the members; of those that it does not name a trace
 * is kept, lockfsm_removal(). */
struct lockfsm_member {
    uint64_t node;
    uint64_t incarnation; /* Of its data directory; not 0. */
};
void lockfsm_change(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                    const struct lockfsm_member *members, uint32_t count);

/* Writes all that changed since the last flush in one transaction. Errors are
 * fatal, but HASP_EFULL: the table has no room, nothing was written, and after
 * table_grow() it may be done again. */
MUST_CHECK int lockfsm_flush(struct lockfsm *fsm, struct table *table);
/* How many records the next flush would write. */
uint32_t lockfsm_dirty_count(const struct lockfsm *fsm);

/* Makes of a restored state the beginning of a new life of the cluster (rule
 * 21): sessions, holds, waits, results and members are dropped and the cluster
 * id becomes that of a former life. The next BEGIN brings a new id and raises
 * token_base above all tokens of the old life; limits stay; nothing is granted
 * before QUARANTINE_OVER, 'quarantine_ms' after that BEGIN: as long as clients
 * of the old life may trust their leases. */
void lockfsm_new_life(struct lockfsm *fsm, uint64_t quarantine_ms);

/* --- Reading -------------------------------------------------------------- */

uint64_t lockfsm_applied_index(const struct lockfsm *fsm);
uint64_t lockfsm_applied_term(const struct lockfsm *fsm);
uint64_t lockfsm_flushed_index(const struct lockfsm *fsm);
uint64_t lockfsm_token_base(const struct lockfsm *fsm);
/* All zero before the first BEGIN, which brings it and token_base. */
void lockfsm_cluster_id(const struct lockfsm *fsm,
                        uint8_t ret_id[CLUSTER_ID_SIZE]);
/* The id of a former life, of which this one was restored: 0 is the newest;
 * false if no more are known. */
bool lockfsm_former_id(const struct lockfsm *fsm, uint32_t at,
                       uint8_t ret_id[CLUSTER_ID_SIZE]);
/* The data directory of member 'node'; 0 if it is not a member. */
uint64_t lockfsm_incarnation(const struct lockfsm *fsm, uint64_t node);
/* How 'node' was removed last, be it a member again or not; false if it was
 * not, or longer ago than the newest REMOVED_COUNT_MAX of those that are not.
 */
#define REMOVED_COUNT_MAX 64
struct removal {
    uint64_t incarnation; /* The directory that was removed. */
    uint64_t log_index;
    uint64_t wall_ms; /* For people; 0: not known (yet). */
    struct bytes by;  /* Borrowed; may be empty. */
};
bool lockfsm_removal(const struct lockfsm *fsm, uint64_t node,
                     struct removal *ret_removal);
/* The cluster's, from FEATURE_LEVEL_FIRST on. */
uint32_t lockfsm_feature_level(const struct lockfsm *fsm);
/* Before the first BEGIN, which brings them, the limits are the default. */
bool lockfsm_has_limits(const struct lockfsm *fsm);
uint64_t lockfsm_limit(const struct lockfsm *fsm, enum limit_key key);
/* How much of it is used; of what is counted for each session or lock, by that
 * which has most. O(1). */
uint64_t lockfsm_limit_use(const struct lockfsm *fsm, enum limit_key key);
/* Of all locks. */
uint64_t lockfsm_hold_count(const struct lockfsm *fsm);
uint64_t lockfsm_wait_count(const struct lockfsm *fsm);
/* The index of the entry that began the oldest wait; 0: nobody waits. */
uint64_t lockfsm_oldest_wait(const struct lockfsm *fsm);
/* All waits by age, the oldest first. Nodes: wait.in_state. */
const struct list *lockfsm_waits(const struct lockfsm *fsm);
/* The longest lease that there is, or that may be asked for, in milliseconds.
 * Costs a walk over the sessions. */
uint64_t lockfsm_lease_max(const struct lockfsm *fsm);
/* After a restore nothing is granted until QUARANTINE_OVER of the entry that is
 * returned here, which is due '*ret_ms' after that entry. 0: no quarantine.
 * 'ret_ms' may be NULL. */
uint64_t lockfsm_quarantine(const struct lockfsm *fsm, uint64_t *ret_ms);
/* The log's clock after that entry. */
uint64_t lockfsm_quarantine_clock(const struct lockfsm *fsm);
/* The log's clock, in milliseconds since the cluster began, less all that
 * nobody measured; and the newest TIME or BEGIN, which alone can be the base of
 * the next (0: none yet). */
uint64_t lockfsm_clock(const struct lockfsm *fsm);
uint64_t lockfsm_clock_index(const struct lockfsm *fsm);
/* The newest time that a script of Redis was told and that an entry rests on;
 * 0: none was. */
uint64_t lockfsm_redis_time(const struct lockfsm *fsm);
/* The mark that stands for a session (of a durable one none does), if its
 * client has not been heard since it was made: quiet for 'quiet_ms' when the
 * log's clock showed 'clock_ms'. */
struct quiet {
    uint64_t quiet_ms;
    uint64_t clock_ms;
};
bool lockfsm_mark(const struct lockfsm *fsm, const struct session *session,
                  struct quiet *ret_quiet);
/* NULL: there is none, or it has ended. */
const struct session *lockfsm_session(const struct lockfsm *fsm, uint64_t id);
/* True if there is something for a SWEEP to do, with as many places as
 * '*ret_places' says. */
bool lockfsm_has_left_over(const struct lockfsm *fsm, uint32_t *ret_places);
/* True if a session gets nothing more, and no heartbeat of it counts: its lease
 * runs out, on the client's side first (rule 17). It is blacklisted, or its
 * user is disabled, or nobody while access is required. */
bool session_is_refused(const struct lockfsm *fsm,
                        const struct session *session);
/* The entry of the blacklist that hits it, whether SWEEP has come to it or not,
 * or NULL. */
const struct blacklisting *lockfsm_listed(const struct lockfsm *fsm,
                                          const struct session *session);
const struct lock *lockfsm_lock(const struct lockfsm *fsm, struct bytes name);
/* What a key of Redis is to this user: another's value is REDIS_OTHER.
 * '*ret_hold' is the hold of REDIS_VALUE, else NULL. */
enum redis_state lockfsm_redis(const struct lockfsm *fsm,
                               const struct user *user, struct bytes name,
                               const struct hold **ret_hold);
const struct fence *lockfsm_fence(const struct lockfsm *fsm,
                                  struct bytes resource);
uint32_t lockfsm_fence_count(const struct lockfsm *fsm);
/* What there is, by name (and id): fence.in_order, lock.in_order,
 * session.in_order, and of one user session.in_user. For reading only; that
 * a reader sorts in what is new changes nothing else. */
struct treap *lockfsm_fence_order(struct lockfsm *fsm);
struct treap *lockfsm_lock_order(struct lockfsm *fsm);
struct treap *lockfsm_session_order(struct lockfsm *fsm);
struct treap *lockfsm_session_order_of(struct lockfsm *fsm, uint64_t user);
/* The holds of a session, by lock name and serial: hold.in_order. NULL: there
 * is no such session. */
struct treap *lockfsm_hold_order(struct lockfsm *fsm, uint64_t session);
/* The token that a hold granted by the newest entry would have: all that were
 * granted so far have none above it. */
uint64_t lockfsm_newest_token(const struct lockfsm *fsm);
/* True if the token is, or was before an upgrade, that of the hold. */
bool hold_is(const struct hold *hold, uint64_t token);
/* Heads for iteration with HASH_ITER (no order) and LIST_EACH. */
const struct session *lockfsm_sessions(const struct lockfsm *fsm);
const struct lock *lockfsm_locks(const struct lockfsm *fsm);
const struct list *lockfsm_blacklist(const struct lockfsm *fsm);
/* The hold of (session, owner) at a lock, or NULL. O(1). */
const struct hold *lockfsm_hold(const struct lockfsm *fsm,
                                const struct lock *lock, uint64_t session,
                                struct bytes owner);
/* The blacklist's entry of this since_index, or NULL. */
const struct blacklisting *lockfsm_blacklisting(const struct lockfsm *fsm,
                                                uint64_t since_index);
/* The result kept for request 'req' of a session, for a repetition that need
 * not be logged; false if there is none. */
bool lockfsm_kept_result(const struct lockfsm *fsm, uint64_t session,
                         uint64_t req, struct result *ret_result);
/* True if an entry had that number, or acknowledged it. */
bool lockfsm_was_asked(const struct lockfsm *fsm, uint64_t session,
                       uint64_t req);

/* The digest of the whole logical state (not of memory): equal on nodes with
 * equal applied index, and equal to lockfsm_hash(). Costs what has changed
 * since the last call or flush. */
uint64_t lockfsm_digest(struct lockfsm *fsm);
/* Looks at the next 'count' records, or as many as are left of this round:
 * whether they are what they were when they were written, in memory and in the
 * table. NULL, or a static text that says what is damaged: then this process
 * must not go on. What changed since the last flush is not looked at. Adds to
 * '*looked_at' how many records it was. */
const char *lockfsm_scrub(struct lockfsm *fsm, struct table *table,
                          uint32_t count, uint64_t *looked_at);
/* The records of one round. */
uint64_t lockfsm_settled_count(const struct lockfsm *fsm);

/* A hash of the whole logical state (not of memory): equal on nodes with equal
 * applied index. Costs a walk over everything; for tests. */
uint64_t lockfsm_hash(const struct lockfsm *fsm);

/* --- Invariants (lockfsm/invariants.c) ------------------------------------ */

/* True of any state: at most one exclusive hold; no hold or wait without its
 * session; a queue implies that its head cannot be granted; indexes agree both
 * ways; counts are right; token_base below every token. Returns NULL or a
 * static text that says what is wrong. */
const char *lockfsm_check_basic(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_LOCKFSM_H */
