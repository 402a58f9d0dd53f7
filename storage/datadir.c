/* SPDX-License-Identifier: MIT */

/* The data directory: its lock, its owner, and whether its table may be
 * trusted. */

#include "storage/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/crc32c.h"
#include "storage/disk.h"
#include "storage/port.h"
#include "storage/vote_file.h"

#define LOCK_NAME "LOCK"
#define IDENTITY_NAME "identity"
#define IDENTITY_FORMAT 1u
#define IDENTITY_SIZE_MAX 512u
#define TRUST_NAME "trust"
#define TABLE_NAME "table"
#define DAMAGED_NAME TABLE_NAME ".damaged-"
#define TRUST_SIZE_MAX 128u
#define INSTALLING_NAME "installing"

struct datadir {
    char *path;
    char *wal_path;
    char *snapshot_path;
    char *table_path;
    int folder_fd;
    int lock_fd;
    struct vote_file vote;
    struct datadir_identity identity;
    char boot_id[STORAGE_BOOT_ID_SIZE]; /* Empty if unknown. */
};

static int take_lock(struct datadir *datadir, char why[HASP_WHY_SIZE]);
static int datadir_make_folders(struct datadir *datadir,
                                char why[HASP_WHY_SIZE]);
static int load_identity(struct datadir *datadir, char why[HASP_WHY_SIZE]);
static int datadir_write_identity(const struct datadir *datadir,
                                  const struct datadir_identity *identity);
static int datadir_create(struct datadir *datadir, uint64_t node_id,
                          uint64_t incarnation, char why[HASP_WHY_SIZE]);
static int write_trust(struct datadir *datadir, const char *text);
static int remove_files(const char *path);

static char *datadir_join(const char *path, const char *name)
{
    size_t size = strlen(path) + strlen(name) + 2;
    char *joined = memory_new(size);
    snprintf(joined, size, "%s/%s", path, name);
    return joined;
}

int datadir_open(const char *path, uint64_t node_id,
                 uint64_t random_incarnation, struct datadir **ret_datadir,
                 bool *ret_is_new, char why[HASP_WHY_SIZE])
{
    struct datadir *datadir = memory_new(sizeof *datadir);
    bool is_new = false;
    datadir->path = memory_text(path);
    datadir->wal_path = datadir_join(path, "wal");
    datadir->snapshot_path = datadir_join(path, "snapshot");
    datadir->table_path = datadir_join(path, TABLE_NAME);
    datadir->folder_fd = -1;
    datadir->lock_fd = -1;
    datadir->vote.fd = -1;
    int error = disk_make_folder(path, &datadir->folder_fd);
    if (error != 0) {
        error = disk_fail(why, error, "open the data directory", path, NULL);
        goto out_close;
    }
    storage_port->boot_id(datadir->folder_fd, datadir->boot_id);
    /* The lock comes first: without it another process could be using the files
     * below. */
    error = take_lock(datadir, why);
    error = error ?: datadir_make_folders(datadir, why);
    error = error ?: load_identity(datadir, why);
    if (error == HASP_ENOENT) {
        is_new = true;
        error = datadir_create(datadir, node_id, random_incarnation, why);
    }
    if (error != 0) {
        goto out_close;
    }
    if (datadir->identity.node_id != node_id) {
        snprintf(why, HASP_WHY_SIZE,
                 "data directory '%.300s' belongs to node %" PRIu64
                 ", not to node %" PRIu64 "; correct the directory or the id",
                 path, datadir->identity.node_id, node_id);
        error = HASP_EINVALID;
        goto out_close;
    }
    *ret_datadir = datadir;
    *ret_is_new = is_new;
    return 0;

out_close:
    datadir_close(datadir);
    return error;
}

int datadir_open_existing(const char *path, struct datadir **ret_datadir,
                          char why[HASP_WHY_SIZE])
{
    struct datadir looked_at = {.path = memory_text(path)};
    bool is_new;
    int error;
    looked_at.folder_fd = storage_port->openat(AT_FDCWD, path,
                                               O_RDONLY | O_DIRECTORY);
    if (looked_at.folder_fd < 0) {
        error = disk_fail(why, errno, "open the data directory", path, NULL);
    } else {
        /* Only the node id is needed. datadir_open() takes the lock and reads
         * the identity again. */
        error = load_identity(&looked_at, why);
        storage_port->close(looked_at.folder_fd);
    }
    free(looked_at.path);
    if (error == HASP_ENOENT) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.300s' is not the data directory of a node: it has no '%s'",
                 path, IDENTITY_NAME);
    }
    return error != 0 ? error
                      : datadir_open(path, looked_at.identity.node_id, 0,
                                     ret_datadir, &is_new, why);
}

void datadir_close(struct datadir *datadir)
{
    if (datadir == NULL) {
        return;
    }
    /* Closing this file releases the lock, so it is closed last. */
    vote_file_close(&datadir->vote);
    int fds[] = {datadir->folder_fd, datadir->lock_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            storage_port->close(fds[i]);
        }
    }
    free(datadir->path);
    free(datadir->wal_path);
    free(datadir->snapshot_path);
    free(datadir->table_path);
    free(datadir);
}

const struct datadir_identity *datadir_identity(const struct datadir *datadir)
{
    return &datadir->identity;
}

int datadir_set_cluster(struct datadir *datadir,
                        const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    struct datadir_identity before = datadir->identity;
    CHECK(cluster_id_is_known(cluster_id)); /* Zeros mean that it has none. */
    memcpy(datadir->identity.cluster_id, cluster_id, CLUSTER_ID_SIZE);
    int error = datadir_write_identity(datadir, &datadir->identity);
    if (error != 0) {
        datadir->identity = before;
        return disk_error(error);
    }
    return 0;
}

void datadir_know_cluster(struct datadir *datadir,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    memcpy(datadir->identity.cluster_id, cluster_id, CLUSTER_ID_SIZE);
}

int datadir_save_identity(const struct datadir *datadir,
                          const struct datadir_identity *identity,
                          char why[HASP_WHY_SIZE])
{
    int error = datadir_write_identity(datadir, identity);
    return error == 0
               ? 0
               : disk_fail(why, error, "write", datadir->path, IDENTITY_NAME);
}

const char *datadir_path(const struct datadir *datadir)
{
    return datadir->path;
}

const char *datadir_wal_path(const struct datadir *datadir)
{
    return datadir->wal_path;
}

const char *datadir_snapshot_path(const struct datadir *datadir)
{
    return datadir->snapshot_path;
}

const char *datadir_table_path(const struct datadir *datadir)
{
    return datadir->table_path;
}

int datadir_load_vote(struct datadir *datadir, uint64_t *ret_term,
                      uint64_t *ret_voted_for, char why[HASP_WHY_SIZE])
{
    if (datadir->vote.fd < 0) {
        int error = vote_file_open(datadir->folder_fd, datadir->path,
                                   &datadir->vote, why);
        if (error != 0) {
            return error;
        }
    }
    *ret_term = datadir->vote.term;
    *ret_voted_for = datadir->vote.voted_for;
    return 0;
}

int datadir_save_vote(struct datadir *datadir, uint64_t term,
                      uint64_t voted_for)
{
    if (datadir->vote.fd < 0) {
        char why[HASP_WHY_SIZE];
        int error = vote_file_open(datadir->folder_fd, datadir->path,
                                   &datadir->vote, why);
        if (error != 0) {
            return error;
        }
    }
    int error = vote_file_save(&datadir->vote, term, voted_for);
    return error == 0 ? 0 : disk_error(error);
}

/* Reads a short file; false if that fails. */
static bool datadir_read_text(const struct datadir *datadir, const char *name,
                              char ret_text[TRUST_SIZE_MAX + 1])
{
    size_t size = 0;
    int fd = storage_port->openat(datadir->folder_fd, name, O_RDONLY);
    if (fd < 0) {
        return false;
    }
    int error = disk_read(fd, ret_text, TRUST_SIZE_MAX, 0, &size);
    storage_port->close(fd);
    return error == 0;
}

bool datadir_table_is_trusted(const struct datadir *datadir)
{
    char text[TRUST_SIZE_MAX + 1] = "";
    char here[TRUST_SIZE_MAX];
    if (!datadir_read_text(datadir, TRUST_NAME, text)) {
        return false;
    }
    snprintf(here, sizeof here, "boot %s\n", datadir->boot_id);
    return strcmp(text, "clean\n") == 0 ||
           (datadir->boot_id[0] != '\0' && strcmp(text, here) == 0);
}

/* Durably marks the table as not to be trusted. Returns 0 or an errno. */
static int remove_trust(struct datadir *datadir)
{
    if (storage_port->unlinkat(datadir->folder_fd, TRUST_NAME) != 0 &&
        errno != ENOENT) {
        return errno;
    }
    return storage_port->fsync(datadir->folder_fd) == 0 ? 0 : errno;
}

int datadir_table_set_aside(struct datadir *datadir, int *ret_number)
{
    char name[sizeof DAMAGED_NAME + 16];
    int number = 0;
    do {
        number++;
        snprintf(name, sizeof name, DAMAGED_NAME "%d", number);
    } while (number <= DATADIR_DAMAGED_MAX &&
             storage_port->exists(datadir->folder_fd, name) == 0);
    if (number > DATADIR_DAMAGED_MAX) {
        return HASP_EFULL;
    }
    /* Before the rename, so that after a crash between the two the empty table
     * is not trusted (rule 23). */
    int error = remove_trust(datadir);
    if (error == 0 && storage_port->renameat(datadir->folder_fd, TABLE_NAME,
                                             datadir->folder_fd, name) != 0) {
        error = errno;
    }
    if (error == 0) {
        int fd = -1;
        error = disk_make_folder(datadir->table_path, &fd);
        if (error == 0) {
            storage_port->close(fd);
        }
    }
    if (error == 0 && storage_port->fsync(datadir->folder_fd) != 0) {
        error = errno;
    }
    if (error != 0) {
        return disk_error(error);
    }
    *ret_number = number;
    return 0;
}

int datadir_table_remove(struct datadir *datadir)
{
    /* The table is marked as not to be trusted before it is removed. */
    int error = remove_trust(datadir) ?: remove_files(datadir->table_path);
    return error == 0 ? 0 : disk_error(error);
}

int datadir_table_opened(struct datadir *datadir)
{
    char text[TRUST_SIZE_MAX];
    snprintf(text, sizeof text, "boot %s\n", datadir->boot_id);
    return write_trust(datadir, text);
}

int datadir_table_restoring(struct datadir *datadir, bool is_restoring)
{
    return is_restoring ? write_trust(datadir, "restoring\n")
                        : datadir_table_opened(datadir);
}

int datadir_table_closed(struct datadir *datadir)
{
    return write_trust(datadir, "clean\n");
}

static void put_installation(uint64_t log_index, uint64_t term,
                             char out[TRUST_SIZE_MAX])
{
    snprintf(out, TRUST_SIZE_MAX, "index %" PRIu64 " term %" PRIu64 "\n",
             log_index, term);
}

int datadir_install_begin(struct datadir *datadir, uint64_t log_index,
                          uint64_t term)
{
    char text[TRUST_SIZE_MAX];
    put_installation(log_index, term, text);
    int error = disk_replace(datadir->folder_fd, INSTALLING_NAME,
                             bytes_of_text(text));
    return error == 0 ? 0 : disk_error(error);
}

int datadir_install_end(struct datadir *datadir)
{
    if (storage_port->unlinkat(datadir->folder_fd, INSTALLING_NAME) != 0) {
        return errno == ENOENT ? 0 : disk_error(errno);
    }
    return storage_port->fsync(datadir->folder_fd) == 0 ? 0 : disk_error(errno);
}

bool datadir_is_installing(const struct datadir *datadir, uint64_t log_index,
                           uint64_t term)
{
    char text[TRUST_SIZE_MAX + 1] = "";
    char expected[TRUST_SIZE_MAX];
    put_installation(log_index, term, expected);
    return datadir_read_text(datadir, INSTALLING_NAME, text) &&
           strcmp(text, expected) == 0;
}

int datadir_space(const struct datadir *datadir, uint64_t *ret_free)
{
    return storage_port->space(datadir->folder_fd, ret_free) == 0
               ? 0
               : disk_error(errno);
}

/* --- Opening -------------------------------------------------------------- */

static int take_lock(struct datadir *datadir, char why[HASP_WHY_SIZE])
{
    char pid[32] = "";
    size_t size = 0;
    datadir->lock_fd = storage_port->openat(datadir->folder_fd, LOCK_NAME,
                                            O_RDWR | O_CREAT);
    if (datadir->lock_fd < 0) {
        return disk_fail(why, errno, "open", datadir->path, LOCK_NAME);
    }
    if (storage_port->lock(datadir->lock_fd) != 0) {
        if (errno != EWOULDBLOCK) {
            return disk_fail(why, errno, "lock", datadir->path, LOCK_NAME);
        }
        if (disk_read(datadir->lock_fd, pid, sizeof pid - 1, 0, &size) != 0) {
            pid[0] = '\0';
        }
        pid[strcspn(pid, "\n")] = '\0';
        snprintf(why, HASP_WHY_SIZE,
                 "data directory '%.300s' is in use by process %s; one node, "
                 "one directory",
                 datadir->path, pid[0] != '\0' ? pid : "(unknown)");
        return HASP_EBUSY;
    }
    /* The id is for people; only the lock counts. */
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (storage_port->ftruncate(datadir->lock_fd, 0) != 0 ||
        storage_port->pwrite(datadir->lock_fd, pid, (size_t)length, 0) !=
            length) {
        return disk_fail(why, errno, "write", datadir->path, LOCK_NAME);
    }
    return 0;
}

static int datadir_make_folders(struct datadir *datadir,
                                char why[HASP_WHY_SIZE])
{
    const char *paths[] = {datadir->wal_path, datadir->snapshot_path,
                           datadir->table_path};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fd = -1;
        int error = disk_make_folder(paths[i], &fd);
        if (error != 0) {
            return disk_fail(why, error, "make", paths[i], NULL);
        }
        storage_port->close(fd);
    }
    return 0;
}

/* A storage_name_fn that finds any file. */
static bool is_file(void *data, const char *name)
{
    bool *is_found = data;
    *is_found = *is_found || name[0] != '.';
    return *is_found;
}

/* True if the directory has files that only one with an identity can have: a
 * log, or a vote after the first. */
static bool has_been_used(struct datadir *datadir)
{
    if (vote_file_is_used(datadir->folder_fd)) {
        return true;
    }
    bool has_log = false;
    int fd = storage_port->openat(AT_FDCWD, datadir->wal_path,
                                  O_RDONLY | O_DIRECTORY);
    if (fd >= 0) {
        (void)!storage_port->list(fd, is_file, &has_log);
        storage_port->close(fd);
    }
    return has_log;
}

/* Creates a directory's files. The identity is written last: a directory
 * without one has never been used. */
static int datadir_create(struct datadir *datadir, uint64_t node_id,
                          uint64_t incarnation, char why[HASP_WHY_SIZE])
{
    if (has_been_used(datadir)) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.300s/%s' is missing, and the directory is not "
                 "empty" DISK_LOSS_ADVICE,
                 datadir->path, IDENTITY_NAME);
        return HASP_ECORRUPT;
    }
    datadir->identity = (struct datadir_identity){.node_id = node_id,
                                                  .incarnation = incarnation};
    int error = vote_file_create(datadir->folder_fd, &datadir->vote);
    if (error == 0 && storage_port->fsync(datadir->folder_fd) != 0) {
        error = errno; /* The vote must be durable before the identity. */
    }
    if (error != 0) {
        return disk_fail(why, error, "write", datadir->path, VOTE_FILE_NAME);
    }
    error = datadir_write_identity(datadir, &datadir->identity);
    if (error != 0) {
        return disk_fail(why, error, "write", datadir->path, IDENTITY_NAME);
    }
    return 0;
}

static void datadir_put_hex(struct buffer *out, const uint8_t *data,
                            size_t size)
{
    for (size_t i = 0; i < size; i++) {
        buffer_printf(out, "%02x", data[i]);
    }
}

static void encode_identity(const struct datadir_identity *identity,
                            struct buffer *out)
{
    buffer_printf(out, "format=%u\ncluster=", IDENTITY_FORMAT);
    datadir_put_hex(out, identity->cluster_id, CLUSTER_ID_SIZE);
    buffer_printf(out, "\nnode=%" PRIu64 "\nincarnation=%016" PRIx64 "\n",
                  identity->node_id, identity->incarnation);
    buffer_printf(out, "crc32c=%08" PRIx32 "\n",
                  crc32c(0, out->data, out->size));
}

static int datadir_write_identity(const struct datadir *datadir,
                                  const struct datadir_identity *identity)
{
    struct buffer text = {0};
    encode_identity(identity, &text);
    int error = disk_replace(datadir->folder_fd, IDENTITY_NAME,
                             buffer_bytes(&text));
    buffer_done(&text);
    return error;
}

/* True if 'text' is exactly what encode_identity() makes of the result. */
static bool decode_identity(const char *text,
                            struct datadir_identity *ret_identity)
{
    struct datadir_identity identity = {0};
    unsigned format = 0;
    char cluster[2 * CLUSTER_ID_SIZE + 1] = "";
    if (sscanf(text,
               "format=%u cluster=%32[0-9a-f] node=%" SCNu64
               " incarnation=%" SCNx64,
               &format, cluster, &identity.node_id,
               &identity.incarnation) != 4 ||
        format != IDENTITY_FORMAT) {
        return false;
    }
    for (size_t i = 0; i < CLUSTER_ID_SIZE; i++) {
        unsigned byte = 0;
        if (sscanf(cluster + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        identity.cluster_id[i] = (uint8_t)byte;
    }
    /* sscanf() also accepts spaces, signs and trailing bytes. */
    struct buffer again = {0};
    encode_identity(&identity, &again);
    bool is_same = bytes_equal(buffer_bytes(&again), bytes_of_text(text));
    buffer_done(&again);
    if (is_same) {
        *ret_identity = identity;
    }
    return is_same;
}

static int load_identity(struct datadir *datadir, char why[HASP_WHY_SIZE])
{
    char text[IDENTITY_SIZE_MAX + 1] = "";
    size_t size = 0;
    int fd = storage_port->openat(datadir->folder_fd, IDENTITY_NAME, O_RDONLY);
    if (fd < 0 && errno == ENOENT) {
        return HASP_ENOENT;
    }
    int error = fd >= 0 ? disk_read(fd, text, IDENTITY_SIZE_MAX, 0, &size)
                        : errno;
    if (fd >= 0) {
        storage_port->close(fd);
    }
    if (error != 0) {
        return disk_fail(why, error, "read", datadir->path, IDENTITY_NAME);
    }
    /* A NUL in the file would hide the bytes after it. */
    if (strlen(text) != size || !decode_identity(text, &datadir->identity)) {
        snprintf(why, HASP_WHY_SIZE, "'%.300s/%s' is damaged" DISK_LOSS_ADVICE,
                 datadir->path, IDENTITY_NAME);
        return HASP_ECORRUPT;
    }
    return 0;
}

/* --- Files ---------------------------------------------------------------- */

static int write_trust(struct datadir *datadir, const char *text)
{
    int error = disk_replace(datadir->folder_fd, TRUST_NAME,
                             bytes_of_text(text));
    return error == 0 ? 0 : disk_error(error);
}

struct datadir_removal {
    int folder_fd;
    int error;
};

/* A storage_name_fn that removes the file. */
static bool remove_file(void *data, const char *name)
{
    struct datadir_removal *removal = data;
    if (storage_port->unlinkat(removal->folder_fd, name) != 0) {
        removal->error = errno;
    }
    return removal->error != 0;
}

/* Removes all files of a folder, durably. Returns 0 or an errno. */
static int remove_files(const char *path)
{
    struct datadir_removal removal = {.error = 0};
    removal.folder_fd = storage_port->openat(AT_FDCWD, path,
                                             O_RDONLY | O_DIRECTORY);
    if (removal.folder_fd < 0) {
        return errno;
    }
    int error = storage_port->list(removal.folder_fd, remove_file, &removal) ==
                        0
                    ? removal.error
                    : errno;
    if (error == 0 && storage_port->fsync(removal.folder_fd) != 0) {
        error = errno;
    }
    storage_port->close(removal.folder_fd);
    return error;
}
