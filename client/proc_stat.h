/* SPDX-License-Identifier: MIT */

/* What /proc/PID/stat says about a process. */

#ifndef HASP_CLIENT_PROC_STAT_H
#define HASP_CLIENT_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    uint64_t start; /* Start time, in ticks since boot. */
    pid_t parent;
    long threads; /* Number of threads; also 1 for a zombie. */
    char state;
    char name[16];
};

/* 'pid' 0: this process. False: it is gone, or hidden (hidepid). */
bool proc_stat_read(pid_t pid, struct proc_stat *ret_stat);

#endif /* HASP_CLIENT_PROC_STAT_H */
