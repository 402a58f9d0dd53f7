/* SPDX-License-Identifier: MIT */

/* Flushes the changes to the table, in one transaction with the applied index.
 * Deletions come first, so that a name that was removed and created again is
 * written. */

#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"

uint32_t lockfsm_dirty_count(const struct lockfsm *fsm)
{
    return fsm->ledger.changed_count + fsm->ledger.deleted_count;
}

static int delete_gone(struct lockfsm *fsm, struct table_txn *txn)
{
    struct reader reader = reader_of(buffer_bytes(&fsm->ledger.deleted));
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

static int persist_put(struct table_txn *txn, const struct record *record)
{
    return table_put(txn, record->map, buffer_bytes(&record->key),
                     buffer_bytes(&record->value));
}

/* True if the record's share was computed after its last change and its bytes
 * now have another one: its memory was damaged. */
static bool is_damaged(const struct stored *stored, uint64_t share)
{
    return (stored->flags & STORED_SHARED) != 0 && stored->share != share;
}

/* Writes the changed records. The lists do not change until the table has
 * everything, because a flush that found the table full is repeated. */
static int put_changed(struct lockfsm *fsm, struct table_txn *txn,
                       struct record *record)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        LIST_FOR (struct stored, stored, &fsm->ledger.changed[kind], in_list) {
            record_of(record, stored);
            uint64_t share = record_share(record);
            int error = is_damaged(stored, share) ? HASP_ECORRUPT
                                                  : persist_put(txn, record);
            if (error != 0) {
                return error;
            }
            stored_share(fsm, stored, share);
        }
    }
    return 0;
}

static void settle_changed(struct lockfsm *fsm)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        struct list *list = &fsm->ledger.changed[kind];
        while (!list_is_empty(list)) {
            stored_settle(fsm, LIST_FIRST(list, struct stored, in_list));
        }
    }
}

static int put_meta(struct lockfsm *fsm, struct table_txn *txn,
                    struct record *record)
{
    record_of_meta(record, fsm);
    int error = persist_put(txn, record);
    if (error != 0) {
        return error;
    }
    uint8_t digest[8];
    store_u64_be(digest, fsm->ledger.digest + record_share(record));
    error = table_put(txn, TABLE_META, bytes_of_text(META_DIGEST_KEY),
                      bytes_of(digest, sizeof digest));
    if (error != 0) {
        return error;
    }
    uint8_t applied[16];
    /* In the same transaction as the records, so the table always says which
     * entries it contains. */
    store_u64_be(applied, fsm->applied_index);
    store_u64_be(applied + 8, fsm->applied_term);
    return table_put(txn, TABLE_META, bytes_of_text(META_APPLIED_KEY),
                     bytes_of(applied, sizeof applied));
}

static int flush_into(struct lockfsm *fsm, struct table_txn *txn)
{
    struct record record = {0};
    int error = delete_gone(fsm, txn);
    error = error ?: put_changed(fsm, txn, &record);
    error = error ?: put_meta(fsm, txn, &record);
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
        /* Only after the commit: if it fails, the changes are still due. */
        settle_changed(fsm);
        buffer_clear(&fsm->ledger.deleted);
        fsm->ledger.deleted_count = 0;
        fsm->ledger.flushed_index = fsm->applied_index;
    }
    return error;
}
