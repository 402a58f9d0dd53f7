/* SPDX-License-Identifier: MIT */

/* 'hasp run' inside of 'hasp run': what the outer ones hold, as HASP_RUNS in
 * the environment tells, so that an inner one does not wait for what only its
 * own end would free.
 *
 * HASP_RUNS is a list, separated by spaces, the outermost first:
 *
 *     ID:MODE:SLOTS:SESSION:TOKEN:NAME
 *
 * ID is "pid.nanoseconds", of this machine and no other run; MODE is x
 * (exclusive), s (shared) or n (slots); NAME is the lock's, with %XX for what
 * is no letter, digit or one of "-._/". */

#ifndef HASP_CMD_HASP_RUN_NESTED_RUNS_H
#define HASP_CMD_HASP_RUN_NESTED_RUNS_H

#include "base/bytes.h"
#include "cmd/hasp/acquire.h"

#define NESTED_RUNS_ID_SIZE 64

/* The ID of this run with the colon after it. */
void nested_runs_make_id(char id[NESTED_RUNS_ID_SIZE]);

/* Appends the value for the command: what stands in our own environment, and
 * this run. */
void nested_runs_put(struct buffer *out, const char *id,
                     const struct acquire_options *options,
                     const struct acquired *acquired);

/* Says no (an exit code, explained) if this request would wait for a lock that
 * a run around this one holds, without end; 0 else. A shared one inside of a
 * shared one is told to try only: a writer may be in the queue, which waits for
 * the outer one. The cluster is asked whether what the environment says still
 * holds. */
int nested_runs_check(struct tool *tool, struct acquire_options *options);

#endif /* HASP_CMD_HASP_RUN_NESTED_RUNS_H */
