/* SPDX-License-Identifier: MIT */

#include "lockfsm/store/records.h"

#include "base/codec_straight.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"

/* --- Functions for each record -------------------------------------------- */

/* clang-format off */
#define LEFT_U64(tag, member, payer) U64(tag, member)
#define LEFT_BYTES(tag, member, payer, ...) BYTES(tag, member, ##__VA_ARGS__)
#define CODEC_PASS STRAIGHT_PUT
#include "base/codec_rows.def"
#define RECORD(name) \
    codec_put_fn name##_put_straight; \
    STRAIGHT_PUT_BEGIN_SHARED(name, name)
#include "lockfsm/records.def"

#undef CODEC_PASS
#undef RECORD
#define CODEC_PASS STRAIGHT_CHECK
#include "base/codec_rows.def"
#define RECORD(name) \
    codec_check_fn name##_check_straight; \
    STRAIGHT_CHECK_BEGIN_SHARED(name, name)
#include "lockfsm/records.def"

#undef CODEC_PASS
#undef RECORD
#define CODEC_PASS STRAIGHT_GET
#include "base/codec_rows.def"
#define RECORD(name) \
    codec_get_fn name##_get_straight; \
    STRAIGHT_GET_BEGIN_SHARED(name, name)
#include "lockfsm/records.def"

/* --- The tables of fields ------------------------------------------------- */

#undef CODEC_PASS
#undef RECORD
#undef LEFT_U64
#undef LEFT_BYTES
#define CODEC_PASS CODEC
#include "base/codec_rows.def"
#define PAID_BY(payer) \
    .payer_offset = CODEC_AT(payer, CODEC_IS(payer, uint64_t))
#define LEFT_U64(tag, member, payer) CODEC_U64(tag, member, PAID_BY(payer))
#define LEFT_BYTES(tag, member, payer, ...) \
    CODEC_BYTES(tag, member, PAID_BY(payer), ##__VA_ARGS__)
#define RECORD(name) \
    codec_message_fn name##_message; \
    CODEC_BEGIN_STRAIGHT(name, name)
#include "lockfsm/records.def"

/* The rows again, but only those that were left by a user: true if there is
 * one. */
#undef CODEC_PASS
#undef RECORD
#undef LEFT_U64
#undef LEFT_BYTES
#include "base/codec_rows.def"
#define U32(...)
#define U64(...)
#define BOOL(...)
#define ENUM(...)
#define BYTES(...)
#define FIXED(...)
#define NUMBERS(...)
#define PAIRS(...)
#define PARTS(...)
#define LIST(...)
#define LEFT_U64(tag, member, payer) is_left |= from->payer != 0;
#define LEFT_BYTES(tag, member, payer, ...) is_left |= from->payer != 0;
#define RECORD(name) \
    __attribute__((unused)) static bool name##_is_left(const void *structure) \
    { \
        const struct name *from = structure; \
        bool is_left = false; \
        (void)from;
#define END \
        return is_left; \
    }
#include "lockfsm/records.def"

/* The rows again, but only those that own memory or were left by a user. */
#undef RECORD
#undef LEFT_U64
#undef LEFT_BYTES
#define CODEC_PASS CODEC
#include "base/codec_rows.def"
#define LEFT_U64(tag, member, payer) CODEC_U64(tag, member, PAID_BY(payer))
#define LEFT_BYTES(tag, member, payer, ...) \
    CODEC_BYTES(tag, member, PAID_BY(payer), ##__VA_ARGS__)
#undef U32
#undef U64
#undef BOOL
#undef ENUM
#undef FIXED
#undef RECORD
#define U32(...)
#define U64(...)
#define BOOL(...)
#define ENUM(...)
#define FIXED(...)
#define RECORD(name) \
    codec_message_fn name##_owned_message; \
    CODEC_BEGIN(name##_owned, name)
#include "lockfsm/records.def"
/* clang-format on */

/* --- Keys ----------------------------------------------------------------- */

static void records_put_number(struct buffer *out, uint64_t number)
{
    store_u64_be(buffer_reserve(out, 8), number);
    out->size += 8;
}

static void put_key_of_session(struct buffer *out, const void *structure)
{
    records_put_number(out, ((const struct session *)structure)->id);
}

static void put_key_of_lock(struct buffer *out, const void *structure)
{
    buffer_put_bytes(out, ((const struct lock *)structure)->name);
}

static void put_key_of_hold(struct buffer *out, const void *structure)
{
    const struct hold *hold = structure;
    records_put_number(out, hold->lock->id);
    records_put_number(out, hold->session->id);
    buffer_put_bytes(out, hold->owner);
}

static void put_key_of_wait(struct buffer *out, const void *structure)
{
    const struct wait *wait = structure;
    records_put_number(out, wait->lock->id);
    records_put_number(out, wait->wait_index);
    records_put_number(out, wait->session->id);
    buffer_put_bytes(out, wait->owner);
}

static void put_key_of_fence(struct buffer *out, const void *structure)
{
    buffer_put_bytes(out, ((const struct fence *)structure)->resource);
}

static void put_key_of_blacklisting(struct buffer *out, const void *structure)
{
    records_put_number(out,
                       ((const struct blacklisting *)structure)->since_index);
}

static void put_key_of_result(struct buffer *out, const void *structure)
{
    const struct kept_result *kept = structure;
    records_put_number(out, kept->numbers->session->id);
    records_put_number(out, kept->req);
}

static void put_key_of_numbers(struct buffer *out, const void *structure)
{
    records_put_number(out, ((const struct numbers *)structure)->session->id);
    records_put_number(out, 0);
}

static void put_key_of_member(struct buffer *out, const void *structure)
{
    records_put_number(out, ((const struct member *)structure)->node);
}

static void put_key_of_user(struct buffer *out, const void *structure)
{
    buffer_put_bytes(out, ((const struct user *)structure)->name);
}

static void put_key_of_role(struct buffer *out, const void *structure)
{
    buffer_put_bytes(out, ((const struct role *)structure)->name);
}

static void put_key_of_revocation(struct buffer *out, const void *structure)
{
    const struct revocation *revocation = structure;
    buffer_put(out, revocation->fingerprint, FINGERPRINT_SIZE);
}

/* The size comes first, since no key of the table may be empty. */
static void put_key_of_cell(struct buffer *out, const void *structure)
{
    const struct cell *cell = structure;
    buffer_put_u8(out, (uint8_t)cell->prefix.size);
    buffer_put_bytes(out, cell->prefix);
}

static void put_key_of_act(struct buffer *out, const void *structure)
{
    records_put_number(out, ((const struct act *)structure)->number);
}

/* --- Records -------------------------------------------------------------- */

#define KIND(name, map, put_key)                            \
    {                                                       \
        map, offsetof(struct name, stored), name##_message, \
            name##_owned_message, name##_is_left, put_key   \
    }
const struct record_kind_row record_kinds[RECORD_KIND_COUNT] = {
    [RECORD_SESSION] = KIND(session, TABLE_SESSIONS, put_key_of_session),
    [RECORD_LOCK] = KIND(lock, TABLE_LOCKS, put_key_of_lock),
    [RECORD_HOLD] = KIND(hold, TABLE_HOLDS, put_key_of_hold),
    [RECORD_WAIT] = KIND(wait, TABLE_WAITS, put_key_of_wait),
    [RECORD_FENCE] = KIND(fence, TABLE_FENCES, put_key_of_fence),
    [RECORD_BLACKLISTING] = KIND(blacklisting, TABLE_BLACKLIST,
                                 put_key_of_blacklisting),
    [RECORD_RESULT] = KIND(kept_result, TABLE_RESULTS, put_key_of_result),
    [RECORD_NUMBERS] = KIND(numbers, TABLE_RESULTS, put_key_of_numbers),
    [RECORD_MEMBER] = KIND(member, TABLE_MEMBERS, put_key_of_member),
    [RECORD_USER] = KIND(user, TABLE_USERS, put_key_of_user),
    [RECORD_ROLE] = KIND(role, TABLE_ROLES, put_key_of_role),
    [RECORD_ACT] = KIND(act, TABLE_ACTS, put_key_of_act),
    [RECORD_CELL] = KIND(cell, TABLE_CELLS, put_key_of_cell),
    [RECORD_REVOCATION] = KIND(revocation, TABLE_REVOKED,
                               put_key_of_revocation),
};

void *structure_of(const struct stored *stored)
{
    return (char *)stored - record_kinds[stored->kind].stored_offset;
}

/* --- What a structure owns ------------------------------------------------ */

static uint32_t *records_count_of(const struct codec_field *field,
                                  const void *from)
{
    CHECK(!field->is_inline);
    return (uint32_t *)((char *)from + field->count_offset);
}

void members_drop(struct pool *pool, const struct codec_message *message,
                  void *structure)
{
    for (size_t i = 0; i < message->field_count; i++) {
        const struct codec_field *field = &message->fields[i];
        void *at = (char *)structure + field->offset;
        if (field->type == CODEC_TYPE_BYTES) {
            pool_drop(pool, at);
        } else if (field->type == CODEC_TYPE_PARTS) {
            const struct codec_message *part = field->part();
            uint32_t count = *records_count_of(field, structure);
            for (uint32_t j = 0; j < count; j++) {
                members_drop(pool, part, *(char **)at + j * part->size);
            }
            pool_give(pool, *(void **)at, count * part->size);
        } else if (field->type == CODEC_TYPE_LIST) {
            /* The module that links a member also unlinks it. */
            CHECK(list_is_empty(at));
        } else {
            CHECK(field->type != CODEC_TYPE_NUMBERS || field->is_inline);
        }
    }
}

void structure_free(struct lockfsm *fsm, struct stored *stored)
{
    const struct codec_message *owned = record_kinds[stored->kind].owned();
    void *structure = structure_of(stored);
    CHECK(stored->share == 0 && list_is_empty(&stored->in_list));
    members_drop(&fsm->pool, owned, structure);
    pool_give(&fsm->pool, structure, owned->size);
}

uint64_t members_size(const struct codec_message *message,
                      const void *structure)
{
    uint64_t size = 0;
    for (size_t i = 0; i < message->field_count; i++) {
        const struct codec_field *field = &message->fields[i];
        const void *at = (const char *)structure + field->offset;
        if (field->type == CODEC_TYPE_BYTES) {
            size += ((const struct bytes *)at)->size;
        } else if (field->type == CODEC_TYPE_PARTS) {
            const struct codec_message *part = field->part();
            for (uint32_t j = 0; j < *records_count_of(field, structure); j++) {
                size += members_size(part, *(char *const *)at + j * part->size);
            }
        } else if (field->type == CODEC_TYPE_LIST) {
            LIST_EACH (node, (const struct list *)at) {
                size += members_size(field->part(),
                                     (const char *)node - field->node_offset);
            }
        }
    }
    return size;
}

uint64_t structure_size(const struct stored *stored)
{
    return RECORD_SIZE + members_size(record_kinds[stored->kind].owned(),
                                      structure_of(stored));
}

/* --- As bytes ------------------------------------------------------------- */

static void records_begin(struct record *record, enum table_map map)
{
    record->map = map;
    buffer_clear(&record->key);
    buffer_clear(&record->value);
}

void record_of(struct record *record, const struct stored *stored)
{
    const struct record_kind_row *kind = &record_kinds[stored->kind];
    const void *structure = structure_of(stored);
    records_begin(record, kind->map);
    kind->put_key(&record->key, structure);
    codec_put(&record->value, kind->message(), structure);
}

void record_of_meta(struct record *record, const struct lockfsm *fsm)
{
    records_begin(record, TABLE_META);
    buffer_put_text(&record->key, META_STATE_KEY);
    codec_put(&record->value, lockfsm_message(), fsm);
}

void record_done(struct record *record)
{
    buffer_done(&record->key);
    buffer_done(&record->value);
}
