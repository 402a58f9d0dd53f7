/* SPDX-License-Identifier: MIT */

/* A bounded run of tests/fuzz/fuzz_cluster.c: three cores and eight clients, by
 * seeds. DRAWN_FIRST and DRAWN_SEEDS choose others. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"
#include "tests/unit/drawn.h"
#include "tests/unit/drawn_cluster.h"
#include "tests/unit/drawn_http.h"
#include "tests/unit/drawn_requests.h"

#define SEEDS 60
#define STEPS 600

static uint32_t below(void *data, uint32_t bound)
{
    return drawn_below(data, bound);
}

static bool goes_on(void *data)
{
    (void)data;
    return true;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void nothing_that_clients_send_ends_a_node(void **state)
{
    (void)state;
    struct drawn_count count = {0};
    uint64_t first = setting("DRAWN_FIRST", 1);
    uint64_t seeds = setting("DRAWN_SEEDS", SEEDS);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct drawn drawn = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)};
        struct choice choice = {below, &drawn, 0};
        fprintf(stderr, "\rseed %d", (int)seed);
        drawn_cluster(&choice, STEPS, goes_on, &count);
    }
    fprintf(stderr,
            "\r%d seeds: requests %d, scripts %d, http %d, errors %d, "
            "leaders %d\n",
            (int)seeds, (int)count.requests, (int)count.scripts,
            (int)count.http, (int)count.errors, (int)count.leaders);
    assert_true(count.requests > 100 * seeds);
    assert_true(count.http > 10 * seeds);
    assert_true(seeds < 10 || count.leaders > seeds);
    assert_true(count.errors < count.requests);
}

/* --- What a peer says of its clients ---------------------------------------
 */

static struct drawn_request request;

static struct bytes body_of(const struct buffer *frame)
{
    return bytes_of(frame->data + FRAME_HEADER_SIZE,
                    frame->size - FRAME_HEADER_SIZE);
}

/* Any words, for any session and user, in any number: the asking node has
 * checked them by a table that may differ. */
static void put_forward(const struct choice *choice, uint64_t term,
                        const struct drawn_heard *heard, struct buffer *out)
{
    do { /* This node should remain the leader. */
        drawn_request(choice, heard, &request);
    } while (bytes_has_prefix(request.word[0], BYTES_LITERAL("RAFT.")) ||
             bytes_is_word(request.word[0], "LIMITS.SET"));
    uint32_t cut = drawn_below(choice->data, 3) == 0
                       ? drawn_below(choice->data, request.count)
                       : 0;
    struct frame_forward forward = {
        .term = term,
        .conn = drawn_below(choice->data, 3),
        .slot = drawn_below(choice->data, 3),
        .session = heard->number[drawn_below(choice->data, 2)],
        .sending = drawn_below(choice->data, 3),
        .user = 1 + drawn_below(choice->data, 4),
        .version = (uint8_t)(2 + drawn_below(choice->data, 2)),
        .may_be_done = drawn_below(choice->data, 2) == 0,
        .argument = request.word,
        .count = request.count - cut};
    frame_put_forward(out, &forward);
}

static void put_answer(const struct choice *choice, struct buffer *out)
{
    static const char *const replies[] = {"+OK\r\n", "-BUSY x\r\n", "", "-",
                                          "\x01\xff"};
    struct frame_answer answer = {
        .conn = 1,
        .slot = drawn_below(choice->data, 4),
        .sending = drawn_below(choice->data, 3),
        .kind = (enum frame_answer_kind)drawn_below(choice->data, 7),
        .session = drawn_below(choice->data, 3),
        .word = (uint8_t)drawn_below(choice->data, 256),
        .has_changed = drawn_below(choice->data, 2) == 0,
        .reply = bytes_of_text(replies[drawn_below(choice->data, 5)])};
    frame_put_answer(out, &answer);
}

static void receive(uint64_t node, uint64_t from, enum frame_type type,
                    struct buffer *frame)
{
    struct world_node *at = &world->node[node];
    int error = core_peer_frame(at->core, from, type, body_of(frame),
                                node_now(at), world_why);
    /* Whether the frame is valid or not, at most the link ends. */
    assert_true(error <= 0);
    buffer_clear(frame);
}

static void nothing_that_a_peer_says_of_clients_ends_a_node(void **state)
{
    struct drawn drawn = {.state = 5};
    struct choice choice = {below, &drawn, 0};
    struct buffer frame = {0};
    struct drawn_heard heard = {.next = 0};
    begin_three(state);
    client_open(world, leader, 2);
    client_open(world, follower, 1);
    heard.number[1] = client_session(world, leader, 2, "TTL 60000").id;
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].may_fail = true;
    }
    for (int i = 0; i < 6000 && world->node[leader].fatal_code == 0; i++) {
        uint64_t term = replica_term(core_replica(world->node[leader].core));
        put_forward(&choice, term, &heard, &frame);
        receive(leader, follower, FRAME_FORWARD, &frame);
        if (i % 4 == 0) {
            client_send(world, follower, 1, "SET k v PX 5000");
            put_answer(&choice, &frame);
            receive(follower, leader, FRAME_ANSWER, &frame);
        }
        if (i % 8 == 0) {
            world_run(world, 2);
        }
        if (i % 16 == 0) {
            client_close(world, follower, 1);
            client_open(world, follower, 1);
        }
    }
    assert_int_equal(world_leader(world), leader);
    buffer_done(&frame);
    tear_down(state);
}

/* How large an answer is depends on the state. */
static void an_answer_that_no_frame_can_carry_is_refused(void **state)
{
    char value[1200];
    (void)state;
    world = world_new(3);
    world->limits.reply_size = 1000;
    world_found(world);
    find_roles();
    world_run(world, 100);
    client_open(world, leader, 1);
    client_open(world, follower, 1);
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    assert_answer(world, follower, 1, "+OK\r\n", "SET k %s NX PX 60000", value);
    assert_memory_equal(client_ask(world, follower, 1, "GET k"),
                        "-LIMIT the answer is too large", 30);
    assert_memory_equal(client_ask(world, leader, 1, "GET k"), "$1199", 5);
    /* A request that changed something is not refused. */
    const char *text = client_ask(world, follower, 1,
                                  "SET k %s IFEQ %s GET PX 60000", "w", value);
    assert_memory_equal(text, "-UNKNOWN the request took effect", 32);
    assert_answer(world, follower, 1, "$1\r\nw\r\n", "GET k");
    tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_a_peer_says_of_clients_ends_a_node),
        cmocka_unit_test(an_answer_that_no_frame_can_carry_is_refused),
        cmocka_unit_test(nothing_that_clients_send_ends_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
