/* SPDX-License-Identifier: MIT */

/* All processes that a command has started: its children, their children, and
 * those that left its process group or its session or lost their parent.
 *
 * They are found in /proc, in rounds until a round finds no new one:
 *
 *     by parent        from the command on; 'hasp run' is a subreaper
 *                      (prctl(2)), so that orphans become its own children;
 *                      from parent to child if the kernel lists children,
 *                      which is fast enough for one that forks all the time
 *     by environment   if 'hasp run' is dead, and init has adopted the orphans:
 *                      HASP_RUNS contains the id of the run
 *     by memory        if it is dead: the members of the last check
 *
 * A guardian is never among them: it must outlive what it guards. Processes
 * that others start on the command's behalf (a service manager, cron, a
 * container engine) are not found; nor, once 'hasp run' is dead, those that
 * since the last check left the group, lost their parent and emptied their
 * environment, or that fork and exit faster than they are found. */

#ifndef HASP_CMD_HASP_RUN_PROCESS_TREE_H
#define HASP_CMD_HASP_RUN_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names as ps(1) shows them, and as this code recognizes them. */
#define PROCESS_TREE_RUN_NAME "hasp-run"
#define PROCESS_TREE_GUARDIAN_NAME "hasp-guardian"

/* The members of a family at one time. Pids are reused, but not with the same
 * start time. */
struct process_tree_roll {
    struct process_tree_entry {
        pid_t pid;
        uint64_t start;
    } * entry;
    size_t count;
    size_t capacity;
};

struct process_tree {
    pid_t command;      /* The command, leader of its group. */
    pid_t run;          /* 'hasp run'; 0: it is dead. */
    const char *run_id; /* Prefix of its entry in HASP_RUNS. */
    const struct process_tree_roll
        *roll; /* Used once 'hasp run' is dead; or NULL. */
};

/* Records the members while 'hasp run' is alive; 'roll' is unchanged if that
 * is dead, or if the kernel does not list children. */
void process_tree_note(const struct process_tree *tree,
                       struct process_tree_roll *roll);

/* Sends SIGSTOP, SIGCONT or SIGKILL to the group of the command and to all of
 * the family. SIGCONT is not sent to what another 'hasp run' in the family
 * guards: that run decides whether to continue it. Returns the number of
 * members that are alive, not counting zombies. */
size_t process_tree_signal(const struct process_tree *tree, int number);

/* Kills the members repeatedly until none is alive, for at most 10 s: one that
 * hangs in the kernel dies when it returns. Returns whether all are dead. */
bool process_tree_kill(const struct process_tree *tree);

#endif /* HASP_CMD_HASP_RUN_PROCESS_TREE_H */
