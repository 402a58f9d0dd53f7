/* SPDX-License-Identifier: MIT */

/* storage/table.h on LMDB.
 *
 * MDB_NOSYNC: a commit writes to the page cache and does not wait for the disk;
 * the process may die at any point, the table is whole. MDB_NOTLS: a read
 * transaction belongs to its object and not to the thread that began it, so the
 * snapshot worker may use it. No MDB_WRITEMAP: a stray pointer of ours cannot
 * reach the file. */

#include "storage/table.h"

#include <errno.h>
#include <inttypes.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/table_ops.h"

/* With less free space than this a write can have failed for lack of space. */
#define FULL_SIZE (1u << 20)
/* The least size to try: each process has that much address space. */
#define SIZE_MIN (UINT64_C(16) << 20)

struct lmdb_table {
    struct table table;
    MDB_env *env;
    MDB_dbi dbi[TABLE_MAP_COUNT];
    /* The file has at least this many bytes, or it was truncated: its pages are
     * mapped, and one beyond its end cannot be read. Changed by the writer. */
    _Atomic uint64_t length;
    atomic_bool is_cut;       /* This has been seen, and logged. */
    atomic_uint reader_count; /* Readers begin here, and end on any thread. */
    struct list in_open;      /* In open_tables. */
    dev_t device;             /* The folder's. */
    ino_t inode;
};

struct lmdb_txn {
    struct table_txn txn;
    MDB_txn *mdb;
};

_Static_assert(TABLE_MAP_COUNT == 14, "a new map needs a name here");
static const char *const map_names[TABLE_MAP_COUNT] = {
    "meta",   "sessions", "locks", "holds", "waits",   "blacklist", "results",
    "fences", "members",  "users", "roles", "revoked", "acts",      "cells",
};

/* LMDB caveat: "do not have open an LMDB database twice in the same process at
 * the same time". This list prevents it. */
static struct list open_tables = {&open_tables, &open_tables};
static pthread_mutex_t open_tables_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct table_ops lmdb_ops;

/* LMDB returns its own codes (negative, from MDB_KEYEXIST on) and errno values
 * (positive) through the same int. */
static int err_from_mdb(int code)
{
    switch (code) {
    case 0:
        return 0;
    case MDB_NOTFOUND:
        return HASP_ENOENT;
    case MDB_MAP_FULL:
        return HASP_EFULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return HASP_ECORRUPT;
    case MDB_READERS_FULL:
        return HASP_EBUSY;
    case ENOMEM:
        return HASP_ENOMEM;
    default:
        return disk_error(code);
    }
}

/* True if that much address space is free. A failed mdb_env_set_mapsize() could
 * not be undone, so this is tried first. */
static bool has_address_space(size_t size)
{
    void *at = mmap(NULL, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at != MAP_FAILED && munmap(at, size) == 0;
}

static int read_length(MDB_env *env, uint64_t *ret_length)
{
    struct stat status;
    int fd;
    int code = mdb_env_get_fd(env, &fd);
    if (code == 0 && fstat(fd, &status) != 0) {
        code = errno;
    }
    if (code == 0) {
        *ret_length = (uint64_t)status.st_size;
    }
    return code;
}

/* How long the file is for all its pages. False: it says more than a file can
 * have. */
static bool read_needed(MDB_env *env, uint64_t *ret_needed)
{
    MDB_envinfo info;
    MDB_stat stat;
    CHECK(mdb_env_info(env, &info) == 0);
    CHECK(mdb_env_stat(env, &stat) == 0);
    if (info.me_last_pgno >= INT64_MAX / stat.ms_psize) {
        return false;
    }
    *ret_needed = (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
    return true;
}

/* HASP_ECORRUPT if the file has been cut since it was opened. The error reaches
 * a person by way of another thread, without the sizes, so they are logged. */
static int check_length(struct lmdb_table *lmdb)
{
    uint64_t length = 0;
    uint64_t expected = atomic_load(&lmdb->length);
    if (atomic_load(&lmdb->is_cut)) {
        return HASP_ECORRUPT;
    }
    int code = read_length(lmdb->env, &length);
    if (code == 0 && length < expected &&
        !atomic_exchange(&lmdb->is_cut, true)) {
        const char *path = "";
        (void)mdb_env_get_path(lmdb->env, &path);
        LOG_ERROR("the table was cut short while it was in use",
                  "file=\"%s/data.mdb\" bytes=%" PRIu64 " expected=%" PRIu64
                  " hint=\"the next start rebuilds it\"",
                  path, length, expected);
    }
    return atomic_load(&lmdb->is_cut) ? HASP_ECORRUPT : err_from_mdb(code);
}

/* After a commit: pages at the end that it has given back at once were not
 * written, so the file may be shorter than LMDB's count of its pages. It gets
 * that length, or it would be taken for a file that was cut. */
static int keep_length(struct lmdb_table *lmdb)
{
    uint64_t length = 0, needed = 0;
    int fd, code = check_length(lmdb);
    if (code != 0) {
        return code;
    }
    CHECK(read_needed(lmdb->env, &needed));
    code = read_length(lmdb->env, &length);
    code = code != 0 ? code : mdb_env_get_fd(lmdb->env, &fd);
    if (code == 0 && length < needed && ftruncate(fd, (off_t)needed) != 0) {
        code = errno;
    }
    if (code == 0) {
        atomic_store(&lmdb->length, needed);
    }
    return err_from_mdb(code);
}

static void lmdb_close(struct table *table)
{
    struct lmdb_table *lmdb = (struct lmdb_table *)table;
    CHECK(atomic_load(&lmdb->reader_count) == 0); /* They see its memory. */
    pthread_mutex_lock(&open_tables_mutex);
    list_remove(&lmdb->in_open);
    pthread_mutex_unlock(&open_tables_mutex);
    if (lmdb->env != NULL) {
        mdb_env_close(lmdb->env);
    }
    free(lmdb);
}

/* Makes the folder and adds it to the list of open tables. */
static int claim_folder(struct lmdb_table *lmdb, const char *path,
                        char why[HASP_WHY_SIZE])
{
    struct stat stat_;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) ||
        stat(path, &stat_) != 0) {
        int code = errno;
        snprintf(why, HASP_WHY_SIZE, "cannot make the table's folder '%s': %s",
                 path, strerror(code));
        return err_from_mdb(code);
    }
    /* Not the path: several paths can lead to one folder. */
    lmdb->device = stat_.st_dev;
    lmdb->inode = stat_.st_ino;
    bool is_open = false;
    pthread_mutex_lock(&open_tables_mutex);
    LIST_EACH (node, &open_tables) {
        struct lmdb_table *other = LIST_ENTRY(node, struct lmdb_table, in_open);
        is_open |= other->device == lmdb->device && other->inode == lmdb->inode;
    }
    if (!is_open) {
        list_push_back(&open_tables, &lmdb->in_open);
    }
    pthread_mutex_unlock(&open_tables_mutex);
    if (is_open) {
        snprintf(why, HASP_WHY_SIZE,
                 "the table '%s' is open in this process already", path);
        return HASP_EBUSY;
    }
    return 0;
}

/* Opens the handles of the named databases once, in a write transaction that
 * creates what is missing; they then serve all transactions. */
static int open_maps(struct lmdb_table *lmdb)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(lmdb->env, NULL, 0, &txn);
    for (int map = 0; code == 0 && map < TABLE_MAP_COUNT; map++) {
        code = mdb_dbi_open(txn, map_names[map], MDB_CREATE, &lmdb->dbi[map]);
        if (code != 0) {
            mdb_txn_abort(txn);
        }
    }
    return code != 0 ? code : mdb_txn_commit(txn);
}

/* Reads the list of free pages, which no record shows to be damaged. */
static int read_free_list(MDB_env *env)
{
    const MDB_dbi free_list = 0;
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, value;
    int code = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (code != 0) {
        return code;
    }
    code = mdb_cursor_open(txn, free_list, &cursor);
    if (code == 0) {
        do {
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
        } while (code == 0);
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return code == MDB_NOTFOUND ? 0 : code;
}

/* HASP_EMORE if an opened table has pages beyond the end of its file. Nothing
 * beyond the first two has been touched yet. */
static int check_opened(struct lmdb_table *lmdb, const char *path,
                        char why[HASP_WHY_SIZE])
{
    uint64_t length = 0, needed = 0;
    int code = read_length(lmdb->env, &length);
    if (code != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot read the table in '%s': %s", path,
                 strerror(code));
        return err_from_mdb(code);
    }
    if (!read_needed(lmdb->env, &needed) || length < needed) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%s/data.mdb' has %" PRIu64 " bytes, its pages need %" PRIu64,
                 path, length, needed);
        return HASP_EMORE;
    }
    atomic_store(&lmdb->length, needed);
    return 0;
}

/* LMDB makes an empty file a new table, and knows no reason for a shorter one.
 * One that a killed process has just made is not trusted, so it is not here. */
static int table_lmdb_check_file(const char *path, char why[HASP_WHY_SIZE])
{
    struct stat status;
    char name[HASP_WHY_SIZE];
    snprintf(name, sizeof name, "%s/data.mdb", path);
    if (stat(name, &status) != 0 ||
        status.st_size >= 2 * (off_t)sysconf(_SC_PAGESIZE)) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE, "'%.400s' has %" PRIu64 " bytes", name,
             (uint64_t)status.st_size);
    return HASP_EMORE;
}

static int open_env(struct lmdb_table *lmdb, const char *path, uint64_t size)
{
    int code = mdb_env_create(&lmdb->env);
    if (code != 0) {
        lmdb->env = NULL;
        return code;
    }
    code = mdb_env_set_mapsize(lmdb->env, size);
    if (code == 0) {
        code = mdb_env_set_maxdbs(lmdb->env, TABLE_MAP_COUNT);
    }
    if (code == 0) {
        code = mdb_env_set_maxreaders(lmdb->env, TABLE_READER_COUNT_MAX);
    }
    if (code == 0) {
        code = mdb_env_open(lmdb->env, path, MDB_NOSYNC | MDB_NOTLS, 0600);
    }
    return code;
}

static int open_pages(struct lmdb_table *lmdb)
{
    int dead = 0;
    /* A reader that a killed process left would pin its pages. */
    int code = mdb_reader_check(lmdb->env, &dead);
    code = code != 0 ? code : open_maps(lmdb);
    return code != 0 ? code : read_free_list(lmdb->env);
}

static int table_lmdb_open_table(struct lmdb_table *lmdb, const char *path,
                                 uint64_t size, char why[HASP_WHY_SIZE])
{
    int error = table_lmdb_check_file(path, why);
    if (error != 0) {
        return error;
    }
    int code = open_env(lmdb, path, size);
    if (code == 0) {
        error = check_opened(lmdb, path, why);
        if (error != 0) {
            return error;
        }
        code = open_pages(lmdb);
    }
    if (code != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot open the table in '%s': %s", path,
                 mdb_strerror(code));
        return err_from_mdb(code);
    }
    return keep_length(lmdb);
}

int table_open_lmdb(const char *path, uint64_t size, struct table **ret_table,
                    char why[HASP_WHY_SIZE])
{
    struct lmdb_table *lmdb = memory_new(sizeof *lmdb);
    lmdb->table.ops = &lmdb_ops;
    list_init(&lmdb->in_open);

    int error = claim_folder(lmdb, path, why);
    while (size > SIZE_MIN && !has_address_space(size)) {
        size /= 2; /* The table can grow later, when there may be more. */
    }
    error = error ?: table_lmdb_open_table(lmdb, path, size, why);
    if (error != 0) {
        lmdb_close(&lmdb->table);
        return error;
    }
    *ret_table = &lmdb->table;
    return 0;
}

static MDB_val val_of(struct bytes bytes)
{
    /* LMDB does not write through the pointers that it is given. */
    return (MDB_val){.mv_size = bytes.size,
                     .mv_data = (void *)(uintptr_t)bytes.data};
}

static struct bytes bytes_of_val(MDB_val val)
{
    return bytes_of(val.mv_data, val.mv_size);
}

static int lmdb_begin(struct table *table, bool is_write,
                      struct table_txn **ret_txn)
{
    struct lmdb_table *lmdb = (struct lmdb_table *)table;
    int error = check_length(lmdb);
    if (error != 0) {
        return error;
    }
    struct lmdb_txn *txn = memory_new(sizeof *txn);
    int code = mdb_txn_begin(lmdb->env, NULL, is_write ? 0 : MDB_RDONLY,
                             &txn->mdb);
    if (code != 0) {
        free(txn);
        return err_from_mdb(code);
    }
    txn->txn = (struct table_txn){.table = table, .is_write = is_write};
    atomic_fetch_add(&lmdb->reader_count, is_write ? 0 : 1);
    *ret_txn = &txn->txn;
    return 0;
}

/* LMDB calls a write that was cut short by a full disk EIO. */
static bool is_full(MDB_env *env)
{
    struct statvfs room;
    int fd;
    return mdb_env_get_fd(env, &fd) == 0 && fstatvfs(fd, &room) == 0 &&
           (uint64_t)room.f_bavail * room.f_frsize < FULL_SIZE;
}

static void lmdb_abort(struct table_txn *base);

static int lmdb_commit(struct table_txn *base)
{
    struct lmdb_txn *txn = (struct lmdb_txn *)base;
    struct lmdb_table *lmdb = (struct lmdb_table *)base->table;
    /* Writing would give a file that was cut its length back, with holes. */
    int error = check_length(lmdb);
    if (error != 0) {
        lmdb_abort(base);
        return error;
    }
    uint32_t place = disk_watch_begin("write the table");
    /* The handle is freed even if this fails. */
    int code = mdb_txn_commit(txn->mdb);
    disk_watch_end(place);
    free(txn);
    if (code != 0) {
        return code == EIO && is_full(lmdb->env) ? HASP_ENOSPC
                                                 : err_from_mdb(code);
    }
    return keep_length(lmdb);
}

static void lmdb_abort(struct table_txn *base)
{
    struct lmdb_txn *txn = (struct lmdb_txn *)base;
    struct lmdb_table *lmdb = (struct lmdb_table *)base->table;
    unsigned readers = base->is_write ? 0 : 1;
    mdb_txn_abort(txn->mdb);
    free(txn);
    unsigned count = atomic_fetch_sub(&lmdb->reader_count, readers);
    CHECK(count >= readers);
}

/* "If the mapsize is changed no transactions may be active in this process." */
static int lmdb_grow(struct table *table)
{
    struct lmdb_table *lmdb = (struct lmdb_table *)table;
    MDB_envinfo info;
    if (atomic_load(&lmdb->reader_count) > 0) {
        return HASP_EBUSY;
    }
    int code = mdb_env_info(lmdb->env, &info);
    if (code != 0) {
        return err_from_mdb(code);
    }
    if (info.me_mapsize > SIZE_MAX / 2 ||
        !has_address_space(2 * info.me_mapsize)) {
        return HASP_ENOMEM;
    }
    return err_from_mdb(mdb_env_set_mapsize(lmdb->env, 2 * info.me_mapsize));
}

static void lmdb_size(struct table *table, uint64_t *ret_used,
                      uint64_t *ret_room)
{
    struct lmdb_table *lmdb = (struct lmdb_table *)table;
    MDB_envinfo info;
    MDB_stat stat;
    if (check_length(lmdb) != 0) {
        *ret_used = *ret_room = atomic_load(&lmdb->length);
        return;
    }
    CHECK(mdb_env_info(lmdb->env, &info) == 0);
    CHECK(mdb_env_stat(lmdb->env, &stat) == 0);
    *ret_used = (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize;
    *ret_room = info.me_mapsize;
}

static MDB_dbi dbi_of(struct table_txn *txn, enum table_map map)
{
    return ((struct lmdb_table *)txn->table)->dbi[map];
}

static int lmdb_get(struct table_txn *txn, enum table_map map, struct bytes key,
                    struct bytes *ret_value)
{
    MDB_val mdb_key = val_of(key), value;
    int code = mdb_get(((struct lmdb_txn *)txn)->mdb, dbi_of(txn, map),
                       &mdb_key, &value);
    if (code == 0) {
        *ret_value = bytes_of_val(value);
    }
    return err_from_mdb(code);
}

static int lmdb_put(struct table_txn *txn, enum table_map map, struct bytes key,
                    struct bytes value)
{
    MDB_val mdb_key = val_of(key), mdb_value = val_of(value);
    return err_from_mdb(mdb_put(((struct lmdb_txn *)txn)->mdb, dbi_of(txn, map),
                                &mdb_key, &mdb_value, 0));
}

static int lmdb_remove(struct table_txn *txn, enum table_map map,
                       struct bytes key)
{
    MDB_val mdb_key = val_of(key);
    int code = mdb_del(((struct lmdb_txn *)txn)->mdb, dbi_of(txn, map),
                       &mdb_key, NULL);
    return code == MDB_NOTFOUND ? 0 : err_from_mdb(code);
}

static int lmdb_clear(struct table_txn *txn)
{
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        int code = mdb_drop(((struct lmdb_txn *)txn)->mdb,
                            dbi_of(txn, (enum table_map)map), 0);
        if (code != 0) {
            return err_from_mdb(code);
        }
    }
    return 0;
}

static int lmdb_walk(struct table_txn *txn, enum table_map map,
                     struct bytes from, table_visit_fn *visit, void *data)
{
    MDB_cursor *cursor;
    MDB_val key = val_of(from), value;
    /* LMDB refuses an empty key for MDB_SET_RANGE. */
    MDB_cursor_op first = from.size == 0 ? MDB_FIRST : MDB_SET_RANGE;
    int code = mdb_cursor_open(((struct lmdb_txn *)txn)->mdb, dbi_of(txn, map),
                               &cursor);
    if (code != 0) {
        return err_from_mdb(code);
    }
    int result = 0;
    code = mdb_cursor_get(cursor, &key, &value, first);
    while (code == 0 && result == 0) {
        result = visit(data, bytes_of_val(key), bytes_of_val(value));
        if (result == 0) {
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
        }
    }
    mdb_cursor_close(cursor);
    if (result != 0) {
        return result;
    }
    return code == MDB_NOTFOUND ? 0 : err_from_mdb(code);
}

static int lmdb_sync(struct table *table)
{
    struct lmdb_table *lmdb = (struct lmdb_table *)table;
    int error = check_length(lmdb);
    return error ?: err_from_mdb(mdb_env_sync(lmdb->env, 1));
}

static const struct table_ops lmdb_ops = {
    .close = lmdb_close,
    .grow = lmdb_grow,
    .size = lmdb_size,
    .sync = lmdb_sync,
    .begin = lmdb_begin,
    .commit = lmdb_commit,
    .abort = lmdb_abort,
    .get = lmdb_get,
    .put = lmdb_put,
    .remove = lmdb_remove,
    .clear = lmdb_clear,
    .walk = lmdb_walk,
};
