/* SPDX-License-Identifier: MIT */

/* core: a voter that lost its data directory is replaced by the leader itself
 * (cluster.replace_empty), and what forbids each step of a replacement. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define ID(id) ((unsigned long long)(id))
#define MISSED_MS 3000
#define BY "cluster.replace_empty of member "

static uint64_t wall_ms;

static uint64_t port_wall_ms(void *data)
{
    (void)data;
    return wall_ms;
}

static void adapt(struct core_port *port)
{
    port->wall_ms = port_wall_ms;
}

static void found(uint64_t count, uint64_t replace_empty_ms)
{
    world = world_new(count);
    world->adapt = adapt;
    world->replace_empty_ns = replace_empty_ms * NS_PER_MS;
    wall_ms = UINT64_C(1800000000000);
    world_found(world);
    leader = world_elect(world);
    follower = leader % count + 1;
    third = follower % count + 1;
    world_run(world, 100);
    client_open(world, leader, 1);
}

static int set_up(void **state)
{
    (void)state;
    found(3, MISSED_MS);
    return 0;
}

static const struct replica_member *member_of(uint64_t id)
{
    static struct replica_members members;
    replica_members(core_replica(world->node[leader].core), &members);
    return replica_members_find(&members, id);
}

static uint64_t directory_of(uint64_t id)
{
    const struct replica_member *member = member_of(id);
    return member != NULL ? member->incarnation : 0;
}

/* True if it votes with the directory that its node has now. */
static bool is_back(uint64_t id)
{
    const struct replica_member *member = member_of(id);
    return member != NULL && member->role == MEMBER_VOTER &&
           member->incarnation == world->node[id].incarnation;
}

static void lose_directory(uint64_t id)
{
    node_wipe(world, id);
    node_start(world, id);
    links_update(world);
    world_run(world, 100);
}

static void await_back(uint64_t id)
{
    for (int i = 0; i < 300 && !is_back(id); i++) {
        world_run(world, 100);
        leader = world_elect(world);
    }
    assert_true(is_back(id));
}

/* Longer than any replacement needs. */
static void assert_stays_away(uint64_t id, const char *reason)
{
    char why[HASP_WHY_SIZE] = "";
    uint64_t was = directory_of(id);
    world_run(world, MISSED_MS + 20000);
    assert_int_equal(directory_of(id), was);
    assert_true(core_replacement_waits(world->node[leader].core, why));
    if (strstr(why, reason) == NULL) {
        fail_msg("'%s' is not in: %s", reason, why);
    }
}

static void a_leader_replaces_an_empty_directory_by_itself(void **state)
{
    char why[HASP_WHY_SIZE];
    struct removal removal;
    (void)state;
    world_run(world, MISSED_MS);
    assert_false(core_replacement_waits(world->node[leader].core, why));
    uint64_t old = directory_of(third);
    lose_directory(third);
    world_run(world, MISSED_MS - 500);
    assert_int_equal(directory_of(third), old);
    assert_true(core_replacement_waits(world->node[leader].core, why));
    assert_non_null(strstr(why, "is missed for"));
    await_back(third);
    world_run(world, 200);
    for (uint64_t node = 1; node <= 3; node++) {
        const struct lockfsm *fsm = core_state(world->node[node].core);
        assert_true(lockfsm_removal(fsm, third, &removal));
        assert_int_equal(removal.incarnation, old);
        assert_true(removal.by.size > sizeof BY - 1 &&
                    memcmp(removal.by.data, BY, sizeof BY - 1) == 0);
    }
    assert_false(core_replacement_waits(world->node[leader].core, why));
}

static void by_default_it_only_says_what_to_do(void **state)
{
    (void)state;
    tear_down(NULL);
    found(3, 0);
    lose_directory(third);
    assert_stays_away(third, "has an empty data directory: hasp member "
                             "replace");
}

/* The time is that of this leadership: a new leader waits again. */
static void each_leader_waits_by_itself(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5, 20000);
    uint64_t old = leader;
    lose_directory(third);
    world_run(world, 15000);
    world_cut(world, old, true);
    world_run(world, 1500);
    world_cut(world, old, false);
    leader = world_elect(world);
    assert_int_not_equal(leader, old);
    world_run(world, 15000);
    assert_false(is_back(third));
    await_back(third);
}

static void a_missing_mount_is_not_an_empty_disk(void **state)
{
    (void)state;
    world->node[third].is_unmarked = true;
    lose_directory(third);
    assert_stays_away(third, "has no file 'hasp-volume' beside the data");
    assert_string_equal(
        client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third)),
        "+OK\r\n");
}

static void nodes_have_to_authenticate_each_other(void **state)
{
    (void)state;
    world->node[leader].is_plain = true;
    lose_directory(third);
    assert_stays_away(third, "the nodes do not authenticate each other");
}

static void two_empty_directories_are_refused_with_the_reason(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5, MISSED_MS);
    uint64_t other = third % 5 + 1;
    world_cut(world, third, true);
    world_cut(world, other, true);
    lose_directory(third);
    lose_directory(other);
    world_cut(world, third, false);
    world_cut(world, other, false);
    world_run(world, 100);
    assert_stays_away(third, "both have empty data directories, so neither is");
    assert_stays_away(other, "both have empty data directories, so neither is");
    /* When one of them is given up the other returns. */
    assert_string_equal(
        client_ask(world, leader, 1, "RAFT.REMOVE %llu", ID(other)), "+OK\r\n");
    await_back(third);
}

static void of_two_voters_none_is_replaced(void **state)
{
    (void)state;
    tear_down(NULL);
    found(4, 0);
    uint64_t fourth = third % 4 + 1;
    assert_string_equal(
        client_ask(world, leader, 1, "RAFT.REMOVE %llu", ID(fourth)),
        "+OK\r\n");
    assert_string_equal(
        client_ask(world, leader, 1, "RAFT.DEMOTE %llu", ID(follower)),
        "+OK\r\n");
    lose_directory(third);
    const char *answer = client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE",
                                    ID(third));
    assert_non_null(strstr(answer, "neither of two voters can be replaced"));
}

/* A volume that is new at each start: once in an hour. */
static void once_in_an_hour(void **state)
{
    (void)state;
    lose_directory(third);
    await_back(third);
    lose_directory(third);
    wall_ms += UINT64_C(3599) * 1000;
    assert_stays_away(third, "was replaced less than an hour ago");
    wall_ms += 2000;
    await_back(third);
}

static void a_voter_that_is_silent_too_forbids_it(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5, MISSED_MS);
    uint64_t other = third % 5 + 1;
    lose_directory(third);
    world_cut(world, other, true);
    assert_stays_away(third, "is replaced only while all other voters are");
    world_cut(world, other, false);
    await_back(third);
}

/* A voter that copies the log would be missing, too. */
static void a_voter_that_is_behind_forbids_it(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5, MISSED_MS);
    uint64_t other = third % 5 + 1;
    client_session(world, leader, 1, "");
    world->node[other].is_disk_stuck = true;
    for (int i = 0; i < 4200; i++) {
        client_send(world, leader, 1,
                    i % 2 == 0 ? "LOCK.ACQUIRE a" : "LOCK.RELEASE a");
        if (i % 50 == 49) {
            client_clear(world, leader, 1);
            world_run(world, 10);
        }
    }
    lose_directory(third);
    client_open(world, leader, 2);
    assert_non_null(strstr(
        client_ask(world, leader, 2, "RAFT.REPLACE %llu FORCE", ID(third)),
        ": repeat this when it has caught up"));
    world->node[other].is_disk_stuck = false;
    await_back(third);
}

/* Each step waits for the others, not the first alone. */
static void the_vote_comes_back_when_all_others_are_heard(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5, 0);
    uint64_t other = third % 5 + 1;
    lose_directory(third);
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third));
    for (int i = 0; i < 1000; i++) {
        const struct replica_member *member = member_of(third);
        if (member != NULL && member->role == MEMBER_STANDBY) {
            break;
        }
        world_run(world, 1);
    }
    world_cut(world, other, true);
    world_run(world, 20000);
    assert_non_null(member_of(third));
    assert_int_equal(member_of(third)->role, MEMBER_STANDBY);
    world_cut(world, other, false);
    await_back(third);
}

static uint64_t dialled; /* The number of the newest probe. */

static void keep_probe(void *data, uint64_t number, uint64_t id,
                       const char *address)
{
    (void)data;
    (void)id;
    (void)address;
    dialled = number;
}

static void adapt_probe(struct core_port *port)
{
    adapt(port);
    port->probe_address = keep_probe;
}

/* The mount is back before the removal: the former directory keeps its vote,
 * although the replacement has been recorded. */
static void a_directory_that_comes_back_in_between_stays(void **state)
{
    (void)state;
    char why[HASP_WHY_SIZE];
    tear_down(NULL);
    world = world_new(5);
    world->adapt = adapt_probe;
    world_found(world);
    leader = world_elect(world);
    third = leader % 5 + 1;
    uint64_t other = third % 5 + 1, old = directory_of(third);
    struct world_node *node = &world->node[leader];
    struct frame_hello hello = {.from = third, .incarnation = old + 7000};
    world_run(world, 100);
    client_open(world, leader, 1);
    node_kill(world, third);
    links_update(world);
    world_run(world, 500);
    assert_true(core_check_peer(node->core, &hello, why) != 0);
    dialled = 0;
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third));
    for (int i = 0; i < 10 && dialled == 0; i++) {
        world_run(world, 1);
    }
    core_address_probed(node->core, dialled, 0,
                        &(struct core_directory){.incarnation = old + 7000}, "",
                        node_now(node));
    node->next_turn_ms = world->now_ms;
    world_run(world, 1);
    world_cut(world, other, true); /* The removal has to wait for it. */
    world_run(world, 100);
    assert_int_equal(lockfsm_replaced_by(core_state(node->core), third),
                     old + 7000);
    assert_int_equal(directory_of(third), old);
    node_start(world, third);
    links_update(world);
    world_run(world, 100);
    world_cut(world, other, false);
    world_run(world, 2000);
    assert_non_null(strstr(client_text(world, leader, 1),
                           "is connected with its own data directory"));
    assert_int_equal(directory_of(third), old);
    assert_true(is_back(third));
}

#define cluster(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster(a_leader_replaces_an_empty_directory_by_itself),
        cluster(by_default_it_only_says_what_to_do),
        cluster(each_leader_waits_by_itself),
        cluster(a_missing_mount_is_not_an_empty_disk),
        cluster(nodes_have_to_authenticate_each_other),
        cluster(two_empty_directories_are_refused_with_the_reason),
        cluster(of_two_voters_none_is_replaced),
        cluster(once_in_an_hour),
        cluster(a_voter_that_is_silent_too_forbids_it),
        cluster(a_voter_that_is_behind_forbids_it),
        cluster(the_vote_comes_back_when_all_others_are_heard),
        cluster(a_directory_that_comes_back_in_between_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
