/* SPDX-License-Identifier: MIT */

/* The leader's side of leases (ARCHITECTURE.md: the rules of time, 2 to 9).
 *
 * A heartbeat moves its sessions' deadlines on receipt, unless it is going to
 * be refused. It is answered when leadership has been confirmed by a question
 * asked after its receipt or, if a session was marked as quiet, when a HEARD
 * proposed after its receipt has been applied. Everything is checked again when
 * it is answered: a heartbeat of a session that has become doomed meanwhile is
 * not answered OK; it gets EXPIRED once the session's EXPIRE is applied. */

#ifndef HASP_CORE_SESSION_LEASE_H
#define HASP_CORE_SESSION_LEASE_H

#include "core/command.h"
#include "lockfsm/lockfsm.h"
#include "net/resp.h"

struct core;

/* Proposes what was due by 'read_ns' (see core_turn()); an EXPIRE only after a
 * confirmation asked for after the deadline. */
void lease_turn(struct core *core, uint64_t read_ns);
uint64_t lease_next(const struct core *core);
/* A heartbeat of the session was received at that time and is not refused:
 * moves its deadline. False: the session is unknown or doomed. */
bool lease_renew(struct core *core, uint64_t session, uint64_t received_ns);
/* A session has ended: answers the heartbeats that waited for that. */
void lease_sessions_ended(struct core *core);

/* True if 'proof' is that of the session's secret; takes constant time. A Redis
 * value has no secret. */
bool lease_proof_is(const struct session *session,
                    const uint8_t proof[PROOF_SIZE]);
/* Writes ttl_ms, linger_ms and trust_ms (three pairs). */
void lease_put_times(struct resp_writer *writer, const struct session *session);
/* Writes a time of its lease; null if it has none. */
void lease_put_time(struct resp_writer *writer, const struct session *session,
                    uint64_t time_ms);

#endif /* HASP_CORE_SESSION_LEASE_H */
