/* SPDX-License-Identifier: MIT */

/* A session of a cluster, without I/O: everything that a client decides.
 *
 * Its inputs are bytes and both clocks; its outputs are bytes to send, the time
 * of the next turn, results of calls, and events. Below it
 * client/cluster_conn.h handles the connection: choice of node, greeting,
 * repeated requests. This handles the session:
 *
 *     opening, closing, the lease and its heartbeats (lease/lease.h)
 *     calls: changes under a number, waits by push, what is interrupted or
 *         has no answer, and clears up behind the caller's back
 *     holds and their limits, and the events of all that
 *
 * A session is a member of a connection, which it can share with others: each
 * of its requests names it. A heartbeat is sent each fifth of the lease, before
 * all other unsent requests. If it is not answered within another fifth (two,
 * if it was sent after other requests), the node is left, and all requests of
 * all members are sent to the next one, heartbeats first. Other failures of a
 * session do not affect other members.
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
 * each time under the same number, so that nothing is done twice (rule 20). A
 * push about this wait's grant is the answer, unless the grant has a limit (a
 * push does not contain the rest of it) or is older than a notice of a
 * heartbeat: then the request is repeated.
 *
 * A hold is identified by its tokens (hold.c): its release and conversion name
 * one. Heartbeats report ended holds; if the cluster has dropped some of these
 * notices, the list of holds is read.
 *
 * Driver: as client/cluster_conn.h requires; the turns of a session are those
 * of a member. `done` of a call and 'news' run inside cluster_conn_...(): they
 * must not call a session of that connection, but can set flags and wake
 * threads.
 *
 * Threads: none; the driver guards it with a lock. It allocates at the start of
 * a call (HASP_ENOMEM) and in buffers; a heartbeat never fails because of
 * memory. */

#ifndef HASP_CLIENT_SESSION_FSM_H
#define HASP_CLIENT_SESSION_FSM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "client/cluster_conn.h"
#include "client/hooks.h"
#include "client/request_numbers.h"
#include "include/hasp/hasp.h"
#include "lease/lease.h"

#define SESSION_FSM_RANDOM_SIZE ((CLIENT_SECRET_SIZE - 1) / 2)

/* One call of a program, in its memory until `done`. */
struct client_call {
    void (*done)(struct client_call *call);
    void *data;
    int error; /* A public code, or HASP_NOT_ACQUIRED. */
    char why[HASP_WHY_SIZE];
    uint64_t number;             /* Result of a query. */
    struct hasp_hold *hold;      /* Result of an acquisition. */
    struct operation *operation; /* Private, until `done`. */
};

/* The grant of one lock, from an answer or a push. */
struct granted {
    uint64_t token;
    uint64_t first; /* First token of the hold. */
    uint64_t count; /* 0: it has ended since. */
    uint64_t as_of; /* Index of the state that this describes. */
    bool has_limit;
    uint64_t left_ms; /* Rest of the limit, when it was answered. */
};
/* Reads the map value[at]; false if it is not a grant. */
bool grant_read(const struct resp_reply *reply, uint32_t at,
                struct granted *ret_grant);
/* Reads an array of 'count' grants, or the reply itself as one. */
bool grants_read(const struct resp_reply *reply, size_t count,
                 struct granted *ret_grants);

/* One lock of a hold. */
struct held {
    char *name;
    uint64_t token; /* Tokens from 'first' to this identify the hold. */
    uint64_t first;
    uint64_t as_of; /* Index of the newest state in which it was held. */
    bool is_over;   /* Ended, as the cluster reported. */
    bool is_first;  /* Its owner did not hold it before. */
};

/* A hold whose resource is being sealed: its caller does not know of it yet. At
 * the limit it is given back. Memory of the caller. */
struct sealing {
    struct hasp_hold *hold; /* NULL: given back. */
    struct lease_clock from;
    uint64_t limit_ns; /* UINT64_MAX: none. */
};

struct hasp_hold {
    struct list in_machine;
    struct session_fsm *fsm;
    void *session; /* The driver's. */
    struct owner *owner;
    /* Allocated in advance, so that a release needs no memory. */
    struct operation *release;
    struct held *held;
    size_t count;
    bool has_ended;   /* One of its locks has ended. */
    bool is_reported; /* LOST was reported. */
    bool has_limit;
    uint64_t limit_ms; /* Maximum hold time, if known ... */
    uint64_t left_ms;  /* ... and the rest of it at 'limit_sent'. */
    struct lease_clock limit_sent;
    struct sealing *sealing; /* NULL: the caller has it. */
    struct hooked *reported;
};

struct event_node {
    struct list in_machine;
    struct hasp_event event;
};

struct session_fsm {
    struct cluster_conn *conn;
    struct cluster_conn_member member;
    /* Called when there are new events; or NULL. */
    void (*news)(struct session_fsm *fsm);
    struct request_numbers numbers;
    uint64_t timeout_ms;
    uint64_t alive_ms;       /* 0: no watchdog. */
    uint64_t alive_until_ns; /* CLOCK_BOOTTIME */
    struct credentials credentials;
    struct lease lease;
    enum lease_state reported; /* Last reported state. */
    bool is_open;              /* Opened and not closed. */
    bool is_endless;           /* Durable; counted by the known cluster. */
    bool is_refused;           /* The cluster will not renew it. */
    bool is_over;              /* Lost, and all calls have ended. */
    char why[HASP_WHY_SIZE];   /* Error of the last heartbeat, or "". */
    struct client_request keep;
    uint64_t seen;              /* Newest notice that was processed. */
    uint64_t heard;             /* Newest notice that was reported. */
    struct client_request list; /* Request for the list of holds ... */
    uint64_t list_dropped;      /* ... as notices up to this one are missing. */
    struct list acts;           /* OPEN and CLOSE in progress. */
    struct list changes;        /* Operations on locks, with cleanups. */
    struct list holds;
    struct list events;
    uint32_t other_count; /* Events that other clients caused. */
    struct hook_queue hooks;
};

/* Joins 'conn', which outlives it. */
void session_fsm_init(struct session_fsm *fsm, struct cluster_conn *conn);
/* Detaches the session, so that another process can continue with it alone. */
void session_fsm_leave(struct session_fsm *fsm, struct lease_clock now);
/* Drops calls in progress and frees the holds. Nothing is sent. */
void session_fsm_done(struct session_fsm *fsm);

/* Removes the oldest event, which the caller must free(); NULL if there is
 * none. */
struct event_node *session_fsm_take_event(struct session_fsm *fsm);

/* --- Calls ---------------------------------------------------------------- */

/* All return 0 if the call was started: then its `done` is called once, later.
 * HASP_ENOMEM, HASP_EINVALID and the errors of each function: not started.
 * Texts are copied. */

/* Opens the session. 'random' becomes its secret, of
 * which, as of the death word, the cluster gets only the hash. If the answer
 * arrives after the call has ended, the session is closed. One that is lost
 * with its connection leaves a session that owns nothing and ends by itself.
 * HASP_EIO: no hash. */
MUST_CHECK int session_fsm_open(struct session_fsm *fsm,
                                const struct hasp_options *options,
                                const char *name,
                                const uint8_t random[SESSION_FSM_RANDOM_SIZE],
                                struct client_call *call,
                                struct lease_clock now);
/* True while the answer to an OPEN whose call has ended is awaited, or its
 * session is being closed: it must live on, and have its turns. */
bool machine_is_clearing(const struct session_fsm *fsm);
/* Continues a session that another process has opened. Its requests are
 * numbered from 'number' on, which must be above all used numbers. */
MUST_CHECK int session_fsm_attach(struct session_fsm *fsm,
                                  const struct credentials *credentials,
                                  uint64_t number, struct client_call *call,
                                  struct lease_clock now);
/* Sends one more heartbeat, so that the whole lease is left for the next
 * process; calls in progress are dropped. */
MUST_CHECK int session_fsm_detach(struct session_fsm *fsm,
                                  struct client_call *call,
                                  struct lease_clock now);
/* Ends the session; its holds must not be trusted from here on (rule 19), and
 * calls in progress are dropped. */
MUST_CHECK int session_fsm_close(struct session_fsm *fsm,
                                 struct client_call *call,
                                 struct lease_clock now);
/* Sends a request that is answered with a number, and clears 'query'. A change
 * gets a request number; if it gets no answer, it is finished all the same: the
 * next request acknowledges it, so a late copy is refused. */
MUST_CHECK int session_fsm_query(struct session_fsm *fsm, struct query *query,
                                 bool is_change, struct client_call *call,
                                 struct lease_clock now);
/* This and the next return HASP_EINVALID, with a message in 'call', if another
 * call requests one of these locks for the same owner. */
MUST_CHECK int session_fsm_acquire(struct session_fsm *fsm,
                                   const char *const *names, size_t count,
                                   const struct hasp_acquire_options *options,
                                   struct client_call *call,
                                   struct lease_clock now);
/* Reports to hooks an acquisition that was not begun, since the session is
 * lost. */
void session_fsm_refused(struct session_fsm *fsm, const char *name,
                         const char *trace, const char *why,
                         struct lease_clock now);
/* 'hold' must not be released before `done`. */
MUST_CHECK int session_fsm_convert(struct session_fsm *fsm,
                                   struct hasp_hold *hold,
                                   const struct hasp_acquire_options *options,
                                   struct client_call *call,
                                   struct lease_clock now);
/* Releases and frees the hold, which must not be trusted from here on. It needs
 * no memory, so that no hold is left that nobody knows. 'call' can be NULL: no
 * caller waits. Always 0. */
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
/* Ends the wait of a call, which soon gets HASP_EINTR. */
void session_fsm_interrupt(struct session_fsm *fsm, struct client_call *call,
                           struct lease_clock now);

/* --- Without a round trip ------------------------------------------------- */

/* 0, or HASP_ELOST with a message. */
MUST_CHECK int session_fsm_check(struct session_fsm *fsm,
                                 struct lease_clock now,
                                 char why[HASP_WHY_SIZE]);
/* The program makes progress. */
void session_fsm_alive(struct session_fsm *fsm, struct lease_clock now);
/* Returns the state of a hold, or of the session if 'hold' is NULL. */
void session_fsm_look(struct session_fsm *fsm, const struct hasp_hold *hold,
                      struct lease_clock now, struct hasp_lease *ret_lease);

/* --- Between session_fsm.c, operation.c and hold.c ------------------------ */

/* Translates the result of a request into a public code, and writes the
 * message. */
int session_fsm_error(struct session_fsm *fsm,
                      const struct client_request_end *end,
                      char why[HASP_WHY_SIZE]);
void session_fsm_add_event(struct session_fsm *fsm, enum hasp_event_kind kind,
                           uint64_t token, struct bytes name,
                           struct bytes text);
/* Updates the time at the start of a call. */
void session_fsm_enter(struct session_fsm *fsm, struct lease_clock now);

/* A push reports the end of a wait. */
void operations_pushed(struct session_fsm *fsm, const struct resp_reply *reply);
/* The connection is lost: parked operations are requested again. */
void operations_ask_again(struct session_fsm *fsm);
/* Handles parked operations whose time has come. */
void operations_turn(struct session_fsm *fsm);
uint64_t operations_next_ns(const struct session_fsm *fsm);
/* Frees all operations; if 'are_notified', their callers get HASP_ELOST. */
void operations_end(struct session_fsm *fsm, bool are_notified);

/* Allocates an operation on 'count' locks and reserves its number; NULL: no
 * memory. */
struct operation *operation_room(struct session_fsm *fsm, size_t count);
void operation_room_free(struct session_fsm *fsm, struct operation *room);

/* Room for 'count' locks; NULL: no memory. */
struct hasp_hold *client_hold_new(struct session_fsm *fsm, size_t count);
void client_hold_free(struct hasp_hold *hold);
/* Starts the hold, as granted ('grants': one per name) to the request sent at
 * 'sent'. The owner's earlier holds of these locks are lost. */
void client_hold_begin(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent);
/* Sets the limit of the hold from the grants. */
void client_hold_limit(struct hasp_hold *hold, const struct granted *grants,
                       struct lease_clock sent);
/* Updates all hold objects of a lock that the owner has converted. */
void holds_converted(struct session_fsm *fsm, const struct owner *owner,
                     const char *name, const struct granted *grant);
/* A notice of the cluster: the hold with these tokens has ended without a
 * release. */
struct ended {
    struct bytes lock;
    struct bytes owner;
    struct bytes reason;
    uint64_t first;
    uint64_t token;
};
void holds_ended(struct session_fsm *fsm, const struct ended *ended);
/* Prepares fsm->list. */
void holds_listing(struct session_fsm *fsm);
/* Processes the notices of a heartbeat, or that some are missing. */
void holds_notices(struct session_fsm *fsm, const struct resp_reply *reply);
/* Until the limit; UINT64_MAX: there is none. */
uint64_t sealing_left_ns(const struct sealing *sealing, struct lease_clock now);
/* Reports holds whose limit has passed, and gives back those that were not
 * sealed in time. */
void holds_turn(struct session_fsm *fsm);
/* Reports to hooks that all holds have ended: lost, or, if 'lost' is NULL,
 * released. */
void holds_report(struct session_fsm *fsm, const char *lost);
/* Until the next one; UINT64_MAX. */
uint64_t holds_left_ns(struct session_fsm *fsm, struct lease_clock now);

#endif /* HASP_CLIENT_SESSION_FSM_H */
