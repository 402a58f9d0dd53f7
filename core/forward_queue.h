/* SPDX-License-Identifier: MIT */

/* Requests of other nodes' clients that wait for their turn at the leader.
 *
 * A FORWARD is its user's work, not the other node's: while the account
 * (base/account.h) is spent, or others wait, it rests here, each client's in
 * the order in which they came, and what the client's node has said of its end
 * behind them. So a flood at a follower goes no faster lane than one here.
 *
 * Without an account (core_options.account) nothing waits. */

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
    struct list idle;               /* Those for whom nothing waits any more. */
    uint64_t held_size;             /* Bytes of the requests that wait. */
};

/* 'decide' deals with a request whose turn has come, 'closed' with an end. */
void forward_queue_init(struct core *core, forward_queue_decide_fn *decide,
                        forward_queue_closed_fn *closed);
void forward_queue_done(struct core *core);
/* True if the request, which is understood as far as its command, waits now;
 * false: it is to be dealt with at once. */
bool forward_queue_hold(struct core *core, struct request *request);
/* Likewise, of the end of a connection: the body of a CLOSED. */
bool forward_queue_hold_closed(struct core *core, uint64_t peer, uint64_t conn,
                               struct bytes body);
/* True if the asker of this request has more than its share waiting. */
bool forward_queue_are_over(const struct core *core,
                            const struct request *request);
void forward_queue_peer_lost(struct core *core, uint64_t peer);
/* Frees those that are idle. */
void forward_queue_turn(struct core *core);

#endif /* HASP_CORE_FORWARD_QUEUE_H */
