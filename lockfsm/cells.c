/* SPDX-License-Identifier: MIT */

#include "lockfsm/cells.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"

/* The most locks, and fences, that a refused GIVE counts. */
#define CELL_LOOK_MAX 1000

static const struct bytes no_prefix = {NULL, 0};

/* --- Rows ----------------------------------------------------------------- */

static bool is_word(struct bytes text, size_t size_max)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return text.size <= size_max;
}

/* Prefixes and endpoints appear in the texts of refusals. */
bool cell_prefix_is_valid(struct bytes prefix)
{
    return is_word(prefix, CELL_PREFIX_SIZE_MAX);
}

static struct cell *cell_find(const struct lockfsm *fsm, struct bytes prefix)
{
    LIST_FOR (struct cell, cell, &fsm->cells.list, in_order) {
        if (bytes_equal(cell->prefix, prefix)) {
            return cell;
        }
    }
    return NULL;
}

struct cell *cell_new(struct lockfsm *fsm, struct bytes prefix)
{
    struct cell *cell = pool_take(&fsm->pool, sizeof *cell);
    cell->prefix = pool_copy(&fsm->pool, prefix);
    stored_init(&cell->stored, RECORD_CELL);
    struct list *at = fsm->cells.list.next;
    while (at != &fsm->cells.list &&
           bytes_compare(LIST_ENTRY(at, struct cell, in_order)->prefix,
                         prefix) < 0) {
        at = at->next;
    }
    list_insert_before(at, &cell->in_order);
    fsm->cells.count++;
    return cell;
}

static void cell_free(struct lockfsm *fsm, struct cell *cell)
{
    CHECK(fsm->cells.count > 0);
    record_gone(fsm, &cell->stored);
    list_remove(&cell->in_order);
    fsm->cells.count--;
    pool_drop(&fsm->pool, &cell->prefix);
    structure_free(fsm, &cell->stored);
}

/* Makes the row of the prefix, and removes those below it, which it replaces.
 */
static struct cell *cell_set(struct lockfsm *fsm, struct bytes prefix,
                             struct bytes endpoints)
{
    LIST_FOR_SAFE (struct cell, cell, &fsm->cells.list, in_order) {
        if (bytes_has_prefix(cell->prefix, prefix)) {
            cell_free(fsm, cell);
        }
    }
    struct cell *cell = cell_new(fsm, prefix);
    cell->is_own = endpoints.size == 0;
    cell->endpoints = pool_copy(&fsm->pool, endpoints);
    cell->log_index = fsm->entry.log_index;
    record_changed(fsm, &cell->stored);
    return cell;
}

/* --- Whose a name is ------------------------------------------------------ */

const struct cell *lockfsm_cell_of(const struct lockfsm *fsm, struct bytes name)
{
    const struct cell *found = NULL;
    if (fsm->cells.count == 0) {
        return NULL;
    }
    /* In the order of their prefixes a longer one comes after its beginning. */
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        if (bytes_has_prefix(name, cell->prefix)) {
            found = cell;
        }
    }
    return found;
}

static bool is_foreign(const struct lockfsm *fsm, const struct cell *cell)
{
    return fsm->cells.is_doubtful || (cell != NULL && !cell->is_own);
}

static bool cells_refuse_name(struct lockfsm *fsm, const struct cell *cell,
                              struct result *result)
{
    struct buffer *text = &fsm->scratch.refusal;
    buffer_clear(text);
    if (fsm->cells.is_doubtful) {
        buffer_put_text(text,
                        "this cell was restored, and may have given the name "
                        "away since the backup; check its map, then: hasp "
                        "cells confirm");
    } else {
        CHECK(cell != NULL && !cell->is_own);
        buffer_put_text(text, "the name belongs to another cell (prefix '");
        buffer_put_bytes(text, cell->prefix);
        buffer_put_text(text, "'), at ");
        buffer_put_bytes(text, cell->endpoints);
    }
    result->code = RESULT_FOREIGN;
    result->text = buffer_bytes(text);
    return true;
}

bool lockfsm_name_is_foreign(struct lockfsm *fsm, struct bytes name,
                             struct result *ret_result)
{
    if (fsm->cells.count == 0) {
        return false;
    }
    const struct cell *cell = lockfsm_cell_of(fsm, name);
    return is_foreign(fsm, cell) && cells_refuse_name(fsm, cell, ret_result);
}

/* The names that one request has named so far. */
struct cells_named {
    uint32_t count;
    uint32_t foreign_count;
    const struct cell *cell; /* Of the foreign ones; if they are of two, ... */
    bool has_several;        /* ... or of another cell and this one. */
};

static void named_add(const struct lockfsm *fsm, struct cells_named *named,
                      struct bytes name)
{
    const struct cell *cell = lockfsm_cell_of(fsm, name);
    if (is_foreign(fsm, cell)) {
        named->has_several |= named->foreign_count > 0 && cell != named->cell;
        named->cell = cell;
        named->foreign_count++;
    }
    named->count++;
    named->has_several |= named->foreign_count > 0 &&
                          named->foreign_count < named->count;
}

static bool named_refuse(struct lockfsm *fsm, const struct cells_named *named,
                         struct result *result)
{
    if (named->foreign_count == 0) {
        return false;
    }
    if (named->has_several && !fsm->cells.is_doubtful) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "the names belong to several cells: one request can name "
                     "those of one cell only");
        return true;
    }
    return cells_refuse_name(fsm, named->cell, result);
}

/* Deleting is giving back, and is never refused. */
static void named_add_keys(const struct lockfsm *fsm, struct cells_named *named,
                           const struct redis_command *redis)
{
    bool is_writing = false;
    for (uint32_t i = 0; i < redis->key_count; i++) {
        is_writing |= redis->keys[i].change == REDIS_SET ||
                      redis->keys[i].change == REDIS_RENEW;
    }
    for (uint32_t i = 0; is_writing && i < redis->key_count; i++) {
        named_add(fsm, named, redis->keys[i].name);
    }
}

bool cells_refuse(struct lockfsm *fsm, const struct entry *command,
                  struct result *result)
{
    struct cells_named named = {0};
    if (fsm->cells.count == 0) {
        return false;
    }
    switch (command->op) {
    case OP_ACQUIRE:
        for (uint32_t i = 0; i < command->acquire->name_count; i++) {
            named_add(fsm, &named, command->acquire->names[i]);
        }
        break;
    case OP_CONVERT:
        if (command->convert->to != LOCK_SHARED) {
            named_add(fsm, &named, command->convert->name);
        }
        break;
    case OP_REDIS:
        named_add_keys(fsm, &named, command->redis);
        break;
    case OP_FENCE_ADMIT:
        named_add(fsm, &named, command->fence_admit->resource);
        break;
    default: /* Everything else gives back, or needs a hold. */
        return false;
    }
    return named_refuse(fsm, &named, result);
}

/* --- What may be given and taken ------------------------------------------ */

struct cells_look {
    struct bytes prefix;
    uint32_t count;
};

static bool look_visit(struct treap_node *node, void *data)
{
    struct cells_look *look = data;
    if (!bytes_has_prefix(node->key, look->prefix)) {
        return false;
    }
    look->count++;
    return look->count < CELL_LOOK_MAX;
}

/* At most CELL_LOOK_MAX. */
static uint32_t count_under(struct lockfsm *fsm, struct treap *set,
                            struct bytes prefix)
{
    struct cells_look look = {.prefix = prefix};
    treap_each(set, prefix, look_visit, &look);
    fsm->entry.steps += look.count;
    return look.count;
}

/* True, with the refusal, if something under the prefix could still be held,
 * waited for or believed in. */
static bool is_in_use(struct lockfsm *fsm, struct bytes prefix,
                      struct result *result)
{
    if (is_quarantined(fsm)) {
        result->code = RESULT_QUARANTINED;
        return true;
    }
    uint32_t locks = count_under(fsm, &fsm->lock_order, prefix);
    uint32_t fences = count_under(fsm, &fsm->fence_order, prefix);
    if (locks == 0 && fences == 0) {
        return false;
    }
    refuse_because(fsm, result, RESULT_BAD_ARGUMENT,
                   "the prefix is in use: locks %" PRIu32
                   "%s (held, waited for, delayed or with a note), fences "
                   "%" PRIu32 "%s; release or remove them first",
                   locks, locks == CELL_LOOK_MAX ? " or more" : "", fences,
                   fences == CELL_LOOK_MAX ? " or more" : "");
    return true;
}

/* True if each name with this prefix is this cluster's (is_own), or none is. */
static bool is_all(const struct lockfsm *fsm, struct bytes prefix, bool is_own)
{
    const struct cell *of = lockfsm_cell_of(fsm, prefix);
    if ((of == NULL || of->is_own) != is_own) {
        return false;
    }
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        if (bytes_has_prefix(cell->prefix, prefix) && cell->is_own != is_own) {
            return false;
        }
    }
    return true;
}

/* The highest epoch of the rows about names with this prefix. */
static uint64_t epoch_of(const struct lockfsm *fsm, struct bytes prefix)
{
    uint64_t epoch = 0;
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        if (bytes_has_prefix(cell->prefix, prefix) ||
            bytes_has_prefix(prefix, cell->prefix)) {
            epoch = u64_max(epoch, cell->epoch);
        }
    }
    return epoch;
}

/* True, with the refusal, if there is no room for a row of this prefix. */
static bool cells_are_full(const struct lockfsm *fsm, struct bytes prefix,
                           struct result *result)
{
    if (fsm->cells.count < CELL_COUNT_MAX || cell_find(fsm, prefix) != NULL) {
        return false;
    }
    entry_refuse(result, RESULT_LIMIT, "the map of cells has at most 64 rows");
    return true;
}

/* The error in the endpoints, or NULL. */
static const char *endpoints_wrong(const struct cells_command *message)
{
    return message->endpoints.size > 0 &&
                   is_word(message->endpoints, CELL_ENDPOINTS_SIZE_MAX)
               ? NULL
               : "the endpoints must be HOST:PORT, several separated by "
                 "commas, at most 255 bytes";
}

static bool is_self(const struct lockfsm *fsm, const uint8_t *id)
{
    return memcmp(id, fsm->epoch.cluster_id, CLUSTER_ID_SIZE) == 0;
}

/* --- The changes ---------------------------------------------------------- */

/* A repetition finds the map as the first JOIN has made it. */
static bool cells_is_joined(const struct lockfsm *fsm)
{
    const struct cell *cell = cell_find(fsm, no_prefix);
    return fsm->cells.count == 1 && fsm->cells.epoch == 0 && cell != NULL &&
           !cell->is_own;
}

static void cells_join(struct lockfsm *fsm, const struct cells_command *message,
                       struct result *result)
{
    const char *wrong = endpoints_wrong(message);
    wrong = wrong != NULL ? wrong
            : fsm->cells.count > 0 && !cells_is_joined(fsm)
                ? "the cluster has a map of cells already"
                : NULL;
    if (!is_wrong(result, wrong) && !is_in_use(fsm, no_prefix, result)) {
        (void)cell_set(fsm, no_prefix, message->endpoints);
    }
}

/* A repetition finds the prefix given to the same taker, and changes nothing.
 */
static bool cells_is_given(const struct lockfsm *fsm,
                           const struct cells_command *message)
{
    const struct cell *cell = cell_find(fsm, message->prefix);
    return cell != NULL && !cell->is_own && cell->token != 0 &&
           memcmp(cell->cluster, message->taker, CLUSTER_ID_SIZE) == 0;
}

static void cells_give(struct lockfsm *fsm, const struct cells_command *message,
                       struct result *result)
{
    const char *wrong = endpoints_wrong(message);
    wrong = wrong != NULL ? wrong
            : !cluster_id_is_known(message->taker)
                ? "the taker's cluster id is 0"
            : is_self(fsm, message->taker) ? "the taker is this cluster"
            : cells_is_given(fsm, message) ? NULL
            : !is_all(fsm, message->prefix, true)
                ? "names with this prefix belong to another cell already"
                : NULL;
    if (is_wrong(result, wrong) || cells_is_given(fsm, message) ||
        is_in_use(fsm, message->prefix, result) ||
        cells_are_full(fsm, message->prefix, result)) {
        return;
    }
    struct cell *cell = cell_set(fsm, message->prefix, message->endpoints);
    memcpy(cell->cluster, message->taker, CLUSTER_ID_SIZE);
    cell->epoch = ++fsm->cells.epoch;
    cell->token = new_token(fsm);
}

/* A repetition finds the prefix taken with the same receipt. */
static bool cells_is_taken(const struct lockfsm *fsm,
                           const struct cells_command *message)
{
    const struct cell *cell = cell_find(fsm, message->prefix);
    return cell != NULL && cell->is_own && cell->epoch == message->epoch &&
           memcmp(cell->cluster, message->giver, CLUSTER_ID_SIZE) == 0;
}

static void cells_take(struct lockfsm *fsm, const struct cells_command *message,
                       struct result *result)
{
    const char *wrong =
        !is_self(fsm, message->taker) ? "the receipt is for another cluster"
        : !cluster_id_is_known(message->giver) || is_self(fsm, message->giver)
            ? "the receipt's giver is unknown, or this cluster"
        : message->epoch == 0 || message->epoch > TOKEN_MAX
            ? "the receipt has no epoch"
        : cells_is_taken(fsm, message) ? NULL
        : message->epoch <= epoch_of(fsm, message->prefix)
            ? "the receipt is older than a change of this prefix here: it was "
              "used, or another one followed"
        : !is_all(fsm, message->prefix, false)
            ? "names with this prefix are this cluster's already"
        : message->token >= fsm->epoch.token_base
            ? "the giver's tokens are not below this cluster's token_base: "
              "prefixes move to clusters that were founded later"
            : NULL;
    if (is_wrong(result, wrong) || cells_is_taken(fsm, message) ||
        cells_are_full(fsm, message->prefix, result)) {
        return;
    }
    struct cell *cell = cell_set(fsm, message->prefix, no_prefix);
    memcpy(cell->cluster, message->giver, CLUSTER_ID_SIZE);
    cell->epoch = message->epoch;
    cell->token = message->token;
    fsm->cells.epoch = u64_max(fsm->cells.epoch, message->epoch);
}

static bool has_rows_below(const struct lockfsm *fsm, struct bytes prefix)
{
    LIST_FOR (const struct cell, cell, &fsm->cells.list, in_order) {
        if (cell->prefix.size > prefix.size &&
            bytes_has_prefix(cell->prefix, prefix)) {
            return true;
        }
    }
    return false;
}

/* A new row inherits the epoch of the row above it: it says only where the
 * names are, and a receipt for them must still be newer. It replaces no row,
 * since that could be the only copy of a receipt. */
static void cells_point(struct lockfsm *fsm,
                        const struct cells_command *message,
                        struct result *result)
{
    const char *wrong = endpoints_wrong(message);
    wrong = wrong != NULL ? wrong
            : !is_all(fsm, message->prefix, false)
                ? "names with this prefix are this cluster's"
            : cell_find(fsm, message->prefix) == NULL &&
                    has_rows_below(fsm, message->prefix)
                ? "the map has longer prefixes below: point each"
                : NULL;
    if (is_wrong(result, wrong) ||
        cells_are_full(fsm, message->prefix, result)) {
        return;
    }
    struct cell *cell = cell_find(fsm, message->prefix);
    if (cell != NULL) {
        pool_drop(&fsm->pool, &cell->endpoints);
        cell->endpoints = pool_copy(&fsm->pool, message->endpoints);
        record_changed(fsm, &cell->stored);
        return;
    }
    uint64_t epoch = epoch_of(fsm, message->prefix);
    cell_set(fsm, message->prefix, message->endpoints)->epoch = epoch;
}

static void cells_vouch(struct lockfsm *fsm,
                        const struct cells_command *message,
                        struct result *result)
{
    if (cells_are_full(fsm, message->prefix, result)) {
        return;
    }
    cell_set(fsm, message->prefix, no_prefix)->epoch = ++fsm->cells.epoch;
}

void apply_cells(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    const struct cells_command *message = command->cells;
    bool is_moving = message->kind == CELLS_GIVE || message->kind == CELLS_TAKE;
    if (!cell_prefix_is_valid(message->prefix)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "a prefix has at most 128 printable bytes and no spaces");
        return;
    }
    if (is_moving && fsm->cells.is_doubtful) {
        cells_refuse_name(fsm, NULL, result);
        return;
    }
    switch (message->kind) {
    case CELLS_JOIN:
        cells_join(fsm, message, result);
        break;
    case CELLS_GIVE:
        cells_give(fsm, message, result);
        break;
    case CELLS_TAKE:
        cells_take(fsm, message, result);
        break;
    case CELLS_POINT:
        cells_point(fsm, message, result);
        break;
    case CELLS_VOUCH:
        cells_vouch(fsm, message, result);
        break;
    case CELLS_CONFIRM:
        fsm->cells.is_doubtful = false;
        break;
    default:
        entry_refuse(result, RESULT_BAD_ARGUMENT, "kind");
        break;
    }
    result->count = result->code == RESULT_OK ? fsm->cells.epoch : 0;
}

/* --- Reading -------------------------------------------------------------- */

const struct list *lockfsm_cells(const struct lockfsm *fsm)
{
    return &fsm->cells.list;
}

uint32_t lockfsm_cell_count(const struct lockfsm *fsm)
{
    return fsm->cells.count;
}

uint64_t lockfsm_cell_epoch(const struct lockfsm *fsm)
{
    return fsm->cells.epoch;
}

bool lockfsm_cells_are_doubtful(const struct lockfsm *fsm)
{
    return fsm->cells.is_doubtful;
}
