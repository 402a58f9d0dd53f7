/* SPDX-License-Identifier: MIT */

/* Locks, holds, waits: what the files of lockfsm/lock/ offer to lockfsm/.
 * Private to lockfsm/; README.md says where to start. */

#ifndef HASP_LOCKFSM_LOCK_LOCK_H
#define HASP_LOCKFSM_LOCK_LOCK_H

#include "lockfsm/state.h"

/* --- Structures ----------------------------------------------------------- */

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

#define CYCLE_TEXT_SIZE_MAX 400

/* How many slots are taken: held, or closed by a delay. */
static inline uint64_t used_slots(const struct lock *lock)
{
    return (uint64_t)lock->hold_count + lock->delay_slots;
}

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

#endif /* HASP_LOCKFSM_LOCK_LOCK_H */
