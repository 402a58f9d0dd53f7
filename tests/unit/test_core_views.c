/* SPDX-License-Identifier: MIT */

/* Views for people: LOCK.WHY, LOCK.TOP, LOCK.GRAPH. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#include "core/command.h"
#include "net/resp.h"

static struct resp_reply reply;

/* Connections, each with a session of its own. */
enum { ANN = 1, BOB, CEE, DAN };

static int set_up(void **state)
{
    static const char *const names[] = {"ann", "bob", "cee", "dan"};
    (void)state;
    world = world_new(1);
    world_found(world);
    world_elect(world);
    for (uint64_t conn = ANN; conn <= DAN; conn++) {
        client_open(world, 1, conn);
        client_ask(world, 1, conn, "HELLO 3");
        client_ask(world, 1, conn, "SESSION.OPEN TTL 20000 NAME %s",
                   names[conn - 1]);
    }
    client_open(world, 1, 9);
    client_ask(world, 1, 9, "HELLO 3");
    return 0;
}

static int forget_reply(void **state)
{
    resp_reply_done(&reply);
    return tear_down(state);
}

static void acts(uint64_t conn, const char *text)
{
    client_send(world, 1, conn, "%s", text);
    world_run(world, 10);
}

/* Waits without blocking the connection. */
static void queue(uint64_t conn, const char *lock, int owner)
{
    char text[128];
    snprintf(text, sizeof text,
             "LOCK.ACQUIRE %s OWNER %d WAIT 60000 PUSH REQ %d", lock, owner,
             owner + 1);
    acts(conn, text);
}

static void look(const char *command)
{
    size_t used;
    const char *text = client_ask(world, 1, 9, "%s", command);
    assert_int_equal(
        resp_parse_reply(bytes_of_text(text), 1 << 20, &reply, &used), 0);
    assert_int_equal(used, strlen(text));
}

/* Numbers and texts of the map or its row: "locks.0.name". */
static const struct resp_value *at(const char *path)
{
    static char key[64];
    uint32_t here = 0;
    while (*path != '\0') {
        size_t size = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)size, path);
        if (key[0] >= '0' && key[0] <= '9') {
            unsigned long row = strtoul(key, NULL, 10);
            assert_true(row < reply.value[here].count);
            for (here++; row > 0; row--) {
                here += reply.value[here].span;
            }
        } else {
            const struct resp_value *value = resp_find(&reply, here, key);
            assert_non_null(value);
            here = (uint32_t)(value - reply.value);
        }
        path += size + (path[size] == '.');
    }
    return &reply.value[here];
}

static int64_t number(const char *path)
{
    return at(path)->integer;
}

static uint32_t count(const char *path)
{
    return at(path)->count;
}

#define assert_text(path, text) \
    assert_int_equal(bytes_compare(at(path)->bytes, bytes_of_text(text)), 0)

/* The lines of LOCK.WHY. */
static const char *why(const char *name)
{
    static struct buffer text;
    char command[600];
    snprintf(command, sizeof command, "LOCK.WHY %s", name);
    look(command);
    buffer_clear(&text);
    const struct resp_value *lines = at("why");
    for (uint32_t i = 0; i < lines->count; i++) {
        buffer_put_bytes(&text, lines[1 + i].bytes);
        buffer_put_u8(&text, '\n');
    }
    buffer_put_u8(&text, '\0');
    return (const char *)text.data;
}

static void assert_told(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

/* --- LOCK.WHY ------------------------------------------------------------- */

static void a_free_lock_needs_no_explanation(void **state)
{
    (void)state;
    assert_string_equal(why("a"), "'a' is not held\n\nit could pass on now\n");
    assert_int_equal(number("hold_count"), 0);
}

static void why_does_not_promise_what_the_disk_keeps_back(void **state)
{
    (void)state;
    struct core *core = world->node[1].core;
    core_disk_is(core, CORE_DISK_FULL, world->now_ms * MS);
    assert_string_equal(why("a"),
                        "'a' is not held\n\nthe leader's disk is nearly full: "
                        "requests for locks are refused (LIMIT) until there "
                        "is space\n");
    core_disk_is(core, CORE_DISK_SLOW, world->now_ms * MS);
    assert_told(why("a"), "the leader's disk is too slow");
    core_disk_is(core, CORE_DISK_OK, world->now_ms * MS);
    assert_told(why("a"), "it could pass on now");
}

static void why_tells_the_terms_of_the_sum(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a DELAY 5000 VALUE nightly");
    acts(BOB, "LOCK.ACQUIRE a WAIT 60000");
    const char *text = why("a");
    assert_told(text, "'a' is held, exclusive, by ann (session ");
    assert_told(text, "  value: nightly\n");
    assert_told(text, "; each heartbeat renews it\n");
    assert_told(text, "\n1 waiting\n  1. bob (session ");
    assert_told(text, "left of the lease\n+ 5.0s of lock delay after it\n");
    assert_int_equal(number("earliest_ms") / 1000, 24);
    assert_int_equal(number("holders.0.ttl_ms"), 20000);
    assert_int_equal(number("wait_count"), 1);
}

static void
why_counts_from_linger_or_the_maximum_where_that_is_sooner(void **state)
{
    (void)state;
    client_open(world, 1, 8);
    client_ask(world, 1, 8, "SESSION.OPEN TTL 20000 LINGER 500");
    acts(8, "LOCK.ACQUIRE a");
    assert_told(why("a"), "in 500ms at the earliest:\n  500ms of linger");
    acts(ANN, "LOCK.ACQUIRE b HOLD 3000");
    assert_told(why("b"), "left of the hold's maximum\n");
}

static void why_follows_the_chain_to_its_end(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    acts(BOB, "LOCK.ACQUIRE b");
    acts(CEE, "LOCK.ACQUIRE c");
    acts(ANN, "LOCK.ACQUIRE b WAIT 60000");
    assert_told(why("a"), "it waits for 'b'; see: hasp why b\n");
    assert_null(strstr(why("a"), "end of that chain"));
    acts(BOB, "LOCK.ACQUIRE c WAIT 60000");
    assert_told(why("a"), "  at the end of that chain 'c' is held by cee (");
    assert_text("holders.0.waits_for.0", "b");
}

/* Another owner of its session may wait for anything. */
static void why_tells_only_what_the_holder_waits_for(void **state)
{
    (void)state;
    acts(BOB, "LOCK.ACQUIRE b");
    acts(ANN, "LOCK.ACQUIRE a OWNER one");
    acts(ANN, "LOCK.ACQUIRE b OWNER two WAIT 60000");
    const char *text = why("a");
    assert_told(text, ", owner 'one')");
    assert_null(strstr(text, "it waits for"));
    assert_int_equal(count("holders.0.waits_for"), 0);
}

static void why_tells_who_barged(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a SHARED");
    acts(BOB, "LOCK.ACQUIRE a WAIT 60000");
    assert_null(strstr(why("a"), "BARGE"));
    acts(CEE, "LOCK.ACQUIRE a SHARED BARGE");
    assert_told(why("a"), "1 of 2 holders passed the queue (BARGE); readers");
    acts(ANN, "LOCK.RELEASE a");
    assert_told(why("a"),
                "1 of 1 holder passed the queue (BARGE); the waiters");
}

static void why_tells_of_the_blacklist_and_its_reason(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    acts(9, "BLACKLIST.ADD CLIENT ann REASON stuck");
    client_clear(world, 1, 9);
    assert_told(why("a"), "blacklisted, so nothing renews it: stuck\n");
}

/* A name is untrusted bytes, and appears in sentences for people. */
static void why_shows_hostile_names_as_plain_text(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE x\xe2\x80\xae\x1b\xff\xc3\xa9");
    assert_told(why("x\xe2\x80\xae\x1b\xff\xc3\xa9"),
                "'x\\xe2\\x80\\xae\\x1b\\xff\xc3\xa9' is held");
}

static void why_tells_no_more_than_ten(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    for (int i = 0; i < 12; i++) {
        queue(BOB, "a", i);
    }
    assert_told(why("a"), "\n12 waiting\n");
    assert_told(why("a"), "  10. bob");
    assert_told(why("a"), "\n  ...\n");
    assert_null(strstr(why("a"), "  11. "));
    assert_int_equal(count("queue"), 12);
}

/* --- LOCK.TOP ------------------------------------------------------------- */

static void top_counts_grants_and_the_hottest_lock_is_first(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE calm");
    for (int i = 0; i < 5; i++) {
        acts(BOB, "LOCK.ACQUIRE hot");
        acts(BOB, "LOCK.RELEASE hot");
    }
    look("LOCK.TOP");
    assert_int_equal(number("grants"), 6);
    assert_text("locks.0.name", "hot");
    assert_int_equal(number("locks.0.grants"), 5);
    assert_text("locks.0.mode", "free");
    assert_text("locks.1.name", "calm");
    assert_text("locks.1.holder", "ann");
    assert_int_equal(number("lock_count"), 1);
    assert_int_equal(number("session_count"), 4);
    assert_true(number("window_ms") > 0 && number("window_ms") < 10000);
    world_run(world, 11000);
    look("LOCK.TOP");
    assert_int_equal(number("window_ms"), 10000);
    assert_int_equal(number("grants"), 0);
    assert_int_equal(count("locks"), 1);
}

static void
top_tells_the_longest_waits_first_and_no_more_than_asked(void **state)
{
    (void)state;
    acts(ANN, "LOCK.MACQUIRE 2 p/a q/a");
    acts(BOB, "LOCK.ACQUIRE p/a WAIT 60000");
    world_run(world, 500);
    acts(CEE, "LOCK.ACQUIRE q/a WAIT 60000");
    acts(DAN, "LOCK.ACQUIRE q/a WAIT 60000");
    look("LOCK.TOP");
    assert_int_equal(count("waits"), 3);
    assert_text("waits.0.client", "bob");
    assert_text("waits.0.holder", "ann");
    assert_true(number("waits.0.waiting_ms") >= 500);
    assert_true(number("waits.2.waiting_ms") < 500);
    assert_int_equal(number("wait_count"), 3);
    look("LOCK.TOP PREFIX q/ COUNT 1");
    assert_int_equal(count("waits"), 1);
    assert_int_equal(count("locks"), 1);
    assert_text("waits.0.client", "cee");
    assert_text("locks.0.name", "q/a");
    assert_int_equal(number("locks.0.queue"), 2);
}

/* --- LOCK.GRAPH ----------------------------------------------------------- */

static void the_graph_marks_the_root_and_counts_who_waits_for_it(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    acts(BOB, "LOCK.ACQUIRE b");
    acts(BOB, "LOCK.ACQUIRE a WAIT 60000");
    acts(CEE, "LOCK.ACQUIRE b WAIT 60000");
    look("LOCK.GRAPH");
    assert_int_equal(count("nodes"), 3);
    assert_int_equal(count("edges"), 2);
    assert_text("nodes.0.client", "bob");
    assert_text("nodes.1.client", "cee");
    assert_text("nodes.2.client", "ann");
    assert_int_equal(number("nodes.2.root"), 1);
    assert_int_equal(number("nodes.2.blocks"), 2);
    assert_int_equal(number("nodes.0.root"), 0);
    assert_int_equal(number("nodes.0.blocks"), 1);
    assert_int_equal(number("nodes.0.cycle"), 0);
    assert_text("edges.0.lock", "a");
    assert_int_equal(number("edges.0.from"), 0);
    assert_int_equal(number("edges.0.to"), 2);
    assert_int_equal(number("is_cut"), 0);
    look("LOCK.GRAPH PREFIX b");
    assert_int_equal(count("nodes"), 2);
    assert_int_equal(count("edges"), 1);
}

/* A reader waits for a writer, which waits for the readers that hold the
 * lock. */
static void who_conflicts_with_no_holder_waits_for_the_one_ahead(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a SHARED");
    acts(BOB, "LOCK.ACQUIRE a WAIT 60000");
    acts(CEE, "LOCK.ACQUIRE a SHARED WAIT 60000");
    look("LOCK.GRAPH");
    assert_int_equal(count("edges"), 2);
    assert_text("nodes.1.client", "cee");
    assert_int_equal(number("edges.1.from"), 1);
    assert_int_equal(number("edges.1.to"), 0);
    assert_text("nodes.2.client", "ann");
    assert_int_equal(number("nodes.2.blocks"), 2);
}

/* With slots a cycle is not a deadlock as long as one of its slots may end. */
static void the_graph_marks_a_circle(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE s SLOTS 2");
    acts(CEE, "LOCK.ACQUIRE s SLOTS 2");
    acts(BOB, "LOCK.ACQUIRE x");
    acts(BOB, "LOCK.ACQUIRE s SLOTS 2 WAIT 60000");
    acts(ANN, "LOCK.ACQUIRE x WAIT 60000");
    look("LOCK.GRAPH");
    assert_int_equal(count("nodes"), 3);
    for (int i = 0; i < 3; i++) {
        char client[32], cycle[32];
        snprintf(client, sizeof client, "nodes.%d.client", i);
        snprintf(cycle, sizeof cycle, "nodes.%d.cycle", i);
        bool is_cee = bytes_equal(at(client)->bytes, BYTES_LITERAL("cee"));
        assert_int_equal(number(cycle), !is_cee);
    }
    assert_told(why("x"),
                "held by the first holder: they wait for each other\n");
}

static void the_graph_is_cut_and_says_so(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    for (int i = 0; i < 20; i++) {
        queue(BOB, "a", i);
    }
    look("LOCK.GRAPH");
    assert_int_equal(number("is_cut"), 1);
    assert_int_equal(count("nodes"), 9);
    assert_int_equal(number("edges.0.queue"), 20);
    for (int i = 0; i < 120; i++) {
        char text[64];
        snprintf(text, sizeof text, "LOCK.ACQUIRE n%d", i);
        acts(CEE, text);
        snprintf(text, sizeof text, "n%d", i);
        queue(i % 2 == 0 ? DAN : ANN, text, i);
    }
    look("LOCK.GRAPH");
    assert_int_equal(number("is_cut"), 1);
    assert_in_range(count("nodes"), 100, 200);
}

/* A holder and two waiters, at each of 'count' locks: for each its three nodes
 * and an edge from both, while less than half of all nodes are reached by
 * waits. */
static void the_graph_has_all_up_to_its_bound(void **state)
{
    char text[64];
    (void)state;
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "LOCK.ACQUIRE n%d OWNER h%d", i, i);
        acts(ANN, text);
        snprintf(text, sizeof text, "n%d", i);
        queue(BOB, text, 2 * i);
        queue(CEE, text, 2 * i + 1);
        look("LOCK.GRAPH");
        bool is_cut = i == 49; /* The hundredth waiter. */
        assert_int_equal(number("is_cut"), is_cut);
        assert_int_equal(count("nodes"), 3 * (i + 1));
        assert_int_equal(count("edges"), 2 * (i + 1));
    }
    snprintf(text, sizeof text, "LOCK.ACQUIRE n%d", 50);
    acts(ANN, text);
    queue(BOB, "n50", 100);
    look("LOCK.GRAPH");
    assert_int_equal(number("is_cut"), 1);
    assert_int_equal(count("nodes"), 150);
    look("LOCK.GRAPH PREFIX n5");
    assert_int_equal(number("is_cut"), 0);
    assert_int_equal(count("nodes"), 5);
    assert_int_equal(number("wait_count"), 101);
}

/* Asks for the lock 'a' repeatedly, each time for another owner. */
static void crowd(uint64_t conn, const char *options, int owners)
{
    for (int i = 0; i < owners; i++) {
        client_send(world, 1, conn,
                    "LOCK.ACQUIRE a OWNER o%d %s REQ %d "
                    "ACKED %d",
                    i, options, i + 1, i);
        if (i % 200 == 0) {
            client_clear(world, 1, conn);
            world_run(world, 10);
        }
    }
    world_run(world, 50);
}

#define HOLDERS 4100
#define WAITERS 10100

/* Nodes that do not fit into one answer are counted, and come with the next:
 * each once, although one already reported has gone meanwhile. */
static void a_lock_is_shown_page_by_page(void **state)
{
    char command[80] = "LOCK.SHOW a";
    uint32_t holders = 0, waiters = 0, pages = 0;
    int64_t last_token = 0, last_index = 0;
    (void)state;
    crowd(ANN, "SHARED", HOLDERS);
    crowd(BOB, "WAIT 60000 PUSH", WAITERS);
    while (command[0] != '\0') {
        look(command);
        const struct resp_value *cursor = resp_find(&reply, 0, "cursor");
        uint32_t holder_count = count("holders"), waiter_count = count("queue");
        for (uint32_t i = 0; i < holder_count; i++) {
            char path[40];
            snprintf(path, sizeof path, "holders.%u.token", i);
            assert_true(number(path) > last_token);
            last_token = number(path);
        }
        if (waiter_count > 0) {
            assert_true(number("queue.0.index") > last_index);
            char path[40];
            snprintf(path, sizeof path, "queue.%u.index", waiter_count - 1);
            last_index = number(path);
        }
        holders += holder_count;
        waiters += waiter_count;
        pages++;
        command[0] = '\0';
        if (cursor != NULL) {
            assert_int_equal(number("more_holders"), HOLDERS - holders);
            assert_int_equal(number("more_waiters"), WAITERS - waiters);
            snprintf(command, sizeof command, "LOCK.SHOW a CURSOR %.*s",
                     (int)cursor->bytes.size, (const char *)cursor->bytes.data);
        }
        if (pages == 1) {
            /* The holder that the cursor names. */
            char last[40], release[80];
            snprintf(last, sizeof last, "holders.%u.owner", holder_count - 1);
            snprintf(release, sizeof release, "LOCK.RELEASE a OWNER %.*s",
                     (int)at(last)->bytes.size,
                     (const char *)at(last)->bytes.data);
            acts(ANN, release);
        }
    }
    assert_int_equal(holders, HOLDERS);
    assert_int_equal(waiters, WAITERS);
    assert_true(pages >= HOLDERS / PAGE_COUNT_MAX);
    look("LOCK.SHOW a CURSOR =7");
    assert_int_equal(reply.value[0].type, RESP_ERROR);
}

/* One entry grants to many, under one token: a page may end among them. */
static void holders_of_one_token_are_all_shown(void **state)
{
    uint32_t holders = 0, equal = 0;
    int64_t last_token = 0;
    char command[80] = "LOCK.SHOW a";
    (void)state;
    acts(CEE, "LOCK.ACQUIRE a");
    crowd(BOB, "SHARED WAIT 60000 PUSH", HOLDERS);
    acts(CEE, "LOCK.RELEASE a");
    world_run(world, 500);
    while (command[0] != '\0') {
        look(command);
        const struct resp_value *cursor = resp_find(&reply, 0, "cursor");
        uint32_t holder_count = count("holders");
        for (uint32_t i = 0; i < holder_count; i++) {
            char path[40];
            snprintf(path, sizeof path, "holders.%u.token", i);
            equal += number(path) == last_token;
            last_token = number(path);
        }
        holders += holder_count;
        command[0] = '\0';
        if (cursor != NULL) {
            snprintf(command, sizeof command, "LOCK.SHOW a CURSOR %.*s",
                     (int)cursor->bytes.size, (const char *)cursor->bytes.data);
        }
    }
    assert_int_equal(holders, HOLDERS);
    assert_true(equal > 0);
}

/* An upgrade is at the head of the queue, with a larger index. */
static void an_upgrade_is_on_the_first_page_alone(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a SHARED");
    acts(CEE, "LOCK.ACQUIRE a SHARED");
    crowd(BOB, "WAIT 60000 PUSH", WAITERS);
    acts(ANN, "LOCK.CONVERT a EXCLUSIVE WAIT 60000 PUSH REQ 1");
    look("LOCK.SHOW a");
    assert_int_equal(number("queue.0.session"), number("holders.0.session"));
    int64_t ann = number("queue.0.session");
    uint32_t waiters = count("queue");
    while (resp_find(&reply, 0, "cursor") != NULL) {
        assert_int_equal(number("more_waiters"), WAITERS + 1 - waiters);
        char command[80];
        snprintf(command, sizeof command, "LOCK.SHOW a CURSOR %.*s",
                 (int)at("cursor")->bytes.size,
                 (const char *)at("cursor")->bytes.data);
        look(command);
        waiters += count("queue");
        assert_int_not_equal(number("queue.0.session"), ann);
    }
    assert_int_equal(waiters, WAITERS + 1);
}

#define LOOKS 400
#define GRAPHS 250 /* One for each connection. */

/* How many of LOOKS requests sent together are answered in a few turns. */
static size_t answered_at_once(const char *command)
{
    struct world_client *client = &world->node[1].client[9];
    size_t size = strlen(client_ask(world, 1, 9, "%s", command));
    client_clear(world, 1, 9);
    for (int i = 0; i < LOOKS; i++) {
        client_send(world, 1, 9, "%s", command);
    }
    world_step(world);
    size_t at_once = client->output.size / size;
    world_run(world, 400);
    assert_in_range(client->output.size, LOOKS * size * 9 / 10,
                    LOOKS * size * 11 / 10);
    client_clear(world, 1, 9);
    return at_once;
}

/* A client that repeats these requests would delay the heartbeats of all
 * others: a turn of the leader has time for a few. */
static void who_looks_at_many_shares_the_turn(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    assert_in_range(answered_at_once("LOCK.SHOW a"), LOOKS - 1, LOOKS);
    assert_in_range(answered_at_once("LOCK.WHY a"), LOOKS - 20, LOOKS);
    for (int i = 0; i < 300; i++) {
        queue(BOB, "a", i);
    }
    acts(BOB, "LOCK.ACQUIRE b OWNER 7");
    assert_in_range(answered_at_once("LOCK.SHOW a"), 1, LOOKS / 2);
    /* It returns few waits, but walks all those of its holder. */
    for (int i = 0; i < 10; i++) {
        char text[64];
        snprintf(text, sizeof text, "LOCK.ACQUIRE c SHARED OWNER %d", i);
        acts(BOB, text);
    }
    assert_in_range(answered_at_once("LOCK.WHY c"), 1, LOOKS / 4);
    for (int i = 0; i < 300; i++) {
        char text[64];
        snprintf(text, sizeof text, "BLACKLIST.ADD CLIENT x%d", i);
        acts(ANN, text);
    }
    assert_in_range(answered_at_once("BLACKLIST.LIST COUNT 300"), 1, LOOKS / 2);
    assert_in_range(answered_at_once("AUDIT.LIST COUNT 300"), 1, LOOKS / 2);
    size_t at_once = 0;
    for (uint64_t conn = 10; conn < 10 + GRAPHS; conn++) {
        client_open(world, 1, conn);
        client_send(world, 1, conn, "LOCK.GRAPH");
    }
    world_step(world);
    for (uint64_t conn = 10; conn < 10 + GRAPHS; conn++) {
        at_once += world->node[1].client[conn].output.size > 0;
    }
    assert_in_range(at_once, 1, GRAPHS * 3 / 4);
}

/* Of one lock the walk starts at the first eight waiters. */
static void the_graph_begins_at_the_first_of_a_queue(void **state)
{
    (void)state;
    acts(ANN, "LOCK.ACQUIRE a");
    for (int i = 0; i < 10; i++) {
        queue(BOB, "a", i);
        look("LOCK.GRAPH");
        assert_int_equal(number("is_cut"), i >= 8);
        assert_int_equal(count("nodes"), i >= 8 ? 9 : i + 2);
        assert_int_equal(count("edges"), i >= 8 ? 8 : i + 1);
        assert_int_equal(number("nodes.0.blocks"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, forget_reply)
        T(a_free_lock_needs_no_explanation),
        T(why_does_not_promise_what_the_disk_keeps_back),
        T(why_tells_the_terms_of_the_sum),
        T(why_counts_from_linger_or_the_maximum_where_that_is_sooner),
        T(why_follows_the_chain_to_its_end),
        T(why_tells_only_what_the_holder_waits_for),
        T(why_tells_who_barged),
        T(why_tells_of_the_blacklist_and_its_reason),
        T(why_shows_hostile_names_as_plain_text),
        T(why_tells_no_more_than_ten),
        T(top_counts_grants_and_the_hottest_lock_is_first),
        T(top_tells_the_longest_waits_first_and_no_more_than_asked),
        T(the_graph_marks_the_root_and_counts_who_waits_for_it),
        T(who_conflicts_with_no_holder_waits_for_the_one_ahead),
        T(the_graph_marks_a_circle),
        T(the_graph_is_cut_and_says_so),
        T(the_graph_has_all_up_to_its_bound),
        T(a_lock_is_shown_page_by_page),
        T(holders_of_one_token_are_all_shown),
        T(an_upgrade_is_on_the_first_page_alone),
        T(the_graph_begins_at_the_first_of_a_queue),
        T(who_looks_at_many_shares_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
