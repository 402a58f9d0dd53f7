/* SPDX-License-Identifier: MIT */

#include "lockfsm/encode.h"

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/lockfsm.h"

#include "lockfsm/command.pb-c.h"

#include <stdlib.h>

_Static_assert((int)LOCK_EXCLUSIVE == HASP__MODE__MODE_EXCLUSIVE, "stored");
_Static_assert((int)LOCK_SHARED == HASP__MODE__MODE_SHARED, "stored");
_Static_assert((int)LOCK_SLOTS == HASP__MODE__MODE_SLOTS, "stored");

static ProtobufCBinaryData data_of(struct bytes bytes)
{
    return (ProtobufCBinaryData){.len = bytes.size,
                                 .data = (uint8_t *)bytes.data};
}

static Hasp__Origin origin_of(const struct origin *origin)
{
    Hasp__Origin message = HASP__ORIGIN__INIT;
    message.session = origin->session;
    message.owner = data_of(origin->owner);
    message.req = origin->req;
    message.acked = origin->acked;
    message.n_also_acked = 2 * (size_t)origin->also_acked_count;
    message.also_acked = (uint64_t *)(uintptr_t)origin->also_acked;
    return message;
}

/* Appends 'command', whose parts the caller has set. */
static void put(struct buffer *out, Hasp__Command__OpCase op_case,
                Hasp__Command *command)
{
    command->op_case = op_case;
    size_t size = hasp__command__get_packed_size(command);
    uint8_t *at = buffer_reserve(out, size);
    CHECK(hasp__command__pack(command, at) == size);
    out->size += size;
}

void encode_begin(struct buffer *out, const struct begin_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Begin begin = HASP__BEGIN__INIT;
    begin.node = c->node;
    begin.incarnation = c->incarnation;
    if (c->cluster_id != NULL) {
        begin.cluster_id = data_of(bytes_of(c->cluster_id, CLUSTER_ID_SIZE));
    }
    begin.token_base = c->token_base;
    begin.feature_level = c->feature_level;
    Hasp__Limit limits[LIMIT_COUNT];
    Hasp__Limit *pointers[LIMIT_COUNT];
    for (uint32_t key = 0; c->limits != NULL && key < LIMIT_COUNT; key++) {
        limits[key] = (Hasp__Limit)HASP__LIMIT__INIT;
        limits[key].key = key;
        limits[key].value = c->limits->of[key];
        pointers[key] = &limits[key];
    }
    begin.n_limits = c->limits != NULL ? LIMIT_COUNT : 0;
    begin.limits = pointers;
    begin.base_index = c->base_index;
    begin.elapsed_ms = c->elapsed_ms;
    command.begin = &begin;
    put(out, HASP__COMMAND__OP_BEGIN, &command);
}

void encode_register(struct buffer *out, uint64_t node, uint64_t incarnation,
                     uint64_t added_index)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Register message = HASP__REGISTER__INIT;
    message.node = node;
    message.incarnation = incarnation;
    message.added_index = added_index;
    command.register_ = &message;
    put(out, HASP__COMMAND__OP_REGISTER, &command);
}

void encode_set_feature(struct buffer *out, uint32_t level)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__SetFeature message = HASP__SET_FEATURE__INIT;
    message.level = level;
    command.set_feature = &message;
    put(out, HASP__COMMAND__OP_SET_FEATURE, &command);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA
void encode_trial(struct buffer *out, struct bytes name)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Please please = HASP__PLEASE__INIT;
    Hasp__Trial trial = HASP__TRIAL__INIT;
    if (name.size > 0) {
        please.name = data_of(name);
        please.trial = 1;
        command.please = &please;
        put(out, HASP__COMMAND__OP_PLEASE, &command);
    } else {
        trial.step = 1;
        command.trial = &trial;
        put(out, HASP__COMMAND__OP_TRIAL, &command);
    }
}
#endif
void encode_set_limit(struct buffer *out, const struct origin *origin,
                      enum limit_key key, uint64_t value)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__SetLimit message = HASP__SET_LIMIT__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    message.key = (uint32_t)key;
    message.value = value;
    command.set_limit = &message;
    put(out, HASP__COMMAND__OP_SET_LIMIT, &command);
}

void encode_quarantine_over(struct buffer *out, uint64_t since_index,
                            struct bytes reason)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__QuarantineOver message = HASP__QUARANTINE_OVER__INIT;
    message.since_index = since_index;
    message.reason = data_of(reason);
    command.quarantine_over = &message;
    put(out, HASP__COMMAND__OP_QUARANTINE_OVER, &command);
}

void encode_trail(struct buffer *out, struct bytes from, struct bytes by)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    command.from = data_of(from);
    command.by = data_of(by);
    put(out, HASP__COMMAND__OP__NOT_SET, &command);
}

void encode_act(struct buffer *out, enum act_kind kind, uint64_t member,
                struct bytes address, uint64_t wall_ms)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Act act = HASP__ACT__INIT;
    act.kind = kind;
    act.member = member;
    act.address = data_of(address);
    act.at_ms = wall_ms;
    command.act = &act;
    put(out, HASP__COMMAND__OP_ACT, &command);
}

void encode_open(struct buffer *out, const struct open_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Open open = HASP__OPEN__INIT;
    Hasp__Label labels[LABEL_COUNT_MAX];
    Hasp__Label *pointers[LABEL_COUNT_MAX];
    CHECK(c->label_count <= LABEL_COUNT_MAX);
    for (uint32_t i = 0; i < c->label_count; i++) {
        labels[i] = (Hasp__Label)HASP__LABEL__INIT;
        labels[i].key = data_of(c->labels[i].key);
        labels[i].value = data_of(c->labels[i].value);
        pointers[i] = &labels[i];
    }
    Hasp__Origin from = origin_of(&c->origin);
    open.origin = c->origin.req != 0 ? &from : NULL;
    open.proof = data_of(bytes_of(c->proof, PROOF_SIZE));
    open.ttl_ms = c->ttl_ms;
    open.linger_ms = c->linger_ms;
    open.name = data_of(c->name);
    open.address = data_of(c->address);
    open.n_labels = c->label_count;
    open.labels = pointers;
    command.open = &open;
    put(out, HASP__COMMAND__OP_OPEN, &command);
}

void encode_close(struct buffer *out, const struct origin *origin)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Close message = HASP__CLOSE__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    command.close = &message;
    put(out, HASP__COMMAND__OP_CLOSE, &command);
}

void encode_expire(struct buffer *out, const uint64_t *sessions, size_t count)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Expire message = HASP__EXPIRE__INIT;
    message.n_sessions = count;
    message.sessions = (uint64_t *)sessions;
    command.expire = &message;
    put(out, HASP__COMMAND__OP_EXPIRE, &command);
}

void encode_time(struct buffer *out, const struct time_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Time message = HASP__TIME__INIT;
    Hasp__Mark *marks = memory_new(c->mark_count * sizeof *marks);
    Hasp__Mark **pointers = memory_new(c->mark_count * sizeof(Hasp__Mark *));
    for (size_t i = 0; i < c->mark_count; i++) {
        marks[i] = (Hasp__Mark)HASP__MARK__INIT;
        marks[i].session = c->marks[i].session;
        marks[i].quiet_ms = c->marks[i].quiet_ms;
        pointers[i] = &marks[i];
    }
    message.base_index = c->base_index;
    message.elapsed_ms = c->elapsed_ms;
    message.n_marks = c->mark_count;
    message.marks = pointers;
    command.time = &message;
    put(out, HASP__COMMAND__OP_TIME, &command);
    free(pointers);
    free(marks);
}

void encode_heard(struct buffer *out, const uint64_t *sessions, size_t count)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Heard message = HASP__HEARD__INIT;
    message.n_sessions = count;
    message.sessions = (uint64_t *)sessions;
    command.heard = &message;
    put(out, HASP__COMMAND__OP_HEARD, &command);
}

static void data_of_names(ProtobufCBinaryData *ret_data,
                          const struct bytes *names, uint32_t count)
{
    CHECK(count <= MULTI_COUNT_MAX);
    for (uint32_t i = 0; i < count; i++) {
        ret_data[i] = data_of(names[i]);
    }
}

void encode_acquire(struct buffer *out, const struct acquire_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Acquire message = HASP__ACQUIRE__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    ProtobufCBinaryData names[MULTI_COUNT_MAX];
    data_of_names(names, c->names, c->name_count);
    message.origin = &from;
    message.n_names = c->name_count;
    message.names = names;
    message.mode = (Hasp__Mode)c->mode;
    message.slots = c->slots;
    message.is_waiting = c->is_waiting;
    message.wait_ms = c->wait_ms;
    message.is_barging = c->is_barging;
    message.value = data_of(c->value);
    message.delay_ms = c->delay_ms;
    message.hold_ms = c->hold_ms;
    command.acquire = &message;
    put(out, HASP__COMMAND__OP_ACQUIRE, &command);
}

void encode_release(struct buffer *out, const struct release_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Release message = HASP__RELEASE__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    ProtobufCBinaryData names[MULTI_COUNT_MAX];
    data_of_names(names, c->names, c->name_count);
    message.origin = &from;
    message.n_names = c->name_count;
    message.names = names;
    message.token = c->token;
    message.is_counting = c->is_counting;
    command.release = &message;
    put(out, HASP__COMMAND__OP_RELEASE, &command);
}

void encode_release_if(struct buffer *out, const struct release_if_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__ReleaseIf message = HASP__RELEASE_IF__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    message.origin = &from;
    message.name = data_of(c->name);
    message.session = c->session;
    message.owner = data_of(c->owner);
    message.token = c->token;
    command.release_if = &message;
    put(out, HASP__COMMAND__OP_RELEASE_IF, &command);
}

void encode_convert(struct buffer *out, const struct convert_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Convert message = HASP__CONVERT__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    message.origin = &from;
    message.name = data_of(c->name);
    message.to = (Hasp__Mode)c->to;
    message.is_waiting = c->is_waiting;
    message.wait_ms = c->wait_ms;
    command.convert = &message;
    put(out, HASP__COMMAND__OP_CONVERT, &command);
}

void encode_cancel(struct buffer *out, const struct origin *origin,
                   struct bytes name)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Cancel message = HASP__CANCEL__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    message.name = data_of(name);
    command.cancel = &message;
    put(out, HASP__COMMAND__OP_CANCEL, &command);
}

void encode_please(struct buffer *out, const struct origin *origin,
                   struct bytes name, struct bytes text)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__Please message = HASP__PLEASE__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    message.name = data_of(name);
    message.message = data_of(text);
    command.please = &message;
    put(out, HASP__COMMAND__OP_PLEASE, &command);
}

void encode_wait_over(struct buffer *out, const struct wait_key *wait)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__WaitTimeout message = HASP__WAIT_TIMEOUT__INIT;
    message.session = wait->session;
    message.owner = data_of(wait->owner);
    message.wait_index = wait->wait_index;
    message.asked_index = wait->asked_index;
    command.wait_timeout = &message;
    put(out, HASP__COMMAND__OP_WAIT_TIMEOUT, &command);
}

void encode_delay_over(struct buffer *out, struct bytes name,
                       uint64_t since_index)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__DelayOver message = HASP__DELAY_OVER__INIT;
    message.name = data_of(name);
    message.since_index = since_index;
    command.delay_over = &message;
    put(out, HASP__COMMAND__OP_DELAY_OVER, &command);
}

void encode_hold_over(struct buffer *out, const struct hold_key *hold)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__HoldOver message = HASP__HOLD_OVER__INIT;
    message.name = data_of(hold->name);
    message.session = hold->session;
    message.owner = data_of(hold->owner);
    message.token = hold->token;
    command.hold_over = &message;
    put(out, HASP__COMMAND__OP_HOLD_OVER, &command);
}

void encode_blacklist_over(struct buffer *out, uint64_t since_index)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__BlacklistOver message = HASP__BLACKLIST_OVER__INIT;
    message.since_index = since_index;
    command.blacklist_over = &message;
    put(out, HASP__COMMAND__OP_BLACKLIST_OVER, &command);
}

void encode_blacklist_add(struct buffer *out, const struct blacklist_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__BlacklistAdd message = HASP__BLACKLIST_ADD__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    message.origin = &from;
    message.session = c->session;
    message.client = data_of(c->client);
    message.reason = data_of(c->reason);
    message.by = data_of(c->by);
    message.for_ms = c->for_ms;
    command.blacklist_add = &message;
    put(out, HASP__COMMAND__OP_BLACKLIST_ADD, &command);
}

void encode_blacklist_remove(struct buffer *out,
                             const struct blacklist_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__BlacklistRemove message = HASP__BLACKLIST_REMOVE__INIT;
    Hasp__Origin from = origin_of(&c->origin);
    message.origin = &from;
    message.session = c->session;
    message.client = data_of(c->client);
    command.blacklist_remove = &message;
    put(out, HASP__COMMAND__OP_BLACKLIST_REMOVE, &command);
}

void encode_fence_admit(struct buffer *out, const struct origin *origin,
                        struct bytes resource, uint64_t token)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__FenceAdmit message = HASP__FENCE_ADMIT__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    message.resource = data_of(resource);
    message.token = token;
    command.fence_admit = &message;
    put(out, HASP__COMMAND__OP_FENCE_ADMIT, &command);
}

void encode_fence_remove(struct buffer *out, const struct origin *origin,
                         struct bytes resource)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__FenceRemove message = HASP__FENCE_REMOVE__INIT;
    Hasp__Origin from = origin_of(origin);
    message.origin = &from;
    message.resource = data_of(resource);
    command.fence_remove = &message;
    put(out, HASP__COMMAND__OP_FENCE_REMOVE, &command);
}

void encode_redis_set(struct buffer *out, const struct redis_set_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__RedisSet message = HASP__REDIS_SET__INIT;
    message.name = data_of(c->name);
    message.value = data_of(c->value);
    message.ttl_ms = c->ttl_ms;
    message.px_ms = c->px_ms;
    message.client = data_of(c->client);
    message.address = data_of(c->address);
    command.redis_set = &message;
    put(out, HASP__COMMAND__OP_REDIS_SET, &command);
}

void encode_redis_delete(struct buffer *out, struct bytes name,
                         struct bytes value)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__RedisDelete message = HASP__REDIS_DELETE__INIT;
    message.name = data_of(name);
    message.value = data_of(value);
    command.redis_delete = &message;
    put(out, HASP__COMMAND__OP_REDIS_DELETE, &command);
}

void encode_redis_expire(struct buffer *out,
                         const struct redis_expire_command *c)
{
    Hasp__Command command = HASP__COMMAND__INIT;
    Hasp__RedisExpire message = HASP__REDIS_EXPIRE__INIT;
    message.name = data_of(c->name);
    message.value = data_of(c->value);
    message.any_value = c->any_value;
    message.ttl_ms = c->ttl_ms;
    message.px_ms = c->px_ms;
    command.redis_expire = &message;
    put(out, HASP__COMMAND__OP_REDIS_EXPIRE, &command);
}
