/* SPDX-License-Identifier: MIT */

/* Sessions, their request numbers, the log's clock: what the files of
 * lockfsm/session/ offer to lockfsm/. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_SESSION_SESSION_H
#define HASP_LOCKFSM_SESSION_SESSION_H

#include "lockfsm/state.h"

/* --- Structures ----------------------------------------------------------- */

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

#endif /* HASP_LOCKFSM_SESSION_SESSION_H */
