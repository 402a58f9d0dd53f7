/* SPDX-License-Identifier: MIT */

/* Locks, holds, waits: what the files of lockfsm/lock/ offer to lockfsm/.
 * Private to lockfsm/; README.md names the place to start. */

#ifndef HASP_LOCKFSM_LOCK_LOCK_H
#define HASP_LOCKFSM_LOCK_LOCK_H

#include "lockfsm/state.h"

/* --- Structures ----------------------------------------------------------- */

enum place_kind {
    PLACE_HOLD,    /* number: lock id. */
    PLACE_WAIT,    /* number: lock id. */
    PLACE_REQUEST, /* number: wait index. Index of the request; finds its first
                      wait. */
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

/* A (session, owner) that has waits. A node of the wait-for graph. */
struct waiter {
    struct holder_place place;
    struct list in_session;
    struct session *session;
    struct bytes owner; /* Owned. */
    struct list waits;  /* Nodes: wait.in_asker. */
    uint32_t wait_count;
    struct list waiting; /* Nodes: kept_result.in_order. */
    uint32_t waiting_count;
    /* Used by the deadlock search: */
    uint64_t search_number; /* The search that has visited it. */
    uint64_t search_slot;   /* Its place in that search. */
};

#define CYCLE_TEXT_SIZE_MAX 400

/* The number of used slots: held, or closed by a delay. */
static inline uint64_t used_slots(const struct lock *lock)
{
    return (uint64_t)lock->hold_count + lock->delay_slots;
}

/* --- locks.c -------------------------------------------------------------- */

struct lock *lock_find(const struct lockfsm *fsm, struct bytes name);
struct lock *lock_new(struct lockfsm *fsm, struct bytes name);
struct lock *lock_obtain(struct lockfsm *fsm, struct bytes name);
void lock_free(struct lockfsm *fsm, struct lock *lock);
/* Records that something was removed from the lock or its queue. */
void lock_touch(struct lockfsm *fsm, struct lock *lock);
/* Has it settled although nothing was removed: SWEEP continues there. */
void lock_list_touched(struct lockfsm *fsm, struct lock *lock);
/* Its granting was cut off and continues with 'wait'; for a new round, after
 * the other locks that were cut off. */
void lock_set_cut(struct lockfsm *fsm, struct lock *lock, struct wait *wait,
                  bool is_new_round);
/* In a quarantine: it is granted from the head after the quarantine. */
void lock_leave_to_sweep(struct lockfsm *fsm, struct lock *lock);
/* Its granting, if it was cut off, is complete. */
void lock_end_cut(struct lockfsm *fsm, struct lock *lock);
/* Updates the first wait that must wait for a slot (lock.slot_edge) after a
 * change of the used slots. It is called at each change, so it moves by one. */
void lock_move_edge(struct lock *lock);
/* Ends the delay of the lock, without an effect. */
void lock_delay_drop(struct lockfsm *fsm, struct lock *lock);

/* --- holds.c -------------------------------------------------------------- */

/* The owner's hold, if the request names no token or one of this hold;
 * otherwise NULL. */
struct hold *hold_find_meant(const struct lockfsm *fsm, const struct lock *lock,
                             const struct session *session, uint64_t token);
struct hold *hold_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner);
/* True if the owner's own hold covers a further request of this mode. */
bool hold_covers(const struct hold *hold, enum lock_mode mode);
/* The properties of a new hold; the strings are copied. */
struct hold_terms {
    struct bytes owner;
    struct bytes value;
    const uint8_t *trace; /* NULL: none. */
    enum lock_mode mode;
    uint32_t slots;
    uint64_t delay_ms;
    uint64_t hold_ms;
    bool has_barged;
};
/* Creates a hold that is not linked yet. */
struct hold *hold_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct hold_terms *terms);
/* Appends it to its lists and adds it to the index. */
void hold_link(struct lockfsm *fsm, struct hold *hold);
/* Grants a new hold and reports it; 'wait_index' if it had waited. */
struct hold *hold_grant(struct lockfsm *fsm, struct lock *lock,
                        struct session *session, const struct hold_terms *terms,
                        uint64_t wait_index);
/* Counts a re-entry. */
void hold_enter_again(struct lockfsm *fsm, struct hold *hold);
/* Makes the only hold of its lock exclusive, with a new token. */
void hold_upgrade(struct lockfsm *fsm, struct hold *hold, uint64_t wait_index);
/* Changes a value of Redis, but not its holder. */
void hold_edit(struct lockfsm *fsm, struct hold *hold, struct bytes value);
/* Overwrites a value of Redis: a new grant with a new token. */
void hold_replace(struct lockfsm *fsm, struct hold *hold, struct bytes value);
/* Removes a hold and reports the reason; an unclean end may start the lock
 * delay. Touches the lock. An upgrade of this hold ends with it. */
void hold_end(struct lockfsm *fsm, struct hold *hold, const char *reason,
              bool is_clean);
/* Removes a hold without an effect. */
void hold_free(struct lockfsm *fsm, struct hold *hold);
/* Reports that 'hold' was granted, upgraded or downgraded. */
void hold_tell(struct lockfsm *fsm, const struct hold *hold,
               uint64_t wait_index, const char *reason);

/* --- claims.c --- Holds of a (lock, owner) in all sessions ---------------- */

/* The hold becomes shared or a slot, or is no longer one. */
void claims_add(struct lockfsm *fsm, struct hold *hold);
void claims_remove(struct lockfsm *fsm, struct hold *hold);
/* The only hold of 'owner' at the lock, with 'token' unless that is 0, of
 * 'user' or, if NULL, of any user. NULL if there is none or, with '*ret_many',
 * if there are several, or more than CLAIM_LOOK_MAX to check. */
#define CLAIM_LOOK_MAX 64
struct hold *claim_find(struct lockfsm *fsm, const struct lock *lock,
                        const struct user *user, struct bytes owner,
                        uint64_t token, bool *ret_many);
bool claims_are_right(const struct lockfsm *fsm, const struct hold *hold);

/* --- breaks.c ------------------------------------------------------------- */

/* The holder of 'hold' has acted: drops its break. False if there was none. */
bool hold_object(struct lockfsm *fsm, struct hold *hold, struct bytes message);
/* Drops a break without an effect. */
void hold_break_drop(struct lockfsm *fsm, struct hold *hold);

/* --- waits.c -------------------------------------------------------------- */

struct wait *wait_find(const struct lockfsm *fsm, const struct lock *lock,
                       uint64_t session, struct bytes owner);
struct wait_terms {
    struct hold_terms hold;
    uint64_t wait_ms;
    bool is_upgrade;
};
/* Creates a wait that is not linked yet. */
struct wait *wait_new(struct lockfsm *fsm, struct lock *lock,
                      struct session *session, const struct wait_terms *terms);
/* Links it into its queue (an upgrade at the head, others at the end), the
 * other lists, the indexes, and the ring of its request's waits. */
void wait_link(struct lockfsm *fsm, struct wait *wait);
/* Creates and links a wait of this entry. */
struct wait *wait_queue(struct lockfsm *fsm, struct lock *lock,
                        struct session *session,
                        const struct wait_terms *terms);
/* The request of 'wait' is repeated: it keeps its place under the new terms or,
 * if it no longer wants to wait, loses it. */
void wait_ask_again(struct lockfsm *fsm, struct wait *wait,
                    const struct wait_terms *terms, bool is_waiting,
                    struct result *result);
/* Removes one wait without an effect; touches its lock. */
void wait_free(struct lockfsm *fsm, struct wait *wait);
/* Reports to the watchers of its lock that this wait has ended without a grant.
 */
void wait_tell_ended(struct lockfsm *fsm, const struct wait *wait,
                     const char *reason);
/* Ends the whole request of 'wait': reports 'reason' to each lock's watchers
 * and 'result' to the waiting client. */
void wait_end(struct lockfsm *fsm, struct wait *wait, const char *reason,
              const struct result *result);
/* Answers the client of 'wait' and stores the result for repetitions. */
void wait_answer(struct lockfsm *fsm, const struct wait *wait,
                 const struct result *result);
void wait_tell_queued(struct lockfsm *fsm, const struct wait *wait,
                      bool is_again);

/* A request's waits: one, or those of a MACQUIRE in the order of its names. */
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
/* Frees it if it has no waits left. */
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

/* True if the holders and a delay allow such a request. */
bool holders_allow(const struct lock *lock, enum lock_mode mode,
                   uint32_t slots);
/* True if a new request can be granted at once; 'lock' may be NULL. */
bool lock_is_free(const struct lockfsm *fsm, const struct lock *lock,
                  enum lock_mode mode, uint32_t slots);
/* True if any wait from 'wait' on could be granted. */
bool lock_can_go_on(const struct wait *wait);
/* True if a request that ignores the queue (BARGE) may pass all waits in it.
 * Each wait is passed by at most one generation: while it waits for a hold that
 * is older than itself. */
bool may_pass_queue(const struct lockfsm *fsm, const struct lock *lock,
                    enum lock_mode mode);
bool lock_is_free_for_upgrade(const struct lockfsm *fsm,
                              const struct lock *lock);
/* True if a waiting request is about to end in any case: its session has ended,
 * or it is no longer allowed, and SWEEP has yet to visit it. It is granted
 * nothing, and has no edges in the wait-for graph. */
bool request_is_going(const struct lockfsm *fsm, const struct wait *wait);
/* True if a waiting request can be granted at all its locks at once.
 * '*ret_looks' is the cost of the check: one for the request, and one for each
 * of its locks up to the first that is not free. The cost depends on the
 * records alone, so it is the same on each node. */
bool request_is_free(const struct lockfsm *fsm, const struct wait *wait,
                     uint64_t *ret_looks);

/* --- finish_entry.c ------------------------------------------------------- */

/* Settles what the entry has touched: the last step of applying it. */
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
/* The request 'first' was just queued: it stays, or is removed if it closes a
 * cycle. */
void queue_or_deadlock(struct lockfsm *fsm, struct wait *first,
                       struct result *result);

/* --- deadlock.c ----------------------------------------------------------- */

/* True if the waits of 'waiter' close a cycle, which then passes through it.
 * The text is in the effects' arena. */
bool deadlock_found(struct lockfsm *fsm, struct waiter *waiter,
                    struct bytes *ret_cycle);
/* As deadlock_found(), for a wait that was just queued, so no wait follows it:
 * often there is nothing to search. */
bool deadlock_of_newcomer(struct lockfsm *fsm, struct waiter *waiter,
                          struct bytes *ret_cycle);
void deadlock_search_free(struct deadlock_search *search);

/* --- fences.c ------------------------------------------------------------- */

struct fence *fence_find(const struct lockfsm *fsm, struct bytes resource);
struct fence *fence_new(struct lockfsm *fsm, struct bytes resource);
/* False for a token that is not granted yet; 'newest' is the newest that may
 * have been. */
bool fence_may_have(uint64_t token, uint64_t newest);

/* The holds that a restore has kept, by their tokens: only for these a fence
 * admits a token of an earlier epoch. Call former_gives() before changing a
 * hold's token or whether its session is durable, and former_takes() after. */
bool hold_is_former(const struct lockfsm *fsm, const struct hold *hold);
void former_takes(struct lockfsm *fsm, const struct hold *hold);
void former_gives(struct lockfsm *fsm, const struct hold *hold);
/* The number of them with this token, and of all. */
uint64_t former_count(const struct lockfsm *fsm, uint64_t token);
uint64_t former_sum(const struct lockfsm *fsm);
/* A new epoch has begun: all tokens so far are of an earlier one. */
void former_recount(struct lockfsm *fsm);
void former_done(struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_LOCK_LOCK_H */
