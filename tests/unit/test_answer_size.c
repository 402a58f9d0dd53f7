/* SPDX-License-Identifier: MIT */

/* However full the tables are, and whatever bytes clients put into them, no
 * answer is larger than ANSWER_SIZE_MAX, over RESP and over HTTP; and a list
 * that is cut can be followed to its end. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#include <string.h>

#include "core/command.h"
#include "core/commands/rows.h"
#include "core/commands/table.h"
#include "http/routes.h"
#include "net/json.h"
#include "net/resp.h"

/* Connections: one with a session, and one that only reads. */
enum { HOLDER = 1, READER = 2, WAITER = 3 };
#define LOCKS 120
#define SHARERS 400
#define WAITS 700
#define SESSIONS 60
#define LABELS 16
#define FENCES 500
#define LISTED 10000
#define ACTS 300
#define NOTES 300
#define ROLES 12
#define GRANTS 40

static struct resp_reply reply;
/* A user that may do everything. */
static const struct identity local_door = {.way = IDENTITY_LOCAL,
                                           .is_private = true};

/* --- Requests of any bytes ------------------------------------------------ */

static struct buffer request_words;
static uint32_t word_count;

static void word(const char *text)
{
    resp_request_argument(&request_words, bytes_of_text(text));
    word_count++;
}

/* 'text', filled up to 'size' with a byte that needs six of JSON. */
static void worst(const char *text, size_t size)
{
    struct buffer all = {0};
    buffer_put_text(&all, text);
    while (all.size < size) {
        buffer_put_u8(&all, 1);
    }
    resp_request_argument(&request_words, buffer_bytes(&all));
    word_count++;
    buffer_done(&all);
}

static void words(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static void words(const char *format, ...)
{
    char text[400];
    char *rest = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *one = strtok_r(text, " ", &rest); one != NULL;
         one = strtok_r(NULL, " ", &rest)) {
        word(one);
    }
}

static const char *numbered(const char *text, int number)
{
    static char name[64];
    snprintf(name, sizeof name, "%s%05d", text, number);
    return name;
}

static void words_send(uint64_t conn)
{
    struct world_client *client = &world->node[1].client[conn];
    resp_request_begin(&client->waiting, word_count);
    buffer_put_bytes(&client->waiting, buffer_bytes(&request_words));
    buffer_clear(&request_words);
    word_count = 0;
    client_feed(&world->node[1], conn);
}

/* Sends the words; the answers are read now and then. */
static void request_send(uint64_t conn)
{
    static uint32_t unread;
    words_send(conn);
    if (++unread % 100 == 0) {
        world_run(world, 10);
        const char *refusal = strstr(client_text(world, 1, conn), "\r\n-");
        if (refusal != NULL) {
            fail_msg("%.200s", refusal);
        }
        client_clear(world, 1, conn);
    }
}

static void settle(void)
{
    world_run(world, 200);
    for (uint64_t conn = HOLDER; conn <= WAITER; conn++) {
        client_clear(world, 1, conn);
    }
}

/* --- Full tables ---------------------------------------------------------- */

static void fill_locks(void)
{
    for (int i = 0; i < LOCKS; i++) {
        word("LOCK.ACQUIRE");
        worst(numbered("l", i), LOCK_NAME_SIZE_MAX);
        word("OWNER");
        worst("holder", OWNER_SIZE_MAX);
        word("VALUE");
        worst("v", VALUE_SIZE_MAX);
        request_send(HOLDER);
    }
    for (int i = 0; i < SHARERS; i++) {
        words("LOCK.ACQUIRE crowd SHARED OWNER");
        worst(numbered("o", i), OWNER_SIZE_MAX);
        word("VALUE");
        worst("v", VALUE_SIZE_MAX);
        request_send(HOLDER);
    }
    settle();
}

static void fill_waits(void)
{
    for (int i = 0; i < WAITS; i++) {
        words("LOCK.ACQUIRE crowd WAIT 3600000 PUSH REQ %d OWNER", i + 1);
        worst(numbered("w", i), OWNER_SIZE_MAX);
        request_send(WAITER);
    }
    /* The first readers wait, too, for locks with long names. */
    for (int i = 0; i < 40; i++) {
        word("LOCK.ACQUIRE");
        worst(numbered("l", i), LOCK_NAME_SIZE_MAX);
        words("WAIT 3600000 PUSH REQ %d OWNER", i + 1);
        worst(numbered("o", i / 10), OWNER_SIZE_MAX);
        request_send(HOLDER);
        word("LOCK.ACQUIRE");
        worst(numbered("l", i), LOCK_NAME_SIZE_MAX);
        words("WAIT 3600000 PUSH REQ %d OWNER", WAITS + i + 1);
        worst(numbered("x", i), OWNER_SIZE_MAX);
        request_send(WAITER);
    }
    settle();
}

static uint64_t large_session; /* Its id. */

static void fill_sessions(void)
{
    for (int i = 0; i < SESSIONS; i++) {
        words("SESSION.OPEN TTL 60000 NAME");
        worst(numbered("s", i), CLIENT_NAME_SIZE_MAX);
        for (int k = 0; k < LABELS; k++) {
            word("LABEL");
            worst(numbered("k", k), LABEL_SIZE_MAX);
            worst("v", LABEL_SIZE_MAX);
        }
        request_send(READER);
    }
    world_run(world, 50);
    const char *id = strstr(client_text(world, 1, READER), "$2\r\nid\r\n:");
    assert_non_null(id);
    large_session = strtoull(id + strlen("$2\r\nid\r\n:"), NULL, 10);
    settle();
}

static void fill_tables(void)
{
    for (int i = 0; i < FENCES; i++) {
        word("FENCE.ADMIT");
        worst(numbered("f", i), LOCK_NAME_SIZE_MAX);
        word("1");
        request_send(READER);
    }
    words("LIMITS.SET blacklist %d", LISTED);
    request_send(READER);
    for (int i = 0; i < LISTED; i++) {
        word("BLACKLIST.ADD");
        word("CLIENT");
        worst(numbered("c", i), i < ACTS ? CLIENT_NAME_SIZE_MAX : 0);
        word("REASON");
        worst("r", i < ACTS ? 1000 : 0);
        request_send(READER);
    }
    for (int i = 0; i < NOTES; i++) {
        words("LOCK.PLEASE crowd MESSAGE");
        worst(numbered("m", i), 1000);
        request_send(READER);
    }
    settle();
}

static void fill_access(void)
{
    for (int i = 0; i < ROLES; i++) {
        words("ROLE.SET r%d IF 0 GRANTS", i);
        for (int k = 0; k < GRANTS; k++) {
            worst(numbered("read:", k), LOCK_NAME_SIZE_MAX);
        }
        request_send(READER);
        words("USER.SET u%d IF 0 ROLES r%d", i, i);
        request_send(READER);
    }
    settle();
}

static int fill(void **state)
{
    begin_one(state);
    for (uint64_t conn = HOLDER; conn <= WAITER; conn++) {
        if (conn == READER) {
            client_open_as(world, 1, conn, &local_door);
        } else if (conn != HOLDER) {
            client_open(world, 1, conn);
        }
        client_ask(world, 1, conn, "HELLO 3");
    }
    client_ask(world, 1, HOLDER, "SESSION.OPEN TTL 60000 NAME holder");
    client_ask(world, 1, WAITER, "SESSION.OPEN TTL 60000 NAME waiter");
    fill_locks();
    fill_waits();
    fill_sessions();
    fill_tables();
    fill_access();
    return 0;
}

/* --- What is asked -------------------------------------------------------- */

/* A request that reads, and what a client finds that follows it to its end: 0
 * if it is not a list that can be followed. */
static const struct asked {
    const char *text; /* "%l": a lock's long name, "%f": a fence's; "%s": a
                       * session's id. */
    uint32_t total;
    const char *list; /* In a map; NULL: the answer is [cursor, rows]. */
    uint64_t conn;
} asked[] = {
    {"SESSION.HOLDS COUNT 1000", LOCKS + SHARERS, "holds", HOLDER},
    {"SESSION.LIST COUNT 1000", SESSIONS + 2, NULL, READER},
    {"SESSION.SHOW %s", 0, NULL, READER},
    {"LOCK.CHECK crowd 1", 0, NULL, READER},
    {"LOCK.WHY crowd", 0, NULL, READER},
    {"LOCK.WHY %l", 0, NULL, READER},
    {"LOCK.TOP COUNT 1000", 0, NULL, READER},
    {"LOCK.GRAPH", 0, NULL, READER},
    {"LOCK.LIST COUNT 1000", LOCKS + 1, NULL, READER},
    {"LOCK.SHOW crowd", SHARERS, "holders", READER},
    {"LOCK.SHOW crowd", WAITS, "queue", READER},
    {"LOCK.HISTORY crowd COUNT 1000", 0, NULL, READER},
    {"LOCK.HISTORY %l COUNT 1000", 0, NULL, READER},
    {"FENCE.LIST COUNT 1000", FENCES, NULL, READER},
    {"FENCE.SHOW %f", 0, NULL, READER},
    {"BLACKLIST.LIST COUNT 1000", LISTED, NULL, READER},
    {"LIMITS.LIST", 0, NULL, READER},
    {"AUDIT.LIST COUNT 1000", 0, NULL, READER},
    {"AUDIT.DENIED", 0, NULL, READER},
    {"WHOAMI", 0, NULL, READER},
    {"RAFT.STATUS", 0, NULL, READER},
    {"NODE.SETTINGS", 0, NULL, READER},
    {"NODE.SLOW COUNT 1000", 0, NULL, READER},
    {"USER.LIST PREFIX u", ROLES, NULL, READER},
    {"USER.SHOW u1", 0, NULL, READER},
    {"ROLE.LIST PREFIX r", ROLES, NULL, READER},
    {"ROLE.SHOW r1", 0, NULL, READER},
    {"CERT.REVOKED COUNT 1000", 0, NULL, READER},
};
#define ASKED_COUNT (sizeof asked / sizeof asked[0])

static size_t json_size(void)
{
    json_t *json = json_of_reply(&reply, 0, NULL);
    size_t size = json_dumpb(json, NULL, 0, JSON_COMPACT);
    json_decref(json);
    return size;
}

static void ask(const struct asked *row, struct bytes cursor)
{
    struct world_client *client = &world->node[1].client[row->conn];
    char text[64];
    char *rest = NULL;
    size_t used;
    client_clear(world, 1, row->conn);
    snprintf(text, sizeof text, "%s", row->text);
    for (char *one = strtok_r(text, " ", &rest); one != NULL;
         one = strtok_r(NULL, " ", &rest)) {
        if (strcmp(one, "%l") == 0 || strcmp(one, "%f") == 0) {
            worst(numbered(one + 1, 1), LOCK_NAME_SIZE_MAX);
        } else if (strcmp(one, "%s") == 0) {
            words("%llu", (unsigned long long)large_session);
        } else {
            word(one);
        }
    }
    if (cursor.size > 0) {
        word("CURSOR");
        resp_request_argument(&request_words, cursor);
        word_count++;
    }
    words_send(row->conn);
    int rv = HASP_EMORE;
    for (int i = 0; i < 100 && rv == HASP_EMORE; i++) {
        world_run(world, 5);
        rv = resp_parse_reply(buffer_bytes(&client->output), 1 << 20, &reply,
                              &used);
    }
    if (rv != 0) {
        fail_msg("%s: no answer, %d after %zu bytes", row->text, rv,
                 client->output.size);
    }
    if (reply.value[0].type == RESP_ERROR) {
        fail_msg("%s: %.*s", row->text, (int)reply.value[0].bytes.size,
                 (const char *)reply.value[0].bytes.data);
    }
    if (used > ANSWER_SIZE_MAX || json_size() > ANSWER_SIZE_MAX) {
        fail_msg("%s: %zu bytes of RESP, %zu of JSON", row->text, used,
                 json_size());
    }
}

/* The rows of the answer at hand, and where the next page begins. */
static uint32_t rows_of(const struct asked *row, struct buffer *cursor)
{
    const struct resp_value *list, *next;
    if (row->list == NULL) {
        next = &reply.value[1];
        list = &reply.value[2];
    } else {
        next = resp_find(&reply, 0, "cursor");
        list = resp_find(&reply, 0, row->list);
    }
    buffer_clear(cursor);
    if (next != NULL && !bytes_is_word(next->bytes, "0")) {
        buffer_put_bytes(cursor, next->bytes);
    }
    return list->count;
}

static void no_answer_is_larger_and_lists_are_followed_to_the_end(void **state)
{
    struct buffer cursor = {0};
    (void)state;
    for (size_t i = 0; i < ASKED_COUNT; i++) {
        uint32_t found = 0, pages = 0;
        do {
            ask(&asked[i], buffer_bytes(&cursor));
            if (asked[i].total == 0) {
                break;
            }
            uint32_t count = rows_of(&asked[i], &cursor);
            found += count;
            assert_true(++pages < 1000);
        } while (cursor.size > 0);
        if (found != asked[i].total) {
            fail_msg("%s: %u of %u", asked[i].text, found, asked[i].total);
        }
    }
    buffer_done(&cursor);
}

/* The answer is large enough for the bound to matter: with none of these
 * tables would a test of the bound fail if it was not there. */
static void what_does_not_fit_is_said(void **state)
{
    (void)state;
    ask(&(struct asked){"LOCK.SHOW crowd", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_non_null(resp_find(&reply, 0, "cursor"));
    assert_true(resp_find(&reply, 0, "more_holders")->integer > 0);
    assert_true(resp_find(&reply, 0, "more_waiters")->integer > 0);
    assert_true(resp_find(&reply, 0, "queue")->count > 0);
    ask(&(struct asked){"LOCK.HISTORY crowd COUNT 1000", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_int_equal(resp_find(&reply, 0, "is_cut")->integer, 1);
    ask(&(struct asked){"LOCK.HISTORY crowd COUNT 1", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_int_equal(resp_find(&reply, 0, "is_cut")->integer, 0);
    ask(&(struct asked){"LOCK.GRAPH", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_int_equal(resp_find(&reply, 0, "is_cut")->integer, 1);
    ask(&(struct asked){"LOCK.TOP COUNT 1000", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_int_equal(resp_find(&reply, 0, "is_cut")->integer, 1);
    ask(&(struct asked){"LOCK.TOP COUNT 1", 0, NULL, READER},
        (struct bytes){NULL, 0});
    assert_int_equal(resp_find(&reply, 0, "is_cut")->integer, 0);
    ask(&(struct asked){"LOCK.WHY crowd", 0, NULL, READER},
        (struct bytes){NULL, 0});
    const struct resp_value *why = resp_find(&reply, 0, "why");
    assert_non_null(strstr((const char *)why[1].bytes.data, "is left out"));
}

/* AUDIT.LIST has no cursor: it goes on after the last index. */
static void acts_are_followed_by_their_index(void **state)
{
    char text[64] = "AUDIT.LIST COUNT 1000 AFTER 1";
    uint32_t found = 0;
    int64_t last = 0;
    (void)state;
    for (;;) {
        struct asked row = {text, 0, NULL, READER};
        ask(&row, (struct bytes){NULL, 0});
        if (reply.value[0].count == 0) {
            break;
        }
        found += reply.value[0].count;
        for (uint32_t i = 1; i < reply.count; i += reply.value[i].span) {
            const struct resp_value *index = resp_find(&reply, i, "index");
            assert_true(index->integer > last);
            last = index->integer;
        }
        snprintf(text, sizeof text, "AUDIT.LIST COUNT 1000 AFTER %lld",
                 (long long)last);
    }
    assert_true(found >= ACTS);
}

static bool is_asked(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < ASKED_COUNT; i++) {
        if (strncmp(asked[i].text, name, size) == 0 &&
            (asked[i].text[size] == ' ' || asked[i].text[size] == '\0')) {
            return true;
        }
    }
    return false;
}

/* A new listing has to be in this test. Redis' values have bounds of their
 * own. */
static void each_listing_and_each_route_is_asked(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < core_commands.count; i++) {
        const struct command *command = &core_commands.row[i];
        if ((command->flags & COMMAND_READ) != 0 &&
            (command->flags & COMMAND_SCANS) != 0 &&
            (command->flags & COMMAND_REDIS) == 0 && !is_asked(command->name)) {
            fail_msg("%s is not in the table of this test", command->name);
        }
    }
    for (uint32_t i = 0; i < route_count; i++) {
        if (strcmp(routes[i].method, "GET") == 0 &&
            routes[i].kind == ROUTE_COMMAND && !is_asked(routes[i].command)) {
            fail_msg("GET %s is not in the table of this test", routes[i].path);
        }
    }
}

static int forget(void **state)
{
    resp_reply_done(&reply);
    buffer_done(&request_words);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_is_larger_and_lists_are_followed_to_the_end),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(acts_are_followed_by_their_index),
        cmocka_unit_test(each_listing_and_each_route_is_asked),
    };
    return cmocka_run_group_tests(tests, fill, forget);
}
