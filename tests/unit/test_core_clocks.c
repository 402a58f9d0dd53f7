/* SPDX-License-Identifier: MIT */

/* Nodes whose clocks run at different speeds: they report it, and the node
 * whose clock is off does not lead. */

#include "base/log.h"
#include "tests/unit/core_world.h"

static struct world *world;
static uint32_t differing, agreeing, own_off, handed_over;

static void note_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    (void)data;
    (void)level;
    (void)fields;
    differing += strcmp(event, "clocks differ") == 0;
    agreeing += strcmp(event, "clocks agree") == 0;
    own_off += strcmp(event, "this node's clock is off") == 0;
    handed_over += strcmp(event, "leadership is handed over") == 0;
}

static int set_up(void **state)
{
    (void)state;
    differing = agreeing = own_off = handed_over = 0;
    log_set_sink(note_line, NULL);
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

static void found(uint64_t count, const uint64_t *permille)
{
    world = world_new(count);
    for (uint64_t id = 1; id <= count; id++) {
        world->node[id].clock_permille = permille[id - 1];
        world->node[id].clock_offset_ns = id * 1000000 * MS;
    }
    world_found(world);
    world_elect(world);
}

/* Makes 'id' the leader, if another one leads. */
static void let_lead(uint64_t id)
{
    static uint64_t conn;
    uint64_t leader = world_leader(world);
    if (leader != id) {
        conn = conn % (CONN_MAX - 1) + 1;
        client_open(world, leader, conn);
        client_ask(world, leader, conn, "RAFT.TRANSFER %d", (int)id);
        world_run(world, 200);
    }
    assert_int_equal(world_leader(world), id);
}

static void expect_ppm(uint64_t at, uint64_t of, int32_t wanted)
{
    int32_t ppm;
    assert_true(core_clock_ppm(world->node[at].core, of, &ppm));
    if (ppm < wanted - 500 || ppm > wanted + 500) {
        fail_msg("node %d measures %d at node %d, not %d", (int)at, (int)ppm,
                 (int)of, (int)wanted);
    }
}

/* --- Tests ---------------------------------------------------------------- */

static void clocks_that_agree_are_no_news(void **state)
{
    int32_t ppm;
    (void)state;
    found(3, (const uint64_t[]){1000, 1000, 1000});
    uint64_t leader = world_leader(world);
    assert_false(core_clock_ppm(world->node[1].core, 2, &ppm));
    world_run(world, 60000);
    expect_ppm(1, 2, 0);
    expect_ppm(3, 1, 0);
    assert_false(core_clock_ppm(world->node[1].core, 9, &ppm));
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(differing + own_off + handed_over, 0);
}

static void one_percent_is_said_once_by_all(void **state)
{
    (void)state;
    found(3, (const uint64_t[]){1000, 1000, 1020});
    let_lead(3);
    world_run(world, 60000);
    expect_ppm(1, 3, 20000);
    expect_ppm(3, 2, -19608);
    assert_int_equal(differing, 4); /* Each pair with node 3, both ways. */
    assert_int_equal(own_off, 1);
    assert_int_equal(handed_over, 0);
    assert_int_equal(world_leader(world), 3);
    /* Its clock is set right. */
    world->node[3].clock_permille = 1000;
    world->node[3].clock_offset_ns += world->now_ms * (MS / 1000) * 20;
    world_run(world, 120000);
    assert_int_equal(agreeing, 4);
    assert_int_equal(differing, 4);
}

static void a_leader_that_is_off_hands_over_once(void **state)
{
    (void)state;
    static const uint64_t speeds[][3] = {{900, 1000, 1000},
                                         {1100, 1000, 1000},
                                         {900, 1100, 1100},
                                         {900, 1000, 1100}};
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++) {
        handed_over = 0;
        found(3, speeds[i]);
        let_lead(1);
        world_run(world, 25000);
        uint64_t leader = world_leader(world);
        assert_int_not_equal(leader, 1);
        if (speeds[i][2] != speeds[i][1]) {
            assert_int_equal(leader, 2); /* The one in the middle. */
        }
        world_run(world, 180000);
        assert_int_equal(world_leader(world), leader);
        assert_int_equal(handed_over, 1);
        if (i + 1 < sizeof speeds / sizeof speeds[0]) {
            world_free(world);
        }
    }
}

/* A node that is told to lead does so, and hands over again a minute later. */
static void at_most_once_a_minute(void **state)
{
    (void)state;
    found(3, (const uint64_t[]){900, 1000, 1000});
    let_lead(1);
    world_run(world, 25000);
    assert_int_equal(handed_over, 1);
    let_lead(1);
    world_run(world, 30000);
    assert_int_equal(world_leader(world), 1);
    world_run(world, 40000);
    assert_int_not_equal(world_leader(world), 1);
    assert_int_equal(handed_over, 2);
}

/* Of two nobody can say which clock is right; and if each is off from most of
 * the others, none is better. */
static void where_nobody_is_right_the_leader_stays(void **state)
{
    (void)state;
    found(2, (const uint64_t[]){900, 1100});
    uint64_t leader = world_leader(world);
    world_run(world, 60000);
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(handed_over, 0);
    assert_int_equal(differing, 2);
}

/* A network that slows down steadily delays each message by more than the one
 * before, which looks like a slow clock at the other end. */
static void a_slow_network_is_no_wrong_clock(void **state)
{
    (void)state;
    found(3, (const uint64_t[]){1000, 1000, 1000});
    uint64_t leader = world_leader(world);
    for (int i = 0; i < 24; i++) {
        world_run(world, 500);
        world->latency_ms += 30;
    }
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(differing + own_off + handed_over, 0);
    expect_ppm(leader, leader % 3 + 1, 0); /* Nothing more is proven. */
    world->latency_ms = 1;
    world_run(world, 60000);
    expect_ppm(leader, leader % 3 + 1, 0);
    assert_int_equal(differing + own_off + handed_over, 0);
}

/* A machine that restarts has another clock, which may be ahead. */
static void a_clock_that_restarts_is_measured_again(void **state)
{
    static const uint64_t offsets[] = {5 * MS, 3003000 * MS};
    (void)state;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        int32_t ppm;
        differing = 0;
        found(3, (const uint64_t[]){1000, 1000, 1050});
        world_run(world, 60000);
        expect_ppm(1, 3, 50000);
        node_kill(world, 3);
        world->node[3].clock_offset_ns = offsets[i];
        world_run(world, 1000);
        node_start(world, 3);
        world_run(world, 8000);
        assert_false(core_clock_ppm(world->node[1].core, 3, &ppm));
        world_run(world, 60000);
        expect_ppm(1, 3, 50000);
        expect_ppm(3, 1, -47619);
        /* Node 3 has forgotten that it reported it. */
        assert_int_equal(differing, 6);
        assert_int_equal(handed_over, 0);
        if (i == 0) {
            world_free(world);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clocks_that_agree_are_no_news),
        TEST(one_percent_is_said_once_by_all),
        TEST(a_leader_that_is_off_hands_over_once),
        TEST(at_most_once_a_minute),
        TEST(where_nobody_is_right_the_leader_stays),
        TEST(a_slow_network_is_no_wrong_clock),
        TEST(a_clock_that_restarts_is_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
