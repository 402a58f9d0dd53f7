/* SPDX-License-Identifier: MIT */

/* Limits of the state: whatever the nodes' files contain, every node applies an
 * entry with the same result. */

#include <unistd.h>

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static uint64_t other_than(uint64_t a, uint64_t b)
{
    uint64_t id = 1;
    while (id == a || id == b) {
        id++;
    }
    return id;
}

static void check_equal_states(void)
{
    world_run(world, 300);
    for (uint64_t id = 2; id <= world->node_count; id++) {
        const struct lockfsm *one = core_state(world->node[1].core);
        const struct lockfsm *other = core_state(world->node[id].core);
        assert_int_equal(lockfsm_applied_index(one),
                         lockfsm_applied_index(other));
        assert_true(lockfsm_hash(one) == lockfsm_hash(other));
    }
}

/* The table as after a crash of the machine: the contents of the snapshot. */
static void restore_table(struct world_node *node)
{
    struct table_txn *txn;
    assert_int_not_equal(node->snapshot_index, 0);
    assert_int_equal(table_begin_write(node->table, &txn), 0);
    assert_int_equal(snapshot_decode(buffer_bytes(&node->snapshot), txn), 0);
    assert_int_equal(table_commit(txn), 0);
}

/* Node 1 has another limit in its file, whichever node leads. */
static void files_that_differ_make_no_second_holder(void **state)
{
    (void)state;
    static const struct lockfsm_limits small = {{[LIMIT_LOCKS] = 1}};
    world = world_new(3);
    world->founding[1] = &small;
    world_found(world);
    leader = world_elect(world);
    for (int round = 0; round < 3; round++) {
        uint64_t next = other_than(leader, 0);
        next = round == 1 ? other_than(leader, next) : next;
        client_open(world, leader, 1);
        client_session(world, leader, 1, "TTL 60000");
        client_ask(world, leader, 1, "LOCK.ACQUIRE a");
        client_ask(world, leader, 1, "LOCK.ACQUIRE b");
        check_equal_states();
        client_ask(world, leader, 1, "RAFT.TRANSFER %llu",
                   (unsigned long long)next);
        leader = world_elect(world);
    }
    node_kill(world, 1);
    node_start(world, 1);
    links_update(world);
    check_equal_states();
}

/* Requests refused or accepted under the limit of their time have the same
 * result again. */
static void
entries_behind_a_snapshot_are_applied_under_their_limits(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    leader = world_elect(world);
    client_open_as(world, leader, 1, &(struct identity){.way = IDENTITY_LOCAL});
    client_session(world, leader, 1, "TTL 60000");
    assert_answer(world, leader, 1, "+OK\r\n", "LIMITS.SET locks 2");
    client_ask(world, leader, 1, "LOCK.ACQUIRE a");
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    client_ask(world, leader, 1, "LOCK.ACQUIRE b");
    assert_answer(world, leader, 1, "-LIMIT locks\r\n", "LOCK.ACQUIRE c");
    assert_answer(world, leader, 1, "+OK\r\n", "LIMITS.SET locks 9");
    client_ask(world, leader, 1, "LOCK.ACQUIRE d");
    assert_answer(world, leader, 1, "+OK\r\n", "LIMITS.SET locks 1");
    assert_answer(world, leader, 1, "-LIMIT locks\r\n", "LOCK.ACQUIRE e");
    world_run(world, 300);
    node_kill(world, leader);
    table_close(world->node[leader].table); /* It has applied the log. */
    world->node[leader].table = table_new_memory();
    restore_table(&world->node[leader]);
    node_start(world, leader);
    links_update(world);
    check_equal_states();
    const struct lockfsm *fsm = core_state(world->node[leader].core);
    assert_non_null(lockfsm_lock(fsm, BYTES_LITERAL("d")));
    assert_null(lockfsm_lock(fsm, BYTES_LITERAL("c")));
    assert_int_equal(lockfsm_limit(fsm, LIMIT_LOCKS), 1);
}

/* LMDB cannot grow while a snapshot reads it: then the log has entries that the
 * table lacks, and the node continues. */
static void a_full_table_that_is_read_is_flushed_later(void **state)
{
    (void)state;
    static char value[VALUE_SIZE_MAX + 1];
    char folder[64], path[128], why[HASP_WHY_SIZE] = "";
    const char *base = getenv("TMPDIR");
    struct table_txn *reader;
    memset(value, 'v', VALUE_SIZE_MAX);
    snprintf(folder, sizeof folder, "%.40s/hasp-core-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    world = world_new(1);
    table_close(world->node[1].table);
    assert_int_equal(
        table_open_lmdb(folder, 1 << 20, &world->node[1].table, why), 0);
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    client_session(world, 1, 1, "TTL 60000");
    world_run(world, 300);
    const struct lockfsm *fsm = core_state(world->node[1].core);
    assert_int_equal(lockfsm_dirty_count(fsm), 0);
    assert_int_equal(table_begin_read(world->node[1].table, &reader), 0);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(
            client_ask(world, 1, 1, "LOCK.ACQUIRE l%d VALUE %s", i, value)[0],
            ':');
    }
    world_run(world, 3000);
    assert_int_equal(world->node[1].fatal_code, 0);
    assert_true(lockfsm_dirty_count(fsm) > 200);
    table_abort(reader);
    world_run(world, 1500);
    assert_int_equal(lockfsm_dirty_count(fsm), 0);
    assert_int_equal(world->node[1].fatal_code, 0);
    uint64_t hash = lockfsm_hash(fsm);
    node_kill(world, 1);
    node_start(world, 1);
    assert_true(lockfsm_hash(core_state(world->node[1].core)) == hash);
    node_kill(world, 1);
    table_close(world->node[1].table);
    world->node[1].table = table_new_memory();
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/lock.mdb", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(files_that_differ_make_no_second_holder,
                                  tear_down),
        cmocka_unit_test_teardown(
            entries_behind_a_snapshot_are_applied_under_their_limits,
            tear_down),
        cmocka_unit_test_teardown(a_full_table_that_is_read_is_flushed_later,
                                  tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
