/* SPDX-License-Identifier: MIT */

/* What a node is doing (base/doing.h), as a crash at that moment would report
 * it. The log's sink looks while a request or an entry is being worked on. */

#include "base/doing.h"
#include "base/log.h"
#include "tests/unit/core_world.h"

static struct world *world;
static struct doing seen;
static const char *wanted; /* A part of the fields of the line. */
static char seen_address[64];

static void note_doing(void *data, enum log_level level, const char *event,
                       const char *fields)
{
    (void)data;
    (void)level;
    if (strcmp(event, "administration") == 0 && wanted != NULL &&
        strstr(fields, wanted) != NULL) {
        seen = doing_now;
        snprintf(seen_address, sizeof seen_address, "%.*s",
                 (int)doing_now.address.size,
                 (const char *)doing_now.address.data);
    }
}

static int set_up(void **state)
{
    (void)state;
    seen = (struct doing){0};
    seen_address[0] = '\0';
    world = world_new(1);
    world_found(world);
    log_set_sink(note_doing, NULL);
    client_open(world, 1, 7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_sink(NULL, NULL);
    world_free(world);
    return 0;
}

static void a_request_is_named(void **state)
{
    (void)state;
    wanted = "command=RAFT.SNAPSHOT";
    client_ask(world, 1, 7, "RAFT.SNAPSHOT");
    assert_non_null(seen.what);
    assert_string_equal(seen.what, "request");
    assert_string_equal(seen.command, "RAFT.SNAPSHOT");
    assert_int_equal(seen.log_index, 0);
    assert_string_not_equal(seen_address, "");
}

static void an_entry_is_named(void **state)
{
    (void)state;
    wanted = "command=BLACKLIST.ADD";
    client_ask(world, 1, 7, "BLACKLIST.ADD CLIENT bob");
    assert_non_null(seen.what);
    assert_string_equal(seen.what, "entry");
    assert_int_not_equal(seen.log_index, 0);
    assert_null(seen.command);
}

static void nothing_stays_named(void **state)
{
    (void)state;
    client_ask(world, 1, 7, "RAFT.SNAPSHOT");
    client_ask(world, 1, 7, "BLACKLIST.ADD CLIENT bob");
    client_ask(world, 1, 7, "LOCK.LIST");
    assert_null(doing_now.what);
    assert_null(doing_now.command);
    assert_int_equal(doing_now.log_index, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_entry_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_stays_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
