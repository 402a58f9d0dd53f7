/* SPDX-License-Identifier: MIT */

/* Sessions, their request numbers, the log's clock: what the files of
 * lockfsm/session/ offer to lockfsm/. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_SESSION_SESSION_H
#define HASP_LOCKFSM_SESSION_SESSION_H

#include "lockfsm/state.h"

/* --- Structures ----------------------------------------------------------- */

/* A request whose result is stored, or which still waits. */
struct kept_result {
    struct holder_place place; /* By (session, req). */
    struct list in_order;      /* In numbers.answered, or waiter.waiting. */
    struct numbers *numbers;
    struct waiter *waiter; /* Its waiter while it waits, otherwise NULL. */
    uint64_t req;
    uint64_t hash;       /* Of the request's content, including its owner. */
    uint64_t wait_index; /* The place where it waits; 0: it is answered. */
    uint64_t serial;     /* Counter in the state: the order in its list. */
    enum result_code code;
    uint64_t token;
    uint64_t count;
    uint64_t *
        tokens; /* Owned if more than one; one is in 'token'; otherwise NULL. */
    uint32_t token_count;
    struct bytes text; /* Owned. */
    struct stored stored;
};

/* The numbers of a session's requests. A number that an entry used or
 * acknowledged is spent for the rest of the session and belongs to a range; its
 * result is stored separately for a while. */
struct numbers {
    struct session *session;
    struct list answered; /* Nodes: kept_result.in_order, by serial. */
    uint32_t answered_count;
    uint64_t *spent; /* Owned: from, to, from, to ... in ascending order; ... */
    uint32_t spent_count; /* ... number of pairs, which do not touch. */
    uint32_t spent_room;
    struct stored stored;
};

/* The use that counts for LIMIT_HOLDS_PER_SESSION. */
static inline uint32_t session_places(const struct session *session)
{
    return session->hold_count + session->wait_count;
}

/* Iterates over all session structures: live sessions, then ended ones that
 * left something. */
static inline struct session *session_next(const struct lockfsm *fsm,
                                           const struct session *session)
{
    struct session *next = session == NULL ? fsm->sessions
                                           : session->by_id.next;
    bool is_swept = session != NULL && !list_is_empty(&session->in_swept);
    return next == NULL && !is_swept ? fsm->left.swept : next;
}
#define SESSION_EACH(type, at, fsm)                      \
    for (type *at = session_next(fsm, NULL); at != NULL; \
         at = session_next(fsm, at))

/* --- sessions.c ----------------------------------------------------------- */

/* "closed", "expired" ...; not for SESSION_LIVES. */
const char *session_end_name(enum session_end end);
/* True for an end that starts no lock delays. */
bool session_end_is_clean(enum session_end end);
/* Finds the session of the request; false with the refusal in 'result'. */
bool session_find_asking(struct lockfsm *fsm, struct session **ret_session,
                         struct result *result);
/* Why no session has this id: it has ended, or never existed. */
enum result_code session_lost_code(const struct lockfsm *fsm, uint64_t id);
struct session *session_find(const struct lockfsm *fsm, uint64_t id);
/* The same, but it also finds an ended session that left something. */
struct session *session_find_any(const struct lockfsm *fsm, uint64_t id);
struct session *session_new(struct lockfsm *fsm, uint64_t id);
/* Registers a session whose name is set, as opened by 'user'. */
void session_belongs(struct lockfsm *fsm, struct session *session,
                     struct user *user);
/* Sessions that an entry visits, sorted by id so that all nodes do the same.
 * Zeroed memory is an empty array; the caller frees 'session'. */
struct session_array {
    struct session **session;
    uint32_t count;
    uint32_t capacity;
};
void session_array_add(struct session_array *array, struct session *session);
void session_array_sort(struct session_array *array);
/* Makes it durable from 'wall_ms' on, or ends that. Its times must be set. */
void session_set_durable(struct lockfsm *fsm, struct session *session,
                         bool is_durable, uint64_t wall_ms);
/* Room for 'count' labels, still empty. */
struct label *session_labels_new(struct lockfsm *fsm, struct session *session,
                                 uint32_t count);
/* SWEEP has visited the session, or the session is about to leave the sets: a
 * reevaluation continues with the next one. */
void session_pass(struct lockfsm *fsm, const struct session *session,
                  bool is_going);
/* Removes an ended session from the sets of sessions; SWEEP removes what it
 * has. */
void session_leave(struct lockfsm *fsm, struct session *session);
/* With 'is_left', leaves the session's forbidden waits to SWEEP, which checks
 * all of them (again, if it has begun). Without, there are none left. */
void session_set_recheck(struct lockfsm *fsm, struct session *session,
                         bool is_left);
/* SWEEP continues with this wait; NULL: it has checked all. */
void session_recheck_from(struct lockfsm *fsm, struct session *session,
                          struct wait *wait);
/* The order in which SWEEP visits it; 0: not at all. An ended session is not
 * rechecked, so it has at most one serial. */
uint64_t session_sweep_serial(const struct session *session);
/* After loading: links sessions with such a serial, called in their order. */
void session_link_swept(struct lockfsm *fsm, struct session *session);
/* Frees it and what it owns. Its holds and waits must have been removed. */
void session_free(struct lockfsm *fsm, struct session *session);
/* 'text' lives as long as the effects. */
void session_tell_changed(struct lockfsm *fsm, const struct session *session,
                          const char *reason, struct bytes text);
/* Records a notice about a hold that ends while its session lives; KEEP returns
 * it. */
void session_note_ended(struct lockfsm *fsm, const struct hold *hold,
                        enum hold_loss loss);
/* Drops all notices. dropped_number then makes clients ask for the holds that
 * they believe in. */
void session_drop_notices(struct lockfsm *fsm, struct session *session);

/* True with the refusal if the session is a Redis value, which has one
 * exclusive hold and cannot acquire more. */
bool session_is_value(const struct session *session, struct result *result);

/* --- session_lifecycle.c -------------------------------------------------- */

struct session_terms {
    struct bytes proof; /* Empty: no client can attach it. */
    struct bytes will;  /* Empty or zero: DIED cannot end it. */
    bool is_durable;    /* Then 'wall_ms' is the only time. */
    uint64_t wall_ms;
    uint32_t ttl_ms;
    uint64_t asked_ms; /* As requested by the client: TTL, or PX. */
    uint32_t linger_ms;
    struct bytes name;
    struct bytes address;
    uint64_t label_size; /* Size of the labels to be added. */
};
/* Opens a session with the new token as its id; NULL with the refusal. */
struct session *session_open(struct lockfsm *fsm,
                             const struct session_terms *terms,
                             struct result *result);
/* Ends a session with all that it has. If that is more than the entry may still
 * remove, SWEEP does the rest. */
void session_end(struct lockfsm *fsm, struct session *session,
                 enum session_end end);

/* Removes about 'max' waits, then holds of an ended session; returns their
 * number. */
uint64_t session_sweep(struct lockfsm *fsm, struct session *session,
                       uint64_t max);

/* --- clock.c -------------------------------------------------------------- */

/* Moves the clock for a BEGIN, as TIME does. */
void clock_begin(struct lockfsm *fsm, uint64_t base_index, uint32_t elapsed_ms);
/* The current entry proves that the session's client was alive: removes its
 * mark. */
void session_heard(struct lockfsm *fsm, struct session *session);
/* The clock to store with a span of 'span_ms' that begins now; 0 if there is
 * none. */
static inline uint64_t span_clock(const struct lockfsm *fsm, uint64_t span_ms)
{
    return span_ms > 0 ? fsm->clock.ms : 0;
}

/* --- dedup.c -------------------------------------------------------------- */

/* Runs 'apply', or returns the stored result of the same request. */
void dedup_run(struct lockfsm *fsm, const struct entry *command,
               command_fn *apply, struct result *result);

/* --- result_cache.c ------------------------------------------------------- */

/* The wait 'wait_index' of 'waiter' is over: stores the result for all requests
 * at that place. */
void result_cache_finish(struct lockfsm *fsm, struct waiter *waiter,
                         uint64_t wait_index, const struct result *result);
struct kept_result *result_cache_find(const struct lockfsm *fsm,
                                      uint64_t session, uint64_t req);
/* Creates one that is neither answered nor waiting yet. */
struct kept_result *result_cache_add(struct lockfsm *fsm,
                                     struct numbers *numbers, uint64_t req);
/* Stores the answer of a request. If its session has too many that are not
 * acknowledged, the oldest is dropped. */
void result_cache_answer(struct lockfsm *fsm, struct kept_result *kept,
                         const struct result *result);
/* Appends it to its list. */
void result_cache_link(struct kept_result *kept);
void result_cache_drop(struct lockfsm *fsm, struct kept_result *kept);
/* Borrows from 'kept'. */
void result_cache_result_of(const struct kept_result *kept,
                            struct result *ret_result);

/* --- request_ids.c -------------------------------------------------------- */

struct numbers *request_ids_obtain(struct lockfsm *fsm,
                                   struct session *session);
/* Frees them with all answered results. Waiting ones must have been removed. */
void request_ids_free(struct lockfsm *fsm, struct numbers *numbers);
bool request_ids_has(const struct numbers *numbers, uint64_t number);
/* Marks these as spent. If there are too many ranges, the lowest gap is spent
 * as well. */
void request_ids_spend(struct lockfsm *fsm, struct numbers *numbers,
                       uint64_t from, uint64_t to);

#endif /* HASP_LOCKFSM_SESSION_SESSION_H */
