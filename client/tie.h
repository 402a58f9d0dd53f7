/* SPDX-License-Identifier: MIT */

/* Ties of this process's sessions to itself, at the agent of this host
 * (cmd/hasp/agent/visitor.h has the lines). When the process dies, the agent
 * ends them in the cluster.
 *
 * A process has one connection for each path of an agent, and a thread for it.
 * If the connection ends, the thread connects and ties again. An agent that
 * hangs or is away delays nothing but tie_wait() and tie_undo().
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
/* Time limit for a tie, or for its end: a line before it may be unanswered. */
#define TIE_WAIT_MS (2 * TIE_ANSWER_MS)

struct tie;

/* Something has changed: tie_look() and tie_undo_step() can have another
 * answer. 'why' not NULL: the session is no longer tied, or could not be tied;
 * the text is for people, and comes once until the session is tied again. */
typedef void tie_changed_fn(void *data, const char *why);

enum tie_progress { TIE_PENDING, TIE_DONE, TIE_FAILED };

/* Starts to tie a session: 'death_word' has its id and its death word.
 * 'path' NULL: the environment's HASP_AGENT, or TIE_SOCKET_DEFAULT.
 * HASP_ENOMEM, HASP_EIO: no thread. */
MUST_CHECK int tie_begin(const char *path, const struct credentials *death_word,
                         uint64_t ttl_ms, tie_changed_fn *changed, void *data,
                         struct tie **ret_tie);
/* Whether it is tied by now. TIE_FAILED: with the reason. */
enum tie_progress tie_look(struct tie *tie, char why[HASP_WHY_SIZE]);
/* Waits for tie_look(), TIE_WAIT_MS at most; false with the reason. */
bool tie_wait(struct tie *tie, char why[HASP_WHY_SIZE]);
bool tie_is_tied(struct tie *tie);
/* If no TIE is without its UNTIE, the session stays untied for good: true. */
bool tie_forgo(struct tie *tie);
/* Unties: is called again after each change until it is not TIE_PENDING, and
 * with 'is_late' once TIE_WAIT_MS are over. TIE_FAILED with the reason: the
 * session may still be tied, and stays in the agent. A session that is untied
 * stays untied. */
enum tie_progress tie_undo_step(struct tie *tie, bool is_late,
                                char why[HASP_WHY_SIZE]);
/* Does all steps, and waits between them; false with the reason. */
bool tie_undo(struct tie *tie, char why[HASP_WHY_SIZE]);
/* 'changed' is no longer called. NULL is ignored. */
void tie_quiet(struct tie *tie);
/* Frees it; 'changed' is not called afterwards. UNTIE is sent and not waited
 * for. NULL is ignored. Not in a child of fork(), which has no ties. */
void tie_end(struct tie *tie);

#endif /* HASP_CLIENT_TIE_H */
