/* SPDX-License-Identifier: MIT */

/* LISTs: the contents of a page, the start of the next one, their cost. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define assert_begins(text, begin) \
    assert_memory_equal(text, begin, sizeof(begin) - 1)
#define ask(...) client_ask(world, 1, 1, __VA_ARGS__)
#define expect(answer, ...) assert_answer(world, 1, 1, answer, __VA_ARGS__)

static void locks_are_listed_page_by_page(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    for (int i = 0; i < 7; i++) {
        ask("LOCK.ACQUIRE n%d", 6 - i);
    }
    ask("LOCK.ACQUIRE m");
    const char *text = ask("LOCK.LIST PREFIX n COUNT 3");
    assert_begins(text, "*2\r\n$3\r\n=n2\r\n*3\r\n");
    assert_null(strstr(text, "$2\r\nn3\r\n"));
    text = ask("LOCK.LIST PREFIX n COUNT 3 CURSOR =n2");
    assert_begins(text, "*2\r\n$3\r\n=n5\r\n*3\r\n");
    text = ask("LOCK.LIST PREFIX n COUNT 3 CURSOR =n5");
    assert_begins(text, "*2\r\n$1\r\n0\r\n*1\r\n");
    text = ask("SESSION.LIST");
    assert_begins(text, "*2\r\n$1\r\n0\r\n*1\r\n");
}

/* More than the budget of a turn: the lists take turns, one of each connection,
 * and all other requests pass them. */
static void lists_of_very_many_locks_hold_nobody_up(void **state)
{
    (void)state;
    enum { NAMES = 50, REQUESTS = 20, LISTS = 60 };
    char text[2048];
    struct credentials session = client_session(world, 1, 1, "TTL 10000");
    for (int i = 0; i < REQUESTS; i++) {
        int at = snprintf(text, sizeof text, "LOCK.MACQUIRE %d", NAMES);
        for (int k = 0; k < NAMES; k++) {
            at += snprintf(text + at, sizeof text - (size_t)at, " n%03d",
                           i * NAMES + k);
        }
        client_send(world, 1, 1, "%s", text);
    }
    world_run(world, 20);
    client_clear(world, 1, 1);
    for (uint64_t conn = 2; conn < 2 + LISTS; conn++) {
        client_open(world, 1, conn);
        client_send(world, 1, conn, "LOCK.LIST COUNT 399");
        client_send(world, 1, conn, "LOCK.LIST COUNT 399");
        assert_true(world->node[1].client[conn].is_blocked);
    }
    client_send(world, 1, 1, "SESSION.KEEP %llu %s",
                (unsigned long long)session.id, session.secret);
    world_step(world);
    assert_string_equal(client_text(world, 1, 1), ":10000\r\n");
    assert_int_equal(world->node[1].client[1 + LISTS].output.size, 0);
    world_run(world, 100);
    for (uint64_t conn = 2; conn < 2 + LISTS; conn++) {
        const char *told = client_text(world, 1, conn);
        assert_begins(told, "*2\r\n$5\r\n=n398\r\n*399\r\n");
        assert_non_null(strstr(told + 1, "*2\r\n$5\r\n=n398\r\n*399\r\n"));
    }
}

/* The last entry of a page has gone before the next page is requested; and
 * clients of the same name have separate places. */
static void a_listing_goes_on_where_it_was(void **state)
{
    (void)state;
    char cursor[32], text[64];
    uint64_t ids[5];
    for (uint64_t conn = 2; conn < 7; conn++) {
        client_open(world, 1, conn);
        ids[conn - 2] = client_session(world, 1, conn, "NAME same").id;
        client_ask(world, 1, conn, "LOCK.ACQUIRE l%d", (int)conn);
    }
    assert_begins(ask("LOCK.LIST PREFIX l COUNT 2"),
                  "*2\r\n$3\r\n=l3\r\n*2\r\n");
    client_ask(world, 1, 3, "SESSION.CLOSE");
    client_ask(world, 1, 4, "LOCK.ACQUIRE l31");
    client_ask(world, 1, 4, "LOCK.ACQUIRE l1");
    const char *page = ask("LOCK.LIST PREFIX l COUNT 2 CURSOR =l3");
    assert_begins(page, "*2\r\n$3\r\n=l4\r\n*2\r\n");
    assert_non_null(strstr(page, "$3\r\nl31\r\n"));
    /* A cursor before all names with that prefix is a beginning. */
    assert_begins(ask("LOCK.LIST PREFIX l5 COUNT 2 CURSOR =a"),
                  "*2\r\n$1\r\n0\r\n*1\r\n");
    assert_begins(ask("LOCK.LIST PREFIX l5 CURSOR =m"), "*2\r\n$1\r\n0\r\n*0");
    snprintf(cursor, sizeof cursor, "=%llu/same", (unsigned long long)ids[0]);
    snprintf(text, sizeof text, "*2\r\n$%zu\r\n%s\r\n*1\r\n", strlen(cursor),
             cursor);
    assert_memory_equal(ask("SESSION.LIST PREFIX sa COUNT 1"), text,
                        strlen(text));
    assert_begins(ask("SESSION.LIST PREFIX sa COUNT 9 CURSOR %s", cursor),
                  "*2\r\n$1\r\n0\r\n*3\r\n");
    expect("-BADARG session.list: CURSOR must be one that LIST returned\r\n",
           "SESSION.LIST CURSOR =same");
    expect("-BADARG session.list: CURSOR must be one that LIST returned\r\n",
           "SESSION.LIST CURSOR =x/same");
}

/* However many entries it has, an answer has at most a page. */
static void the_blacklist_is_listed_page_by_page(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        expect("+OK\r\n", "BLACKLIST.ADD CLIENT c%d", i);
    }
    char cursor[32] = "0";
    int pages = 0;
    int seen = 0;
    do {
        size_t size;
        const char *text = ask("BLACKLIST.LIST COUNT 3 CURSOR %s", cursor);
        assert_int_equal(sscanf(text, "*2\r\n$%zu\r\n%31s", &size, cursor), 2);
        for (int i = 3 * pages; i < 3 * pages + 3 && i < 7; i++) {
            char name[16];
            snprintf(name, sizeof name, "$2\r\nc%d\r\n", i);
            assert_non_null(strstr(text, name));
            seen++;
        }
        pages++;
    } while (strcmp(cursor, "0") != 0);
    assert_int_equal(pages, 3);
    assert_int_equal(seen, 7);
    /* The entry that the cursor names may be gone. */
    sscanf(ask("BLACKLIST.LIST COUNT 3"), "*2\r\n$%*u\r\n%31s", cursor);
    expect(":1\r\n", "BLACKLIST.REMOVE CLIENT c2");
    assert_non_null(strstr(ask("BLACKLIST.LIST COUNT 1 CURSOR %s", cursor),
                           "$2\r\nc3\r\n"));
    expect("-BADARG blacklist.list: CURSOR must be one that LIST returned\r\n",
           "BLACKLIST.LIST CURSOR x");
    expect("-BADARG blacklist.list: CURSOR must be one that LIST returned\r\n",
           "BLACKLIST.LIST CURSOR =x");
}

/* It is made once; RESP2 and RESP3 have an answer each. */
static void the_table_of_commands_is_the_same_each_time(void **state)
{
    static const char *const texts[] = {"COMMAND", "COMMAND DOCS"};
    AUTO(buffer_done) struct buffer first = {0};
    (void)state;
    for (int i = 0; i < 4; i++) {
        ask("HELLO %d", 2 + i / 2);
        buffer_clear(&first);
        buffer_put_text(&first, ask("%s", texts[i % 2]));
        buffer_put_u8(&first, '\0');
        expect((const char *)first.data, "%s", texts[i % 2]);
        assert_int_equal(first.data[0], i == 3 ? '%' : '*');
        assert_non_null(strstr((const char *)first.data, "lock.acquire"));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_one, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(locks_are_listed_page_by_page),
        TEST(lists_of_very_many_locks_hold_nobody_up),
        TEST(a_listing_goes_on_where_it_was),
        TEST(the_blacklist_is_listed_page_by_page),
        TEST(the_table_of_commands_is_the_same_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
