/* SPDX-License-Identifier: MIT */

/* Makes a node crash in the middle of a request: for LD_PRELOAD, in tests on
 * real processes.
 *
 * While the file $CRASH is there, getrandom() fails, which a node does not
 * expect ("check"), or it writes to address 8 ("segv"), by the file's text. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t getrandom(void *out, size_t size,
                                                         unsigned flags)
{
    char text[8] = "";
    const char *path = getenv("CRASH");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) > 0 && text[0] == 's') {
            *(volatile int *)8 = 1;
        }
        close(fd);
        errno = EIO;
        return -1;
    }
    return syscall(SYS_getrandom, out, size, flags);
}
