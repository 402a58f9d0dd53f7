/* SPDX-License-Identifier: MIT */

/* Makes a node crash in the middle of a request: for LD_PRELOAD, in tests on
 * real processes.
 *
 * While the file $CRASH is there, getrandom() fails, which a node does not
 * expect ("check"), or it writes to address 8 ("segv"), by the file's text. A
 * number after the word is how many calls are let pass before ("segv 3"): a
 * start calls it three times before it has the data directory, and then again.
 */

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
    static int passed;
    char text[16] = "";
    const char *path = getenv("CRASH");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        close(fd);
        const char *number = strchr(text, ' ');
        if (number != NULL && passed < number[1] - '0') {
            passed++;
            return syscall(SYS_getrandom, out, size, flags);
        }
        if (got > 0 && text[0] == 's') {
            *(volatile int *)8 = 1;
        }
        errno = EIO;
        return -1;
    }
    return syscall(SYS_getrandom, out, size, flags);
}
