/* SPDX-License-Identifier: MIT */

/* Flushing: what changed goes into the table, in one transaction with the
 * applied index. First the deletions: a name that went and came again is then
 * written. */

#include "lockfsm/records.h"

uint32_t lockfsm_dirty_count(const struct lockfsm *fsm)
{
    return fsm->dirty_count + fsm->deleted_count;
}

static int delete_gone(struct lockfsm *fsm, struct table_txn *txn)
{
    struct reader reader = reader_of(buffer_bytes(&fsm->deleted));
    while (reader_left(&reader) > 0) {
        enum table_map map = reader_u8(&reader);
        struct bytes key = reader_run(&reader);
        CHECK(reader_ok(&reader, false));
        int error = table_delete(txn, map, key);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* The dirty list's node is a member of each structure; so is its flag byte. */
static uint8_t *record_of(struct record *record, enum dirty_kind kind,
                          struct list *node)
{
    switch (kind) {
    case DIRTY_SESSION: {
        struct session *at = LIST_ENTRY(node, struct session, in_dirty);
        record_of_session(record, at);
        return &at->dirty;
    }
    case DIRTY_LOCK: {
        struct lock *at = LIST_ENTRY(node, struct lock, in_dirty);
        record_of_lock(record, at);
        return &at->dirty;
    }
    case DIRTY_HOLD: {
        struct hold *at = LIST_ENTRY(node, struct hold, in_dirty);
        record_of_hold(record, at);
        return &at->dirty;
    }
    case DIRTY_WAIT: {
        struct wait *at = LIST_ENTRY(node, struct wait, in_dirty);
        record_of_wait(record, at);
        return &at->dirty;
    }
    case DIRTY_FENCE: {
        struct fence *at = LIST_ENTRY(node, struct fence, in_dirty);
        record_of_fence(record, at);
        return &at->dirty;
    }
    case DIRTY_BLACKLISTING: {
        struct blacklisting *at = LIST_ENTRY(node, struct blacklisting,
                                             in_dirty);
        record_of_blacklisting(record, at);
        return &at->dirty;
    }
    case DIRTY_RESULT: {
        struct kept_result *at = LIST_ENTRY(node, struct kept_result, in_dirty);
        record_of_result(record, at);
        return &at->dirty;
    }
    case DIRTY_ASKER: {
        struct asker *at = LIST_ENTRY(node, struct asker, in_dirty);
        record_of_asker(record, at);
        return &at->dirty;
    }
    case DIRTY_MEMBER: {
        struct member *at = LIST_ENTRY(node, struct member, in_dirty);
        record_of_member(record, at);
        return &at->dirty;
    }
    case DIRTY_KIND_COUNT:
        break;
    }
    UNREACHABLE();
}

static int put(struct table_txn *txn, const struct record *record)
{
    return table_put(txn, record->map, buffer_bytes(&record->key),
                     buffer_bytes(&record->value));
}

/* An error leaves the lists half done: it is fatal, and the state with it. */
static int put_changed(struct lockfsm *fsm, struct table_txn *txn,
                       struct record *record)
{
    for (int kind = 0; kind < DIRTY_KIND_COUNT; kind++) {
        struct list *list = &fsm->dirty[kind];
        while (!list_is_empty(list)) {
            struct list *node = list->next;
            uint8_t *dirty = record_of(record, (enum dirty_kind)kind, node);
            int error = put(txn, record);
            if (error != 0) {
                return error;
            }
            list_remove(node);
            fsm->dirty_count--;
            *dirty = DIRTY_STORED;
        }
    }
    return 0;
}

static int put_meta(struct lockfsm *fsm, struct table_txn *txn,
                    struct record *record)
{
    record_of_meta(record, fsm);
    int error = put(txn, record);
    if (error != 0) {
        return error;
    }
    uint8_t applied[16];
    store_u64_be(applied, fsm->applied_index);
    store_u64_be(applied + 8, fsm->applied_term);
    return table_put(txn, TABLE_META, bytes_of_text(META_APPLIED_KEY),
                     bytes_of(applied, sizeof applied));
}

static int flush_into(struct lockfsm *fsm, struct table_txn *txn)
{
    struct record record = {0};
    int error = delete_gone(fsm, txn);
    if (error == 0) {
        error = put_changed(fsm, txn, &record);
    }
    if (error == 0) {
        error = put_meta(fsm, txn, &record);
    }
    record_done(&record);
    return error;
}

int lockfsm_flush(struct lockfsm *fsm, struct table *table)
{
    struct table_txn *txn;
    int error = table_begin_write(table, &txn);
    if (error != 0) {
        return error;
    }
    error = flush_into(fsm, txn);
    if (error != 0) {
        table_abort(txn);
        return error;
    }
    error = table_commit(txn);
    if (error == 0) {
        buffer_clear(&fsm->deleted);
        fsm->deleted_count = 0;
        fsm->flushed_index = fsm->applied_index;
    }
    return error;
}
