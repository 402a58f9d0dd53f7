/* SPDX-License-Identifier: MIT */

/* The functions of an implementation of storage/table.h; private to storage/.
 *
 * table.c has checked the arguments before it calls: keys and values have an
 * allowed size, a change comes with a write transaction, a transaction that was
 * ended is not used again. */

#ifndef HASP_STORAGE_TABLE_OPS_H
#define HASP_STORAGE_TABLE_OPS_H

#include "storage/table.h"

struct table_ops {
    void (*close)(struct table *table);
    bool (*is_busy)(struct table *table); /* NULL: it never is. */
    int (*grow)(struct table *table);
    void (*size)(struct table *table, uint64_t *ret_used, uint64_t *ret_room);
    int (*sync)(struct table *table);
    int (*begin)(struct table *table, bool is_write,
                 struct table_txn **ret_txn);
    int (*commit)(struct table_txn *txn);
    void (*abort)(struct table_txn *txn);
    int (*get)(struct table_txn *txn, enum table_map map, struct bytes key,
               struct bytes *ret_value);
    int (*put)(struct table_txn *txn, enum table_map map, struct bytes key,
               struct bytes value);
    int (*remove)(struct table_txn *txn, enum table_map map, struct bytes key);
    int (*clear)(struct table_txn *txn);
    int (*walk)(struct table_txn *txn, enum table_map map, struct bytes from,
                table_visit_fn *visit, void *data);
};

/* The first member of each implementation's table. */
struct table {
    const struct table_ops *ops;
    struct table_txn *writer; /* The open write transaction, or NULL. */
    bool is_broken;           /* A write has failed: no other may begin. */
};

/* The first member of each implementation's transaction. */
struct table_txn {
    struct table *table;
    bool is_write;
};

#endif /* HASP_STORAGE_TABLE_OPS_H */
