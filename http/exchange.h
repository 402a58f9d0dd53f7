/* SPDX-License-Identifier: MIT */

/* One HTTP request on its way through the core. Private to http.
 *
 *     commands still to be sent -> a reply -> the next one ... -> an answer
 *
 * The last reply is the answer's, unless the route belongs to a *door*: a
 * protocol of other programs (terraform.c, fleetlock.c, consul.c), or the lease
 * for curl (lease.c). A door maps its requests to commands and has no state. */

#ifndef HASP_HTTP_EXCHANGE_H
#define HASP_HTTP_EXCHANGE_H

#include "http/consul.h"
#include "http/fields.h"
#include "http/gateway.h"
#include "http/problem.h"

/* HELLO, AUTH, ATTACH, the command; a door has up to ten of its own. */
#define EXCHANGE_STEP_MAX 12

struct exchange {
    UT_hash_handle by_conn;
    struct gateway *gateway;
    struct http_exchange *raw_exchange;
    uint64_t conn;
    uint64_t origin; /* account_key_of_origin() of its address. */
    struct list in_dirty;
    struct list in_waiting; /* Polls, waits or streams. */
    struct fields fields;
    struct consul consul; /* The state of a request to that door. */
    /* Parsed after AUTH, if 'awaits_auth'. */
    struct match match;
    struct bytes query;
    struct words step[EXCHANGE_STEP_MAX];
    uint32_t step_count;
    uint32_t first_own;    /* The first step of the route itself. */
    uint32_t at;           /* The current step. */
    bool awaits_auth;      /* Its secret is unknown: its body is not parsed. */
    bool is_sent;          /* It was sent, and waits for its reply. */
    bool is_open;          /* The core knows the connection. */
    bool is_cut;           /* The core has closed it. */
    bool is_stream;        /* The core sends pushes. */
    bool is_answered;      /* Nothing is left to do. */
    bool was_done;         /* Door: an earlier command succeeded. */
    bool may_have_changed; /* Door: a command was answered that changes. */
    bool was_held;         /* Door: it is refused because another holds it. */
    bool is_waiting;       /* It is in gateway.waits. */
    uint64_t due_ns;       /* The end of a poll or a wait. */
    struct buffer output;  /* Written by the core. */
};

/* Adds a step, to be filled. */
struct words *exchange_step(struct exchange *exchange);
/* Answers; the exchange ends with that. */
void exchange_answer(struct exchange *exchange, struct http_reply *reply);
void exchange_refuse(struct exchange *exchange, const struct problem *problem,
                     json_t *more);
/* Answers with this document. */
void exchange_answer_json(struct exchange *exchange, unsigned status,
                          json_t *document);

struct door {
    const char *name; /* Its label in the metrics. */
    /* Adds the first steps; false: the request is wrong, 'problem' says why. */
    bool (*begin)(struct exchange *exchange, struct problem *problem);
    /* Takes a reply to one of its steps, and answers or has another step. */
    void (*reply)(struct exchange *exchange, const struct resp_reply *reply);
    /* Fills the answer to a refusal with the status and body of this door.
     * NULL: a problem document. */
    void (*refuse)(const struct problem *problem, struct http_reply *reply);
    /* Takes a refusal of one of its steps; false, and NULL: it is answered by
     * refuse(). */
    bool (*fail)(struct exchange *exchange, const struct problem *problem);
    /* Takes a push; true: it is the reply to the current step. NULL: pushes are
     * ignored. */
    bool (*push)(struct exchange *exchange, const struct resp_reply *reply);
    /* The end of a wait (exchange_wait()). */
    void (*due)(struct exchange *exchange);
    /* begin() rejects requests that a page of another origin could make, so
     * that a body needs no type. */
    bool has_own_guard;
    /* begin() reads path, query and body; the route has no fields. */
    bool reads_all;
};

/* The place of the lock's first holder in an answer to LOCK.SHOW, or in the
 * lock at place 'at' of LOCK.LIST; 0: it has none. */
static inline uint32_t show_holder(const struct resp_reply *show, uint32_t at)
{
    const struct resp_value *holders = resp_find(show, at, "holders");
    return holders->count > 0 ? (uint32_t)(holders - show->value) + 1 : 0;
}

/* Waits for a push until then. */
void exchange_wait(struct exchange *exchange, uint64_t due_ns);
/* Ends the wait, if it waits. */
void exchange_end_wait(struct exchange *exchange);

extern const struct door door_lease; /* The lock for curl and cron. */
extern const struct door door_terraform;
extern const struct door door_fleetlock;
extern const struct door door_consul;

/* Streams: the answer's head, a push as an event, a comment. */
void stream_begin(struct exchange *exchange);
void stream_push(struct exchange *exchange, const struct resp_reply *reply);
void stream_comment(struct exchange *exchange);
/* The open streams from this address. */
uint32_t streams_from(const struct gateway *gateway, uint64_t origin);
/* The oldest stream of the address with the most; NULL: none is open. 'count'
 * is that of all, 'most' of that address. */
struct exchange *streams_of_most(const struct gateway *gateway,
                                 uint32_t *ret_count, uint32_t *ret_most);
/* True if the client leaves too much unread. */
bool stream_is_slow(const struct exchange *exchange);

#endif /* HASP_HTTP_EXCHANGE_H */
