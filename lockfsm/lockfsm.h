/* SPDX-License-Identifier: MIT */

/* The replicated state machine: (state, index, command) -> (state, effects).
 *
 * Pure and deterministic: no clock, no random, no I/O; every node that applies
 * the same entries has the same state. It measures no time: TTLs, delays and
 * limits are stored values, and an entry reports that one has run out.
 *
 * The state lives in memory (lockfsm/model.h). Applying marks what it changed;
 * lockfsm_flush() writes the marked records and the applied index into one
 * transaction of the table. Flushing every so many entries instead of after
 * each costs nothing in safety (the log holds the rest and is applied again)
 * and saves writing what was created and removed in between.
 *
 * Effects report what an entry did: the result for its proposer, grants to
 * waiters, ends of sessions, events. Every node gets the same effects and acts
 * on those for its own connections and, on the leader, for its timers. A
 * refusal (held, limit, deadlock) is a result, not an error: applying cannot
 * fail, except that a damaged command (HASP_ECORRUPT) stops the node, and so
 * does one that this version does not know (HASP_ETOOOLD, lockfsm/feature.h),
 * since continuing would make the nodes differ.
 *
 * lockfsm/README.md defines the terms and the operations. Threads: one. */

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
/* The addresses of a member: "peer,client". */
#define REPLACED_AT_SIZE_MAX 255
/* Earlier removed data directories of a member, 8 bytes each. */
#define REMOVED_BEFORE_SIZE_MAX 256
#define LABEL_COUNT_MAX 16
#define TESTIMONY_COUNT_MAX 100 /* Sessions that one DIED can end. */
#define REDIS_MESSAGES_MAX 16
#define MULTI_COUNT_MAX 64
/* The most holders that one PLEASE notifies. */
#define PLEASE_COUNT_MAX 1000
/* The most holds that one BREAK checks. */
#define BREAK_LOOK_MAX 1000
/* The most results of a session that are kept without being acknowledged (as
 * many as a connection can have in flight), and ranges of numbers. */
#define ANSWERED_COUNT_MAX 1024
#define SPENT_RANGE_MAX 64
/* The most waiting requests of one owner, including repetitions at one place.
 */
#define WAITING_COUNT_MAX 64
#define ENDED_COUNT_MAX 64
/* The rows of the map of cells (lockfsm/cells.h). */
#define CELL_COUNT_MAX 64
#define CELL_PREFIX_SIZE_MAX 128
#define CELL_ENDPOINTS_SIZE_MAX 255
#define FORMER_ID_MAX 8 /* Ids of earlier epochs that the state keeps. */
#define FORMER_IDS_SIZE ((size_t)FORMER_ID_MAX * CLUSTER_ID_SIZE)
#define TOKEN_MAX ((UINT64_C(1) << 53) - 1)
/* A cluster's first token_base is at least this. Smaller numbers are never
 * tokens; a fence admits them as plain numbers. */
#define TOKEN_BASE_MIN (UINT64_C(1) << 40)
/* The gap from the old epoch's tokens, and from those derived from the date, to
 * a new epoch's. */
#define LIFE_TOKEN_GAP (UINT64_C(1) << 40)
/* The longest TTL that a client can request, unless LIMIT_TTL_MAX is lower. */
#define TTL_ASKED_MS_MAX 3600000
/* The longest lease: 1.25 h + 5 ms, for a Redis value of an hour. */
#define SESSION_TTL_MS_MAX 4500005
/* Longest WAIT, DELAY, HOLD, FOR: 34 years. In nanoseconds it fits 64 bits. */
#define TIME_MS_MAX (UINT64_C(1) << 40)
/* The most by which one entry moves the log's clock. */
#define CLOCK_STEP_MS_MAX 1000
/* The most edges that deadlock detection examines; then it queues the request
 * (an undetected deadlock still ends by WAIT or lease). */
#define DEADLOCK_STEP_MAX 10000

/* Results are stored with these values: append only. */
enum result_code {
    RESULT_OK,           /* token, count or text depend on the command. */
    RESULT_QUEUED,       /* No answer yet: the request waits. */
    RESULT_NOT_ACQUIRED, /* nil: not free, and not (or no longer) waiting. */
    RESULT_NOT_HELD,
    RESULT_NO_SESSION,    /* Unknown, or below token_base. */
    RESULT_EXPIRED,       /* It has ended. */
    RESULT_BLACKLISTED,   /* text: the reason. */
    RESULT_DEADLOCK,      /* text: the cycle. */
    RESULT_LIMIT,         /* text: which. */
    RESULT_BAD_ARGUMENT,  /* text: what. */
    RESULT_LEVEL,         /* text: what the cluster's feature level forbids. */
    RESULT_FORGOTTEN,     /* text: why the result of that number is gone. */
    RESULT_NO_AUTH,       /* text: why that user has no rights. */
    RESULT_NO_PERMISSION, /* text: the missing right. */
    RESULT_QUARANTINED, /* Not waiting, while nothing is granted: try later. */
    RESULT_QUOTA,       /* text: which quota of the entry's user. */
    RESULT_FOREIGN      /* text: which cell has the name. */
};

/* Meaning of 'token' and 'count' with RESULT_OK:
 *
 *   OPEN                    token: the session's id
 *   ACQUIRE, CONVERT        token, and tokens: one per name
 *   RELEASE                 count: holds left; of several names: released
 *   CLOSE, EXPIRE           count: holds released; sessions ended
 *   RELEASEIF, BLACKLIST_REMOVE, ends of times   count: 1 or 0
 *   CANCEL                  count: 1 or 0; 0 with a token: too late
 *   PLEASE                  count: holders notified, at most PLEASE_COUNT_MAX
 *   BREAK                   count: holds that will be taken
 *   OBJECT                  count: 1; 0: there was no break
 *   FENCE_ADMIT             count: 1 or 0; token: the highest admitted
 *   FENCE_REMOVE            count: 1 or 0
 *   USER_SET, ROLE_SET      token: 'changed' of the user, of the role
 *   SECRET_ADD              token: its number
 *   CELLS                   count: the map's epoch
 *   USER_REMOVE, SECRET_REMOVE, ROLE_REMOVE   count: 1 or 0
 *   REDIS                   count: 1, or 0: a key has changed; token:
 *                           the id of the session that it opened, or 0 */
struct result {
    enum result_code code;
    uint64_t token;
    uint64_t count;
    const uint64_t *tokens; /* Borrowed, as 'text'. */
    uint32_t token_count;
    struct bytes text; /* Borrowed until the effects are cleared. */
};

enum effect_type {
    /* The answer of the applied entry itself; the first effect of each entry.
     * With RESULT_QUEUED: wait_index is set. */
    EFFECT_RESULT,
    /* The answer of an earlier entry that was queued: asked_index. Once per
     * request, even if it waited for several locks. With session, owner and
     * wait_index. */
    EFFECT_WAIT_RESULT,
    EFFECT_SESSION_OPENED, /* session; time_ms: its TTL; 0: it is durable. */
    /* Later entries may remove what it still has (SWEEP). */
    EFFECT_SESSION_ENDED,  /* reason: "closed", "expired", "blacklisted",
                              "died", "deleted" (Redis), "released" (Redis). */
    EFFECT_SESSION_MARKED, /* time_ms: the quiet time. */
    EFFECT_SESSION_HEARD,  /* Its mark was removed. */
    /* time_ms: the TTL. reason: "renewed" (Redis: heard from now; 0: durable
     * from now on), "blacklisted" (text: why), "pardoned". */
    EFFECT_SESSION_CHANGED,
    /* Events of a lock, for WATCH: */
    EFFECT_GRANTED,      /* reason: NULL, "upgraded", "downgraded". wait_index
                            if it had waited. text: the lock's note, if reason
                            is NULL. Not for a re-entry. */
    EFFECT_QUEUED,       /* time_ms: WAIT. count: 1 if it was repeated and kept
                            its place; asked_index is the newest. */
    EFFECT_RELEASED,     /* reason: "released", "closed", "releaseif",
                            "deleted" (Redis). */
    EFFECT_HOLD_EXPIRED, /* An unclean end: reason "expired", "blacklisted",
                            "died", "max hold", "broken". */
    EFFECT_WAIT_ENDED,   /* reason: "timeout", "cancelled", "session",
                            "blacklisted", "withdrawn" (the right was),
                            "released" (an upgrade whose hold has ended),
                            "deadlock" (a request for several that counted on
                            a hold which has ended), "re-entered" (such a
                            request was granted: the hold's count grew). */
    /* The search could not decide within DEADLOCK_STEP_MAX whether this wait
     * (wait_index) closes a cycle: it is queued, and a deadlock would end by
     * WAIT or a lease. */
    EFFECT_SEARCH_GIVEN_UP,
    EFFECT_DELAYED, /* time_ms; wait_index: since_index (this entry). */
    EFFECT_DELAY_OVER,
    EFFECT_BREAKING,    /* Once per hold: taken in time_ms. text: the reason. */
    EFFECT_OBJECTED,    /* The holder acted: the break was dropped. text: the
                           message. */
    EFFECT_PLEASE,      /* Once per hold. text: the message. */
    EFFECT_BLACKLISTED, /* Once per addition: session or 0, text: the reason,
                           time_ms: FOR; since_index is this entry. */
    EFFECT_SWEPT,       /* A SWEEP. */
    EFFECT_BEGUN,       /* A leader's BEGIN: count is the node. */
    EFFECT_TIME, /* A TIME or BEGIN; time_ms: by how much it moved the clock. */
    EFFECT_ACCESS_CHANGED, /* Users, secrets, roles, access, revoked
                              certificates. */
    EFFECT_LIMIT_SET,      /* count: enum limit_key; token: its value now. */
    EFFECT_MESSAGE         /* PUBLISH by a script of the user 'count'; lock: the
                              channel; text. */
};

/* Names and owners are copied into the effects' arena: an effect remains
 * readable after its subject was freed. */
struct effect {
    enum effect_type type;
    uint64_t log_index;   /* The entry being applied. */
    struct result result; /* EFFECT_RESULT, EFFECT_WAIT_RESULT. */
    uint64_t asked_index; /* WAIT_RESULT: the entry whose client waits. */
    uint64_t session;
    struct bytes lock;
    struct bytes owner;
    uint64_t token; /* Token of a hold; a result has its own. */
    uint64_t wait_index;
    uint64_t granted_index; /* RELEASED, HOLD_EXPIRED: index of its grant. */
    uint64_t time_ms;       /* WAIT, DELAY, HOLD: a leader starts this timer. */
    uint64_t hold_ms;       /* GRANTED: max hold. */
    uint64_t count;
    const char *reason; /* Static text or NULL. */
    struct bytes text;
    const struct bytes *names; /* WAIT_RESULT of a grant: the locks. */
    uint32_t name_count;
    uint8_t trace[TRACE_SIZE]; /* Of the hold or wait; all zero: none. */
};

/* A growing array of effects with an arena for their bytes. Zeroed memory is an
 * empty array. Applying appends; the caller clears it after it has acted on
 * them. */
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

/* Sets the highest feature level of entries that this node understands:
 * FEATURE_LEVEL unless a test sets another. It is not part of the state. */
void lockfsm_set_node_level(struct lockfsm *fsm, uint32_t level);

/* Sets how many holds, waits and results of ending sessions one entry removes
 * at most, and how many grants it makes: about a millisecond's work. SWEEP does
 * the rest. The state depends on this number, so it must be the same on all
 * nodes: SLICE_DEFAULT unless a test sets another. */
#define SLICE_DEFAULT 400
void lockfsm_set_slice(struct lockfsm *fsm, uint32_t slice);

/* The cost of the newest entry in steps: places, waits, sessions and effects
 * that it has examined, created or removed, and cache lines of text that it has
 * copied. Edges of a search for deadlocks have their own bound
 * (DEADLOCK_STEP_MAX). It is not part of the state, and nothing depends on it.
 */
uint64_t lockfsm_steps(const struct lockfsm *fsm);
/* The bound on that cost. */
uint64_t lockfsm_step_max(const struct lockfsm *fsm);

/* Loads the state from a table (at start, and after a snapshot was decoded into
 * it); the contents of 'fsm' are dropped. HASP_ECORRUPT with a message,
 * HASP_ETOOOLD if its feature level is above this node's. */
MUST_CHECK int lockfsm_load(struct lockfsm *fsm, struct table *table,
                            char why[HASP_WHY_SIZE]);

/* Applies the entry 'log_index': the applied index plus one, or more if entries
 * without a command are between. */
MUST_CHECK int lockfsm_apply(struct lockfsm *fsm, uint64_t log_index,
                             uint64_t term, struct bytes command,
                             struct effects *effects);
/* An entry without a command (barrier): only the applied index moves. */
void lockfsm_skip(struct lockfsm *fsm, uint64_t log_index, uint64_t term);
/* Applies an entry that sets the members; the removal of others is remembered
 * (lockfsm_removal()). */
struct lockfsm_member {
    uint64_t node;
    uint64_t incarnation; /* Of its data directory; not 0. */
};
void lockfsm_change(struct lockfsm *fsm, uint64_t log_index, uint64_t term,
                    const struct lockfsm_member *members, uint32_t count);

/* Writes all that changed since the last flush in one transaction. Errors are
 * fatal, except HASP_EFULL: the table is full, nothing was written, and the
 * call can be repeated after table_grow(). */
MUST_CHECK int lockfsm_flush(struct lockfsm *fsm, struct table *table);
/* How many records the next flush would write. */
uint32_t lockfsm_dirty_count(const struct lockfsm *fsm);

/* Turns a restored state into the start of a new epoch of the cluster (rule
 * 21): sessions, holds, waits, results and members are dropped, and the cluster
 * id becomes that of an earlier epoch. The next BEGIN brings a new id and
 * raises token_base above all tokens of the old epoch. Limits stay. Nothing is
 * granted before QUARANTINE_OVER, 'quarantine_ms' after that BEGIN, because
 * clients of the old epoch may still trust their leases. */
void lockfsm_new_life(struct lockfsm *fsm, uint64_t quarantine_ms);

/* --- Reading -------------------------------------------------------------- */

uint64_t lockfsm_applied_index(const struct lockfsm *fsm);
uint64_t lockfsm_applied_term(const struct lockfsm *fsm);
uint64_t lockfsm_flushed_index(const struct lockfsm *fsm);
uint64_t lockfsm_token_base(const struct lockfsm *fsm);
/* All zero before the first BEGIN, which brings it and token_base. */
void lockfsm_cluster_id(const struct lockfsm *fsm,
                        uint8_t ret_id[CLUSTER_ID_SIZE]);
/* The id of an earlier epoch from which this one was restored: 0 is the newest;
 * false if no further one is known. */
bool lockfsm_former_id(const struct lockfsm *fsm, uint32_t at,
                       uint8_t ret_id[CLUSTER_ID_SIZE]);
/* The data directory of member 'node'; 0 if it is not a member. */
uint64_t lockfsm_incarnation(const struct lockfsm *fsm, uint64_t node);
/* How 'node' was removed last, even if it is a member again; false if it was
 * not removed, or if it is older than the newest REMOVED_COUNT_MAX removed
 * nodes that are not members. */
#define REMOVED_COUNT_MAX 64
struct removal {
    uint64_t incarnation; /* The directory that was removed. */
    uint64_t log_index;
    uint64_t wall_ms; /* For people; 0: unknown (yet). */
    struct bytes by;  /* Borrowed; may be empty. */
};
bool lockfsm_removal(const struct lockfsm *fsm, uint64_t node,
                     struct removal *ret_removal);
/* True if this directory of 'node' was removed, last or earlier. */
bool lockfsm_was_removed(const struct lockfsm *fsm, uint64_t node,
                         uint64_t incarnation);
/* The addresses of a voter whose directory is being replaced, even if it is not
 * a member at present; empty: it is not. Borrowed. */
struct bytes lockfsm_replaced_at(const struct lockfsm *fsm, uint64_t node);
/* The new directory, which was empty when that was logged; 0: it is not being
 * replaced. */
uint64_t lockfsm_replaced_by(const struct lockfsm *fsm, uint64_t node);
/* The next node after 'node' whose directory is being replaced; 0: none. */
uint64_t lockfsm_next_replaced(const struct lockfsm *fsm, uint64_t node);
/* The cluster's level, at least FEATURE_LEVEL_FIRST. */
uint32_t lockfsm_feature_level(const struct lockfsm *fsm);
/* False before the first BEGIN, which brings the limits: they have their
 * defaults. */
bool lockfsm_has_limits(const struct lockfsm *fsm);
uint64_t lockfsm_limit(const struct lockfsm *fsm, enum limit_key key);
/* The use of a limit; for limits of each session or lock, the highest use.
 * O(1). */
uint64_t lockfsm_limit_use(const struct lockfsm *fsm, enum limit_key key);
/* Of all locks. */
uint64_t lockfsm_hold_count(const struct lockfsm *fsm);
uint64_t lockfsm_wait_count(const struct lockfsm *fsm);
/* Index of the entry that queued the oldest wait; 0: there is none. */
uint64_t lockfsm_oldest_wait(const struct lockfsm *fsm);
/* All waits by age, the oldest first. Nodes: wait.in_state. */
const struct list *lockfsm_waits(const struct lockfsm *fsm);
/* The longest lease that exists or can be requested, in milliseconds. Walks all
 * sessions. */
uint64_t lockfsm_lease_max(const struct lockfsm *fsm);
/* After a restore nothing is granted until QUARANTINE_OVER of the entry that is
 * returned here, which is due '*ret_ms' after that entry. 0: no quarantine.
 * 'ret_ms' may be NULL. */
uint64_t lockfsm_quarantine(const struct lockfsm *fsm, uint64_t *ret_ms);
/* The log's clock after that entry. */
uint64_t lockfsm_quarantine_clock(const struct lockfsm *fsm);
/* The log's clock, in milliseconds since the cluster was founded, without times
 * that no leader measured; and the newest TIME or BEGIN, the only possible base
 * of the next (0: none yet). */
uint64_t lockfsm_clock(const struct lockfsm *fsm);
uint64_t lockfsm_clock_index(const struct lockfsm *fsm);
/* The newest answer to TIME in a Redis script on which an entry depends; 0:
 * none. */
uint64_t lockfsm_redis_time(const struct lockfsm *fsm);
/* The mark of a session whose client has not been heard since: quiet for
 * 'quiet_ms' when the log's clock was 'clock_ms'. Durable sessions have none.
 */
struct quiet {
    uint64_t quiet_ms;
    uint64_t clock_ms;
};
bool lockfsm_mark(const struct lockfsm *fsm, const struct session *session,
                  struct quiet *ret_quiet);
/* NULL if it has ended or never existed. */
const struct session *lockfsm_session(const struct lockfsm *fsm, uint64_t id);
/* False if the rights of the session have changed, and SWEEP has yet to end the
 * waits that it may no longer have. */
bool lockfsm_is_rechecked(const struct lockfsm *fsm,
                          const struct session *session);
/* True if there is work for a SWEEP, with '*ret_places' places. */
bool lockfsm_has_left_over(const struct lockfsm *fsm, uint32_t *ret_places);
/* True if a session is granted nothing and its heartbeats do not count: its
 * lease runs out, on the client's side first (rule 17). It is blacklisted, its
 * user is disabled, or it is anonymous while access is required. */
bool session_is_refused(const struct lockfsm *fsm,
                        const struct session *session);
/* True if the session has a death word, so that DIED can end it. */
bool session_has_will(const struct session *session);
/* The entry of the blacklist that matches the session, even before SWEEP has
 * visited it, or NULL. */
const struct blacklisting *lockfsm_listed(const struct lockfsm *fsm,
                                          const struct session *session);
const struct lock *lockfsm_lock(const struct lockfsm *fsm, struct bytes name);
/* The state of a Redis key for this user: another user's value is REDIS_OTHER.
 * '*ret_hold' is the hold of REDIS_VALUE, otherwise NULL. */
enum redis_state lockfsm_redis(const struct lockfsm *fsm,
                               const struct user *user, struct bytes name,
                               const struct hold **ret_hold);
const struct fence *lockfsm_fence(const struct lockfsm *fsm,
                                  struct bytes resource);
uint32_t lockfsm_fence_count(const struct lockfsm *fsm);
/* All structures by name (and id): fence.in_order, lock.in_order,
 * session.in_order, and for one user session.in_user. For reading only; a
 * reader sorts new ones in, which changes nothing else. */
struct treap *lockfsm_fence_order(struct lockfsm *fsm);
struct treap *lockfsm_lock_order(struct lockfsm *fsm);
struct treap *lockfsm_session_order(struct lockfsm *fsm);
struct treap *lockfsm_session_order_of(struct lockfsm *fsm, uint64_t user);
/* The holds of a session, by lock name and serial: hold.in_order. NULL if the
 * session does not exist. */
struct treap *lockfsm_hold_order(struct lockfsm *fsm, uint64_t session);
/* The token of a grant by the newest entry. No token granted so far is higher.
 */
uint64_t lockfsm_newest_token(const struct lockfsm *fsm);
/* True if the hold has this token, or had it before an upgrade. */
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
/* The stored result of request 'req' of a session, for a repetition that need
 * not be logged; false if there is none. */
bool lockfsm_kept_result(const struct lockfsm *fsm, uint64_t session,
                         uint64_t req, struct result *ret_result);
/* True if an entry used or acknowledged that number. */
bool lockfsm_was_asked(const struct lockfsm *fsm, uint64_t session,
                       uint64_t req);

/* The digest of the whole logical state (not of memory): equal on nodes with
 * equal applied index, and equal to lockfsm_hash(). The cost is proportional to
 * the changes since the last call or flush. */
uint64_t lockfsm_digest(struct lockfsm *fsm);
/* Checks the next 'count' records, or as many as are left of this round: in
 * memory and in the table, are they as they were written? Returns NULL, or a
 * static text that names the damage; then this process must stop. Changes since
 * the last flush are not checked. Adds the number of checked records to
 * '*looked_at'. */
const char *lockfsm_scrub(struct lockfsm *fsm, struct table *table,
                          uint32_t count, uint64_t *looked_at);
/* The number of records in a round. */
uint64_t lockfsm_settled_count(const struct lockfsm *fsm);

/* A hash of the whole logical state (not of memory): equal on nodes with equal
 * applied index. Walks the whole state; for tests. */
uint64_t lockfsm_hash(const struct lockfsm *fsm);

/* --- Invariants (lockfsm/invariants.c) ------------------------------------ */

/* Checks what holds for any state: at most one exclusive hold; no hold or wait
 * without its session; a queue implies that its head cannot be granted; indexes
 * agree both ways; counts are right; token_base below every token. Returns NULL
 * or a static text that names the error. */
const char *lockfsm_check_basic(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_LOCKFSM_H */
