/* SPDX-License-Identifier: MIT */

/* Snapshot files: writing, checking, finding and removing them.
 *
 *     snapshot-<index>-<term>.<pid>.tmp   being written; locked by its writer
 *     snapshot-<index>-<term>             whole: flushed, read back, checked
 *
 * A crash leaves a temporary file and nothing else. The name becomes visible
 * only after the content is on the disk, and the folder is flushed after the
 * name. */

#include "storage/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/port.h"

#define KEEP_COUNT 2
#define NAME_SIZE 64

struct snapshot_name {
    uint64_t index;
    uint64_t term;
};

/* The snapshots in a folder. */
struct snapshot_listing {
    struct snapshot_name *names; /* The newest come first. */
    size_t count;
};

static void auto_close(int *fd)
{
    if (*fd >= 0) {
        storage_port->close(*fd);
    }
}

/* Explains errno and translates it. */
static int snapshot_file_fail(char why[HASP_WHY_SIZE], const char *what,
                              const char *path)
{
    int code = errno;
    snprintf(why, HASP_WHY_SIZE, "%s '%.300s': %s", what, path, strerror(code));
    return disk_error(code);
}

static bool snapshot_file_join(char path[PATH_MAX], const char *folder,
                               const char *name)
{
    int size = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (size < 0 || size >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    return true;
}

static void format_name(char name[NAME_SIZE], uint64_t index, uint64_t term)
{
    snprintf(name, NAME_SIZE, "snapshot-%016" PRIx64 "-%016" PRIx64, index,
             term);
}

/* Puts the file's name before the reason in 'why'. */
static void snapshot_file_explain(char why[HASP_WHY_SIZE], const char *path)
{
    char reason[HASP_WHY_SIZE];
    memcpy(reason, why, HASP_WHY_SIZE);
    snprintf(why, HASP_WHY_SIZE, "the snapshot '%.250s' cannot be used: %.200s",
             path, reason);
}

/* A file that is being written, and how far. */
struct snapshot_output {
    int fd;
    uint64_t size;
};

static int write_piece(void *data, struct bytes piece)
{
    struct snapshot_output *output = data;
    while (piece.size > 0) {
        uint32_t place = disk_watch_begin("write a snapshot");
        ssize_t count = storage_port->pwrite(output->fd, piece.data, piece.size,
                                             (off_t)output->size);
        disk_watch_end(place);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return disk_error(errno);
        }
        piece.data += count;
        piece.size -= (size_t)count;
        output->size += (uint64_t)count;
    }
    return 0;
}

/* Writes the temporary file. On success it is flushed, and open and locked in
 * 'ret_fd'. */
static int write_temporary(const char *path,
                           const struct snapshot_header *header,
                           struct table_txn *txn, int *ret_fd,
                           char why[HASP_WHY_SIZE])
{
    int fd = storage_port->openat(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0) {
        return snapshot_file_fail(why, "cannot create the snapshot", path);
    }
    int error;
    /* The file is truncated only after it is locked: another thread could be
     * writing it. */
    if (storage_port->lock(fd) != 0 || storage_port->ftruncate(fd, 0) != 0) {
        error = snapshot_file_fail(
            why, "another process is writing the snapshot", path);
        storage_port->close(fd);
        return error;
    }
    struct snapshot_output output = {.fd = fd};
    errno = 0;
    error = snapshot_encode(header, txn, write_piece, &output);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot write the snapshot '%.300s': %s",
                 path, errno != 0 ? strerror(errno) : hasp_strerror(error));
    } else if (disk_flush(fd, "flush a snapshot") != 0) {
        error = snapshot_file_fail(why, "cannot flush the snapshot", path);
    }
    if (error != 0) {
        storage_port->unlinkat(AT_FDCWD, path);
        storage_port->close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

static int map_fd(int fd, struct snapshot_file *ret_file,
                  char why[HASP_WHY_SIZE])
{
    struct snapshot_file file = {0};
    off_t size = storage_port->size(fd);
    if (size < 0) {
        snprintf(why, HASP_WHY_SIZE, "%s", strerror(errno));
        return HASP_EIO;
    }
    /* mmap() refuses a length of 0, with a reason that does not help. */
    if (size == 0) {
        snprintf(why, HASP_WHY_SIZE, "it is empty");
        return HASP_ECORRUPT;
    }
    void *data = storage_port->map(fd, (size_t)size);
    if (data == NULL) {
        snprintf(why, HASP_WHY_SIZE, "%s", strerror(errno));
        return HASP_EIO;
    }
    file.stream = bytes_of(data, (size_t)size);
    int error = snapshot_check(file.stream, &file.header, why);
    if (error != 0) {
        snapshot_file_unmap(&file);
        return error;
    }
    *ret_file = file;
    return 0;
}

/* Writes the temporary file and reads it back from the disk. On success it is
 * open and locked in 'ret_fd'; otherwise it is removed. */
static int write_checked(const char *path, const struct snapshot_header *header,
                         struct table_txn *txn, int *ret_fd, uint64_t *ret_size,
                         char why[HASP_WHY_SIZE])
{
    struct snapshot_file file;
    int error = write_temporary(path, header, txn, ret_fd, why);
    if (error != 0) {
        return error;
    }
    /* The check should read the disk, not the page cache. */
    storage_port->forget(*ret_fd);
    error = map_fd(*ret_fd, &file, why);
    if (error != 0) {
        snapshot_file_explain(why, path);
        storage_port->unlinkat(AT_FDCWD, path);
        return error;
    }
    *ret_size = file.stream.size;
    snapshot_file_unmap(&file);
    return 0;
}

static int sync_folder(const char *folder)
{
    AUTO(auto_close)
    int fd = storage_port->openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    return fd < 0 || disk_flush(fd, "flush a snapshot") != 0 ? -1 : 0;
}

/* Parses a name; only what format_name() writes is one. */
static bool parse_name(const char *text, struct snapshot_name *ret_name)
{
    struct snapshot_name name;
    char again[NAME_SIZE];
    if (sscanf(text, "snapshot-%16" SCNx64 "-%16" SCNx64, &name.index,
               &name.term) != 2) {
        return false;
    }
    format_name(again, name.index, name.term);
    if (strcmp(again, text) != 0) {
        return false;
    }
    *ret_name = name;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct snapshot_name *x = a, *y = b;
    if (x->index != y->index) {
        return x->index > y->index ? -1 : 1;
    }
    return x->term > y->term ? -1 : x->term < y->term;
}

/* Removes the file 'name' if it is a temporary one that is not locked. */
static void remove_leftover(const char *folder, const char *name)
{
    char path[PATH_MAX];
    size_t size = strlen(name);
    if (size < 4 || strcmp(name + size - 4, ".tmp") != 0 ||
        !snapshot_file_join(path, folder, name)) {
        return;
    }
    AUTO(auto_close) int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    if (fd >= 0 && storage_port->lock(fd) == 0) {
        storage_port->unlinkat(AT_FDCWD, path);
    }
}

/* The state of a walk over the names in a folder. */
struct look {
    const char *folder;
    struct snapshot_listing listing;
    size_t capacity;
    bool with_removal;
};

/* A storage_name_fn that notes the name of a snapshot. */
static bool note_name(void *data, const char *text)
{
    struct look *look = data;
    struct snapshot_listing *listing = &look->listing;
    struct snapshot_name name;
    if (!parse_name(text, &name)) {
        if (look->with_removal) {
            remove_leftover(look->folder, text);
        }
        return false;
    }
    if (listing->count == look->capacity) {
        look->capacity = look->capacity == 0 ? 8 : 2 * look->capacity;
        listing->names = memory_resize(listing->names,
                                       look->capacity * sizeof *listing->names);
    }
    listing->names[listing->count++] = name;
    return false;
}

/* Lists the folder; with 'with_removal' left-over temporary files are removed
 * on the way. */
static int list_folder(const char *folder, bool with_removal,
                       struct snapshot_listing *ret_listing,
                       char why[HASP_WHY_SIZE])
{
    struct look look = {.folder = folder, .with_removal = with_removal};
    AUTO(auto_close)
    int fd = storage_port->openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || storage_port->list(fd, note_name, &look) != 0) {
        free(look.listing.names);
        return snapshot_file_fail(why, "cannot read the folder", folder);
    }
    if (look.listing.count > 0) {
        qsort(look.listing.names, look.listing.count,
              sizeof *look.listing.names, compare_names);
    }
    *ret_listing = look.listing;
    return 0;
}

/* Gives the checked file its name and drops what is older than the newest two.
 * A failure to drop is not a failure of the snapshot. */
static int snapshot_file_publish(const char *folder, const char *temporary_path,
                                 const struct snapshot_header *header,
                                 char why[HASP_WHY_SIZE])
{
    char name[NAME_SIZE], path[PATH_MAX];
    struct snapshot_listing listing = {0};
    format_name(name, header->last_index, header->last_term);
    if (!snapshot_file_join(path, folder, name) ||
        storage_port->renameat(AT_FDCWD, temporary_path, AT_FDCWD, path) != 0) {
        return snapshot_file_fail(why, "cannot rename the snapshot",
                                  temporary_path);
    }
    /* Older snapshots are removed only after the new name is durable. */
    if (sync_folder(folder) != 0) {
        return snapshot_file_fail(why, "cannot flush the folder", folder);
    }
    char ignored[HASP_WHY_SIZE];
    if (list_folder(folder, false, &listing, ignored) == 0) {
        for (size_t i = KEEP_COUNT; i < listing.count; i++) {
            format_name(name, listing.names[i].index, listing.names[i].term);
            if (snapshot_file_join(path, folder, name)) {
                storage_port->unlinkat(AT_FDCWD, path);
            }
        }
    }
    free(listing.names);
    return 0;
}

int snapshot_file_write(const char *folder,
                        const struct snapshot_header *header,
                        struct table_txn *txn, uint64_t *ret_size,
                        char why[HASP_WHY_SIZE])
{
    char name[NAME_SIZE + 32], path[PATH_MAX];
    AUTO(auto_close) int fd = -1;
    format_name(name, header->last_index, header->last_term);
    snprintf(name + strlen(name), 32, ".%ld.tmp", (long)getpid());
    if (!snapshot_file_join(path, folder, name)) {
        return snapshot_file_fail(why, "cannot name a snapshot in", folder);
    }
    int error = write_checked(path, header, txn, &fd, ret_size, why);
    if (error != 0) {
        return error;
    }
    error = snapshot_file_publish(folder, path, header, why);
    if (error != 0) {
        storage_port->unlinkat(AT_FDCWD, path);
    }
    return error;
}

int snapshot_file_save(const char *path, const struct snapshot_header *header,
                       struct table_txn *txn, uint64_t *ret_size,
                       char why[HASP_WHY_SIZE])
{
    char part[PATH_MAX], folder[PATH_MAX];
    AUTO(auto_close) int fd = -1;
    const char *slash = strrchr(path, '/');
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return snapshot_file_fail(why, "cannot create the snapshot", path);
    }
    snprintf(folder, sizeof folder, "%.*s",
             slash == NULL ? 1 : (int)(slash - path) + 1,
             slash == NULL ? "." : path);
    int error = write_checked(part, header, txn, &fd, ret_size, why);
    if (error != 0) {
        return error;
    }
    /* write_checked() has flushed and read back the file, so 'path' never
     * denotes an incomplete one. */
    if (storage_port->renameat(AT_FDCWD, part, AT_FDCWD, path) != 0) {
        error = snapshot_file_fail(why, "cannot rename the snapshot to", path);
        storage_port->unlinkat(AT_FDCWD, part);
        return error;
    }
    return sync_folder(folder) == 0
               ? 0
               : snapshot_file_fail(why, "cannot flush the folder", folder);
}

int snapshot_file_adopt(const char *folder, const char *temporary_path,
                        char why[HASP_WHY_SIZE])
{
    struct snapshot_file file;
    AUTO(auto_close)
    int fd = storage_port->openat(AT_FDCWD, temporary_path, O_RDWR);
    if (fd < 0) {
        return snapshot_file_fail(why, "cannot open the received snapshot",
                                  temporary_path);
    }
    if (disk_flush(fd, "flush a snapshot") != 0) {
        return snapshot_file_fail(why, "cannot flush the received snapshot",
                                  temporary_path);
    }
    /* Check the disk, not the page cache. */
    storage_port->forget(fd);
    int error = map_fd(fd, &file, why);
    if (error != 0) {
        snapshot_file_explain(why, temporary_path);
        return error;
    }
    error = snapshot_file_publish(folder, temporary_path, &file.header, why);
    snapshot_file_unmap(&file);
    return error;
}

int snapshot_file_newest(const char *folder, struct snapshot_file *ret_file,
                         char why[HASP_WHY_SIZE])
{
    struct snapshot_listing listing = {0};
    char path[PATH_MAX], name[NAME_SIZE], reason[HASP_WHY_SIZE];
    int error = list_folder(folder, true, &listing, why);
    if (error != 0) {
        return error;
    }
    /* The process that gave a snapshot its name may have ended before the name
     * was durable. */
    if (listing.count > 0 && sync_folder(folder) != 0) {
        free(listing.names);
        return snapshot_file_fail(why, "cannot flush the folder", folder);
    }
    int result = listing.count > 0 ? HASP_ECORRUPT : HASP_ENOENT;
    why[0] = '\0';
    if (result == HASP_ENOENT) {
        snprintf(why, HASP_WHY_SIZE, "no snapshot in '%s'", folder);
    }
    for (size_t i = 0; i < listing.count && result != 0; i++) {
        format_name(name, listing.names[i].index, listing.names[i].term);
        if (!snapshot_file_join(path, folder, name)) {
            continue;
        }
        reason[0] = '\0';
        result = snapshot_file_map(path, ret_file, reason);
        if (result == 0 &&
            (ret_file->header.last_index != listing.names[i].index ||
             ret_file->header.last_term != listing.names[i].term)) {
            snprintf(
                reason, sizeof reason,
                "the snapshot '%.300s' has a different index than its name "
                "says",
                path);
            snapshot_file_unmap(ret_file);
            result = HASP_ECORRUPT;
        }
        /* The newest bad snapshot is the one to report. */
        if (result != 0 && why[0] == '\0') {
            memcpy(why, reason, HASP_WHY_SIZE);
        }
    }
    free(listing.names);
    return result;
}

int snapshot_file_map(const char *path, struct snapshot_file *ret_file,
                      char why[HASP_WHY_SIZE])
{
    AUTO(auto_close) int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    if (fd < 0) {
        int code = errno;
        int error = snapshot_file_fail(why, "cannot open the snapshot", path);
        return code == ENOENT ? HASP_ENOENT : error;
    }
    int error = map_fd(fd, ret_file, why);
    if (error != 0) {
        snapshot_file_explain(why, path);
    }
    return error;
}

void snapshot_file_unmap(struct snapshot_file *file)
{
    if (file->stream.size > 0) {
        storage_port->unmap((void *)(uintptr_t)file->stream.data,
                            file->stream.size);
    }
    *file = (struct snapshot_file){0};
}
