/* SPDX-License-Identifier: MIT */

/* A visit: one request of HTTP on its way through the core. Private to http.
 *
 *     commands still to be sent -> a reply -> the next one ... -> an answer
 *
 * The last reply is the answer's, unless the route has something to add
 * (lease.c). */

#ifndef HASP_HTTP_EXCHANGE_H
#define HASP_HTTP_EXCHANGE_H

#include "http/fields.h"
#include "http/gateway.h"
#include "http/problem.h"

/* HELLO, AUTH, ATTACH, the command; a lease has one more. */
#define EXCHANGE_STEP_MAX 5

struct exchange {
    UT_hash_handle by_conn;
    struct gateway *gateway;
    struct http_exchange *raw_exchange;
    uint64_t conn;
    struct list in_dirty;
    struct list in_waiting; /* Polls or streams. */
    struct fields fields;
    struct words step[EXCHANGE_STEP_MAX];
    uint32_t step_count;
    uint32_t first_own;   /* The first step of the route's own. */
    uint32_t at;          /* The step that is under way. */
    bool is_sent;         /* It is: its reply is waited for. */
    bool is_open;         /* The core knows the connection. */
    bool is_cut;          /* The core has closed it. */
    bool is_stream;       /* What comes is pushes. */
    bool is_answered;     /* There is nothing more to do. */
    bool was_done;        /* Of a lease: the first command succeeded. */
    uint64_t due_ns;      /* Of a poll. */
    struct buffer output; /* That the core has written. */
};

/* A step of its own, to be filled. */
struct words *exchange_step(struct exchange *exchange);
void exchange_refuse(struct exchange *exchange, const struct problem *problem,
                     json_t *more);
/* Answers with this document. */
void exchange_answer_json(struct exchange *exchange, unsigned status,
                          json_t *document);

/* The lock of curl and cron: its commands, and what becomes of a reply; true:
 * there is a step more, or it is answered. */
void lease_begin(struct exchange *exchange);
void lease_reply(struct exchange *exchange, const struct resp_reply *reply);

/* Streams: the answer's head, a push as an event, a comment. */
void stream_begin(struct exchange *exchange);
void stream_push(struct exchange *exchange, const struct resp_reply *reply);
void stream_comment(struct exchange *exchange);
/* It leaves too much unread. */
bool stream_is_slow(const struct exchange *exchange);

#endif /* HASP_HTTP_EXCHANGE_H */
