/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/setup/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_SIZE_MAX (64u << 10)
#define CANNOT_RUN 127

static _Noreturn void become(const char *const *argv, uid_t user, gid_t group,
                             int output)
{
    if (user != 0 &&
        (setgroups(0, NULL) != 0 || setgid(group) != 0 || setuid(user) != 0)) {
        _exit(CANNOT_RUN);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "cannot run '%s': %s", argv[0], strerror(errno));
    _exit(CANNOT_RUN);
}

/* Reads until the last writer has closed, and keeps the beginning. */
static void gather(int fd, struct buffer *out)
{
    char piece[4096];
    ssize_t size;
    while ((size = read(fd, piece, sizeof piece)) > 0) {
        size_t room = OUTPUT_SIZE_MAX - out->size;
        buffer_put(out, piece, (size_t)size < room ? (size_t)size : room);
    }
    while (out->size > 0 && out->data[out->size - 1] == '\n') {
        out->size--;
    }
    buffer_put_u8(out, '\0');
    out->size--;
}

int program_run(const char *const *argv, uid_t user, gid_t group,
                struct buffer *out)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return CANNOT_RUN;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(argv, user, group, ends[1]);
    }
    close(ends[1]);
    gather(ends[0], out);
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return CANNOT_RUN;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
