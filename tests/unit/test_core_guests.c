/* SPDX-License-Identifier: MIT */

/* Guests: nodes that the log does not name, who say that theirs is newer. Here
 * it is not true, and they want what is not theirs. */

#include "raft/message.h"
#include "tests/unit/core_world.h"

#define STRANGER 9

static struct world *world;
static uint64_t leader, follower;

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    leader = world_elect(world);
    follower = leader % 3 + 1;
    world_run(world, 100);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static void greet(uint64_t id)
{
    char why[HASP_WHY_SIZE];
    struct core *core = world->node[id].core;
    struct frame_hello hello = {.from = STRANGER,
                                .to = id,
                                .feature_level = 1,
                                .incarnation = 99,
                                .applied_index = UINT64_C(1) << 50,
                                .members_index = UINT64_C(1) << 50,
                                .term = UINT64_C(1) << 50,
                                .last_index = UINT64_C(1) << 50};
    memcpy(hello.cluster_id, world->node[id].cluster_id, CLUSTER_ID_SIZE);
    assert_int_equal(core_check_peer(core, &hello, false, why), 0);
    core_peer_up(core, &hello, world->now_ms * MS);
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
    struct bytes body = bytes_of(out->data + FRAME_HEADER_SIZE,
                                 out->size - FRAME_HEADER_SIZE);
    assert_int_equal(core_peer_frame(world->node[id].core, STRANGER, type, body,
                                     world->now_ms * MS, world_why),
                     0);
    buffer_done(out);
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
        struct frame_lost lost = {.incarnation = 77000 + id,
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
        frame_put_lost(&out, &lost);
        send_frame(id, FRAME_LOST, &out);
        frame_put_snapshot(&out, &snapshot);
        send_frame(id, FRAME_SNAPSHOT, &out);
    }
    world_run(world, 1000);
    assert_int_equal(world_leader(world), leader);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "");
    for (uint64_t id = 1; id <= 3; id++) {
        const struct replica *replica = core_replica(world->node[id].core);
        assert_int_equal(replica_term(replica), term);
        assert_int_equal(world->node[id].fatal_code, 0);
    }
}

/* It may lead the others by now. */
static void who_hears_none_listens_to_a_guest(void **state)
{
    (void)state;
    uint64_t term = replica_term(core_replica(world->node[follower].core));
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != follower) {
            node_kill(world, id);
        }
    }
    links_update(world);
    world_run(world, 2000);
    struct message vote = asks_for_votes(term + 1000);
    greet(follower);
    send_message(follower, &vote);
    assert_int_equal(replica_term(core_replica(world->node[follower].core)),
                     term + 1000);
    /* And having begun to, it goes on. */
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
    cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUEST_TEST(who_hears_a_leader_gives_a_guest_nothing),
        GUEST_TEST(who_hears_none_listens_to_a_guest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
