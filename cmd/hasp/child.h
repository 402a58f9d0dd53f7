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
 * The group is signalled, not only the command: what it started belongs to it.
 * If the tool itself is killed, the kernel kills the command. The timer is one
 * of CLOCK_BOOTTIME, so that it is due at once when a suspended machine wakes
 * up. */

#ifndef HASP_CMD_HASP_CHILD_H
#define HASP_CMD_HASP_CHILD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/keeper.h"

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_FREEZE, ON_LOST_IGNORE };

struct child {
    /* Set by the caller. */
    char **argv;
    char **environment;
    enum on_lost on_lost;
    uint64_t grace_ns;
    uint64_t margin_ns;
    int signal_fd; /* A signalfd of child_signals(), which are blocked. */
    struct keeper *keeper;
    atomic_bool *hold_has_ended; /* Set by the keeper's thread. */
    const char *name;            /* Of the lock, for messages. */
    bool is_quiet;

    pid_t pid; /* The rest is private; also the id of the group. */
    int timer_fd;
    int status;
    bool has_ended;
    bool has_terminal;
    bool is_termed;
    bool is_frozen;
    bool is_lost;
    bool was_lost; /* At its end. */
    sigset_t mask; /* For the command: what was there before. */
};

/* The signals that are forwarded, and SIGCHLD. */
void child_signals(sigset_t *ret_signals);

/* Starts the command. On an error says so and returns 126 or 127, as a shell
 * would; 0 else. */
int child_start(struct child *child);

/* Watches until the command has ended; returns its exit code (128 + n for a
 * signal), or EXIT_LOCK_LOST if it was stopped, or ended, without the lock. */
int child_watch(struct child *child);

#endif /* HASP_CMD_HASP_CHILD_H */
