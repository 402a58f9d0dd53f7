/* SPDX-License-Identifier: MIT */

/* A disk that is slow or hangs: for LD_PRELOAD, in tests on real processes.
 *
 * $SLOW_DISK names a file that says which calls take how long. It is read at
 * each call, so a test may change it (by renaming another file over it), and is
 * read again while a call is kept waiting. A line:
 *
 *     CALL MILLISECONDS [PART-OF-A-PATH]
 *
 * CALL is one of the functions below, or "flush": fsync, fdatasync, pwritev2
 * that flushes. -1 milliseconds: until the line is gone. A number below that is
 * an error, by which the call fails at once (-28: ENOSPC); fstatvfs then says
 * that the disk is full. The path is that of the file that is concerned. Where
 * a call matches several lines, the first counts.
 *
 * Each call that was kept waiting or failed adds a line with its name to
 * $SLOW_DISK.obeyed. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CONTROL_SIZE 4096
#define STEP_MS 10

typedef long syscall_fn(long number, ...);

static syscall_fn *kernel(void)
{
    static syscall_fn *function;
    if (function == NULL) {
        *(void **)&function = dlsym(RTLD_NEXT, "syscall");
    }
    return function;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void read_control(char text[CONTROL_SIZE])
{
    const char *path = getenv("SLOW_DISK");
    long size = -1;
    long fd = path == NULL ? -1
                           : kernel()(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    if (fd >= 0) {
        size = kernel()(SYS_read, fd, text, CONTROL_SIZE - 1);
        kernel()(SYS_close, fd);
    }
    text[size > 0 ? size : 0] = '\0';
}

/* Reads the control file's line for a call: false if there is none. */
static bool look(const char *call, bool flushes, const char *path, long *ret_ms)
{
    char text[CONTROL_SIZE];
    char *rest = NULL;
    read_control(text);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[32];
        char part[128] = "";
        if (sscanf(line, "%31s %ld %127s", name, ret_ms, part) >= 2 &&
            (strcmp(name, call) == 0 ||
             (flushes && strcmp(name, "flush") == 0)) &&
            strstr(path, part) != NULL) {
            return true;
        }
    }
    return false;
}

static void write_down(const char *call)
{
    char path[PATH_MAX];
    char line[64];
    snprintf(path, sizeof path, "%s.obeyed", getenv("SLOW_DISK"));
    int size = snprintf(line, sizeof line, "%s\n", call);
    long fd = kernel()(SYS_openat, AT_FDCWD, path,
                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        kernel()(SYS_write, fd, line, size);
        kernel()(SYS_close, fd);
    }
}

/* True if the call is to fail: errno says how. */
static bool fails(const char *call, bool flushes, const char *path)
{
    long ms = 0;
    int error = errno;
    bool is_told = look(call, flushes, path, &ms) && ms < -1;
    if (is_told) {
        write_down(call);
    }
    errno = is_told ? (int)-ms : error;
    return is_told;
}

static void wait_as_told(const char *call, bool flushes, const char *path)
{
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    int error = errno;
    long ms = 0;
    for (long waited = 0;
         look(call, flushes, path, &ms) && ms >= -1 && (ms < 0 || waited < ms);
         waited += STEP_MS) {
        if (waited == 0) {
            write_down(call);
        }
        nanosleep(&step, NULL);
    }
    errno = error;
}

/* Waits as the control file says; true if the call is to fail: errno says
 * how. */
static bool wait_for(const char *call, bool flushes, int fd)
{
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = kernel()(SYS_readlink, link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    wait_as_told(call, flushes, path);
    return fails(call, flushes, path);
}

EXPORT int fsync(int fd)
{
    int (*real)(int);
    *(void **)&real = next("fsync");
    return wait_for("fsync", true, fd) ? -1 : real(fd);
}

EXPORT int fdatasync(int fd)
{
    int (*real)(int);
    *(void **)&real = next("fdatasync");
    return wait_for("fdatasync", true, fd) ? -1 : real(fd);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int count,
                        off_t offset, int flags)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    *(void **)&real = next("pwritev2");
    bool flushes = (flags & (RWF_DSYNC | RWF_SYNC)) != 0;
    return wait_for("pwritev2", flushes, fd)
               ? -1
               : real(fd, parts, count, offset, flags);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t);
    *(void **)&real = next("pwrite");
    return wait_for("pwrite", false, fd) ? -1 : real(fd, data, size, offset);
}

/* As the table is written. */
EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    ssize_t (*real)(int, const struct iovec *, int);
    *(void **)&real = next("writev");
    return wait_for("pwrite", false, fd) ? -1 : real(fd, parts, count);
}

EXPORT ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    *(void **)&real = next("pread");
    return wait_for("pread", false, fd) ? -1 : real(fd, data, size, offset);
}

EXPORT int fstatvfs(int fd, struct statvfs *status)
{
    int (*real)(int, struct statvfs *);
    *(void **)&real = next("fstatvfs");
    bool is_full = wait_for("fstatvfs", false, fd);
    int result = real(fd, status);
    if (is_full) {
        status->f_bavail = status->f_bfree = 0;
    }
    return result;
}

EXPORT int unlinkat(int folder, const char *path, int flags)
{
    int (*real)(int, const char *, int);
    *(void **)&real = next("unlinkat");
    wait_as_told("unlinkat", false, path);
    return real(folder, path, flags);
}

EXPORT int renameat(int from_folder, const char *from, int to_folder,
                    const char *to)
{
    int (*real)(int, const char *, int, const char *);
    *(void **)&real = next("renameat");
    wait_as_told("renameat", false, to);
    return real(from_folder, from, to_folder, to);
}

EXPORT int openat(int folder, const char *path, int flags, ...)
{
    int (*real)(int, const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    *(void **)&real = next("openat");
    if (fails("openat", false, path)) {
        return -1;
    }
    wait_as_told("openat", false, path);
    return real(folder, path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    *(void **)&real = next("open");
    if (fails("open", false, path)) {
        return -1;
    }
    wait_as_told("open", false, path);
    return real(path, flags, mode);
}

/* The event loop itself: it is blocked. */
EXPORT int epoll_pwait(int fd, struct epoll_event *events, int count,
                       int timeout, const sigset_t *mask)
{
    int (*real)(int, struct epoll_event *, int, int, const sigset_t *);
    *(void **)&real = next("epoll_pwait");
    wait_as_told("epoll_pwait", false, "");
    return real(fd, events, count, timeout, mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int count,
                      int timeout)
{
    return epoll_pwait(fd, events, count, timeout, NULL);
}
