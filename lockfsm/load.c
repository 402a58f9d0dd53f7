/* SPDX-License-Identifier: MIT */

/* Loading: the state from the table's records.
 *
 * The records were written by us and are covered by checksums, yet nothing in
 * them is trusted: what is no state is HASP_ECORRUPT with a message. Holds and
 * waits are linked in the order of their serials, which is the order their
 * lists had. */

#include "lockfsm/records.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

#include "lockfsm/record.pb-c.h"

struct array {
    void **item;
    size_t count;
    size_t capacity;
};

struct loading {
    struct lockfsm *fsm;
    struct lock **locks_by_id; /* Sorted, once all locks are there. */
    size_t lock_count;
    struct array holds;   /* Of struct hold. */
    struct array waits;   /* Of struct wait. */
    struct array results; /* Of struct kept_result. */
    struct record record;
    uint64_t digest;   /* As it was noted with the records, and the part ... */
    uint64_t meta_sum; /* ... of it that META "state" has. */
    const char *wrong; /* Static text, or NULL. */
};

static void array_add(struct array *array, void *item)
{
    if (array->count == array->capacity) {
        array->capacity = 2 * array->capacity + 64;
        array->item = memory_resize(array->item,
                                    array->capacity * sizeof *array->item);
    }
    array->item[array->count++] = item;
}

static int corrupt(struct loading *loading, const char *wrong)
{
    loading->wrong = wrong;
    return HASP_ECORRUPT;
}

static void *unpack_any(struct loading *loading,
                        const ProtobufCMessageDescriptor *descriptor,
                        struct bytes value)
{
    arena_reset(&loading->fsm->decoded);
    ProtobufCAllocator allocator = arena_allocator(&loading->fsm->decoded);
    return protobuf_c_message_unpack(descriptor, &allocator, value.size,
                                     value.data);
}

/* NULL also for a record with a field that this version does not know: it was
 * written at a level that this version understands (load_meta). */
static void *unpack(struct loading *loading,
                    const ProtobufCMessageDescriptor *descriptor,
                    struct bytes value)
{
    ProtobufCMessage *message = unpack_any(loading, descriptor, value);
    return message != NULL && message_is_known(message) ? message : NULL;
}

static struct bytes copy(struct loading *loading, ProtobufCBinaryData data)
{
    return pool_copy(&loading->fsm->pool, bytes_from(data));
}

/* The record that was just read is that of 'stored'. */
static void loaded(struct loading *loading, enum record_kind kind,
                   struct stored *stored)
{
    record_of(&loading->record, kind, stored);
    stored_share(loading->fsm, stored, record_share(&loading->record));
    stored_settle(loading->fsm, kind, stored);
}

/* --- One record ----------------------------------------------------------- */

static int load_meta(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    struct lockfsm *fsm = loading->fsm;
    if (bytes_equal(key, bytes_of_text(META_APPLIED_KEY))) {
        if (value.size != 16) {
            return corrupt(loading, "applied index");
        }
        fsm->applied_index = load_u64_be(value.data);
        fsm->applied_term = load_u64_be(value.data + 8);
        fsm->flushed_index = fsm->applied_index;
        return 0;
    }
    if (bytes_equal(key, bytes_of_text(META_DIGEST_KEY))) {
        if (value.size != 8) {
            return corrupt(loading, "digest");
        }
        loading->digest = load_u64_be(value.data);
        return 0;
    }
    if (!bytes_equal(key, bytes_of_text(META_STATE_KEY))) {
        return 0; /* A later version's; it is kept as it is. */
    }
    const Hasp__MetaRecord *record = unpack_any(
        loading, &hasp__meta_record__descriptor, value);
    /* First of all: what a higher level has written cannot be judged here. */
    fsm->feature_level = record != NULL ? record->feature_level : 0;
    if (fsm->feature_level > fsm->node_level) {
        loading->wrong = "the cluster was raised to a feature level that this "
                         "version does not understand: upgrade it";
        return HASP_ETOOOLD;
    }
    if (record == NULL || !message_is_known(&record->base) ||
        (record->cluster_id.len != 0 &&
         record->cluster_id.len != sizeof fsm->cluster_id) ||
        record->token_base > TOKEN_BASE_MAX ||
        record->n_begins > BEGIN_MARK_MAX) {
        return corrupt(loading, "meta record");
    }
    loading->meta_sum = bytes_share(TABLE_META, key, value);
    if (record->cluster_id.len != 0) {
        memcpy(fsm->cluster_id, record->cluster_id.data,
               sizeof fsm->cluster_id);
        fsm->is_begun = true;
    }
    for (size_t i = 0; i < record->n_limits; i++) {
        if (!limit_set(&fsm->limits, record->limits[i]->key,
                       record->limits[i]->value)) {
            return corrupt(loading, "limit");
        }
    }
    fsm->has_limits = record->n_limits > 0;
    fsm->token_base = record->token_base;
#ifdef HASP_FEATURE_LEVEL_EXTRA
    fsm->trials = record->trials;
#endif
    fsm->next_serial = record->next_serial;
    fsm->is_new_life = record->is_new_life;
    fsm->quarantine_ms = record->quarantine_ms;
    fsm->quarantine_index = record->quarantine_index;
    fsm->quarantine_clock_ms = record->quarantine_clock_ms;
    fsm->clock_ms = record->clock_ms;
    fsm->clock_index = record->clock_index;
    fsm->begin_count = (uint32_t)record->n_begins;
    for (uint32_t i = 0; i < fsm->begin_count; i++) {
        const Hasp__BeginRecord *begin = record->begins[i];
        fsm->begins[i] = (struct begin_mark){begin->log_index, begin->clock_ms,
                                             begin->since_ms};
    }
    return 0;
}

/* Nothing is longer than an operation may have made it. */
static bool session_fits(const Hasp__SessionRecord *record)
{
    if (record->proof.len != (record->is_redis ? 0 : PROOF_SIZE) ||
        record->name.len > CLIENT_NAME_SIZE_MAX ||
        record->address.len > CLIENT_NAME_SIZE_MAX ||
        record->n_labels > LABEL_COUNT_MAX ||
        record->n_ended > ENDED_COUNT_MAX) {
        return false;
    }
    for (size_t i = 0; i < record->n_labels; i++) {
        if (record->labels[i]->key.len > LABEL_SIZE_MAX ||
            record->labels[i]->value.len > LABEL_SIZE_MAX) {
            return false;
        }
    }
    for (size_t i = 0; i < record->n_ended; i++) {
        if (record->ended[i]->lock.len > LOCK_NAME_SIZE_MAX ||
            record->ended[i]->owner.len > OWNER_SIZE_MAX) {
            return false;
        }
    }
    return true;
}

static void load_session_lists(struct loading *loading, struct session *session,
                               const Hasp__SessionRecord *record)
{
    struct label *labels = session_labels_new(loading->fsm, session,
                                              (uint32_t)record->n_labels);
    for (size_t i = 0; i < record->n_labels; i++) {
        labels[i].key = copy(loading, record->labels[i]->key);
        labels[i].value = copy(loading, record->labels[i]->value);
    }
    for (size_t i = 0; i < record->n_ended; i++) {
        struct ended_hold *ended = ended_hold_add(loading->fsm, session);
        ended->lock = copy(loading, record->ended[i]->lock);
        ended->owner = copy(loading, record->ended[i]->owner);
        ended->token = record->ended[i]->token;
        ended->reason = record->ended[i]->is_max_hold ? "max hold"
                                                      : "releaseif";
    }
}

static int load_session(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__SessionRecord *record = unpack(
        loading, &hasp__session_record__descriptor, value);
    if (key.size != 8 || record == NULL || !session_fits(record)) {
        return corrupt(loading, "session record");
    }
    struct session *session = session_new(loading->fsm, load_u64_be(key.data));
    if (record->proof.len > 0) {
        memcpy(session->proof, record->proof.data, PROOF_SIZE);
    }
    session->ttl_ms = record->ttl_ms;
    session->linger_ms = record->linger_ms;
    session->heard_index = record->heard_index;
    session->mark_index = record->mark_index;
    session->mark_quiet_ms = record->mark_quiet_ms;
    session->mark_clock_ms = record->mark_clock_ms;
    session->name = copy(loading, record->name);
    session->address = copy(loading, record->address);
    session->blacklist_index = record->blacklist_index;
    session->is_redis = record->is_redis;
    session->px_ms = record->px_ms;
    load_session_lists(loading, session, record);
    loaded(loading, RECORD_SESSION, &session->stored);
    return 0;
}

static int load_lock(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__LockRecord *record = unpack(
        loading, &hasp__lock_record__descriptor, value);
    if (!name_is_valid(key) || record == NULL || record->mode > LOCK_SLOTS) {
        return corrupt(loading, "lock record");
    }
    struct lock *lock = lock_new(loading->fsm, key);
    lock->id = record->id;
    lock->mode = (enum lock_mode)record->mode;
    lock->slots = record->slots;
    lock->delay_ms = record->delay_ms;
    lock->delay_index = record->delay_index;
    lock->delay_clock_ms = record->delay_clock_ms;
    lock->delay_slots = record->delay_slots;
    lock->last_token = record->last_token;
    loaded(loading, RECORD_LOCK, &lock->stored);
    return 0;
}

static int compare_lock_ids(const void *a, const void *b)
{
    const struct lock *const *left = a;
    const struct lock *const *right = b;
    return (*left)->id < (*right)->id ? -1 : (*left)->id > (*right)->id;
}

static int sort_locks(struct loading *loading)
{
    struct lockfsm *fsm = loading->fsm;
    size_t count = HASH_CNT(by_name, fsm->locks);
    loading->locks_by_id = memory_new(count * sizeof(struct lock *));
    struct lock *lock;
    struct lock *next;
    HASH_ITER (by_name, fsm->locks, lock, next) {
        loading->locks_by_id[loading->lock_count++] = lock;
    }
    qsort(loading->locks_by_id, count, sizeof(struct lock *), compare_lock_ids);
    for (size_t i = 1; i < count; i++) {
        if (loading->locks_by_id[i]->id == loading->locks_by_id[i - 1]->id) {
            return corrupt(loading, "two locks with one id");
        }
    }
    return 0;
}

static struct lock *find_lock(const struct loading *loading, uint64_t id)
{
    struct lock key = {.id = id};
    const struct lock *key_pointer = &key;
    struct lock **found = bsearch(&key_pointer, loading->locks_by_id,
                                  loading->lock_count, sizeof(struct lock *),
                                  compare_lock_ids);
    return found != NULL ? *found : NULL;
}

static int load_hold(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__HoldRecord *record = unpack(
        loading, &hasp__hold_record__descriptor, value);
    if (key.size < 16 || key.size > 16 + OWNER_SIZE_MAX || record == NULL ||
        record->mode > LOCK_SLOTS || record->value.len > VALUE_SIZE_MAX) {
        return corrupt(loading, "hold record");
    }
    struct lock *lock = find_lock(loading, load_u64_be(key.data));
    struct session *session = session_find(loading->fsm,
                                           load_u64_be(key.data + 8));
    if (lock == NULL || session == NULL) {
        return corrupt(loading, "hold without its lock or session");
    }
    struct hold_terms terms = {.owner = bytes_of(key.data + 16, key.size - 16),
                               .value = bytes_from(record->value),
                               .mode = (enum lock_mode)record->mode,
                               .delay_ms = record->delay_ms,
                               .hold_ms = record->hold_ms};
    struct hold *hold = hold_new(loading->fsm, lock, session, &terms);
    hold->token = record->token;
    hold->granted_index = record->granted_index;
    hold->serial = record->serial;
    hold->count = record->count;
    hold->hold_clock_ms = record->hold_clock_ms;
    hold->has_barged = record->has_barged;
    loaded(loading, RECORD_HOLD, &hold->stored);
    array_add(&loading->holds, hold);
    return 0;
}

static int load_wait(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__WaitRecord *record = unpack(
        loading, &hasp__wait_record__descriptor, value);
    if (key.size != 16 || record == NULL || record->mode > LOCK_SLOTS ||
        record->owner.len > OWNER_SIZE_MAX ||
        record->value.len > VALUE_SIZE_MAX) {
        return corrupt(loading, "wait record");
    }
    struct lock *lock = find_lock(loading, load_u64_be(key.data));
    struct session *session = session_find(loading->fsm, record->session);
    if (lock == NULL || session == NULL) {
        return corrupt(loading, "wait without its lock or session");
    }
    struct wait_terms terms = {.hold = {.owner = bytes_from(record->owner),
                                        .value = bytes_from(record->value),
                                        .mode = (enum lock_mode)record->mode,
                                        .slots = record->slots,
                                        .delay_ms = record->delay_ms,
                                        .hold_ms = record->hold_ms},
                               .wait_ms = record->wait_ms,
                               .is_upgrade = record->is_upgrade};
    struct wait *wait = wait_new(loading->fsm, lock, session, &terms);
    wait->wait_index = load_u64_be(key.data + 8);
    wait->asked_index = record->asked_index;
    wait->wait_clock_ms = record->wait_clock_ms;
    wait->req = record->req;
    wait->serial = record->serial;
    loaded(loading, RECORD_WAIT, &wait->stored);
    array_add(&loading->waits, wait);
    return 0;
}

static int load_numbers(struct loading *loading, struct session *session,
                        struct bytes value)
{
    const Hasp__NumbersRecord *record = unpack(
        loading, &hasp__numbers_record__descriptor, value);
    if (record == NULL || record->n_spent == 0 || record->n_spent % 2 != 0 ||
        record->n_spent > 2 * (size_t)SPENT_RANGE_MAX) {
        return corrupt(loading, "record of spent numbers");
    }
    struct numbers *numbers = numbers_obtain(loading->fsm, session);
    for (size_t i = 0; i < record->n_spent; i += 2) {
        const uint64_t *range = &record->spent[i];
        if (range[0] == 0 || range[0] > range[1] ||
            (i > 0 && (range[0] < 2 || range[0] - 2 < range[-1]))) {
            return corrupt(loading, "ranges of spent numbers");
        }
        numbers_spend(loading->fsm, numbers, range[0], range[1]);
    }
    loaded(loading, RECORD_NUMBERS, &numbers->stored);
    return 0;
}

static int load_result(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    if (key.size != 16) {
        return corrupt(loading, "key of a result");
    }
    struct session *session = session_find(loading->fsm, load_u64_be(key.data));
    uint64_t req = load_u64_be(key.data + 8);
    if (session == NULL) {
        return corrupt(loading, "result without its session");
    }
    if (req == 0) {
        return load_numbers(loading, session, value);
    }
    const Hasp__ResultRecord *record = unpack(
        loading, &hasp__result_record__descriptor, value);
    if (record == NULL || record->n_tokens > MULTI_COUNT_MAX ||
        record->code > RESULT_FORGOTTEN ||
        record->text.len > POOL_PIECE_SIZE_MAX ||
        record->owner.len > OWNER_SIZE_MAX || session->numbers == NULL ||
        !numbers_has(session->numbers, req)) {
        return corrupt(loading, "result record");
    }
    struct kept_result *kept = kept_add(loading->fsm, session->numbers, req);
    struct result result = {.code = (enum result_code)record->code,
                            .token = record->token,
                            .count = record->count,
                            .tokens = record->tokens,
                            .token_count = (uint32_t)record->n_tokens,
                            .text = bytes_from(record->text)};
    kept_fill(loading->fsm, kept, &result);
    kept->hash = record->hash;
    kept->serial = record->serial;
    kept->wait_index = record->wait_index;
    array_add(&loading->results, kept);
    if (kept->wait_index != 0) {
        struct bytes owner = bytes_from(record->owner);
        kept->asker = asker_find(loading->fsm, session->id, owner);
        if (request_find(loading->fsm, kept->wait_index, session->id, owner) ==
            NULL) {
            return corrupt(loading, "a result of a request that waits nowhere");
        }
    }
    loaded(loading, RECORD_RESULT, &kept->stored);
    return 0;
}

static int load_fence(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__FenceRecord *record = unpack(
        loading, &hasp__fence_record__descriptor, value);
    if (!name_is_valid(key) || record == NULL) {
        return corrupt(loading, "fence record");
    }
    struct fence *fence = fence_new(loading->fsm, key);
    fence->token = record->token;
    loaded(loading, RECORD_FENCE, &fence->stored);
    return 0;
}

static int load_blacklisting(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__BlacklistRecord *record = unpack(
        loading, &hasp__blacklist_record__descriptor, value);
    if (key.size != 8 || record == NULL ||
        record->reason.len > VALUE_SIZE_MAX ||
        record->client.len > CLIENT_NAME_SIZE_MAX ||
        record->by.len > CLIENT_NAME_SIZE_MAX) {
        return corrupt(loading, "blacklist record");
    }
    struct blacklisting *entry = blacklisting_new(loading->fsm);
    entry->since_index = load_u64_be(key.data);
    entry->session = record->session;
    entry->client = copy(loading, record->client);
    entry->reason = copy(loading, record->reason);
    entry->by = copy(loading, record->by);
    entry->for_ms = record->for_ms;
    entry->clock_ms = record->clock_ms;
    loaded(loading, RECORD_BLACKLISTING, &entry->stored);
    return 0;
}

static int load_member(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    const Hasp__MemberRecord *record = unpack(
        loading, &hasp__member_record__descriptor, value);
    if (key.size != 8 || record == NULL || record->added_index == 0 ||
        record->removed_by.len > CLIENT_NAME_SIZE_MAX) {
        return corrupt(loading, "member record");
    }
    struct member *member = member_obtain(loading->fsm, load_u64_be(key.data));
    member->incarnation = record->incarnation;
    member->added_index = record->added_index;
    member->removed_index = record->removed_index;
    member->removed_ms = record->removed_ms;
    member->removed_by = copy(loading, record->removed_by);
    member_count_in(loading->fsm, member);
    loaded(loading, RECORD_MEMBER, &member->stored);
    return 0;
}

/* --- Linking -------------------------------------------------------------- */

static int compare_holds(const void *a, const void *b)
{
    const struct hold *const *left = a;
    const struct hold *const *right = b;
    return (*left)->serial < (*right)->serial
               ? -1
               : (*left)->serial > (*right)->serial;
}

static int compare_waits(const void *a, const void *b)
{
    const struct wait *const *left = a;
    const struct wait *const *right = b;
    return (*left)->serial < (*right)->serial
               ? -1
               : (*left)->serial > (*right)->serial;
}

static int compare_results(const void *a, const void *b)
{
    const struct kept_result *const *left = a;
    const struct kept_result *const *right = b;
    return (*left)->serial < (*right)->serial
               ? -1
               : (*left)->serial > (*right)->serial;
}

static void sort(struct array *array,
                 int (*compare)(const void *, const void *))
{
    if (array->count > 0) {
        qsort(array->item, array->count, sizeof *array->item, compare);
    }
}

static int link_holds_and_waits(struct loading *loading)
{
    struct lockfsm *fsm = loading->fsm;
    sort(&loading->holds, compare_holds);
    sort(&loading->waits, compare_waits);
    for (size_t i = 0; i < loading->holds.count; i++) {
        hold_link(fsm, loading->holds.item[i]);
    }
    for (size_t i = 0; i < loading->waits.count; i++) {
        struct wait *wait = loading->waits.item[i];
        if (wait_find(fsm, wait->lock, wait->session->id, wait->owner)) {
            return corrupt(loading, "two waits of one owner at a lock");
        }
        wait_link(fsm, wait);
    }
    return 0;
}

static void link_results(struct loading *loading)
{
    sort(&loading->results, compare_results);
    for (size_t i = 0; i < loading->results.count; i++) {
        kept_link(loading->results.item[i]);
    }
}

static int load_all(struct loading *loading, struct table_txn *txn)
{
    static const struct {
        enum table_map map;
        table_visit_fn *load;
    } steps[] = {{TABLE_META, load_meta},
                 {TABLE_SESSIONS, load_session},
                 {TABLE_LOCKS, load_lock},
                 {TABLE_HOLDS, load_hold},
                 {TABLE_WAITS, load_wait},
                 {TABLE_RESULTS, load_result},
                 {TABLE_BLACKLIST, load_blacklisting},
                 {TABLE_FENCES, load_fence},
                 {TABLE_MEMBERS, load_member}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int error = 0;
        if (steps[i].map == TABLE_HOLDS) {
            error = sort_locks(loading);
        } else if (steps[i].map == TABLE_RESULTS) {
            error = link_holds_and_waits(loading);
        }
        if (error == 0) {
            error = table_walk(txn, steps[i].map, (struct bytes){NULL, 0},
                               steps[i].load, loading);
        }
        if (error != 0) {
            return error;
        }
    }
    link_results(loading);
    const char *wrong = lockfsm_check_basic(loading->fsm);
    if (wrong == NULL &&
        loading->digest != loading->fsm->digest + loading->meta_sum) {
        wrong = "the records do not add up to their digest: remove 'table' in "
                "the data directory, it is made anew from snapshot and log";
    }
    return wrong != NULL ? corrupt(loading, wrong) : 0;
}

int lockfsm_load(struct lockfsm *fsm, struct table *table,
                 char why[HASP_WHY_SIZE])
{
    struct table_txn *txn;
    int error = table_begin_read(table, &txn);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot read the table: %s",
                 hasp_strerror(error));
        return error;
    }
    lockfsm_reset(fsm);
    struct loading loading = {.fsm = fsm};
    error = load_all(&loading, txn);
    table_abort(txn);
    free(loading.locks_by_id);
    free(loading.holds.item);
    free(loading.waits.item);
    free(loading.results.item);
    record_done(&loading.record);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot load the state: %s: %s",
                 hasp_strerror(error),
                 loading.wrong != NULL ? loading.wrong : "reading the table");
        lockfsm_reset(fsm);
    }
    return error;
}
