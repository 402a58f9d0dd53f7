/* SPDX-License-Identifier: MIT */

/* Administration in the log: each node that applies such an entry logs the
 * user, the address, the act, and the session and locks concerned. */

#include "base/log.h"
#include "base/log_limit.h"
#include "core/commands/commands.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static struct buffer lines;
static uint32_t line_count;

static void note_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    (void)data;
    if (level == LOG_INFO_LEVEL && strncmp(event, "administration", 14) == 0) {
        buffer_printf(&lines, "%s %s\n", event, fields);
        line_count++;
    }
}

static int set_up(void **state)
{
    begin_three(state);
    client_open(world, leader, 1);
    client_open(world, follower, 2);
    log_set_sink(note_line, NULL);
    return 0;
}

static int forget_lines(void **state)
{
    log_set_sink(NULL, NULL);
    buffer_done(&lines);
    lines = (struct buffer){0};
    line_count = 0;
    return tear_down(state);
}

/* Sends it to the follower's node and lets all apply it. */
__attribute__((format(printf, 1, 2))) static const char *
administer(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buffer_clear(&lines);
    line_count = 0;
    const char *answer = client_ask(world, follower, 2, "%s", text);
    world_run(world, 100);
    buffer_put_u8(&lines, 0);
    lines.size--;
    return answer;
}

/* From now on by the local door. */
static void come_by_the_door(void)
{
    client_close(world, follower, 2);
    client_open_as(world, follower, 2,
                   &(struct identity){.way = IDENTITY_LOCAL});
}

/* 'count' lines contain all of it. */
static void expect_lines(uint32_t count, const char *said)
{
    uint32_t found = 0;
    for (const char *at = (const char *)lines.data;
         (at = strstr(at, said)) != NULL; at++) {
        found++;
    }
    if (found != count) {
        fail_msg("%u times, not %u: '%s' in\n%s", found, count, said,
                 (const char *)lines.data);
    }
}

static uint64_t held(const char *name)
{
    const char *answer = client_ask(world, leader, 1, "LOCK.ACQUIRE %s", name);
    assert_int_equal(answer[0], ':');
    return strtoull(answer + 1, NULL, 10);
}

/* --- The table ------------------------------------------------------------ */

/* An operator's entry carries the operator's name; changes of members, whose
 * entries cannot, are logged by an entry of their own. */
static void no_administration_is_forgotten(void **state)
{
    (void)state;
    for (uint32_t place = 0; place < commands_count(); place++) {
        const struct command *c = command_at(place);
        bool is_change = (c->flags & COMMAND_ADMIN) != 0 &&
                         (c->flags & COMMAND_CHANGE) != 0 && c->propose != NULL;
        if (is_change && (c->flags & COMMAND_TRAIL) == 0) {
            fail_msg("%s leaves no trail", c->name);
        }
        /* An administrator of users or certificates is a user: the line has its
         * name. An act that a node starts itself has no name. */
        bool is_of_users = c->needs == NEEDS_ENTRY && c->operands != NULL
                               ? strpbrk(c->operands, "uh") != NULL
                               : strstr(c->name, ".SET") != NULL;
        bool is_of_node = strcmp(c->name, "AUDIT.LOGIN") == 0;
        if ((c->flags & COMMAND_TRAIL) != 0 && !is_of_users && !is_of_node &&
            (c->options & UINT64_C(1) << OPTION_BY) == 0) {
            fail_msg("%s does not take BY", c->name);
        }
    }
}

/* --- Tests ---------------------------------------------------------------- */

static void the_blacklist_is_told_by_all(void **state)
{
    char said[256];
    (void)state;
    uint64_t id = client_session(world, leader, 1, "NAME web-1").id;
    uint64_t a = held("orders"), b = held("jobs");
    assert_string_equal(administer("BLACKLIST.ADD SESSION %llu REASON hangs BY "
                                   "ann FOR 60000",
                                   (unsigned long long)id),
                        "+OK\r\n");
    assert_int_equal(line_count, 3);
    snprintf(said, sizeof said,
             "command=BLACKLIST.ADD from=\"10.0.0.%d:2\" by=\"ann\" "
             "of_session=%llu reason=hangs for_ms=60000",
             (int)follower, (unsigned long long)id);
    expect_lines(3, said);
    snprintf(said, sizeof said,
             "session=%llu client=\"web-1\" address=\"10.0.0.%d:1\" holds=2 "
             "lock=\"orders\" token=%llu lock=\"jobs\" token=%llu\n",
             (unsigned long long)id, (int)leader, (unsigned long long)a,
             (unsigned long long)b);
    expect_lines(3, said);
    assert_string_equal(administer("BLACKLIST.REMOVE SESSION %llu BY bob",
                                   (unsigned long long)id),
                        ":1\r\n");
    expect_lines(3, "command=BLACKLIST.REMOVE");
    expect_lines(3, "by=\"bob\"");
    expect_lines(3, said);
    /* A pattern may match many sessions. */
    for (int i = 0; i < 12; i++) {
        client_session(world, leader, 1, "NAME many");
    }
    administer("BLACKLIST.ADD CLIENT many FOR 100");
    assert_int_equal(line_count, 3 * 8);
    expect_lines(3, "pattern=many");
    expect_lines(3 * 7, "administration concerns index=");
    expect_lines(3, "sessions_left_out=4");
    world_run(world, 500);
    expect_lines(0, "never");
}

static void its_end_is_told_too(void **state)
{
    (void)state;
    administer("BLACKLIST.ADD CLIENT rogue-* FOR 200");
    world_run(world, 1000);
    buffer_put_u8(&lines, 0);
    lines.size--;
    expect_lines(3, "command=BLACKLIST.OVER from=\"itself\"");
}

static void who_takes_a_lock_is_told(void **state)
{
    char said[256];
    (void)state;
    uint64_t id = client_session(world, leader, 1, "NAME web-1").id;
    held("kept");
    uint64_t token = held("orders");
    client_ask(world, follower, 2, "CLIENT SETNAME carol");
    assert_string_equal(administer("LOCK.PLEASE orders MESSAGE soon"),
                        ":1\r\n");
    expect_lines(3, "command=LOCK.PLEASE");
    expect_lines(3, "by=\"carol\" lock=orders message=soon result=1");
    assert_string_equal(administer("LOCK.RELEASEIF orders OWNER '' TOKEN %llu",
                                   (unsigned long long)token),
                        ":1\r\n");
    snprintf(said, sizeof said,
             "by=\"carol\" lock=orders token=%llu result=1 "
             "released=\"orders\" released_token=%llu session=%llu "
             "client=\"web-1\"",
             (unsigned long long)token, (unsigned long long)token,
             (unsigned long long)id);
    expect_lines(3, said);
    expect_lines(3, "holds=1 lock=\"kept\"");
    administer("LOCK.RELEASEIF orders OWNER '' TOKEN 7");
    expect_lines(3, "token=7 result=0");
}

static void limits_fences_and_levels_are_told(void **state)
{
    (void)state;
    come_by_the_door();
    administer("LIMITS.SET fences 1 BY ann");
    expect_lines(3, "by=\"ann\" limit=fences value=1");
    client_ask(world, leader, 1, "FENCE.ADMIT disk 77");
    administer("FENCE.REMOVE disk BY ann");
    expect_lines(3, "command=FENCE.REMOVE");
    expect_lines(3, "resource=disk token=77 result=1");
    administer("LIMITS.SET nonsense 1");
    assert_int_equal(line_count, 0);
}

static void changes_of_members_are_told(void **state)
{
    (void)state;
    administer("RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY INCARNATION "
               "0000000000012ccc "
               "BY ann");
    expect_lines(3, "command=RAFT.ADD");
    expect_lines(3, "by=\"ann\" member=4 "
                    "address=127.0.0.1:7104,127.0.0.1:7204 result=4");
    administer("RAFT.UPDATE 4 127.0.0.1:7304 BY eve");
    expect_lines(3, "command=RAFT.UPDATE");
    expect_lines(3, "by=\"eve\" member=4 "
                    "address=127.0.0.1:7304,127.0.0.1:7204 result=4");
    administer("RAFT.REMOVE 4 BY bob");
    expect_lines(3, "command=RAFT.REMOVE");
    expect_lines(3, "by=\"bob\" member=4");
    administer("RAFT.SNAPSHOT BY ann");
    assert_int_equal(line_count, 1); /* The leader's own. */
    expect_lines(1, "command=RAFT.SNAPSHOT");
    come_by_the_door();
    administer("RAFT.BACKUP");
    expect_lines(1, "command=RAFT.BACKUP");
    administer("RAFT.TRANSFER BY ann");
    expect_lines(1, "command=RAFT.TRANSFER");
    expect_lines(1, "by=\"ann\"");
}

/* Entries that were not in its table yet are applied again, and logged
 * again. */
/* It says so; entries that come after the start do not. */
static void after_a_start_the_newest_may_come_again(void **state)
{
    (void)state;
    administer("BLACKLIST.ADD CLIENT rogue-* BY ann");
    expect_lines(0, "replayed=yes");
    node_kill(world, follower);
    buffer_clear(&lines);
    line_count = 0;
    node_start(world, follower);
    links_update(world);
    world_run(world, 500);
    assert_int_equal(line_count, 1);
    buffer_put_u8(&lines, 0);
    expect_lines(line_count, "by=\"ann\" pattern=rogue-*");
    expect_lines(line_count, " replayed=yes command=BLACKLIST.ADD");
    client_open(world, follower, 2);
    administer("BLACKLIST.ADD CLIENT later-* BY ann");
    expect_lines(3, "later-*");
    expect_lines(0, "replayed=yes");
}

static void hostile_names_do_not_break_a_line(void **state)
{
    (void)state;
    administer("BLACKLIST.ADD CLIENT x\n\"y\\ REASON \x1b[2J\xc2\x9b\xff BY "
               "ann\xe2\x80\xae\xc3\xa9");
    assert_int_equal(line_count, 3);
    expect_lines(3, "pattern=\"x\\x0a\\x22y\\x5c\"");
    expect_lines(3, "reason=\"\\x1b[2J\\xc2\\x9b\\xff\"");
    expect_lines(3, "by=\"ann\\xe2\\x80\\xae\xc3\xa9\"");
}

static void pleas_do_not_fill_the_log(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        client_ask(world, leader, 1, "LOCK.PLEASE orders");
    }
    world_run(world, 100);
    assert_int_equal(line_count, 3 * LOG_LIMIT_LINES);
    world_run(world, LOG_LIMIT_WINDOW_MS);
    administer("LOCK.PLEASE orders");
    expect_lines(3, "suppressed=45");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, forget_lines)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_administration_is_forgotten),
        TEST(the_blacklist_is_told_by_all),
        TEST(its_end_is_told_too),
        TEST(who_takes_a_lock_is_told),
        TEST(limits_fences_and_levels_are_told),
        TEST(changes_of_members_are_told),
        TEST(after_a_start_the_newest_may_come_again),
        TEST(hostile_names_do_not_break_a_line),
        TEST(pleas_do_not_fill_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
