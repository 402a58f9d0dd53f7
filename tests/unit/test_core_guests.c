/* SPDX-License-Identifier: MIT */

/* Guests: nodes that the log does not name. A member vouches for them
 * (core/members/admission.h); and what they may do. */

#include "raft/message.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define STRANGER 9

static void send_frame_from(uint64_t from, uint64_t id, enum frame_type type,
                            struct buffer *out)
{
    struct bytes body = bytes_of(out->data + FRAME_HEADER_SIZE,
                                 out->size - FRAME_HEADER_SIZE);
    assert_int_equal(core_peer_frame(world->node[id].core, from, type, body,
                                     world->now_ms * MS, world_why),
                     0);
    buffer_done(out);
}

/* 'from' tells node 'id' that it is a member as of that index. */
static void vouch(uint64_t from, uint64_t id, uint64_t log_index)
{
    struct frame_members members = {.log_index = log_index,
                                    .id = {1, STRANGER},
                                    .incarnation = {WORLD_DIRECTORY(1), 99},
                                    .count = 2};
    struct buffer out = {0};
    frame_put_members(&out, &members);
    send_frame_from(from, id, FRAME_MEMBERS, &out);
}

static struct frame_hello greeting_to(uint64_t id)
{
    struct frame_hello hello = {.from = STRANGER,
                                .to = id,
                                .feature_level = 1,
                                .incarnation = 99,
                                .applied_index = UINT64_C(1) << 50,
                                .members_index = UINT64_C(1) << 50,
                                .term = UINT64_C(1) << 50,
                                .last_index = UINT64_C(1) << 50};
    memcpy(hello.cluster_id, world->node[id].cluster_id, CLUSTER_ID_SIZE);
    return hello;
}

static void expect_refusal(uint64_t id, const struct frame_hello *hello,
                           const char *refusal)
{
    char why[HASP_WHY_SIZE];
    int error = core_check_peer(world->node[id].core, hello, why);
    assert_int_equal(error, HASP_ENOENT);
    if (strstr(why, refusal) == NULL) {
        fail_msg("refused with: %s", why);
    }
}

static void expect_welcome(uint64_t id, const struct frame_hello *hello)
{
    char why[HASP_WHY_SIZE];
    struct core *core = world->node[id].core;
    assert_int_equal(core_check_peer(core, hello, why), 0);
}

static void let_in(uint64_t id)
{
    struct frame_hello hello = greeting_to(id);
    expect_welcome(id, &hello);
    core_peer_up(world->node[id].core, &hello, world->now_ms * MS);
}

/* A member has named it, truthfully or not. */
static void greet(uint64_t id)
{
    vouch(id % 3 + 1, id, 1000);
    let_in(id);
}

static void send_message(uint64_t id, const struct message *message)
{
    struct buffer out = {0};
    message_encode(message, &out);
    assert_int_equal(core_peer_frame(world->node[id].core, STRANGER, FRAME_RAFT,
                                     buffer_bytes(&out), world->now_ms * MS,
                                     world_why),
                     0);
    buffer_done(&out);
}

static struct message asks_for_votes(uint64_t term)
{
    struct message message = {.kind = MESSAGE_VOTE, .term = term};
    message.vote.candidate = STRANGER;
    message.vote.last_index = UINT64_C(1) << 50;
    message.vote.last_term = term - 1;
    message.vote.is_disrupting = true;
    return message;
}

static void send_frame(uint64_t id, enum frame_type type, struct buffer *out)
{
    send_frame_from(STRANGER, id, type, out);
}

static void what_a_guest_says_of_itself_counts_for_nothing(void **state)
{
    (void)state;
    struct frame_hello hello = greeting_to(follower);
    expect_refusal(follower, &hello, "write 'trust = 9' into [cluster]");
    /* Nor is its own word enough, or an old one, or one about another. */
    core_peer_up(world->node[follower].core, &hello, world->now_ms * MS);
    vouch(STRANGER, follower, 1000);
    expect_refusal(follower, &hello, "no member known to this node");
    vouch(leader, follower, 1);
    expect_refusal(follower, &hello, "no member known to this node");
    vouch(leader, follower, 2);
    expect_welcome(follower, &hello);
    hello.incarnation = 98;
    expect_refusal(follower, &hello, "no member known to this node");
    hello.incarnation = 99;
    hello.from = 8;
    expect_refusal(follower, &hello, "no member known to this node");
    hello.members_index = 0;
    expect_refusal(follower, &hello, "node 8 is not a member");
}

/* A member that was replaced twice while this node was away: both directories
 * may be newer than the one that its log names, and the first to connect is let
 * in. */
static void the_better_of_two_guests_stays(void **state)
{
    (void)state;
    struct core *core = world->node[follower].core;
    struct frame_hello first = greeting_to(follower), second = first;
    first.incarnation = 98;
    first.last_term = second.last_term = 5;
    first.last_index = 70;
    second.last_index = 60;
    assert_false(core_goes_before(core, &second));
    core_peer_up(core, &first, world->now_ms * MS);
    assert_false(core_goes_before(core, &second));
    second.last_term = 6;
    assert_true(core_goes_before(core, &second));
    core_peer_up(core, &second, world->now_ms * MS);
    assert_false(core_goes_before(core, &first));
    assert_false(core_goes_before(core, &second));
    /* A guest that a member names stays, however new the log of the other
     * is. */
    vouch(leader, follower, 1000);
    first.last_term = 7;
    assert_false(core_goes_before(core, &first));
    core_peer_up(core, &first, world->now_ms * MS);
    assert_true(core_goes_before(core, &second));
}

static void connect_pair(uint64_t a, uint64_t b, bool is_connected)
{
    world->cut[a][b] = world->cut[b][a] = !is_connected;
    links_update(world);
}

static void add(uint64_t id)
{
    node_start(world, id);
    connect_pair(6 - leader - follower, id, false);
    links_update(world);
    client_open(world, leader, id);
    assert_answer(world, leader, id, "+OK\r\n",
                  "RAFT.ADD %llu 127.0.0.1:710%llu,127.0.0.1:720%llu",
                  (unsigned long long)id, (unsigned long long)id,
                  (unsigned long long)id);
    world_run(world, 100);
}

/* The third node hears of the new ones from another member: when they greet
 * each other again, or while they are connected. */
static void members_name_those_that_were_added_meanwhile(void **state)
{
    (void)state;
    uint64_t away = 6 - leader - follower;
    struct frame_hello own = hello_of(world, leader);
    assert_int_equal(own.members_index, 1);
    world_cut(world, away, true);
    add(4);
    struct frame_hello hello = hello_of(world, 4);
    assert_true(hello.members_index > own.members_index);
    expect_refusal(away, &hello, "no member known to this node");
    connect_pair(away, follower, true);
    world_run(world, 10);
    expect_welcome(away, &hello);
    add(5);
    hello = hello_of(world, 5);
    expect_welcome(away, &hello);
    /* It learns the rest, and then knows the current one. */
    connect_pair(away, leader, true);
    world_run(world, 1000);
    struct core *core = world->node[away].core;
    assert_true(core_names(core, 5, hello.incarnation));
    /* No member names a removed node. */
    assert_answer(world, leader, 5, "+OK\r\n", "RAFT.REMOVE 5");
    world_run(world, 300);
    hello = hello_of(world, 5);
    expect_refusal(away, &hello, "node 5 is not a member");
}

/* All members that this node knows have gone, so the operator names the one to
 * believe. */
static void whom_the_operator_trusts_comes_in_and_names_others(void **state)
{
    (void)state;
    struct frame_hello hello = greeting_to(follower), other = hello;
    node_kill(world, follower);
    world->trusted = STRANGER;
    node_start(world, follower);
    links_update(world);
    world_run(world, 100);
    expect_welcome(follower, &hello);
    other.from = 8;
    expect_refusal(follower, &other, "no member known to this node");
    core_peer_up(world->node[follower].core, &hello, world->now_ms * MS);
    struct frame_members members = {
        .log_index = 1000, .id = {8}, .incarnation = {99}, .count = 1};
    struct buffer out = {0};
    frame_put_members(&out, &members);
    send_frame_from(STRANGER, follower, FRAME_MEMBERS, &out);
    expect_welcome(follower, &other);
    hello.members_index = 1;
    expect_refusal(follower, &hello, "node 9 is not a member");
}

static void who_hears_a_leader_gives_a_guest_nothing(void **state)
{
    (void)state;
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    for (uint64_t id = 1; id <= 3; id++) {
        struct message vote = asks_for_votes(term + 1000);
        struct message append = {.kind = MESSAGE_APPEND, .term = term + 1000};
        struct message usurp = {.kind = MESSAGE_TIMEOUT_NOW, .term = term};
        struct buffer out = {0};
        struct frame_lost lost = {.incarnation = WORLD_DIRECTORY(id),
                                  .term = term + 1000,
                                  .last_index = UINT64_C(1) << 50};
        struct frame_snapshot snapshot = {.leader_term = term + 1000,
                                          .last_index = UINT64_C(1) << 40,
                                          .last_term = term + 1000,
                                          .total_size = 4,
                                          .chunk = BYTES_LITERAL("evil")};
        greet(id);
        send_message(id, &vote);
        send_message(id, &append);
        send_message(id, &usurp);
        frame_put_lost(&out, FRAME_LOST, &lost);
        send_frame(id, FRAME_LOST, &out);
        frame_put_snapshot(&out, &snapshot);
        send_frame(id, FRAME_SNAPSHOT, &out);
    }
    struct bytes argument[] = {BYTES_LITERAL("SESSION.OPEN")};
    struct frame_forward forward = {
        .conn = 1, .version = 2, .argument = argument, .count = 1};
    struct buffer out = {0};
    frame_put_forward(&out, &forward);
    frame_stamp_forward(out.data, term, false, 0, 1);
    send_frame(leader, FRAME_FORWARD, &out);
    world_run(world, 1000);
    assert_int_equal(world_leader(world), leader);
    assert_null(lockfsm_sessions(core_state(world->node[leader].core)));
    client_open(world, leader, 1);
    client_session(world, leader, 1, "");
    for (uint64_t id = 1; id <= 3; id++) {
        const struct replica *replica = core_replica(world->node[id].core);
        assert_int_equal(replica_term(replica), term);
        assert_int_equal(world->node[id].fatal_code, 0);
    }
}

/* It may lead the others already. */
static void who_hears_none_listens_to_a_guest(void **state)
{
    (void)state;
    uint64_t term = replica_term(core_replica(world->node[follower].core));
    vouch(leader, follower, 1000);
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != follower) {
            node_kill(world, id);
        }
    }
    links_update(world);
    world_run(world, 2000);
    struct message vote = asks_for_votes(term + 1000);
    let_in(follower);
    send_message(follower, &vote);
    assert_int_equal(replica_term(core_replica(world->node[follower].core)),
                     term + 1000);
    /* And after starting to, it continues. */
    struct message append = {.kind = MESSAGE_APPEND, .term = term + 1000};
    append.append.prev_index = UINT64_C(1) << 40;
    append.append.prev_term = term + 1000;
    for (int i = 0; i < 3; i++) {
        send_message(follower, &append);
        assert_int_equal(replica_term(core_replica(world->node[follower].core)),
                         append.term);
        assert_int_equal(
            replica_leader(core_replica(world->node[follower].core)), STRANGER);
        append.term++;
    }
}

#define GUEST_TEST(name) \
    cmocka_unit_test_setup_teardown(name, begin_three, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUEST_TEST(what_a_guest_says_of_itself_counts_for_nothing),
        GUEST_TEST(members_name_those_that_were_added_meanwhile),
        GUEST_TEST(whom_the_operator_trusts_comes_in_and_names_others),
        GUEST_TEST(who_hears_a_leader_gives_a_guest_nothing),
        GUEST_TEST(who_hears_none_listens_to_a_guest),
        GUEST_TEST(the_better_of_two_guests_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
