/* SPDX-License-Identifier: MIT */

/* Requests of other nodes' clients that wait for their turn at the leader.
 *
 * The work for a FORWARD belongs to its payer (in_flight.h), not to the other
 * node. While the
 * account (base/account.h) is spent, or others wait, the requests of each
 * client are queued here in the order of their arrival, followed by the news
 * that its connection has closed. So a flood through a follower is served no
 * faster than one at the leader.
 *
 * Without an account (core_options.account) no request waits. */

#ifndef HASP_CORE_FORWARD_QUEUE_H
#define HASP_CORE_FORWARD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/list.h"

struct forward_origin;
struct core;
struct request;

typedef void forward_queue_decide_fn(struct core *core,
                                     struct request *request);
typedef int forward_queue_closed_fn(struct core *core, uint64_t peer,
                                    struct bytes body);

/* Lives as long as the core. */
struct forward_queue {
    forward_queue_decide_fn *decide;
    forward_queue_closed_fn *closed;
    struct forward_origin *by_conn; /* Hash table by node and connection. */
    struct list idle;               /* Clients with no request waiting. */
    uint64_t held_size;             /* Bytes of the waiting requests. */
};

/* 'decide' handles a request whose turn it is, 'closed' a closed connection. */
void forward_queue_init(struct core *core, forward_queue_decide_fn *decide,
                        forward_queue_closed_fn *closed);
void forward_queue_done(struct core *core);
/* True if the request, of which at least the command is parsed, now waits;
 * false if it must be served at once. */
bool forward_queue_hold(struct core *core, struct request *request);
/* The same for the body of a CLOSED, the end of a connection. */
bool forward_queue_hold_closed(struct core *core, uint64_t peer, uint64_t conn,
                               struct bytes body);
/* True if the client of this request has more than its share waiting. */
bool forward_queue_are_over(const struct core *core,
                            const struct request *request);
void forward_queue_peer_lost(struct core *core, uint64_t peer);
/* Frees the idle clients. */
void forward_queue_turn(struct core *core);

#endif /* HASP_CORE_FORWARD_QUEUE_H */
