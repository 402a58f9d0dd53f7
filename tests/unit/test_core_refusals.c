/* SPDX-License-Identifier: MIT */

/* What a refusal says about the request: "nothing" only if that is known. */

#include <stdlib.h>

#include "base/memory.h"
#include "core/conn.h"
#include "core/state.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static void begin(uint32_t requests_in_flight, bool is_moved)
{
    world = world_new(3);
    world->limits.requests_in_flight = requests_in_flight;
    world->redirect = is_moved ? REDIRECT_MOVED : REDIRECT_FORWARD;
    world_found(world);
    find_roles();
    world_run(world, 100); /* All know the leader. */
    client_open(world, leader, 1);
    client_open(world, follower, 1);
}

static int set_up(void **state)
{
    (void)state;
    begin(1000, false);
    return 0;
}

#define CHANGED \
    "-UNKNOWN the leader changed; whether this took effect is not known\r\n"
#define NOT_FOUND \
    "-UNKNOWN no leader was found; whether this took effect is not known\r\n"
#define NOTHING "-NOLEADER no leader was found; nothing was done\r\n"

/* Each was logged by a leader that then lost its majority, except PEXPIRE,
 * which found no key. SET waits for the next leader like one with a number,
 * since it has no effect twice. */
static void what_was_logged_may_have_been_done(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 60000");
    client_clear(world, leader, 1);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "SET k v NX PX 30000");
    client_send(world, leader, 1, "PEXPIRE free 30000");
    client_send(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    client_send(world, leader, 1, "LOCK.ACQUIRE b");
    world_run(world, 6000);
    assert_string_equal(client_text(world, leader, 1),
                        NOT_FOUND NOTHING NOT_FOUND CHANGED);
}

static void what_was_sent_to_a_leader_may_have_been_done(void **state)
{
    (void)state;
    client_session(world, follower, 1, "TTL 60000");
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "SET k v NX PX 30000");
    client_send(world, follower, 1, "LOCK.ACQUIRE a REQ 1");
    client_send(world, follower, 1, "LOCK.SHOW b");
    world_step(world);
    node_kill(world, leader);
    node_kill(world, follower % 3 + 1);
    world_run(world, 6000);
    /* A read has done nothing. */
    assert_string_equal(client_text(world, follower, 1),
                        NOT_FOUND NOT_FOUND NOTHING);
}

static void send_set_and_lose_the_answer(const char *option)
{
    client_send(world, follower, 1, "SET k v NX %s PX 60000", option);
    for (int i = 0; i < 1000; i++) {
        world_run(world, 1);
        if (lockfsm_lock(core_state(world->node[leader].core),
                         BYTES_LITERAL("k")) != NULL) {
            break;
        }
        assert_int_not_equal(i, 999);
    }
    assert_string_equal(client_text(world, follower, 1), "");
    node_kill(world, leader);
    world_run(world, 6000);
}

/* The next leader finds the value, and cannot know whose it is: "nil" would say
 * that another client has the lock, "OK" could let two have it. */
static void a_set_that_finds_its_value_may_have_been_done(void **state)
{
    (void)state;
    send_set_and_lose_the_answer("GET");
    assert_string_equal(client_text(world, follower, 1),
                        "-UNKNOWN this value holds the key; whether this took "
                        "effect is not known\r\n");
}

static void a_set_with_again_that_finds_its_value_is_done(void **state)
{
    (void)state;
    send_set_and_lose_the_answer("AGAIN");
    assert_string_equal(client_text(world, follower, 1), "+OK\r\n");
}

static void what_was_never_sent_has_not_been_done(void **state)
{
    (void)state;
    client_session(world, follower, 1, "TTL 60000");
    world_cut(world, follower, true);
    world_run(world, 3000); /* Until it learns that there is no leader. */
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "SET k v NX PX 30000");
    client_send(world, follower, 1, "LOCK.ACQUIRE a REQ 1");
    client_send(world, follower, 1, "LOCK.ACQUIRE b");
    world_run(world, 3100);
    assert_string_equal(client_text(world, follower, 1),
                        NOTHING NOTHING NOTHING);
}

/* The leader's answer to a request that the follower forwards; as a frame. */
static void forward(uint64_t term, bool may_be_done, struct bytes *argument,
                    uint32_t count, struct frame_answer *answer)
{
    struct world_node *node = &world->node[leader];
    struct buffer out = {0};
    struct frame_forward forward = {.term = term,
                                    .conn = 99,
                                    .session = 1,
                                    .user = USER_ANYONE,
                                    .version = 3,
                                    .may_be_done = may_be_done,
                                    .argument = argument,
                                    .count = count};
    frame_put_forward(&out, &forward);
    struct bytes body = bytes_of(out.data + FRAME_HEADER_SIZE,
                                 out.size - FRAME_HEADER_SIZE);
    buffer_clear(&node->out[follower]);
    assert_int_equal(core_peer_frame(node->core, follower, FRAME_FORWARD, body,
                                     node_now(node), world_why),
                     0);
    struct buffer *sent = &node->out[follower];
    assert_true(sent->size > FRAME_HEADER_SIZE);
    assert_int_equal(frame_get_answer(bytes_of(sent->data + FRAME_HEADER_SIZE,
                                               sent->size - FRAME_HEADER_SIZE),
                                      answer),
                     0);
    buffer_done(&out);
}

static void a_repetition_is_not_told_that_nothing_was_done(void **state)
{
    (void)state;
    struct bytes words[] = {BYTES_LITERAL("LOCK.ACQUIRE"), BYTES_LITERAL("a"),
                            BYTES_LITERAL("REQ"), BYTES_LITERAL("7")};
    struct frame_answer answer;
    tear_down(NULL);
    begin(3, false);
    client_session(world, leader, 1, "");
    for (int i = 0; i < 5; i++) {
        client_send(world, leader, 1, "LOCK.ACQUIRE a%d", i);
    }
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    forward(term, false, words, 4, &answer);
    assert_int_equal(answer.kind, ANSWER_REPLY);
    assert_true(bytes_equal(
        answer.reply, BYTES_LITERAL("-BUSY too many requests are in flight; "
                                    "nothing was done, try later\r\n")));
    forward(term, true, words, 4, &answer);
    assert_int_equal(answer.kind, ANSWER_REPLY);
    assert_true(bytes_equal(
        answer.reply,
        BYTES_LITERAL("-UNKNOWN too many requests are in flight; whether this "
                      "took effect is not known\r\n")));
}

/* For example of a newer version; an earlier leader may have logged it. */
static void what_is_not_understood_may_have_been_done(void **state)
{
    (void)state;
    struct bytes words[] = {BYTES_LITERAL("LOCK.ACQUIRE"), BYTES_LITERAL("a"),
                            BYTES_LITERAL("SOON")};
    struct frame_answer answer;
    client_session(world, leader, 1, "");
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    forward(term, false, words, 3, &answer);
    assert_true(bytes_equal(
        answer.reply,
        BYTES_LITERAL("-BADARG lock.acquire: unknown option 'SOON'\r\n")));
    forward(term, true, words, 3, &answer);
    assert_true(bytes_equal(
        answer.reply,
        BYTES_LITERAL("-UNKNOWN this leader's version does not support it; "
                      "whether this took effect is not known\r\n")));
}

/* MOVED would mean that nothing was done. */
static void what_may_have_been_done_is_carried_on_not_moved(void **state)
{
    (void)state;
    tear_down(NULL);
    begin(1000, true);
    client_session(world, leader, 1, "TTL 60000");
    client_clear(world, leader, 1);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    client_send(world, leader, 1, "SET k v NX PX 60000");
    uint64_t old = leader;
    for (int i = 0; i < 5000 && leader == old; i++) {
        world_run(world, 1);
        for (uint64_t id = 1; id <= 3; id++) {
            if (id != old && core_is_serving(world->node[id].core)) {
                leader = id;
            }
        }
    }
    world_cut(world, old, false);
    world_run(world, 1000);
    const char *text = client_text(world, old, 1);
    assert_int_equal(text[0], ':');
    assert_string_equal(strchr(text, '\n') + 1, "+OK\r\n");
    client_clear(world, old, 1);
    client_send(world, old, 1, "LOCK.ACQUIRE b REQ 2");
    world_run(world, 10);
    assert_memory_equal(client_text(world, old, 1), "-MOVED ", 7);
}

/* A frame that was delayed until its leader leads again. */
static void what_comes_in_a_later_term_is_not_done(void **state)
{
    (void)state;
    struct bytes words[] = {BYTES_LITERAL("FENCE.ADMIT"), BYTES_LITERAL("r"),
                            BYTES_LITERAL("7")};
    struct frame_answer answer;
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    forward(term - 1, false, words, 3, &answer);
    assert_int_equal(answer.kind, ANSWER_NOT_LEADER);
    forward(term - 1, true, words, 3, &answer);
    assert_int_equal(answer.kind, ANSWER_UNKNOWN);
    world_run(world, 50);
    assert_int_equal(lockfsm_fence_count(core_state(world->node[leader].core)),
                     0);
}

/* It was sent to a leader that died; it is in no log. */
static void a_scarce_disk_refuses_what_turns_out_not_to_be_done(void **state)
{
    (void)state;
    client_session(world, follower, 1, "TTL 60000");
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "LOCK.ACQUIRE b REQ 1");
    node_kill(world, leader);
    links_update(world);
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != leader) {
            core_disk_is(world->node[id].core, CORE_DISK_FULL,
                         node_now(&world->node[id]));
        }
    }
    for (int i = 0; i < 10000 && client_text(world, follower, 1)[0] == 0; i++) {
        world_run(world, 1);
    }
    assert_string_equal(client_text(world, follower, 1),
                        "-LIMIT disk: the leader's disk is nearly full\r\n");
}

/* Meanwhile there is no leader. */
static void a_transfer_is_answered_once_its_end_is_known(void **state)
{
    (void)state;
    world_free(world);
    begin(1000, true);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  (unsigned long long)follower);
    assert_int_equal(world_elect(world), follower);
}

/* With the maximum in flight, at both nodes, requests that renew, release,
 * cancel or close are served; KEEP has no other bound either. */
static void what_keeps_or_gives_back_is_never_busy(void **state)
{
    (void)state;
    static const char *const urgent[] = {"SESSION.KEEP", "LOCK.RELEASE mine",
                                         "LOCK.CANCEL other", "SESSION.CLOSE"};
    uint32_t nodes[] = {leader, follower};
    tear_down(NULL);
    begin(3, false);
    for (int i = 0; i < 2; i++) {
        uint32_t node = nodes[i];
        client_open(world, node, 2);
        client_open(world, node, 3);
        client_session(world, node, 2, "");
        client_session(world, node, 3, "");
        client_ask(world, node, 2, "LOCK.ACQUIRE mine");
        client_clear(world, node, 2);
        for (size_t k = 0; k < sizeof urgent / sizeof urgent[0]; k++) {
            client_clear(world, node, 3);
            for (int n = 0; n < 8; n++) {
                client_send(world, node, 3, "LOCK.ACQUIRE a%d", n);
            }
            client_send(world, node, 2, "%s", urgent[k]);
            world_run(world, 50);
            assert_non_null(strstr(client_text(world, node, 3), "-BUSY "));
            assert_int_equal(
                strncmp(client_text(world, node, 2), "-BUSY", 5) == 0, 0);
            assert_true(world->node[node].client[2].output.size > 0);
            client_clear(world, node, 2);
        }
    }
}

/* One that floods leaves a part of the requests in flight to others, at the
 * asked node and at the leader. */
static void a_flood_makes_nobody_else_busy(void **state)
{
    (void)state;
    enum { FLOOD = 60 };
    uint32_t nodes[] = {leader, follower};
    tear_down(NULL);
    begin(40, false);
    for (int i = 0; i < 2; i++) {
        uint32_t node = nodes[i];
        struct core *core = world->node[node].core;
        for (uint64_t conn = 2; conn <= 4; conn++) {
            client_open(world, node, conn);
            client_session(world, node, conn, "");
            client_clear(world, node, conn);
        }
        struct conn *other = conn_find(core, 4);
        free(other->address);
        other->address = memory_text("10.9.9.9:1");
        other->stranger = in_flight_stranger(bytes_of_text(other->address));
        for (int n = 0; n < FLOOD; n++) {
            client_send(world, node, 2 + (uint64_t)n % 2, "LOCK.ACQUIRE %d/%d",
                        i, n);
        }
        client_send(world, node, 4, "LOCK.ACQUIRE other/%d", i);
        world_run(world, 200);
        assert_non_null(strstr(client_text(world, node, 2), "-BUSY too many "
                                                            "requests are in "
                                                            "flight"));
        assert_int_equal(client_text(world, node, 4)[0], ':');
        assert_int_equal(core->requests.in_flight.count, 0);
        client_clear(world, node, 2);
    }
}

#define refusal(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        refusal(what_keeps_or_gives_back_is_never_busy),
        refusal(a_flood_makes_nobody_else_busy),
        refusal(what_was_logged_may_have_been_done),
        refusal(what_was_sent_to_a_leader_may_have_been_done),
        refusal(a_set_that_finds_its_value_may_have_been_done),
        refusal(a_set_with_again_that_finds_its_value_is_done),
        refusal(what_was_never_sent_has_not_been_done),
        refusal(a_repetition_is_not_told_that_nothing_was_done),
        refusal(what_is_not_understood_may_have_been_done),
        refusal(what_may_have_been_done_is_carried_on_not_moved),
        refusal(what_comes_in_a_later_term_is_not_done),
        refusal(a_scarce_disk_refuses_what_turns_out_not_to_be_done),
        refusal(a_transfer_is_answered_once_its_end_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
