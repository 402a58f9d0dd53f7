/* SPDX-License-Identifier: MIT */

/* Very many connections when rights are withdrawn: they are checked and closed
 * in slices. test_core_users.c tests the meaning of a withdrawal. */

#include "core/session/identity.h"
#include "lockfsm/user/access.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_users.h"
#include "tests/unit/core_world.h"

/* Of a user with very many: these connections and the MANY - 1 after each. */
#define FIRST 10
#define MANY 1000
/* Turns that the world runs at once (world_step()), and the rounds of each. */
#define TURNS_AT_ONCE 8
#define ROUNDS 3

static void come_as_many(const char *user, int watches)
{
    admin("USER.SET %s IF %llu CONNECTIONS %d ROLES %s", user,
          (unsigned long long)changed("USER", user), MANY, user);
    world_run(world, 100);
    for (uint64_t conn = FIRST; conn < FIRST + MANY; conn++) {
        client_open_as(
            world, leader, conn,
            &(struct identity){.way = IDENTITY_NONE, .is_private = true});
        client_send(world, leader, conn, "AUTH %s", secret_of(user, 'x'));
        client_send(world, leader, conn, "HELLO 3");
        for (int i = 0; i < watches; i++) {
            client_send(
                world, leader, conn, "LOCK.WATCH %.*s", i + 1,
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        }
    }
    world_run(world, 100);
    for (uint64_t conn = FIRST; conn < FIRST + MANY; conn++) {
        client_clear(world, leader, conn);
    }
}

static uint32_t count_closed(void)
{
    uint32_t count = 0;
    for (uint64_t conn = FIRST; conn < FIRST + MANY; conn++) {
        count += world->node[leader].client[conn].was_closed;
    }
    return count;
}

/* Lets time pass until some of the many are closed; returns how many are. */
static uint32_t run_until_closed(void)
{
    for (int i = 0; i < 1000 && count_closed() == 0; i++) {
        world_run(world, 0);
        world->now_ms++;
    }
    return count_closed();
}

/* So that others are served in between. Meanwhile no connection receives data
 * that it may no longer read. */
static void very_many_are_closed_a_few_at_a_time(void **state)
{
    (void)state;
    make_user("app", "read:*");
    come_as_many("app", 1);
    client_open(world, leader, 5);
    assert_int_equal(client_ask(world, leader, 5, "SESSION.OPEN")[0], '*');
    unsigned long long role = (unsigned long long)changed("ROLE", "app");
    client_send(world, leader, 5, "LOCK.ACQUIRE a1");
    client_send(world, leader, ADMIN, "ROLE.SET app IF %llu", role);
    client_send(world, leader, 5, "LOCK.ACQUIRE a2");
    uint32_t closed = run_until_closed();
    assert_in_range(closed, 1, TURNS_AT_ONCE * ROUNDS * IDENTITY_CLOSES);
    assert_int_equal(client_ask(world, leader, 5, "LOCK.RELEASE a1")[0], ':');
    world_run(world, 20);
    assert_int_equal(count_closed(), MANY);
    for (uint64_t conn = FIRST; conn < FIRST + MANY; conn++) {
        const char *told = client_text(world, leader, conn);
        assert_non_null(strstr(told, "a1"));
        assert_null(strstr(told, "a2"));
        assert_null(strstr(told, "released"));
    }
}

/* A change that comes while the first is still being processed also applies to
 * the connections already checked. */
static void a_second_change_is_looked_after_like_the_first(void **state)
{
    (void)state;
    make_user("app", "read:*");
    make_user("other", "read:*");
    come_as(leader, APP, "other");
    come_as_many("app", 64); /* Each is a check as well: it takes a while. */
    unsigned long long app = (unsigned long long)changed("USER", "app");
    unsigned long long other = (unsigned long long)changed("USER", "other");
    client_send(world, leader, ADMIN, "USER.SET app IF %llu DISABLED ROLES app",
                app);
    world_run(world, 2);
    client_send(world, leader, ADMIN,
                "USER.SET other IF %llu DISABLED ROLES other", other);
    uint32_t closed = run_until_closed();
    assert_false(lockfsm_user_named(core_state(world->node[leader].core),
                                    BYTES_LITERAL("other"))
                     ->is_disabled);
    for (int i = 0;
         i < 1000 && !lockfsm_user_named(core_state(world->node[leader].core),
                                         BYTES_LITERAL("other"))
                          ->is_disabled;
         i++) {
        closed = count_closed();
        world_run(world, 0);
        world->now_ms++;
    }
    assert_in_range(closed, 1, MANY - 1);
    world_run(world, 100);
    assert_int_equal(count_closed(), MANY);
    assert_true(was_cut(leader, APP));
}

/* A right that returns before the check does not make up for the events
 * withheld meanwhile: a client that kept watching would never learn of the
 * gap. */
static void who_was_not_told_once_is_closed_whatever_comes_back(void **state)
{
    (void)state;
    make_user("app", "read:*");
    make_user("other", "read:*");
    come_as(leader, APP, "app");
    assert_int_equal(client_ask(world, leader, APP, "HELLO 3")[0], '%');
    assert_answer(world, leader, APP, "+OK\r\n", "LOCK.WATCH a");
    assert_int_equal(client_ask(world, leader, ADMIN, "SESSION.OPEN")[0], '*');
    unsigned long long role = (unsigned long long)changed("ROLE", "app");
    unsigned long long user = (unsigned long long)changed("USER", "app");
    client_send(world, leader, ADMIN, "ROLE.SET app IF %llu", role);
    client_send(world, leader, ADMIN, "LOCK.ACQUIRE a1");
    client_send(world, leader, ADMIN, "USER.SET app IF %llu ROLES app other",
                user);
    world_run(world, 100);
    assert_true(lockfsm_user_named(core_state(world->node[leader].core),
                                   BYTES_LITERAL("app"))
                    ->role_count == 2);
    assert_null(strstr(client_text(world, leader, APP), "a1"));
    assert_true(was_cut(leader, APP));
}

/* Also one that is cut off from all leaders. */
static void very_many_watchers_of_a_blind_node_end_a_few_at_a_time(void **state)
{
    (void)state;
    make_user("app", "read:*");
    come_as_many("app", 1);
    admin("ACCESS.SET REQUIRED");
    world_run(world, 100);
    world_cut(world, leader, true);
    uint32_t closed = 0;
    for (int i = 0; i < 20000 && (closed = count_closed()) == 0; i++) {
        world_run(world, 0);
        world->now_ms++;
    }
    assert_in_range(closed, 1, TURNS_AT_ONCE * ROUNDS * IDENTITY_CLOSES);
    world_run(world, 20);
    assert_int_equal(count_closed(), MANY);
}

#define WITHDRAWAL_TEST(name) \
    cmocka_unit_test_setup_teardown(name, users_set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITHDRAWAL_TEST(very_many_are_closed_a_few_at_a_time),
        WITHDRAWAL_TEST(a_second_change_is_looked_after_like_the_first),
        WITHDRAWAL_TEST(who_was_not_told_once_is_closed_whatever_comes_back),
        WITHDRAWAL_TEST(very_many_watchers_of_a_blind_node_end_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
