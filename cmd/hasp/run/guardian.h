/* SPDX-License-Identifier: MIT */

/* The guardian of 'hasp run': a separate process that stops the command in time
 * if 'hasp run' cannot, because it was killed or stopped.
 *
 *     shell
 *       hasp-run            keeps the session; publishes the deadlines
 *         |  hasp-guardian    kills the family at the deadline, or at
 *         |    |              hasp-run's death; in its own session, so that no
 *         |    |              signal to a group or a terminal reaches it
 *         |    hasp-guardian  its deputy does the same, in another session: it
 *         |                   is left if hasp-run and its guardian are killed
 *         |                   or stopped together
 *         `- command          in its own group; the kernel kills it when
 *                             hasp-run dies (PR_SET_PDEATHSIG)
 *
 * The deadlines are in a shared page, on both clocks, and the nearer one
 * counts. Only an answered heartbeat moves them, and only into the future; so a
 * half-written one is just the older one. There are two of them:
 *
 *     first   a warning: TERM, or STOP until the lease is safe again
 *     kill    KILL
 *
 * 'hasp run' does the same itself, a little earlier. The guardian records its
 * actions in the page. Once 'hasp run' is dead and its family has been killed,
 * to the last process, it becomes 'hasp died', which ends the session at once.
 * The death of 'hasp run' closes a pipe, which no other process has; a timer of
 * CLOCK_BOOTTIME is due at once when a suspended machine wakes up. The guardian
 * ignores the signals that it can; its own death is a SIGCHLD for 'hasp run',
 * that of its deputy is recorded in the page. If all three are killed or
 * stopped at once, only the kernel is left: it kills the command, and knows
 * nothing of deadlines. */

#ifndef HASP_CMD_HASP_RUN_GUARDIAN_H
#define HASP_CMD_HASP_RUN_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lease/lease.h"

#define GUARDIAN_NEVER UINT64_MAX

struct guardian_page;

struct guardian {
    pid_t pid; /* 0: it died or was dismissed. */
    int life_fd;
    struct guardian_page *page;
};

struct guardian_ward {
    pid_t command;
    const char *run_id; /* struct family has it. */
    int first_signal;   /* SIGTERM or SIGSTOP. */
    int go_fd;          /* Receives a byte once the command may be started. */
    /* The arguments of 'hasp' that report the death of 'hasp run' and of all
     * that the command has started, and what they read from stdin. NULL:
     * none. */
    char *const *report;
    const char *report_text;
};

/* Creates the page, without a deadline; call it before guardian_start().
 * HASP_ENOMEM. */
MUST_CHECK int guardian_init(struct guardian *guardian);
/* Starts the process; HASP_EIO with errno. */
MUST_CHECK int guardian_start(struct guardian *guardian,
                              const struct guardian_ward *ward);

/* The lease, read no earlier than 'at', can be trusted for this long;
 * GUARDIAN_NEVER: no such deadline. */
void guardian_trust(struct guardian *guardian, struct lease_clock at,
                    uint64_t first_ns, uint64_t kill_ns);

/* What the guardian has done. */
bool guardian_has_warned(const struct guardian *guardian);
bool guardian_has_killed(const struct guardian *guardian);
/* Its deputy has died. */
bool guardian_is_alone(const struct guardian *guardian);
/* SIGCONT was sent after the warning. */
void guardian_forget_warning(struct guardian *guardian);

/* Ends the guardian and its deputy, whatever they do, and waits for that: only
 * then may the command be reaped and its pid reused. The deputy becomes our
 * child when its parent is gone, so we must be a subreaper (prctl(2)). */
void guardian_dismiss(struct guardian *guardian);
/* Call it for a reaped 'pid': was it the guardian, or its deputy? */
bool guardian_take_death(struct guardian *guardian, pid_t pid);
void guardian_done(struct guardian *guardian);

#endif /* HASP_CMD_HASP_RUN_GUARDIAN_H */
