/* SPDX-License-Identifier: MIT */

#include "net/local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"

#define BACKLOG 1024

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) <= LOCAL_PATH_MAX);
    memcpy(address.sun_path, path, strlen(path));
    return address;
}

/* Removes the socket file of a dead process; 0, or the error that prevents
 * listening. */
static int remove_dead(const char *path)
{
    struct sockaddr_un address = address_of(path);
    struct stat status;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISSOCK(status.st_mode)) {
        return EEXIST;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int rv = connect(fd, (const struct sockaddr *)&address, sizeof address);
    /* Only this error shows that nobody listens: a busy process gives EAGAIN,
     * and its socket must stay. */
    bool is_dead = rv != 0 && errno == ECONNREFUSED;
    close(fd);
    if (!is_dead) {
        return EADDRINUSE;
    }
    return unlink(path) == 0 ? 0 : errno;
}

/* Listens at 'path'. Nobody can connect between bind() and listen(). */
static int listen_at(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        chmod(path, S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP) == 0 &&
        listen(fd, BACKLOG) == 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    return -error;
}

int local_bind(const char *path, int *ret_fd, char why[HASP_WHY_SIZE])
{
    int error = remove_dead(path);
    int fd = error == 0 ? listen_at(path) : -error;
    if (fd < 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot listen on '%s': %s", path,
                 fd == -EEXIST ? "the path is a file that is not a socket"
                               : strerror(-fd));
        return fd == -EADDRINUSE ? HASP_EBUSY : HASP_ECONNECT;
    }
    *ret_fd = fd;
    return 0;
}

void local_remove(const char *path)
{
    (void)unlink(path);
}
