/* SPDX-License-Identifier: MIT */

/* Durable operations on files: whole reads and writes, replacing a file, error
 * messages for people. */

#include "storage/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk_watch.h"
#include "storage/port.h"

/* The number of attempts to open a file while there is no free descriptor. */
#define STARVED_TRIES 10

int disk_error(int system_error)
{
    switch (system_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return HASP_ENOSPC;
    default:
        return HASP_EIO;
    }
}

bool disk_is_starved(int system_error)
{
    return system_error == EMFILE || system_error == ENFILE;
}

int disk_fail(char why[HASP_WHY_SIZE], int system_error, const char *verb,
              const char *folder, const char *name)
{
    snprintf(why, HASP_WHY_SIZE, "cannot %s '%.300s%s%s': %s", verb, folder,
             name != NULL ? "/" : "", name != NULL ? name : "",
             strerror(system_error));
    return disk_error(system_error);
}

static int disk_write_all(int fd, struct bytes data, uint64_t offset,
                          bool is_durable)
{
    size_t done = 0;
    while (done < data.size) {
        const uint8_t *part = data.data + done;
        size_t size = data.size - done;
        off_t at = (off_t)(offset + done);
        ssize_t n = is_durable ? storage_port->pwrite_dsync(fd, part, size, at)
                               : storage_port->pwrite(fd, part, size, at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        if (n == 0) {
            return EIO;
        }
        done += (size_t)n;
    }
    return 0;
}

static int flush_data(int fd)
{
    return storage_port->fdatasync(fd) == 0 ? 0 : errno;
}

int disk_write(int fd, struct bytes data, uint64_t offset)
{
    int error = disk_write_all(fd, data, offset, true);
    if (error != EOPNOTSUPP && error != ENOSYS && error != EINVAL) {
        return error;
    }
    /* Old kernels and some file systems refuse the flag before they write
     * anything. Then the work is done in two steps. */
    return disk_write_all(fd, data, offset, false) ?: flush_data(fd);
}

int disk_write_cached(int fd, struct bytes data, uint64_t offset)
{
    return disk_write_all(fd, data, offset, false);
}

int disk_write_two(int fd, struct bytes data, uint64_t offset,
                   uint64_t other_offset)
{
    CHECK(other_offset >= offset + data.size); /* The first is not touched. */
    int error = disk_write_all(fd, data, offset, false);
    error = error ?: disk_write_all(fd, data, other_offset, false);
    return error ?: flush_data(fd);
}

int disk_flush(int fd, const char *what)
{
    uint32_t place = disk_watch_begin(what);
    int error = storage_port->fsync(fd) == 0 ? 0 : errno;
    disk_watch_end(place);
    return error;
}

int disk_read(int fd, void *data, size_t size, uint64_t offset,
              size_t *ret_size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = storage_port->pread(fd, (uint8_t *)data + done, size - done,
                                        (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *ret_size = done;
    return 0;
}

/* As openat(), but waits up to a second for a free descriptor. */
static int open_patiently(int folder_fd, const char *path, int flags)
{
    for (int i = 0;; i++) {
        int fd = storage_port->openat(folder_fd, path, flags);
        if (fd >= 0 || !disk_is_starved(errno) || i == STARVED_TRIES) {
            return fd;
        }
        poll(NULL, 0, DISK_STARVED_RETRY_MS);
    }
}

/* Opens the folder 'path'. Returns 0 or an errno. */
static int disk_open_folder(const char *path, int *ret_fd)
{
    int fd = open_patiently(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return errno;
    }
    *ret_fd = fd;
    return 0;
}

int disk_replace(int folder_fd, const char *name, struct bytes data)
{
    char temporary[64];
    int size = snprintf(temporary, sizeof temporary, "%s%s", name,
                        DISK_TEMPORARY_SUFFIX);
    if (size < 0 || (size_t)size >= sizeof temporary) {
        return ENAMETOOLONG;
    }
    int fd = open_patiently(folder_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0) {
        return errno;
    }
    int error = disk_write_all(fd, data, 0, false);
    /* Flush before the rename: otherwise the name could denote incomplete
     * content after a crash. The folder is flushed to make the rename itself
     * durable. */
    error = error ?: disk_flush(fd, "flush a small file");
    if (storage_port->close(fd) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 &&
        storage_port->renameat(folder_fd, temporary, folder_fd, name) != 0) {
        error = errno;
    }
    return error ?: disk_flush(folder_fd, "flush a folder");
}

int disk_replace_in(const char *folder, const char *name, struct bytes data,
                    char why[HASP_WHY_SIZE])
{
    int folder_fd = -1;
    int error = disk_open_folder(folder, &folder_fd);
    if (error != 0) {
        return disk_fail(why, error, "open", folder, NULL);
    }
    error = disk_replace(folder_fd, name, data);
    storage_port->close(folder_fd);
    return error != 0 ? disk_fail(why, error, "write", folder, name) : 0;
}

int disk_remove_in(const char *folder, const char *name,
                   char why[HASP_WHY_SIZE])
{
    int folder_fd = -1;
    int error = disk_open_folder(folder, &folder_fd);
    if (error != 0) {
        return disk_fail(why, error, "open", folder, NULL);
    }
    if (storage_port->unlinkat(folder_fd, name) != 0) {
        error = errno == ENOENT ? 0 : errno;
    } else if (storage_port->fsync(folder_fd) != 0) {
        error = errno;
    }
    storage_port->close(folder_fd);
    return error != 0 ? disk_fail(why, error, "remove", folder, name) : 0;
}

int disk_load_text(const char *folder, const char *name, char *ret_text,
                   size_t size, char why[HASP_WHY_SIZE])
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return disk_fail(why, ENAMETOOLONG, "open", folder, name);
    }
    int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    if (fd < 0) {
        return errno == ENOENT ? HASP_ENOENT
                               : disk_fail(why, errno, "open", folder, name);
    }
    size_t done = 0;
    int error = disk_read(fd, ret_text, size - 1, 0, &done);
    storage_port->close(fd);
    if (error != 0) {
        return disk_fail(why, error, "read", folder, name);
    }
    ret_text[done] = '\0';
    return 0;
}

static int sync_parent(const char *path)
{
    AUTO(auto_free) char *copy = memory_text(path);
    int fd = open_patiently(AT_FDCWD, dirname(copy), O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return errno;
    }
    int error = storage_port->fsync(fd) == 0 ? 0 : errno;
    storage_port->close(fd);
    return error;
}

int disk_make_folder(const char *path, int *ret_fd)
{
    bool is_new = storage_port->mkdir(path) == 0;
    if (!is_new && errno != EEXIST) {
        return errno;
    }
    /* An existing folder needs this, too: the process that made it may have
     * died before the flush. Another user may have made it and not let us read
     * the parent. */
    int error = sync_parent(path);
    if (error == EACCES && !is_new) {
        error = 0;
    }
    return error != 0 ? error : disk_open_folder(path, ret_fd);
}
