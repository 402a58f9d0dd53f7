/* SPDX-License-Identifier: MIT */

/* Why a leadership ended. */

#include "base/log.h"
#include "tests/unit/core_world.h"

static struct world *world;
static char reason[256];

static void note_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    const char *from = strstr(fields, "reason=");
    (void)data;
    (void)level;
    if (strcmp(event, "stepped down") == 0) {
        assert_non_null(from);
        snprintf(reason, sizeof reason, "%s", from + strlen("reason="));
    }
}

static int set_up(void **state)
{
    (void)state;
    reason[0] = '\0';
    log_set_sink(note_line, NULL);
    world = world_new(3);
    world_found(world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_sink(NULL, NULL);
    world_free(world);
    return 0;
}

static void assert_reason(const char *part)
{
    if (strstr(reason, part) == NULL) {
        fail_msg("'%s' has no '%s'", reason, part);
    }
}

/* RAFT.STATUS of the node that led. */
static void assert_status(uint64_t id, const char *part)
{
    static uint64_t conn = 2;
    client_open(world, id, ++conn);
    const char *said = client_ask(world, id, conn, "RAFT.STATUS");
    if (strstr(said, part) == NULL) {
        fail_msg("'%s' has no '%s'", said, part);
    }
}

static void handed_over_as_asked(void **state)
{
    char part[64];
    (void)state;
    uint64_t leader = world_elect(world), successor = leader % 3 + 1;
    client_open(world, leader, 1);
    assert_status(leader, "stepped_down_ms\r\n:-1\r\n");
    client_ask(world, leader, 1, "RAFT.TRANSFER %d", (int)successor);
    world_run(world, 200);
    assert_int_equal(world_leader(world), successor);
    snprintf(part, sizeof part,
             "handed over to member %d: requested by an operator",
             (int)successor);
    assert_reason(part);
    assert_status(leader, part);
}

static void handed_over_to_stop(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world);
    core_stop(world->node[leader].core, node_now(&world->node[leader]));
    world->node[leader].next_turn_ms = world->now_ms;
    world_run(world, 500);
    assert_reason("handed over to member ");
    assert_reason(": this node stops");
}

static void handed_over_for_its_disk(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world);
    world_run(world, 6000);
    core_disk_is(world->node[leader].core, CORE_DISK_FULL,
                 node_now(&world->node[leader]));
    world->node[leader].next_turn_ms = world->now_ms;
    world_run(world, 500);
    assert_reason(": its disk is nearly full");
}

static void no_majority_is_heard(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world);
    world_run(world, 1000);
    world_cut(world, leader, true);
    world_run(world, 10000);
    assert_reason("no majority answered for ");
    assert_status(leader, "no majority answered for");
}

static void a_higher_term_is_heard(void **state)
{
    char part[64];
    (void)state;
    uint64_t leader = world_elect(world);
    world_run(world, 1000);
    /* It pauses while another node is elected, and reads that first. */
    world->node[leader].is_paused = true;
    world_run(world, 10000);
    uint64_t other = 0;
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != leader && core_is_serving(world->node[id].core)) {
            other = id;
        }
    }
    assert_int_not_equal(other, 0);
    world->node[leader].is_paused = false;
    world_run(world, 1000);
    snprintf(part, sizeof part, "a higher term, %d, from member ",
             (int)replica_term(core_replica(world->node[other].core)));
    assert_reason(part);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handed_over_as_asked),     TEST(handed_over_to_stop),
        TEST(handed_over_for_its_disk), TEST(no_majority_is_heard),
        TEST(a_higher_term_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
