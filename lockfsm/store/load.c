/* SPDX-License-Identifier: MIT */

/* Loads the state from the table's records.
 *
 * This program wrote the records and checksums cover them, yet nothing in them
 * is trusted: an invalid state is HASP_ECORRUPT with a message. Holds and waits
 * are linked in the order of their serials, which is the order of their lists
 * before. */

#include "lockfsm/store/records.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

struct loading {
    struct lockfsm *fsm;
    enum table_map map; /* The map that is being read. */
    struct record record;
    struct sorted locks; /* Locks by id. */
    struct sorted cut;   /* Locks whose granting was cut off, by cut_serial. */
    struct sorted swept; /* Sessions that SWEEP must visit, in order. */
    struct sorted holds; /* Holds, waits and results by serial. */
    struct sorted waits;
    struct sorted asked; /* Waits by wait_index. */
    struct sorted results;
    uint64_t digest;   /* The stored digest, and the share ... */
    uint64_t meta_sum; /* ... of META "state" in it. */
    const char *wrong; /* Static text, or NULL if all is valid. */
};

static int load_corrupt(struct loading *loading, const char *wrong)
{
    loading->wrong = wrong;
    return HASP_ECORRUPT;
}

/* Copies bytes into the pool; bounds the sizes that the rows do not bound. */
static struct bytes load_keep(void *data, struct bytes bytes)
{
    struct loading *loading = data;
    if (bytes.size > POOL_PIECE_SIZE_MAX) {
        loading->wrong = "a text that is too long";
        return (struct bytes){NULL, 0};
    }
    return pool_copy(&loading->fsm->pool, bytes);
}

static void *load_take(void *data, size_t size)
{
    return pool_take(&((struct loading *)data)->fsm->pool, size);
}

/* Decodes a value. A field that this version does not know is damage, because
 * load_state() has made sure that this version understands the state's level.
 */
static bool load_unpack(struct loading *loading, codec_message_fn *message,
                        struct bytes value, void *to)
{
    struct codec_memory memory = {load_take, load_keep, loading};
    struct codec_level level;
    return codec_get(value, message(), to, &memory, &level) &&
           level.level != CODEC_LEVEL_UNKNOWN && loading->wrong == NULL;
}

/* --- Meta ----------------------------------------------------------------- */

static int load_state(struct loading *loading, struct bytes key,
                      struct bytes value)
{
    struct lockfsm *fsm = loading->fsm;
    bool is_sound = load_unpack(loading, lockfsm_message, value, fsm);
    /* This check comes first, because a state of a higher level cannot be
     * checked here. */
    if (fsm->feature_level > fsm->node_level) {
        loading->wrong = "the cluster was raised to a feature level that this "
                         "version does not understand: upgrade it";
        return HASP_ETOOOLD;
    }
    if (!is_sound) {
        return load_corrupt(loading, "meta record");
    }
    loading->meta_sum = bytes_share(TABLE_META, key, value);
    fsm->epoch.is_begun = cluster_id_is_known(fsm->epoch.cluster_id);
    for (uint32_t i = 0; i < fsm->limit_count; i++) {
        if (!limit_allows((enum limit_key)i, fsm->limits.of[i])) {
            return load_corrupt(loading, "limit");
        }
    }
    return 0;
}

static int load_meta(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    struct lockfsm *fsm = loading->fsm;
    if (bytes_equal(key, bytes_of_text(META_STATE_KEY))) {
        return load_state(loading, key, value);
    }
    if (bytes_equal(key, bytes_of_text(META_APPLIED_KEY))) {
        if (value.size != 16) {
            return load_corrupt(loading, "applied index");
        }
        fsm->applied_index = load_u64_be(value.data);
        fsm->applied_term = load_u64_be(value.data + 8);
        fsm->ledger.flushed_index = fsm->applied_index;
    } else if (bytes_equal(key, bytes_of_text(META_DIGEST_KEY))) {
        if (value.size != 8) {
            return load_corrupt(loading, "digest");
        }
        loading->digest = load_u64_be(value.data);
    } /* A later version has written this entry; it is kept unchanged. */
    return 0;
}

/* --- One record -----------------------------------------------------------
 *
 * For each map, one function creates the structure from the key, or returns
 * NULL if the key is invalid; the value is decoded into it, and another
 * function checks the result. */

static uint64_t load_get_number(struct reader *key)
{
    struct bytes number = reader_bytes(key, 8);
    return number.size == 8 ? load_u64_be(number.data) : 0;
}

static struct stored *new_session(struct loading *loading, struct reader *key)
{
    uint64_t id = load_get_number(key);
    return reader_ok(key, true) && id != 0 &&
                   session_find(loading->fsm, id) == NULL
               ? &session_new(loading->fsm, id)->stored
               : NULL;
}

static const char *load_check_session(struct loading *loading, void *structure)
{
    struct session *session = structure;
    struct lockfsm *fsm = loading->fsm;
    struct user *user = user_numbered(fsm, session->user_number);
    if (user == NULL) {
        return "a session without a user";
    }
    /* TABLE_USERS is loaded before TABLE_SESSIONS (load_all()). */
    session_belongs(fsm, session, user);
    if (session->is_durable && session->end == SESSION_LIVES) {
        list_push_back(&loading->fsm->durable, &session->in_durable);
    }
    if (session_sweep_serial(session) != 0) {
        sorted_add(&loading->swept, session_sweep_serial(session), session);
    }
    for (uint32_t i = 0; i < session->label_count; i++) {
        if (session->labels[i].key.size > LABEL_SIZE_MAX ||
            session->labels[i].value.size > LABEL_SIZE_MAX) {
            return "label of a session";
        }
    }
    return NULL;
}

static struct stored *new_lock(struct loading *loading, struct reader *key)
{
    struct bytes name = reader_bytes(key, reader_left(key));
    return name_is_valid(name) ? &lock_new(loading->fsm, name)->stored : NULL;
}

static const char *load_check_lock(struct loading *loading, void *structure)
{
    struct lock *lock = structure;
    sorted_add(&loading->locks, lock->id, lock);
    if (lock->cut_serial != 0) {
        sorted_add(&loading->cut, lock->cut_serial, lock);
    }
    return NULL;
}

/* Sorts the lists after all sessions and locks were read. */
static int order_locks(struct loading *loading)
{
    const struct sorted *locks = &loading->locks;
    /* The table is in the order of its keys, not in that of the lists, which
     * decides what entries do: all nodes need the same. */
    sorted_sort(&loading->swept);
    sorted_sort(&loading->locks);
    sorted_sort(&loading->cut);
    for (size_t i = 0; i < loading->swept.count; i++) {
        session_link_swept(loading->fsm, loading->swept.at[i].item);
    }
    for (size_t i = 1; i < locks->count; i++) {
        if (locks->at[i].number == locks->at[i - 1].number) {
            return load_corrupt(loading, "two locks with one id");
        }
    }
    for (size_t i = 0; i < loading->cut.count; i++) {
        struct lock *lock = loading->cut.at[i].item;
        list_push_back(&loading->fsm->left.cut, &lock->in_cut);
    }
    return 0;
}

/* The lock, session and owner in the key of a hold or wait. */
struct whose {
    struct lock *lock;
    struct session *session;
    struct bytes owner;
    uint64_t wait_index;
};

static bool get_whose(struct loading *loading, struct reader *key,
                      bool is_waiting, struct whose *ret_whose)
{
    ret_whose->lock = sorted_find(&loading->locks, load_get_number(key));
    ret_whose->wait_index = is_waiting ? load_get_number(key) : 0;
    ret_whose->session = session_find_any(loading->fsm, load_get_number(key));
    ret_whose->owner = reader_bytes(key, reader_left(key));
    return reader_ok(key, true) && ret_whose->lock != NULL &&
           ret_whose->session != NULL &&
           ret_whose->owner.size <= OWNER_SIZE_MAX;
}

static struct stored *new_hold(struct loading *loading, struct reader *key)
{
    struct whose whose;
    if (!get_whose(loading, key, false, &whose)) {
        return NULL;
    }
    struct hold *hold = hold_new(loading->fsm, whose.lock, whose.session,
                                 &(struct hold_terms){.owner = whose.owner});
    return &hold->stored;
}

static const char *check_hold(struct loading *loading, void *structure)
{
    struct hold *hold = structure;
    sorted_add(&loading->holds, hold->serial, hold);
    return NULL;
}

static struct stored *new_wait(struct loading *loading, struct reader *key)
{
    struct whose whose;
    if (!get_whose(loading, key, true, &whose)) {
        return NULL;
    }
    struct wait_terms terms = {.hold = {.owner = whose.owner}};
    struct wait *wait = wait_new(loading->fsm, whose.lock, whose.session,
                                 &terms);
    wait->wait_index = whose.wait_index;
    return &wait->stored;
}

static const char *load_check_wait(struct loading *loading, void *structure)
{
    struct wait *wait = structure;
    sorted_add(&loading->waits, wait->serial, wait);
    sorted_add(&loading->asked, wait->wait_index, wait);
    return NULL;
}

static struct stored *new_result(struct loading *loading, struct reader *key)
{
    struct session *session = session_find_any(loading->fsm,
                                               load_get_number(key));
    uint64_t req = load_get_number(key);
    if (!reader_ok(key, true) || session == NULL) {
        return NULL;
    }
    if (req == 0) {
        return session->numbers == NULL
                   ? &request_ids_obtain(loading->fsm, session)->stored
                   : NULL;
    }
    if (session->numbers == NULL || !request_ids_has(session->numbers, req)) {
        return NULL;
    }
    return &result_cache_add(loading->fsm, session->numbers, req)->stored;
}

static const char *load_check_numbers(struct loading *loading, void *structure)
{
    struct numbers *numbers = structure;
    const uint64_t *range = numbers->spent;
    for (uint32_t i = 0; i < numbers->spent_count; i++, range += 2) {
        if (range[0] == 0 || range[0] > range[1] ||
            (i > 0 && (range[0] < 2 || range[0] - 2 < range[-1]))) {
            return "ranges of spent numbers";
        }
    }
    numbers->spent_room = numbers->spent_count;
    loading->fsm->uses.spent_ranges += numbers->spent_count;
    return numbers->spent_count > 0 ? NULL : "record of spent numbers";
}

/* Checks a result; if it waits, all its waits belong to one waiter. */
static const char *check_result(struct loading *loading, void *structure)
{
    struct kept_result *kept = structure;
    size_t tokens_size = kept->token_count * sizeof(uint64_t);
    sorted_add(&loading->results, kept->serial, kept);
    if (kept->token_count == 1) {
        pool_give(&loading->fsm->pool, kept->tokens, tokens_size);
        kept->tokens = &kept->token;
    } else {
        /* Counted like a copy. */
        loading->fsm->pool.copied_size += tokens_size;
    }
    if (kept->wait_index == 0) {
        return NULL;
    }
    const struct wait *wait = sorted_find(&loading->asked, kept->wait_index);
    if (wait == NULL || wait->session != kept->numbers->session) {
        return "the result of a waiting request without a wait";
    }
    kept->waiter = wait->waiter;
    return NULL;
}

static struct stored *new_blacklisting(struct loading *loading,
                                       struct reader *key)
{
    struct blacklisting *entry = blacklisting_new(loading->fsm);
    entry->since_index = load_get_number(key);
    return reader_ok(key, true) ? &entry->stored : NULL;
}

static struct stored *new_fence(struct loading *loading, struct reader *key)
{
    struct bytes name = reader_bytes(key, reader_left(key));
    return name_is_valid(name) ? &fence_new(loading->fsm, name)->stored : NULL;
}

static struct stored *new_member(struct loading *loading, struct reader *key)
{
    struct member *member = member_obtain(loading->fsm, load_get_number(key));
    return reader_ok(key, true) ? &member->stored : NULL;
}

static const char *check_member(struct loading *loading, void *structure)
{
    const struct member *member = structure;
    member_count_in(loading->fsm, member);
    return member->incarnation != 0 || member->removed_incarnation != 0
               ? NULL
               : "member record";
}

static struct stored *new_user(struct loading *loading, struct reader *key)
{
    struct bytes name = reader_bytes(key, reader_left(key));
    return user_name_is_valid(name) ? &user_new(loading->fsm, name)->stored
                                    : NULL;
}

static const char *load_check_user(struct loading *loading, void *structure)
{
    struct lockfsm *fsm = loading->fsm;
    struct user *user = structure;
    if (user->number != 0) {
        if (user->number <= USER_LOCAL ||
            lockfsm_user(fsm, user->number) != NULL) {
            return "the number of a user";
        }
        user_number_in(fsm, user);
    }
    for (uint32_t i = 0; i < user->role_count; i++) {
        if (lockfsm_role(fsm, user->roles[i].name) == NULL) {
            return "a user with an unknown role";
        }
    }
    /* The count is not stored: without it a role in use could be removed. */
    user_count_roles(loading->fsm, user, true);
    LIST_FOR (struct secret, secret, &user->secrets, in_user) {
        if (secret->number == 0 || lockfsm_secret(fsm, secret->hash) != NULL) {
            return "two secrets with one hash";
        }
        secret_hash_in(fsm, user, secret);
    }
    return NULL;
}

static struct stored *new_role(struct loading *loading, struct reader *key)
{
    struct bytes name = reader_bytes(key, reader_left(key));
    return user_name_is_valid(name) && lockfsm_role(loading->fsm, name) == NULL
               ? &role_new(loading->fsm, name)->stored
               : NULL;
}

static const char *check_role(struct loading *loading, void *structure)
{
    const struct role *role = structure;
    (void)loading;
    for (uint32_t i = 0; i < role->grant_count; i++) {
        if (grant_check(&role->grants[i]) != NULL) {
            return "a grant of a role";
        }
    }
    return NULL;
}

static struct stored *new_revocation(struct loading *loading,
                                     struct reader *key)
{
    struct bytes fingerprint = reader_bytes(key, FINGERPRINT_SIZE);
    return reader_ok(key, true)
               ? &revocation_new(loading->fsm, fingerprint.data)->stored
               : NULL;
}

static const char *check_revocation(struct loading *loading, void *structure)
{
    const struct revocation *revocation = structure;
    (void)loading;
    return revocation->log_index != 0 ? NULL : "record of a revocation";
}

static struct stored *new_act(struct loading *loading, struct reader *key)
{
    uint64_t number = load_get_number(key);
    return reader_ok(key, true) ? &act_new(loading->fsm, number)->stored : NULL;
}

static struct stored *new_cell(struct loading *loading, struct reader *key)
{
    struct bytes prefix = reader_bytes(key, reader_u8(key));
    return reader_ok(key, true) && cell_prefix_is_valid(prefix)
               ? &cell_new(loading->fsm, prefix)->stored
               : NULL;
}

static const char *check_cell(struct loading *loading, void *structure)
{
    const struct cell *cell = structure;
    (void)loading;
    return cell->is_own == (cell->endpoints.size == 0) && cell->log_index != 0
               ? NULL
               : "a row of the map of cells";
}

/* The functions that create the structure of a record, by map and by kind. */
static struct stored *(*const makers[])(struct loading *, struct reader *) = {
    [TABLE_SESSIONS] = new_session,   [TABLE_LOCKS] = new_lock,
    [TABLE_HOLDS] = new_hold,         [TABLE_WAITS] = new_wait,
    [TABLE_RESULTS] = new_result,     [TABLE_BLACKLIST] = new_blacklisting,
    [TABLE_FENCES] = new_fence,       [TABLE_MEMBERS] = new_member,
    [TABLE_USERS] = new_user,         [TABLE_ROLES] = new_role,
    [TABLE_REVOKED] = new_revocation, [TABLE_ACTS] = new_act,
    [TABLE_CELLS] = new_cell};
static const char *(*const checks[RECORD_KIND_COUNT])(struct loading *,
                                                      void *) = {
    [RECORD_SESSION] = load_check_session,
    [RECORD_LOCK] = load_check_lock,
    [RECORD_HOLD] = check_hold,
    [RECORD_WAIT] = load_check_wait,
    [RECORD_NUMBERS] = load_check_numbers,
    [RECORD_RESULT] = check_result,
    [RECORD_USER] = load_check_user,
    [RECORD_ROLE] = check_role,
    [RECORD_MEMBER] = check_member,
    [RECORD_REVOCATION] = check_revocation,
    [RECORD_CELL] = check_cell};

static int load_record(void *data, struct bytes key, struct bytes value)
{
    struct loading *loading = data;
    struct reader reader = reader_of(key);
    struct stored *stored = makers[loading->map](loading, &reader);
    if (stored == NULL) {
        return load_corrupt(loading, "the key of a record");
    }
    void *structure = structure_of(stored);
    if (!load_unpack(loading, record_kinds[stored->kind].message, value,
                     structure)) {
        return load_corrupt(loading, "the value of a record");
    }
    const char *wrong = checks[stored->kind] != NULL
                            ? checks[stored->kind](loading, structure)
                            : NULL;
    if (wrong != NULL) {
        return load_corrupt(loading, wrong);
    }
    record_of(&loading->record, stored);
    stored_share(loading->fsm, stored, record_share(&loading->record));
    /* It is in the table as it is, so nothing has to be flushed. */
    stored_settle(loading->fsm, stored);
    return 0;
}

/* --- Linking -------------------------------------------------------------- */

static int link_holds_and_waits(struct loading *loading)
{
    struct lockfsm *fsm = loading->fsm;
    sorted_sort(&loading->holds);
    sorted_sort(&loading->waits);
    sorted_sort(&loading->asked);
    for (size_t i = 0; i < loading->holds.count; i++) {
        hold_link(fsm, loading->holds.at[i].item);
    }
    for (size_t i = 0; i < loading->waits.count; i++) {
        struct wait *wait = loading->waits.at[i].item;
        if (wait_find(fsm, wait->lock, wait->session->id, wait->owner)) {
            return load_corrupt(loading, "two waits of one owner at a lock");
        }
        wait_link(fsm, wait);
    }
    return 0;
}

static void link_results(struct loading *loading)
{
    sorted_sort(&loading->results);
    for (size_t i = 0; i < loading->results.count; i++) {
        result_cache_link(loading->results.at[i].item);
    }
}

static int load_all(struct loading *loading, struct table_txn *txn)
{
    static const enum table_map order[] = {
        TABLE_META,      TABLE_ROLES,  TABLE_USERS,   TABLE_SESSIONS,
        TABLE_LOCKS,     TABLE_HOLDS,  TABLE_WAITS,   TABLE_RESULTS,
        TABLE_BLACKLIST, TABLE_FENCES, TABLE_MEMBERS, TABLE_REVOKED,
        TABLE_ACTS,      TABLE_CELLS};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        loading->map = order[i];
        int error = 0;
        if (order[i] == TABLE_HOLDS) {
            error = order_locks(loading);
        } else if (order[i] == TABLE_RESULTS) {
            /* Each map is loaded after those that its records refer to. */
            error = link_holds_and_waits(loading);
        }
        if (error == 0) {
            error = table_walk(txn, order[i], (struct bytes){NULL, 0},
                               order[i] == TABLE_META ? load_meta : load_record,
                               loading);
        }
        if (error != 0) {
            return error;
        }
    }
    link_results(loading);
    quota_recount(loading->fsm);
    audit_recount(loading->fsm);
    const char *wrong = lockfsm_check_basic(loading->fsm);
    if (wrong == NULL &&
        loading->digest != loading->fsm->ledger.digest + loading->meta_sum) {
        wrong = "the records do not add up to their digest";
    }
    return wrong != NULL ? load_corrupt(loading, wrong) : 0;
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
    sorted_done(&loading.locks);
    sorted_done(&loading.cut);
    sorted_done(&loading.swept);
    sorted_done(&loading.holds);
    sorted_done(&loading.waits);
    sorted_done(&loading.asked);
    sorted_done(&loading.results);
    record_done(&loading.record);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot load the state: %s: %s",
                 hasp_strerror(error),
                 loading.wrong != NULL ? loading.wrong : "reading the table");
        /* No caller may see a state that is loaded by half. */
        lockfsm_reset(fsm);
    }
    return error;
}
