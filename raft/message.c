/* SPDX-License-Identifier: MIT */

#include "raft/message.h"

#include "base/check.h"

#define ENTRY_HEAD_SIZE 13u
#define APPEND_HEAD_SIZE 28u

#define VOTE_DISRUPTING 1u
#define VOTE_PRE_VOTE 2u
#define VOTE_STANDING 4u
#define VOTE_GRANTED 1u

static void encode_append(const struct message_append *append,
                          struct buffer *out)
{
    size_t size = 0;
    for (uint32_t i = 0; i < append->count; i++) {
        size += append->entries[i].body.size;
    }
    buffer_reserve(out, APPEND_HEAD_SIZE +
                            (size_t)append->count * ENTRY_HEAD_SIZE + size);
    buffer_put_u64(out, append->prev_index);
    buffer_put_u64(out, append->prev_term);
    buffer_put_u64(out, append->commit_index);
    buffer_put_u32(out, append->count);
    for (uint32_t i = 0; i < append->count; i++) {
        const struct replica_entry *entry = &append->entries[i];
        buffer_put_u64(out, entry->term);
        buffer_put_u8(out, (uint8_t)entry->type);
        buffer_put_u32(out, (uint32_t)entry->body.size);
    }
    for (uint32_t i = 0; i < append->count; i++) {
        buffer_put_bytes(out, append->entries[i].body);
    }
}

void message_encode(const struct message *message, struct buffer *out)
{
    buffer_put_u8(out, (uint8_t)message->kind);
    /* The format: message_decode() refuses any other. */
    buffer_put_u8(out, 0);
    buffer_put_u64(out, message->term);
    switch (message->kind) {
    case MESSAGE_APPEND:
        encode_append(&message->append, out);
        break;
    case MESSAGE_APPEND_RESULT:
        buffer_put_u64(out, message->append_result.rejected_index);
        buffer_put_u64(out, message->append_result.last_index);
        break;
    case MESSAGE_VOTE:
        buffer_put_u64(out, message->vote.candidate);
        buffer_put_u64(out, message->vote.last_index);
        buffer_put_u64(out, message->vote.last_term);
        buffer_put_u8(out, (message->vote.is_disrupting ? VOTE_DISRUPTING : 0) |
                               (message->vote.is_pre_vote ? VOTE_PRE_VOTE : 0) |
                               (message->vote.is_standing ? VOTE_STANDING : 0));
        buffer_put_u32(out, message->vote.flush_ms);
        break;
    case MESSAGE_VOTE_RESULT:
        buffer_put_u8(
            out, (message->vote_result.is_granted ? VOTE_GRANTED : 0) |
                     (message->vote_result.is_pre_vote ? VOTE_PRE_VOTE : 0));
        buffer_put_u32(out, message->vote_result.flush_ms);
        break;
    case MESSAGE_TIMEOUT_NOW:
        buffer_put_u64(out, message->timeout_now.last_index);
        buffer_put_u64(out, message->timeout_now.last_term);
        break;
    case MESSAGE_CONFIRM:
    case MESSAGE_CONFIRMED:
        buffer_put_u64(out, message->number);
        break;
    default:
        UNREACHABLE();
    }
}

/* Reads a term or an index. */
static uint64_t message_read_number(struct reader *reader)
{
    uint64_t value = reader_u64(reader);
    if (value > MESSAGE_NUMBER_MAX) {
        reader->is_bad = true;
    }
    return value;
}

static bool decode_append(struct reader *reader,
                          struct message_append *ret_append)
{
    ret_append->prev_index = message_read_number(reader);
    ret_append->prev_term = message_read_number(reader);
    ret_append->commit_index = message_read_number(reader);
    ret_append->count = reader_u32(reader);
    if (!reader_ok(reader, false) ||
        ret_append->count > reader_left(reader) / ENTRY_HEAD_SIZE) {
        return false;
    }
    ret_append->heads = reader_bytes(reader, (size_t)ret_append->count *
                                                 ENTRY_HEAD_SIZE);
    ret_append->bodies = reader_bytes(reader, reader_left(reader));
    return true;
}

/* True if sizes add up, terms do not decrease, types are known, and what claims
 * to be a configuration is one. The log's first entry is a configuration. */
static bool entries_are_sound(const struct message_append *append,
                              uint64_t term)
{
    struct reader heads = reader_of(append->heads);
    struct reader bodies = reader_of(append->bodies);
    uint64_t term_before = append->prev_term;
    if ((append->prev_index == 0) != (append->prev_term == 0) ||
        append->prev_term > term) {
        return false;
    }
    for (uint32_t i = 0; i < append->count; i++) {
        uint64_t entry_term = reader_u64(&heads);
        uint8_t type = reader_u8(&heads);
        uint32_t size = reader_u32(&heads);
        struct bytes body = reader_bytes(&bodies, size);
        struct replica_members members;
        /* The leader sends its own log: no term in it is above the leader's or
         * decreases. */
        if (size > REPLICA_ENTRY_SIZE_MAX || !reader_ok(&bodies, false) ||
            entry_term == 0 || entry_term < term_before || entry_term > term ||
            type < ENTRY_COMMAND || type > ENTRY_CHANGE) {
            return false;
        }
        if (type != ENTRY_CHANGE && append->prev_index + i == 0) {
            return false;
        }
        if (type == ENTRY_CHANGE &&
            replica_members_decode(body, &members) != 0) {
            return false;
        }
        term_before = entry_term;
    }
    return reader_ok(&heads, true) && reader_ok(&bodies, true);
}

static uint8_t read_flags(struct reader *reader, uint8_t known)
{
    uint8_t flags = reader_u8(reader);
    if ((flags & ~known) != 0) {
        reader->is_bad = true;
    }
    return flags;
}

int message_decode(struct bytes encoded, struct message *ret_message)
{
    struct message message = {0};
    struct reader reader = reader_of(encoded);
    uint8_t kind = reader_u8(&reader);
    uint8_t format = reader_u8(&reader);
    uint8_t flags;
    message.kind = (enum message_kind)kind;
    message.term = message_read_number(&reader);
    if (!reader_ok(&reader, false) || format != 0 || message.term == 0) {
        return HASP_EPROTO;
    }
    switch (message.kind) {
    case MESSAGE_APPEND:
        /* The core does not check entries: Debian builds it without assertions
         * (README). */
        if (!decode_append(&reader, &message.append) ||
            !entries_are_sound(&message.append, message.term)) {
            return HASP_EPROTO;
        }
        break;
    case MESSAGE_APPEND_RESULT:
        message.append_result.rejected_index = message_read_number(&reader);
        message.append_result.last_index = message_read_number(&reader);
        break;
    case MESSAGE_VOTE:
        message.vote.candidate = reader_u64(&reader);
        message.vote.last_index = message_read_number(&reader);
        message.vote.last_term = message_read_number(&reader);
        flags = read_flags(&reader,
                           VOTE_DISRUPTING | VOTE_PRE_VOTE | VOTE_STANDING);
        message.vote.is_disrupting = (flags & VOTE_DISRUPTING) != 0;
        message.vote.is_pre_vote = (flags & VOTE_PRE_VOTE) != 0;
        message.vote.is_standing = (flags & VOTE_STANDING) != 0;
        message.vote.flush_ms = reader_u32(&reader);
        break;
    case MESSAGE_VOTE_RESULT:
        flags = read_flags(&reader, VOTE_GRANTED | VOTE_PRE_VOTE);
        message.vote_result.is_granted = (flags & VOTE_GRANTED) != 0;
        message.vote_result.is_pre_vote = (flags & VOTE_PRE_VOTE) != 0;
        message.vote_result.flush_ms = reader_u32(&reader);
        break;
    case MESSAGE_TIMEOUT_NOW:
        message.timeout_now.last_index = message_read_number(&reader);
        message.timeout_now.last_term = message_read_number(&reader);
        break;
    case MESSAGE_CONFIRM:
    case MESSAGE_CONFIRMED:
        message.number = message_read_number(&reader);
        break;
    default:
        return HASP_EPROTO;
    }
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_message = message;
    return 0;
}

void message_entries(const struct message_append *append,
                     struct replica_entry *ret_entries)
{
    struct reader heads = reader_of(append->heads);
    struct reader bodies = reader_of(append->bodies);
    for (uint32_t i = 0; i < append->count; i++) {
        uint64_t term = reader_u64(&heads);
        uint8_t type = reader_u8(&heads);
        uint32_t size = reader_u32(&heads);
        ret_entries[i] = (struct replica_entry){
            .term = term,
            .log_index = append->prev_index + 1 + i,
            .type = (enum replica_entry_type)type,
            .body = reader_bytes(&bodies, size),
        };
    }
    CHECK(reader_ok(&heads, true) && reader_ok(&bodies, true));
}
