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
 * that does, with -1 and errno. It may be interrupted (EINTR) and may do a part
 * (pread, pwrite) where that may; storage/disk.h has what is built on it.
 *
 * Workers: what waits for the disk is done by a worker in steps, so that nobody
 * else waits. The decisions (what is written next, what is durable) are in the
 * step; the port only says when it is called. There it is a thread's loop, here
 * an event of the simulator.
 *
 * Threads: a port is set before anything of storage/ is used; its functions may
 * be called by any thread. */

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

/* Called for each name in a folder but "." and "..", in no order; true to end.
 * The name may be removed meanwhile, nothing else of the folder changed. */
typedef bool storage_name_fn(void *data, const char *name);

struct worker;

/* Does one thing of what there is to do. Returns when it is to be called again
 * at the latest (CLOCK_MONOTONIC, ns): a time that has passed, if there is more
 * to do; WORKER_IDLE, when it is woken; WORKER_OVER, never. */
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
    /* Of the operating system that has the folder; empty: not known. */
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
