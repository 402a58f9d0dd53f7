/* SPDX-License-Identifier: MIT */

/* The command that 'hasp run' runs: started in a process group of its own,
 * watched together with the lease, stopped before the lock can pass on.
 *
 * The action depends on how long the lease can still be trusted, and on
 * --on-lost:
 *
 *                 term             kill             freeze           ignore
 *     <= grace    TERM             -                STOP             -
 *     <= margin   KILL             KILL             STOP             -
 *     more again  -                -                CONT             -
 *     lost        KILL             KILL             KILL             a message
 *
 * A refusal by the server (BLACKLISTED) counts as "<= grace" at once, since the
 * lease will not be renewed. "lost" is also the end of the hold itself (--hold,
 * or another client that released it). The margin is the time that a signal
 * takes.
 *
 * TERM goes to the group of the command; STOP and KILL to all that it has
 * started (process_tree.h). A guardian (guardian.h) does the same when this
 * process is killed or stopped; if the guardian is killed, the command is
 * stopped. The timer uses CLOCK_BOOTTIME, so it is due at once when a suspended
 * machine wakes up.
 *
 * While it runs, the command has the terminal if we had it: its group is in the
 * foreground. In a pipeline other processes may need the terminal; then the
 * command gets it at its first read. If the command is
 * stopped by the terminal or by a forwarded SIGTSTP, we stop as well; meanwhile
 * nobody sends heartbeats.
 *
 * A command can have a limit (--seal): what runs longer is killed as a whole.
 */

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
    const char *name;    /* Name of the lock in quotes, for messages. */
    char *const *report; /* As in struct guardian_ward. */
    const char *report_text;
    const char *run_id; /* struct family has it. */
    bool is_quiet;
    sigset_t mask; /* Environment of the command. */
    /* All that the command has started is killed after this time; 0: never. */
    uint64_t limit_ns;

    pid_t pid; /* The rest is private. Also the id of the process group. */
    struct guardian guardian;
    int timer_fd;
    int status;
    uint64_t started_ns;
    bool is_late; /* It was killed at its limit. */
    bool has_ended;
    bool has_terminal; /* There is a terminal, and we were in its foreground. */
    bool stops_along;
    bool is_termed;
    bool is_frozen;
    bool is_lost;
    bool was_lost; /* Exit status of the command. */
    bool
        has_survivors; /* Processes that could not be killed, for the caller. */
    uint64_t
        unguarded_ns; /* Since when there is no guardian; 0: there is one. */
};

/* The signals that end a wait and are forwarded to the command. */
void child_signals(sigset_t *ret_signals);

/* Starts the command. Returns 0, or 126 or 127 as a shell would, explained. */
int child_start(struct child *child);

/* Watches until the command has ended; returns its exit code (128 + n for a
 * signal), or EXIT_LOCK_LOST if it was stopped, or ended, without the lock. */
int child_watch(struct child *child);

#endif /* HASP_CMD_HASP_RUN_CHILD_H */
