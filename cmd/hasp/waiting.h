/* SPDX-License-Identifier: MIT */

/* What a person sees of a wait for locks: on a terminal one line that is kept
 * up to date (the place in the queue, who holds it since when, when it could be
 * free at the earliest), elsewhere a line when the holder has changed. It is
 * told by a thread with a connection of its own, since the wait has ours. */

#ifndef HASP_CMD_HASP_WAITING_H
#define HASP_CMD_HASP_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/hasp/options.h"
#include "cmd/hasp/tool.h"

struct waiting_view;

/* Begins to tell, unless the wait is over soon. NULL if 'is_waiting' is false,
 * with --quiet, or if there is no thread. */
struct waiting_view *waiting_begin(struct tool *tool,
                                   const struct option_list *names,
                                   uint64_t session, bool is_waiting);

/* The wait is over; "got it after 14 s" if anything was told. NULL is fine. */
void waiting_end(struct waiting_view *waiting, bool is_acquired);

#endif /* HASP_CMD_HASP_WAITING_H */
