/* SPDX-License-Identifier: MIT */

/* The admin socket: a listening socket in a folder, for users that can read the
 * folder's files anyway. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/admin_socket.h"

/* Opens the folder and addresses the socket by its descriptor, since the path
 * can be too long for a socket address. */
static int admin_socket_open_folder(const char *folder,
                                    struct sockaddr_un *address)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        *address = (struct sockaddr_un){.sun_family = AF_UNIX};
        snprintf(address->sun_path, sizeof address->sun_path,
                 "/proc/self/fd/%d/" ADMIN_SOCKET_NAME, fd);
    }
    return fd;
}

static int bind_in(int folder, const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* A killed process may have left the socket file; only this process uses
     * the folder. Nobody can connect between bind() and listen(). */
    (void)unlinkat(folder, ADMIN_SOCKET_NAME, 0);
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
        fchmodat(folder, ADMIN_SOCKET_NAME, S_IRUSR | S_IWUSR, 0) == 0 &&
        listen(fd, ADMIN_SOCKET_CONNECTION_MAX) == 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int admin_socket_bind(const char *folder, int *ret_fd, char why[HASP_WHY_SIZE])
{
    struct sockaddr_un address;
    int directory = admin_socket_open_folder(folder, &address);
    int fd = directory >= 0 ? bind_in(directory, &address) : -1;
    if (fd < 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "cannot listen on %s/" ADMIN_SOCKET_NAME ": %s", folder,
                 strerror(errno));
    }
    if (directory >= 0) {
        close(directory);
    }
    if (fd < 0) {
        return HASP_ECONNECT;
    }
    *ret_fd = fd;
    return 0;
}

void admin_socket_remove(const char *folder)
{
    int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        (void)unlinkat(directory, ADMIN_SOCKET_NAME, 0);
        close(directory);
    }
}

/* The id that the kernel reports for users that do not exist in this namespace:
 * such a peer can be any user. */
static uid_t unknown_user(void)
{
    char text[16] = "";
    int fd = open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t size = read(fd, text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        close(fd);
    }
    unsigned uid = 65534;
    (void)sscanf(text, "%u", &uid);
    return uid;
}

bool admin_socket_lets_in(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid != unknown_user() &&
           (peer.uid == 0 || peer.uid == geteuid());
}
