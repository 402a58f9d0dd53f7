/* SPDX-License-Identifier: MIT */

/* core with three nodes: forwarding, failover, leases across leaders. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static int set_up(void **state)
{
    begin_three(state);
    client_open(world, leader, 1);
    client_open(world, follower, 1);
    client_open(world, third, 1);
    return 0;
}

/* Cuts the leader off, and waits for its successor. */
static uint64_t depose(void)
{
    uint64_t old = leader;
    world_cut(world, old, true);
    for (int i = 0; i < 5000; i++) {
        world_run(world, 1);
        for (uint64_t id = 1; id <= 3; id++) {
            if (id != old && core_is_serving(world->node[id].core)) {
                leader = id;
                follower = 6 - leader - old;
                third = old;
                return old;
            }
        }
    }
    fail_msg("no successor");
    return 0;
}

#define KEEP_TIMES(ttl, linger, trust)                               \
    "*10\r\n$6\r\nttl_ms\r\n:" ttl "\r\n$9\r\nlinger_ms\r\n:" linger \
    "\r\n$8\r\ntrust_ms\r\n:" trust "\r\n$5\r\nended\r\n*0\r\n"      \
    "$7\r\ndropped\r\n:0\r\n"
#define ID(session) ((unsigned long long)(session).id)

static void a_follower_forwards_and_answers(void **state)
{
    (void)state;
    struct credentials session = client_session(world, follower, 1, "");
    char token[64];
    snprintf(token, sizeof token, "%s",
             client_ask(world, follower, 1, "LOCK.ACQUIRE a REQ 1"));
    assert_int_equal(token[0], ':');
    assert_answer(world, follower, 1, token, "LOCK.ACQUIRE a REQ 1");
    client_ask(world, leader, 1, "LOCK.SHOW a");
    assert_int_equal(answer_number(world, leader, 1, "session"), session.id);
    assert_non_null(strstr(client_text(world, leader, 1), "10.0.0."));
    assert_answer(world, follower, 1, KEEP_TIMES("10000", "0", "8000"),
                  "SESSION.KEEP FULL");
    assert_answer(world, third, 1, "+OK\r\n", "SESSION.ATTACH %llu %s",
                  ID(session), session.secret);
    assert_answer(world, third, 1, ":0\r\n", "LOCK.RELEASE a");
    assert_answer(world, follower, 1, ":0\r\n", "SESSION.CLOSE");
    assert_answer(world, follower, 1,
                  "-NOSESSION no session is attached to this connection\r\n",
                  "SESSION.KEEP FULL");
    assert_answer(world, third, 1, "-EXPIRED the session has ended\r\n",
                  "LOCK.ACQUIRE a");
}

static void answers_of_forwarded_requests_keep_their_order(void **state)
{
    (void)state;
    client_session(world, follower, 1, "");
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "LOCK.ACQUIRE a");
    client_send(world, follower, 1, "PING");
    client_send(world, follower, 1, "LOCK.RELEASE a");
    client_send(world, follower, 1, "ECHO end");
    world_run(world, 30);
    const char *text = client_text(world, follower, 1);
    assert_int_equal(text[0], ':');
    assert_string_equal(strstr(text, "+PONG"), "+PONG\r\n:0\r\n$3\r\nend\r\n");
}

static void the_holder_and_the_queue_survive_the_leaders_death(void **state)
{
    (void)state;
    char token[64];
    struct credentials holder = client_session(world, follower, 1, "");
    client_session(world, third, 1, "");
    snprintf(token, sizeof token, "%s",
             client_ask(world, follower, 1, "LOCK.ACQUIRE a REQ 1"));
    client_clear(world, third, 1);
    client_send(world, third, 1, "LOCK.ACQUIRE a WAIT FOREVER REQ 1");
    world_run(world, 30);
    node_kill(world, leader);
    uint64_t successor = world_elect(world);
    assert_answer(world, follower, 1, token, "LOCK.ACQUIRE a REQ 1");
    client_open(world, successor, 2);
    client_ask(world, successor, 2, "LOCK.SHOW a");
    assert_int_equal(answer_number(world, successor, 2, "session"), holder.id);
    assert_int_equal(world->node[third].client[1].output.size, 0);
    assert_answer(world, follower, 1, ":0\r\n", "LOCK.RELEASE a REQ 2");
    world_run(world, 20);
    assert_int_equal(client_text(world, third, 1)[0], ':');
}

static void a_change_under_way_is_unknown_or_asked_again(void **state)
{
    (void)state;
    client_session(world, follower, 1, "");
    client_open(world, follower, 2);
    client_session(world, follower, 2, "");
    client_clear(world, follower, 1);
    client_clear(world, follower, 2);
    client_send(world, follower, 1, "LOCK.ACQUIRE a");
    client_send(world, follower, 2, "LOCK.ACQUIRE b REQ 1");
    world_step(world);
    node_kill(world, leader);
    world_run(world, 3000);
    assert_memory_equal(client_text(world, follower, 1), "-UNKNOWN ", 9);
    assert_int_equal(client_text(world, follower, 2)[0], ':');
}

static void without_a_majority_nothing_is_answered(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 60000");
    client_open(world, leader, 2);
    client_open(world, leader, 3);
    client_clear(world, leader, 1);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    client_send(world, leader, 2, "LOCK.SHOW a");
    client_send(world, leader, 3, "SESSION.ATTACH 1 00");
    world_run(world, 150); /* It still believes that it leads. */
    for (uint64_t conn = 1; conn <= 3; conn++) {
        assert_int_equal(world->node[leader].client[conn].output.size, 0);
    }
    world_run(world, 6000);
    for (uint64_t conn = 1; conn <= 3; conn++) {
        assert_memory_equal(client_text(world, leader, conn), "-NOLEADER ", 10);
    }
}

static void a_deposed_leader_asks_its_successor(void **state)
{
    (void)state;
    struct credentials session = client_session(world, leader, 1, "TTL 60000");
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    client_clear(world, leader, 1);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    client_send(world, leader, 1, "LOCK.ACQUIRE b REQ 2");
    client_send(world, leader, 1, "LOCK.ACQUIRE c");
    uint64_t old = depose();
    world_cut(world, old, false);
    world_run(world, 1000);
    const char *text = client_text(world, old, 1);
    assert_non_null(strstr(text, KEEP_TIMES("60000", "0", "48000") ":"));
    assert_non_null(strstr(text, "-UNKNOWN "));
    client_ask(world, old, 1, "LOCK.SHOW a");
    assert_int_equal(answer_number(world, old, 1, "session"), session.id);
}

static void a_dead_clients_lock_passes_on_after_its_lease(void **state)
{
    (void)state;
    client_session(world, follower, 1, "TTL 1000");
    client_ask(world, follower, 1, "LOCK.ACQUIRE a");
    uint64_t opened_ms = world->now_ms;
    client_session(world, third, 1, "TTL 60000");
    client_clear(world, third, 1);
    client_send(world, third, 1, "LOCK.ACQUIRE a WAIT FOREVER");
    while (world->node[third].client[1].output.size == 0) {
        world_run(world, 1);
    }
    assert_in_range(world->now_ms - opened_ms, 950, 1100);
}

static void a_new_leader_gives_a_full_lease_less_the_quiet_time(void **state)
{
    (void)state;
    struct credentials quiet = client_session(world, follower, 1, "TTL 4000");
    struct credentials heard = client_session(world, third, 1, "TTL 4000");
    world_run(world, 2100); /* Marked at T/4; then TIME moves the clock. */
    client_ask(world, third, 1, "SESSION.KEEP FULL");
    node_kill(world, leader);
    leader = world_elect(world);
    client_open(world, leader, 2);
    client_ask(world, leader, 2, "SESSION.SHOW %llu", ID(quiet));
    int64_t left_ms = answer_number(world, leader, 2, "left_ms");
    assert_in_range(left_ms, 1900, 2050);
    client_ask(world, leader, 2, "SESSION.SHOW %llu", ID(heard));
    left_ms = answer_number(world, leader, 2, "left_ms");
    assert_in_range(left_ms, 3900, 4000);
}

/* The number of entries of the log at node 'id'. */
static uint64_t last_index(uint64_t id)
{
    return replica_last_index(core_replica(world->node[id].core));
}

static void a_marked_sessions_heartbeat_is_logged_first(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 4000");
    uint64_t before = last_index(leader);
    client_ask(world, leader, 1, "SESSION.KEEP FULL");
    assert_int_equal(last_index(leader), before);
    world_run(world, 1100);
    assert_int_equal(last_index(leader), before + 1); /* TIME */
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world_step(world);
    assert_int_equal(last_index(leader), before + 2); /* HEARD */
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    world_run(world, 10);
    assert_string_equal(client_text(world, leader, 1),
                        KEEP_TIMES("4000", "0", "3200"));
    client_ask(world, leader, 1, "SESSION.KEEP FULL");
    assert_int_equal(last_index(leader), before + 2);
}

static void
a_doomed_session_hears_nothing_before_its_end_is_applied(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 1000");
    client_clear(world, leader, 1);
    uint64_t before = last_index(leader);
    /* Until its EXPIRE has been proposed; its mark before that. */
    uint64_t proposed = before;
    for (int i = 0; i < 1100 && world->now_ms != 0; i++) {
        world_run(world, 1);
        proposed = last_index(leader);
        if (proposed >= before + 2) {
            break;
        }
    }
    assert_int_equal(proposed, before + 2);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world_run(world, 100);
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    uint64_t old = depose();
    world_cut(world, old, false);
    world_run(world, 300);
    /* The successor may have the EXPIRE or not: either way the answer is
     * certain. */
    const char *text = client_text(world, old, 1);
    assert_true(strcmp(text, "-EXPIRED the session has ended\r\n") == 0 ||
                strcmp(text, KEEP_TIMES("1000", "0", "800")) == 0);
}

static void stick_disks(bool is_stuck)
{
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].is_disk_stuck = is_stuck;
    }
}

static void a_doomed_session_is_not_answered_ok(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 1000");
    client_clear(world, leader, 1);
    /* Leadership can be confirmed all the time, but no entry is committed. */
    world_run(world, 960);
    stick_disks(true);
    uint64_t before = last_index(leader);
    for (int i = 0; i < 100 && last_index(leader) == before; i++) {
        world_run(world, 1);
    }
    assert_int_equal(last_index(leader), before + 1);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world_run(world, 50);
    assert_true(core_is_serving(world->node[leader].core));
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    stick_disks(false);
    world_run(world, 20);
    assert_string_equal(client_text(world, leader, 1),
                        "-EXPIRED the session has ended\r\n");
}

static void
a_session_doomed_since_its_heartbeat_is_not_answered_ok(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 100");
    client_clear(world, leader, 1);
    world_run(world, 40); /* It has been marked. */
    stick_disks(true);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    uint64_t before = last_index(leader);
    world_run(world, 130); /* HEARD waits for the disks; then the deadline. */
    assert_true(core_is_serving(world->node[leader].core));
    assert_true(last_index(leader) > before + 1);
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    stick_disks(false);
    world_run(world, 20);
    assert_string_equal(client_text(world, leader, 1),
                        "-EXPIRED the session has ended\r\n");
}

/* Blacklisted when its heartbeat arrived, and no longer when that is
 * answered. */
static void a_pardoned_heartbeat_has_moved_the_deadline(void **state)
{
    (void)state;
    struct credentials c = client_session(world, leader, 1, "TTL 4000");
    client_open(world, leader, 2);
    client_ask(world, leader, 2, "BLACKLIST.ADD SESSION %llu", ID(c));
    world_run(world, 2000);
    client_clear(world, leader, 1);
    client_clear(world, leader, 2);
    client_send(world, leader, 2, "BLACKLIST.REMOVE SESSION %llu", ID(c));
    world_run(world, 2);
    assert_int_equal(world->node[leader].client[2].output.size, 0);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world_run(world, 20);
    assert_string_equal(client_text(world, leader, 1),
                        KEEP_TIMES("4000", "0", "3200"));
    client_ask(world, leader, 2, "SESSION.SHOW %llu", ID(c));
    assert_in_range(answer_number(world, leader, 2, "left_ms"), 3950, 4000);
}

static void a_leader_that_cannot_be_sure_expires_nobody(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 1000");
    world_run(world, 930);
    world_cut(world, leader, true);
    uint64_t before = last_index(leader);
    world_run(world, 110); /* The deadline passes; it still leads. */
    assert_true(core_is_serving(world->node[leader].core));
    assert_int_equal(last_index(leader), before);
}

/* Three questions are asked before the first is answered. */
static void on_a_slow_network_the_dead_expire_among_those_who_live(void **state)
{
    (void)state;
    world->latency_ms = 50;
    struct credentials dead = client_session(world, leader, 1, "TTL 1000");
    client_open(world, leader, 2);
    client_session(world, leader, 2, "TTL 60000");
    for (int i = 0; i < 130; i++) {
        client_clear(world, leader, 2);
        client_send(world, leader, 2, "SESSION.KEEP");
        world_run(world, 10);
    }
    assert_true(core_is_serving(world->node[leader].core));
    assert_null(lockfsm_session(core_state(world->node[leader].core), dead.id));
}

static void a_value_whose_session_is_doomed_is_not_renewed(void **state)
{
    (void)state;
    assert_answer(world, leader, 1, "+OK\r\n", "SET k v NX PX 20");
    client_clear(world, leader, 1);
    stick_disks(true);
    client_send(world, leader, 1, "SET k v NX AGAIN PX 20");
    world_run(world, 100);
    assert_true(core_is_serving(world->node[leader].core));
    stick_disks(false);
    world_run(world, 20);
    assert_string_equal(client_text(world, leader, 1),
                        "-UNKNOWN done, but its lease ends\r\n");
    assert_answer(world, leader, 1, "$-1\r\n", "GET k");
}

static void a_renewal_moves_the_deadline_on_its_receipt(void **state)
{
    (void)state;
    assert_answer(world, leader, 1, "+OK\r\n", "SET k v NX PX 80");
    client_clear(world, leader, 1);
    world_run(world, 80); /* The lease is 105 ms. */
    stick_disks(true);
    client_send(world, leader, 1, "SET k v NX AGAIN PX 80");
    world_run(world, 60);
    stick_disks(false);
    world_run(world, 10);
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n");
    assert_answer(world, leader, 1, "$1\r\nv\r\n", "GET k");
}

static void a_close_at_a_follower_lets_the_session_linger(void **state)
{
    (void)state;
    struct credentials session = client_session(world, follower, 1,
                                                "TTL 10000 LINGER 300");
    client_open(world, third, 2);
    client_ask(world, third, 2, "SESSION.ATTACH %llu %s", ID(session),
               session.secret);
    client_close(world, follower, 1);
    world_run(world, 20);
    client_ask(world, leader, 1, "SESSION.SHOW %llu", ID(session));
    assert_true(answer_number(world, leader, 1, "left_ms") > 9000);
    client_close(world, third, 2);
    world_run(world, 20);
    client_ask(world, leader, 1, "SESSION.SHOW %llu", ID(session));
    assert_in_range(answer_number(world, leader, 1, "left_ms"), 200, 300);
    world_run(world, 400);
    assert_answer(world, leader, 1, "-NOSESSION no such session\r\n",
                  "SESSION.SHOW %llu", ID(session));
}

static void a_close_during_an_election_is_told_to_the_next_leader(void **state)
{
    (void)state;
    struct credentials session = client_session(world, follower, 1,
                                                "TTL 10000 LINGER 300");
    node_kill(world, leader);
    client_close(world, follower, 1);
    leader = world_elect(world);
    client_open(world, leader, 2);
    world_run(world, 5);
    client_ask(world, leader, 2, "SESSION.SHOW %llu", ID(session));
    assert_in_range(answer_number(world, leader, 2, "left_ms"), 100, 300);
}

static void a_leader_that_comes_back_knows_no_old_connections(void **state)
{
    (void)state;
    uint64_t first = leader, at = follower;
    struct credentials session = client_session(world, at, 1,
                                                "TTL 10000 LINGER 300");
    assert_answer(world, first, 1, "+OK\r\n", "RAFT.TRANSFER %d", (int)third);
    find_roles();
    assert_int_not_equal(leader, first);
    /* The connection that 'first' knows of closes under another leader, which
     * has heard of a later one. */
    client_open(world, leader, 2);
    assert_answer(world, leader, 2, "+OK\r\n", "SESSION.ATTACH %llu %s",
                  ID(session), session.secret);
    client_close(world, at, 1);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %d", (int)first);
    uint64_t second = leader;
    leader = world_elect(world);
    assert_int_equal(leader, first);
    assert_string_not_equal(client_ask(world, second, 2, "SESSION.KEEP"), "");
    client_close(world, second, 2);
    world_run(world, 20);
    client_ask(world, leader, 1, "SESSION.SHOW %llu", ID(session));
    assert_in_range(answer_number(world, leader, 1, "left_ms"), 100, 300);
}

static void a_lost_peer_link_is_no_close(void **state)
{
    (void)state;
    struct credentials session = client_session(world, follower, 1,
                                                "TTL 10000 LINGER 300");
    world_cut(world, follower, true);
    world_run(world, 50);
    client_ask(world, leader, 1, "SESSION.SHOW %llu", ID(session));
    assert_true(answer_number(world, leader, 1, "left_ms") > 9000);
}

static void a_stalled_leader_reads_before_it_expires(void **state)
{
    (void)state;
    struct credentials session = client_session(world, follower, 1, "TTL 1000");
    /* The leader pauses past the deadline, with the heartbeat unread in its
     * socket; the others are cut off from each other, so it stays leader. */
    world->cut[follower][third] = world->cut[third][follower] = true;
    links_update(world);
    world_run(world, 700);
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "SESSION.KEEP FULL");
    world_step(world);
    world->now_ms += 600;
    world_run(world, 50);
    client_ask(world, leader, 1, "SESSION.SHOW %llu", ID(session));
    assert_true(answer_number(world, leader, 1, "left_ms") > 500);
    assert_string_equal(client_text(world, follower, 1),
                        KEEP_TIMES("1000", "0", "800"));
}

static void after_a_stall_nobody_expires_before_all_is_read(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 1000");
    world->cut[follower][third] = world->cut[third][follower] = true;
    links_update(world);
    world_run(world, 800);
    world->now_ms += 600;
    world->node[leader].has_unread = true;
    world_run(world, 30); /* Longer than a confirmation takes. */
    assert_true(core_is_serving(world->node[leader].core));
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "SESSION.KEEP FULL");
    world->node[leader].has_unread = false;
    world_run(world, 20);
    assert_string_equal(client_text(world, leader, 1),
                        KEEP_TIMES("1000", "0", "800"));
}

static void a_late_answer_does_not_reach_another_clients_place(void **state)
{
    (void)state;
    client_open(world, leader, 2);
    client_session(world, leader, 2, "");
    client_ask(world, leader, 2, "LOCK.ACQUIRE a");
    client_ask(world, leader, 2, "LOCK.ACQUIRE b");
    client_session(world, follower, 1, "");
    client_send(world, follower, 1, "LOCK.ACQUIRE a WAIT FOREVER");
    world_run(world, 20);
    /* The follower's process starts counting connections from 1 again. */
    node_kill(world, follower);
    node_start(world, follower);
    links_update(world);
    world_run(world, 200);
    client_open(world, follower, 1);
    client_session(world, follower, 1, "");
    client_clear(world, follower, 1);
    client_send(world, follower, 1, "LOCK.ACQUIRE b WAIT FOREVER");
    world_run(world, 20);
    assert_answer(world, leader, 2, ":0\r\n", "LOCK.RELEASE a");
    world_run(world, 20);
    assert_int_equal(world->node[follower].client[1].output.size, 0);
}

static void very_many_sessions_expire_without_a_change_of_leader(void **state)
{
    (void)state;
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    for (uint64_t conn = 2; conn < 62; conn++) {
        client_open(world, leader, conn);
        for (int i = 0; i < 50; i++) {
            client_send(world, leader, conn, "SESSION.OPEN TTL 2000");
        }
    }
    world_run(world, 1000);
    assert_int_equal(
        HASH_CNT(by_id, lockfsm_sessions(core_state(world->node[leader].core))),
        3000);
    world_run(world, 1600);
    assert_null(lockfsm_sessions(core_state(world->node[leader].core)));
    assert_int_equal(replica_term(core_replica(world->node[leader].core)),
                     term);
}

static void a_transfer_moves_leadership_and_says_ok(void **state)
{
    (void)state;
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  (unsigned long long)follower);
    assert_int_equal(world_elect(world), follower);
    assert_answer(world, third, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  (unsigned long long)leader);
    assert_int_equal(world_elect(world), leader);
    assert_answer(world, leader, 1,
                  "-BADARG raft.transfer: no voter has that id\r\n",
                  "RAFT.TRANSFER 9");
}

static void a_transfer_takes_the_quiet_time_along(void **state)
{
    (void)state;
    struct credentials quiet = client_session(world, third, 1, "TTL 4000");
    world_run(world, 1900); /* It was marked at 1000. */
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  (unsigned long long)follower);
    assert_int_equal(world_elect(world), follower);
    client_ask(world, follower, 1, "SESSION.SHOW %llu", ID(quiet));
    /* The unmeasured part is the time until the next heartbeat that reports a
     * commit. */
    assert_in_range(answer_number(world, follower, 1, "left_ms"), 1900, 2150);
}

static void writes_go_on_over_a_transfer(void **state)
{
    (void)state;
    client_session(world, follower, 1, "");
    client_open(world, leader, 2);
    client_send(world, leader, 2, "RAFT.TRANSFER");
    for (int i = 0; i < 200; i++) {
        assert_int_equal(client_ask(world, follower, 1,
                                    "LOCK.ACQUIRE a REQ %d ACKED %d", 2 * i + 1,
                                    2 * i)[0],
                         ':');
        assert_answer(world, follower, 1, ":0\r\n",
                      "LOCK.RELEASE a REQ %d ACKED %d", 2 * i + 2, 2 * i + 1);
    }
    assert_string_equal(client_text(world, leader, 2), "+OK\r\n");
    assert_int_not_equal(world_leader(world), leader);
}

static void a_clean_stop_hands_leadership_over(void **state)
{
    (void)state;
    core_stop(world->node[leader].core, world->now_ms * MS);
    for (int i = 0; i < 1000; i++) {
        world_run(world, 1);
        if (core_is_quiet(world->node[leader].core)) {
            break;
        }
    }
    assert_true(core_is_quiet(world->node[leader].core));
    assert_int_not_equal(world_elect(world), leader);
}

/* An election takes 12 ms here. */
static void what_a_stopping_leader_refuses_goes_on_at_once(void **state)
{
    (void)state;
    uint64_t other[] = {third, follower};
    for (int i = 0; i < 2; i++) {
        client_session(world, other[i], 1, "");
    }
    core_stop(world->node[leader].core, world->now_ms * MS);
    for (int i = 0; i < 2; i++) {
        client_clear(world, other[i], 1);
        client_send(world, other[i], 1, "LOCK.ACQUIRE a%d REQ 1", i);
    }
    world_run(world, 15);
    assert_int_not_equal(world_leader(world), leader);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_text(world, other[i], 1)[0], ':');
    }
}

static void a_snapshot_names_no_member_that_is_not_committed(void **state)
{
    (void)state;
    world_cut(world, leader, true);
    client_send(world, leader, 1,
                "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY INCARNATION "
                "0000000000012ccc");
    world_run(world, 10);
    client_open(world, leader, 2);
    client_send(world, leader, 2, "RAFT.SNAPSHOT");
    world_run(world, 10);
    assert_int_equal(world->node[leader].snapshot_members_index, 1);
}

static void a_member_joins_by_snapshot_and_is_promoted(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 60000");
    for (int i = 0; i < 300; i++) {
        client_ask(world, leader, 1, "LOCK.ACQUIRE n%d", i);
    }
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    /* As if the log had been trimmed up to it. */
    node_start(world, 4);
    links_update(world);
    client_clear(world, leader, 1);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    world_run(world, 300);
    client_open(world, 4, 1);
    assert_non_null(strstr(client_ask(world, 4, 1, "RAFT.STATUS"),
                           "127.0.0.1:7104,127.0.0.1:7204\r\n$4\r\nrole\r\n$5"
                           "\r\nvoter"));
    assert_int_equal(lockfsm_hash(core_state(world->node[4].core)),
                     lockfsm_hash(core_state(world->node[leader].core)));
    assert_true(core_names(world->node[leader].core, 4, WORLD_DIRECTORY(4)));
    assert_answer(world, follower, 1, "+OK\r\n", "RAFT.REMOVE 4");
    world_run(world, 20);
    assert_false(core_names(world->node[leader].core, 4, WORLD_DIRECTORY(4)));
    assert_answer(
        world, leader, 1,
        "-BADARG raft.remove: this member is the leader: hand leadership over "
        "with RAFT.TRANSFER first\r\n",
        "RAFT.REMOVE %llu", (unsigned long long)leader);
}

static void a_member_that_does_not_come_stays_a_standby(void **state)
{
    (void)state;
    client_send(world, leader, 1,
                "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 INCARNATION "
                "0000000000012ccc");
    world_run(world, 9900);
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    world_run(world, 300);
    assert_memory_equal(client_text(world, leader, 1),
                        "-UNFINISHED member 4 is a standby and is "
                        "not connected: start it, and ",
                        67);
    assert_answer(
        world, follower, 1,
        "-BADARG raft.add: a member has this id, address or data directory "
        "already: to replace it, remove it first\r\n",
        "RAFT.ADD 4 127.0.0.1:1,127.0.0.1:2");
    node_start(world, 4);
    links_update(world);
    world_run(world, 200);
    /* OK means that the next change can follow at once. */
    world_cut(world, 4, true);
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.PROMOTE 4");
    client_send(world, leader, 1,
                "RAFT.ADD 5 127.0.0.1:7105,127.0.0.1:7205 STANDBY "
                "INCARNATION 0000000000012ccd");
    client_send(world, leader, 1, "RAFT.REMOVE 5");
    world_run(world, 200);
    assert_int_equal(world->node[leader].client[1].output.size, 0);
    world_cut(world, 4, false);
    world_run(world, 500);
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n+OK\r\n+OK\r\n");
    assert_answer(world, follower, 1, "+OK\r\n", "RAFT.PROMOTE 4");
    assert_answer(world, follower, 1, "+OK\r\n", "RAFT.DEMOTE 4");
    assert_non_null(strstr(client_ask(world, leader, 1, "RAFT.STATUS"),
                           "$4\r\nrole\r\n$7\r\nstandby\r\n"));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
    assert_answer(world, follower, 1, "+OK\r\n", "RAFT.REMOVE 4");
    assert_answer(world, leader, 1,
                  "-BADARG raft.demote: no member has that id\r\n",
                  "RAFT.DEMOTE 4");
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu",
                  (unsigned long long)third);
    assert_answer(
        world, leader, 1,
        "-BADARG raft.remove: that would leave fewer than two voters\r\n",
        "RAFT.REMOVE %llu", (unsigned long long)follower);
}

static void a_leader_whose_disk_is_scarce_hands_over(void **state)
{
    (void)state;
    core_disk_is(world->node[leader].core, CORE_DISK_FULL, world->now_ms * MS);
    world_run(world, 1000);
    assert_int_not_equal(world_elect(world), leader);
    /* If all nodes are short of room, leadership does not keep moving. */
    for (uint64_t id = 1; id <= 3; id++) {
        core_disk_is(world->node[id].core, CORE_DISK_FULL, world->now_ms * MS);
    }
    uint64_t term = replica_term(core_replica(world->node[leader].core));
    world_run(world, 10000);
    assert_true(replica_term(core_replica(world->node[leader].core)) <=
                term + 4);
}

static void a_leader_whose_disk_hangs_hands_over(void **state)
{
    (void)state;
    client_session(world, leader, 1, "TTL 4000");
    world_run(world, 1500);
    world->node[leader].is_disk_stuck = true;
    client_send(world, leader, 1, "LOCK.ACQUIRE a");
    core_disk_is(world->node[leader].core, CORE_DISK_FULL, world->now_ms * MS);
    world_run(world, 600);
    assert_false(core_is_serving(world->node[leader].core));
    assert_int_not_equal(world_elect(world), leader);
}

/* It receives only a snapshot, which contains the cluster's id (core_world.h
 * checks after each step). */
static void who_joins_by_a_snapshot_learns_the_clusters_id(void **state)
{
    (void)state;
    tear_down(NULL);
    world = world_new(3);
    world->limits.requests_in_flight = 40;
    world->limits.own_in_flight = 24;
    world_found(world);
    find_roles();
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    for (int i = 0; i < 400; i++) {
        client_ask(world, leader, 1, "LOCK.ACQUIRE n%d", i);
    }
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    assert_true(world->node[leader].log.first > 10);
    node_start(world, 4);
    links_update(world);
    client_clear(world, leader, 1);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    assert_true(world->node[4].snapshot_index > 10);
    assert_true(cluster_id_equal(world->node[4].cluster_id,
                                 world->node[leader].cluster_id));
}

/* Releases are not bounded by requests_in_flight, and the node's own entries
 * are never refused. */
static void releases_leave_room_for_the_nodes_own_entries(void **state)
{
    (void)state;
    tear_down(NULL);
    world = world_new(3);
    world->limits.requests_in_flight = 16;
    world->limits.own_in_flight = 8;
    world_found(world);
    find_roles();
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 2000");
    client_open(world, leader, 2);
    client_session(world, leader, 2, "TTL 60000");
    world->node[follower].is_disk_stuck = true;
    world->node[third].is_disk_stuck = true;
    client_clear(world, leader, 2);
    for (int i = 0; i < 100; i++) {
        client_send(world, leader, 2, "LOCK.RELEASE n%d", i);
        world_run(world, 1);
    }
    /* The session of client 1 is quiet: TIME is proposed, and cannot be
     * committed. */
    world_run(world, 1500);
    assert_true(core_is_serving(world->node[leader].core));
    world->node[follower].is_disk_stuck = false;
    world->node[third].is_disk_stuck = false;
    world_run(world, 1000);
    assert_true(core_is_serving(world->node[leader].core));
    assert_non_null(strstr(client_text(world, leader, 2),
                           "-BUSY too many entries are in flight"));
    client_clear(world, leader, 2);
    assert_non_null(
        strstr(client_ask(world, leader, 2, "LOCK.RELEASE n1"), "-NOTHELD"));
}

static void moved_names_the_leader_and_the_slot(void **state)
{
    (void)state;
    tear_down(NULL);
    world = world_new(3);
    world->redirect = REDIRECT_MOVED;
    world_found(world);
    find_roles();
    world_run(world, 100);
    client_open(world, follower, 1);
    char expected[64];
    snprintf(expected, sizeof expected, "-MOVED 15495 127.0.0.1:%d\r\n",
             7200 + (int)leader);
    assert_answer(world, follower, 1, expected, "LOCK.SHOW a");
}

static void every_node_serves_its_own_watchers(void **state)
{
    (void)state;
    client_ask(world, follower, 1, "HELLO 3");
    client_ask(world, follower, 1, "LOCK.WATCH a");
    client_clear(world, follower, 1);
    client_session(world, third, 1, "");
    client_ask(world, third, 1, "LOCK.ACQUIRE abc");
    world_run(world, 100);
    assert_non_null(strstr(client_text(world, follower, 1),
                           ">3\r\n$4\r\nlock\r\n$7\r\ngranted\r\n"));
}

/* The leader reports it. The follower learns of the commit only with the next
 * message, and reports it then. The duplicate is harmless. */
static void a_push_reaches_a_follower_from_the_leader_too(void **state)
{
    int count = 0;
    (void)state;
    client_ask(world, follower, 1, "HELLO 3");
    client_session(world, follower, 1, "");
    client_session(world, leader, 1, "");
    client_ask(world, leader, 1, "LOCK.ACQUIRE a");
    client_ask(world, follower, 1, "LOCK.ACQUIRE a WAIT FOREVER PUSH REQ 1");
    client_clear(world, follower, 1);
    client_ask(world, leader, 1, "LOCK.RELEASE a");
    world_run(world, 1000);
    const char *at = client_text(world, follower, 1);
    for (; (at = strstr(at, "tokens")) != NULL; at++) {
        count++;
    }
    assert_int_equal(count, 2);
}

#define cluster(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster(a_follower_forwards_and_answers),
        cluster(answers_of_forwarded_requests_keep_their_order),
        cluster(the_holder_and_the_queue_survive_the_leaders_death),
        cluster(a_change_under_way_is_unknown_or_asked_again),
        cluster(without_a_majority_nothing_is_answered),
        cluster(a_deposed_leader_asks_its_successor),
        cluster(a_dead_clients_lock_passes_on_after_its_lease),
        cluster(a_new_leader_gives_a_full_lease_less_the_quiet_time),
        cluster(a_marked_sessions_heartbeat_is_logged_first),
        cluster(a_doomed_session_hears_nothing_before_its_end_is_applied),
        cluster(a_doomed_session_is_not_answered_ok),
        cluster(a_session_doomed_since_its_heartbeat_is_not_answered_ok),
        cluster(a_pardoned_heartbeat_has_moved_the_deadline),
        cluster(a_leader_that_cannot_be_sure_expires_nobody),
        cluster(on_a_slow_network_the_dead_expire_among_those_who_live),
        cluster(a_value_whose_session_is_doomed_is_not_renewed),
        cluster(a_renewal_moves_the_deadline_on_its_receipt),
        cluster(a_close_at_a_follower_lets_the_session_linger),
        cluster(a_close_during_an_election_is_told_to_the_next_leader),
        cluster(a_leader_that_comes_back_knows_no_old_connections),
        cluster(a_lost_peer_link_is_no_close),
        cluster(a_stalled_leader_reads_before_it_expires),
        cluster(after_a_stall_nobody_expires_before_all_is_read),
        cluster(a_late_answer_does_not_reach_another_clients_place),
        cluster(very_many_sessions_expire_without_a_change_of_leader),
        cluster(a_transfer_moves_leadership_and_says_ok),
        cluster(a_transfer_takes_the_quiet_time_along),
        cluster(writes_go_on_over_a_transfer),
        cluster(a_snapshot_names_no_member_that_is_not_committed),
        cluster(a_clean_stop_hands_leadership_over),
        cluster(what_a_stopping_leader_refuses_goes_on_at_once),
        cluster(a_member_joins_by_snapshot_and_is_promoted),
        cluster(a_member_that_does_not_come_stays_a_standby),
        cluster(a_leader_whose_disk_is_scarce_hands_over),
        cluster(a_leader_whose_disk_hangs_hands_over),
        cluster(who_joins_by_a_snapshot_learns_the_clusters_id),
        cluster(releases_leave_room_for_the_nodes_own_entries),
        cluster(moved_names_the_leader_and_the_slot),
        cluster(every_node_serves_its_own_watchers),
        cluster(a_push_reaches_a_follower_from_the_leader_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
