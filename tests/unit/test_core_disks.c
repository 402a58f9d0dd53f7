/* SPDX-License-Identifier: MIT */

/* Disks of different speed: a slow one is reported, and its node does not
 * lead. */

#include "base/log.h"
#include "tests/unit/core_world.h"

static struct world *world;
static uint32_t said_slow, said_fast, handed_over;

static void note_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    (void)data;
    (void)level;
    said_slow += strcmp(event, "flushes are slow") == 0;
    said_fast += strcmp(event, "flushes are no longer slow") == 0;
    handed_over += strcmp(event, "leadership is handed over") == 0 &&
                   strstr(fields, "a flush of this node's disk takes") != NULL;
}

static int set_up(void **state)
{
    (void)state;
    said_slow = said_fast = handed_over = 0;
    log_set_sink(note_line, NULL);
    world = world_new(3);
    world_found(world);
    world_elect(world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_sink(NULL, NULL);
    world_free(world);
    return 0;
}

/* --- Helpers -------------------------------------------------------------- */

#define CONN 1

static void open_clients(void)
{
    for (uint64_t id = 1; id <= 3; id++) {
        client_open(world, id, CONN);
    }
}

/* Makes changes one at a time, at the current leader, for this long. */
static void work(uint64_t ms)
{
    uint64_t until_ms = world->now_ms + ms;
    while (world->now_ms < until_ms) {
        uint64_t leader = world_leader(world);
        if (leader == 0) {
            world_run(world, 10);
            continue;
        }
        client_ask(world, leader, CONN, "SET k v PX 1000");
        world_run(world, 1);
    }
}

static void set_flushes(uint64_t one, uint64_t two, uint64_t three)
{
    world->node[1].flush_ms = one;
    world->node[2].flush_ms = two;
    world->node[3].flush_ms = three;
}

static void let_lead(uint64_t id)
{
    uint64_t leader = world_leader(world);
    if (leader != id) {
        client_ask(world, leader, CONN, "RAFT.TRANSFER %d", (int)id);
        world_run(world, 200);
    }
    assert_int_equal(world_leader(world), id);
}

/* --- Tests ---------------------------------------------------------------- */

static void fast_disks_are_no_news(void **state)
{
    (void)state;
    open_clients();
    let_lead(1);
    set_flushes(20, 1, 1);
    work(60000);
    assert_int_equal(world_leader(world), 1);
    assert_int_equal(said_slow + handed_over, 0);
}

static void a_slow_disk_is_said_and_does_not_lead(void **state)
{
    uint64_t us, to;
    uint32_t count;
    (void)state;
    open_clients();
    let_lead(1);
    set_flushes(1, 5, 1);
    work(32000);
    assert_int_equal(handed_over, 0);
    set_flushes(100, 5, 1);
    work(5000);
    assert_int_equal(handed_over, 1);
    assert_int_equal(world_leader(world), 3); /* Its disk is the fastest. */
    assert_int_equal(core_disk_moved(world->node[1].core, &to), 1);
    assert_int_equal(to, 3);
    assert_int_equal(said_slow, 1);
    assert_true(core_disk_is_slow(world->node[1].core, &us));
    assert_in_range(us, 90000, 110000);
    assert_true(core_disk_flush(world->node[3].core, 1, &us, &count));
    assert_in_range(us, 90000, 110000);
    assert_false(core_disk_is_slow(world->node[3].core, &us));
    set_flushes(1, 5, 1);
    work(30000);
    assert_int_equal(said_fast, 1);
    assert_false(core_disk_is_slow(world->node[1].core, &us));
    assert_int_equal(world_leader(world), 3);
}

static void where_all_are_slow_the_leader_stays(void **state)
{
    (void)state;
    open_clients();
    let_lead(2);
    set_flushes(100, 300, 90);
    work(60000);
    assert_int_equal(world_leader(world), 2);
    assert_int_equal(handed_over, 0);
    assert_int_equal(said_slow, 3);
}

static void only_who_is_level_takes_over(void **state)
{
    (void)state;
    open_clients();
    let_lead(1);
    set_flushes(100, 20, 1);
    /* Node 3 is cut off. */
    world_cut(world, 3, true);
    work(40000);
    assert_int_equal(handed_over, 1);
    assert_int_equal(world_leader(world), 2);
}

static void not_before_thirty_seconds(void **state)
{
    (void)state;
    open_clients();
    set_flushes(100, 1, 1);
    let_lead(1);
    uint64_t from_ms = world->now_ms;
    work(28000);
    assert_int_equal(handed_over, 0);
    assert_int_equal(said_slow, 1);
    while (handed_over == 0) {
        assert_true(world->now_ms - from_ms < 36000);
        work(500);
    }
}

/* A node that leads again within ten minutes waits twice as long. */
static void each_leadership_doubles_the_wait(void **state)
{
    static const uint64_t wait_ms[] = {30000,  60000,  120000, 240000,
                                       480000, 600000, 600000};
    (void)state;
    open_clients();
    /* Node 1 has not led before. */
    if (world_leader(world) == 1) {
        let_lead(2);
        world_run(world, 601000);
    }
    set_flushes(100, 1, 1);
    for (size_t i = 0; i < sizeof wait_ms / sizeof wait_ms[0]; i++) {
        handed_over = 0;
        let_lead(1);
        uint64_t from_ms = world->now_ms;
        while (handed_over == 0) {
            assert_true(world->now_ms - from_ms < wait_ms[i] + 8000);
            work(1000);
        }
        assert_true(world->now_ms - from_ms + 1000 > wait_ms[i]);
    }
}

/* A disk without writes is not known to be slow. */
static void an_idle_disk_is_forgotten(void **state)
{
    uint64_t us;
    (void)state;
    open_clients();
    let_lead(1);
    set_flushes(100, 100, 100);
    work(10000);
    assert_int_equal(said_slow, 3);
    world_run(world, 70000);
    assert_false(core_disk_is_slow(world->node[1].core, &us));
    assert_int_equal(said_fast, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fast_disks_are_no_news),
        TEST(a_slow_disk_is_said_and_does_not_lead),
        TEST(where_all_are_slow_the_leader_stays),
        TEST(only_who_is_level_takes_over),
        TEST(not_before_thirty_seconds),
        TEST(each_leadership_doubles_the_wait),
        TEST(an_idle_disk_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
