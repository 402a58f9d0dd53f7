/* SPDX-License-Identifier: MIT */

#include "lockfsm/records.h"

#include "lockfsm/record.pb-c.h"

/* The structure around a 'stored', for reading. */
#define STORED_ENTRY(at, type) \
    ((const struct type *)((const char *)(at)-offsetof(struct type, stored)))

static ProtobufCBinaryData data_of(struct bytes bytes)
{
    return (ProtobufCBinaryData){.len = bytes.size,
                                 .data = (uint8_t *)bytes.data};
}

static void begin(struct record *record, enum table_map map)
{
    record->map = map;
    buffer_clear(&record->key);
    buffer_clear(&record->value);
}

static void put_value(struct record *record, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size == 0) {
        return; /* All of it is zero. */
    }
    uint8_t *at = buffer_reserve(&record->value, size);
    CHECK(protobuf_c_message_pack(message, at) == size);
    record->value.size += size;
}

void record_done(struct record *record)
{
    buffer_done(&record->key);
    buffer_done(&record->value);
}

void key_of_number(struct buffer *out, uint64_t number)
{
    store_u64_be(buffer_reserve(out, 8), number);
    out->size += 8;
}

void key_of_hold(struct buffer *out, const struct hold *hold)
{
    key_of_number(out, hold->lock->id);
    key_of_number(out, hold->session->id);
    buffer_put_bytes(out, hold->owner);
}

void key_of_wait(struct buffer *out, const struct wait *wait)
{
    key_of_number(out, wait->lock->id);
    key_of_number(out, wait->wait_index);
}

void key_of_result(struct buffer *out, const struct kept_result *kept)
{
    key_of_number(out, kept->numbers->session->id);
    key_of_number(out, kept->req);
}

void key_of_numbers(struct buffer *out, const struct numbers *numbers)
{
    key_of_number(out, numbers->session->id);
    key_of_number(out, 0);
}

void record_of_session(struct record *record, const struct session *session)
{
    Hasp__SessionRecord message = HASP__SESSION_RECORD__INIT;
    Hasp__LabelRecord labels[LABEL_COUNT_MAX];
    Hasp__LabelRecord *label_pointers[LABEL_COUNT_MAX];
    Hasp__EndedRecord ended[ENDED_COUNT_MAX];
    Hasp__EndedRecord *ended_pointers[ENDED_COUNT_MAX];
    for (uint32_t i = 0; i < session->label_count; i++) {
        labels[i] = (Hasp__LabelRecord)HASP__LABEL_RECORD__INIT;
        labels[i].key = data_of(session->labels[i].key);
        labels[i].value = data_of(session->labels[i].value);
        label_pointers[i] = &labels[i];
    }
    uint32_t count = 0;
    LIST_EACH (node, &session->ended) {
        const struct ended_hold *hold = LIST_ENTRY(node, struct ended_hold,
                                                   in_session);
        ended[count] = (Hasp__EndedRecord)HASP__ENDED_RECORD__INIT;
        ended[count].lock = data_of(hold->lock);
        ended[count].owner = data_of(hold->owner);
        ended[count].token = hold->token;
        ended[count].is_max_hold = strcmp(hold->reason, "max hold") == 0;
        ended_pointers[count] = &ended[count];
        count++;
    }
    if (!session->is_redis) {
        message.proof = data_of(bytes_of(session->proof, PROOF_SIZE));
    }
    message.ttl_ms = session->ttl_ms;
    message.linger_ms = session->linger_ms;
    message.heard_index = session->heard_index;
    message.mark_index = session->mark_index;
    message.mark_quiet_ms = session->mark_quiet_ms;
    message.mark_clock_ms = session->mark_clock_ms;
    message.name = data_of(session->name);
    message.address = data_of(session->address);
    message.n_labels = session->label_count;
    message.labels = label_pointers;
    message.blacklist_index = session->blacklist_index;
    message.is_redis = session->is_redis;
    message.px_ms = session->px_ms;
    message.n_ended = count;
    message.ended = ended_pointers;
    begin(record, TABLE_SESSIONS);
    key_of_number(&record->key, session->id);
    put_value(record, &message.base);
}

void record_of_lock(struct record *record, const struct lock *lock)
{
    Hasp__LockRecord message = HASP__LOCK_RECORD__INIT;
    message.id = lock->id;
    message.mode = (uint32_t)lock->mode;
    message.slots = lock->slots;
    message.delay_ms = lock->delay_ms;
    message.delay_index = lock->delay_index;
    message.delay_clock_ms = lock->delay_clock_ms;
    message.delay_slots = lock->delay_slots;
    message.last_token = lock->last_token;
    begin(record, TABLE_LOCKS);
    buffer_put_bytes(&record->key, lock->name);
    put_value(record, &message.base);
}

void record_of_hold(struct record *record, const struct hold *hold)
{
    Hasp__HoldRecord message = HASP__HOLD_RECORD__INIT;
    message.value = data_of(hold->value);
    message.mode = (uint32_t)hold->mode;
    message.token = hold->token;
    message.granted_index = hold->granted_index;
    message.serial = hold->serial;
    message.count = hold->count;
    message.delay_ms = hold->delay_ms;
    message.hold_ms = hold->hold_ms;
    message.has_barged = hold->has_barged;
    message.hold_clock_ms = hold->hold_clock_ms;
    begin(record, TABLE_HOLDS);
    key_of_hold(&record->key, hold);
    put_value(record, &message.base);
}

void record_of_wait(struct record *record, const struct wait *wait)
{
    Hasp__WaitRecord message = HASP__WAIT_RECORD__INIT;
    message.session = wait->session->id;
    message.owner = data_of(wait->owner);
    message.value = data_of(wait->value);
    message.mode = (uint32_t)wait->mode;
    message.slots = wait->slots;
    message.asked_index = wait->asked_index;
    message.wait_ms = wait->wait_ms;
    message.wait_clock_ms = wait->wait_clock_ms;
    message.delay_ms = wait->delay_ms;
    message.hold_ms = wait->hold_ms;
    message.req = wait->req;
    message.serial = wait->serial;
    message.is_upgrade = wait->is_upgrade;
    begin(record, TABLE_WAITS);
    key_of_wait(&record->key, wait);
    put_value(record, &message.base);
}

void record_of_fence(struct record *record, const struct fence *fence)
{
    Hasp__FenceRecord message = HASP__FENCE_RECORD__INIT;
    message.token = fence->token;
    begin(record, TABLE_FENCES);
    buffer_put_bytes(&record->key, fence->resource);
    put_value(record, &message.base);
}

void record_of_blacklisting(struct record *record,
                            const struct blacklisting *entry)
{
    Hasp__BlacklistRecord message = HASP__BLACKLIST_RECORD__INIT;
    message.session = entry->session;
    message.client = data_of(entry->client);
    message.reason = data_of(entry->reason);
    message.by = data_of(entry->by);
    message.for_ms = entry->for_ms;
    message.clock_ms = entry->clock_ms;
    begin(record, TABLE_BLACKLIST);
    key_of_number(&record->key, entry->since_index);
    put_value(record, &message.base);
}

void record_of_result(struct record *record, const struct kept_result *kept)
{
    Hasp__ResultRecord message = HASP__RESULT_RECORD__INIT;
    message.hash = kept->hash;
    message.wait_index = kept->wait_index;
    if (kept->asker != NULL) {
        message.owner = data_of(kept->asker->owner);
    }
    message.serial = kept->serial;
    message.code = (uint32_t)kept->code;
    message.token = kept->token;
    message.count = kept->count;
    message.n_tokens = kept->token_count;
    message.tokens = kept->token_count > 1 ? kept->tokens
                                           : (uint64_t *)&kept->token;
    message.text = data_of(kept->text);
    begin(record, TABLE_RESULTS);
    key_of_result(&record->key, kept);
    put_value(record, &message.base);
}

void record_of_numbers(struct record *record, const struct numbers *numbers)
{
    Hasp__NumbersRecord message = HASP__NUMBERS_RECORD__INIT;
    message.n_spent = 2 * (size_t)numbers->spent_count;
    message.spent = numbers->spent;
    begin(record, TABLE_RESULTS);
    key_of_numbers(&record->key, numbers);
    put_value(record, &message.base);
}

void record_of_member(struct record *record, const struct member *member)
{
    Hasp__MemberRecord message = HASP__MEMBER_RECORD__INIT;
    message.incarnation = member->incarnation;
    message.added_index = member->added_index;
    message.removed_index = member->removed_index;
    message.removed_ms = member->removed_ms;
    message.removed_by = data_of(member->removed_by);
    begin(record, TABLE_MEMBERS);
    key_of_number(&record->key, member->node);
    put_value(record, &message.base);
}

void record_of_meta(struct record *record, const struct lockfsm *fsm)
{
    Hasp__MetaRecord message = HASP__META_RECORD__INIT;
    Hasp__BeginRecord begins[BEGIN_MARK_MAX];
    Hasp__BeginRecord *begin_pointers[BEGIN_MARK_MAX];
    for (uint32_t i = 0; i < fsm->begin_count; i++) {
        begins[i] = (Hasp__BeginRecord)HASP__BEGIN_RECORD__INIT;
        begins[i].log_index = fsm->begins[i].log_index;
        begins[i].clock_ms = fsm->begins[i].clock_ms;
        begins[i].since_ms = fsm->begins[i].since_ms;
        begin_pointers[i] = &begins[i];
    }
    if (fsm->is_begun) {
        message.cluster_id = data_of(
            bytes_of(fsm->cluster_id, sizeof fsm->cluster_id));
    }
    message.token_base = fsm->token_base;
    message.feature_level = fsm->feature_level;
    message.next_serial = fsm->next_serial;
    message.is_new_life = fsm->is_new_life;
    message.quarantine_ms = fsm->quarantine_ms;
    message.quarantine_index = fsm->quarantine_index;
    message.quarantine_clock_ms = fsm->quarantine_clock_ms;
    message.clock_ms = fsm->clock_ms;
    message.clock_index = fsm->clock_index;
    message.n_begins = fsm->begin_count;
    message.begins = begin_pointers;
#ifdef HASP_FEATURE_LEVEL_EXTRA
    message.trials = fsm->trials;
#endif
    Hasp__LimitRecord limits[LIMIT_COUNT];
    Hasp__LimitRecord *pointers[LIMIT_COUNT];
    for (uint32_t key = 0; key < LIMIT_COUNT; key++) {
        limits[key] = (Hasp__LimitRecord)HASP__LIMIT_RECORD__INIT;
        limits[key].key = key;
        limits[key].value = fsm->limits.of[key];
        pointers[key] = &limits[key];
    }
    message.n_limits = fsm->has_limits ? LIMIT_COUNT : 0;
    message.limits = pointers;
    begin(record, TABLE_META);
    buffer_put_text(&record->key, META_STATE_KEY);
    put_value(record, &message.base);
}

/* 'stored' is a member of each structure. */
void record_of(struct record *record, enum record_kind kind,
               const struct stored *stored)
{
    switch (kind) {
    case RECORD_SESSION:
        record_of_session(record, STORED_ENTRY(stored, session));
        return;
    case RECORD_LOCK:
        record_of_lock(record, STORED_ENTRY(stored, lock));
        return;
    case RECORD_HOLD:
        record_of_hold(record, STORED_ENTRY(stored, hold));
        return;
    case RECORD_WAIT:
        record_of_wait(record, STORED_ENTRY(stored, wait));
        return;
    case RECORD_FENCE:
        record_of_fence(record, STORED_ENTRY(stored, fence));
        return;
    case RECORD_BLACKLISTING:
        record_of_blacklisting(record, STORED_ENTRY(stored, blacklisting));
        return;
    case RECORD_RESULT:
        record_of_result(record, STORED_ENTRY(stored, kept_result));
        return;
    case RECORD_NUMBERS:
        record_of_numbers(record, STORED_ENTRY(stored, numbers));
        return;
    case RECORD_MEMBER:
        record_of_member(record, STORED_ENTRY(stored, member));
        return;
    case RECORD_KIND_COUNT:
        break;
    }
    UNREACHABLE();
}
