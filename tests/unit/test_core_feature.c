/* SPDX-License-Identifier: MIT */

/* The cluster's feature level: announced by members, raised by an operator or
 * automatically; and nodes too old for it. */

#include "lockfsm/entry.h"
#include "lockfsm/feature.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

/* Fields that the newer version of these tests understands. */
#define NEW (FEATURE_LEVEL + 1)

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    return 0;
}

/* --- Helpers -------------------------------------------------------------- */

static void talk_to(uint64_t node, uint64_t conn)
{
    if (!world->node[node].client[conn].is_open) {
        client_open(world, node, conn);
    }
}

/* Founds a cluster of nodes with these levels; 0: that of this version. */
static void found(uint32_t level1, uint32_t level2, uint32_t level3)
{
    const uint32_t levels[] = {level1, level2, level3};
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].feature_level = levels[id - 1];
    }
    world_found(world);
    leader = world_elect(world);
    world_run(world, 200);
    talk_to(leader, 1);
}

/* Another version is started in its place. */
static void exchange(uint64_t id, uint32_t level)
{
    struct world_node *node = &world->node[id];
    assert_int_equal(core_flush(node->core), 0);
    node_kill(world, id);
    node->feature_level = level;
    node->fatal_code = 0;
    node_start(world, id);
    links_update(world);
    leader = world_elect(world);
    world_run(world, 500);
    talk_to(leader, 1);
}

static uint32_t level_at(uint64_t id)
{
    return lockfsm_feature_level(core_state(world->node[id].core));
}

static void expect_levels(uint32_t level)
{
    world_run(world, 200);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(level_at(id), level);
    }
}

/* The answer begins with -LEVEL and names what to do. */
static void expect_refusal(const char *named)
{
    const char *answer = client_ask(world, leader, 1, "RAFT.FINALIZE");
    if (strncmp(answer, "-LEVEL ", 7) != 0 || strstr(answer, named) == NULL) {
        fail_msg("'%s' does not say '%s'", answer, named);
    }
}

/* The result at 'at' for a greeting of this level. */
static enum frame_age greeted(uint64_t at, uint32_t level)
{
    struct frame_hello self = {0}, other = {0};
    core_fill_hello(world->node[at].core, &self);
    core_fill_hello(world->node[at % 3 + 1].core, &other);
    other.feature_level = level;
    return frame_compare_levels(&self, &other);
}

/* --- Tests ---------------------------------------------------------------- */

/* It has greeted, and is away when the first leader begins. */
static void a_founder_that_is_away_counts_as_it_has_announced(void **state)
{
    (void)state;
    world_cut(world, 3, true);
    world->founders_level = NEW;
    found(NEW, NEW, NEW);
    assert_int_equal(lockfsm_feature_level(core_state(world->node[1].core)),
                     NEW);
}

/* It has not greeted: its version might be the first one. */
static void a_founder_that_is_not_known_counts_as_the_oldest(void **state)
{
    (void)state;
    world_cut(world, 3, true);
    found(NEW, NEW, NEW);
    assert_int_equal(lockfsm_feature_level(core_state(world->node[1].core)),
                     FEATURE_LEVEL_FIRST);
}

static void a_cluster_begins_with_what_all_founders_understand(void **state)
{
    (void)state;
    found(NEW + 1, NEW, NEW + 2);
    expect_levels(NEW);
}

static void an_operator_finalizes_once_all_are_upgraded(void **state)
{
    char answer[32];
    (void)state;
    found(0, 0, 0);
    snprintf(answer, sizeof answer, ":%d\r\n", FEATURE_LEVEL);
    assert_answer(world, leader, 1, answer, "RAFT.FINALIZE");
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(id, NEW);
        expect_levels(FEATURE_LEVEL);
        if (id < 3) {
            expect_refusal("upgrade it first"); /* Whichever node leads. */
        }
    }
    /* And back again, until an operator finalizes. */
    exchange(2, FEATURE_LEVEL);
    exchange(2, NEW);
    follower = leader % 3 + 1;
    snprintf(answer, sizeof answer, ":%d\r\n", NEW);
    talk_to(follower, 2);
    assert_answer(world, follower, 2, answer, "RAFT.FINALIZE");
    expect_levels(NEW);
    assert_answer(world, follower, 2, answer, "RAFT.FINALIZE");
}

static void all_members_must_be_there(void **state)
{
    char named[32];
    (void)state;
    found(0, 0, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(id, NEW);
    }
    uint64_t away = leader % 3 + 1;
    node_kill(world, away);
    world_run(world, 500);
    snprintf(named, sizeof named, "member %d is not connected", (int)away);
    expect_refusal(named);
    node_start(world, away);
    links_update(world);
    world_run(world, 500);
    client_ask(world, leader, 1, "RAFT.FINALIZE");
    expect_levels(NEW);
}

static void the_options_may_finalize(void **state)
{
    (void)state;
    world->finalizes_itself = true;
    found(0, 0, 0);
    exchange(1, NEW);
    exchange(2, NEW);
    expect_levels(FEATURE_LEVEL);
    exchange(3, NEW);
    expect_levels(NEW);
}

static void an_older_node_does_not_fit(void **state)
{
    (void)state;
    found(0, 0, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(greeted(id, FEATURE_LEVEL), FRAME_FITS);
        exchange(id, NEW);
        assert_int_equal(greeted(id, FEATURE_LEVEL), FRAME_FITS);
    }
    client_ask(world, leader, 1, "RAFT.FINALIZE");
    expect_levels(NEW);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(greeted(id, NEW), FRAME_FITS);
        assert_int_equal(greeted(id, NEW + 1), FRAME_FITS);
        assert_int_equal(greeted(id, NEW - 1), FRAME_OTHER_TOO_OLD);
    }
}

/* It was away when the cluster was raised, and finds it in the log. */
static void an_older_node_does_not_apply_what_it_finds(void **state)
{
    (void)state;
    found(0, 0, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        exchange(id, NEW);
    }
    follower = leader % 3 + 1;
    struct world_node *node = &world->node[follower];
    node->is_paused = true;
    client_ask(world, leader, 1, "RAFT.FINALIZE");
    uint64_t applied = lockfsm_applied_index(core_state(node->core));
    node->is_paused = false;
    node_kill(world, follower);
    node->feature_level = FEATURE_LEVEL;
    node->may_fail = true;
    node_start(world, follower);
    links_update(world); /* The world's network does not refuse it. */
    world_run(world, 500);
    assert_int_equal(node->fatal_code, CORE_EXIT_TOO_OLD);
    assert_int_equal(level_at(follower), FEATURE_LEVEL);
    assert_true(lockfsm_applied_index(core_state(node->core)) <= applied + 1);
    assert_int_equal(level_at(leader), NEW);
    assert_int_equal(world->node[leader].fatal_code, 0);
}

static void an_older_node_does_not_load_a_newer_state(void **state)
{
    struct world_node *node = &world->node[4];
    (void)state;
    world->limits.requests_in_flight = 40;
    world->limits.own_in_flight = 24;
    found(NEW, NEW, NEW);
    client_session(world, leader, 1, "TTL 60000");
    for (int i = 0; i < 400; i++) {
        client_ask(world, leader, 1, "LOCK.ACQUIRE n%d", i);
    }
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    node->feature_level = FEATURE_LEVEL;
    node->may_fail = true;
    node_start(world, 4);
    links_update(world); /* The world's network does not refuse it. */
    client_send(world, leader, 1, "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    for (int i = 0; i < 3000 && node->fatal_code == 0; i++) {
        world_run(world, 1);
    }
    assert_int_equal(node->fatal_code, CORE_EXIT_TOO_OLD);
    assert_true(node->snapshot_index > 10);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA

static void expect_trial(uint64_t at, bool is_allowed)
{
    static const char *const names[] = {"entry", "a"};
    talk_to(at, 3);
    for (int i = 0; i < 2; i++) {
        const char *answer = client_ask(world, at, 3, "RAFT.TRIAL %s",
                                        names[i]);
        bool is_refused = strncmp(answer, "-LEVEL RAFT.TRIAL", 17) == 0 &&
                          strstr(answer, "nothing was done") != NULL &&
                          strstr(answer, "hasp cluster finalize") != NULL;
        if (is_allowed ? answer[0] != ':' : !is_refused) {
            fail_msg("%s", answer);
        }
    }
}

static void what_is_new_is_refused_until_then(void **state)
{
    (void)state;
    found(1, 2, 2);
    follower = leader % 3 + 1;
    expect_trial(leader, false);
    expect_trial(follower, false);
    expect_levels(1);
    exchange(1, 2);
    follower = leader % 3 + 1;
    expect_trial(leader, false);
    expect_trial(follower, false);
    client_ask(world, leader, 1, "RAFT.FINALIZE");
    expect_trial(leader, true);
    expect_trial(follower, true);
    expect_levels(2);
}

/* It cannot know whether another node leads meanwhile, so it lets it in. */
static void a_leader_that_is_cut_off_does_not_refuse(void **state)
{
    (void)state;
    found(1, 2, 2);
    client_clear(world, leader, 1);
    world_cut(world, leader, true);
    client_send(world, leader, 1, "RAFT.TRIAL entry");
    world_run(world, 50);
    assert_int_equal(world->node[leader].client[1].output.size, 0);
}

#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cluster_begins_with_what_all_founders_understand),
        TEST(a_founder_that_is_away_counts_as_it_has_announced),
        TEST(a_founder_that_is_not_known_counts_as_the_oldest),
        TEST(an_operator_finalizes_once_all_are_upgraded),
        TEST(all_members_must_be_there),
        TEST(the_options_may_finalize),
        TEST(an_older_node_does_not_fit),
        TEST(an_older_node_does_not_apply_what_it_finds),
        TEST(an_older_node_does_not_load_a_newer_state),
#ifdef HASP_FEATURE_LEVEL_EXTRA
        TEST(what_is_new_is_refused_until_then),
        TEST(a_leader_that_is_cut_off_does_not_refuse),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
