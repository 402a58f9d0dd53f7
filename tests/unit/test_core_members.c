/* SPDX-License-Identifier: MIT */

/* core: changes of members while some of them are silent. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define ID(id) ((unsigned long long)(id))

static void found(uint64_t count)
{
    world = world_new(count);
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
    found(3);
    return 0;
}

__attribute__((format(printf, 2, 3))) static void
assert_says(const char *answer, const char *format, ...)
{
    char expected[512];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    if (strstr(answer, expected) == NULL) {
        fail_msg("'%s' is not in: %s", expected, answer);
    }
}

static enum member_role role_of(uint64_t id)
{
    struct replica_members members;
    replica_members(core_replica(world->node[leader].core), &members);
    const struct replica_member *member = replica_members_find(&members, id);
    return member != NULL ? member->role : MEMBER_SPARE;
}

static void assert_it_serves(void)
{
    static uint64_t conn = 2;
    conn = conn % 60 + 2;
    client_open(world, leader, conn);
    client_session(world, leader, conn, "");
    assert_int_equal(
        client_ask(world, leader, conn, "LOCK.ACQUIRE a%llu", ID(conn))[0],
        ':');
}

/* As in a Redis cluster, whichever node leads or is asked. */
static void the_leader_is_told_first_of_all_nodes(void **state)
{
    (void)state;
    char expected[64];
    client_open(world, follower, 1);
    client_open(world, third, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        client_ask(world, leader, 1, "RAFT.TRANSFER %llu", ID(id));
        leader = world_elect(world);
        assert_int_equal(leader, id);
        world_run(world, 100);
        snprintf(expected, sizeof expected,
                 "*1\r\n*5\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n"
                 ":%d\r\n",
                 7200 + (int)id);
        for (uint64_t asked = 1; asked <= 3; asked++) {
            const char *answer = client_ask(world, asked, 1, "CLUSTER SLOTS");
            assert_memory_equal(answer, expected, strlen(expected));
        }
    }
}

static void a_vote_that_the_others_need_is_not_taken_away(void **state)
{
    static const char *const commands[] = {"REMOVE", "DEMOTE"};
    (void)state;
    world_cut(world, third, true);
    world_run(world, 1500);
    for (int i = 0; i < 2; i++) {
        const char *answer = client_ask(world, leader, 1, "RAFT.%s %llu",
                                        commands[i], ID(follower));
        assert_says(answer, "-BADARG raft.%s: member %llu has been silent for ",
                    i == 0 ? "remove" : "demote", ID(third));
        assert_says(answer,
                    "s; without %llu only 1 of 2 voters would be connected, "
                    "which is not a majority: remove %llu instead, or force "
                    "it\r\n",
                    ID(follower), ID(third));
        assert_int_equal(role_of(follower), MEMBER_VOTER);
    }
    assert_it_serves();
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.DEMOTE %llu", ID(third));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu", ID(third));
    assert_it_serves();
}

static void who_was_never_heard_is_named_as_well(void **state)
{
    (void)state;
    node_kill(world, third);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  ID(follower));
    node_kill(world, leader);
    node_start(world, leader);
    links_update(world);
    world_run(world, 300);
    client_open(world, leader, 1);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                  ID(leader));
    assert_says(client_ask(world, leader, 1, "RAFT.REMOVE %llu", ID(follower)),
                "-BADARG raft.remove: member %llu has not been heard by member "
                "%llu yet; "
                "without %llu only 1 of 2",
                ID(third), ID(leader), ID(follower));
}

static void it_is_taken_away_if_that_is_forced(void **state)
{
    (void)state;
    world_cut(world, third, true);
    world_run(world, 1500);
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.REMOVE %llu FORCE", ID(follower));
    world_run(world, 50);
    assert_int_equal(role_of(follower), MEMBER_SPARE);
    /* No majority is left to commit it until the silent one comes back. */
    world_run(world, 1000);
    assert_says(client_text(world, leader, 1), "-UNKNOWN the leader changed");
    assert_int_equal(world_leader(world), 0);
    world_cut(world, follower, true); /* It might win, unaware of the change. */
    world_cut(world, third, false);
    leader = world_elect(world);
    world_run(world, 300);
    assert_int_equal(role_of(follower), MEMBER_SPARE);
}

static void of_five_two_may_be_silent(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5);
    uint64_t silent[2] = {third % 5 + 1, (third + 1) % 5 + 1};
    world_cut(world, silent[0], true);
    world_cut(world, silent[1], true);
    world_run(world, 1500);
    assert_says(client_ask(world, leader, 1, "RAFT.REMOVE %llu", ID(third)),
                "without %llu only 2 of 4 voters would be connected",
                ID(third));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu",
                  ID(silent[0]));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.DEMOTE %llu", ID(third));
    assert_says(client_ask(world, leader, 1, "RAFT.DEMOTE %llu", ID(follower)),
                "without %llu only 1 of 2 voters", ID(follower));
}

static void silence(uint64_t id, bool is_paused)
{
    world->node[id].is_paused = is_paused;
}

static void leadership_is_not_offered_to_a_silent_member(void **state)
{
    (void)state;
    assert_it_serves();
    silence(third, true); /* Its connection remains open. */
    world_run(world, 300);
    uint64_t began_ms = world->now_ms;
    const char *answer = client_ask(world, leader, 1, "RAFT.TRANSFER %llu",
                                    ID(third));
    assert_says(answer,
                "-BADARG raft.transfer: member %llu has been silent for 3",
                ID(third));
    assert_says(answer, "ms: hand leadership over to another voter\r\n");
    assert_in_range(world->now_ms - began_ms, 0, 5);
    assert_it_serves();
    silence(third, false);
    world_run(world, 100);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %llu", ID(third));
}

/* As after a connection that was closed and is dialled again. */
static void an_heir_whose_connection_is_lost_is_waited_for(void **state)
{
    (void)state;
    world_cut(world, third, true);
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.TRANSFER %llu", ID(third));
    world_run(world, 50);
    assert_string_equal(client_text(world, leader, 1), "");
    assert_it_serves();
    world_cut(world, third, false);
    world_run(world, 200);
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n");
    assert_int_equal(world_elect(world), third);
    leader = third;
    third = leader % 3 + 1;
    client_open(world, leader, 1);
    world_cut(world, third, true);
    uint64_t began_ms = world->now_ms;
    assert_says(client_ask(world, leader, 1, "RAFT.TRANSFER %llu", ID(third)),
                "-BADARG raft.transfer: member %llu has been silent for 2",
                ID(third));
    assert_in_range(world->now_ms - began_ms, 150, 300);
}

static void an_heir_is_chosen_from_those_that_are_heard(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t silent = i == 0 ? follower : third;
        uint64_t successor = i == 0 ? third : follower;
        silence(silent, true);
        world_run(world, 300);
        assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER");
        assert_int_equal(world_elect(world), successor);
        silence(silent, false);
        world_run(world, 500);
        assert_int_equal(world_elect(world), successor);
        client_open(world, successor, 1);
        assert_answer(world, successor, 1, "+OK\r\n", "RAFT.TRANSFER %llu",
                      ID(leader));
        assert_int_equal(world_elect(world), leader);
        world_run(world, 100);
    }
}

static void
who_is_on_loopback_does_not_vote_with_those_who_are_not(void **state)
{
    static const char *const elsewhere[] = {
        "10.0.0.4:7104,10.0.0.4:7204",
        "127.0.0.1:7104,node4.example:7204",
        "[fe80::1]:7104",
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *answer = client_ask(world, leader, 1, "RAFT.ADD 4 %s",
                                        elsewhere[i]);
        assert_says(answer, "-BADARG raft.add: member 4 is at ");
        assert_says(answer,
                    " and member 1 at 127.0.0.1:7%d01: ", i == 1 ? 2 : 1);
        assert_says(answer, "; give all voters addresses of one network\r\n");
        assert_int_equal(role_of(4), MEMBER_SPARE);
    }
    node_start(world, 4);
    links_update(world);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.ADD 4 %s STANDBY",
                  elsewhere[0]);
    world_run(world, 100);
    assert_says(client_ask(world, leader, 1, "RAFT.PROMOTE 4"),
                "-BADARG raft.promote: member 4 is at 10.0.0.4:7104 and member "
                "1 at 127");
    assert_says(
        client_ask(world, leader, 1, "RAFT.ADD 4 %s", elsewhere[0]),
        "-BADARG raft.add: member 4 is at 10.0.0.4:7104 and member 1 at 127");
    assert_int_equal(role_of(4), MEMBER_STANDBY);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
    node_wipe(world, 4);
    node_start(world, 4);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 localhost:7104,[::1]:7204");
    world_run(world, 100);
    assert_int_equal(role_of(4), MEMBER_VOTER);
}

/* If all other nodes are on other hosts, none may come from loopback. */
static void
who_is_not_on_loopback_does_not_vote_with_those_who_are(void **state)
{
    (void)state;
    tear_down(NULL);
    world_network = "10.0.0.";
    found(3);
    world_network = NULL;
    assert_says(
        client_ask(world, leader, 1,
                   "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204"),
        "-BADARG raft.add: member 4 is at 127.0.0.1:7104 and member 1 at "
        "10.0.0.1:7101: other machines cannot reach a "
        "loopback address");
    node_start(world, 4);
    links_update(world);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 node4:7104,10.0.0.4:7204");
}

static void who_is_to_be_added_is_dialled_first(void **state)
{
    (void)state;
    uint64_t began_ms = world->now_ms;
    const char *answer = client_ask(world, leader, 1,
                                    "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    assert_says(
        answer,
        "-BADARG raft.add: member 4 cannot be reached from member %llu: "
        "connection refused; start it first",
        ID(leader));
    assert_in_range(world->now_ms - began_ms, 2900, 3300);
    assert_int_equal(role_of(4), MEMBER_SPARE);
    assert_it_serves();
    /* It may be about to listen. */
    client_clear(world, leader, 1);
    client_send(world, leader, 1,
                "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY");
    client_send(world, leader, 1, "RAFT.PROMOTE 4");
    world_run(world, 1000);
    assert_string_equal(client_text(world, leader, 1), "");
    assert_string_equal(world->node[leader].probe_address,
                        "127.0.0.1:7104,127.0.0.1:7204");
    assert_it_serves();
    node_start(world, 4);
    links_update(world);
    world_run(world, 500);
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n+OK\r\n");
    assert_int_equal(role_of(4), MEMBER_VOTER);
}

/* The node answers with this directory. 'refusal' NULL: it is added. */
static void assert_added(const struct core_directory *found,
                         const char *refusal)
{
    struct world_node *node = &world->node[leader];
    client_clear(world, leader, 1);
    client_send(world, leader, 1,
                "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY");
    world_step(world);
    uint64_t number = node->probe_number;
    assert_int_not_equal(number, 0);
    node->probe_number = 0;
    core_address_probed(node->core, number, 0, found, "", node_now(node));
    node->next_turn_ms = world->now_ms;
    world_run(world, 200);
    if (refusal != NULL) {
        assert_says(client_text(world, leader, 1), "%s", refusal);
        assert_int_equal(role_of(4), MEMBER_SPARE);
        assert_it_serves();
        return;
    }
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n");
    assert_int_equal(role_of(4), MEMBER_STANDBY);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
}

/* Raft tells logs apart by terms and indexes alone: one of another cluster
 * could pass for this one's. */
static void a_directory_of_another_cluster_is_not_added(void **state)
{
    (void)state;
    struct core_directory found = {.incarnation = 77};
    assert_added(&found, NULL);
    /* An addition that its leader could not commit leaves a term. */
    found.incarnation++;
    found.term = 5;
    assert_added(&found, NULL);
    found.incarnation++;
    found.last_index = 1;
    assert_added(&found, "-BADARG raft.add: the data directory of node 4 "
                         "(incarnation 000000000000004f) is not empty: its log "
                         "has entries up to 1 and it does not know of which "
                         "cluster. Give the node an empty one");
    found.term = found.last_index = 0;
    memset(found.cluster_id, 0xab, sizeof found.cluster_id);
    assert_added(&found, "-BADARG raft.add: the data directory of node 4 "
                         "(incarnation 000000000000004f) belongs to another "
                         "cluster (abababababababababababababababab): give "
                         "the node an empty one");
    lockfsm_cluster_id(core_state(world->node[leader].core), found.cluster_id);
    found.last_index = 3;
    assert_added(&found, NULL);
    assert_added(&found, "-BADARG raft.add: the data directory of node 4 "
                         "(incarnation 000000000000004f) was removed from "
                         "this cluster: give the node an empty one");
}

/* A dial that fails when the time for it is over is the last; one that fails a
 * millisecond earlier is not. */
static void the_last_dial_ends_with_its_time(void **state)
{
    (void)state;
    struct world_node *node = &world->node[leader];
    for (uint64_t early_ms = 0; early_ms <= 1; early_ms++) {
        client_clear(world, leader, 1);
        client_send(world, leader, 1,
                    "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
        uint64_t end_ms = world->now_ms + 3000;
        world_step(world);
        uint64_t number = node->probe_number;
        assert_int_not_equal(number, 0);
        node->probe_number = 0; /* It takes long. */
        world_run(world, end_ms - early_ms - world->now_ms);
        assert_string_equal(client_text(world, leader, 1), "");
        core_address_probed(node->core, number, HASP_ECONNECT, NULL,
                            "connection refused", node_now(node));
        node->next_turn_ms = world->now_ms;
        world_run(world, 50);
        assert_true((client_text(world, leader, 1)[0] == '-') ==
                    (early_ms == 0));
        world_run(world, 200);
        assert_says(client_text(world, leader, 1), "-BADARG raft.add: member "
                                                   "4 cannot be reached");
    }
}

static void whoever_is_not_there_is_added_if_that_is_forced(void **state)
{
    (void)state;
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY "
                  "INCARNATION 0000000000012ccc");
    assert_int_equal(role_of(4), MEMBER_STANDBY);
    /* Repeated: nothing is dialled for a finished change. */
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY");
}

/* OK would mean that a member runs, but it does not: for example, its disk was
 * lost and it has not been removed. */
static void a_silent_voter_is_not_added_again(void **state)
{
    char addition[64];
    (void)state;
    snprintf(addition, sizeof addition,
             "RAFT.ADD %llu 127.0.0.1:%d,127.0.0.1:%d", ID(third),
             7100 + (int)third, 7200 + (int)third);
    assert_answer(world, leader, 1, "+OK\r\n", "%s", addition);
    node_kill(world, third);
    world_run(world, 1000);
    const char *answer = client_ask(world, leader, 1, "%s", addition);
    assert_says(answer, "-UNFINISHED member %llu has been silent for 1.",
                ID(third));
    assert_says(answer, "s, and is a voter already: start it; if its data "
                        "directory is new, remove the member first\r\n");
    node_start(world, third);
    links_update(world);
    world_run(world, 100);
    assert_answer(world, leader, 1, "+OK\r\n", "%s", addition);
}

static void another_leader_dials_again(void **state)
{
    (void)state;
    uint64_t old = leader;
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    world_run(world, 500);
    world_cut(world, old, true);
    world_run(world, 1000);
    world_cut(world, old, false);
    leader = world_elect(world);
    assert_int_not_equal(leader, old);
    /* The old leader's dial is over; its answer would come late. */
    core_address_probed(
        world->node[old].core, 1, 0,
        &(struct core_directory){.incarnation = WORLD_DIRECTORY(4)}, "",
        world->now_ms * MS);
    node_start(world, 4);
    links_update(world);
    world_run(world, 1000);
    assert_string_equal(client_text(world, old, 1), "+OK\r\n");
    assert_int_equal(role_of(4), MEMBER_VOTER);
}

/* A connected one need not be started. */
static void a_member_that_is_behind_is_told_so(void **state)
{
    (void)state;
    client_send(world, leader, 1,
                "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 INCARNATION "
                "0000000000012ccc");
    node_start(world, 4);
    world->node[4].is_disk_stuck = true;
    links_update(world);
    world_run(world, 10500);
    assert_says(client_text(world, leader, 1),
                "-UNFINISHED member 4 is a standby, is connected and is "
                "catching up (it has entry ");
    world->node[4].is_disk_stuck = false;
}

/* --- A new address ---------------------------------------------------------
 */

static const char *address_at(uint64_t node, uint64_t id)
{
    static char address[MEMBER_ADDRESS_SIZE];
    struct replica_members members;
    replica_members(core_replica(world->node[node].core), &members);
    const struct replica_member *member = replica_members_find(&members, id);
    assert_non_null(member);
    snprintf(address, sizeof address, "%s", member->address);
    return address;
}

/* All members learn it; the member need not have moved, or run. */
static void a_member_gets_another_address(void **state)
{
    char moved[64];
    (void)state;
    node_kill(world, third);
    world_run(world, 1000);
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.UPDATE %llu 127.0.0.1:7301,127.0.0.1:7302", ID(third));
    world_run(world, 200);
    snprintf(moved, sizeof moved, "127.0.0.1:7301,127.0.0.1:7302");
    assert_string_equal(address_at(leader, third), moved);
    assert_string_equal(address_at(follower, third), moved);
    assert_int_equal(role_of(third), MEMBER_VOTER);
    /* Without an address for clients it keeps the one that it has. */
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.UPDATE %llu 127.0.0.1:7303", ID(third));
    assert_string_equal(address_at(leader, third),
                        "127.0.0.1:7303,127.0.0.1:7302");
    /* Repeated: no entry is made. */
    uint64_t last = replica_last_index(core_replica(world->node[leader].core));
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.UPDATE %llu 127.0.0.1:7303", ID(third));
    assert_int_equal(replica_last_index(core_replica(world->node[leader].core)),
                     last);
    /* Its directory is still its own: it comes back, and is up to date. */
    node_start(world, third);
    links_update(world);
    world_run(world, 500);
    assert_string_equal(address_at(third, third),
                        "127.0.0.1:7303,127.0.0.1:7302");
    /* The leader's own, too. */
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.UPDATE %llu 127.0.0.1:7305,127.0.0.1:7306", ID(leader));
    world_run(world, 200);
    assert_string_equal(address_at(third, leader),
                        "127.0.0.1:7305,127.0.0.1:7306");
    assert_it_serves();
}

static void an_address_that_does_not_fit_is_refused(void **state)
{
    char taken[32], before[MEMBER_ADDRESS_SIZE], of_follower[32];
    (void)state;
    snprintf(before, sizeof before, "%s", address_at(leader, third));
    snprintf(of_follower, sizeof of_follower, "127.0.0.1:%d",
             7200 + (int)follower);
    snprintf(taken, sizeof taken, "127.0.0.1:%d", 7100 + (int)follower);
    for (int i = 0; i < 2; i++) {
        const char *address = i == 0 ? taken : of_follower;
        assert_says(client_ask(world, leader, 1,
                               "RAFT.UPDATE %llu 127.0.0.1:7301,%s", ID(third),
                               address),
                    "-BADARG raft.update: address %s is that of member %llu: "
                    "give member %llu one of its own",
                    address, ID(follower), ID(third));
        assert_says(client_ask(world, leader, 1, "RAFT.UPDATE %llu %s",
                               ID(third), address),
                    "-BADARG raft.update: address %s is that of member",
                    address);
    }
    assert_says(client_ask(world, leader, 1,
                           "RAFT.UPDATE %llu 10.0.0.4:7104,10.0.0.4:7204",
                           ID(third)),
                "-BADARG raft.update: member %llu is at 10.0.0.4:7104 and "
                "member ",
                ID(third));
    assert_says(client_ask(world, leader, 1, "RAFT.UPDATE 9 127.0.0.1:7301"),
                "-BADARG raft.update: no member has that id");
    assert_string_equal(address_at(leader, third), before);
    /* A standby may be anywhere. */
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.DEMOTE %llu", ID(third));
    assert_answer(world, leader, 1, "+OK\r\n",
                  "RAFT.UPDATE %llu 10.0.0.4:7104,10.0.0.4:7204", ID(third));
    assert_int_equal(role_of(third), MEMBER_STANDBY);
    assert_says(client_ask(world, leader, 1, "RAFT.PROMOTE %llu", ID(third)),
                "-BADARG raft.promote: member %llu is at 10.0.0.4:7104",
                ID(third));
}

/* A leader that goes before its entry is committed says that nobody knows. */
static void only_one_change_at_a_time_changes_an_address(void **state)
{
    (void)state;
    client_clear(world, leader, 1);
    client_send(world, leader, 1, "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204");
    world_run(world, 100);
    client_open(world, leader, 3);
    assert_says(client_ask(world, leader, 3, "RAFT.UPDATE %llu 127.0.0.1:7301",
                           ID(third)),
                "-BUSY another change of the members is in progress");
    world_run(world, 4000);
    uint64_t old = leader;
    client_clear(world, old, 1);
    world_cut(world, old, true);
    client_send(world, old, 1, "RAFT.UPDATE %llu 127.0.0.1:7301", ID(third));
    world_run(world, 1500);
    world_cut(world, old, false);
    leader = world_elect(world);
    world_run(world, 1000);
    assert_int_not_equal(leader, old);
    assert_says(client_text(world, old, 1), "-UNKNOWN the leader changed");
    client_open(world, leader, 5);
    assert_string_equal(client_ask(world, leader, 5,
                                   "RAFT.UPDATE %llu 127.0.0.1:7301",
                                   ID(third)),
                        "+OK\r\n");
    world_run(world, 300);
    for (uint64_t node = 1; node <= 3; node++) {
        assert_non_null(strstr(address_at(node, third), "127.0.0.1:7301,"));
    }
}

/* --- An empty directory ----------------------------------------------------
 */

static uint64_t directory_of(uint64_t id)
{
    struct replica_members members;
    replica_members(core_replica(world->node[leader].core), &members);
    const struct replica_member *member = replica_members_find(&members, id);
    return member != NULL ? member->incarnation : 0;
}

static void lose_directory(uint64_t id)
{
    node_wipe(world, id);
    node_start(world, id);
    links_update(world);
    world_run(world, 100);
}

/* A repetition, also one that comes later, finds nothing to do. */
static void a_voter_comes_back_with_an_empty_directory(void **state)
{
    struct removal removal;
    (void)state;
    uint64_t old = directory_of(third);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(third));
    assert_int_equal(directory_of(third), old);
    lose_directory(third);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(third));
    assert_int_equal(role_of(third), MEMBER_VOTER);
    assert_int_equal(directory_of(third), world->node[third].incarnation);
    assert_int_not_equal(directory_of(third), old);
    uint64_t last = replica_last_index(core_replica(world->node[leader].core));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(third));
    assert_int_equal(replica_last_index(core_replica(world->node[leader].core)),
                     last);
    world_run(world, 200);
    /* It is over, and all members know what was removed. */
    for (uint64_t node = 1; node <= 3; node++) {
        const struct lockfsm *fsm = core_state(world->node[node].core);
        assert_int_equal(lockfsm_replaced_at(fsm, third).size, 0);
        assert_true(lockfsm_removal(fsm, third, &removal));
        assert_int_equal(removal.incarnation, old);
    }
    assert_it_serves();
}

/* Wherever the leader goes, the next one gets the same request and goes on: the
 * node is a voter again, with the directory that it has by then. */
static void a_replacement_is_broken_off_and_repeated(void **state)
{
    uint64_t conn = 10;
    (void)state;
    for (uint64_t pause_ms = 0; pause_ms < 200; pause_ms += 20) {
        uint64_t lost = leader % 3 + 1;
        lose_directory(lost);
        client_open(world, leader, ++conn);
        client_send(world, leader, conn, "RAFT.REPLACE %llu FORCE", ID(lost));
        world_run(world, pause_ms);
        uint64_t was = leader;
        world_cut(world, was, true);
        world_run(world, 1500);
        world_cut(world, was, false);
        leader = world_elect(world);
        world_run(world, 300);
        if (pause_ms % 40 == 0 && lost != leader) {
            lose_directory(lost); /* Once more in between. */
        }
        bool is_done = false;
        for (int i = 0; i < 40 && !is_done; i++) {
            leader = world_elect(world);
            client_open(world, leader, ++conn);
            is_done = strcmp(client_ask(world, leader, conn,
                                        "RAFT.REPLACE %llu FORCE", ID(lost)),
                             "+OK\r\n") == 0;
            world_run(world, 200);
        }
        assert_true(is_done);
        leader = world_elect(world);
        assert_int_equal(role_of(lost), MEMBER_VOTER);
        assert_int_equal(directory_of(lost), world->node[lost].incarnation);
        assert_it_serves();
    }
}

static void a_directory_that_may_not_be_replaced_is_not(void **state)
{
    char why[64];
    (void)state;
    uint64_t old = directory_of(third);
    assert_says(client_ask(world, leader, 1, "RAFT.REPLACE 9 FORCE"),
                "-BADARG raft.replace: no member has that id");
    node_kill(world, third);
    world_run(world, 1000);
    snprintf(why, sizeof why, "-BADARG raft.replace: member %llu cannot be",
             ID(third));
    assert_says(
        client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third)),
        "%s", why);
    lose_directory(third);
    world->node[leader].is_plain = true;
    assert_says(client_ask(world, leader, 1, "RAFT.REPLACE %llu", ID(third)),
                "-BADARG raft.replace: the nodes do not authenticate each "
                "other (tls.peer), so any process at");
    assert_int_equal(directory_of(third), old);
    /* A standby is not made a voter. */
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.DEMOTE %llu FORCE",
                  ID(third));
    assert_says(
        client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third)),
        "-BADARG raft.replace: the member is a standby");
    assert_int_equal(directory_of(third), old);
}

/* Of five two are empty: without each of them the others must all be there. */
static void two_empty_directories_are_not_replaced_at_once(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5);
    uint64_t lost[2] = {follower, third};
    uint64_t old[2];
    for (int i = 0; i < 2; i++) {
        old[i] = directory_of(lost[i]);
        lose_directory(lost[i]);
    }
    world_run(world, 1000);
    for (int i = 0; i < 2; i++) {
        assert_says(client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE",
                               ID(lost[i])),
                    "member %llu is replaced only while all other voters are "
                    "heard; bring that one back, or remove it, and repeat this",
                    ID(lost[i]));
        assert_int_equal(directory_of(lost[i]), old[i]);
    }
    assert_it_serves();
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu", ID(lost[0]));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(lost[1]));
    assert_int_equal(role_of(lost[1]), MEMBER_VOTER);
}

/* The directory that its node has now belongs to a cluster, or has voted. */
static void a_directory_that_is_not_empty_takes_no_place(void **state)
{
    (void)state;
    uint64_t old = directory_of(third);
    lose_directory(third);
    struct frame_hello hello = hello_of(world, third);
    for (int i = 0; i < 3; i++) {
        struct frame_hello bad = hello;
        char why[HASP_WHY_SIZE];
        bad.term = i == 1;
        bad.last_index = i == 2;
        if (i == 0) {
            memcpy(bad.cluster_id, world->node[leader].cluster_id,
                   CLUSTER_ID_SIZE);
        }
        while (world->now_ms % 20 != 1) {
            world_run(world, 1); /* Its own greeting comes every 20 ms. */
        }
        assert_true(core_check_peer(world->node[leader].core, &bad, why) != 0);
        assert_says(
            client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(third)),
            "is not empty: it has belonged to a cluster");
        assert_int_equal(directory_of(third), old);
    }
    world_run(world, 100);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(third));
}

/* Runs until the leader has logged the removal of the third node. */
static void remove_for_replacement(void)
{
    static uint64_t conn = 40;
    lose_directory(third);
    client_open(world, leader, ++conn);
    client_send(world, leader, conn, "RAFT.REPLACE %llu FORCE", ID(third));
    for (int i = 0; i < 1000 && role_of(third) != MEMBER_SPARE; i++) {
        world_run(world, 1);
    }
    assert_int_equal(role_of(third), MEMBER_SPARE);
}

/* The leader has taken the vote, and is gone: the next one finishes that, and
 * nobody asks it to. */
static void the_next_leader_goes_on_with_a_replacement(void **state)
{
    (void)state;
    for (int wipes = 0; wipes < 2; wipes++) {
        remove_for_replacement();
        world_cut(world, leader, true);
        world_run(world, 1500);
        world_cut(world, leader, false);
        if (wipes == 1) {
            lose_directory(third); /* Another one than was recorded. */
        }
        leader = world_elect(world);
        for (int i = 0; i < 300 && role_of(third) != MEMBER_VOTER; i++) {
            world_run(world, 100);
            leader = world_elect(world);
        }
        assert_int_equal(role_of(third), MEMBER_VOTER);
        assert_int_equal(directory_of(third), world->node[third].incarnation);
        world_run(world, 200);
        assert_int_equal(
            lockfsm_replaced_by(core_state(world->node[leader].core), third),
            0);
        third = leader % 3 + 1;
    }
    assert_it_serves();
}

/* Until its node is there, other changes are possible; REMOVE ends it. */
static void a_replacement_is_given_up(void **state)
{
    (void)state;
    tear_down(NULL);
    found(5);
    uint64_t other = third % 5 + 1;
    remove_for_replacement();
    /* A second empty directory: nothing goes on while that one is missed. */
    lose_directory(other);
    world_run(world, 11000);
    assert_int_equal(role_of(third), MEMBER_SPARE);
    assert_says(
        client_ask(world, leader, 1, "RAFT.REPLACE %llu FORCE", ID(other)),
        "is being replaced: start its node with an empty data directory, or "
        "give that up with RAFT.REMOVE");
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu", ID(third));
    assert_int_equal(
        lockfsm_replaced_by(core_state(world->node[leader].core), third), 0);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                  ID(other));
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE %llu", ID(third));
    world_run(world, 6000);
    assert_int_equal(role_of(third), MEMBER_SPARE);
}

/* Each of the earlier directories is known, not the last alone. */
static void all_former_directories_of_a_member_are_refused(void **state)
{
    (void)state;
    char why[HASP_WHY_SIZE];
    uint64_t former[3];
    for (int i = 0; i < 3; i++) {
        former[i] = directory_of(third);
        lose_directory(third);
        assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REPLACE %llu FORCE",
                      ID(third));
    }
    world_run(world, 200);
    for (int i = 0; i < 3; i++) {
        for (uint64_t node = 1; node <= 3; node++) {
            struct frame_hello hello = {.from = third,
                                        .incarnation = former[i]};
            memcpy(hello.cluster_id, world->node[leader].cluster_id,
                   CLUSTER_ID_SIZE);
            if (node != third) {
                assert_true(
                    core_was_removed(world->node[node].core, &hello, why));
                assert_int_equal(
                    core_check_peer(world->node[node].core, &hello, why),
                    HASP_ENOENT);
            }
        }
    }
}

#define cluster(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster(the_leader_is_told_first_of_all_nodes),
        cluster(a_vote_that_the_others_need_is_not_taken_away),
        cluster(who_was_never_heard_is_named_as_well),
        cluster(it_is_taken_away_if_that_is_forced),
        cluster(a_member_that_is_behind_is_told_so),
        cluster(of_five_two_may_be_silent),
        cluster(leadership_is_not_offered_to_a_silent_member),
        cluster(an_heir_whose_connection_is_lost_is_waited_for),
        cluster(who_is_on_loopback_does_not_vote_with_those_who_are_not),
        cluster(who_is_not_on_loopback_does_not_vote_with_those_who_are),
        cluster(who_is_to_be_added_is_dialled_first),
        cluster(a_directory_of_another_cluster_is_not_added),
        cluster(the_last_dial_ends_with_its_time),
        cluster(whoever_is_not_there_is_added_if_that_is_forced),
        cluster(a_silent_voter_is_not_added_again),
        cluster(another_leader_dials_again),
        cluster(a_member_gets_another_address),
        cluster(an_address_that_does_not_fit_is_refused),
        cluster(only_one_change_at_a_time_changes_an_address),
        cluster(a_voter_comes_back_with_an_empty_directory),
        cluster(a_replacement_is_broken_off_and_repeated),
        cluster(a_directory_that_may_not_be_replaced_is_not),
        cluster(two_empty_directories_are_not_replaced_at_once),
        cluster(a_directory_that_is_not_empty_takes_no_place),
        cluster(the_next_leader_goes_on_with_a_replacement),
        cluster(a_replacement_is_given_up),
        cluster(all_former_directories_of_a_member_are_refused),
        cluster(an_heir_is_chosen_from_those_that_are_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
