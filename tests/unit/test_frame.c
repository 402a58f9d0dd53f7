/* SPDX-License-Identifier: MIT */

/* Peer frames: there and back, at every length, and false claims of unknown
 * peers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "net/frame.h"

/* Takes the only frame from 'out'. */
static struct bytes only_frame(const struct buffer *out, enum frame_type type)
{
    enum frame_type got;
    struct bytes body;
    size_t used;
    assert_int_equal(
        frame_parse(buffer_bytes(out), FRAME_SIZE_MAX, &got, &body, &used), 0);
    assert_int_equal(got, type);
    assert_int_equal(used, out->size);
    return body;
}

static void a_frame_is_cut_at_its_end_only(void **state)
{
    (void)state;
    struct buffer out = {0};
    frame_put_u64(&out, FRAME_PING, 0x1122334455667788);
    size_t first = out.size;
    frame_put_u64(&out, FRAME_PONG, 7);
    enum frame_type type = 0;
    struct bytes body = {0};
    size_t used = 0;
    for (size_t size = 0; size < first; size++) {
        uint8_t *copy = memory_copy(out.data, size);
        assert_int_equal(frame_parse(bytes_of(copy, size), FRAME_SIZE_MAX,
                                     &type, &body, &used),
                         HASP_EMORE);
        free(copy);
    }
    assert_int_equal(used, 0);
    assert_int_equal(
        frame_parse(buffer_bytes(&out), FRAME_SIZE_MAX, &type, &body, &used),
        0);
    assert_int_equal(type, FRAME_PING);
    assert_int_equal(used, first);
    uint64_t value = 0;
    assert_int_equal(frame_get_u64(body, &value), 0);
    assert_int_equal(value, 0x1122334455667788);
    buffer_done(&out);
}

static int parse_header(uint32_t size, uint8_t type, uint8_t reserved_at,
                        uint32_t size_max)
{
    uint8_t header[FRAME_HEADER_SIZE] = {0};
    enum frame_type got;
    struct bytes body;
    size_t used;
    store_u32(header, size);
    header[4] = type;
    if (reserved_at > 0) {
        header[reserved_at] = 1;
    }
    return frame_parse(bytes_of(header, sizeof header), size_max, &got, &body,
                       &used);
}

static void a_header_is_refused_before_its_body_comes(void **state)
{
    (void)state;
    assert_int_equal(parse_header(1, 0, 0, 100), HASP_EPROTO);
    assert_int_equal(parse_header(1, FRAME_TYPE_END, 0, 100), HASP_EPROTO);
    assert_int_equal(parse_header(1, 255, 0, 100), HASP_EPROTO);
    for (uint8_t at = 5; at < 8; at++) {
        assert_int_equal(parse_header(1, FRAME_RAFT, at, 100), HASP_EPROTO);
    }
    assert_int_equal(parse_header(100, FRAME_RAFT, 0, 100), HASP_EMORE);
    assert_int_equal(parse_header(101, FRAME_RAFT, 0, 100), HASP_ETOOBIG);
    assert_int_equal(parse_header(UINT32_MAX, FRAME_RAFT, 0, UINT32_MAX),
                     HASP_ETOOBIG);
    assert_int_equal(
        parse_header(FRAME_SIZE_MAX + 1, FRAME_RAFT, 0, UINT32_MAX),
        HASP_ETOOBIG);
    assert_int_equal(parse_header(0, FRAME_RAFT, 0, 0), 0);
}

static void assert_same_hello(const struct frame_hello *a,
                              const struct frame_hello *b)
{
    assert_memory_equal(&a->versions, &b->versions, sizeof a->versions);
    assert_int_equal(a->feature_level, b->feature_level);
    assert_int_equal(a->cluster_level, b->cluster_level);
    assert_memory_equal(a->cluster_id, b->cluster_id, CLUSTER_ID_SIZE);
    assert_true(a->from == b->from && a->to == b->to);
    assert_true(a->incarnation == b->incarnation);
    assert_true(a->applied_index == b->applied_index);
    assert_true(a->members_index == b->members_index);
    assert_true(a->term == b->term && a->last_index == b->last_index);
    assert_memory_equal(&a->terms, &b->terms, sizeof a->terms);
    assert_true(a->is_marked == b->is_marked);
}

static void hello_comes_back_and_may_be_longer(void **state)
{
    (void)state;
    struct frame_hello hello = {.versions = {1, 2},
                                .feature_level = 3,
                                .cluster_level = 2,
                                .cluster_id = {1, 2, 3, [15] = 9},
                                .from = 2,
                                .to = UINT64_MAX,
                                .incarnation = 0x0102030405060708,
                                .applied_index = 77,
                                .members_index = 50,
                                .term = 6,
                                .last_index = 80,
                                .is_marked = true,
                                .terms = {.limit = {5, UINT64_MAX},
                                          .limit_count = FRAME_LIMIT_MAX,
                                          .members = {7, [15] = 8}}};
    struct frame_hello got = {0};
    struct buffer out = {0};
    memset(hello.terms.name, 'n', sizeof hello.terms.name - 1);
    frame_put_hello(&out, &hello);
    struct bytes body = only_frame(&out, FRAME_HELLO);
    assert_true(body.size <= FRAME_HELLO_SIZE_MAX);
    assert_int_equal(frame_get_hello(body, &got), 0);
    assert_same_hello(&got, &hello);
    for (size_t size = 0; size < body.size; size++) {
        assert_int_equal(frame_get_hello(bytes_of(body.data, size), &got),
                         HASP_EPROTO);
    }
    buffer_put_text(&out, "what a later version may add");
    frame_end(&out, 0);
    assert_int_equal(frame_get_hello(only_frame(&out, FRAME_HELLO), &got), 0);
    assert_same_hello(&got, &hello);
    uint8_t *count = out.data + FRAME_HEADER_SIZE + 96;
    assert_int_equal(*count, FRAME_LIMIT_MAX);
    (*count)++;
    assert_int_equal(frame_get_hello(only_frame(&out, FRAME_HELLO), &got),
                     HASP_EPROTO);
    buffer_done(&out);
}

/* From a HELLO in another layout only the common part is used. */
/* For any name of the cluster: a connection that begins like this is TLS. */
static void no_hello_begins_as_tls_does(void **state)
{
    (void)state;
    for (uint32_t limits = 0; limits <= FRAME_LIMIT_MAX; limits++) {
        for (size_t size = 0; size < FRAME_NAME_SIZE; size++) {
            struct buffer out = {0};
            struct frame_hello got, hello = {.versions = {1, 1},
                                             .from = 2,
                                             .to = 1,
                                             .terms.limit_count = limits};
            memset(hello.terms.name, 'n', size);
            frame_put_hello(&out, &hello);
            assert_int_not_equal(out.data[0], 0x16);
            assert_int_equal(
                frame_get_hello(only_frame(&out, FRAME_HELLO), &got), 0);
            assert_same_hello(&got, &hello);
            buffer_done(&out);
        }
    }
}

static void a_hello_of_unknown_versions_names_its_sender(void **state)
{
    (void)state;
    struct frame_hello hello = {.versions = {7, 9}, .from = 2, .to = 1};
    struct frame_hello got = {0};
    struct buffer out = {0};
    size_t start = frame_begin(&out, FRAME_HELLO);
    buffer_put_u32(&out, 7);
    buffer_put_u32(&out, 9);
    buffer_put_u64(&out, 2);
    buffer_put_u64(&out, 1);
    frame_end(&out, start);
    assert_int_equal(frame_get_hello(only_frame(&out, FRAME_HELLO), &got), 0);
    assert_same_hello(&got, &hello);
    buffer_put_text(&out, "something that nobody knows here, of some length, "
                          "which is longer than what follows in our own ones");
    frame_end(&out, start);
    assert_int_equal(frame_get_hello(only_frame(&out, FRAME_HELLO), &got), 0);
    assert_same_hello(&got, &hello);
    buffer_done(&out);
}

static void the_highest_common_version_is_spoken(void **state)
{
    (void)state;
    static const struct {
        struct frame_versions one, other;
        uint32_t common;
    } cases[] = {{{1, 1}, {1, 1}, 1}, {{1, 2}, {1, 1}, 1}, {{1, 3}, {2, 5}, 3},
                 {{1, 2}, {2, 2}, 2}, {{1, 2}, {3, 4}, 0}, {{0, 0}, {1, 1}, 0},
                 {{5, 1}, {1, 9}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(frame_common_version(&cases[i].one, &cases[i].other),
                         cases[i].common);
        assert_int_equal(frame_common_version(&cases[i].other, &cases[i].one),
                         cases[i].common);
    }
    for (int type = FRAME_HELLO; type < FRAME_TYPE_END; type++) {
        uint32_t since = frame_since((enum frame_type)type);
        assert_true(since >= 1 && since <= FRAME_VERSION_NEWEST);
    }
}

static void nodes_that_greet_each_other_compare_their_levels(void **state)
{
    (void)state;
    struct frame_hello older = {.feature_level = 1, .cluster_level = 1};
    struct frame_hello newer = {.feature_level = 2, .cluster_level = 1};
    assert_int_equal(frame_compare_levels(&older, &newer), FRAME_FITS);
    assert_int_equal(frame_compare_levels(&newer, &older), FRAME_FITS);
    newer.cluster_level = 2;
    assert_int_equal(frame_compare_levels(&newer, &older), FRAME_OTHER_TOO_OLD);
    assert_int_equal(frame_compare_levels(&older, &newer), FRAME_SELF_TOO_OLD);
    older.feature_level = 2; /* Upgraded; it does not know the level yet. */
    assert_int_equal(frame_compare_levels(&newer, &older), FRAME_FITS);
    assert_int_equal(frame_compare_levels(&older, &newer), FRAME_FITS);
}

/* Cuts the body short at every length and lengthens it: neither is accepted. */
#define ASSERT_EXACT(body, get)                                 \
    do {                                                        \
        for (size_t size_ = 0; size_ < (body).size; size_++) {  \
            uint8_t *copy_ = memory_copy((body).data, size_);   \
            struct bytes part = bytes_of(copy_, size_);         \
            assert_int_equal(get, HASP_EPROTO);                 \
            free(copy_);                                        \
        }                                                       \
        uint8_t *longer_ = memory_new((body).size + 1);         \
        memcpy(longer_, (body).data, (body).size);              \
        struct bytes part = bytes_of(longer_, (body).size + 1); \
        assert_int_equal(get, HASP_EPROTO);                     \
        free(longer_);                                          \
    } while (0)

static void forward_comes_back(void **state)
{
    (void)state;
    struct bytes arguments[] = {BYTES_LITERAL("LOCK.ACQUIRE"),
                                BYTES_LITERAL(""), BYTES_LITERAL("a\0b")};
    struct bytes got_arguments[FRAME_ARGUMENT_MAX];
    struct frame_forward forward = {.term = 4,
                                    .conn = 5,
                                    .slot = 6,
                                    .session = 7,
                                    .user = 8,
                                    .secret = 9,
                                    .version = 3,
                                    .may_be_done = true,
                                    .address = BYTES_LITERAL("127.0.0.1:1"),
                                    .client = BYTES_LITERAL("web-3"),
                                    .argument = arguments,
                                    .count = 3};
    struct frame_forward got = {.argument = got_arguments};
    struct buffer out = {0};
    frame_put_forward(&out, &forward);
    struct bytes body = only_frame(&out, FRAME_FORWARD);
    assert_int_equal(frame_get_forward(body, &got), 0);
    assert_int_equal(got.term, 4);
    assert_int_equal(got.conn, 5);
    assert_int_equal(got.slot, 6);
    assert_int_equal(got.session, 7);
    assert_int_equal(got.user, 8);
    assert_int_equal(got.secret, 9);
    assert_int_equal(got.version, 3);
    assert_true(got.may_be_done);
    assert_true(bytes_equal(got.address, forward.address));
    assert_true(bytes_equal(got.client, forward.client));
    assert_int_equal(got.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(bytes_equal(got.argument[i], arguments[i]));
    }
    ASSERT_EXACT(body, frame_get_forward(part, &got));
    frame_stamp_forward(out.data, 9, false, forward.session, 2);
    assert_int_equal(frame_get_forward(body, &got), 0);
    assert_int_equal(got.term, 9);
    assert_false(got.may_be_done);
    assert_int_equal(got.conn, 5);
    assert_int_equal(got.session, 7);
    assert_int_equal(got.sending, 2);
    assert_int_equal(got.user, 8);
    buffer_done(&out);
}

/* The texts that were given may be overwritten then. */
static void a_kept_forward_borrows_from_its_bytes(void **state)
{
    (void)state;
    char name[] = "name", address[] = "127.0.0.1:1", client[] = "web-3";
    struct bytes given[] = {BYTES_LITERAL("LOCK.ACQUIRE"), bytes_of_text(name),
                            BYTES_LITERAL("")};
    struct bytes kept[3];
    struct bytes got_arguments[FRAME_ARGUMENT_MAX];
    struct frame_forward forward = {.version = 3,
                                    .address = bytes_of_text(address),
                                    .client = bytes_of_text(client),
                                    .argument = given,
                                    .count = 3};
    struct frame_forward got = {.argument = got_arguments};
    struct buffer out = {0}, again = {0};
    buffer_put_u8(&again, 7); /* Earlier bytes stay. */
    frame_put_forward(&out, &forward);
    frame_keep_forward(&again, &forward, kept);
    assert_int_equal(again.data[0], 7);
    assert_true(bytes_equal(bytes_of(again.data + 1, again.size - 1),
                            buffer_bytes(&out)));
    memset(name, 'x', sizeof name - 1);
    memset(address, 'x', sizeof address - 1);
    memset(client, 'x', sizeof client - 1);
    assert_ptr_equal(forward.argument, kept);
    assert_int_equal(frame_get_forward(only_frame(&out, FRAME_FORWARD), &got),
                     0);
    assert_true(bytes_equal(forward.address, got.address));
    assert_true(bytes_equal(forward.client, got.client));
    for (int i = 0; i < 3; i++) {
        assert_true(bytes_equal(kept[i], got.argument[i]));
    }
    buffer_done(&out);
    buffer_done(&again);
}

static void a_forward_with_a_wrong_field_is_refused(void **state)
{
    (void)state;
    struct bytes got_arguments[FRAME_ARGUMENT_MAX];
    struct frame_forward forward = {.version = 2};
    struct frame_forward got = {.argument = got_arguments};
    struct buffer out = {0};
    frame_put_forward(&out, &forward);
    struct bytes body = only_frame(&out, FRAME_FORWARD);
    uint8_t *bytes = out.data + FRAME_HEADER_SIZE;
    assert_int_equal(frame_get_forward(body, &got), 0);
    bytes[53] = 1; /* version */
    assert_int_equal(frame_get_forward(body, &got), HASP_EPROTO);
    bytes[53] = 2;
    bytes[8] = 2; /* may_be_done */
    assert_int_equal(frame_get_forward(body, &got), HASP_EPROTO);
    bytes[8] = 0;
    store_u32(bytes + body.size - 4, FRAME_ARGUMENT_MAX + 1);
    assert_int_equal(frame_get_forward(body, &got), HASP_EPROTO);
    store_u32(bytes + body.size - 4, UINT32_MAX);
    assert_int_equal(frame_get_forward(body, &got), HASP_EPROTO);
    store_u32(bytes + 54, UINT32_MAX); /* size of the address */
    assert_int_equal(frame_get_forward(body, &got), HASP_EPROTO);
    buffer_done(&out);
}

static void answer_comes_back(void **state)
{
    (void)state;
    struct buffer out = {0};
    for (int kind = ANSWER_REPLY; kind <= ANSWER_ALLOWED; kind++) {
        struct frame_answer answer = {.conn = 1,
                                      .slot = 2,
                                      .sending = 4,
                                      .kind = (enum frame_answer_kind)kind,
                                      .session = 3,
                                      .reply = BYTES_LITERAL(":42\r\n")};
        struct frame_answer got;
        buffer_clear(&out);
        frame_put_answer(&out, &answer);
        struct bytes body = only_frame(&out, FRAME_ANSWER);
        assert_int_equal(frame_get_answer(body, &got), 0);
        assert_int_equal(got.conn, 1);
        assert_int_equal(got.slot, 2);
        assert_int_equal(got.sending, 4);
        assert_int_equal(got.kind, kind);
        assert_int_equal(got.session, 3);
        assert_true(bytes_equal(got.reply, answer.reply));
        ASSERT_EXACT(body, frame_get_answer(part, &got));
        out.data[FRAME_HEADER_SIZE + 20] = ANSWER_ALLOWED + 1;
        assert_int_equal(frame_get_answer(body, &got), HASP_EPROTO);
    }
    buffer_done(&out);
}

static void closed_comes_back(void **state)
{
    (void)state;
    static uint64_t sessions[FRAME_SESSION_MAX];
    static uint64_t got[FRAME_SESSION_MAX];
    struct buffer out = {0};
    uint64_t conn;
    uint32_t count;
    bool is_quiet;
    for (uint32_t i = 0; i < FRAME_SESSION_MAX; i++) {
        sessions[i] = i * 0x100000001u;
    }
    static const uint32_t counts[] = {0, 1, 3, FRAME_SESSION_MAX};
    for (size_t i = 0; i < 4; i++) {
        buffer_clear(&out);
        frame_put_closed(&out, 9, i % 2 == 1, sessions, counts[i]);
        struct bytes body = only_frame(&out, FRAME_CLOSED);
        assert_int_equal(frame_get_closed(body, &conn, &is_quiet, got, &count),
                         0);
        assert_int_equal(conn, 9);
        assert_int_equal(is_quiet, i % 2 == 1);
        assert_int_equal(count, counts[i]);
        assert_memory_equal(got, sessions, counts[i] * sizeof *got);
    }
    struct bytes body = only_frame(&out, FRAME_CLOSED);
    store_u32(out.data + FRAME_HEADER_SIZE + 9, FRAME_SESSION_MAX + 1);
    assert_int_equal(frame_get_closed(body, &conn, &is_quiet, got, &count),
                     HASP_EPROTO);
    store_u32(out.data + FRAME_HEADER_SIZE + 9, FRAME_SESSION_MAX - 1);
    assert_int_equal(frame_get_closed(body, &conn, &is_quiet, got, &count),
                     HASP_EPROTO);
    buffer_done(&out);
}

static void snapshot_chunks_come_back_and_lie_inside_the_whole(void **state)
{
    (void)state;
    struct frame_snapshot chunk = {.leader_term = 1,
                                   .last_index = 2,
                                   .last_term = 3,
                                   .total_size = 14,
                                   .offset = 10,
                                   .chunk = BYTES_LITERAL("abcd")};
    struct frame_snapshot got;
    struct buffer out = {0};
    frame_put_snapshot(&out, &chunk);
    struct bytes body = only_frame(&out, FRAME_SNAPSHOT);
    assert_int_equal(frame_get_snapshot(body, &got), 0);
    assert_int_equal(got.leader_term, 1);
    assert_int_equal(got.last_index, 2);
    assert_int_equal(got.last_term, 3);
    assert_int_equal(got.total_size, 14);
    assert_int_equal(got.offset, 10);
    assert_true(bytes_equal(got.chunk, chunk.chunk));
    ASSERT_EXACT(body, frame_get_snapshot(part, &got));
    static const uint64_t outside[] = {11, 15, UINT64_MAX, UINT64_MAX - 3};
    for (size_t i = 0; i < 4; i++) {
        store_u64(out.data + FRAME_HEADER_SIZE + 32, outside[i]);
        assert_int_equal(frame_get_snapshot(body, &got), HASP_EPROTO);
    }
    buffer_done(&out);
}

static void snapshot_acks_come_back(void **state)
{
    (void)state;
    struct frame_snapshot_ack ack = {1, 2, 3, true};
    struct frame_snapshot_ack got;
    struct buffer out = {0};
    frame_put_snapshot_ack(&out, &ack);
    struct bytes body = only_frame(&out, FRAME_SNAPSHOT_ACK);
    assert_int_equal(frame_get_snapshot_ack(body, &got), 0);
    assert_int_equal(got.leader_term, 1);
    assert_int_equal(got.last_index, 2);
    assert_int_equal(got.offset, 3);
    assert_true(got.is_done);
    ASSERT_EXACT(body, frame_get_snapshot_ack(part, &got));
    out.data[FRAME_HEADER_SIZE + 24] = 2;
    assert_int_equal(frame_get_snapshot_ack(body, &got), HASP_EPROTO);
    buffer_done(&out);
}

/* Random bodies: an accepted frame must lie inside its input (the sanitizers
 * check) and encode to the same bytes. */
static void members_come_back(void **state)
{
    (void)state;
    struct frame_members members = {
        .log_index = UINT64_MAX, .id = {1, UINT64_MAX, 3}, .count = 3};
    struct frame_members got;
    struct buffer out = {0};
    frame_put_members(&out, &members);
    struct bytes body = only_frame(&out, FRAME_MEMBERS);
    assert_int_equal(frame_get_members(body, &got), 0);
    assert_memory_equal(&got, &members, sizeof members);
    ASSERT_EXACT(body, frame_get_members(part, &got));
    out.data[FRAME_HEADER_SIZE + 8] = FRAME_MEMBER_MAX + 1;
    assert_int_equal(frame_get_members(body, &got), HASP_EPROTO);
    buffer_done(&out);
}

static void refusals_come_back(void **state)
{
    (void)state;
    char long_text[600];
    enum frame_refusal refusal;
    struct bytes why;
    struct buffer out = {0};
    frame_put_refused(&out, REFUSAL_REMOVED, BYTES_LITERAL("by whom"));
    struct bytes body = only_frame(&out, FRAME_REFUSED);
    assert_int_equal(frame_get_refused(body, &refusal, &why), 0);
    assert_int_equal(refusal, REFUSAL_REMOVED);
    assert_true(bytes_equal(why, BYTES_LITERAL("by whom")));
    ASSERT_EXACT(body, frame_get_refused(part, &refusal, &why));
    out.data[FRAME_HEADER_SIZE] = REFUSAL_CROSSED + 1;
    assert_int_equal(frame_get_refused(body, &refusal, &why), HASP_EPROTO);
    /* It is a first frame: a longer one is cut. */
    buffer_clear(&out);
    memset(long_text, 'x', sizeof long_text);
    frame_put_refused(&out, REFUSAL_OTHER,
                      bytes_of(long_text, sizeof long_text));
    body = only_frame(&out, FRAME_REFUSED);
    assert_in_range(body.size, FRAME_REFUSED_SIZE_MAX, FRAME_HELLO_SIZE_MAX);
    assert_int_equal(frame_get_refused(body, &refusal, &why), 0);
    buffer_done(&out);
}

static void losses_come_back(void **state)
{
    (void)state;
    struct frame_lost lost = {UINT64_MAX, 2, 3, 4};
    struct frame_lost got;
    struct buffer out = {0};
    frame_put_lost(&out, FRAME_LOST, &lost);
    struct bytes body = only_frame(&out, FRAME_LOST);
    assert_int_equal(frame_get_lost(body, &got), 0);
    assert_memory_equal(&got, &lost, sizeof lost);
    ASSERT_EXACT(body, frame_get_lost(part, &got));
    buffer_done(&out);
}

static void random_forwards_are_refused_or_come_back_the_same(void **state)
{
    (void)state;
    struct prng prng = {99};
    struct buffer base = {0};
    struct bytes arguments[] = {BYTES_LITERAL("PING"), BYTES_LITERAL("x")};
    struct frame_forward forward = {
        .version = 2, .argument = arguments, .count = 2};
    frame_put_forward(&base, &forward);
    int accepted = 0;
    for (int round = 0; round < 20000; round++) {
        struct bytes got_arguments[FRAME_ARGUMENT_MAX];
        struct frame_forward got = {.argument = got_arguments};
        size_t size = base.size - FRAME_HEADER_SIZE;
        uint8_t *copy = memory_copy(base.data + FRAME_HEADER_SIZE, size);
        copy[prng_below(&prng, size)] = (uint8_t)prng_next(&prng);
        copy[prng_below(&prng, size)] = (uint8_t)prng_below(&prng, 4);
        if (frame_get_forward(bytes_of(copy, size), &got) == 0) {
            struct buffer again = {0};
            accepted++;
            frame_put_forward(&again, &got);
            assert_memory_equal(again.data + FRAME_HEADER_SIZE, copy, size);
            buffer_done(&again);
        }
        free(copy);
    }
    assert_in_range(accepted, 100, 19900);
    buffer_done(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_cut_at_its_end_only),
        cmocka_unit_test(a_header_is_refused_before_its_body_comes),
        cmocka_unit_test(hello_comes_back_and_may_be_longer),
        cmocka_unit_test(no_hello_begins_as_tls_does),
        cmocka_unit_test(a_hello_of_unknown_versions_names_its_sender),
        cmocka_unit_test(the_highest_common_version_is_spoken),
        cmocka_unit_test(nodes_that_greet_each_other_compare_their_levels),
        cmocka_unit_test(forward_comes_back),
        cmocka_unit_test(a_kept_forward_borrows_from_its_bytes),
        cmocka_unit_test(a_forward_with_a_wrong_field_is_refused),
        cmocka_unit_test(answer_comes_back),
        cmocka_unit_test(closed_comes_back),
        cmocka_unit_test(snapshot_chunks_come_back_and_lie_inside_the_whole),
        cmocka_unit_test(snapshot_acks_come_back),
        cmocka_unit_test(members_come_back),
        cmocka_unit_test(refusals_come_back),
        cmocka_unit_test(losses_come_back),
        cmocka_unit_test(random_forwards_are_refused_or_come_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
