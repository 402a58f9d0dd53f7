/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "storage/disk.h"
#include "storage/port.h"
#include "storage/table_ops.h"

#define FILE_NAME "data.mdb"

/* An open table, for the life of a process. */
struct handle {
    struct table table;
    struct sim_table *owner;
    int fd;
};

struct handle_txn {
    struct table_txn txn;
    struct table_txn *inner;
};

static struct table_txn *inner(struct table_txn *txn)
{
    return ((struct handle_txn *)txn)->inner;
}

static void handle_close(struct table *table)
{
    struct handle *handle = (struct handle *)table;
    storage_port->close(handle->fd);
    free(handle);
}

static int handle_grow(struct table *table)
{
    return table_grow(((struct handle *)table)->owner->content);
}

static void handle_size(struct table *table, uint64_t *ret_used,
                        uint64_t *ret_room)
{
    table_size(((struct handle *)table)->owner->content, ret_used, ret_room);
}

static int handle_sync(struct table *table)
{
    struct handle *handle = (struct handle *)table;
    int error = disk_flush(handle->fd, "flush the table");
    if (error != 0) {
        return disk_error(error);
    }
    handle->owner->is_dirty = false;
    return 0;
}

/* The write into the file precedes the change, which is atomic. */
static int count_write(struct handle *handle)
{
    uint8_t bytes[8];
    store_u64(bytes, ++handle->owner->writes);
    int error = disk_write_cached(handle->fd, bytes_of(bytes, sizeof bytes), 0);
    handle->owner->is_dirty = true;
    return error == 0 ? 0 : disk_error(error);
}

static int handle_begin(struct table *table, bool is_write,
                        struct table_txn **ret_txn)
{
    struct handle *handle = (struct handle *)table;
    struct table *content = handle->owner->content;
    struct table_txn *txn = NULL;
    int error = is_write ? count_write(handle) : 0;
    if (error == 0) {
        error = is_write ? table_begin_write(content, &txn)
                         : table_begin_read(content, &txn);
    }
    if (error != 0) {
        return error;
    }
    struct handle_txn *outer = memory_new(sizeof *outer);
    *outer = (struct handle_txn){.txn = {.table = table, .is_write = is_write},
                                 .inner = txn};
    *ret_txn = &outer->txn;
    return 0;
}

static int handle_commit(struct table_txn *txn)
{
    int error = table_commit(inner(txn));
    free(txn);
    return error;
}

static void handle_abort(struct table_txn *txn)
{
    table_abort(inner(txn));
    free(txn);
}

static int handle_get(struct table_txn *txn, enum table_map map,
                      struct bytes key, struct bytes *ret_value)
{
    return table_get(inner(txn), map, key, ret_value);
}

static int handle_put(struct table_txn *txn, enum table_map map,
                      struct bytes key, struct bytes value)
{
    return table_put(inner(txn), map, key, value);
}

static int handle_remove(struct table_txn *txn, enum table_map map,
                         struct bytes key)
{
    return table_delete(inner(txn), map, key);
}

static int handle_clear(struct table_txn *txn)
{
    return table_clear(inner(txn));
}

static int handle_walk(struct table_txn *txn, enum table_map map,
                       struct bytes from, table_visit_fn *visit, void *data)
{
    return table_walk(inner(txn), map, from, visit, data);
}

static const struct table_ops handle_ops = {
    .close = handle_close,
    .grow = handle_grow,
    .size = handle_size,
    .sync = handle_sync,
    .begin = handle_begin,
    .commit = handle_commit,
    .abort = handle_abort,
    .get = handle_get,
    .put = handle_put,
    .remove = handle_remove,
    .clear = handle_clear,
    .walk = handle_walk,
};

void sim_table_init(struct sim_table *table, struct sim *sim)
{
    *table = (struct sim_table){.sim = sim, .content = table_new_memory()};
}

void sim_table_done(struct sim_table *table)
{
    table_close(table->content);
    table->content = NULL;
}

void sim_table_lose_power(struct sim_table *table)
{
    table->is_torn |= table->is_dirty;
    table->is_dirty = false;
}

int sim_table_open(struct sim_table *table, const char *path,
                   struct table **ret_table, char why[HASP_WHY_SIZE])
{
    char file[64];
    snprintf(file, sizeof file, "%s/" FILE_NAME, path);
    int fd = storage_port->openat(AT_FDCWD, file, O_RDWR | O_CREAT);
    if (fd < 0) {
        return disk_fail(why, errno, "open", path, FILE_NAME);
    }
    off_t size = storage_port->size(fd);
    if (size < 0) {
        storage_port->close(fd);
        return disk_fail(why, EIO, "read", path, FILE_NAME);
    }
    if (size == 0) {
        sim_table_done(table);
        sim_table_init(table, table->sim);
    } else if (table->is_torn) {
        sim_fail(table->sim, ORACLE_NODES,
                 "a table that died with the machine is not trusted: '%s' is "
                 "opened",
                 path);
    }
    struct handle *handle = memory_new(sizeof *handle);
    *handle = (struct handle){.owner = table, .fd = fd};
    handle->table.ops = &handle_ops;
    *ret_table = &handle->table;
    return 0;
}
