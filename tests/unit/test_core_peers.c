/* SPDX-License-Identifier: MIT */

/* Input from other nodes: the directories a node registers, and the frames it
 * accepts. */

#include "lockfsm/feature.h"
#include "lockfsm/user/access.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static int set_up(void **state)
{
    begin_three(state);
    client_open(world, leader, 1);
    return 0;
}

/* A former directory of member 4 still runs, and is connected, while the member
 * is removed and added again with another one. */
static void a_former_directory_has_no_link(void **state)
{
    static const char addition[] = "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 "
                                   "STANDBY";
    char why[HASP_WHY_SIZE];
    (void)state;
    world->node[4].may_fail = true;
    node_start(world, 4);
    assert_answer(world, leader, 1, "+OK\r\n", "%s", addition);
    world_run(world, 200);
    assert_true(world->node[leader].link_up[4]);
    struct frame_hello former = hello_of(world, 4);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
    /* The directory that was removed is gone for good. */
    assert_non_null(
        strstr(client_ask(world, leader, 1, "%s", addition),
               "-BADARG raft.add: the data directory of node 4 (incarnation "
               "0000000000012ccc) was removed from this cluster: "));
    assert_answer(world, leader, 1, "+OK\r\n",
                  "%s INCARNATION 00000000000000ff", addition);
    world_run(world, 200);
    for (uint64_t id = 1; id <= 3; id++) {
        struct core *core = world->node[id].core;
        assert_true(core_names(core, 4, 0xff));
        assert_false(world->node[id].link_up[4]);
        assert_int_equal(core_check_peer(core, &former, why), HASP_ENOENT);
        assert_true(core_was_removed(core, &former, why));
        former.incarnation = 0xff;
        assert_int_equal(core_check_peer(core, &former, why), 0);
        former.incarnation = WORLD_DIRECTORY(4);
    }
    assert_non_null(
        strstr(client_ask(world, leader, 1, "RAFT.STATUS"),
               "$8\r\nreplaced\r\n*1\r\n*6\r\n$2\r\nid\r\n:4\r\n"
               "$11\r\nincarnation\r\n$16\r\n0000000000012ccc\r\n"));
}

static void expect_greeting(uint64_t at, const struct frame_hello *hello,
                            const char *refusal)
{
    char why[HASP_WHY_SIZE] = "";
    int error = core_check_peer(world->node[at].core, hello, why);
    assert_int_equal(error, refusal != NULL ? HASP_EREFUSED : 0);
    if (refusal != NULL && strstr(why, refusal) == NULL) {
        fail_msg("refused with: %s", why);
    }
}

/* A member is down, and an outdated node uses its id. */
static void only_the_named_directory_is_a_member(void **state)
{
    (void)state;
    struct frame_hello hello = hello_of(world, third);
    struct frame_hello unknown = hello, other = hello;
    node_kill(world, third);
    expect_greeting(leader, &hello, NULL);
    memset(unknown.cluster_id, 0, sizeof unknown.cluster_id);
    other.cluster_id[0]++;
    /* As a node that was added and has not applied BEGIN. */
    expect_greeting(leader, &unknown, NULL);
    expect_greeting(leader, &other, "another cluster");
    hello.incarnation++;
    unknown.incarnation++;
    expect_greeting(leader, &hello, "another data directory");
    expect_greeting(leader, &unknown, "another data directory");
    unknown.from = 6;
    char why[HASP_WHY_SIZE];
    assert_int_equal(core_check_peer(world->node[leader].core, &unknown, why),
                     HASP_ENOENT);
    assert_string_equal(why, "node 6 is not a member");
    /* Its own claim opens nothing while there is a leader. */
    hello.last_term = hello.last_index = UINT64_C(1) << 50;
    expect_greeting(leader, &hello, "another data directory");
    expect_greeting(follower, &hello, "another data directory");
    node_kill(world, leader);
    world_run(world, 3000);
    /* Its log is newer, so it may know of a replacement. */
    expect_greeting(follower, &hello, NULL);
    const struct replica *replica = core_replica(world->node[follower].core);
    hello.last_term = replica_last_term(replica);
    hello.last_index = replica_last_index(replica) + 1;
    expect_greeting(follower, &hello, NULL);
    hello.last_index--;
    expect_greeting(follower, &hello, "another data directory");
}

/* While a node lacks the newest configuration, it does not know the new
 * directory of a member: it must not list it as one to be stopped. */
static void who_was_added_since_is_not_taken_for_replaced(void **state)
{
    (void)state;
    struct frame_hello hello = hello_of(world, third);
    struct core *core = world->node[follower].core;
    node_kill(world, third);
    hello.incarnation++;
    hello.members_index++;
    expect_greeting(follower, &hello, "says that it was added later");
    assert_int_equal(core_replaced_count(core, 0), 0);
    hello.members_index--;
    expect_greeting(follower, &hello, "stop this node for good");
    assert_int_equal(core_replaced_count(core, 0), 1);
}

/* Both that stay have to confirm it, and the leader must be silent. */
static void who_was_removed_is_told_by_whom_and_stops(void **state)
{
    (void)state;
    char why[HASP_WHY_SIZE];
    struct world_node *gone = &world->node[third];
    struct frame_hello hello = hello_of(world, third), other = hello;
    gone->may_fail = true;
    client_ask(world, leader, 1, "CLIENT SETNAME ops");
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu",
                  (unsigned long long)third);
    world_run(world, 100);
    for (uint64_t id = leader;; id = follower) {
        struct core *core = world->node[id].core;
        assert_int_equal(core_check_peer(core, &hello, why), HASP_ENOENT);
        assert_true(core_was_removed(core, &hello, why));
        assert_non_null(
            strstr(why, "removed by 'ops' at 2027-01-15T08:00:00Z"));
        if (id == follower) {
            break;
        }
    }
    other.incarnation++;
    assert_false(core_was_removed(world->node[leader].core, &other, why));
    core_removed_by(gone->core, leader, why, node_now(gone));
    core_removed_by(gone->core, 5, why, node_now(gone));
    world_run(world, 1000);
    core_removed_by(gone->core, leader, why, node_now(gone));
    assert_int_equal(gone->fatal_code, 0);
    core_removed_by(gone->core, follower, why, node_now(gone));
    assert_int_equal(gone->fatal_code, CORE_EXIT_REMOVED);
}

static void who_hears_a_leader_was_not_removed(void **state)
{
    (void)state;
    struct world_node *node = &world->node[third];
    core_removed_by(node->core, leader, "so they say", node_now(node));
    core_removed_by(node->core, follower, "so they say", node_now(node));
    world_run(world, 1000);
    core_removed_by(node->core, leader, "so they say", node_now(node));
    assert_int_equal(node->fatal_code, 0);
}

static void who_was_added_comes_without_a_clusters_id(void **state)
{
    (void)state;
    struct frame_hello hello = {
        .from = 4, .incarnation = 44, .feature_level = FEATURE_LEVEL_FIRST};
    char why[HASP_WHY_SIZE];
    assert_int_equal(core_check_peer(world->node[leader].core, &hello, why),
                     HASP_ENOENT);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY "
                  "INCARNATION 000000000000002c");
    expect_greeting(leader, &hello, NULL);
}

/* The frame that 'from' sends to 'to'; it is freed. */
static int send_as(uint64_t from, uint64_t to, enum frame_type type,
                   struct buffer *frame)
{
    struct world_node *node = &world->node[to];
    struct bytes body = bytes_of(frame->data + FRAME_HEADER_SIZE,
                                 frame->size - FRAME_HEADER_SIZE);
    world_why[0] = '\0';
    int error = core_peer_frame(node->core, from, type, body, node_now(node),
                                world_why);
    node->next_turn_ms = world->now_ms;
    buffer_done(frame);
    return error;
}

static int forward_as(uint64_t from, uint64_t session)
{
    struct bytes words[] = {BYTES_LITERAL("LOCK.RELEASE"), BYTES_LITERAL("a")};
    struct frame_forward forward = {
        .term = replica_term(core_replica(world->node[leader].core)),
        .conn = 1,
        .session = session,
        .user = USER_ANYONE,
        .version = 2,
        .argument = words,
        .count = 2};
    struct buffer out = {0};
    frame_put_forward(&out, &forward);
    return send_as(from, leader, FRAME_FORWARD, &out);
}

static bool is_held(void)
{
    return lockfsm_lock(core_state(world->node[leader].core),
                        BYTES_LITERAL("a")) != NULL;
}

/* The asking node names the session of a request: only members are believed. */
static void who_is_no_member_asks_for_nobody(void **state)
{
    (void)state;
    struct credentials session = client_session(world, leader, 1, "TTL 60000");
    client_ask(world, leader, 1, "LOCK.ACQUIRE a");
    for (uint64_t stranger = 5; stranger <= 9; stranger += 4) {
        struct frame_hello hello = {.from = stranger, .incarnation = 99};
        core_peer_up(world->node[leader].core, &hello, world->now_ms * MS);
        assert_int_equal(forward_as(stranger, session.id), 0);
        world_run(world, 100);
        assert_true(is_held());
    }
    assert_int_equal(forward_as(follower, session.id), 0);
    world_run(world, 100);
    assert_false(is_held());
}

static void answer_as(uint64_t from, uint32_t sending)
{
    struct frame_answer answer = {.conn = 1,
                                  .slot = 0,
                                  .sending = sending,
                                  .kind = ANSWER_REPLY,
                                  .reply = BYTES_LITERAL(":4711\r\n")};
    struct buffer out = {0};
    frame_put_answer(&out, &answer);
    assert_int_equal(send_as(from, follower, FRAME_ANSWER, &out), 0);
    world_run(world, 5);
}

static void only_who_was_asked_answers(void **state)
{
    (void)state;
    client_open(world, follower, 1);
    world->node[leader].is_paused = true;
    client_send(world, follower, 1, "LOCK.SHOW a");
    world_run(world, 2);
    answer_as(third, 1);
    answer_as(9, 1);
    assert_string_equal(client_text(world, follower, 1), "");
    answer_as(leader, 1);
    assert_string_equal(client_text(world, follower, 1), ":4711\r\n");
    world->node[leader].is_paused = false;
}

/* The leader was asked twice. Its answer to the first attempt can be that
 * nothing was done, although it may do the second. */
static void only_the_newest_sending_is_answered(void **state)
{
    (void)state;
    client_open(world, follower, 1);
    world->node[leader].is_paused = true;
    client_send(world, follower, 1, "SET a v NX PX 60000");
    world_run(world, 2);
    world_cut(world, follower, true);
    world_run(world, 2);
    world_cut(world, follower, false);
    world_run(world, 50);
    answer_as(leader, 1);
    assert_string_equal(client_text(world, follower, 1), "");
    answer_as(leader, 2);
    assert_string_equal(client_text(world, follower, 1), ":4711\r\n");
    world->node[leader].is_paused = false;
}

/* For every kind of message: if a node adopted such a term, it would be the
 * last one. */
static void a_term_that_no_election_leads_to_is_refused(void **state)
{
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    (void)state;
    static const enum message_kind kinds[] = {
        MESSAGE_APPEND,      MESSAGE_APPEND_RESULT, MESSAGE_VOTE,
        MESSAGE_VOTE_RESULT, MESSAGE_TIMEOUT_NOW,   MESSAGE_CONFIRM,
        MESSAGE_CONFIRMED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int i = 0; i < 2; i++) {
            struct message message = {.kind = kinds[k]};
            struct buffer out = {0};
            message.term = i == 0 ? UINT64_C(1) << 62
                                  : term + REPLICA_TERM_STEP_MAX + 1;
            if (kinds[k] == MESSAGE_VOTE) {
                message.vote.candidate = follower;
                message.vote.is_disrupting = true;
            }
            size_t start = frame_begin(&out, FRAME_RAFT);
            message_encode(&message, &out);
            frame_end(&out, start);
            assert_int_equal(send_as(follower, leader, FRAME_RAFT, &out),
                             HASP_ETOOBIG);
            assert_non_null(strstr(world_why, "more than 2^32 above"));
        }
    }
    struct buffer out = {0};
    struct frame_snapshot part = {.leader_term = UINT64_C(1) << 62,
                                  .last_index = UINT64_C(1) << 40,
                                  .last_term = 1,
                                  .total_size = 4,
                                  .chunk = BYTES_LITERAL("evil")};
    frame_put_snapshot(&out, &part);
    assert_int_equal(send_as(follower, third, FRAME_SNAPSHOT, &out),
                     HASP_ETOOBIG);
    struct buffer lie = {0};
    struct frame_lost lost = {.incarnation = WORLD_DIRECTORY(third),
                              .term = UINT64_C(1) << 62,
                              .last_index = UINT64_C(1) << 40};
    frame_put_lost(&lie, FRAME_LOST, &lost);
    assert_int_equal(send_as(follower, third, FRAME_LOST, &lie), HASP_ETOOBIG);
    assert_false(core_is_barred(world->node[third].core));
    world_run(world, 1000);
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(replica_term(core_replica(world->node[leader].core)),
                     term);
}

static void
a_snapshot_that_does_not_fit_on_the_disk_is_not_written(void **state)
{
    (void)state;
    struct world_node *node = &world->node[third];
    struct frame_snapshot part = {
        .leader_term = replica_term(core_replica(node->core)),
        .last_index = UINT64_C(1) << 40,
        .last_term = 1,
        .total_size = 1001,
        .chunk = BYTES_LITERAL("much")};
    node->disk_room = 1000;
    for (int i = 0; i < 2; i++) {
        struct buffer out = {0};
        frame_put_snapshot(&out, &part);
        assert_int_equal(send_as(leader, third, FRAME_SNAPSHOT, &out), 0);
        assert_int_equal(node->incoming.size, i == 0 ? 0 : part.chunk.size);
        part.total_size = 1000;
    }
}

/* --- Marks ---------------------------------------------------------------- */

static uint64_t log_end(void)
{
    return replica_last_index(core_replica(world->node[leader].core));
}

static void nobody_is_marked_while_a_heard_is_under_way(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 4000 LINGER 500");
    world_run(world, 1100); /* It is marked. */
    uint64_t before = log_end();
    world->latency_ms = 50;
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world_step(world);
    assert_int_equal(log_end(), before + 1); /* HEARD */
    client_close(world, leader, 1); /* Linger is to be marked at once. */
    world_run(world, 60);
    assert_int_equal(log_end(), before + 1);
    world_run(world, 100);
    assert_int_equal(log_end(), before + 2); /* TIME */
}

/* The rest of its lease, as reported by the leader. */
static int64_t left_ms(uint64_t session)
{
    client_ask(world, leader, 1, "SESSION.SHOW %llu",
               (unsigned long long)session);
    return answer_number(world, leader, 1, "left_ms");
}

static void a_detach_at_a_follower_lets_that_session_linger_alone(void **state)
{
    (void)state;
    client_open(world, follower, 1);
    struct credentials session = client_session(world, follower, 1,
                                                "TTL 10000 LINGER 300");
    client_ask(world, follower, 1, "SESSION.OPEN TTL 10000 LINGER 300");
    uint64_t other = (uint64_t)answer_number(world, follower, 1, "id");
    assert_answer(world, follower, 1, "+OK\r\n", "SESSION.DETACH SESSION %llu",
                  (unsigned long long)session.id);
    world_run(world, 20);
    assert_in_range(left_ms(session.id), 200, 300);
    assert_true(left_ms(other) > 9000);
    world_run(world, 400);
    assert_answer(world, leader, 1, "-NOSESSION no such session\r\n",
                  "SESSION.SHOW %llu", (unsigned long long)session.id);
    assert_answer(world, follower, 1, ":10000\r\n", "SESSION.KEEP SESSION %llu",
                  (unsigned long long)other);
}

#define PEER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEER_TEST(a_former_directory_has_no_link),
        PEER_TEST(only_the_named_directory_is_a_member),
        PEER_TEST(who_was_added_since_is_not_taken_for_replaced),
        PEER_TEST(who_was_added_comes_without_a_clusters_id),
        PEER_TEST(who_was_removed_is_told_by_whom_and_stops),
        PEER_TEST(who_hears_a_leader_was_not_removed),
        PEER_TEST(who_is_no_member_asks_for_nobody),
        PEER_TEST(only_who_was_asked_answers),
        PEER_TEST(only_the_newest_sending_is_answered),
        PEER_TEST(a_term_that_no_election_leads_to_is_refused),
        PEER_TEST(a_snapshot_that_does_not_fit_on_the_disk_is_not_written),
        PEER_TEST(nobody_is_marked_while_a_heard_is_under_way),
        PEER_TEST(a_detach_at_a_follower_lets_that_session_linger_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
