/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/haspd/machine.h"

/* A durable write of 4 KiB, so often, but no longer than this. */
#define FLUSH_COUNT 200
#define FLUSH_S 2.0
#define FLUSH_SIZE 4096
/* As the alert HaspDiskSlow. */
#define FLUSH_WARN_MS 50
#define FLUSH_TAIL_MS 500
/* Files besides the connections of clients. */
#define FILES_BESIDES 128
/* Memory that a node needs without a state, and as many times the state. */
#define MEMORY_LEAST (UINT64_C(256) << 20)
#define MEMORY_TIMES 3

/* --- The data directory ----------------------------------------------------
 */

static bool machine_has_file(const char *directory, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

void machine_directory(struct machine_checks *machine)
{
    const char *directory = machine->options->directory;
    struct stat status;
    if (stat(machine->place, &status) != 0) {
        machine_report(machine, MACHINE_FAIL,
                       "create the folder above node.dir, or correct node.dir",
                       "'%s': %s", machine->place, strerror(errno));
        return;
    }
    if (access(machine->place, R_OK | W_OK | X_OK) != 0) {
        machine_report(machine, MACHINE_FAIL,
                       "chown -R the data directory to the user of haspd",
                       "'%s' belongs to user %u, and user %u cannot use it: %s",
                       machine->place, (unsigned)status.st_uid,
                       (unsigned)geteuid(), strerror(errno));
    }
    if (!machine->has_directory) {
        return;
    }
    if ((status.st_mode & 077) != 0) {
        machine_report(machine, MACHINE_WARN, "chmod 700 the data directory",
                       "'%s' has mode %04o: other users can read the state",
                       directory, (unsigned)status.st_mode & 07777);
    }
    if (machine_has_file(directory, "condemned")) {
        machine_report(
            machine, MACHINE_FAIL,
            "replace the node: see 'Replace a node' in "
            "docs/operations.md",
            "'%s' has lost acknowledged data; no node starts from it",
            directory);
    } else if (machine_has_file(directory, "barred")) {
        machine_report(
            machine, MACHINE_WARN, "see 'A barred node' in docs/operations.md",
            "'%s' is accused of lost data; the node does not vote", directory);
    }
}

/* A file that nobody else sees; -1 and errno. */
static int open_scratch(const char *folder)
{
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return fd;
    }
    snprintf(path, sizeof path, "%s/.doctor-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures durable writes; returns how many, 0 after an error. */
static int measure_flushes(int fd, double ret_ms[FLUSH_COUNT])
{
    static const char block[FLUSH_SIZE];
    double end_ms = machine_now_ms() + FLUSH_S * 1e3;
    int count = 0;
    while (count < FLUSH_COUNT && machine_now_ms() < end_ms) {
        double began_ms = machine_now_ms();
        if (pwrite(fd, block, sizeof block, (off_t)count * FLUSH_SIZE) !=
                FLUSH_SIZE ||
            fdatasync(fd) != 0) {
            return 0;
        }
        ret_ms[count++] = machine_now_ms() - began_ms;
    }
    qsort(ret_ms, (size_t)count, sizeof ret_ms[0], compare_times);
    return count;
}

void machine_flush(struct machine_checks *machine)
{
    double ms[FLUSH_COUNT];
    int fd = open_scratch(machine->place);
    int count = fd < 0 ? 0 : measure_flushes(fd, ms);
    if (count == 0) {
        machine_report(machine, MACHINE_FAIL,
                       "see whether the disk is full, read-only or broken: "
                       "dmesg",
                       "cannot write in '%s': %s", machine->place,
                       strerror(errno));
    } else {
        double median = ms[count / 2], tail = ms[(count * 99 - 1) / 100];
        bool is_slow = median >= FLUSH_WARN_MS || tail >= FLUSH_TAIL_MS;
        bool is_useless = median * 2 > (double)machine->options->election_ms;
        machine_report(
            machine,
            is_useless ? MACHINE_FAIL
            : is_slow  ? MACHINE_WARN
                       : MACHINE_OK,
            is_slow || is_useless
                ? "use a disk of its own for node.dir, with power-"
                  "loss protection; see what else writes: iostat -x 1"
                : "",
            "a durable write of 4 KiB in '%s' takes %.2f ms (99 of "
            "100: up to %.2f ms)%s",
            machine->place, median, tail,
            is_slow || is_useless ? ": the disk is slow" : "");
    }
    if (fd >= 0) {
        close(fd);
    }
}

void machine_disk(struct machine_checks *machine)
{
    struct statvfs room;
    if (statvfs(machine->place, &room) != 0) {
        machine_report(machine, MACHINE_FAIL, "see dmesg", "'%s': %s",
                       machine->place, strerror(errno));
        return;
    }
    uint64_t free_size = (uint64_t)room.f_bavail * room.f_frsize;
    uint64_t reserve = machine->options->limits.disk_reserve;
    if (free_size < 2 * reserve) {
        machine_report(
            machine, free_size < reserve ? MACHINE_FAIL : MACHINE_WARN,
            "free space on the file system of node.dir",
            "%" PRIu64 " MiB are free for '%s'; with less than %" PRIu64
            " MiB (limits.disk_reserve) the node refuses changes",
            free_size >> 20, machine->place, reserve >> 20);
    }
    if (room.f_files > 0 && room.f_favail < 100) {
        machine_report(machine, MACHINE_FAIL,
                       "remove files on the file system of node.dir",
                       "'%s' has room for only %llu more files", machine->place,
                       (unsigned long long)room.f_favail);
    }
}

void machine_audit(struct machine_checks *machine)
{
    char copy[PATH_MAX];
    const char *path = machine->options->audit_file;
    if (path == NULL || path[0] == '\0') {
        return;
    }
    snprintf(copy, sizeof copy, "%s", path);
    const char *what = access(path, F_OK) == 0 ? path : dirname(copy);
    if (access(what, W_OK) != 0) {
        machine_report(machine, MACHINE_WARN,
                       "create the folder of audit.file, owned by the user of "
                       "haspd",
                       "audit.file '%s' cannot be written: '%s': %s", path,
                       what, strerror(errno));
    }
}

/* --- The process ---------------------------------------------------------- */

/* The number in the line of a file that begins with 'key'; -1: none, or it is
 * "unlimited" or "max". 'key' "" reads the first word. */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    long long number = -1;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            if (sscanf(line + strlen(key), "%lld", &number) != 1) {
                number = -1;
            }
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

/* "/proc/PID/NAME" of the node, or of this process if it does not run. */
static void proc_path(const struct machine_checks *machine, const char *name,
                      char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "/proc/%ld/%s",
             (long)(machine->pid != 0 ? machine->pid : getpid()), name);
}

void machine_files(struct machine_checks *machine)
{
    char path[PATH_MAX];
    struct rlimit own;
    int64_t need = (int64_t)machine->options->limits.connections +
                   FILES_BESIDES;
    proc_path(machine, "limits", path);
    int64_t most = number_in(path, "Max open files");
    if (machine->pid == 0 && getrlimit(RLIMIT_NOFILE, &own) == 0) {
        /* haspd raises its limit to the hard one. */
        most = own.rlim_max == RLIM_INFINITY ? -1 : (int64_t)own.rlim_max;
    }
    if (most >= 0 && most < need) {
        machine_report(machine, MACHINE_WARN,
                       "raise LimitNOFILE= of the unit (ulimit -n), or lower "
                       "limits.connections",
                       "haspd may open %" PRId64 " files; limits.connections = "
                       "%" PRIu32 " needs %" PRId64,
                       most, machine->options->limits.connections, need);
    }
}

void machine_swap(struct machine_checks *machine)
{
    char path[PATH_MAX];
    proc_path(machine, "status", path);
    int64_t swapped_kib = number_in(path, "VmSwap:");
    if (machine->pid != 0 && swapped_kib > 0) {
        machine_report(machine, MACHINE_WARN,
                       "set MemorySwapMax=0 in the unit, or swapoff -a, and "
                       "restart the node",
                       "%" PRId64 " KiB of the node are swapped out",
                       swapped_kib);
    }
}

/* True if 'word' is one of 'words', which are separated by commas. */
static bool group_has(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = words; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, size) == 0 &&
            (at[size] == '\0' || at[size] == ',')) {
            return true;
        }
    }
    return false;
}

/* Finds the node's control group: the path of a file of it, in the hierarchy of
 * 'controller' (version 1) or the unified one. False: there is none. */
static bool find_group(const struct machine_checks *machine,
                       const char *controller, const char *name_v1,
                       const char *name_v2, char out[PATH_MAX], bool *ret_is_v2)
{
    char path[PATH_MAX], line[PATH_MAX];
    bool is_found = false;
    proc_path(machine, "cgroup", path);
    FILE *file = fopen(path, "re");
    while (file != NULL && !is_found &&
           fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *group = names != NULL ? strchr(names + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        *ret_is_v2 = names[1] == '\0';
        if (*ret_is_v2) {
            snprintf(out, PATH_MAX, "/sys/fs/cgroup%.2000s/%s", group, name_v2);
        } else if (group_has(names + 1, controller)) {
            snprintf(out, PATH_MAX, "/sys/fs/cgroup/%s%.2000s/%s", controller,
                     group, name_v1);
        } else {
            continue;
        }
        is_found = access(out, R_OK) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return is_found;
}

/* The quota in CPUs; 0: none. */
static double cpu_quota(const struct machine_checks *machine)
{
    char path[PATH_MAX];
    bool is_v2;
    long long quota = -1, period = 100000;
    if (!find_group(machine, "cpu", "cpu.cfs_quota_us", "cpu.max", path,
                    &is_v2)) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%lld %lld", &quota, &period) < 1) {
        quota = -1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

void machine_cpu(struct machine_checks *machine)
{
    double quota = cpu_quota(machine);
    if (quota > 0 && quota < 1) {
        machine_report(machine, MACHINE_WARN,
                       "remove CPUQuota= of the unit, or the CPU limit of the "
                       "container",
                       "the node may use only %.2f of a CPU: each time the "
                       "quota is spent it pauses, and may lose its leadership",
                       quota);
    }
}

/* The memory that the node may use: its group's limit, or the machine's. */
static uint64_t memory_max(const struct machine_checks *machine)
{
    char path[PATH_MAX];
    bool is_v2;
    uint64_t max = (uint64_t)sysconf(_SC_PHYS_PAGES) *
                   (uint64_t)sysconf(_SC_PAGESIZE);
    if (find_group(machine, "memory", "memory.limit_in_bytes", "memory.max",
                   path, &is_v2)) {
        int64_t limit = number_in(path, "");
        if (limit > 0 && (uint64_t)limit < max) {
            max = (uint64_t)limit;
        }
    }
    return max;
}

void machine_memory(struct machine_checks *machine)
{
    uint64_t max = memory_max(machine);
    uint64_t size = machine->options->limits.state_size;
    uint64_t need = MEMORY_LEAST + MEMORY_TIMES * size;
    if (max < need) {
        machine_report(
            machine, MACHINE_WARN,
            "raise MemoryMax= of the unit or the container's memory, "
            "or lower the limit: hasp limits set state_size BYTES",
            "the node may use %" PRIu64 " MiB of memory; with "
            "limits.state_size = %" PRIu64 " MiB it may need %" PRIu64 " MiB",
            max >> 20, size >> 20, need >> 20);
    }
}
