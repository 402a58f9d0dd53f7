/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/hasp/tool.h"

#define FIRST_INHERITED 3
#define BACKLOG 4096 /* The kernel's default limit (net.core.somaxconn). */

int listen_inherited(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int is_listening = 0;
    socklen_t size = sizeof is_listening;
    if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != getpid() ||
        strtol(count, NULL, 10) < 1) {
        return -1;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    int fd = FIRST_INHERITED;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0 ||
        is_listening == 0) {
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static bool address_make(const char *path, struct sockaddr_un *address,
                         socklen_t *size)
{
    size_t length = strlen(path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length == 0 || length >= sizeof address->sun_path) {
        return false;
    }
    memcpy(address->sun_path, path, length + 1);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return true;
}

/* A socket that an agent left when it was killed. */
static bool listen_is_stale(const struct sockaddr_un *address, socklen_t size)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is = fd >= 0 &&
              connect(fd, (const struct sockaddr *)address, size) != 0 &&
              errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return is;
}

int listen_bind(const char *path)
{
    struct sockaddr_un address;
    socklen_t size;
    if (!address_make(path, &address, &size)) {
        (void)tool_fail(0, "agent: the path '%s' is empty or too long", path);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listen_is_stale(&address, size)) {
        (void)unlink(path);
    }
    /* Every user may tie its own processes: the limits are per user. */
    mode_t mask = umask(0111);
    int failed = fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
                 listen(fd, BACKLOG) != 0;
    int code = errno;
    umask(mask);
    if (failed) {
        (void)tool_fail(
            0, "agent: cannot listen on '%s': %s%s", path, strerror(code),
            code == EADDRINUSE ? " (another agent runs there)" : "");
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

void listen_notify(const char *state)
{
    struct sockaddr_un address;
    socklen_t size;
    const char *path = getenv("NOTIFY_SOCKET");
    if (path == NULL || !address_make(path, &address, &size)) {
        return;
    }
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0'; /* An abstract name has no final zero. */
        size--;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL,
                      (struct sockaddr *)&address, size);
        close(fd);
    }
}
