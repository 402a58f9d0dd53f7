/* SPDX-License-Identifier: MIT */

/* The digest of the state, by which nodes detect that they differ, and the
 * scrub, by which a node detects damage in its own memory or table.
 *
 * Each record has a share: the hash of its map, key and value. The digest is
 * the sum of all shares, since the hash tables have no order. So it can be
 * updated with each change, and a record that was created and removed between
 * two calls costs nothing. */

#include "base/digest.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"

uint64_t bytes_share(enum table_map map, struct bytes key, struct bytes value)
{
    /* Spreads the small number over the whole seed; otherwise it would be no
     * better than one more byte of a short key. */
    uint64_t seed = ((uint64_t)map + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return digest_short(digest_short(seed, key), value);
}

uint64_t record_share(const struct record *record)
{
    return bytes_share(record->map, buffer_bytes(&record->key),
                       buffer_bytes(&record->value));
}

static uint64_t at_index(const struct lockfsm *fsm, uint64_t sum)
{
    return (sum ^ fsm->applied_index) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t lockfsm_digest(struct lockfsm *fsm)
{
    struct record record = {0};
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        LIST_FOR (struct stored, stored, &fsm->ledger.changed[kind], in_list) {
            if ((stored->flags & STORED_SHARED) == 0) {
                record_of(&record, stored);
                stored_share(fsm, stored, record_share(&record));
            }
        }
    }
    record_of_meta(&record, fsm);
    uint64_t sum = fsm->ledger.digest + record_share(&record);
    record_done(&record);
    return at_index(fsm, sum);
}

/* --- The scrub ------------------------------------------------------------ */

static const char *check_record(struct table_txn *txn,
                                const struct record *record,
                                const struct stored *stored)
{
    struct bytes value;
    if (record_share(record) != stored->share) {
        return "the memory of this process was damaged. Test the memory of the "
               "machine "
               "before this node is started again";
    }
    int error = table_get(txn, record->map, buffer_bytes(&record->key), &value);
    if (error != 0 || !bytes_equal(value, buffer_bytes(&record->value))) {
        return "the table was damaged. Check the disk; the next start rebuilds "
               "the table from the snapshot and the log";
    }
    return NULL;
}

/* The next settled record, or NULL if this round is over. */
static struct stored *next_to_scrub(struct lockfsm *fsm)
{
    struct ledger *ledger = &fsm->ledger;
    while (ledger->scrub_left == 0 ||
           list_is_empty(&ledger->settled[ledger->scrub_kind])) {
        ledger->scrub_kind = (ledger->scrub_kind + 1) % RECORD_KIND_COUNT;
        ledger->scrub_left = ledger->settled_count[ledger->scrub_kind];
        if (ledger->scrub_kind == 0) {
            return NULL;
        }
    }
    ledger->scrub_left--;
    struct list *list = &ledger->settled[ledger->scrub_kind];
    struct stored *stored = LIST_FIRST(list, struct stored, in_list);
    list_remove(&stored->in_list);
    list_push_back(list, &stored->in_list);
    return stored;
}

uint64_t lockfsm_settled_count(const struct lockfsm *fsm)
{
    uint64_t count = 0;
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        count += fsm->ledger.settled_count[kind];
    }
    return count;
}

const char *lockfsm_scrub(struct lockfsm *fsm, struct table *table,
                          uint32_t count, uint64_t *looked_at)
{
    struct table_txn *txn;
    if (table_is_busy(table) || table_begin_read(table, &txn) != 0) {
        /* The table is being written, or has no free reader slot. */
        return NULL;
    }
    struct record record = {0};
    const char *wrong = NULL;
    for (uint32_t i = 0; i < count && wrong == NULL; i++) {
        struct stored *stored = next_to_scrub(fsm);
        if (stored == NULL) {
            break;
        }
        record_of(&record, stored);
        wrong = check_record(txn, &record, stored);
        (*looked_at)++;
    }
    record_done(&record);
    table_abort(txn);
    return wrong;
}

/* --- From scratch --------------------------------------------------------- */

static uint64_t share_of(struct record *record, const struct stored *stored)
{
    record_of(record, stored);
    return record_share(record);
}

static uint64_t hash_lock(struct record *record, const struct lock *lock)
{
    uint64_t sum = share_of(record, &lock->stored);
    LIST_FOR (struct hold, hold, &lock->holds, in_lock) {
        sum += share_of(record, &hold->stored);
    }
    LIST_FOR (struct wait, wait, &lock->queue, in_lock) {
        sum += share_of(record, &wait->stored);
    }
    return sum;
}

static uint64_t hash_results(struct record *record, const struct list *results)
{
    uint64_t sum = 0;
    LIST_FOR (struct kept_result, result, results, in_order) {
        sum += share_of(record, &result->stored);
    }
    return sum;
}

static uint64_t hash_session(struct record *record,
                             const struct session *session)
{
    uint64_t sum = share_of(record, &session->stored);
    LIST_FOR (struct waiter, waiter, &session->waiters, in_session) {
        sum += hash_results(record, &waiter->waiting);
    }
    if (session->numbers != NULL) {
        sum += share_of(record, &session->numbers->stored);
        sum += hash_results(record, &session->numbers->answered);
    }
    return sum;
}

uint64_t lockfsm_hash(const struct lockfsm *fsm)
{
    struct record record = {0};
    record_of_meta(&record, fsm);
    uint64_t sum = record_share(&record);
    HASH_FOR (const struct lock, lock, fsm->locks, by_name) {
        /* A sum does not depend on the order of the hash tables, which differs
         * between nodes. */
        sum += hash_lock(&record, lock);
    }
    SESSION_EACH (const struct session, session, fsm) {
        sum += hash_session(&record, session);
    }
    HASH_FOR (const struct fence, fence, fsm->fences, by_resource) {
        sum += share_of(&record, &fence->stored);
    }
    LIST_FOR (struct blacklisting, blacklisting, &fsm->blacklist, in_order) {
        sum += share_of(&record, &blacklisting->stored);
    }
    LIST_FOR (struct member, member, &fsm->members.list, in_order) {
        sum += share_of(&record, &member->stored);
    }
    HASH_FOR (const struct user, user, fsm->access.users, by_name) {
        sum += share_of(&record, &user->stored);
    }
    HASH_FOR (const struct role, role, fsm->access.roles, by_name) {
        sum += share_of(&record, &role->stored);
    }
    LIST_FOR (struct cell, cell, &fsm->cells.list, in_order) {
        sum += share_of(&record, &cell->stored);
    }
    LIST_FOR (struct act, act, &fsm->acts.list, in_order) {
        sum += share_of(&record, &act->stored);
    }
    HASH_FOR (const struct revocation, one, fsm->access.revocations,
              by_fingerprint) {
        sum += share_of(&record, &one->stored);
    }
    record_done(&record);
    return at_index(fsm, sum);
}
