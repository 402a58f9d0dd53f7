/* SPDX-License-Identifier: MIT */

/* storage/table.h in memory, for the simulator and the tests.
 *
 * Each map is a persistent treap (Seidel and Aragon, "Randomized Search Trees",
 * 1996) with counted references: a shared node is copied before it is changed,
 * and so is the path to it (Driscoll et al., "Making Data Structures
 * Persistent", 1989). A transaction is one root pointer for each map:
 * beginning, committing and aborting cost next to nothing, and a reader's roots
 * never change.
 *
 * A node's priority is a hash of its key, so the tree's shape depends on the
 * keys alone. The counters are atomic since a read transaction may end on
 * another thread. */

#include "storage/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "storage/table_ops.h"

/* A key and its value, which never change. */
struct memory_record {
    atomic_uint reference_count;
    uint32_t key_size;
    uint32_t value_size;
    uint8_t data[]; /* The key, then the value. */
};

struct memory_node {
    atomic_uint reference_count;
    uint64_t priority;
    struct memory_record *record;
    struct memory_node *left;
    struct memory_node *right;
};

struct memory_table {
    struct table table;
    struct memory_node *root[TABLE_MAP_COUNT];
    atomic_uint txn_count;
};

struct memory_txn {
    struct table_txn txn;
    struct memory_node *root[TABLE_MAP_COUNT];
};

static const struct table_ops memory_ops;

struct table *table_new_memory(void)
{
    struct memory_table *memory = memory_new(sizeof *memory);
    memory->table.ops = &memory_ops;
    return &memory->table;
}

static struct bytes record_key(const struct memory_record *record)
{
    return bytes_of(record->data, record->key_size);
}

static struct bytes record_value(const struct memory_record *record)
{
    return bytes_of(record->data + record->key_size, record->value_size);
}

static struct memory_record *record_new(struct bytes key, struct bytes value)
{
    /* table_put() has seen to it. */
    CHECK(key.size <= TABLE_KEY_SIZE_MAX && value.size <= TABLE_VALUE_SIZE_MAX);
    struct memory_record *record = memory_new(sizeof *record + key.size +
                                              value.size);
    atomic_init(&record->reference_count, 1);
    record->key_size = (uint32_t)key.size;
    record->value_size = (uint32_t)value.size;
    memcpy(record->data, key.data, key.size);
    if (value.size > 0) {
        memcpy(record->data + key.size, value.data, value.size);
    }
    return record;
}

static void record_release(struct memory_record *record)
{
    uint32_t count = atomic_fetch_sub(&record->reference_count, 1);
    CHECK(count > 0);
    if (count == 1) {
        free(record);
    }
}

static struct memory_node *node_retain(struct memory_node *node)
{
    if (node != NULL) {
        atomic_fetch_add(&node->reference_count, 1);
    }
    return node;
}

static void node_release(struct memory_node *node)
{
    if (node == NULL) {
        return;
    }
    uint32_t count = atomic_fetch_sub(&node->reference_count, 1);
    CHECK(count > 0);
    if (count == 1) {
        node_release(node->left);
        node_release(node->right);
        record_release(node->record);
        free(node);
    }
}

static struct memory_node *table_memory_node_new(struct bytes key,
                                                 struct bytes value)
{
    struct memory_node *node = memory_new(sizeof *node);
    atomic_init(&node->reference_count, 1);
    node->priority = hash_bytes(key.data, key.size);
    node->record = record_new(key, value);
    return node;
}

/* Exchanges a reference to 'node' for one to a node with the same content that
 * nothing else refers to. Only the holder of the last reference could create
 * another, so a count of 1 stays 1. */
static struct memory_node *node_own(struct memory_node *node)
{
    if (atomic_load(&node->reference_count) == 1) {
        return node;
    }
    struct memory_node *copy = memory_new(sizeof *copy);
    atomic_init(&copy->reference_count, 1);
    copy->priority = node->priority;
    copy->record = node->record;
    atomic_fetch_add(&copy->record->reference_count, 1);
    copy->left = node_retain(node->left);
    copy->right = node_retain(node->right);
    node_release(node);
    return copy;
}

static const struct memory_node *node_find(const struct memory_node *node,
                                           struct bytes key)
{
    while (node != NULL) {
        int order = bytes_compare(key, record_key(node->record));
        if (order == 0) {
            return node;
        }
        node = order < 0 ? node->left : node->right;
    }
    return NULL;
}

/* Consumes a reference to 'node' and returns one to the tree with the record.
 */
static struct memory_node *node_put(struct memory_node *node, struct bytes key,
                                    struct bytes value)
{
    if (node == NULL) {
        return table_memory_node_new(key, value);
    }
    /* A reader may share the node, so copy it before the change. */
    node = node_own(node);
    int order = bytes_compare(key, record_key(node->record));
    if (order == 0) {
        struct memory_record *record = record_new(key, value);
        record_release(node->record);
        node->record = record;
        return node;
    }
    struct memory_node *child;
    if (order < 0) {
        child = node->left = node_put(node->left, key, value);
        if (child->priority > node->priority) {
            node->left = child->right;
            child->right = node;
            return child;
        }
    } else {
        child = node->right = node_put(node->right, key, value);
        if (child->priority > node->priority) {
            node->right = child->left;
            child->left = node;
            return child;
        }
    }
    return node;
}

/* Joins two trees, all keys of 'left' being below those of 'right'. */
static struct memory_node *node_join(struct memory_node *left,
                                     struct memory_node *right)
{
    if (left == NULL || right == NULL) {
        return left != NULL ? left : right;
    }
    CHECK_SLOW(
        bytes_compare(record_key(left->record), record_key(right->record)) < 0);
    if (left->priority > right->priority) {
        left = node_own(left);
        left->right = node_join(left->right, right);
        return left;
    }
    right = node_own(right);
    right->left = node_join(left, right->left);
    return right;
}

/* The key must be in the tree. */
static struct memory_node *node_remove(struct memory_node *node,
                                       struct bytes key)
{
    CHECK(node != NULL);
    node = node_own(node);
    int order = bytes_compare(key, record_key(node->record));
    if (order < 0) {
        node->left = node_remove(node->left, key);
        return node;
    }
    if (order > 0) {
        node->right = node_remove(node->right, key);
        return node;
    }
    struct memory_node *joined = node_join(node->left, node->right);
    node->left = NULL;
    node->right = NULL;
    node_release(node);
    return joined;
}

static int node_walk(const struct memory_node *node, struct bytes from,
                     table_visit_fn *visit, void *data)
{
    while (node != NULL) {
        if (bytes_compare(record_key(node->record), from) >= 0) {
            int result = node_walk(node->left, from, visit, data);
            if (result == 0) {
                result = visit(data, record_key(node->record),
                               record_value(node->record));
            }
            if (result != 0) {
                return result;
            }
        }
        node = node->right;
    }
    return 0;
}

static void release_roots(struct memory_node *root[TABLE_MAP_COUNT])
{
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        node_release(root[map]);
        root[map] = NULL;
    }
}

static void memory_close(struct table *table)
{
    struct memory_table *memory = (struct memory_table *)table;
    CHECK(atomic_load(&memory->txn_count) == 0);
    release_roots(memory->root);
    free(memory);
}

static int memory_sync(struct table *table)
{
    (void)table;
    return 0;
}

static int memory_begin(struct table *table, bool is_write,
                        struct table_txn **ret_txn)
{
    struct memory_table *memory = (struct memory_table *)table;
    struct memory_txn *txn = memory_new(sizeof *txn);
    txn->txn = (struct table_txn){.table = table, .is_write = is_write};
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        txn->root[map] = node_retain(memory->root[map]);
    }
    atomic_fetch_add(&memory->txn_count, 1);
    *ret_txn = &txn->txn;
    return 0;
}

static void memory_abort(struct table_txn *base)
{
    struct memory_txn *txn = (struct memory_txn *)base;
    struct memory_table *memory = (struct memory_table *)base->table;
    release_roots(txn->root);
    uint32_t count = atomic_fetch_sub(&memory->txn_count, 1);
    CHECK(count > 0);
    free(txn);
}

static int memory_commit(struct table_txn *base)
{
    struct memory_txn *txn = (struct memory_txn *)base;
    struct memory_table *memory = (struct memory_table *)base->table;
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        struct memory_node *old = memory->root[map];
        memory->root[map] = txn->root[map];
        txn->root[map] = old;
    }
    memory_abort(base);
    return 0;
}

static int memory_get(struct table_txn *txn, enum table_map map,
                      struct bytes key, struct bytes *ret_value)
{
    const struct memory_node *node = node_find(
        ((struct memory_txn *)txn)->root[map], key);
    if (node == NULL) {
        return HASP_ENOENT;
    }
    *ret_value = record_value(node->record);
    return 0;
}

static int memory_put(struct table_txn *txn, enum table_map map,
                      struct bytes key, struct bytes value)
{
    struct memory_node **root = &((struct memory_txn *)txn)->root[map];
    *root = node_put(*root, key, value);
    return 0;
}

static int memory_remove(struct table_txn *txn, enum table_map map,
                         struct bytes key)
{
    struct memory_node **root = &((struct memory_txn *)txn)->root[map];
    if (node_find(*root, key) != NULL) {
        *root = node_remove(*root, key);
    }
    return 0;
}

static int memory_clear(struct table_txn *txn)
{
    release_roots(((struct memory_txn *)txn)->root);
    return 0;
}

static int memory_walk(struct table_txn *txn, enum table_map map,
                       struct bytes from, table_visit_fn *visit, void *data)
{
    return node_walk(((struct memory_txn *)txn)->root[map], from, visit, data);
}

static int memory_grow(struct table *table)
{
    (void)table; /* This table is never full. */
    return 0;
}

static void memory_size(struct table *table, uint64_t *ret_used,
                        uint64_t *ret_room)
{
    (void)table;
    *ret_used = *ret_room = 0;
}

static const struct table_ops memory_ops = {
    .close = memory_close,
    .grow = memory_grow,
    .size = memory_size,
    .sync = memory_sync,
    .begin = memory_begin,
    .commit = memory_commit,
    .abort = memory_abort,
    .get = memory_get,
    .put = memory_put,
    .remove = memory_remove,
    .clear = memory_clear,
    .walk = memory_walk,
};
