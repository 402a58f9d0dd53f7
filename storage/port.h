/* SPDX-License-Identifier: MIT */

/* What storage/ asks of the operating system: the calls on files.
 *
 * There is one port in a process. It is the operating system's, unless a test
 * puts another in its place, such as a disk in memory that loses, tears and
 * reorders what was not flushed.
 *
 * Each function does what the system call of its name does, and fails as
 * that does, with -1 and errno. It may be interrupted (EINTR) and may do a part
 * (pread, pwrite) where that may; storage/disk.h has what is built on it.
 *
 * Threads: a port is set before anything of storage/ is used; its functions may
 * be called by any thread. */

#ifndef HASP_STORAGE_PORT_H
#define HASP_STORAGE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STORAGE_BOOT_ID_SIZE 64u

/* Called for each name in a folder but "." and "..", in no order; true to end.
 * The name may be removed meanwhile, nothing else of the folder changed. */
typedef bool storage_name_fn(void *data, const char *name);

struct storage_port {
    /* Paths begin at 'folder_fd', or at AT_FDCWD; files are made with mode
     * 0600, folders with 0700. */
    int (*openat)(int folder_fd, const char *path, int flags);
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *data, size_t size, off_t offset);
    ssize_t (*pwrite)(int fd, const void *data, size_t size, off_t offset);
    /* pwritev2() with RWF_DSYNC: what was written is durable on return. */
    ssize_t (*pwrite_dsync)(int fd, const void *data, size_t size,
                            off_t offset);
    int (*fsync)(int fd);
    int (*fdatasync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    /* fallocate() with FALLOC_FL_KEEP_SIZE. */
    int (*reserve)(int fd, off_t offset, off_t size);
    /* fstat(): st_size. */
    off_t (*size)(int fd);
    /* flock() with LOCK_EX | LOCK_NB. */
    int (*lock)(int fd);
    int (*mkdir)(const char *path);
    int (*renameat)(int folder_fd, const char *from, int to_folder_fd,
                    const char *to);
    int (*unlinkat)(int folder_fd, const char *path);
    /* faccessat() with F_OK. */
    int (*exists)(int folder_fd, const char *path);
    int (*list)(int folder_fd, storage_name_fn *visit, void *data);
    /* posix_fadvise() with POSIX_FADV_DONTNEED: to be read from the disk. */
    void (*forget)(int fd);
    /* mmap() of a whole file for reading; NULL and errno. */
    void *(*map)(int fd, size_t size);
    void (*unmap)(void *data, size_t size);
    /* Bytes free for this user on the file system of the folder. */
    int (*space)(int folder_fd, uint64_t *ret_free);
    /* Of the operating system that has the folder; empty: not known. */
    void (*boot_id)(int folder_fd, char ret_id[STORAGE_BOOT_ID_SIZE]);
};

/* The port in use. */
extern const struct storage_port *storage_port;
/* The operating system's. */
extern const struct storage_port storage_port_system;

#endif /* HASP_STORAGE_PORT_H */
