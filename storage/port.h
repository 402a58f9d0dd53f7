/* SPDX-License-Identifier: MIT */

/* The services of the operating system that storage/ uses: calls on files, and
 * workers.
 *
 * There is one port in a process. It is the operating system's, unless a test
 * puts another in its place: the simulator runs the log, the vote, snapshots
 * and the data directory on a disk in memory (tests/sim/sim_files.h), which
 * loses, tears and reorders what was not flushed, and decides when each worker
 * takes its next step.
 *
 * Files: each function does what the system call of its name does, and fails as
 * that does, with -1 and errno. Like the system call it can be interrupted
 * (EINTR) or do a part of the work (pread, pwrite); storage/disk.h builds whole
 * operations on it.
 *
 * Workers: a worker does everything that waits for the disk, in steps, so that
 * no other thread waits. The decisions (what is written next, what is durable)
 * are in the step; the port only decides when it is called. A thread's loop
 * calls it, or an event of the simulator.
 *
 * Threads: a port is set before storage/ is used; any thread may call its
 * functions. */

#ifndef HASP_STORAGE_PORT_H
#define HASP_STORAGE_PORT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define STORAGE_BOOT_ID_SIZE 64u

/* Called for each name in a folder except "." and "..", in any order; returns
 * true to end. It may remove the name, but must not change the folder
 * otherwise. */
typedef bool storage_name_fn(void *data, const char *name);

struct worker;

/* Does one piece of the work. Returns the latest time for its next call
 * (CLOCK_MONOTONIC, ns): a time in the past if there is more to do;
 * WORKER_IDLE: when it is woken; WORKER_OVER: never. */
typedef uint64_t worker_step_fn(void *data, uint64_t now_ns);
#define WORKER_IDLE UINT64_MAX
#define WORKER_OVER (UINT64_MAX - 1)

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
    /* Boot id of the operating system that has the folder; empty: not known. */
    void (*boot_id)(int folder_fd, char ret_id[STORAGE_BOOT_ID_SIZE]);

    /* CLOCK_MONOTONIC. */
    uint64_t (*now_ns)(void);
    /* storage/worker.h. */
    int (*worker_start)(const char *name, worker_step_fn *step, void *data,
                        struct worker **ret_worker);
    void (*worker_wake)(struct worker *worker);
    void (*worker_wait)(struct worker *worker, pthread_mutex_t *mutex,
                        pthread_cond_t *changed);
    void (*worker_wait_for)(struct worker *worker, sem_t *posted);
    void (*worker_join)(struct worker *worker);
};

/* The port in use. */
extern const struct storage_port *storage_port;
/* The operating system's. */
extern const struct storage_port storage_port_system;

#endif /* HASP_STORAGE_PORT_H */
