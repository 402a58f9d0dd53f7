/* SPDX-License-Identifier: MIT */

/* Shows a person the progress of a wait for locks. On a terminal this is one
 * line, kept up to date: the position in the queue, the holder and since when,
 * and the earliest time at which the lock could be free. Elsewhere it is a
 * line whenever the holder has changed. A thread with its own connection does
 * it, since the wait uses ours. */

#ifndef HASP_CMD_HASP_WAITING_H
#define HASP_CMD_HASP_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/hasp/options.h"
#include "cmd/hasp/tool.h"

struct waiting_view;

/* Starts it, once the wait has lasted a moment. Returns NULL if 'is_waiting'
 * is false, with --quiet, or if no thread can be started. */
struct waiting_view *waiting_begin(struct tool *tool,
                                   const struct option_list *names,
                                   uint64_t session, bool is_waiting);

/* Ends it; prints "got it after 14 s" if anything was printed. NULL is fine.
 */
void waiting_end(struct waiting_view *waiting, bool is_acquired);

#endif /* HASP_CMD_HASP_WAITING_H */
