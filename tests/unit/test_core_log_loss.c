/* SPDX-License-Identifier: MIT */

/* Members that come back with less than they have acknowledged
 * (core/members/log_loss.h). */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static int set_up(void **state)
{
    begin_three(state);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    for (int i = 0; i < 5; i++) {
        client_ask(world, leader, 1, "LOCK.ACQUIRE a%d", i);
    }
    world_run(world, 100);
    return 0;
}

/* The third node comes back with a log that lacks its last 'count' entries, and
 * with a table that has to be rebuilt. */
static void come_back_without(uint32_t count)
{
    struct world_node *node = &world->node[third];
    node_kill(world, third);
    port_log_truncate(node, node->log.first + node->log.count - count);
    table_close(node->table);
    node->table = table_new_memory();
    node->may_fail = true;
    node_start(world, third);
    links_update(world);
}

static void assert_alike(void)
{
    assert_int_equal(lockfsm_hash(core_state(world->node[third].core)),
                     lockfsm_hash(core_state(world->node[leader].core)));
}

static bool is_barred(void)
{
    bool is_barred = core_is_barred(world->node[third].core);
    assert_true(is_barred == (world->node[third].accused.term != 0));
    return is_barred;
}

/* True if the third node has sent a message of Raft that is on its way. */
static bool takes_part(void)
{
    for (uint32_t i = 0; i < world->message_count; i++) {
        if (world->message[i].from == third &&
            world->message[i].type == FRAME_RAFT) {
            return true;
        }
    }
    return false;
}

/* Any member's accusation bars it; only its current leader's condemns it. */
static void who_has_lost_one_entry_is_told_and_stops(void **state)
{
    (void)state;
    come_back_without(1);
    world_run(world, 2);
    assert_true(is_barred());
    assert_int_equal(world->node[third].fatal_code, 0);
    for (int i = 0; i < 200 && world->node[third].fatal_code == 0; i++) {
        world_run(world, 1);
        assert_false(takes_part());
    }
    assert_int_equal(world->node[third].fatal_code, 70);
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(world->node[leader].fatal_code, 0);
    /* The others continue without it. */
    node_kill(world, third);
    client_ask(world, leader, 1, "LOCK.ACQUIRE b");
    assert_int_equal(client_text(world, leader, 1)[0], ':');
}

static void who_has_lost_nothing_is_welcome(void **state)
{
    (void)state;
    come_back_without(0);
    world_run(world, 500);
    assert_int_equal(world->node[third].fatal_code, 0);
    assert_alike();
}

/* It has never acknowledged the entries it lacks. */
static void who_missed_entries_has_lost_nothing(void **state)
{
    (void)state;
    world_cut(world, third, true);
    client_ask(world, leader, 1, "LOCK.ACQUIRE b");
    assert_int_equal(client_text(world, leader, 1)[0], ':');
    world_cut(world, third, false);
    come_back_without(0);
    world_run(world, 500);
    assert_int_equal(world->node[third].fatal_code, 0);
    assert_alike();
}

static void an_earlier_leader_remembers(void **state)
{
    (void)state;
    node_kill(world, third);
    client_ask(world, leader, 1, "RAFT.TRANSFER %llu",
               (unsigned long long)follower);
    world_run(world, 100);
    assert_int_equal(world_leader(world), follower);
    world->cut[third][follower] = true; /* Only the earlier leader hears it. */
    come_back_without(1);
    world_run(world, 2);
    assert_true(is_barred());
    /* The leader does not know: it stays barred, also after a restart. */
    world->cut[third][follower] = false;
    links_update(world);
    world_run(world, 500);
    node_kill(world, third);
    node_start(world, third);
    links_update(world);
    world_run(world, 500);
    assert_true(is_barred());
    assert_int_equal(world->node[third].fatal_code, 0);
    /* And has no vote. */
    node_kill(world, follower);
    for (int i = 0; i < 2000; i++) {
        world_run(world, 1);
        assert_false(takes_part());
    }
    assert_int_equal(world_leader(world), 0);
}

/* Its process ends between the first report and the second. */
/* A restart between two accusations: the first has barred it durably, and the
 * second, of the leader, condemns it. */
static void a_bar_outlasts_the_process(void **state)
{
    (void)state;
    come_back_without(1);
    world_run(world, 2);
    assert_true(is_barred());
    node_kill(world, third);
    node_start(world, third);
    assert_true(is_barred());
    links_update(world);
    world_run(world, 2);
    assert_int_equal(world->node[third].fatal_code, 0);
    world_run(world, 200);
    assert_int_equal(world->node[third].fatal_code, 70);
}

/* A leader of a later term can have removed the entries legitimately: nothing
 * is reported. */
static void who_knows_a_later_term_is_not_accused(void **state)
{
    (void)state;
    world->node[third].term += 5;
    world->node[third].voted_for = 0;
    node_kill(world, third);
    come_back_without(1);
    world_run(world, 3000);
    assert_int_equal(world->node[third].fatal_code, 0);
    leader = world_leader(world);
    assert_int_not_equal(leader, 0);
    assert_alike();
}

static void connect_pair(uint64_t a, uint64_t b, bool is_connected)
{
    world->cut[a][b] = world->cut[b][a] = !is_connected;
    links_update(world);
}

/* The other three elect a leader who replaces what only
 * the first leader and the third have: the third has not lost it. */
static void entries_that_were_replaced_are_not_lost(void **state)
{
    (void)state;
    tear_down(NULL);
    world = world_new(5);
    world_found(world);
    leader = world_elect(world);
    third = leader % 5 + 1;
    world_run(world, 100);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    for (uint64_t id = 1; id <= 5; id++) {
        if (id != leader && id != third) {
            connect_pair(leader, id, false);
            connect_pair(third, id, false);
        }
    }
    for (int i = 0; i < 9; i++) {
        client_send(world, leader, 1, "LOCK.ACQUIRE c%d", i);
    }
    world_run(world, 20);
    const struct replica *replica = core_replica(world->node[third].core);
    uint64_t acknowledged = replica_last_index(replica);
    connect_pair(leader, third, false);
    world_run(world, 2000);
    for (uint64_t id = 1; id <= 5; id++) {
        if (id != leader && id != third) {
            connect_pair(third, id, true);
        }
    }
    world_run(world, 500);
    assert_true(replica_last_index(replica) < acknowledged);
    connect_pair(leader, third, true);
    world_run(world, 50);
    for (uint64_t id = 1; id <= 5; id++) {
        connect_pair(leader, id, true);
    }
    world_run(world, 2000);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(world->node[id].fatal_code, 0);
    }
    assert_alike();
}

/* A node compares a report about it with its own log. */
static void an_untrue_accusation_is_ignored(void **state)
{
    (void)state;
    struct core *core = world->node[third].core;
    struct frame_lost lost = {
        .incarnation = WORLD_DIRECTORY(third),
        .term = replica_term(core_replica(core)),
        .last_index = replica_last_index(core_replica(core)),
    };
    struct frame_lost cases[3] = {lost, lost, lost};
    cases[1].incarnation++;
    cases[1].last_index++;
    cases[2].term--;
    cases[2].last_index++;
    for (int i = 0; i < 3; i++) {
        struct buffer out = {0};
        frame_put_lost(&out, FRAME_LOST, &cases[i]);
        struct bytes body = bytes_of(out.data + FRAME_HEADER_SIZE,
                                     out.size - FRAME_HEADER_SIZE);
        assert_int_equal(core_peer_frame(core, leader, FRAME_LOST, body,
                                         world->now_ms * MS, world_why),
                         0);
        body.size--;
        assert_int_equal(core_peer_frame(core, leader, FRAME_LOST, body,
                                         world->now_ms * MS, world_why),
                         HASP_EPROTO);
        buffer_done(&out);
    }
    assert_int_equal(world->node[third].fatal_code, 0);
}

/* The leader knows the entries that the node has acknowledged to it, and that
 * there is no later leader. */
static void a_bar_by_an_untrue_accusation_is_lifted(void **state)
{
    (void)state;
    for (uint64_t later = 0; later <= 1000; later += 1000) {
        struct core *core = world->node[third].core;
        struct frame_lost lost = {
            .incarnation = WORLD_DIRECTORY(third),
            .term = replica_term(core_replica(core)) + later,
            .last_index = replica_last_index(core_replica(core)) + 1};
        struct buffer out = {0};
        frame_put_lost(&out, FRAME_LOST, &lost);
        struct bytes body = bytes_of(out.data + FRAME_HEADER_SIZE,
                                     out.size - FRAME_HEADER_SIZE);
        assert_int_equal(core_peer_frame(core, follower, FRAME_LOST, body,
                                         world->now_ms * MS, world_why),
                         0);
        buffer_done(&out);
        assert_true(is_barred());
        world->node[third].next_turn_ms = world->now_ms;
        world_run(world, 100);
        assert_false(is_barred());
        assert_int_equal(world->node[third].fatal_code, 0);
    }
    node_kill(world, follower);
    assert_int_equal(client_ask(world, leader, 1, "LOCK.ACQUIRE b")[0], ':');
    world_run(world, 100);
    assert_int_equal(world_leader(world), leader);
    assert_alike();
}

#define LOSS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOSS_TEST(who_has_lost_one_entry_is_told_and_stops),
        LOSS_TEST(who_has_lost_nothing_is_welcome),
        LOSS_TEST(who_missed_entries_has_lost_nothing),
        LOSS_TEST(an_earlier_leader_remembers),
        LOSS_TEST(who_knows_a_later_term_is_not_accused),
        LOSS_TEST(entries_that_were_replaced_are_not_lost),
        LOSS_TEST(an_untrue_accusation_is_ignored),
        LOSS_TEST(a_bar_outlasts_the_process),
        LOSS_TEST(a_bar_by_an_untrue_accusation_is_lifted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
