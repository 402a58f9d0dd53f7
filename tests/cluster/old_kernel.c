/* SPDX-License-Identifier: MIT */

/* A kernel before Linux 6.16, for LD_PRELOAD: it knows no SO_PASSRIGHTS, so
 * descriptors that are sent over a UNIX socket come through. */

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

__attribute__((visibility("default"))) int
setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && name == SO_PASSRIGHTS) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}
