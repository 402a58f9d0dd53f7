/* SPDX-License-Identifier: MIT */

/* A disk that forgets what was not flushed when the power is cut: for
 * LD_PRELOAD, in tests on real processes.
 *
 * For each write below $POWER_DISK the earlier bytes are kept until a flush
 * covers it: RWF_DSYNC the write itself, fsync(2) and fdatasync(2) all earlier
 * writes to the file. On SIGNAL_CUT the process writes those bytes back, newest
 * first, and kills itself: the rest is the least that a real disk would have.
 * Names are not forgotten, and the table is left out, since it is not trusted
 * after a crash of the machine. $POWER_DISK.forgotten gets a line that says how
 * many writes were taken back.
 *
 * With $POWER_DISK_LIES set, flushes succeed without an effect. */

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SIGNAL_CUT (SIGRTMIN + 3)

/* The bytes that one write has replaced. */
struct undo {
    struct undo *older;
    unsigned long number;
    dev_t device;
    ino_t inode;
    int fd; /* Its own, without O_DIRECT. */
    off_t offset, file_size;
    ssize_t size;
    char bytes[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct undo *newest;
static unsigned long write_count;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static bool is_kept(int fd, char link[64])
{
    char path[PATH_MAX];
    const char *root = getenv("POWER_DISK");
    snprintf(link, 64, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    return root != NULL && strncmp(path, root, strlen(root)) == 0 &&
           strstr(path, "/table/") == NULL;
}

/* Called before a write. Returns its number, 0 if it is none of ours. */
static unsigned long remember(int fd, off_t offset, size_t size)
{
    char link[64];
    struct stat status;
    if (size == 0 || !is_kept(fd, link) || fstat(fd, &status) != 0) {
        return 0;
    }
    struct undo *undo = malloc(sizeof *undo + size);
    undo->fd = open(link, O_RDWR | O_CLOEXEC);
    undo->device = status.st_dev;
    undo->inode = status.st_ino;
    undo->offset = offset;
    undo->file_size = status.st_size;
    undo->size = pread(undo->fd, undo->bytes, size, offset);
    pthread_mutex_lock(&mutex);
    undo->number = ++write_count;
    undo->older = newest;
    newest = undo;
    pthread_mutex_unlock(&mutex);
    return undo->number;
}

/* A flush has covered the writes from the first number to the last. */
static void forget(int fd, unsigned long first, unsigned long last)
{
    struct stat status;
    if (getenv("POWER_DISK_LIES") != NULL || fstat(fd, &status) != 0) {
        return;
    }
    pthread_mutex_lock(&mutex);
    for (struct undo **place = &newest; *place != NULL;) {
        struct undo *undo = *place;
        if (undo->number >= first && undo->number <= last &&
            undo->device == status.st_dev && undo->inode == status.st_ino) {
            *place = undo->older;
            close(undo->fd);
            free(undo);
        } else {
            place = &undo->older;
        }
    }
    pthread_mutex_unlock(&mutex);
}

static void write_down(unsigned long forgotten)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.forgotten", getenv("POWER_DISK"));
    FILE *out = fopen(path, "a");
    if (out == NULL || fprintf(out, "%lu\n", forgotten) < 0 ||
        fclose(out) != 0) {
        abort();
    }
}

static void *wait_for_cut(void *arg)
{
    unsigned long forgotten = 0;
    ssize_t (*put)(int, const void *, size_t, off_t);
    sigset_t set;
    int number = 0;
    (void)arg;
    *(void **)&put = next("pwrite");
    sigemptyset(&set);
    sigaddset(&set, SIGNAL_CUT);
    sigwait(&set, &number);
    pthread_mutex_lock(&mutex); /* For ever: no more writes. */
    for (struct undo *undo = newest; undo != NULL; undo = undo->older) {
        if (undo->size > 0 && put(undo->fd, undo->bytes, (size_t)undo->size,
                                  undo->offset) != undo->size) {
            abort();
        }
        if (ftruncate(undo->fd, undo->file_size) != 0) {
            abort();
        }
        forgotten++;
    }
    write_down(forgotten);
    kill(getpid(), SIGKILL);
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL_CUT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (getenv("POWER_DISK") != NULL) {
        pthread_create(&thread, NULL, wait_for_cut, NULL);
    }
}

static size_t total(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        size += parts[i].iov_len;
    }
    return size;
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int count,
                        off_t offset, int flags)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    *(void **)&real = next("pwritev2");
    unsigned long number = remember(fd, offset, total(parts, count));
    ssize_t result = real(fd, parts, count, offset, flags);
    if (number != 0 && result > 0 && (flags & (RWF_DSYNC | RWF_SYNC)) != 0) {
        forget(fd, number, number);
    }
    return result;
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t);
    *(void **)&real = next("pwrite");
    remember(fd, offset, size);
    return real(fd, data, size, offset);
}

/* The same, for programs whose offsets would be 32 bits wide otherwise. */
EXPORT ssize_t pwritev64v2(int fd, const struct iovec *parts, int count,
                           off_t offset, int flags)
    __attribute__((alias("pwritev2")));
EXPORT ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
    __attribute__((alias("pwrite")));

EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t (*real)(int, const void *, size_t);
    *(void **)&real = next("write");
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0) {
        remember(fd, at, size);
    }
    return real(fd, data, size);
}

static int flushed(const char *name, int fd)
{
    int (*real)(int);
    *(void **)&real = next(name);
    pthread_mutex_lock(&mutex);
    unsigned long last = write_count;
    pthread_mutex_unlock(&mutex);
    int result = real(fd);
    if (result == 0) {
        forget(fd, 1, last);
    }
    return result;
}

EXPORT int fsync(int fd)
{
    return flushed("fsync", fd);
}

EXPORT int fdatasync(int fd)
{
    return flushed("fdatasync", fd);
}
