/* SPDX-License-Identifier: MIT */

/* Ties of this process's sessions to itself, at the agent of this host
 * (cmd/hasp/agent/visitor.h has the lines). When the process dies, the agent
 * ends them in the cluster.
 *
 * A process has one connection for each path of an agent, and a thread for it.
 * If the connection ends, the thread connects and ties again. An agent that
 * hangs or is away delays nothing but tie_wait() and tie_end().
 *
 * The agent keeps a tie when a connection ends, so a session that was once tied
 * can be tied until UNTIE is answered.
 *
 * Threads: any. 'changed' is called on the agent's thread. */

#ifndef HASP_CLIENT_TIE_H
#define HASP_CLIENT_TIE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/credentials.h"
#include "client/endpoints.h"

#define TIE_SOCKET_DEFAULT "/run/hasp-agent/agent.sock"
/* Time limit for an answer of the agent. */
#define TIE_ANSWER_MS 1000

struct tie;

/* The session is no longer tied, or could not be tied; 'why' is for people. It
 * is reported once until the session is tied again. */
typedef void tie_changed_fn(void *data, const char *why);

/* Starts to tie a session: 'death_word' has its id and its death word.
 * 'path' NULL: the environment's HASP_AGENT, or TIE_SOCKET_DEFAULT.
 * HASP_ENOMEM, HASP_EIO: no thread. */
MUST_CHECK int tie_begin(const char *path, const struct credentials *death_word,
                         uint64_t ttl_ms, tie_changed_fn *changed, void *data,
                         struct tie **ret_tie);
/* Waits until it is tied; false with the reason, after TIE_ANSWER_MS at most.
 */
bool tie_wait(struct tie *tie, char why[HASP_WHY_SIZE]);
bool tie_is_tied(struct tie *tie);
/* Unties, and waits for the answer; false with the reason: it may still be
 * tied, and stays in the agent. A session that is untied stays untied. */
bool tie_undo(struct tie *tie, char why[HASP_WHY_SIZE]);
/* 'changed' is no longer called. NULL is ignored. */
void tie_quiet(struct tie *tie);
/* Frees it; 'changed' is not called afterwards. UNTIE is sent and not waited
 * for. NULL is ignored. Not in a child of fork(), which has no ties. */
void tie_end(struct tie *tie);

/* When the process of that /proc/PID/stat was started (its field 22); 0 if it
 * cannot be read. */
uint64_t tie_start_of(const char *path);

#endif /* HASP_CLIENT_TIE_H */
