/* SPDX-License-Identifier: MIT */

#include "client/proc_stat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool proc_stat_read(pid_t pid, struct proc_stat *ret_stat)
{
    char path[32] = "/proc/self/stat", text[512];
    struct proc_stat stat;
    if (pid != 0) {
        snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) {
        return false;
    }
    text[size] = '\0';
    /* "pid (name) state parent ..."; the name can contain any characters; the
     * number of threads is the 20th field, the start time the 22nd. */
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    long parent;
    if (name == NULL || end == NULL ||
        sscanf(end + 1,
               " %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %ld %*s %" SCNu64,
               &stat.state, &parent, &stat.threads, &stat.start) != 4) {
        return false;
    }
    snprintf(stat.name, sizeof stat.name, "%.*s", (int)(end - name - 1),
             name + 1);
    stat.parent = (pid_t)parent;
    *ret_stat = stat;
    return true;
}
