/* SPDX-License-Identifier: MIT */

/* A follower's side of requests: to the leader and back.
 *
 * A request is parked until a leader is known and reachable, at most
 * LEADER_WAIT_NS: then NOLEADER, if nothing can have been done, else UNKNOWN.
 * If the leader changes or is lost, a forwarded request goes to the next one if
 * repeating it does no harm (it reads, keeps, or has a REQ), and is UNKNOWN
 * otherwise. */

#ifndef HASP_CORE_FORWARD_H
#define HASP_CORE_FORWARD_H

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"

struct core;
struct request;

/* A request of ours that another node must answer (or this one, later). */
void forward_request(struct core *core, struct request *request);
void forward_leader_changed(struct core *core);
void forward_peer_lost(struct core *core, uint64_t peer);
/* Deals with the parked ones as far as possible. */
void forward_turn(struct core *core);
/* When the oldest parked one is given up; UINT64_MAX if none is. */
uint64_t forward_next(const struct core *core);

/* Frames; an error closes the connection. */
/* '*ret_request' is left as it is, unless the serving leader is to deal with
 * the request now: dispatch_decide(). */
MUST_CHECK int forward_received(struct core *core, uint64_t peer,
                                struct bytes body,
                                struct request **ret_request);
/* It is the turn of a peer's request, which forward_received() has let rest:
 * true if the serving leader is to deal with it. */
bool forward_may_decide(struct core *core, struct request *request);
/* From who may not ask: is told that this node does not lead. */
MUST_CHECK int forward_turned_away(struct core *core, uint64_t peer,
                                   struct bytes body);
MUST_CHECK int forward_answered(struct core *core, uint64_t peer,
                                struct bytes body);
MUST_CHECK int forward_closed(struct core *core, uint64_t peer,
                              struct bytes body);

/* The client address of member 'id', "" if it is not known. */
void forward_client_address(const struct core *core, uint64_t id,
                            char out[MEMBER_ADDRESS_SIZE]);

#endif /* HASP_CORE_FORWARD_H */
