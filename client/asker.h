/* SPDX-License-Identifier: MIT */

/* Asks a cluster, without I/O: which node, when to go on to the next, what may
 * be asked again. Bytes and `now` come in; bytes to send, the endpoint to
 * connect to, the time of the next turn and answers come out. It calls no
 * clock, socket or thread; a driver does (client/transport.h, hasp_uv.c).
 *
 * There is one connection at a time. Any node takes any request (a follower
 * forwards to the leader), so an asker stays where it is until that node fails
 * it. Requests are sent without waiting for earlier answers, which come in the
 * order of the requests.
 *
 *     REST --somebody asks--> OPENING --asker_connected()--> GREETING
 *      ^ (a pause after each   |                              HELLO
 *      |  round of all nodes)  |                                |
 *      '------- failure, silence, NOLEADER, MOVED ----------- OPEN
 *
 * It has members: each asks for a session of its own (machine.h), or for none,
 * and all share the connection. On each new one the session of each member is
 * attached, behind the heartbeats, which need no attachment; who asks something
 * comes first, a few at a time. What else a member asks is sent when its own
 * session is:
 *
 *     no session --set--> APART --OPEN: ATTACH is sent--> asked --OK-->
 * ATTACHED ^  ^                             |   |            | |  '--- later
 * ------ refused ----'   |            |
 *                        '--------- the connection is lost ---+------------'
 *
 * A refused ATTACH is told to that member alone, with all that it asks; the
 * others' requests and the connection go on.
 *
 * What an attempt ends with, and what follows:
 *
 *     an answer, a refusal  is given out
 *     NOLEADER              nothing was done: again, at another node
 *     BUSY                  nothing was done: again, later
 *     MOVED                 nothing was done: again, at the node that it names
 *     no connection         nothing was done: again, at another node
 *     lost connection,      the outcome is not known: again if the request is
 *     no answer, UNKNOWN    repeatable, else given out
 *
 * until the request's deadline. Then the worst of what was seen decides what is
 * told: that it may have been done weighs more than that nobody leads, and that
 * more than that a node was not there.
 *
 *   HASP_EREPLY      the server refused: 'code' is its word
 *   HASP_ECONNECT    no node could be reached; nothing was done
 *   HASP_ECERT       the same, since their certificate or this side's is
 *                    refused
 *   HASP_ENOTLEADER  none knows a leader; nothing was done
 *   HASP_EBUSY       they had too much to do; nothing was done
 *   HASP_ETIMEDOUT   no answer, the outcome is not known
 *   HASP_EPROTO      what answers does not speak our protocol
 *
 * Driver: after each call of asker_turn() or asker_input() and after each
 * request look at 'number'. If it has changed, close what is open; if the state
 * is OPENING then, connect to asker_endpoint() and report. Send what is in
 * 'out', and take it out of there. Call asker_turn(), in which the members have
 * their turns, after each call that a member has begun and when asker_left_ns()
 * is over. Deadlines are in CLOCK_MONOTONIC.
 *
 * Threads: none; who shares it among threads guards it. */

#ifndef HASP_CLIENT_ASKER_H
#define HASP_CLIENT_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "client/endpoints.h"
#include "client/query.h"
#include "lease/lease.h"
#include "net/resp.h"

#define CLIENT_SECRET_SIZE 33 /* 32 hex digits and a zero. */
#define CLIENT_CODE_SIZE 32
/* For the connection and the greeting; a paused node accepts and is silent. */
#define CLIENT_OPEN_MS 1000
/* Of what a person is told of one endpoint. */
#define ASKER_LAST_SIZE 256
/* For an answer, before another node is asked; longer than a node looks for a
 * leader before it says NOLEADER. */
#define CLIENT_ATTEMPT_MS 4000
/* Behind SESSION.OPEN, ATTACH and CLOSE a node does nothing until they are
 * answered. No more of them are under way at a time, so that heartbeats need
 * not wait for those of a thousand sessions. */
#define ASKER_BLOCKING_MAX 8

/* Names a session and proves the right to act for it. */
struct credentials {
    uint64_t session;
    char secret[CLIENT_SECRET_SIZE];
};

/* Parses "ID:SECRET"; HASP_EINVALID. */
MUST_CHECK int credentials_parse(const char *text,
                                 struct credentials *ret_credentials);

struct asker;
struct asker_member;
struct asking;

/* How a request ended; all is borrowed for the time of the call. */
struct asking_end {
    int error;                      /* 0: 'reply'. */
    const struct resp_reply *reply; /* NULL after an error. */
    const char *code; /* HASP_EREPLY: the server's word, as in "NOTHELD". */
    const char *why;  /* After an error: a text for a person. */
};

/* Runs inside asker_...(), when the request is no longer the asker's: it may be
 * asked anew, or freed. */
typedef void asking_done_fn(struct asking *ask, const struct asking_end *end);

/* One request. Zeroed memory with a query, a deadline and 'done'; it stays
 * where it is, and is the asker's, from asker_ask() to 'done'. */
struct asking {
    struct query query;
    struct asker_member *member; /* Who asks; NULL: nobody's session does. */
    uint64_t deadline_ns;
    uint64_t attempt_ms; /* For an answer of one node; 0: CLIENT_ATTEMPT_MS. */
    bool is_repeatable;  /* It carries a REQ, or may be done twice. */
    bool is_read;        /* Repeatable, and whether it was done is no matter. */
    bool is_once;        /* One attempt at one node, whatever it ends with. */
    bool is_urgent;      /* Goes before those that have not been sent. */
    bool is_apart;       /* Names session and secret: need not be attached. */
    bool blocks;         /* See ASKER_BLOCKING_MAX. */
    bool was_sent;       /* Before, under its REQ: that may be done still. */
    /* Before it is sent again: the query may be written anew. Or NULL. */
    void (*again)(struct asking *ask, struct lease_clock now);
    asking_done_fn *done;
    void *data;
    struct lease_clock sent; /* The newest attempt. */
    /* The rest is the asker's. */
    struct list in_asker;
    bool is_asked;
    bool is_sent;
    uint64_t begun_ns;
    uint64_t not_before_ns;
    uint32_t tried; /* Attempts that this or that node turned down. */
    uint32_t seen;  /* 1 << outcome */
};

enum asker_state { ASKER_REST, ASKER_OPENING, ASKER_GREETING, ASKER_OPEN };

/* What a member gives; each may be NULL. */
struct asker_hooks {
    /* Its turn: time has come, or something that it asked has ended. Returns
     * the nanoseconds until the next one; UINT64_MAX: none is due. */
    uint64_t (*turn)(void *data, struct lease_clock now);
    /* A message that no request asked for, and that tells of its session;
     * borrowed. */
    void (*push)(void *data, const struct resp_reply *reply);
    /* The connection has been given up, whatever was asked for on it. */
    void (*lost)(void *data);
    /* ATTACH was refused: the session has ended, or may not be attached. */
    void (*ended)(void *data, const char *code, const char *why);
    void *data;
};

/* One of those who share an asker. It stays where it is from asker_join() to
 * asker_part(). */
struct asker_member {
    struct asker_hooks hooks;
    bool is_wanted; /* A connection, even if it asks nothing. */
    /* The rest is the asker's. */
    struct asker *asker;
    struct list in_asker;
    struct credentials credentials;
    struct asking attach;
    bool has_session;
    bool is_attached;
    uint32_t refusals; /* Of ATTACH: asked anew with the next request. */
    bool is_touched;   /* Its turn is due. */
    uint64_t due_ns;   /* Its turn is due then, in CLOCK_BOOTTIME. */
};

struct asker {
    enum asker_state state;
    struct lease_clock now; /* Of the call at hand. */
    uint32_t number;        /* Of the connection, or of what follows on it. */
    struct buffer out;      /* To be sent. */
    uint64_t open_ms;       /* For connection and greeting. */
    /* A message that tells of no member's session; borrowed. Or NULL. */
    void (*push)(void *data, const struct resp_reply *reply);
    void *push_data;
    /* The rest is private. */
    struct list members;
    bool is_touched; /* Some member is. */
    uint64_t due_ns; /* Of the members, the earliest turn. */
    struct endpoint *endpoint;
    char secret[CLIENT_USER_SECRET_SIZE]; /* Of the user; or "". */
    char (*last)[ASKER_LAST_SIZE]; /* What each endpoint ended with, for a
                                      person. */
    uint32_t count;
    uint32_t at;
    struct endpoint moved; /* Where a node sent us. */
    bool is_moved;
    uint32_t failed;   /* Connections in a row that came to nothing. */
    uint64_t until_ns; /* REST: the pause; OPENING, GREETING: the limit. */
    uint64_t random;
    struct buffer in;
    size_t used; /* Of 'in': given out; there until the next input. */
    struct resp_reply reply;
    struct list asks;       /* Those not sent yet, in order. */
    struct list sent;       /* Those sent. */
    struct asking **flight; /* In the order of their answers; NULL: given up. */
    uint32_t flight_count;
    uint32_t flight_room;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
};

/* 'endpoints' is copied and must not be empty; 'seed' makes pauses differ.
 * HASP_ENOMEM. */
MUST_CHECK int asker_init(struct asker *asker,
                          const struct endpoints *endpoints, uint64_t seed);
/* What is still asked is forgotten without 'done'. */
void asker_done(struct asker *asker);

void asker_ask(struct asker *asker, struct asking *ask, struct lease_clock now);
/* Takes a request back; 'done' is not called. Its answer, if one is under way,
 * is dropped. Harmless if it is not asked. */
void asker_cancel(struct asker *asker, struct asking *ask);

/* Becomes one of the members; 'member' is zeroed memory with hooks. */
void asker_join(struct asker *asker, struct asker_member *member);
/* Is none any more. What it asked has been cancelled. Nothing is sent: who goes
 * on living calls asker_leave() first. */
void asker_part(struct asker_member *member);
/* Its turn is due: it was asked something. */
void asker_touch(struct asker_member *member);

/* From now on each connection acts for this session; NULL: for none. */
void asker_set_session(struct asker_member *member,
                       const struct credentials *credentials,
                       struct lease_clock now);
/* Likewise; the connection that is open does so already. */
void asker_adopt_session(struct asker_member *member,
                         const struct credentials *credentials);
/* The member wants no connection any more, and none acts for its session: it is
 * detached, by closing the connection if nobody else shares it. */
void asker_leave(struct asker_member *member, struct lease_clock now);

/* Gives the connection up, for 'why' (a person reads it; NULL: nothing to
 * tell); the next one goes to the next endpoint. */
void asker_drop(struct asker *asker, const char *why, struct lease_clock now);
/* Where to begin. */
void asker_begin_at(struct asker *asker, uint32_t endpoint);
/* Something is under way that has not been answered. */
bool asker_is_awaiting(const struct asker *asker);

/* --- For the driver ------------------------------------------------------- */

/* Where to connect to, and who answers. */
const struct endpoint *asker_endpoint(const struct asker *asker);
void asker_connected(struct asker *asker);
/* No connection came about, or it has broken; 'why' for a person. */
void asker_failed(struct asker *asker, const char *why, struct lease_clock now);
/* Likewise, because one side does not take the other's certificate. */
void asker_distrusted(struct asker *asker, const char *why,
                      struct lease_clock now);
void asker_input(struct asker *asker, struct bytes bytes,
                 struct lease_clock now);
void asker_turn(struct asker *asker, struct lease_clock now);
/* Nanoseconds until the next turn; UINT64_MAX: none is due. */
uint64_t asker_left_ns(const struct asker *asker, struct lease_clock now);

#endif /* HASP_CLIENT_ASKER_H */
