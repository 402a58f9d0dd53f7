/* SPDX-License-Identifier: MIT */

/* The state itself, private to lockfsm/. The operations on its parts are in the
 * headers of their folders: lock/lock.h, session/session.h, user/user.h and
 * store/store.h; each includes this one.
 *
 * The order in which an entry is applied:
 *
 *     lockfsm.c          decodes the entry and finds its function in the table
 *     dedup.c            returns the stored result of a repeated request
 *     access.c           checks the rights of the entry's user
 *     cells.c            checks that its names are this cluster's
 *     audit.c            records administrative acts
 *     acquire.c convert.c release.c session_lifecycle.c blacklist.c redis.c
 *     cluster.c clock.c fences.c limits.c quota.c users.c revocations.c
 *     breaks.c sweep.c   one function per command: checks, then changes
 *     finish_entry.c     grants what became free, at the end of the entry
 *     grant.c deadlock.c blacklist_match.c
 *                        decide: can it be granted, is there a cycle, is the
 *                        session blacklisted
 *     locks.c sessions.c holds.c claims.c waits.c waiters.c request_ids.c
 *     result_cache.c holder_index.c
 *                        create and free the structures, keep their indexes
 *     dirty.c            records what the next flush must write
 *
 * No file calls one above it. A command that removes a hold, a wait or a delay
 * marks the lock as touched. */

#ifndef HASP_LOCKFSM_STATE_H
#define HASP_LOCKFSM_STATE_H

#include "base/check.h"
#include "lockfsm/cells.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/store/arena.h"
#include "lockfsm/store/max_counter.h"
#include "lockfsm/store/pool.h"
#include "lockfsm/user/access.h"
#include "lockfsm/user/audit.h"
#include "lockfsm/user/trail.h"
#include "storage/table.h"

#define TOKEN_BASE_MAX (UINT64_C(1) << 52)
/* --- Private structures --------------------------------------------------- */

struct holder_index {
    struct holder_place **buckets;
    uint32_t bucket_count;
    uint32_t room; /* For buckets; a power of two. */
    uint64_t count;
};

/* A node that is or was a member. Its last removal is remembered even if it is
 * a member again: a node with the old directory may still run, and is told why
 * no member talks to it. */
struct member {
    struct list in_order; /* By node. */
    uint64_t node;
    uint64_t incarnation;         /* Of the member; 0: not a member now. */
    uint64_t removed_incarnation; /* Of the directory removed last; 0: none. */
    uint64_t removed_index;       /* The entry that removed it. */
    uint64_t removed_ms;          /* Time by a wall clock, for people; or 0. */
    struct bytes removed_by;      /* Owned; may be empty. */
    /* The addresses of a voter whose directory is being replaced, from before
     * its removal until it votes again; owned, empty: it is not. */
    struct bytes replaced_at;
    uint64_t replaced_by; /* Its new directory; 0: it is not being replaced. */
    /* Directories that were removed before the last one, 8 bytes each, the
     * newest last; owned. */
    struct bytes removed_before;
    struct stored stored;
};

/* A BEGIN marks each session without a mark as quiet for 0 at this clock. It is
 * stored here and not in each session, so that a change of leader rewrites no
 * session. When there are too many, one is dropped and its sessions count from
 * the next one, which is later and so safe. */
#define BEGIN_MARK_MAX 64
struct begin_mark {
    uint64_t log_index;
    uint64_t clock_ms;
    uint64_t since_ms; /* Clock of the first BEGIN that this one represents. */
};

/* The kinds of records in the table. */
enum record_kind {
    RECORD_SESSION,
    RECORD_LOCK,
    RECORD_HOLD,
    RECORD_WAIT,
    RECORD_FENCE,
    RECORD_BLACKLISTING,
    RECORD_RESULT,
    RECORD_NUMBERS,
    RECORD_MEMBER,
    RECORD_USER,
    RECORD_ROLE,
    RECORD_REVOCATION,
    RECORD_ACT,
    RECORD_CELL,
    RECORD_KIND_COUNT
};

/* The newest administrative acts. */
struct acts {
    struct list list; /* Nodes: act.in_order. */
    uint32_t count;
    uint64_t size; /* Their size in bytes. */
    uint64_t last; /* Number of the newest; see lockfsm_first_act(). */
    uint64_t first;
};

/* Running counts for the limits. */
struct uses {
    uint64_t waits; /* In all locks. */
    uint64_t holds;
    uint64_t spent_ranges;                /* In all numbers. */
    struct max_counter places_of_session; /* Holds and waits. */
    struct max_counter waits_of_session;
    struct max_counter waits_of_lock;
    struct max_counter owners_of_session; /* Waiters. */
};

/* The records: those that the next flush writes, those that the table already
 * has, and the sum of all known shares (lockfsm_digest()). */
struct ledger {
    struct list changed[RECORD_KIND_COUNT];
    uint32_t changed_count;
    struct list settled[RECORD_KIND_COUNT];
    uint32_t settled_count[RECORD_KIND_COUNT];
    uint64_t digest;
    enum record_kind scrub_kind; /* Position of lockfsm_scrub(); ... */
    uint32_t scrub_left;         /* ... records of this kind still to check. */
    struct buffer deleted;       /* u8 map, run key; of records in the table. */
    uint32_t deleted_count;
    uint64_t flushed_index;
};

/* Bounds on the cost of an entry (lockfsm_steps()): without places, all that
 * one message names; for each place, the effects of removing it. */
#define STEPS_PER_ENTRY 16384
#define STEPS_PER_PLACE 64
/* The most edges that all searches of an entry examine after one of them has
 * found a suspicion (deadlock.c). */
#define REDUCTION_STEP_MAX (8 * DEADLOCK_STEP_MAX)
/* A cache line. */
#define BYTES_PER_STEP 64

struct deadlock_search;
struct former_token;

/* The life of the cluster: a restore begins another one (rule 21). */
struct epoch {
    uint64_t token_base;
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint8_t former_ids[FORMER_IDS_SIZE]; /* The newest first. */
    bool is_begun;                       /* Has a cluster id. */
    bool is_new_life; /* Restored, and waits for its BEGIN. */
    uint64_t quarantine_ms;
    uint64_t quarantine_index;    /* The BEGIN from which it counts; 0: none. */
    uint64_t quarantine_clock_ms; /* The clock after that BEGIN. */
};

/* The log's clock, and the marks of the leaders that have begun. */
struct log_clock {
    uint64_t ms;                              /* Only grows. */
    uint64_t index;                           /* The newest TIME or BEGIN. */
    struct begin_mark begins[BEGIN_MARK_MAX]; /* By index. */
    uint32_t begin_count;
};

/* The work that entries have left to SWEEP. */
struct left_over {
    struct session *swept;  /* Ended sessions that left something. */
    struct list to_sweep;   /* The same, by end_serial. */
    struct list to_recheck; /* Nodes: session.in_recheck, by serial. */
    struct list cut;        /* Nodes: lock.in_cut, by cut_serial. */
};

/* The sessions that SWEEP has yet to reevaluate, after a change of what is
 * refused. */
struct relist {
    uint64_t at;    /* Those from this id on; 0: none. */
    uint64_t since; /* The first entry that changed what is refused. */
    uint64_t again; /* The same, for another round after this one; 0: none. */
};

/* Users, roles and revoked certificates. */
struct access {
    struct user anyone; /* Built in, as is the role. */
    struct user local;
    struct role admin;
    struct user *users; /* All except the built-in ones. */
    struct user *users_by_number;
    struct secret *secrets;
    struct role *roles;
    struct revocation *revocations;
    struct treap user_order; /* All but the built-in ones. */
    struct treap role_order;
    struct treap revocation_order;
};

struct member_list {
    struct list list;
    uint32_t count;         /* In 'list', ... */
    uint32_t removed_count; /* ... and former members. */
};

/* The map of cells (lockfsm/cells.h). */
struct cells {
    struct list list; /* Nodes: cell.in_order. */
    uint32_t count;
    uint64_t epoch;   /* The highest of all hand-overs that it knows. */
    bool is_doubtful; /* Restored: nothing is this cluster's until VOUCH. */
};

/* The work left to finish_entry(); none between two entries. */
struct unsettled {
    struct list touched;     /* Locks to settle; ... */
    struct list unbacked;    /* ... waits whose owner's hold has ended; ... */
    struct session *emptied; /* ... a Redis session without its hold. */
};

/* The entry being applied, or the last one. lockfsm_apply() starts it by one
 * assignment. */
struct applying {
    uint64_t log_index;
    struct effects *effects;
    struct trail trail;
    struct user *user;     /* User of the entry; NULL: the leader's own. */
    struct origin origin;  /* Zero if the command has none. */
    uint64_t queued_index; /* The wait that it queued or repeated, or 0. */
    uint64_t slice_left;   /* It may remove this many more places, ... */
    uint64_t grants_left;  /* ... grant this many more requests, ... */
    uint64_t looks_left;   /* ... and examine this many more waits. */
    bool goes_on; /* It is a SWEEP, or ends a quarantine: it continues what was
                     cut off. */
    uint64_t edges_left; /* Edges left for its searches for deadlocks, ... */
    uint64_t reductions_left; /* ... and for what follows a suspicion. */
    uint64_t steps;           /* See lockfsm_steps(). */
};

/* Memory that is used again for each entry. */
struct scratch {
    struct arena decoded;
    struct buffer identity; /* The request, for its hash. */
    struct buffer refusal;  /* Text of a refusal, see access.h. */
    struct buffer listed;   /* Roles or grants, see trail.c. */
    struct buffer what;     /* Of the trail. */
};

/* tools/parts.py names the module that writes each part. */
struct lockfsm {
    uint32_t node_level; /* The highest that this node understands. */
    uint32_t slice; /* Bound on the work of an entry; the same on all nodes. */

    /* The replicated state. */
    struct lockfsm_limits limits;
    uint32_t limit_count; /* LIMIT_COUNT: set by a founder; 0: defaults. */
    uint64_t applied_index;
    uint64_t applied_term;
    struct epoch epoch;
    struct log_clock clock;
    uint64_t
        redis_time_ms; /* The newest answer to TIME in Redis; only grows. */
    uint32_t feature_level; /* 0: never raised. */
#ifdef HASP_FEATURE_LEVEL_EXTRA
    uint64_t trials; /* Applied. */
#endif
    uint64_t next_serial; /* Counts locks, holds, waits, results. */
    struct session *sessions;
    struct left_over left;
    struct list durable; /* Nodes: session.in_durable, in no order. */
    struct lock *locks;
    struct fence *fences;
    struct list blacklist;
    uint32_t blacklist_count;
    struct relist relist;
    struct access access;
    struct acts acts;
    struct member_list members;
    struct cells cells;

    /* Indexes, sums and memory. */
    struct treap lock_order;
    struct treap session_order;
    struct treap fence_order;
    struct list waits; /* Nodes: wait.in_state; by age, the oldest first. */
    struct uses uses;
    struct holder_index places;
    struct former_token *former; /* Private to lockfsm/lock/fences.c. */
    struct pool pool;
    struct unsettled settle;
    struct deadlock_search *search;
    struct ledger ledger;

    struct applying entry;
    struct scratch scratch;
};

/* The token of this entry's grants, and the id of a session that it opens. */
static inline uint64_t new_token(const struct lockfsm *fsm)
{
    return fsm->epoch.token_base + fsm->entry.log_index;
}

/* Rule 21: nothing is granted while clients of an earlier epoch may trust their
 * leases. */
static inline bool is_quarantined(const struct lockfsm *fsm)
{
    return fsm->epoch.is_new_life || fsm->epoch.quarantine_index != 0;
}

/* The result of a try that fails. In a quarantine nobody may have the lock, so
 * "not free" would be wrong. */
static inline enum result_code not_acquired(const struct lockfsm *fsm)
{
    return is_quarantined(fsm) ? RESULT_QUARANTINED : RESULT_NOT_ACQUIRED;
}

/* True if 'name' may name a lock or a fence. */
static inline bool name_is_valid(struct bytes name)
{
    return name.size > 0 && name.size <= LOCK_NAME_SIZE_MAX;
}

static inline void entry_refuse(struct result *result, enum result_code code,
                                const char *text)
{
    result->code = code;
    result->text = bytes_of_text(text);
}
/* True, with the refusal in 'result', if 'wrong' names an invalid argument. */
static inline bool is_wrong(struct result *result, const char *wrong)
{
    if (wrong != NULL) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, wrong);
    }
    return wrong != NULL;
}
/* The same for the name of a lock and a text; 'what' is the text's name. */
static inline bool text_is_wrong(struct bytes name, struct bytes text,
                                 const char *what, struct result *result)
{
    return is_wrong(result, !name_is_valid(name)         ? "name"
                            : text.size > VALUE_SIZE_MAX ? what
                                                         : NULL);
}

/* --- lockfsm.c ------------------------------------------------------------ */
/* Resets everything except the node's feature level. */
void lockfsm_reset(struct lockfsm *fsm);

/* --- The commands ---------------------------------------------------------
 * Each reads its own part of 'command' and fills 'result', which is RESULT_OK
 * with nothing else set. */

typedef void command_fn(struct lockfsm *fsm, const struct entry *command,
                        struct result *result);

#define ENTRY(number, NAME, name, ...) command_fn apply_##name;
#include "lockfsm/entry.def"

/* --- feature.c ------------------------------------------------------------ */
/* The level to which the command raises the cluster in this state; 0: it does
 * not. */
uint32_t command_raises_to(const struct lockfsm *fsm,
                           const struct entry *command);

/* --- sweep.c -------------------------------------------------------------- */

/* Settles locks whose granting was cut off, the oldest first. It takes as many
 * as the entry can make grants, since each has at least one. */
void sweep_cut(struct lockfsm *fsm);

/* --- cluster.c ------------------------------------------------------------ */

struct member *member_obtain(struct lockfsm *fsm, uint64_t node);
/* To be called after its incarnation was set, or found to be 0. */
void member_count_in(struct lockfsm *fsm, const struct member *member);
void member_free(struct lockfsm *fsm, struct member *member);

/* --- cells.c -------------------------------------------------------------- */

/* A row with this prefix, which no row has yet; the caller fills it. */
struct cell *cell_new(struct lockfsm *fsm, struct bytes prefix);
bool cell_prefix_is_valid(struct bytes prefix);

/* --- limits.c ------------------------------------------------------------- */

/* False, and nothing is set, if the limit is unknown or the value is out of
 * range. */
bool limit_set(struct lockfsm_limits *limits, uint32_t key, uint64_t value);
/* True, with the refusal, if 'records' more records with 'text' bytes would
 * leave too little room for entries that must never be refused. */
bool growth_is_refused(struct lockfsm *fsm, uint64_t records, uint64_t text,
                       struct result *result);
/* True if the state must not grow. */
bool state_is_full(const struct lockfsm *fsm);
/* True, with the refusal, if the TTL is above the limit. */
bool ttl_is_over_limit(struct lockfsm *fsm, uint64_t ttl_ms,
                       struct result *result);

/* --- effects.c ------------------------------------------------------------ */

/* Appends an effect of this type; the pointer is valid until the next call. */
struct effect *effect_add(struct lockfsm *fsm, enum effect_type type);
/* Appends an effect about an owner's hold or wait at the lock. */
struct effect *effect_add_at(struct lockfsm *fsm, enum effect_type type,
                             const struct lock *lock,
                             const struct session *session, struct bytes owner);
/* A copy of 'bytes' that lives as long as the effects. */
struct bytes effect_copy(struct lockfsm *fsm, struct bytes bytes);
void *effect_take(struct lockfsm *fsm, size_t size);
/* Refuses with a formatted text. */
void refuse_because(struct lockfsm *fsm, struct result *result,
                    enum result_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Copies 'result' and everything that it borrows. */
void effect_copy_result(struct lockfsm *fsm, struct result *ret_copy,
                        const struct result *result);

#endif /* HASP_LOCKFSM_STATE_H */
