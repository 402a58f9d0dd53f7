/* SPDX-License-Identifier: MIT */

/* What the files of lockfsm/ share; nothing outside includes it.
 *
 * Who calls whom while an entry is applied (no file calls one above it):
 *
 *     lockfsm.c          decodes, and finds the function in the table
 *     dedup.c            has this request been answered before?
 *     access.c           may its user do that?
 *     audit.c            records who did what
 *     acquire.c convert.c release.c session_lifecycle.c blacklist.c redis.c
 *     cluster.c clock.c fences.c limits.c quota.c users.c revocations.c
 *     breaks.c sweep.c   one function per command: checks, then changes
 *     finish_entry.c     at the end of the entry: hands over touched locks
 *     grant.c deadlock.c blacklist_match.c
 *                        who may have a lock; who waits for whom; who is barred
 *     locks.c sessions.c holds.c claims.c waits.c waiters.c request_ids.c
 *     result_cache.c holder_index.c
 *                        create and free the structures, keep their indexes
 *     dirty.c            records what the next flush must write
 *
 * A command that takes something away marks the lock as touched. */

#ifndef HASP_LOCKFSM_STATE_H
#define HASP_LOCKFSM_STATE_H

#include "base/check.h"
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
#define CYCLE_TEXT_SIZE_MAX 400
/* --- Private structures --------------------------------------------------- */

enum place_kind {
    PLACE_HOLD,    /* number: lock id. */
    PLACE_WAIT,    /* number: lock id. */
    PLACE_REQUEST, /* number: wait index. The first wait of the request. */
    PLACE_ASKER,   /* number: 0. */
    PLACE_RESULT,  /* number: that of the request; owner: none. */
    PLACE_CLAIM    /* number: lock id; session: 0, or that of a user. */
};

struct place_key {
    enum place_kind kind;
    uint64_t number;
    uint64_t session;
    struct bytes owner;
};

/* A hash table of chains; grows by one bucket at a time (base/hash.h). */
struct holder_index {
    struct holder_place **buckets;
    uint32_t bucket_count;
    uint32_t room; /* For buckets; a power of two. */
    uint64_t count;
};

/* A request whose result is kept, or which still waits. */
struct kept_result {
    struct holder_place place; /* By (session, req). */
    struct list in_order;      /* In numbers.answered, or asker.waiting. */
    struct numbers *numbers;
    struct waiter *waiter; /* Whose it is while it waits; else NULL. */
    uint64_t req;
    uint64_t hash;       /* What was asked, and by which owner. */
    uint64_t wait_index; /* The place it waits at; 0: it is answered. */
    uint64_t serial;     /* Counter in the state: the order in its list. */
    enum result_code code;
    uint64_t token;
    uint64_t count;
    uint64_t *tokens; /* Owned if more than one; one: 'token'; else NULL. */
    uint32_t token_count;
    struct bytes text; /* Owned. */
    struct stored stored;
};

/* The numbers of a session's requests. A number that an entry had or
 * acknowledged is spent for the rest of the session, and is one number of a
 * range; its result is kept beside it for a while. */
struct numbers {
    struct session *session;
    struct list answered; /* Nodes: kept_result.in_order, by serial. */
    uint32_t answered_count;
    uint64_t *spent; /* Owned: from, to, from, to ... that ascend and ... */
    uint32_t spent_count; /* ... do not touch; so many pairs. */
    uint32_t spent_room;
    struct stored stored;
};

/* One (session, owner) that waits. A node of the wait-for graph. */
struct waiter {
    struct holder_place place;
    struct list in_session;
    struct session *session;
    struct bytes owner; /* Owned. */
    struct list waits;  /* Nodes: wait.in_asker. */
    uint32_t wait_count;
    struct list waiting; /* Nodes: kept_result.in_order. */
    uint32_t waiting_count;
    /* What the deadlock search notes: */
    uint64_t search_number; /* The one that has seen it. */
    uint64_t search_slot;   /* Its place in that search. */
};

/* A node that is a member or was one. Its last removal is remembered when it is
 * a member again: the directory of then may still run, and is told why nobody
 * talks to it. */
struct member {
    struct list in_order; /* By node. */
    uint64_t node;
    uint64_t incarnation;         /* Of the member; 0: it is not one now. */
    uint64_t removed_incarnation; /* Of the one removed last; 0: none was. */
    uint64_t removed_index;       /* The entry that removed it. */
    uint64_t removed_ms;          /* When, by a wall clock, for people; or 0. */
    struct bytes removed_by;      /* Owned; may be empty. */
    struct stored stored;
};

/* A BEGIN marks each session that has no mark: quiet for 0, at this clock. Kept
 * here and not in each session, so that a change of leader writes nothing.
 * Where there were more, one that is gone stands for none: the next one marks
 * its sessions, later. */
#define BEGIN_MARK_MAX 64
struct begin_mark {
    uint64_t log_index;
    uint64_t clock_ms;
    uint64_t since_ms; /* When the first of those that it stands for was. */
};

/* What the table has records of. */
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
    RECORD_KIND_COUNT
};

/* Administrative acts, the newest. */
struct acts {
    struct list list; /* Nodes: act.in_order. */
    uint32_t count;
    uint64_t size; /* Their bytes. */
    uint64_t last; /* The number of the newest; see lockfsm_first_act(). */
    uint64_t first;
};

/* What is counted from entry to entry, for the limits. */
struct uses {
    uint64_t waits; /* In all locks. */
    uint64_t holds;
    uint64_t spent_ranges;                /* In all numbers. */
    struct max_counter places_of_session; /* Holds and waits. */
    struct max_counter waits_of_session;
    struct max_counter waits_of_lock;
    struct max_counter owners_of_session; /* Askers. */
};

/* The records: what the next flush writes, what the table has as it is, and the
 * sum of all shares that are known (lockfsm_digest()). */
struct ledger {
    struct list changed[RECORD_KIND_COUNT];
    uint32_t changed_count;
    struct list settled[RECORD_KIND_COUNT];
    uint32_t settled_count[RECORD_KIND_COUNT];
    uint64_t digest;
    enum record_kind scrub_kind; /* Where lockfsm_scrub() is; ... */
    uint32_t scrub_left;   /* ... of these it has yet to look at so many. */
    struct buffer deleted; /* u8 map, run key; of records in the table. */
    uint32_t deleted_count;
    uint64_t flushed_index;
};

/* How many sessions or waits are looked at for the price of taking one place
 * away (lockfsm.slice). */
#define LOOKS_PER_PLACE 8

/* What an entry may cost (lockfsm_steps()): of those without places, all that
 * one message names; for each place, what taking it away tells. */
#define STEPS_PER_ENTRY 16384
#define STEPS_PER_PLACE 64
/* How many edges are looked at, of all searches of an entry, once one of them
 * suspects a deadlock (deadlock.c). */
#define REDUCTION_STEP_MAX (8 * DEADLOCK_STEP_MAX)
/* A cache line. */
#define BYTES_PER_STEP 64

struct deadlock_search;
struct former_token;

struct lockfsm {
    uint32_t node_level; /* Not the cluster's: what this node understands. */
    uint32_t slice; /* What one entry does at most; the same on all nodes. */

    /* The replicated state. */
    struct lockfsm_limits limits;
    uint32_t limit_count; /* LIMIT_COUNT: a founder's; 0: the default. */
    uint64_t applied_index;
    uint64_t applied_term;
    uint64_t token_base;
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint8_t former_ids[FORMER_IDS_SIZE]; /* The newest first. */
    bool is_begun;                       /* Has a cluster id. */
    bool is_new_life; /* Restored, and waits for its BEGIN. */
    uint64_t quarantine_ms;
    uint64_t quarantine_index; /* The BEGIN since which it counts; 0: none. */
    uint64_t quarantine_clock_ms; /* The clock after that BEGIN. */
    uint64_t clock_ms;            /* The log's clock; only grows. */
    uint64_t clock_index;         /* The newest TIME or BEGIN; 0: none yet. */
    uint64_t redis_time_ms;       /* What TIME of Redis has told; only grows. */
    struct begin_mark begins[BEGIN_MARK_MAX]; /* By index. */
    uint32_t begin_count;
    uint32_t feature_level; /* 0: never raised. */
#ifdef HASP_FEATURE_LEVEL_EXTRA
    uint64_t trials; /* Applied. */
#endif
    uint64_t next_serial; /* Counts locks, holds, waits, results. */
    struct session *sessions;
    struct session *swept;  /* Those that have ended, and left something. */
    struct list to_sweep;   /* The same, by end_serial. */
    struct list to_recheck; /* Nodes: session.in_recheck, by serial. */
    struct list cut;        /* Nodes: lock.in_cut, by cut_serial. */
    struct list durable;    /* Nodes: session.in_durable, in no order. */
    struct lock *locks;
    struct fence *fences;
    struct list blacklist;
    uint32_t blacklist_count;
    uint64_t relist_at;    /* SWEEP brings the sessions from this one on up to
                              date with who is refused what; 0: all are. */
    uint64_t relist_since; /* Since this entry it has changed. */
    uint64_t relist_again; /* The same, for those that come once more after
                              that; 0: none. */
    struct user anyone;    /* Built in, as is the role. */
    struct user local;
    struct role admin;
    struct user *users; /* All but those. */
    struct user *users_by_number;
    struct secret *secrets;
    struct role *roles;
    struct revocation *revocations;
    struct acts acts;
    struct list members;
    uint32_t member_count;  /* In 'members', ... */
    uint32_t removed_count; /* ... and those that were. */

    /* Indexes, sums and memory. */
    struct treap lock_order;
    struct treap session_order;
    struct treap fence_order;
    struct treap user_order; /* All but the built-in ones. */
    struct treap role_order;
    struct treap revocation_order;
    struct list waits; /* Nodes: wait.in_state; by age, the oldest first. */
    struct uses uses;
    struct holder_index places;
    struct former_token *former; /* Private to lockfsm/lock/fences.c. */
    struct pool pool;
    struct list touched;     /* Locks to settle; */
    struct list unbacked;    /* waits whose owner's hold there has gone; */
    struct session *emptied; /* a Redis session without its hold, or NULL. */
    struct deadlock_search *search;

    struct ledger ledger;

    /* The entry being applied. */
    uint64_t log_index;
    struct effects *effects;
    struct trail trail;
    struct user *user;     /* Whose it is; NULL: the leader's own. */
    struct origin origin;  /* Zero where the command has none. */
    uint64_t queued_index; /* The place it took or kept in a queue, or 0. */
    uint64_t slice_left;   /* So much more may be taken away by it, ... */
    uint64_t grants_left;  /* ... and so many requests be granted, ... */
    uint64_t looks_left;   /* ... and so many looks be taken at waits. */
    bool goes_on;          /* It is a SWEEP, or ends a quarantine: goes on with
                              what was cut off. */
    uint64_t edges_left;   /* Of its searches for deadlocks, ... */
    uint64_t reductions_left; /* ... and of what follows a suspicion. */
    uint64_t steps;           /* See lockfsm_steps(). */
    struct arena decoded;
    struct buffer identity; /* The request, for its hash. */
    struct buffer refusal;  /* The text of one, see access.h. */
    struct buffer listed;   /* Roles or grants, see trail.c. */
};

/* The token of what this entry grants; also the id of a session it opens. */
static inline uint64_t new_token(const struct lockfsm *fsm)
{
    return fsm->token_base + fsm->log_index;
}

/* Nothing is granted before the clients of a former life have ended. */
static inline bool is_quarantined(const struct lockfsm *fsm)
{
    return fsm->is_new_life || fsm->quarantine_index != 0;
}

/* How many slots are taken: held, or closed by a delay. */
static inline uint64_t used_slots(const struct lock *lock)
{
    return (uint64_t)lock->hold_count + lock->delay_slots;
}

/* What counts for LIMIT_HOLDS_PER_SESSION. */
static inline uint32_t session_places(const struct session *session)
{
    return session->hold_count + session->wait_count;
}

/* All that have a session structure: those that live, then those that have
 * ended and left something. */
static inline struct session *session_next(const struct lockfsm *fsm,
                                           const struct session *session)
{
    struct session *next = session == NULL ? fsm->sessions
                                           : session->by_id.next;
    bool is_swept = session != NULL && !list_is_empty(&session->in_swept);
    return next == NULL && !is_swept ? fsm->swept : next;
}
#define SESSION_EACH(type, at, fsm)                      \
    for (type *at = session_next(fsm, NULL); at != NULL; \
         at = session_next(fsm, at))

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
/* True, with the refusal, if something is wrong with what was asked. */
static inline bool is_wrong(struct result *result, const char *wrong)
{
    if (wrong != NULL) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, wrong);
    }
    return wrong != NULL;
}
/* Likewise of the name of a lock and a text, which 'what' names. */
static inline bool text_is_wrong(struct bytes name, struct bytes text,
                                 const char *what, struct result *result)
{
    return is_wrong(result, !name_is_valid(name)         ? "name"
                            : text.size > VALUE_SIZE_MAX ? what
                                                         : NULL);
}

/* --- lockfsm.c ------------------------------------------------------------ */
/* Empties everything but what the node understands. */
void lockfsm_reset(struct lockfsm *fsm);
/* --- The commands ---------------------------------------------------------
 * Each finds its own part in 'command' and fills 'result', which comes as
 * RESULT_OK with nothing else set. */

typedef void command_fn(struct lockfsm *fsm, const struct entry *command,
                        struct result *result);

#define ENTRY(number, NAME, name, ...) command_fn apply_##name;
#include "lockfsm/entry.def"

/* --- feature.c ------------------------------------------------------------ */
/* To which level the cluster is raised by the command, in this state; 0: to
 * none. */
uint32_t command_raises_to(const struct lockfsm *fsm,
                           const struct entry *command);

/* --- trail.c -------------------------------------------------------------- */
/* Before the command is applied. */
void trail_note(struct lockfsm *fsm, const struct entry *command);

/* --- access.c ------------------------------------------------------------- */
/* The refusal of nobody (NULL), or of one who may do nothing. */
void user_refuse(struct lockfsm *fsm, const struct user *user,
                 struct result *result);

/* True with the refusal if the entry's user may not do it. */
bool access_refuses(struct lockfsm *fsm, const struct entry *command,
                    struct result *result);
/* True with the refusal if the session that acts is another user's. */
bool access_hides_session(struct lockfsm *fsm, const struct entry *command,
                          struct result *result);
bool wait_is_allowed(const struct lockfsm *fsm, const struct wait *wait);
/* Ends those waits of the session that may not stand any more, from where SWEEP
 * has come to (recheck_at) on, for about 'looks_max' looks, of which there are
 * LOOKS_PER_PLACE for each wait that ends; false if there may be others.
 * 'listed' is what they are told if the session is blacklisted, else NULL. */
bool access_recheck(struct lockfsm *fsm, struct session *session,
                    const struct result *listed, uint64_t looks_max,
                    uint64_t *ret_looks);
/* What a session may do has changed: the same, now, or by SWEEP if there are
 * too many. */
void access_recheck_session(struct lockfsm *fsm, struct session *session,
                            const struct result *listed);
/* What a user, or all with a role, may do has changed: ends their waits that
 * are not allowed any more. 'tells_sessions': the user may do nothing any more,
 * or something again. */
void access_changed(struct lockfsm *fsm, struct user *user,
                    const struct role *role, bool tells_sessions);

/* --- users.c -------------------------------------------------------------- */
void users_init(struct lockfsm *fsm);
void users_done(struct lockfsm *fsm);
/* What a cluster has from its founding on. */
void users_found(struct lockfsm *fsm, bool is_access_required);
/* As lockfsm_user(). */
static inline struct user *user_numbered(const struct lockfsm *fsm,
                                         uint64_t number)
{
    struct user *user = NULL;
    if (number == USER_ANYONE) {
        return (struct user *)&fsm->anyone;
    }
    if (number == USER_LOCAL) {
        return (struct user *)&fsm->local;
    }
    HASH_FIND(by_number, fsm->users_by_number, &number, sizeof number, user);
    return user;
}
struct user *user_new(struct lockfsm *fsm, struct bytes name);
/* He has a number now; his secret has its hash. */
void user_number_in(struct lockfsm *fsm, struct user *user);
void secret_hash_in(struct lockfsm *fsm, struct user *user,
                    struct secret *secret);
/* He has his roles from now on, or gives them up: they count who have them. */
void user_count_roles(struct lockfsm *fsm, const struct user *user,
                      bool is_new);
struct role *role_new(struct lockfsm *fsm, struct bytes name);

/* --- revocations.c -------------------------------------------------------- */
/* Its fingerprint must not be there yet. */
struct revocation *revocation_new(struct lockfsm *fsm,
                                  const uint8_t fingerprint[FINGERPRINT_SIZE]);

/* --- dedup.c -------------------------------------------------------------- */

/* Runs 'apply', or gives the result that the same request had before. */
void dedup_run(struct lockfsm *fsm, const struct entry *command,
               command_fn *apply, struct result *result);
/* --- result_cache.c ------------------------------------------------------- */

/* The wait 'wait_index' of 'asker' is over: that is the result of whatever
 * requests stood at this place. */
void result_cache_finish(struct lockfsm *fsm, struct waiter *waiter,
                         uint64_t wait_index, const struct result *result);
struct kept_result *result_cache_find(const struct lockfsm *fsm,
                                      uint64_t session, uint64_t req);
/* Makes one that is neither answered nor waits yet. */
struct kept_result *result_cache_add(struct lockfsm *fsm,
                                     struct numbers *numbers, uint64_t req);
/* The request is answered. Of those of its session that nobody acknowledges the
 * oldest is forgotten. */
void result_cache_answer(struct lockfsm *fsm, struct kept_result *kept,
                         const struct result *result);
/* Puts it at the end of its list. */
void result_cache_link(struct kept_result *kept);
void result_cache_drop(struct lockfsm *fsm, struct kept_result *kept);
/* Borrows from 'kept'. */
void result_cache_result_of(const struct kept_result *kept,
                            struct result *ret_result);

/* --- request_ids.c -------------------------------------------------------- */

struct numbers *request_ids_obtain(struct lockfsm *fsm,
                                   struct session *session);
/* With all results that are answered; those that wait must have gone. */
void request_ids_free(struct lockfsm *fsm, struct numbers *numbers);
bool request_ids_has(const struct numbers *numbers, uint64_t number);
/* These, too, are spent from now on. Where the ranges become too many the
 * lowest gap is spent as well. */
void request_ids_spend(struct lockfsm *fsm, struct numbers *numbers,
                       uint64_t from, uint64_t to);

/* --- sessions.c ----------------------------------------------------------- */

/* "closed", "expired" ...; not of SESSION_LIVES. */
const char *session_end_name(enum session_end end);
/* True of an end without lock delays. */
bool session_end_is_clean(enum session_end end);
/* Finds the session that asks; false with the refusal in 'result'. */
bool session_find_asking(struct lockfsm *fsm, struct session **ret_session,
                         struct result *result);
/* Why there is no session of this id: it has ended, or never was. */
enum result_code session_lost_code(const struct lockfsm *fsm, uint64_t id);
struct session *session_find(const struct lockfsm *fsm, uint64_t id);
/* Likewise, and also one that has ended and left something. */
struct session *session_find_any(const struct lockfsm *fsm, uint64_t id);
struct session *session_new(struct lockfsm *fsm, uint64_t id);
/* It has its name now, and was opened by 'user'. */
void session_belongs(struct lockfsm *fsm, struct session *session,
                     struct user *user);
/* Sessions that an entry goes through, in the order of their ids, so that it
 * does the same on each node. Zeroed memory is an empty array; the caller frees
 * 'session'. */
struct session_array {
    struct session **session;
    uint32_t count;
    uint32_t capacity;
};
void session_array_add(struct session_array *array, struct session *session);
void session_array_sort(struct session_array *array);
/* Once its times are set: it is durable from 'wall_ms' on, or is no more. */
void session_set_durable(struct lockfsm *fsm, struct session *session,
                         bool is_durable, uint64_t wall_ms);
/* Room for 'count' labels, still empty. */
struct label *session_labels_new(struct lockfsm *fsm, struct session *session,
                                 uint32_t count);
/* SWEEP has come to a session, or it is about to be found no more: what is left
 * of relisting goes on with the next one. */
void session_pass(struct lockfsm *fsm, const struct session *session,
                  bool is_going);
/* Takes one that has ended out of the sets of sessions; what it has is left to
 * SWEEP. */
void session_leave(struct lockfsm *fsm, struct session *session);
/* Leaves the session's waits that may not stand any more to SWEEP, which looks
 * at all of them, once more if it has begun; or nothing is left of them. */
void session_set_recheck(struct lockfsm *fsm, struct session *session,
                         bool is_left);
/* SWEEP goes on with this one; NULL: it has looked at all. */
void session_recheck_from(struct lockfsm *fsm, struct session *session,
                          struct wait *wait);
/* The order in which SWEEP comes to it; 0: it has nothing to do there. One that
 * has ended is not rechecked, so it has one serial at most. */
uint64_t session_sweep_serial(const struct session *session);
/* After loading, of those with such a serial, in their order. */
void session_link_swept(struct lockfsm *fsm, struct session *session);
/* Frees it and what it owns; holds and waits must have gone. */
void session_free(struct lockfsm *fsm, struct session *session);
/* 'text' lives as long as the effects. */
void session_tell_changed(struct lockfsm *fsm, const struct session *session,
                          const char *reason, struct bytes text);
/* Notes a hold that ends under a living session, for KEEP to tell. */
void session_note_ended(struct lockfsm *fsm, const struct hold *hold,
                        enum hold_loss loss);
/* Nobody knows which of its holds have ended: whoever believes in one has to
 * ask. */
void session_drop_notices(struct lockfsm *fsm, struct session *session);

/* True with the refusal if the session is a Redis value: it has that one
 * exclusive hold and gets nothing else. */
bool session_is_value(const struct session *session, struct result *result);

/* --- session_lifecycle.c -------------------------------------------------- */

struct session_terms {
    struct bytes proof; /* Empty: nobody can attach it. */
    bool is_durable;    /* Then there are no times but 'wall_ms'. */
    uint64_t wall_ms;
    uint32_t ttl_ms;
    uint64_t asked_ms; /* By the client: TTL, or PX. */
    uint32_t linger_ms;
    struct bytes name;
    struct bytes address;
    uint64_t label_size; /* The labels that follow. */
};
/* Opens a session under the new token as its id; NULL with the refusal. */
struct session *session_open(struct lockfsm *fsm,
                             const struct session_terms *terms,
                             struct result *result);
/* Ends a session with all it has, or, if that is more than the entry may still
 * take away, leaves it to SWEEP. */
void session_end(struct lockfsm *fsm, struct session *session,
                 enum session_end end);

/* Takes waits, then holds from a session that has ended, about 'max' of them;
 * returns how many. */
uint64_t session_sweep(struct lockfsm *fsm, struct session *session,
                       uint64_t max);

/* --- clock.c -------------------------------------------------------------- */

/* The clock's part of a BEGIN, which moves it as TIME does. */
void clock_begin(struct lockfsm *fsm, uint64_t base_index, uint32_t elapsed_ms);
/* The entry at hand proves that the session's client lived: no mark stands. */
void session_heard(struct lockfsm *fsm, struct session *session);
/* What is kept with a span of 'span_ms' that begins now; 0 for none. */
static inline uint64_t span_clock(const struct lockfsm *fsm, uint64_t span_ms)
{
    return span_ms > 0 ? fsm->clock_ms : 0;
}

/* --- sweep.c -------------------------------------------------------------- */

/* Has as many of the locks whose hand-over was cut off settled, the oldest
 * first, as there may be grants, since each has at least one. */
void sweep_cut(struct lockfsm *fsm);

/* --- locks.c -------------------------------------------------------------- */

struct lock *lock_find(const struct lockfsm *fsm, struct bytes name);
struct lock *lock_new(struct lockfsm *fsm, struct bytes name);
struct lock *lock_obtain(struct lockfsm *fsm, struct bytes name);
void lock_free(struct lockfsm *fsm, struct lock *lock);
/* Notes that something was taken from the lock or its queue. */
void lock_touch(struct lockfsm *fsm, struct lock *lock);
/* Has it settled, though nothing was taken from it: SWEEP goes on there. */
void lock_list_touched(struct lockfsm *fsm, struct lock *lock);
/* Its hand-over was cut off, and goes on with 'wait'; where that is another
 * round, behind the hand-overs of other locks. */
void lock_set_cut(struct lockfsm *fsm, struct lock *lock, struct wait *wait,
                  bool is_new_round);
/* In a quarantine: it is handed over, from the head, when that has ended. */
void lock_leave_to_sweep(struct lockfsm *fsm, struct lock *lock);
/* Its hand-over, if it was cut off, has come to its end. */
void lock_end_cut(struct lockfsm *fsm, struct lock *lock);
/* Brings the first wait that must wait for a slot (lock.slot_edge) up to date
 * with how many slots are taken. Called at each change, it moves by one. */
void lock_move_edge(struct lock *lock);
/* No delay keeps the lock closed any more; nobody is told. */
void lock_delay_drop(struct lockfsm *fsm, struct lock *lock);

/* --- holds.c -------------------------------------------------------------- */

/* The hold that a request means: that of its owner, if it names no token, or
 * one of the hold; else NULL. */
struct hold *hold_find_meant(const struct lockfsm *fsm, const struct lock *lock,
                             const struct session *session, uint64_t token);
struct hold *hold_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner);
/* True if the owner's own hold covers a further request of this mode. */
bool hold_covers(const struct hold *hold, enum lock_mode mode);
/* What a new hold has; the strings are copied. */
struct hold_terms {
    struct bytes owner;
    struct bytes value;
    enum lock_mode mode;
    uint32_t slots;
    uint64_t delay_ms;
    uint64_t hold_ms;
    bool has_barged;
};
/* Makes a hold that is not linked yet. */
struct hold *hold_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct hold_terms *terms);
/* Puts it at the ends of its lists and into the index. */
void hold_link(struct lockfsm *fsm, struct hold *hold);
/* Grants a new hold and tells of it; 'wait_index' if it was waited for. */
struct hold *hold_grant(struct lockfsm *fsm, struct lock *lock,
                        struct session *session, const struct hold_terms *terms,
                        uint64_t wait_index);
/* Re-entry. */
void hold_enter_again(struct lockfsm *fsm, struct hold *hold);
/* Makes the only hold of its lock exclusive, under a new token. */
void hold_upgrade(struct lockfsm *fsm, struct hold *hold, uint64_t wait_index);
/* A value of Redis changes, and its holder does not. */
void hold_edit(struct lockfsm *fsm, struct hold *hold, struct bytes value);
/* A value of Redis is overwritten: a new grant, with a new token. */
void hold_replace(struct lockfsm *fsm, struct hold *hold, struct bytes value);
/* Takes a hold away and tells why; an unclean end may start the lock delay. The
 * lock is touched. An upgrade that waits on this hold ends with it. */
void hold_end(struct lockfsm *fsm, struct hold *hold, const char *reason,
              bool is_clean);
/* Takes a hold away without a word. */
void hold_free(struct lockfsm *fsm, struct hold *hold);
/* Tells that 'hold' was granted, upgraded, downgraded. */
void hold_tell(struct lockfsm *fsm, const struct hold *hold,
               uint64_t wait_index, const char *reason);

/* --- claims.c --- What (lock, owner) holds, in all sessions ----------------
 */

/* The hold is shared or a slot from now on, or no longer. */
void claims_add(struct lockfsm *fsm, struct hold *hold);
void claims_remove(struct lockfsm *fsm, struct hold *hold);
/* The only hold of 'owner' at the lock, with 'token' unless that is 0, that is
 * 'user's, or of NULL anybody's. NULL if there is none, or, with '*ret_many',
 * if there are several, or more than CLAIM_LOOK_MAX to look at. */
#define CLAIM_LOOK_MAX 64
struct hold *claim_find(struct lockfsm *fsm, const struct lock *lock,
                        const struct user *user, struct bytes owner,
                        uint64_t token, bool *ret_many);
bool claims_are_right(const struct lockfsm *fsm, const struct hold *hold);

/* --- breaks.c ------------------------------------------------------------- */

/* The holder of 'hold' is there: no break of it stands any more. False if none
 * did. */
bool hold_object(struct lockfsm *fsm, struct hold *hold, struct bytes message);
/* Forgets a break without a word. */
void hold_break_drop(struct lockfsm *fsm, struct hold *hold);

/* --- waits.c -------------------------------------------------------------- */

struct wait *wait_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner);
struct wait_terms {
    struct hold_terms hold;
    uint64_t wait_ms;
    bool is_upgrade;
};
/* Makes a wait that is not linked yet. */
struct wait *wait_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct wait_terms *terms);
/* Puts it into its queue (an upgrade at the head, others at the end), the other
 * lists and the indexes, beside the other waits of its request. */
void wait_link(struct lockfsm *fsm, struct wait *wait);
/* Makes and links a wait of this entry. */
struct wait *wait_queue(struct lockfsm *fsm, struct lock *lock,
                        struct session *session,
                        const struct wait_terms *terms);
/* The request of 'wait' is asked for again: it keeps its place under the new
 * terms or, if it is not to wait any more, loses it. */
void wait_ask_again(struct lockfsm *fsm, struct wait *wait,
                    const struct wait_terms *terms, bool is_waiting,
                    struct result *result);
/* Takes one wait away without a word; its lock is touched. */
void wait_free(struct lockfsm *fsm, struct wait *wait);
/* Tells the watchers of its lock that this wait has ended without a grant. */
void wait_tell_ended(struct lockfsm *fsm, const struct wait *wait,
                     const char *reason);
/* Ends the whole request that 'wait' belongs to: tells each lock's watchers
 * 'reason' and the asker 'result'. */
void wait_end(struct lockfsm *fsm, struct wait *wait, const char *reason,
              const struct result *result);
/* Answers the asker of 'wait' and keeps the result for its repetitions. */
void wait_answer(struct lockfsm *fsm, const struct wait *wait,
                 const struct result *result);
void wait_tell_queued(struct lockfsm *fsm, const struct wait *wait,
                      bool is_again);

/* A request's waits: one, or those of a MACQUIRE, in the order of its names
 * from its first one on. */
#define REQUEST_NEXT(at) LIST_ENTRY((at)->in_group.next, struct wait, in_group)
#define REQUEST_EACH(type, at, first)                          \
    for (type *at = (first), *at##_end = NULL; at != at##_end; \
         at##_end = (first), at = REQUEST_NEXT(at))
struct wait *request_find(const struct lockfsm *fsm, uint64_t wait_index,
                          uint64_t session, struct bytes owner);
struct wait *request_first(struct wait *wait);
uint32_t request_count(const struct wait *wait);
void request_free(struct lockfsm *fsm, struct wait *wait);

/* --- waiters.c ------------------------------------------------------------ */

struct waiter *waiter_find(const struct lockfsm *fsm, uint64_t session,
                           struct bytes owner);
struct waiter *waiter_obtain(struct lockfsm *fsm, struct session *session,
                             struct bytes owner);
/* Frees it if it does not wait any more. */
void waiter_release(struct lockfsm *fsm, struct waiter *waiter);

/* --- holder_index.c ------------------------------------------------------- */

void holder_index_add(struct holder_index *places, struct holder_place *place,
                      const struct place_key *key);
void holder_index_remove(struct holder_index *places,
                         struct holder_place *place);
struct holder_place *holder_index_find(const struct holder_index *places,
                                       const struct place_key *key);
void holder_index_done(struct holder_index *places);

/* --- grant.c -------------------------------------------------------------- */

/* True if the holders and a delay are not in the way of such a request. */
bool holders_allow(const struct lock *lock, enum lock_mode mode,
                   uint32_t slots);
/* True if a new request can be granted at once; 'lock' may be NULL. */
bool lock_is_free(const struct lockfsm *fsm, const struct lock *lock,
                  enum lock_mode mode, uint32_t slots);
/* True if anything from 'wait' on could be granted. */
bool lock_can_go_on(const struct wait *wait);
/* True if a request that ignores the queue (BARGE) may pass all in it: each is
 * passed by one generation at most, as long as it waits for a hold that is
 * older than its wait. */
bool may_pass_queue(const struct lockfsm *fsm, const struct lock *lock,
                    enum lock_mode mode);
bool lock_is_free_for_upgrade(const struct lockfsm *fsm,
                              const struct lock *lock);
/* True if a request that waits is about to end, whatever comes: its session has
 * ended, or it may not stand any more, and SWEEP has yet to come to it. It is
 * granted nothing, and waits for nobody. */
bool request_is_going(const struct lockfsm *fsm, const struct wait *wait);
/* True if a request that waits can be granted, in all its locks at once.
 * '*ret_looks' is what it took to see that: a look at the request, and one for
 * each of its locks up to the first that is not free. So much follows from the
 * records alone, and is the same on each node. */
bool request_is_free(const struct lockfsm *fsm, const struct wait *wait,
                     uint64_t *ret_looks);

/* --- finish_entry.c ------------------------------------------------------- */

/* Puts right what the entry has left: the last step of applying it. */
void finish_entry(struct lockfsm *fsm);

/* --- acquire.c ------------------------------------------------------------ */

/* True, with the refusal, if 'count' more waits of the session, one of them at
 * 'lock' (or NULL), would pass a limit. */
bool waiting_is_over_limit(struct lockfsm *fsm, const struct session *session,
                           const struct lock *lock, uint32_t count,
                           struct result *result);
/* True, with the refusal, if nothing would ever end the wait of a dead client.
 */
bool wait_is_endless(const struct session *session, bool is_waiting,
                     uint64_t wait_ms, struct result *result);
/* The request 'first' was just queued: it stays there, or goes if it closes a
 * cycle. */
void queue_or_deadlock(struct lockfsm *fsm, struct wait *first,
                       struct result *result);

/* --- deadlock.c ----------------------------------------------------------- */

/* True if the waits of 'asker' close a cycle, which then goes through it; its
 * text goes to the effects' arena. */
bool deadlock_found(struct lockfsm *fsm, struct waiter *waiter,
                    struct bytes *ret_cycle);
/* As deadlock_found() where the newest wait was just queued, which nobody
 * stands behind: often there is nothing to search. */
bool deadlock_of_newcomer(struct lockfsm *fsm, struct waiter *waiter,
                          struct bytes *ret_cycle);
void deadlock_search_free(struct deadlock_search *search);

/* --- blacklist_match.c ---------------------------------------------------- */

struct blacklisting *blacklisting_new(struct lockfsm *fsm);
void blacklisting_free(struct lockfsm *fsm, struct blacklisting *entry);
/* Drops the entries that name a session which ends. */
void blacklist_forget_session(struct lockfsm *fsm,
                              const struct session *session);
/* The first entry that hits a session of this id and name, or NULL. */
struct blacklisting *blacklist_hit(const struct lockfsm *fsm, uint64_t session,
                                   struct bytes client);
struct blacklisting *blacklist_find(const struct lockfsm *fsm,
                                    uint64_t since_index);
/* True with the refusal in 'result' if the session is blacklisted. */
bool blacklist_refuses(struct lockfsm *fsm, const struct session *session,
                       struct result *result);
void blacklist_refuse(struct lockfsm *fsm, const struct blacklisting *entry,
                      struct result *result);

/* --- reevaluate.c --------------------------------------------------------- */

/* The sessions that a change concerns, as far as one entry may take them. */
struct relisting {
    struct session_array found;
    uint64_t looks_left;
    uint64_t room;
    bool is_cut; /* There are more: SWEEP goes through all there are. */
};
/* Whoever has begun one ends it. */
struct relisting reevaluate_begin(const struct lockfsm *fsm);
/* Looks at one, which may be NULL if it is not concerned; false: there is no
 * need to look at any other. */
bool reevaluate_look(struct relisting *relisting, struct session *session,
                     bool is_concerned);
/* The change is made: brings what was found up to date with it, or leaves that
 * to SWEEP. */
void reevaluate_end(struct lockfsm *fsm, struct relisting *relisting);
/* The same of all sessions, a slice of them; returns how many of the places are
 * left. */
uint64_t reevaluate_sweep(struct lockfsm *fsm, uint64_t places);

/* --- cluster.c ------------------------------------------------------------ */

struct member *member_obtain(struct lockfsm *fsm, uint64_t node);
/* Once its incarnation is set, or found to be 0. */
void member_count_in(struct lockfsm *fsm, const struct member *member);
void member_free(struct lockfsm *fsm, struct member *member);

/* --- fences.c ------------------------------------------------------------- */

struct fence *fence_find(const struct lockfsm *fsm, struct bytes resource);
struct fence *fence_new(struct lockfsm *fsm, struct bytes resource);
/* False of a token that is still to be granted, 'newest' being the newest that
 * may have been. */
bool fence_may_have(uint64_t token, uint64_t newest);

/* The holds that a restore has kept, by their tokens: for these alone a fence
 * admits a token of a former life. Whoever changes a hold's token, or whether
 * its session is durable, gives it before and takes it after. */
bool hold_is_former(const struct lockfsm *fsm, const struct hold *hold);
void former_takes(struct lockfsm *fsm, const struct hold *hold);
void former_gives(struct lockfsm *fsm, const struct hold *hold);
/* So many of them have this token; or there are of all. */
uint64_t former_count(const struct lockfsm *fsm, uint64_t token);
uint64_t former_sum(const struct lockfsm *fsm);
/* A new life has begun: all tokens so far are of a former one. */
void former_recount(struct lockfsm *fsm);
void former_done(struct lockfsm *fsm);

/* --- limits.c ------------------------------------------------------------- */

/* False, and nothing is set, if there is no such limit or the value is out of
 * its range. */
bool limit_set(struct lockfsm_limits *limits, uint32_t key, uint64_t value);
/* True, with the refusal, if so many more records with so many bytes of text
 * would leave too little room for what must never be refused. */
bool growth_is_refused(struct lockfsm *fsm, uint64_t records, uint64_t text,
                       struct result *result);
/* True if nothing may grow any more. */
bool state_is_full(const struct lockfsm *fsm);
/* True, with the refusal, if nobody may ask for so long a TTL. */
bool ttl_is_over_limit(struct lockfsm *fsm, uint64_t ttl_ms,
                       struct result *result);

/* --- audit.c -------------------------------------------------------------- */

/* The entry has been applied: keeps it, if it is an act. */
void audit_note(struct lockfsm *fsm, const struct entry *command,
                const struct result *result);
struct act *act_new(struct lockfsm *fsm, uint64_t number);
/* Counts their bytes anew, after loading. They are no part of LIMIT_STATE_SIZE,
 * since they have a bound of their own. */
void audit_recount(struct lockfsm *fsm);
/* What is wrong with the acts, or NULL. */
const char *audit_check(const struct lockfsm *fsm);

/* --- quota.c -------------------------------------------------------------- */

/* True, with the refusal, if the user of the entry may not have so much more.
 * Nobody but a user is refused so. */
bool user_growth_is_refused(struct lockfsm *fsm, const struct quota *more,
                            struct result *result);
/* True if he has no room for another record; of NULL, false. */
bool user_is_full(const struct user *user);
/* These keep his use. */
typedef void user_count_fn(struct user *user, enum quota_key key,
                           uint64_t count);
user_count_fn user_takes, user_gives;
/* Counts for each user what he has left in a structure of that name (LEFT_ in
 * records.def), if he has not been removed. Whoever changes something there
 * gives it before and takes it after. */
void payers_count(const struct lockfsm *fsm, const struct stored *stored,
                  struct bytes name, user_count_fn *count);
/* True if somebody has left something there. */
bool has_payer(const struct stored *stored);
/* False if something is there that nobody has left, or the reverse. */
bool payers_are_right(const struct stored *stored);
/* What counts for QUOTA_BYTES: a hold or wait; what is left at a name; a
 * result; spent numbers; a session with its results and numbers. */
uint64_t place_bytes(struct bytes lock, struct bytes owner, struct bytes value);
uint64_t left_bytes(struct bytes name, uint64_t text_size);
uint64_t kept_bytes(const struct kept_result *kept);
uint64_t numbers_bytes(const struct numbers *numbers);
uint64_t session_bytes(const struct session *session);
/* Counts the use of all users anew. */
void quota_recount(struct lockfsm *fsm);
/* False if that would find something else. */
bool quota_is_right(const struct lockfsm *fsm);

/* --- effects.c ------------------------------------------------------------ */

/* Appends an effect of this type; the pointer is good until the next one. */
struct effect *effect_add(struct lockfsm *fsm, enum effect_type type);
/* Appends one that is about an owner's hold or wait at the lock. */
struct effect *effect_add_at(struct lockfsm *fsm, enum effect_type type,
                             const struct lock *lock,
                             const struct session *session, struct bytes owner);
/* A copy of 'bytes' that lives as long as the effects. */
struct bytes effect_copy(struct lockfsm *fsm, struct bytes bytes);
void *effect_take(struct lockfsm *fsm, size_t size);
/* Refuses with a text that is made for it. */
void refuse_because(struct lockfsm *fsm, struct result *result,
                    enum result_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Copies 'result' with all that it borrows. */
void effect_copy_result(struct lockfsm *fsm, struct result *ret_copy,
                        const struct result *result);

/* --- dirty.c -------------------------------------------------------------- */

/* Zeroed memory becomes a structure that the table does not know. */
void stored_init(struct stored *stored, enum record_kind kind);
/* These note that the structure around 'stored' is new or has changed, or that
 * it goes. */
void record_changed(struct lockfsm *fsm, struct stored *stored);
void record_gone(struct lockfsm *fsm, struct stored *stored);

/* --- records.c ------------------------------------------------------------ */

/* Frees the structure around 'stored', whose record has gone, with all that its
 * stored members own. What its key is made of goes before. */
void structure_free(struct lockfsm *fsm, struct stored *stored);

#endif /* HASP_LOCKFSM_STATE_H */
