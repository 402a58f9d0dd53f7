/* SPDX-License-Identifier: MIT */

/* The guardian of 'hasp run': a process of its own that stops the command in
 * time when 'hasp run' cannot, because it was killed or stands still.
 *
 *     shell
 *       hasp-run            keeps the session; tells how long it may be trusted
 *         |  hasp-guardian    kills the family at the deadline, or at
 *         |    |              hasp-run's death; in a session of its own, so
 *         |    |              that no signal to a group or a terminal reaches
 *         |    |              it
 *         |    hasp-guardian  its deputy does the same, in another session: one
 *         |                   is left when hasp-run and its guardian are killed
 *         |                   or stopped together
 *         `- command          in a group of its own; dies with hasp-run, by the
 *                             kernel's hand (PR_SET_PDEATHSIG)
 *
 * The deadlines stand in a page that both share, on both clocks, and the nearer
 * counts. Only an answered heartbeat moves them, and only further away; so one
 * of which half is written is just the older one. There are two of them:
 *
 *     first   a warning: TERM, or STOP until the lease is safe again
 *     kill    KILL
 *
 * 'hasp run' does the same itself, a little earlier; what the guardian has done
 * stands in the page, too. The death of 'hasp run' closes a pipe, which no
 * other process has; a timer of CLOCK_BOOTTIME is due at once when a suspended
 * machine wakes up. The guardian ignores what it can of the signals that end a
 * process; its own death is a SIGCHLD for 'hasp run', that of its deputy stands
 * in the page. If all three are killed at once, or stopped, the kernel alone is
 * left: it kills the command, and knows nothing of deadlines. */

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
    pid_t pid; /* 0: it has died, or was dismissed. */
    int life_fd;
    struct guardian_page *page;
};

struct guardian_ward {
    pid_t command;
    const char *run_id; /* struct family has it. */
    int first_signal;   /* SIGTERM or SIGSTOP. */
    int go_fd; /* Gets a byte when the command may be started, not before. */
};

/* Makes the page, without a deadline; before guardian_start(). HASP_ENOMEM. */
MUST_CHECK int guardian_init(struct guardian *guardian);
/* Starts the process; HASP_EIO with errno. */
MUST_CHECK int guardian_start(struct guardian *guardian,
                              const struct guardian_ward *ward);

/* The lease, looked at no earlier than at 'at', may be trusted for so long;
 * GUARDIAN_NEVER: no such deadline. */
void guardian_trust(struct guardian *guardian, struct lease_clock at,
                    uint64_t first_ns, uint64_t kill_ns);

/* What it has done. */
bool guardian_has_warned(const struct guardian *guardian);
bool guardian_has_killed(const struct guardian *guardian);
/* Its deputy has died. */
bool guardian_is_alone(const struct guardian *guardian);
/* The warning has been taken back: SIGCONT was sent. */
void guardian_forget_warning(struct guardian *guardian);

/* Ends it and its deputy, whatever they do, and waits for that: from then on
 * the number of the command may be used again. The deputy becomes our child
 * when its parent is gone: we have to be a subreaper (prctl(2)). */
void guardian_dismiss(struct guardian *guardian);
/* 'pid' was fetched from the dead: was it the guardian, or its deputy? */
bool guardian_take_death(struct guardian *guardian, pid_t pid);
void guardian_done(struct guardian *guardian);

#endif /* HASP_CMD_HASP_RUN_GUARDIAN_H */
