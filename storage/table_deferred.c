/* SPDX-License-Identifier: MIT */

/* A table whose writes are done by a worker: storage/table.h.
 *
 * A write transaction collects its operations; its commit queues them for the
 * thread, which applies them to the inner table in one transaction. A read
 * transaction keeps its place in the queue: it begins at once if the queue is
 * empty. Otherwise the thread opens it, and its first use waits for that. */

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/list.h"
#include "base/memory.h"
#include "storage/table_ops.h"
#include "storage/worker.h"

/* Wait before another attempt to grow the table, which cannot grow while it is
 * being read. */
#define GROW_RETRY_NS 50000000L

enum operation { OPERATION_PUT, OPERATION_REMOVE, OPERATION_CLEAR };

struct deferred {
    struct table table;
    struct table *inner;
    struct worker *worker;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* 'mutex' guards all below. */
    struct list queue; /* Holds struct deferred_txn. */
    /* The thread works on a transaction that it has taken out. */
    bool is_working;
    bool is_stopping;
    int error; /* The error of a write, which is final. */
    uint64_t used;
    uint64_t room;
};

struct deferred_txn {
    struct table_txn txn;
    struct list in_queue;
    struct buffer operations; /* Encoded changes of a write. */
    /* A read's transaction in the inner table, once it is open. */
    struct table_txn *inner;
    int error; /* The error of opening it. */
    bool is_open;
};

static const struct table_ops deferred_ops;
static uint64_t table_deferred_step(void *data, uint64_t now_ns);
static bool table_deferred_is_idle(const struct deferred *self);
static void wait_until_idle(struct deferred *self);
static int table_deferred_carry_out(struct table *inner,
                                    struct bytes operations);

int table_new_deferred(struct table *inner, struct table **ret_table)
{
    struct deferred *self = memory_new(sizeof *self);
    self->table.ops = &deferred_ops;
    self->inner = inner;
    list_init(&self->queue);
    table_size(inner, &self->used, &self->room);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->changed, NULL);
    int error = worker_start("hasp-table", table_deferred_step, self,
                             &self->worker);
    if (error != 0) {
        pthread_cond_destroy(&self->changed);
        pthread_mutex_destroy(&self->mutex);
        free(self);
        return error;
    }
    *ret_table = &self->table;
    return 0;
}

static void deferred_close(struct table *table)
{
    struct deferred *self = (struct deferred *)table;
    pthread_mutex_lock(&self->mutex);
    self->is_stopping = true;
    pthread_mutex_unlock(&self->mutex);
    worker_wake(self->worker);
    worker_join(self->worker);
    CHECK(list_is_empty(&self->queue));
    table_close(self->inner);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

static bool deferred_is_busy(struct table *table)
{
    struct deferred *self = (struct deferred *)table;
    pthread_mutex_lock(&self->mutex);
    bool is_busy = !table_deferred_is_idle(self);
    pthread_mutex_unlock(&self->mutex);
    return is_busy;
}

/* The thread grows the table by itself. */
static int deferred_grow(struct table *table)
{
    (void)table;
    return HASP_EBUSY;
}

static void deferred_size(struct table *table, uint64_t *ret_used,
                          uint64_t *ret_room)
{
    struct deferred *self = (struct deferred *)table;
    pthread_mutex_lock(&self->mutex);
    *ret_used = self->used;
    *ret_room = self->room;
    pthread_mutex_unlock(&self->mutex);
}

static int deferred_sync(struct table *table)
{
    struct deferred *self = (struct deferred *)table;
    pthread_mutex_lock(&self->mutex);
    wait_until_idle(self);
    int error = self->error;
    pthread_mutex_unlock(&self->mutex);
    return error != 0 ? error : table_sync(self->inner);
}

static int deferred_begin(struct table *table, bool is_write,
                          struct table_txn **ret_txn)
{
    struct deferred *self = (struct deferred *)table;
    struct deferred_txn *txn = memory_new(sizeof *txn);
    txn->txn = (struct table_txn){.table = table, .is_write = is_write};
    list_init(&txn->in_queue);
    bool is_queued = false;
    int error = 0;
    pthread_mutex_lock(&self->mutex);
    if (is_write || self->error != 0) {
        /* After a failed write a read would miss what was committed. */
        error = self->error;
    } else if (table_deferred_is_idle(self)) {
        error = table_begin_read(self->inner, &txn->inner);
        txn->is_open = true;
    } else {
        list_push_back(&self->queue, &txn->in_queue);
        is_queued = true;
    }
    pthread_mutex_unlock(&self->mutex);
    if (is_queued) {
        worker_wake(self->worker);
    }
    if (error != 0) {
        free(txn);
        return error;
    }
    *ret_txn = &txn->txn;
    return 0;
}

static int deferred_commit(struct table_txn *base)
{
    struct deferred *self = (struct deferred *)base->table;
    struct deferred_txn *txn = (struct deferred_txn *)base;
    pthread_mutex_lock(&self->mutex);
    list_push_back(&self->queue, &txn->in_queue);
    pthread_mutex_unlock(&self->mutex);
    worker_wake(self->worker);
    return 0;
}

/* Waits until a read is open; returns the error of opening it. */
static int open_read(struct deferred_txn *txn)
{
    struct deferred *self = (struct deferred *)txn->txn.table;
    CHECK(!txn->txn.is_write); /* A write could not see what it has written. */
    pthread_mutex_lock(&self->mutex);
    while (!txn->is_open) {
        worker_wait(self->worker, &self->mutex, &self->changed);
    }
    int error = txn->error;
    pthread_mutex_unlock(&self->mutex);
    return error;
}

static void deferred_abort(struct table_txn *base)
{
    struct deferred_txn *txn = (struct deferred_txn *)base;
    if (!base->is_write && open_read(txn) == 0) {
        table_abort(txn->inner);
    }
    buffer_done(&txn->operations);
    free(txn);
}

static int deferred_get(struct table_txn *base, enum table_map map,
                        struct bytes key, struct bytes *ret_value)
{
    struct deferred_txn *txn = (struct deferred_txn *)base;
    int error = open_read(txn);
    return error != 0 ? error : table_get(txn->inner, map, key, ret_value);
}

static int deferred_walk(struct table_txn *base, enum table_map map,
                         struct bytes from, table_visit_fn *visit, void *data)
{
    struct deferred_txn *txn = (struct deferred_txn *)base;
    int error = open_read(txn);
    return error != 0 ? error : table_walk(txn->inner, map, from, visit, data);
}

static void put_operation(struct table_txn *base, enum operation operation,
                          enum table_map map, struct bytes key,
                          struct bytes value)
{
    struct buffer *out = &((struct deferred_txn *)base)->operations;
    /* table_put() and table_delete() have seen to it. */
    CHECK(key.size <= TABLE_KEY_SIZE_MAX && value.size <= TABLE_VALUE_SIZE_MAX);
    buffer_put_u8(out, (uint8_t)operation);
    buffer_put_u8(out, (uint8_t)map);
    buffer_put_u32(out, (uint32_t)key.size);
    buffer_put_u32(out, (uint32_t)value.size);
    buffer_put_bytes(out, key);
    buffer_put_bytes(out, value);
}

static int deferred_put(struct table_txn *base, enum table_map map,
                        struct bytes key, struct bytes value)
{
    put_operation(base, OPERATION_PUT, map, key, value);
    return 0;
}

static int deferred_remove(struct table_txn *base, enum table_map map,
                           struct bytes key)
{
    put_operation(base, OPERATION_REMOVE, map, key, (struct bytes){NULL, 0});
    return 0;
}

static int deferred_clear(struct table_txn *base)
{
    put_operation(base, OPERATION_CLEAR, TABLE_META, (struct bytes){NULL, 0},
                  (struct bytes){NULL, 0});
    return 0;
}

static const struct table_ops deferred_ops = {
    .close = deferred_close,
    .is_busy = deferred_is_busy,
    .grow = deferred_grow,
    .size = deferred_size,
    .sync = deferred_sync,
    .begin = deferred_begin,
    .commit = deferred_commit,
    .abort = deferred_abort,
    .get = deferred_get,
    .put = deferred_put,
    .remove = deferred_remove,
    .clear = deferred_clear,
    .walk = deferred_walk,
};

/* --- The queue; 'mutex' is held ------------------------------------------- */

static bool table_deferred_is_idle(const struct deferred *self)
{
    return !self->is_working && list_is_empty(&self->queue);
}

static void wait_until_idle(struct deferred *self)
{
    while (!table_deferred_is_idle(self)) {
        worker_wait(self->worker, &self->mutex, &self->changed);
    }
}

/* --- The thread ----------------------------------------------------------- */

/* Does one transaction of the queue; after an error no further write is done.
 */
static int table_deferred_work(struct deferred *self, struct deferred_txn *txn,
                               int error)
{
    if (!txn->txn.is_write) {
        txn->error = error != 0 ? error
                                : table_begin_read(self->inner, &txn->inner);
        return error;
    }
    if (error == 0) {
        error = table_deferred_carry_out(self->inner,
                                         buffer_bytes(&txn->operations));
    }
    buffer_done(&txn->operations);
    return error;
}

static uint64_t table_deferred_step(void *data, uint64_t now_ns)
{
    struct deferred *self = data;
    pthread_mutex_lock(&self->mutex);
    if (list_is_empty(&self->queue)) {
        bool is_stopping = self->is_stopping;
        pthread_mutex_unlock(&self->mutex);
        return is_stopping ? WORKER_OVER : WORKER_IDLE;
    }
    struct deferred_txn *txn = LIST_FIRST(&self->queue, struct deferred_txn,
                                          in_queue);
    list_remove(&txn->in_queue);
    self->is_working = true;
    int error = self->error;
    pthread_mutex_unlock(&self->mutex);

    uint64_t used, room;
    error = table_deferred_work(self, txn, error);
    table_size(self->inner, &used, &room);

    pthread_mutex_lock(&self->mutex);
    self->is_working = false;
    self->error = error;
    self->used = used;
    self->room = room;
    if (txn->txn.is_write) {
        free(txn);
    } else {
        txn->is_open = true; /* From now on its owner may end it. */
    }
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return now_ns;
}

static int carry_out_once(struct table *inner, struct bytes operations)
{
    struct reader reader = reader_of(operations);
    struct table_txn *txn;
    int error = table_begin_write(inner, &txn);
    if (error != 0) {
        return error;
    }
    while (error == 0 && reader_left(&reader) > 0) {
        enum operation operation = (enum operation)reader_u8(&reader);
        enum table_map map = (enum table_map)reader_u8(&reader);
        uint32_t key_size = reader_u32(&reader);
        uint32_t value_size = reader_u32(&reader);
        struct bytes key = reader_bytes(&reader, key_size);
        struct bytes value = reader_bytes(&reader, value_size);
        CHECK(reader_ok(&reader, false));
        switch (operation) {
        case OPERATION_PUT:
            error = table_put(txn, map, key, value);
            break;
        case OPERATION_REMOVE:
            error = table_delete(txn, map, key);
            break;
        case OPERATION_CLEAR:
            error = table_clear(txn);
            break;
        }
    }
    /* All or nothing: after HASP_EFULL the table grows, and all operations are
     * repeated. */
    if (error != 0) {
        table_abort(txn);
        return error;
    }
    return table_commit(txn);
}

static int table_deferred_carry_out(struct table *inner,
                                    struct bytes operations)
{
    const struct timespec pause = {.tv_nsec = GROW_RETRY_NS};
    int error = carry_out_once(inner, operations);
    while (error == HASP_EFULL) {
        error = table_grow(inner);
        while (error == HASP_EBUSY) {
            nanosleep(&pause, NULL);
            error = table_grow(inner);
        }
        error = error != 0 ? error : carry_out_once(inner, operations);
    }
    return error;
}
