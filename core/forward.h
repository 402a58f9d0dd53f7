/* SPDX-License-Identifier: MIT */

/* Requests between nodes: from a follower to the leader and back.
 *
 * A request is parked until a leader is known and reachable, at most
 * LEADER_WAIT_NS. Then it is answered NOLEADER if it cannot have taken effect,
 * else UNKNOWN. If the leader changes or is lost, a forwarded request goes to
 * the next leader if repeating it does no harm (it reads, keeps, or has a REQ);
 * otherwise it is answered UNKNOWN. */

#ifndef HASP_CORE_FORWARD_H
#define HASP_CORE_FORWARD_H

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"

struct core;
struct request;

/* Starts a request of this node's client that another node must answer, or this
 * one later. */
void forward_request(struct core *core, struct request *request);
void forward_leader_changed(struct core *core);
void forward_peer_lost(struct core *core, uint64_t peer);
/* Serves as many parked requests as possible. */
void forward_turn(struct core *core);
/* When the oldest parked request is given up; UINT64_MAX: none is parked. */
uint64_t forward_next(const struct core *core);

/* Frames; an error closes the connection. */
/* Receives a frame; an error closes the connection. '*ret_request' is unchanged
 * unless the serving leader must decide on the request now:
 * dispatch_decide(). '*ret_payer' is who pays for the work, also if it waits.
 */
MUST_CHECK int forward_received(struct core *core, uint64_t peer,
                                struct bytes body, struct request **ret_request,
                                uint64_t *ret_payer);
/* A peer's request that forward_received() had queued gets its turn: true if
 * the serving leader must decide on it. */
bool forward_may_decide(struct core *core, struct request *request);
/* Answers a peer that may not send requests: this node is not the leader. */
MUST_CHECK int forward_turned_away(struct core *core, uint64_t peer,
                                   struct bytes body);
MUST_CHECK int forward_answered(struct core *core, uint64_t peer,
                                struct bytes body);
MUST_CHECK int forward_closed(struct core *core, uint64_t peer,
                              struct bytes body);

/* The client address of member 'id', or "" if it is unknown. */
void forward_client_address(const struct core *core, uint64_t id,
                            char out[MEMBER_ADDRESS_SIZE]);

#endif /* HASP_CORE_FORWARD_H */
