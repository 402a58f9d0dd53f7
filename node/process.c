/* SPDX-License-Identifier: MIT */

/* /proc/self/stat (proc(5)), and the folder of open files. */

#include "node/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

/* Connections allowed even with few descriptors. */
#define CONNECTIONS_LEAST 16

/* Reads /proc/self/stat. The program's name, in brackets, can contain any
 * character, so the numbers are read after the last bracket. */
static void read_stat(struct process *process)
{
    char text[1024];
    unsigned long long began, size;
    long long pages;
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL) {
        return;
    }
    size_t read = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[read] = '\0';
    const char *at = strrchr(text, ')');
    if (at == NULL ||
        sscanf(at + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %llu %llu %lld",
               &began, &size, &pages) != 3) {
        return;
    }
    /* /proc has the start in ticks since the boot. */
    double ticks = (double)sysconf(_SC_CLK_TCK);
    struct timespec now = {0}, since_boot = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    double booted_s = (double)(now.tv_sec - since_boot.tv_sec) +
                      (double)(now.tv_nsec - since_boot.tv_nsec) / 1e9;
    process->started_s = booted_s + (double)began / ticks;
    process->virtual_size = size;
    process->resident_size = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reads the CPU time in microseconds; /proc has ticks of 10 ms. */
static void read_time(struct process *process)
{
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        process->cpu_s = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    }
}

static void count_files(struct process *process)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return;
    }
    /* Do not count ".", ".." and the open folder. */
    uint64_t count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    process->open_files = count > 3 ? count - 3 : 0;
}

static void read_swapped(struct process *process)
{
    char line[128];
    long long kib;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "VmSwap: %lld kB", &kib) == 1) {
            process->swapped_size = kib * 1024;
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

void process_look(struct process *ret_process)
{
    struct rlimit files;
    *ret_process = (struct process){.swapped_size = -1};
    read_swapped(ret_process);
    read_stat(ret_process);
    read_time(ret_process);
    count_files(ret_process);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur != RLIM_INFINITY) {
        ret_process->most_files = files.rlim_cur;
    }
}

uint32_t process_connections(uint32_t configured, uint32_t files_left)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur == RLIM_INFINITY ||
        files.rlim_cur >= (rlim_t)configured + files_left) {
        return configured;
    }
    uint32_t count = files.rlim_cur > files_left + CONNECTIONS_LEAST
                         ? (uint32_t)files.rlim_cur - files_left
                         : CONNECTIONS_LEAST;
    count = count < configured ? count : configured;
    LOG_WARN("fewer connections than configured",
             "connections=%" PRIu32 " configured=%" PRIu32
             " open_files=%llu hint=\"raise the limit of open files "
             "(LimitNOFILE, ulimit -n)\"",
             count, configured, (unsigned long long)files.rlim_cur);
    return count;
}
