/* SPDX-License-Identifier: MIT */

/* Events: the effects of entries, pushed to the watchers of this node.
 *
 * RESP3 clients watch prefixes (LOCK.WATCH) and get pushes [lock, kind, {lock,
 * session, token, index, message, id}]. RESP2 clients (and 3) SUBSCRIBE to
 * "lock:name" or PSUBSCRIBE to "lock:prefix*" and get messages whose payload is
 * the same map with the kind, as JSON. Kinds: granted, queued, released,
 * expired, wait-ended, delayed, delay-over, please, blacklisted (once for each
 * lock that the session holds), gap; the message is the reason, or the text of
 * a PLEASE. A PLEASE also goes to connections attached to a holder's session,
 * without a watch, if they can receive pushes. */

#ifndef HASP_CORE_EVENTS_EVENTS_H
#define HASP_CORE_EVENTS_EVENTS_H

#include "core/command.h"
#include "lockfsm/lockfsm.h"

struct conn;
struct core;
struct event_log_id;

void events_effect(struct core *core, const struct effect *effect);
/* A snapshot has replaced the state, and events between the two were missed:
 * sends watchers a `gap`. */
void events_missed(struct core *core);
/* A wait is over: pushes [lock, answer, {session, owner, index, wait, tokens}]
 * to connections of its session that used PUSH. The push may be lost, late or
 * repeated: 'wait' says which wait it was, and the result is also stored under
 * the request's number. Without 'tokens' the client must ask for it. */
void events_answer(struct core *core, const struct effect *effect);
/* The same push from the leader, sooner than this node could send its own. */
void events_relay(struct core *core, struct conn *conn, struct bytes push);
/* Sends the connection what has happened since the event 'id' to locks with the
 * prefix, or a `gap` if this node no longer has all of it. */
void events_again(struct core *core, struct conn *conn, struct bytes prefix,
                  const struct event_log_id *id);
/* Events that are checked for one unit of the account. */
#define EVENTS_PER_UNIT 64

#endif /* HASP_CORE_EVENTS_EVENTS_H */
