/* SPDX-License-Identifier: MIT */

#include "raft/members.h"

#include <raft.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define FORMAT 1u

_Static_assert((int)MEMBER_STANDBY == (int)RAFT_STANDBY, "as in libraft");

_Static_assert((int)MEMBER_VOTER == (int)RAFT_VOTER, "as in libraft");

_Static_assert((int)MEMBER_SPARE == (int)RAFT_SPARE, "as in libraft");

void replica_members_encode(const struct replica_members *members,
                            struct buffer *out)
{
    CHECK(members->count > 0 && members->count <= MEMBER_COUNT_MAX);
    size_t start = out->size;
    buffer_put_u8(out, FORMAT);
    buffer_put_u64(out, members->count);
    MEMBER_EACH (member, members) {
        /* 0 would name any directory. */
        CHECK(member->id > 0 && member->incarnation > 0);
        buffer_put_u64(out, member->id);
        buffer_put(out, member->address, strlen(member->address) + 1);
        buffer_put_u8(out, (uint8_t)member->role);
    }
    while ((out->size - start) % 8 != 0) {
        buffer_put_u8(out, 0);
    }
    MEMBER_EACH (member, members) {
        buffer_put_u64(out, member->incarnation);
    }
}

static bool read_member(struct reader *reader,
                        struct replica_member *ret_member)
{
    ret_member->id = reader_u64(reader);
    const uint8_t *start = reader->at;
    size_t left = reader_left(reader);
    const uint8_t *end = left == 0 ? NULL : memchr(start, 0, left);
    if (reader->is_bad || ret_member->id == 0 ||
        ret_member->id > REPLICA_ID_MAX || end == NULL ||
        (size_t)(end - start) >= MEMBER_ADDRESS_SIZE) {
        return false;
    }
    struct bytes address = reader_bytes(reader, (size_t)(end - start) + 1);
    memcpy(ret_member->address, address.data, address.size);
    uint8_t role = reader_u8(reader);
    ret_member->role = (enum member_role)role;
    return !reader->is_bad && role <= MEMBER_SPARE;
}

/* False if the id or an address is there already: the core refuses such a
 * configuration. */
static bool member_is_new(const struct replica_members *members,
                          const struct replica_member *member)
{
    MEMBER_EACH (other, members) {
        if (other->id == member->id ||
            strcmp(other->address, member->address) == 0) {
            return false;
        }
    }
    return true;
}

static bool skip_padding(struct reader *reader, struct bytes encoded)
{
    while (!reader->is_bad && (reader->at - encoded.data) % 8 != 0) {
        if (reader_u8(reader) != 0) {
            return false;
        }
    }
    return !reader->is_bad;
}

/* False if one is missing, is 0, or two members have the same. */
static bool read_incarnations(struct reader *reader,
                              struct replica_members *members)
{
    for (uint32_t i = 0; i < members->count; i++) {
        uint64_t incarnation = reader_u64(reader);
        if (reader->is_bad || incarnation == 0) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (members->member[j].incarnation == incarnation) {
                return false;
            }
        }
        members->member[i].incarnation = incarnation;
    }
    return reader_ok(reader, true);
}

int replica_members_decode(struct bytes encoded,
                           struct replica_members *ret_members)
{
    struct reader reader = reader_of(encoded);
    uint8_t format = reader_u8(&reader);
    uint64_t count = reader_u64(&reader);
    struct replica_members members = {0};
    if (!reader_ok(&reader, false) || format != FORMAT || count == 0 ||
        count > MEMBER_COUNT_MAX) {
        return HASP_EPROTO;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct replica_member *member = &members.member[members.count];
        /* The core refuses a configuration with duplicates, so none may enter
         * the log. */
        if (!read_member(&reader, member) || !member_is_new(&members, member)) {
            return HASP_EPROTO;
        }
        members.count++;
    }
    /* Without a voter no leader could be elected to change the configuration.
     */
    if (!skip_padding(&reader, encoded) ||
        !read_incarnations(&reader, &members) ||
        members_voter_count(&members) == 0) {
        return HASP_EPROTO;
    }
    *ret_members = members;
    return 0;
}

const struct replica_member *
replica_members_find(const struct replica_members *members, uint64_t id)
{
    MEMBER_EACH (member, members) {
        if (member->id == id) {
            return member;
        }
    }
    return NULL;
}

bool replica_members_name(const struct replica_members *members, uint64_t id,
                          uint64_t incarnation)
{
    const struct replica_member *member = replica_members_find(members, id);
    return member != NULL && member->incarnation == incarnation;
}

uint32_t members_voter_count(const struct replica_members *members)
{
    uint32_t count = 0;
    MEMBER_EACH (member, members) {
        count += member->role == MEMBER_VOTER ? 1 : 0;
    }
    return count;
}

void members_core_view(const struct replica_members *members, uint64_t id,
                       uint64_t incarnation, struct replica_members *ret_view)
{
    *ret_view = *members;
    for (uint32_t i = 0; i < ret_view->count; i++) {
        struct replica_member *member = &ret_view->member[i];
        if (member->id == id && member->incarnation != incarnation) {
            member->id = MEMBERS_FORMER_SELF;
        }
    }
}

void members_to_core(const struct replica_members *view,
                     struct raft_configuration *ret_configuration)
{
    raft_configuration_init(ret_configuration);
    MEMBER_EACH (member, view) {
        int rv = raft_configuration_add(ret_configuration, member->id,
                                        member->address, (int)member->role);
        CHECK(rv == 0);
    }
}

void members_history_done(struct members_history *history)
{
    free(history->records);
    *history = (struct members_history){0};
}

void members_history_clear(struct members_history *history)
{
    history->count = 0;
}

void members_history_put(struct members_history *history, uint64_t log_index,
                         const struct replica_members *members)
{
    CHECK(history->count == 0 ||
          history->records[history->count - 1].log_index < log_index);
    ROOM(history->records, history->capacity, history->count + 1);
    history->records[history->count++] = (struct members_record){
        .log_index = log_index, .members = *members};
}

void members_history_truncate(struct members_history *history,
                              uint64_t from_index)
{
    while (history->count > 0 &&
           history->records[history->count - 1].log_index >= from_index) {
        history->count--;
    }
}

void members_history_trim(struct members_history *history, uint64_t log_index)
{
    uint32_t gone = 0;
    while (gone + 1 < history->count &&
           history->records[gone + 1].log_index <= log_index) {
        gone++;
    }
    history->count -= gone;
    /* The newest record that holds at 'log_index' stays. */
    CHECK(gone == 0 || history->count > 0);
    memmove(history->records, history->records + gone,
            history->count * sizeof *history->records);
}

const struct members_record *
members_history_at(const struct members_history *history, uint64_t log_index)
{
    for (uint32_t i = history->count; i > 0; i--) {
        if (history->records[i - 1].log_index <= log_index) {
            return &history->records[i - 1];
        }
    }
    return NULL;
}
