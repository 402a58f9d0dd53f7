/* SPDX-License-Identifier: MIT */

/* Denials are gathered and logged in few lines, and none is hidden. */

#include <inttypes.h>

#include "core/session/audit_denied.h"
#include "core/session/identity.h"
#include "core/state.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static struct core *core;

#define ADMIN 1 /* The connection by the local door. */
#define APP 2
#define LINE_MAX 4096

static char lines[LINE_MAX];
static uint32_t line_count;

static void take_line(void *data, enum log_level level, const char *event,
                      const char *details)
{
    (void)data;
    (void)level;
    if (strcmp(event, "denied") == 0) {
        size_t size = strlen(lines);
        snprintf(lines + size, sizeof lines - size, "%s\n", details);
        line_count++;
    }
}

static const struct identity local = {.way = IDENTITY_LOCAL,
                                      .is_private = true};

__attribute__((format(printf, 2, 3))) static const char *
ask(uint64_t conn, const char *format, ...)
{
    static char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return client_ask(world, leader, conn, "%s", text);
}

static void expect(const char *begins, const char *answer)
{
    if (strncmp(answer, begins, strlen(begins)) != 0) {
        fail_msg("%s is no %s", answer, begins);
    }
}

static struct identity certified(const char *user)
{
    static const uint8_t fingerprint[FINGERPRINT_SIZE] = {7};
    return (struct identity){.way = IDENTITY_CERTIFICATE,
                             .user = user,
                             .fingerprint = fingerprint,
                             .is_private = true};
}

static int set_up(void **state)
{
    (void)state;
    world = world_new(1); /* Hours pass here: no heartbeats. */
    world_found(world);
    leader = world_elect(world);
    core = world->node[leader].core;
    client_open_as(world, leader, ADMIN, &local);
    ask(ADMIN, "ROLE.SET reader IF 0 GRANTS read:a/*");
    ask(ADMIN, "USER.SET app IF 0 ROLES reader");
    ask(ADMIN, "USER.SET other IF 0 ROLES reader");
    struct identity app = certified("app");
    client_open_as(world, leader, APP, &app);
    lines[0] = '\0';
    line_count = 0;
    log_set_sink(take_line, NULL);
    return 0;
}

static int forget_lines(void **state)
{
    log_set_sink(NULL, NULL);
    return tear_down(state);
}

static uint32_t kept(void)
{
    uint32_t count = 0;
    const struct core_denial *denial;
    while ((denial = core_denial(core, count)) != NULL && denial->count > 0) {
        count++;
    }
    return count;
}

/* The line whose reason contains this; NULL. */
static const struct core_denial *find(const char *what)
{
    const struct core_denial *denial;
    for (uint32_t i = 0; (denial = core_denial(core, i)) != NULL; i++) {
        if (denial->count > 0 && strstr(denial->why, what) != NULL) {
            return denial;
        }
    }
    return NULL;
}

static void what_is_alike_is_one_line_with_a_count(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        expect("-NOPERM ", ask(APP, "LOCK.SHOW b/1"));
    }
    expect("-NOPERM ", ask(APP, "LOCK.SHOW b/2"));
    expect("-NOPERM ", ask(APP, "LOCK.CHECK b/1 1"));
    expect("*", ask(APP, "LOCK.SHOW a/1"));
    assert_int_equal(kept(), 3);
    assert_int_equal(line_count, 0);
    world_run(world, 9000);
    assert_int_equal(line_count, 0);
    world_run(world, 2000);
    assert_int_equal(line_count, 3);
    assert_non_null(strstr(lines, "user=\"app\""));
    assert_non_null(strstr(
        lines, "command=LOCK.SHOW count=50 why=\"NOPERM user 'app' may not "
               "read 'b/1' (roles: reader)\""));
    const struct core_denial *denial = find("'b/2'");
    assert_int_equal(denial->count, 1);
    assert_int_equal(denial->unwritten_count, 1);
    assert_string_equal(denial->user, "app");
    assert_string_equal(denial->command, "LOCK.SHOW");
    assert_true(denial->from[0] != '\0');
}

/* Ten minutes of refusals are a few lines, not one every ten seconds. */
static void who_goes_on_is_told_of_less_and_less_often(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        expect("-NOPERM ", ask(APP, "LOCK.SHOW b/1"));
        world_run(world, 10000);
    }
    assert_in_range(line_count, 5, 6);
    assert_int_equal(find("'b/1'")->count, 60);
    /* After a long pause a client is logged soon again. */
    world_run(world, 3600 * 1000);
    line_count = 0;
    ask(APP, "LOCK.SHOW b/1");
    world_run(world, 11000);
    assert_int_equal(line_count, 1);
}

static void a_flood_of_one_user_hides_nobody_else(void **state)
{
    (void)state;
    struct identity other = certified("other");
    client_open_as(world, leader, 3, &other);
    for (int i = 0; i < 1000; i++) {
        expect("-NOPERM ", ask(APP, "LOCK.SHOW b/%d", i));
    }
    assert_int_equal(kept(), AUDIT_DENIED_WHO_MAX + 1);
    expect("-NOPERM ", ask(3, "LOCK.SHOW c"));
    assert_int_equal(kept(), AUDIT_DENIED_WHO_MAX + 2);
    assert_string_equal(find("'c'")->user, "other");
    assert_int_equal(find("not listed")->count, 1000 - AUDIT_DENIED_WHO_MAX);
    assert_string_equal(find("not listed")->user, "");
    /* The log has few lines in any ten seconds. */
    world_run(world, 11000);
    assert_true(line_count <= LOG_LIMIT_LINES);
    /* Later lines replace those that are over. */
    world_run(world, 60000);
    expect("-NOPERM ", ask(APP, "LOCK.SHOW b/new"));
    assert_non_null(find("'b/new'"));
    assert_int_equal(kept(), AUDIT_DENIED_WHO_MAX + 2);
}

/* All together do not get more, whichever clients come. */
static void a_node_keeps_so_many_and_counts_the_rest(void **state)
{
    (void)state;
    uint64_t count = 0;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", i);
        ask(ADMIN, "USER.SET %s IF 0 ROLES reader", name);
        struct identity user = certified(name);
        client_open_as(world, leader, 100 + (uint64_t)i, &user);
        for (int j = 0; j < AUDIT_DENIED_WHO_MAX; j++) {
            expect("-NOPERM ", ask(100 + (uint64_t)i, "LOCK.SHOW b/%d", j));
            count++;
        }
    }
    assert_true(count > AUDIT_DENIED_MAX);
    assert_int_equal(kept(), AUDIT_DENIED_MAX + 1);
    assert_int_equal(find("not listed")->count, count - AUDIT_DENIED_MAX);
}

/* Neither an act nor an entry: the log of an idle cluster does not grow. */
static void a_denial_writes_nothing_to_the_log(void **state)
{
    (void)state;
    world_run(world, 3000);
    uint64_t index = replica_last_index(core_replica(core));
    for (int i = 0; i < 100; i++) {
        expect("-NOPERM ", ask(APP, "USER.SET x IF 0"));
        expect("-NOPERM ", ask(APP, "LOCK.SHOW b"));
        expect("-NOPERM ", ask(APP, "BLACKLIST.ADD CLIENT x"));
    }
    world_run(world, 30000);
    assert_int_equal(replica_last_index(core_replica(core)), index);
}

static void a_stop_tells_what_is_gathered(void **state)
{
    (void)state;
    ask(APP, "LOCK.SHOW b/1");
    core_stop(core, node_now(&world->node[leader]));
    assert_int_equal(line_count, 1);
}

static void those_who_audit_may_ask(void **state)
{
    (void)state;
    ask(APP, "LOCK.SHOW b/1");
    ask(APP, "LOCK.SHOW b/1");
    expect("-NOPERM ", ask(APP, "AUDIT.DENIED"));
    expect("*2\r\n*14\r\n$4\r\nuser\r\n$3\r\napp\r\n$4\r\nfrom\r\n",
           ask(ADMIN, "AUDIT.DENIED"));
    assert_int_equal(answer_number(world, leader, ADMIN, "count"), 2);
}

/* A client without a name: it is logged by its host. */
static void strangers_are_gathered_by_host(void **state)
{
    (void)state;
    ask(ADMIN, "ACCESS.SET REQUIRED");
    client_open(world, leader, 50);
    client_open(world, leader, 51);
    expect("-NOAUTH ", ask(50, "LOCK.SHOW b/1"));
    expect("-NOAUTH ", ask(51, "LOCK.SHOW b/2"));
    expect("-WRONGPASS ", ask(51, "AUTH nonsense"));
    assert_int_equal(kept(), 2);
    assert_int_equal(find("NOAUTH")->count, 2);
    assert_string_equal(find("NOAUTH")->user, "");
    assert_string_equal(find("WRONGPASS")->command, "AUTH");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, forget_lines)
    const struct CMUnitTest tests[] = {
        TEST(what_is_alike_is_one_line_with_a_count),
        TEST(who_goes_on_is_told_of_less_and_less_often),
        TEST(a_flood_of_one_user_hides_nobody_else),
        TEST(a_node_keeps_so_many_and_counts_the_rest),
        TEST(a_denial_writes_nothing_to_the_log),
        TEST(a_stop_tells_what_is_gathered),
        TEST(those_who_audit_may_ask),
        TEST(strangers_are_gathered_by_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
