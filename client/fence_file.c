/* SPDX-License-Identifier: MIT */

#include "client/fence_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "client/hasp_session.h"

#define MAGIC "HASPFENC"
#define FORMAT 1
/* Magic, version, reserved, sequence, mark; then the digest. */
#define BODY_SIZE 32
#define MARK_MAX ((UINT64_C(1) << 53) - 1)

struct hasp_fence {
    pthread_mutex_t mutex; /* Held from enter to leave. */
    atomic_int inside;     /* The thread that holds it; 0 if none does. */
    pid_t pid;
    int fd;
    /* A flush has failed: the content of the disk is unknown. */
    bool is_broken;
    /* The newest mark that is known to be on the disk. */
    uint64_t flushed_mark;
    char path[];
};

/* FNV-1a, 64 bits (Fowler, Noll, Vo): it finds torn and foreign bytes, it is no
 * protection from somebody who forges. */
static uint64_t fence_file_digest(const uint8_t *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

void fence_slot_encode(const struct fence_slot *slot,
                       uint8_t ret_bytes[FENCE_SLOT_SIZE])
{
    memset(ret_bytes, 0, FENCE_SLOT_SIZE);
    memcpy(ret_bytes, MAGIC, 8);
    store_u32(ret_bytes + 8, FORMAT);
    store_u64(ret_bytes + 16, slot->sequence);
    store_u64(ret_bytes + 24, slot->mark);
    store_u64(ret_bytes + BODY_SIZE, fence_file_digest(ret_bytes, BODY_SIZE));
}

int fence_slot_decode(const uint8_t bytes[FENCE_SLOT_SIZE],
                      struct fence_slot *ret_slot)
{
    if (memcmp(bytes, MAGIC, 8) != 0 || load_u32(bytes + 8) != FORMAT ||
        load_u64(bytes + BODY_SIZE) != fence_file_digest(bytes, BODY_SIZE)) {
        return HASP_ECORRUPT;
    }
    ret_slot->sequence = load_u64(bytes + 16);
    ret_slot->mark = load_u64(bytes + 24);
    return 0;
}

static int of_errno(const char *what, const char *path)
{
    int code = errno;
    int error = code == ENOSPC || code == EDQUOT ? HASP_ENOSPC : HASP_EIO;
    return why_set(error, "cannot %s '%.200s': %s", what, path, strerror(code));
}

static bool fence_file_write_all(int fd, const uint8_t *bytes, size_t size,
                                 off_t offset)
{
    while (size > 0) {
        ssize_t count = pwrite(fd, bytes, size, offset);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        bytes += count;
        size -= (size_t)count;
        offset += count;
    }
    return true;
}

/* A name that was made is lost with the power unless its folder is flushed. */
static int flush_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    snprintf(folder, sizeof folder, "%.*s",
             slash == NULL   ? 1
             : slash == path ? 1
                             : (int)size,
             slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return of_errno("open the folder", folder);
    }
    int error = fsync(fd) == 0 ? 0 : of_errno("flush the folder", folder);
    close(fd);
    return error;
}

/* Makes the file under another name and links it to its own: complete or not at
 * all. It is not an error if another process was faster. */
static int fence_file_create(const char *path)
{
    char aside[4096];
    uint8_t bytes[FENCE_FILE_SIZE];
    const struct fence_slot first = {.sequence = 1}, second = {.sequence = 0};
    if ((size_t)snprintf(aside, sizeof aside, "%s.XXXXXX", path) >=
        sizeof aside) {
        return why_set(HASP_EINVALID, "the path of the fence is too long");
    }
    int fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0) {
        return of_errno("make", aside);
    }
    fence_slot_encode(&first, bytes);
    fence_slot_encode(&second, bytes + FENCE_SLOT_SIZE);
    int error = 0;
    if (!fence_file_write_all(fd, bytes, sizeof bytes, 0) || fsync(fd) != 0) {
        error = of_errno("write", aside);
    } else if (link(aside, path) != 0 && errno != EEXIST) {
        /* link(), unlike rename(), does not replace a file that another process
         * made meanwhile, with its mark. */
        error = of_errno("make", path);
    }
    close(fd);
    unlink(aside);
    return error != 0 ? error : flush_folder(path);
}

static int fence_file_check_file(struct hasp_fence *fence)
{
    struct stat info;
    if (fstat(fence->fd, &info) != 0) {
        return of_errno("look at", fence->path);
    }
    if (!S_ISREG(info.st_mode) || info.st_size != FENCE_FILE_SIZE) {
        return why_set(HASP_ECORRUPT, "'%.200s' is not a fence, or is damaged",
                       fence->path);
    }
    return 0;
}

static int lock_file(struct hasp_fence *fence)
{
    if (fence->pid != getpid()) {
        return why_set(HASP_EFORKED, "the fence belongs to the parent "
                                     "process; open it in the child");
    }
    if (atomic_load(&fence->inside) == gettid()) {
        return why_set(HASP_EINVALID, "this thread is inside already");
    }
    /* flock() belongs to the open file, which all threads share; among threads
     * only the mutex excludes. */
    pthread_mutex_lock(&fence->mutex);
    while (flock(fence->fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            int error = of_errno("lock", fence->path);
            pthread_mutex_unlock(&fence->mutex);
            return error;
        }
    }
    atomic_store(&fence->inside, gettid());
    return 0;
}

static void unlock_file(struct hasp_fence *fence)
{
    atomic_store(&fence->inside, 0);
    flock(fence->fd, LOCK_UN);
    pthread_mutex_unlock(&fence->mutex);
}

static int read_mark(struct hasp_fence *fence, struct fence_slot *ret_slot)
{
    uint8_t bytes[FENCE_FILE_SIZE];
    struct fence_slot slot;
    ssize_t count;
    do {
        count = pread(fence->fd, bytes, sizeof bytes, 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return of_errno("read", fence->path);
    }
    bool is_found = false;
    /* The valid slot with the greater sequence wins: a torn write leaves the
     * other one. */
    for (size_t at = 0; at + FENCE_SLOT_SIZE <= (size_t)count;
         at += FENCE_SLOT_SIZE) {
        if (fence_slot_decode(bytes + at, &slot) == 0 &&
            (!is_found || slot.sequence > ret_slot->sequence)) {
            *ret_slot = slot;
            is_found = true;
        }
    }
    return is_found
               ? 0
               : why_set(HASP_ECORRUPT, "'%.200s' is damaged", fence->path);
}

static int flush_mark(struct hasp_fence *fence, uint64_t mark)
{
    if (fdatasync(fence->fd) != 0) {
        fence->is_broken = true;
        return of_errno("flush", fence->path);
    }
    fence->flushed_mark = mark;
    return 0;
}

/* An odd sequence lives in the first slot, an even one in the second, so the
 * newest is never overwritten. */
static int write_mark(struct hasp_fence *fence, struct fence_slot slot)
{
    uint8_t bytes[FENCE_SLOT_SIZE];
    off_t at = slot.sequence % 2 == 1 ? 0 : FENCE_SLOT_SIZE;
    fence_slot_encode(&slot, bytes);
    if (!fence_file_write_all(fence->fd, bytes, sizeof bytes, at)) {
        fence->is_broken = true;
        return of_errno("write", fence->path);
    }
    return flush_mark(fence, slot.mark);
}

/* --- The public functions ------------------------------------------------- */

int hasp_fence_open(const char *path, struct hasp_fence **ret_fence)
{
    struct fence_slot slot;
    if (path == NULL || path[0] == '\0' || ret_fence == NULL) {
        return why_set(HASP_EINVALID, "hasp_fence_open: a path");
    }
    size_t size = strlen(path) + 1;
    struct hasp_fence *fence = calloc(1, sizeof *fence + size);
    if (fence == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    memcpy(fence->path, path, size);
    pthread_mutex_init(&fence->mutex, NULL);
    fence->pid = getpid();
    fence->fd = open(path, O_RDWR | O_CLOEXEC);
    int error = 0;
    if (fence->fd < 0 && errno == ENOENT) {
        error = fence_file_create(path);
        if (error == 0) {
            fence->fd = open(path, O_RDWR | O_CLOEXEC);
        }
    }
    if (error == 0 && fence->fd < 0) {
        error = of_errno("open", path);
    }
    if (error == 0) {
        error = fence_file_check_file(fence);
    }
    if (error == 0) {
        /* Read under the lock: another process could be writing the mark. */
        error = lock_file(fence);
    }
    if (error == 0) {
        error = read_mark(fence, &slot);
        unlock_file(fence);
    }
    if (error != 0) {
        hasp_fence_close(fence);
        return error;
    }
    *ret_fence = fence;
    return 0;
}

void hasp_fence_close(struct hasp_fence *fence)
{
    if (fence == NULL) {
        return;
    }
    if (fence->fd >= 0) {
        close(fence->fd);
    }
    if (fence->pid == getpid()) {
        pthread_mutex_destroy(&fence->mutex);
    }
    free(fence);
}

int hasp_fence_enter(struct hasp_fence *fence, uint64_t token)
{
    struct fence_slot slot;
    if (fence == NULL || token == 0 || token > MARK_MAX) {
        return why_set(HASP_EINVALID, "hasp_fence_enter: a fence and a token");
    }
    int error = lock_file(fence);
    if (error != 0) {
        return error;
    }
    error = fence->is_broken ? why_set(HASP_EIO,
                                       "'%.200s': an earlier flush failed; "
                                       "find out why and open it again",
                                       fence->path)
                             : read_mark(fence, &slot);
    if (error == 0 && token < slot.mark) {
        error = why_set(HASP_ESTALE, "token %llu is stale, %llu has been seen",
                        (unsigned long long)token,
                        (unsigned long long)slot.mark);
    }
    if (error == 0 && token > slot.mark) {
        slot.sequence++;
        slot.mark = token;
        error = write_mark(fence, slot);
    } else if (error == 0 && slot.mark != fence->flushed_mark) {
        /* The process that wrote the mark may have been killed before its
         * flush. */
        error = flush_mark(fence, slot.mark);
    }
    if (error != 0) {
        unlock_file(fence);
    }
    return error;
}

void hasp_fence_leave(struct hasp_fence *fence)
{
    if (fence != NULL && fence->pid == getpid() &&
        atomic_load(&fence->inside) == gettid()) {
        unlock_file(fence);
    }
}

int hasp_fence_admit(struct hasp_fence *fence, uint64_t token)
{
    int error = hasp_fence_enter(fence, token);
    if (error == 0) {
        hasp_fence_leave(fence);
    }
    return error;
}

int hasp_fence_mark(struct hasp_fence *fence, uint64_t *ret_mark)
{
    struct fence_slot slot;
    if (fence == NULL || ret_mark == NULL) {
        return why_set(HASP_EINVALID, "hasp_fence_mark: a fence");
    }
    int error = lock_file(fence);
    if (error != 0) {
        return error;
    }
    error = read_mark(fence, &slot);
    unlock_file(fence);
    if (error == 0) {
        *ret_mark = slot.mark;
    }
    return error;
}
