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

/* Handlers of commands (core/command.h). */
command_parse_fn lock_watch_parse;
command_run_fn lock_watch_run;
command_run_fn lock_history_run;
command_run_fn lock_unwatch_run;
command_parse_fn watch_texts_check;
command_run_fn subscribe_run;
command_run_fn unsubscribe_run;
command_run_fn psubscribe_run;
command_run_fn punsubscribe_run;

#endif /* HASP_CORE_EVENTS_EVENTS_H */
