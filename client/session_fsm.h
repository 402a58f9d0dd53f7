/* SPDX-License-Identifier: MIT */

/* A session of a cluster, without I/O: everything that a client decides.
 *
 * Bytes and both clocks come in; bytes to send, the time of the next turn, ends
 * of calls and events come out. The asker below it (client/cluster_conn.h) has
 * the connection: which node, greeting, what is asked again. This has the
 * session:
 *
 *     opening, closing, the lease and its heartbeats (lease/lease.h)
 *     calls: changes under a number, waits by push, what is interrupted or
 *         has no answer, and clears up behind the caller's back
 *     holds and their limits, and the events of all that
 *
 * A session is a member of an asker, which it may share with others: each of
 * its requests names it. A heartbeat leaves each fifth of the lease, before all
 * else that has not been sent. If it is not answered within another fifth (two,
 * if it is sent behind other requests) the node is left, and all that was asked
 * there, by whomever, is asked at the next one, the heartbeats first. Whatever
 * else fails here concerns no other member.
 *
 * A change of locks (operation.c):
 *
 *                     QUEUED            push, new connection, 15 s
 *       ASK ------------------> PARKED ---------------------------> ASK
 *        | \  no answer, or   .-'  interrupted
 *        |  '-> WITHDRAW <---'     asked again without WAIT, for 500 ms
 *        |        |     \ no answer
 *        v        v      '-> SETTLE  the caller is told EINTR or EUNKNOWN; it
 *        the caller is told        is asked until there is an answer, and
 *                                  what was granted is released
 *
 * each time under the same number, so that nothing is done twice. A push that
 * tells of this wait's grant is the answer, unless what was granted has a limit
 * (a push does not say what is left of it) or the answer is older than what a
 * heartbeat has told: then it is asked again.
 *
 * A hold is known by its tokens (hold.c): what gives it back or converts it
 * names one. Heartbeats tell of holds that have ended; if they have more to
 * tell than the cluster keeps, the machine asks which holds there are.
 *
 * Driver: does for the asker what its contract says. The machine's turns are
 * those of a member. `done` of a call, and 'news', run inside asker_...(); they
 * must not call a machine of that asker, but may note and wake.
 *
 * Threads: none; the driver guards it with a lock. It allocates when a call is
 * begun (HASP_ENOMEM) and in buffers; a heartbeat never fails for memory. */

#ifndef HASP_CLIENT_SESSION_FSM_H
#define HASP_CLIENT_SESSION_FSM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "client/cluster_conn.h"
#include "client/request_numbers.h"
#include "include/hasp/hasp.h"
#include "lease/lease.h"

#define SESSION_FSM_RANDOM_SIZE ((CLIENT_SECRET_SIZE - 1) / 2)

/* One call of a program, in its memory until `done`. */
struct client_call {
    void (*done)(struct client_call *call);
    void *data;
    int error; /* In the public codes; HASP_NOT_ACQUIRED. */
    char why[HASP_WHY_SIZE];
    uint64_t number;             /* What a query answered. */
    struct hasp_hold *hold;      /* What an acquisition was granted. */
    struct operation *operation; /* The machine's, until `done`. */
};

/* What an answer or a push says that was granted of one lock. */
struct granted {
    uint64_t token;
    uint64_t first; /* The token with which the hold began. */
    uint64_t count; /* 0: it is over by now. */
    uint64_t as_of; /* The state that this tells of. */
    bool has_limit;
    uint64_t left_ms; /* Of the limit, when it was answered. */
};
/* Reads the map value[at]; false if it is none. */
bool grant_read(const struct resp_reply *reply, uint32_t at,
                struct granted *ret_grant);
/* Reads an array of 'count' of them, or (the reply itself) one. */
bool grants_read(const struct resp_reply *reply, size_t count,
                 struct granted *ret_grants);

/* One lock of a hold. */
struct held {
    char *name;
    uint64_t token; /* The tokens from 'first' to this one name the hold. */
    uint64_t first;
    uint64_t as_of; /* In this state it was held. */
    bool is_over;   /* The cluster says so. */
};

struct hasp_hold {
    struct list in_machine;
    struct session_fsm *fsm;
    void *session; /* The driver's. */
    struct owner *owner;
    struct operation *release; /* Ready, so that giving back needs no memory. */
    struct held *held;
    size_t count;
    bool has_ended; /* One of its locks is over. */
    bool is_told;   /* LOST has been told. */
    bool has_limit;
    uint64_t limit_ms; /* Of max hold, as far as is known ... */
    uint64_t left_ms;  /* ... what was left when 'limit_sent' was read. */
    struct lease_clock limit_sent;
};

struct event_node {
    struct list in_machine;
    struct hasp_event event;
};

struct session_fsm {
    struct cluster_conn *conn;
    struct cluster_conn_member member;
    /* There are events that have not been taken; or NULL. */
    void (*news)(struct session_fsm *fsm);
    struct request_numbers numbers;
    uint64_t timeout_ms;
    uint64_t alive_ms;       /* 0: heartbeats need not be earned. */
    uint64_t alive_until_ns; /* CLOCK_BOOTTIME */
    struct credentials credentials;
    struct lease lease;
    enum lease_state told;   /* By an event. */
    bool is_open;            /* It has been opened, and not closed. */
    bool is_endless;         /* The known cluster counts it as that. */
    bool is_refused;         /* The cluster will not renew it any more. */
    bool is_over;            /* It was lost, and all calls have been told. */
    char why[HASP_WHY_SIZE]; /* Of the last heartbeat that failed, or "". */
    struct client_request keep;
    uint64_t seen;              /* The newest notice that was dealt with. */
    uint64_t heard;             /* The newest that was told of. */
    struct client_request list; /* Which holds there are, ... */
    uint64_t list_dropped; /* ... since notices up to this one are missing. */
    struct list acts; /* Calls under way: the session's, and those of locks, */
    struct list changes; /* with what is cleared up. */
    struct list holds;
    struct list events;
    uint32_t told_count; /* Of the events those that others cause. */
};

/* Joins 'asker', which outlives it. */
void session_fsm_init(struct session_fsm *fsm, struct cluster_conn *conn);
/* No connection acts for it any more: whoever goes on with the session has it
 * alone. */
void session_fsm_leave(struct session_fsm *fsm, struct lease_clock now);
/* Calls that are under way are forgotten; holds are freed. Nothing is sent. */
void session_fsm_done(struct session_fsm *fsm);

/* The oldest event, taken out and the caller's to free(); NULL. */
struct event_node *session_fsm_take_event(struct session_fsm *fsm);

/* --- Calls ---------------------------------------------------------------- */

/* All return 0 if the call has begun: then its `done` is called once, later.
 * HASP_ENOMEM, HASP_EINVALID and what stands with each: it has not. Texts are
 * copied. */

/* Opens the session. 'random' becomes its secret, of which the cluster is shown
 * the hash alone. An answer that comes after the call has ended is awaited
 * still: what was opened is closed. One that is lost with its connection leaves
 * a session that owns nothing and ends by itself. HASP_EIO: no hash. */
MUST_CHECK int session_fsm_open(struct session_fsm *fsm,
                                const struct hasp_options *options,
                                const char *name,
                                const uint8_t random[SESSION_FSM_RANDOM_SIZE],
                                struct client_call *call,
                                struct lease_clock now);
/* The answer to an OPEN whose call has ended is awaited, or what it has opened
 * is being closed: the machine should live on, and have its turns. */
bool machine_is_clearing(const struct session_fsm *fsm);
/* Goes on with a session that another process has opened. Its requests are
 * numbered from 'number' on, which must be above all that were used. */
MUST_CHECK int session_fsm_attach(struct session_fsm *fsm,
                                  const struct credentials *credentials,
                                  uint64_t number, struct client_call *call,
                                  struct lease_clock now);
/* One more heartbeat, so that all of the lease is left for whoever goes on; all
 * calls that are under way are forgotten. */
MUST_CHECK int session_fsm_detach(struct session_fsm *fsm,
                                  struct client_call *call,
                                  struct lease_clock now);
/* Ends the session; belief in its holds ends here, and all calls that are under
 * way are forgotten. */
MUST_CHECK int session_fsm_close(struct session_fsm *fsm,
                                 struct client_call *call,
                                 struct lease_clock now);
/* Asks what is answered with a number, and empties 'query'. A change gets a
 * number of its own; one that stays without an answer is over for us, too: the
 * next one acknowledges it, and a late copy is refused. */
MUST_CHECK int session_fsm_query(struct session_fsm *fsm, struct query *query,
                                 bool is_change, struct client_call *call,
                                 struct lease_clock now);
/* Both are HASP_EINVALID, with a text in 'call', if another call asks for one
 * of these locks for the same owner. */
MUST_CHECK int session_fsm_acquire(struct session_fsm *fsm,
                                   const char *const *names, size_t count,
                                   const struct hasp_acquire_options *options,
                                   struct client_call *call,
                                   struct lease_clock now);
/* 'hold' must not be released before `done`. */
MUST_CHECK int session_fsm_convert(struct session_fsm *fsm,
                                   struct hasp_hold *hold,
                                   const struct hasp_acquire_options *options,
                                   struct client_call *call,
                                   struct lease_clock now);
/* Takes and frees the hold; belief in it ends here. It needs no memory, so that
 * nothing stays held that nobody knows of. Always 0. */
MUST_CHECK int session_fsm_release(struct session_fsm *fsm,
                                   struct hasp_hold *hold,
                                   struct client_call *call,
                                   struct lease_clock now);
/* Takes over the hold that another process has acquired for 'owner' in this
 * session. */
MUST_CHECK int session_fsm_resume(struct session_fsm *fsm, const char *name,
                                  const char *owner, struct client_call *call,
                                  struct lease_clock now);
/* Frees a hold of a session that is lost: there is nothing to release. */
void session_fsm_forget(struct session_fsm *fsm, struct hasp_hold *hold);
/* Ends the wait of a call, which is soon told HASP_EINTR. */
void session_fsm_interrupt(struct session_fsm *fsm, struct client_call *call,
                           struct lease_clock now);

/* --- Without a round trip ------------------------------------------------- */

/* 0, or HASP_ELOST with a message. */
MUST_CHECK int session_fsm_check(struct session_fsm *fsm,
                                 struct lease_clock now,
                                 char why[HASP_WHY_SIZE]);
/* The program makes progress. */
void session_fsm_alive(struct session_fsm *fsm, struct lease_clock now);
/* All that is known of a hold; of a session, if 'hold' is NULL. */
void session_fsm_look(struct session_fsm *fsm, const struct hasp_hold *hold,
                      struct lease_clock now, struct hasp_lease *ret_lease);

/* --- Between session_fsm.c, operation.c and hold.c ------------------------ */

/* What a request ended with, in the public codes; writes the message. */
int session_fsm_error(struct session_fsm *fsm,
                      const struct client_request_end *end,
                      char why[HASP_WHY_SIZE]);
void session_fsm_add_event(struct session_fsm *fsm, enum hasp_event_kind kind,
                           uint64_t token, struct bytes name,
                           struct bytes text);
/* A call begins, or something else is told to it. */
void session_fsm_enter(struct session_fsm *fsm, struct lease_clock now);

/* A push says that a wait is over. */
void operations_pushed(struct session_fsm *fsm, const struct resp_reply *reply);
/* The connection has gone: who is parked asks anew. */
void operations_ask_again(struct session_fsm *fsm);
/* Parked ones whose time has come. */
void operations_turn(struct session_fsm *fsm);
uint64_t operations_next_ns(const struct session_fsm *fsm);
/* Tells all that the session is lost, or nothing; frees them. */
void operations_end(struct session_fsm *fsm, bool are_told);

/* Of a change of 'count' locks, and its number; NULL: no memory. */
struct operation *operation_room(struct session_fsm *fsm, size_t count);
void operation_room_free(struct session_fsm *fsm, struct operation *room);

/* Room for 'count' locks; NULL: no memory. */
struct hasp_hold *client_hold_new(struct session_fsm *fsm, size_t count);
void client_hold_free(struct hasp_hold *hold);
/* It is held from now on, as was granted ('grants': one per name) in answer to
 * what was sent at 'sent'. Of its owner's earlier holds of these locks, belief
 * ends. */
void client_hold_begin(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent);
/* Takes the limit of the hold from what was granted. */
void client_hold_limit(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent);
/* The owner's hold of a lock was converted, in whichever of its holds it is. */
void holds_converted(struct session_fsm *fsm, const struct owner *owner,
                     const char *name, const struct granted *grant);
/* The cluster says that the hold which these tokens name has ended without
 * being given back. */
struct ended {
    struct bytes lock;
    struct bytes owner;
    struct bytes reason;
    uint64_t first;
    uint64_t token;
};
void holds_ended(struct session_fsm *fsm, const struct ended *ended);
/* Prepares machine->list. */
void holds_listing(struct session_fsm *fsm);
/* Deals with what a heartbeat tells: notices, or that some are missing. */
void holds_notices(struct session_fsm *fsm, const struct resp_reply *reply);
/* Tells of holds whose limit is over. */
void holds_turn(struct session_fsm *fsm);
/* Until the next one; UINT64_MAX. */
uint64_t holds_left_ns(struct session_fsm *fsm, struct lease_clock now);

#endif /* HASP_CLIENT_SESSION_FSM_H */
