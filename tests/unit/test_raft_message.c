/* SPDX-License-Identifier: MIT */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <raft.h>

#include "base/prng.h"
#include "raft/members.h"
#include "raft/message.h"

static void make_members(struct replica_members *members, uint32_t count)
{
    *members = (struct replica_members){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        members->member[i].id = UINT64_C(1000000007) * (i + 1);
        members->member[i].incarnation = UINT64_MAX - i;
        members->member[i].role = (enum member_role)(i % 3);
        snprintf(members->member[i].address, MEMBER_ADDRESS_SIZE,
                 "10.0.0.%u:7421,10.0.0.%u:7420", i, i);
    }
    members->member[0].role = MEMBER_VOTER;
}

static void check_again(const struct message *message)
{
    struct buffer first = {0};
    struct buffer second = {0};
    struct message decoded;
    struct replica_entry entries[16];
    message_encode(message, &first);
    assert_int_equal(message_decode(buffer_bytes(&first), &decoded), 0);
    assert_int_equal(decoded.kind, message->kind);
    assert_int_equal(decoded.term, message->term);
    if (decoded.kind == MESSAGE_APPEND) {
        assert_true(decoded.append.count <= 16);
        message_entries(&decoded.append, entries);
        decoded.append.entries = entries;
        for (uint32_t i = 0; i < decoded.append.count; i++) {
            assert_int_equal(entries[i].log_index,
                             message->append.prev_index + 1 + i);
            assert_int_equal(entries[i].term, message->append.entries[i].term);
            assert_int_equal(entries[i].type, message->append.entries[i].type);
            assert_true(
                bytes_equal(entries[i].body, message->append.entries[i].body));
        }
    }
    message_encode(&decoded, &second);
    assert_true(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    /* No prefix and no extension of it decodes. */
    for (size_t size = 0; size < first.size; size++) {
        assert_int_equal(message_decode(bytes_of(first.data, size), &decoded),
                         HASP_EPROTO);
    }
    buffer_put_u8(&first, 0);
    assert_int_equal(message_decode(buffer_bytes(&first), &decoded),
                     HASP_EPROTO);
    buffer_done(&first);
    buffer_done(&second);
}

static void every_kind_comes_back_as_it_was(void **state)
{
    struct replica_members members;
    struct buffer encoded = {0};
    (void)state;
    make_members(&members, 5);
    replica_members_encode(&members, &encoded);
    struct replica_entry entries[4] = {
        {.term = 1, .type = ENTRY_CHANGE, .body = buffer_bytes(&encoded)},
        {.term = 1, .type = ENTRY_COMMAND, .body = BYTES_LITERAL("acquire a")},
        {.term = 5, .type = ENTRY_COMMAND, .body = {NULL, 0}},
        {.term = 9, .type = ENTRY_BARRIER, .body = BYTES_LITERAL("12345678")},
    };
    struct message m = {.kind = MESSAGE_APPEND, .term = 9};
    m.append.commit_index = 77;
    m.append.count = 4;
    m.append.entries = entries;
    check_again(&m);
    m.append.prev_index = 3;
    m.append.prev_term = 1;
    check_again(&m);
    m.append.count = 0;
    m.append.prev_term = 9;
    check_again(&m);
    m = (struct message){.kind = MESSAGE_APPEND_RESULT, .term = 3};
    m.append_result.rejected_index = 4;
    m.append_result.last_index = MESSAGE_NUMBER_MAX;
    check_again(&m);
    for (int flags = 0; flags < 4; flags++) {
        m = (struct message){.kind = MESSAGE_VOTE, .term = 3};
        m.vote.candidate = UINT64_MAX;
        m.vote.last_index = 8;
        m.vote.last_term = 2;
        m.vote.is_disrupting = (flags & 1) != 0;
        m.vote.is_pre_vote = (flags & 2) != 0;
        check_again(&m);
        m = (struct message){.kind = MESSAGE_VOTE_RESULT, .term = 3};
        m.vote_result.is_granted = (flags & 1) != 0;
        m.vote_result.is_pre_vote = (flags & 2) != 0;
        check_again(&m);
    }
    m = (struct message){.kind = MESSAGE_TIMEOUT_NOW, .term = 3};
    m.timeout_now.last_index = 8;
    m.timeout_now.last_term = 2;
    check_again(&m);
    m = (struct message){.kind = MESSAGE_CONFIRM, .term = 3, .number = 12};
    check_again(&m);
    m.kind = MESSAGE_CONFIRMED;
    check_again(&m);
    buffer_done(&encoded);
}

static void expect_refused(const struct message *message)
{
    struct buffer encoded = {0};
    struct message decoded;
    message_encode(message, &encoded);
    assert_int_equal(message_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    buffer_done(&encoded);
}

static void appends_that_cannot_be_true_are_refused(void **state)
{
    struct replica_entry entries[2] = {
        {.term = 4, .type = ENTRY_COMMAND, .body = BYTES_LITERAL("a")},
        {.term = 4, .type = ENTRY_COMMAND, .body = BYTES_LITERAL("b")},
    };
    struct message good = {.kind = MESSAGE_APPEND, .term = 4};
    (void)state;
    good.append.prev_index = 5;
    good.append.prev_term = 3;
    good.append.count = 2;
    good.append.entries = entries;
    check_again(&good);
    struct message bad = good;
    bad.term = 3; /* Entries of a later term than the leader's. */
    expect_refused(&bad);
    bad = good;
    bad.append.prev_term = 0;
    expect_refused(&bad);
    bad.append.prev_term = 5;
    expect_refused(&bad);
    bad = good;
    bad.append.prev_index = 0;
    bad.append.prev_term = 0;
    expect_refused(&bad); /* The first entry is a configuration. */
    bad = good;
    bad.append.prev_index = MESSAGE_NUMBER_MAX + 1;
    expect_refused(&bad);
    entries[1].term = 3; /* Terms go back. */
    expect_refused(&good);
    entries[1].term = 0;
    expect_refused(&good);
    entries[1].term = 4;
    entries[1].type = ENTRY_CHANGE; /* "b" is not a configuration. */
    expect_refused(&good);
    entries[1].type = (enum replica_entry_type)4;
    expect_refused(&good);
    entries[1].type = ENTRY_COMMAND;
    uint8_t *big = calloc(1, REPLICA_ENTRY_SIZE_MAX + 1);
    entries[1].body = bytes_of(big, REPLICA_ENTRY_SIZE_MAX + 1);
    expect_refused(&good);
    free(big);
    struct message nothing = {.kind = MESSAGE_CONFIRM, .term = 0};
    expect_refused(&nothing);
}

static void a_count_is_checked_before_it_is_used(void **state)
{
    struct message m = {.kind = MESSAGE_APPEND, .term = 4};
    struct buffer encoded = {0};
    struct message decoded;
    (void)state;
    m.append.prev_index = 5;
    m.append.prev_term = 3;
    message_encode(&m, &encoded);
    for (uint32_t shift = 0; shift < 32; shift++) {
        store_u32(encoded.data + 34, UINT32_C(1) << shift);
        assert_int_equal(message_decode(buffer_bytes(&encoded), &decoded),
                         HASP_EPROTO);
    }
    buffer_done(&encoded);
}

/* --- Configurations ------------------------------------------------------- */

static void libraft_decodes_configurations(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MEMBER_COUNT_MAX; count++) {
        struct replica_members members, again;
        struct raft_configuration core;
        struct raft_buffer theirs;
        struct buffer ours = {0};
        make_members(&members, count);
        replica_members_encode(&members, &ours);
        members_to_core(&members, &core);
        assert_int_equal(raft_configuration_encode(&core, &theirs), 0);
        /* The incarnations follow what libraft writes. */
        assert_int_equal(ours.size, theirs.len + 8 * (size_t)count);
        assert_memory_equal(ours.data, theirs.base, theirs.len);
        raft_configuration_close(&core);
        raft_free(theirs.base);
        theirs = (struct raft_buffer){.base = ours.data, .len = ours.size};
        assert_int_equal(raft_configuration_decode(&theirs, &core), 0);
        assert_int_equal(core.n, count);
        assert_int_equal(replica_members_decode(buffer_bytes(&ours), &again),
                         0);
        assert_int_equal(again.count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(again.member[i].id, members.member[i].id);
            assert_int_equal(again.member[i].incarnation,
                             members.member[i].incarnation);
            assert_int_equal(again.member[i].role, members.member[i].role);
            assert_string_equal(again.member[i].address,
                                members.member[i].address);
        }
        raft_configuration_close(&core);
        buffer_done(&ours);
    }
}

static int decode_changed(const struct buffer *encoded, size_t at,
                          uint8_t value)
{
    struct replica_members members;
    uint8_t before = encoded->data[at];
    encoded->data[at] = value;
    int error = replica_members_decode(buffer_bytes(encoded), &members);
    encoded->data[at] = before;
    return error;
}

static void
configurations_that_the_core_would_not_take_are_refused(void **state)
{
    struct replica_members members, decoded;
    struct buffer encoded = {0};
    (void)state;
    make_members(&members, 2);
    replica_members_encode(&members, &encoded);
    assert_int_equal(decode_changed(&encoded, 0, 1), 0);
    assert_int_equal(decode_changed(&encoded, 0, 2), HASP_EPROTO);
    assert_int_equal(decode_changed(&encoded, 1, 0), HASP_EPROTO);
    assert_int_equal(decode_changed(&encoded, 1, 1), HASP_EPROTO);
    assert_int_equal(decode_changed(&encoded, 1, 3), HASP_EPROTO);
    assert_int_equal(decode_changed(&encoded, 8, 0xff), HASP_EPROTO);
    for (size_t size = 0; size < encoded.size; size++) {
        assert_int_equal(
            replica_members_decode(bytes_of(encoded.data, size), &decoded),
            HASP_EPROTO);
    }
    buffer_put_u64(&encoded, 0); /* More than necessary. */
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    members.member[1].id = members.member[0].id;
    buffer_clear(&encoded);
    replica_members_encode(&members, &encoded);
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    make_members(&members, 2);
    members.member[1].incarnation = members.member[0].incarnation;
    buffer_clear(&encoded);
    replica_members_encode(&members, &encoded);
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    make_members(&members, 2);
    buffer_clear(&encoded);
    replica_members_encode(&members, &encoded);
    memset(encoded.data + encoded.size - 8, 0, 8); /* Any node's directory. */
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    make_members(&members, 2);
    memcpy(members.member[1].address, members.member[0].address,
           MEMBER_ADDRESS_SIZE);
    buffer_clear(&encoded);
    replica_members_encode(&members, &encoded);
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    make_members(&members, 2);
    members.member[0].role = MEMBER_STANDBY; /* There is no voter. */
    members.member[1].role = MEMBER_SPARE;
    buffer_clear(&encoded);
    replica_members_encode(&members, &encoded);
    assert_int_equal(replica_members_decode(buffer_bytes(&encoded), &decoded),
                     HASP_EPROTO);
    buffer_done(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(appends_that_cannot_be_true_are_refused),
        cmocka_unit_test(a_count_is_checked_before_it_is_used),
        cmocka_unit_test(libraft_decodes_configurations),
        cmocka_unit_test(
            configurations_that_the_core_would_not_take_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
