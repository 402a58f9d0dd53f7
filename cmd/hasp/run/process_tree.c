/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/run/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "client/clock.h"
#include "client/proc_stat.h"

/* Rounds in search of new members: some start others faster than they are
 * found; process_tree_kill() stops those that never end. */
#define ROUNDS_MAX 20
#define ENVIRONMENT_MAX (1024 * 1024)
/* All are dead if this many rounds in a row find none: one round can miss a
 * process that forks and exits. */
#define EMPTY_LOOKS 3
/* This many rounds have no pause, in which such a process could continue. */
#define HASTY_LOOKS 100
/* Time limit for a process that hangs in the kernel. */
#define KILL_LIMIT_NS (10 * NS_PER_S)

struct tree_process {
    pid_t pid;
    struct proc_stat stat;
    bool is_member;
};

struct census {
    struct tree_process *process;
    size_t count;
    size_t capacity;
    /* Memory for an environment, allocated when one is first read. */
    char *text;
};

static bool read_process(pid_t pid, struct tree_process *ret_process)
{
    *ret_process = (struct tree_process){.pid = pid};
    return proc_stat_read(pid, &ret_process->stat);
}

static void add_process(struct census *census, pid_t pid)
{
    struct tree_process process;
    if (!read_process(pid, &process)) {
        return;
    }
    if (census->count == census->capacity) {
        census->capacity = census->capacity * 2 + 64;
        census->process = memory_resize(
            census->process, census->capacity * sizeof *census->process);
    }
    census->process[census->count++] = process;
}

static pid_t pid_of(const struct dirent *entry)
{
    return isdigit((unsigned char)entry->d_name[0])
               ? (pid_t)strtol(entry->d_name, NULL, 10)
               : 0;
}

/* Adds the children of one thread, listed as "12 345 ". False if there is no
 * such list. */
static bool add_children_of_thread(struct census *census, pid_t pid,
                                   pid_t thread)
{
    char path[64], text[4096];
    size_t kept = 0;
    ssize_t got;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid,
             (long)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    while ((got = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        char *from = text, *blank;
        text[kept + (size_t)got] = '\0';
        while ((blank = strchr(from, ' ')) != NULL) {
            add_process(census, (pid_t)strtol(from, NULL, 10));
            from = blank + 1;
        }
        kept = strlen(from);
        memmove(text, from, kept);
    }
    close(fd);
    return true;
}

static bool add_children(struct census *census, pid_t pid)
{
    char path[32];
    struct dirent *entry;
    bool has_list = false;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (pid_of(entry) != 0) {
            has_list |= add_children_of_thread(census, pid, pid_of(entry));
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return has_list;
}

/* Adds all descendants of 'hasp run'; false if they cannot be found. */
static bool take_tree(struct census *census, pid_t run)
{
    census->count = 0;
    if (!add_children(census, run)) {
        return false;
    }
    for (size_t i = 0; i < census->count; i++) {
        add_children(census, census->process[i].pid);
    }
    return true;
}

static void take_census(struct census *census, const struct process_tree *tree)
{
    struct dirent *entry;
    if (tree->run != 0 && take_tree(census, tree->run)) {
        return;
    }
    DIR *folder = opendir("/proc");
    census->count = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (pid_of(entry) != 0) {
            add_process(census, pid_of(entry));
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* True if HASP_RUNS in the initial environment of this thread's process names
 * this run. A thread that has ended has no environment. */
static bool thread_has_run_id(struct census *census, pid_t pid, pid_t thread,
                              const char *run_id)
{
    char path[64];
    size_t size = 0;
    bool has = false;
    if (census->text == NULL) {
        census->text = memory_new(ENVIRONMENT_MAX);
    }
    char *text = census->text;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/environ", (long)pid,
             (long)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && size < ENVIRONMENT_MAX - 1) {
        ssize_t got = read(fd, text + size, ENVIRONMENT_MAX - 1 - size);
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[size] = '\0';
    for (size_t at = 0; at < size && !has; at += strlen(text + at) + 1) {
        has = strncmp(text + at, "HASP_RUNS=", 10) == 0 &&
              strstr(text + at, run_id) != NULL;
    }
    return has;
}

static bool has_run_id(struct census *census,
                       const struct tree_process *process, const char *run_id)
{
    char path[32];
    struct dirent *entry;
    bool has = thread_has_run_id(census, process->pid, process->pid, run_id);
    if (has || process->stat.state != 'Z') {
        return has;
    }
    snprintf(path, sizeof path, "/proc/%ld/task", (long)process->pid);
    DIR *folder = opendir(path);
    while (folder != NULL && !has && (entry = readdir(folder)) != NULL) {
        has = pid_of(entry) != 0 &&
              thread_has_run_id(census, process->pid, pid_of(entry), run_id);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return has;
}

/* The state is that of the main thread: Z once it has ended, while other
 * threads may still run and write. */
static bool is_alive(const struct tree_process *process)
{
    return process->stat.threads > 1 ||
           (process->stat.state != 'Z' && process->stat.state != 'X');
}

static const struct tree_process *process_tree_find(const struct census *census,
                                                    pid_t pid)
{
    for (size_t i = 0; i < census->count; i++) {
        if (census->process[i].pid == pid) {
            return &census->process[i];
        }
    }
    return NULL;
}

static bool is_kin(const struct process_tree *tree, const struct census *census,
                   const struct tree_process *process, int number)
{
    if (process->pid == tree->command ||
        (tree->run != 0 && process->stat.parent == tree->run)) {
        return true;
    }
    const struct tree_process *parent = process_tree_find(census,
                                                          process->stat.parent);
    return parent != NULL && parent->is_member &&
           (number != SIGCONT ||
            strcmp(parent->stat.name, PROCESS_TREE_RUN_NAME) != 0);
}

static bool may_be_member(const struct process_tree *tree,
                          const struct tree_process *process)
{
    return !process->is_member && process->pid != getpid() &&
           process->pid != tree->run &&
           strcmp(process->stat.name, PROCESS_TREE_GUARDIAN_NAME) != 0;
}

static bool is_noted(const struct process_tree_roll *roll,
                     const struct tree_process *process)
{
    for (size_t i = 0; roll != NULL && i < roll->count; i++) {
        if (roll->entry[i].pid == process->pid &&
            roll->entry[i].start == process->stat.start) {
            return true;
        }
    }
    return false;
}

/* Marks all members. */
static void find_members(const struct process_tree *tree, struct census *census,
                         int number)
{
    bool has_new = true;
    for (size_t i = 0; tree->run == 0 && i < census->count; i++) {
        struct tree_process *process = &census->process[i];
        if (may_be_member(tree, process) && is_alive(process)) {
            process->is_member = is_noted(tree->roll, process) ||
                                 has_run_id(census, process, tree->run_id);
        }
    }
    while (has_new) {
        has_new = false;
        for (size_t i = 0; i < census->count; i++) {
            struct tree_process *process = &census->process[i];
            if (may_be_member(tree, process) &&
                is_kin(tree, census, process, number)) {
                process->is_member = true;
                has_new = true;
            }
        }
    }
}

void process_tree_note(const struct process_tree *tree,
                       struct process_tree_roll *roll)
{
    struct census census = {0};
    struct tree_process run;
    if (take_tree(&census, tree->run) && read_process(tree->run, &run) &&
        is_alive(&run)) {
        find_members(tree, &census, SIGKILL);
        roll->count = 0;
        if (roll->capacity < census.count) {
            roll->capacity = census.count;
            roll->entry = memory_resize(roll->entry,
                                        roll->capacity * sizeof *roll->entry);
        }
        for (size_t i = 0; i < census.count; i++) {
            if (census.process[i].is_member) {
                roll->entry[roll->count++] = (struct process_tree_entry){
                    census.process[i].pid, census.process[i].stat.start};
            }
        }
    }
    free(census.process);
    free(census.text);
}

size_t process_tree_signal(const struct process_tree *tree, int number)
{
    struct census census = {0};
    size_t alive = 0;
    bool has_new = true;
    kill(-tree->command, number);
    pid_t *done = NULL;
    size_t done_count = 0;
    for (int round = 0; has_new && round < ROUNDS_MAX; round++) {
        has_new = false;
        alive = 0;
        take_census(&census, tree);
        find_members(tree, &census, number);
        for (size_t i = 0; i < census.count; i++) {
            const struct tree_process *process = &census.process[i];
            bool is_done = false;
            if (!process->is_member || !is_alive(process)) {
                continue;
            }
            alive++;
            for (size_t d = 0; d < done_count && !is_done; d++) {
                is_done = done[d] == process->pid;
            }
            if (!is_done) {
                kill(process->pid, number);
                done = memory_resize(done, (done_count + 1) * sizeof *done);
                done[done_count++] = process->pid;
                has_new = true;
            }
        }
    }
    free(done);
    free(census.process);
    free(census.text);
    return alive;
}

bool process_tree_kill(const struct process_tree *tree)
{
    uint64_t until_ns = client_now_ns() + KILL_LIMIT_NS, pause_ms = 1;
    int empty = 0;
    for (int look = 0; empty < EMPTY_LOOKS; look++) {
        empty = process_tree_signal(tree, SIGKILL) == 0 ? empty + 1 : 0;
        if (client_now_ns() >= until_ns) {
            return false;
        }
        if (empty == 0 && look >= HASTY_LOOKS) {
            client_sleep_ms(pause_ms);
            pause_ms = pause_ms < 50 ? pause_ms * 2 : 50;
        }
    }
    return true;
}
