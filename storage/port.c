/* SPDX-License-Identifier: MIT */

/* The port of the operating system: thin system calls. The threads of the
 * workers are in worker.c. */

#include "storage/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storage/worker.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

const struct storage_port *storage_port = &storage_port_system;

static int system_openat(int folder_fd, const char *path, int flags)
{
    return openat(folder_fd, path, flags | O_CLOEXEC, 0600);
}

static ssize_t system_pwrite_dsync(int fd, const void *data, size_t size,
                                   off_t offset)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    return pwritev2(fd, &part, 1, offset, RWF_DSYNC);
}

static int system_reserve(int fd, off_t offset, off_t size)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, size);
}

static off_t system_size(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_size : -1;
}

static int system_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB);
}

static int system_mkdir(const char *path)
{
    return mkdir(path, 0700);
}

static int system_unlinkat(int folder_fd, const char *path)
{
    return unlinkat(folder_fd, path, 0);
}

static int system_exists(int folder_fd, const char *path)
{
    return faccessat(folder_fd, path, F_OK, 0);
}

static int system_list(int folder_fd, storage_name_fn *visit, void *data)
{
    /* A descriptor of its own: closedir() closes it. */
    int fd = system_openat(folder_fd, ".", O_RDONLY | O_DIRECTORY);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        errno = error;
        return -1;
    }
    bool is_over = false;
    const struct dirent *found = NULL;
    while (!is_over && (errno = 0, found = readdir(folder)) != NULL) {
        is_over = strcmp(found->d_name, ".") != 0 &&
                  strcmp(found->d_name, "..") != 0 &&
                  visit(data, found->d_name);
    }
    int error = found == NULL ? errno : 0;
    closedir(folder);
    errno = error;
    return error == 0 ? 0 : -1;
}

static void system_forget(int fd)
{
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void *system_map(int fd, size_t size)
{
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    return data == MAP_FAILED ? NULL : data;
}

static void system_unmap(void *data, size_t size)
{
    munmap(data, size);
}

static int system_space(int folder_fd, uint64_t *ret_free)
{
    struct statvfs status;
    if (fstatvfs(folder_fd, &status) != 0) {
        return -1;
    }
    *ret_free = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

static void system_boot_id(int folder_fd, char ret_id[STORAGE_BOOT_ID_SIZE])
{
    (void)folder_fd;
    int fd = open(BOOT_ID_PATH, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, ret_id, STORAGE_BOOT_ID_SIZE - 1);
    if (fd >= 0) {
        close(fd);
    }
    ret_id[size > 0 ? size : 0] = '\0';
    ret_id[strcspn(ret_id, "\n")] = '\0';
}

const struct storage_port storage_port_system = {
    .openat = system_openat,
    .close = close,
    .pread = pread,
    .pwrite = pwrite,
    .pwrite_dsync = system_pwrite_dsync,
    .fsync = fsync,
    .fdatasync = fdatasync,
    .ftruncate = ftruncate,
    .reserve = system_reserve,
    .size = system_size,
    .lock = system_lock,
    .mkdir = system_mkdir,
    .renameat = renameat,
    .unlinkat = system_unlinkat,
    .exists = system_exists,
    .list = system_list,
    .forget = system_forget,
    .map = system_map,
    .unmap = system_unmap,
    .space = system_space,
    .boot_id = system_boot_id,
    .now_ns = worker_now_ns,
    .worker_start = worker_thread_start,
    .worker_wake = worker_thread_wake,
    .worker_wait = worker_thread_wait,
    .worker_wait_for = worker_thread_wait_for,
    .worker_join = worker_thread_join,
};
