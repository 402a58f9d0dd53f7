/* SPDX-License-Identifier: MIT */

/* The command that 'hasp run' runs: started in a process group of its own,
 * watched together with the lease, stopped before the lock can pass on.
 *
 * What is done, by how long the lease may still be trusted and --on-lost:
 *
 *                 term             kill             freeze           ignore
 *     <= grace    TERM             -                STOP             -
 *     <= margin   KILL             KILL             STOP             -
 *     more again  -                -                CONT             -
 *     lost        KILL             KILL             KILL             a message
 *
 * A refusal of the server (BLACKLISTED) counts like "<= grace" at once: the
 * lease will not be prolonged. "lost" is also the end of the hold itself (its
 * maximum, or somebody who released it for us). The margin is for the time that
 * a signal takes.
 *
 * TERM goes to the group of the command; STOP and KILL to all that it has
 * started (process_tree.h). A guardian (guardian.h) does the same when this
 * process is killed or stands still; if the guardian is killed, the command is
 * stopped. The timer is one of CLOCK_BOOTTIME, so that it is due at once when a
 * suspended machine wakes up.
 *
 * The command has the terminal while it runs, if we had it: its group is the
 * one in the foreground. In a pipeline the others of it may want to read the
 * terminal; then the command gets it when it first asks. If the command is
 * stopped by the terminal or by a forwarded SIGTSTP, we stop as well; meanwhile
 * nobody sends heartbeats. */

#ifndef HASP_CMD_HASP_RUN_CHILD_H
#define HASP_CMD_HASP_RUN_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/hasp/run/guardian.h"
#include "include/hasp/hasp.h"

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_FREEZE, ON_LOST_IGNORE };

struct child {
    /* Set by the caller. */
    char **argv;
    char **environment;
    enum on_lost on_lost;
    uint64_t grace_ns;
    uint64_t margin_ns;
    int signal_fd; /* A signalfd of child_signals(), which are blocked. */
    struct hasp_session *session;
    struct hasp_hold *hold;
    const char *name;   /* Of the lock, for messages, in quotes. */
    const char *run_id; /* struct family has it. */
    bool is_quiet;
    sigset_t mask; /* For the command: what was there before. */

    pid_t pid; /* The rest is private; also the id of the group. */
    struct guardian guardian;
    int timer_fd;
    int status;
    bool has_ended;
    bool has_terminal; /* There is one, in whose foreground we were. */
    bool stops_along;
    bool is_termed;
    bool is_frozen;
    bool is_lost;
    bool was_lost;         /* At its end. */
    bool has_survivors;    /* Of what was to be killed, for the caller. */
    uint64_t unguarded_ns; /* Since when; 0: it is guarded. */
};

/* The signals that end a wait and are forwarded to the command. */
void child_signals(sigset_t *ret_signals);

/* Starts the command. On an error says so and returns 126 or 127, as a shell
 * would; 0 else. */
int child_start(struct child *child);

/* Watches until the command has ended; returns its exit code (128 + n for a
 * signal), or EXIT_LOCK_LOST if it was stopped, or ended, without the lock. */
int child_watch(struct child *child);

#endif /* HASP_CMD_HASP_RUN_CHILD_H */
