/* SPDX-License-Identifier: MIT */

/* 'hasp run' inside 'hasp run': HASP_RUNS in the environment lists the locks of
 * the outer runs, so that an inner one does not wait for a lock that only its
 * own end would free.
 *
 * HASP_RUNS is a list, separated by spaces, the outermost first:
 *
 *     ID:MODE:SLOTS:SESSION:TOKEN:NAME
 *
 * ID is "pid.nanoseconds", of this machine and no other run; MODE is x
 * (exclusive), s (shared) or n (slots); NAME is the lock's, with %XX for
 * every byte except letters, digits and "-._/". */

#ifndef HASP_CMD_HASP_RUN_NESTED_RUNS_H
#define HASP_CMD_HASP_RUN_NESTED_RUNS_H

#include "base/bytes.h"
#include "cmd/hasp/acquire.h"

#define NESTED_RUNS_ID_SIZE 64

/* The ID of this run, followed by a colon. */
void nested_runs_make_id(char id[NESTED_RUNS_ID_SIZE]);

/* Appends the value for the command: that of our own environment, and an entry
 * for this run. */
void nested_runs_put(struct buffer *out, const char *id,
                     const struct acquire_options *options,
                     const struct acquired *acquired);

/* Returns an exit code, explained, if this request would wait forever for a
 * lock that a run around this one holds; 0 otherwise. A shared request inside
 * a shared run only tries: a queued writer could wait for the outer run. The
 * cluster is asked whether the environment is still right. */
int nested_runs_check(struct tool *tool, struct acquire_options *options);

#endif /* HASP_CMD_HASP_RUN_NESTED_RUNS_H */
