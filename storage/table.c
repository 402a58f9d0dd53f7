/* SPDX-License-Identifier: MIT */

/* The calls of table.h, passed on to the table's implementation. */

#include "storage/table.h"

#include "base/check.h"
#include "storage/table_ops.h"

static bool key_is_valid(struct bytes key)
{
    return key.size >= 1 && key.size <= TABLE_KEY_SIZE_MAX;
}

/* After a write that failed the pages in memory and on disk may differ: from
 * then on the table can only be read. If the map had no room, nothing was
 * written. */
static int note_failure(struct table *table, int error)
{
    if (error != 0 && error != HASP_EFULL) {
        table->is_broken = true;
    }
    return error;
}

void table_close(struct table *table)
{
    if (table != NULL) {
        CHECK(table->writer == NULL);
        table->ops->close(table);
    }
}

bool table_is_busy(struct table *table)
{
    return table->ops->is_busy != NULL && table->ops->is_busy(table);
}

int table_grow(struct table *table)
{
    CHECK(table->writer == NULL);
    return table->is_broken ? HASP_EIO : table->ops->grow(table);
}

void table_size(struct table *table, uint64_t *ret_used, uint64_t *ret_room)
{
    table->ops->size(table, ret_used, ret_room);
}

int table_sync(struct table *table)
{
    CHECK(table->writer == NULL);
    if (table->is_broken) {
        return HASP_EIO;
    }
    return note_failure(table, table->ops->sync(table));
}

int table_begin_read(struct table *table, struct table_txn **ret_txn)
{
    return table->ops->begin(table, false, ret_txn);
}

int table_begin_write(struct table *table, struct table_txn **ret_txn)
{
    CHECK(table->writer == NULL);
    if (table->is_broken) {
        return HASP_EIO;
    }
    int error = table->ops->begin(table, true, ret_txn);
    if (error == 0) {
        table->writer = *ret_txn;
    }
    return note_failure(table, error);
}

int table_commit(struct table_txn *txn)
{
    struct table *table = txn->table;
    if (!txn->is_write) {
        table->ops->abort(txn);
        return 0;
    }
    CHECK(table->writer == txn);
    table->writer = NULL;
    if (table->is_broken) {
        table->ops->abort(txn);
        return HASP_EIO;
    }
    return note_failure(table, table->ops->commit(txn));
}

/* A read may end on another thread than the writer's: nothing of the table is
 * touched for it here. */
void table_abort(struct table_txn *txn)
{
    if (txn == NULL) {
        return;
    }
    if (txn->is_write) {
        CHECK(txn->table->writer == txn);
        txn->table->writer = NULL;
    }
    txn->table->ops->abort(txn);
}

int table_get(struct table_txn *txn, enum table_map map, struct bytes key,
              struct bytes *ret_value)
{
    CHECK(map < TABLE_MAP_COUNT);
    if (!key_is_valid(key)) {
        return HASP_EINVALID;
    }
    return txn->table->ops->get(txn, map, key, ret_value);
}

int table_put(struct table_txn *txn, enum table_map map, struct bytes key,
              struct bytes value)
{
    CHECK(txn->is_write);
    CHECK(map < TABLE_MAP_COUNT);
    if (!key_is_valid(key) || value.size > TABLE_VALUE_SIZE_MAX) {
        return HASP_EINVALID;
    }
    return note_failure(txn->table, txn->table->ops->put(txn, map, key, value));
}

int table_delete(struct table_txn *txn, enum table_map map, struct bytes key)
{
    CHECK(txn->is_write);
    CHECK(map < TABLE_MAP_COUNT);
    if (!key_is_valid(key)) {
        return HASP_EINVALID;
    }
    return note_failure(txn->table, txn->table->ops->remove(txn, map, key));
}

int table_clear(struct table_txn *txn)
{
    CHECK(txn->is_write);
    return note_failure(txn->table, txn->table->ops->clear(txn));
}

int table_walk(struct table_txn *txn, enum table_map map, struct bytes from,
               table_visit_fn *visit, void *data)
{
    CHECK(map < TABLE_MAP_COUNT);
    if (from.size > TABLE_KEY_SIZE_MAX) {
        return HASP_EINVALID;
    }
    return txn->table->ops->walk(txn, map, from, visit, data);
}
