/* SPDX-License-Identifier: MIT */

/* All that a command has started, wherever it went: its children, theirs, and
 * those that left its process group or its session or lost their parent.
 *
 * They are found in /proc, in rounds until no new one turns up:
 *
 *     by parent        from the command on; 'hasp run' is a subreaper
 *                      (prctl(2)), so that orphans become its own children;
 *                      from parent to child where the kernel lists children,
 *                      which is quick enough for one that forks all the time
 *     by environment   when 'hasp run' is dead, and orphans have gone to init:
 *                      HASP_RUNS has the number of the run in it
 *     by memory        likewise: who belonged to it the last time one looked
 *
 * A guardian is never among them: it must outlive what it guards. Not found is
 * what was started by somebody else on the command's behalf (a service manager,
 * cron, a container engine), and, once 'hasp run' is dead, what has left the
 * group, lost its parent and emptied its environment since one last looked, or
 * forks and exits faster than it is found. */

#ifndef HASP_CMD_HASP_RUN_PROCESS_TREE_H
#define HASP_CMD_HASP_RUN_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As ps(1) shows them, and as they are known here. */
#define PROCESS_TREE_RUN_NAME "hasp-run"
#define PROCESS_TREE_GUARDIAN_NAME "hasp-guardian"

/* Who belonged to a family. Numbers of processes are used again, but not with
 * the same time of start. */
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
    const char *run_id; /* Its entry in HASP_RUNS begins with it. */
    const struct process_tree_roll *roll; /* For when it is dead; or NULL. */
};

/* Looks who belongs to it while 'hasp run' lives; 'roll' stays as it is if that
 * has died, or where the kernel does not list children. */
void process_tree_note(const struct process_tree *tree,
                       struct process_tree_roll *roll);

/* Sends SIGSTOP, SIGCONT or SIGKILL to the group of the command and to all of
 * the family. SIGCONT stops short of what another 'hasp run' in the family
 * guards, which wakes that by itself, or does not. Returns how many are alive,
 * not counting the dead that nobody has fetched. */
size_t process_tree_signal(const struct process_tree *tree, int number);

/* Kills them again and again until none is alive, for at most 10 s: one that
 * hangs in the kernel dies when it comes back. Returns whether all are dead. */
bool process_tree_kill(const struct process_tree *tree);

#endif /* HASP_CMD_HASP_RUN_PROCESS_TREE_H */
