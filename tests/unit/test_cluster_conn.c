/* SPDX-License-Identifier: MIT */

/* One request to three nodes: which of them are asked, when, and what is
 * reported at the end (client/client_request.h, client/cluster_conn.h). */

#include "base/minmax.h"
#include "tests/unit/machine_world.h"

#define TIMEOUT_MS 1000
#define LATE_MS 250 /* Refused requests are not repeated this late. */
#define ATTEMPTS_MAX 64

/* --- A request ------------------------------------------------------------ */

struct asked {
    struct client_request ask;
    int count; /* Number of ends. */
    int error;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
    uint64_t begun_ms;
    uint64_t told_ms; /* Since the request began. */
};

static void told(struct client_request *ask,
                 const struct client_request_end *end)
{
    struct asked *asked = ask->data;
    asked->count++;
    asked->error = end->error;
    snprintf(asked->code, sizeof asked->code, "%s", end->code);
    snprintf(asked->why, sizeof asked->why, "%s", end->why);
    asked->told_ms = world.ms - asked->begun_ms;
}

static void ask_for(struct asked *asked, const char *word)
{
    asked->begun_ms = world.ms;
    asked->ask.done = told;
    asked->ask.data = asked;
    asked->ask.deadline_ns = read_clock().monotonic_ns + TIMEOUT_MS * NS_PER_MS;
    query_begin(&asked->ask.query, word);
    cluster_conn_ask(&world.asker, &asked->ask, now());
}

static void asked_done(struct asked *asked)
{
    client_request_cancel(&world.asker, &asked->ask);
    query_done(&asked->ask.query);
}

/* Sends the request, and lets its whole time pass. */
static void ask(struct asked *asked)
{
    ask_for(asked, "WORK");
    pass(TIMEOUT_MS + 100);
    assert_int_equal(asked->count, 1);
    assert_in_range(asked->told_ms, 0, TIMEOUT_MS);
    asked_done(asked);
}

static void assert_end(const struct asked *asked, int error, const char *why)
{
    assert_int_equal(asked->error, error);
    assert_string_equal(asked->why, why);
}

/* The world of a further case. */
static void restart_acquire(void)
{
    tear_down(NULL);
    set_up_closed(NULL);
    assert_time_kept();
}

/* --- What is reported ----------------------------------------------------- */

/* The ways in which a node fails to do what is asked, the most serious
 * first. */
static const struct way {
    const char *answer; /* NULL: it is not reachable. */
    bool is_distrusted;
    int error;
    const char *text;
    const char *note;
} ways[] = {
    {"-UNKNOWN a new leader\r\n", false, HASP_ETIMEDOUT,
     "no answer in time, it may have been done or not",
     "does not know the outcome"},
    {"-BUSY too many requests are in flight\r\n", false, HASP_EBUSY,
     "busy, nothing was done", "too many requests are in flight"},
    {"-NOLEADER no leader was found; nothing was done\r\n", false,
     HASP_ENOTLEADER, "no leader, nothing was done", "no leader was found"},
    {"HTTP/1.1 400 Bad Request\r\n", false, HASP_EPROTO,
     "the peer is not a hasp node", "does not speak the protocol"},
    {NULL, true, HASP_ECERT, "no trust between client and node",
     "its certificate is over"},
    {NULL, false, HASP_ECONNECT, "no node answers", "Connection refused"},
};
#define WAYS (sizeof ways / sizeof ways[0])

static void set_way(int node, const struct way *way)
{
    static const char *const prefix[NODES] = {"0:WORK", "1:WORK", "2:WORK"};
    world.is_distrusted[node] = way->is_distrusted;
    world.is_dead[node] = way->answer == NULL && !way->is_distrusted;
    if (way->answer != NULL) {
        always(prefix[node], way->answer);
    }
}

static void the_worst_of_all_attempts_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS * WAYS; i++) {
        const struct way *one = &ways[i / WAYS], *other = &ways[i % WAYS];
        const struct way *worst = one < other ? one : other;
        struct asked asked = {.ask.is_repeatable = true};
        char why[HASP_WHY_SIZE];
        restart_acquire();
        set_way(0, one);
        set_way(1, other);
        set_way(2, other);
        ask(&asked);
        snprintf(why, sizeof why, "%s (0:1: %s; 1:1: %s; 2:1: %s)", worst->text,
                 one->note, other->note, other->note);
        assert_end(&asked, worst->error, why);
        assert_string_equal(asked.code, "");
    }
}

/* A request without effect need not be reported as perhaps done. */
static void of_a_read_it_is_no_matter_whether_it_was_done(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        struct asked asked = {.ask.is_read = true, .ask.is_repeatable = true};
        restart_acquire();
        always("WORK", silent ? SILENCE : ways[0].answer);
        ask(&asked);
        assert_end(&asked, HASP_ECONNECT,
                   silent ? "no node answers (0:1: no answer; 1:1: not asked; "
                            "2:1: not asked)"
                          : "no node answers (0:1: does not know the outcome; "
                            "1:1: does not know the outcome; "
                            "2:1: does not know the outcome)");
        assert_int_equal(asked.told_ms, TIMEOUT_MS);
    }
}

static void what_has_no_answer_may_have_been_done(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    always("WORK", SILENCE);
    ask(&asked);
    assert_end(&asked, HASP_ETIMEDOUT,
               "no answer in time, it may have been done or not (0:1: no "
               "answer; 1:1: not asked; 2:1: not asked)");
    assert_int_equal(asked.told_ms, TIMEOUT_MS);
    assert_seen("0:WORK|");
}

/* Nothing was sent: the connection had not even been greeted. */
static void what_was_not_sent_was_not_done(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    world.is_silent[0] = world.is_silent[1] = world.is_silent[2] = true;
    ask(&asked);
    assert_end(&asked, HASP_ECONNECT,
               "no node answers (0:1: no answer; 1:1: not asked; 2:1: not "
               "asked)");
}

static void a_refusal_is_told_at_once_and_nobody_else_is_asked(void **state)
{
    static const struct {
        const char *answer, *code, *why;
    } cases[] = {{"-BADARG what is that\r\n", "BADARG", "what is that"},
                 {"-WRONGTYPE\r\n", "WRONGTYPE", "WRONGTYPE"},
                 {"-ODD \r\n", "ODD", "ODD "},
                 {"-E x\r\n", "E", "x"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct asked asked = {.ask.is_repeatable = true};
        restart_acquire();
        always("WORK", cases[i].answer);
        ask(&asked);
        assert_end(&asked, HASP_EREPLY, cases[i].why);
        assert_string_equal(asked.code, cases[i].code);
        assert_int_equal(asked.told_ms, 0);
        assert_seen("0:WORK|");
    }
}

/* --- Requests that must not run twice ------------------------------------- */

static void what_may_not_be_done_twice_ends_when_it_may_have_been(void **state)
{
    static const char *const answers[] = {"-UNKNOWN a new leader\r\n", HANG_UP};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct asked asked = {0};
        restart_acquire();
        once("WORK", "-BUSY later\r\n"); /* Nothing was done. */
        once("WORK", answers[i]);
        ask(&asked);
        assert_int_equal(asked.error, HASP_ETIMEDOUT);
        assert_int_equal(asked.told_ms, 0);
        assert_seen("0:WORK|1:WORK|");
    }
}

static void all_that_waited_for_a_broken_connection_end(void **state)
{
    struct asked asked[3] = {0};
    (void)state;
    asked[1].ask.is_repeatable = true;
    always("WORK", SILENCE);
    for (int i = 0; i < 3; i++) {
        ask_for(&asked[i], "WORK");
    }
    pass(10);
    cluster_conn_failed(&world.asker, "closed the connection", now());
    assert_int_equal(asked[0].error, HASP_ETIMEDOUT);
    assert_int_equal(asked[1].count, 0);
    assert_int_equal(asked[2].error, HASP_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        asked_done(&asked[i]);
    }
}

static void what_was_under_way_is_asked_again_in_its_order(void **state)
{
    static const char *const words[] = {"WORK a", "WORK b", "WORK u", "WORK c"};
    struct asked asked[4] = {0};
    (void)state;
    always("WORK", SILENCE);
    for (int i = 0; i < 4; i++) {
        asked[i].ask.is_repeatable = true;
        asked[i].ask.is_urgent = i == 2;
        ask_for(&asked[i], words[i]);
        if (i == 1) {
            pass(1);
        }
    }
    pass(1);
    assert_seen("0:WORK a|0:WORK b|0:WORK u|0:WORK c|");
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(1);
    assert_seen("1:WORK u|1:WORK a|1:WORK b|1:WORK c|");
    for (int i = 0; i < 4; i++) {
        asked_done(&asked[i]);
    }
}

/* --- Where and when ------------------------------------------------------- */

/* When each node was asked, since the request began. */
struct attempts {
    uint64_t at_ms[ATTEMPTS_MAX];
    int count;
};

static struct attempts attempts_of(struct asked *asked, uint64_t time_ms)
{
    struct attempts attempts = {0};
    uint64_t begun_ms = world.ms;
    size_t seen = 0;
    ask_for(asked, "WORK");
    for (uint64_t i = 0; i <= time_ms; i++) {
        turn();
        for (; world.seen[seen] != '\0'; seen++) {
            if (world.seen[seen] == '|') {
                assert_true(attempts.count < ATTEMPTS_MAX);
                attempts.at_ms[attempts.count++] = world.ms - begun_ms;
            }
        }
        world.ms += i < time_ms;
    }
    return attempts;
}

/* All nodes are asked without a pause; then comes a growing pause, part of
 * which is random: from half to one and a half of 20, 40 ... 400 ms. */
static void pauses_between_rounds_grow(void **state)
{
    static const char *const answers[] = {"-BUSY later\r\n", "-NOLEADER x\r\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct asked asked = {.ask.is_repeatable = true};
        uint64_t limit_ms = 20, drawn = 0;
        restart_acquire();
        always("WORK", answers[i]);
        asked.ask.deadline_ns = 0;
        ask_for(&asked, "WORK");
        asked_done(&asked);
        world.seen[0] = '\0';
        struct attempts attempts = attempts_of(&asked, TIMEOUT_MS);
        assert_string_equal(world.seen + strlen(world.seen) - 7, "2:WORK|");
        assert_true(attempts.count >= 12 && attempts.count % 3 == 0);
        for (int j = 0; j < attempts.count; j += 3) {
            uint64_t at_ms = attempts.at_ms[j];
            assert_int_equal(attempts.at_ms[j + 1], at_ms);
            assert_int_equal(attempts.at_ms[j + 2], at_ms);
            if (j > 0) {
                uint64_t pause_ms = at_ms - attempts.at_ms[j - 1];
                assert_in_range(pause_ms, limit_ms / 2, limit_ms * 3 / 2);
                drawn |= pause_ms ^ limit_ms;
                limit_ms = u64_min(2 * limit_ms, 400);
            }
        }
        assert_true(drawn != 0);
        asked_done(&asked);
    }
}

static void the_longest_pause_is_not_exceeded(void **state)
{
    uint64_t most_ns = 0, least_ns = UINT64_MAX;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t pause_ns = cluster_conn_pause_ns(&world.asker, 6);
        assert_int_equal(pause_ns % NS_PER_MS, 0);
        most_ns = u64_max(most_ns, pause_ns);
        least_ns = u64_min(least_ns, pause_ns);
    }
    assert_in_range(least_ns, 200 * NS_PER_MS, 210 * NS_PER_MS);
    assert_in_range(most_ns, 590 * NS_PER_MS, 599 * NS_PER_MS);
    for (uint32_t round = 0; round < 100; round++) {
        assert_in_range(cluster_conn_pause_ns(&world.asker, round),
                        10 * NS_PER_MS, 599 * NS_PER_MS);
    }
}

/* The answer to an attempt that begins at the end could not arrive in time, and
 * the request would be reported as perhaps done. */
static void who_was_refused_does_not_ask_at_the_very_end(void **state)
{
    (void)state;
    for (int is_read = 0; is_read < 2; is_read++) {
        struct asked asked = {.ask.is_repeatable = true,
                              .ask.is_read = is_read != 0};
        uint64_t newest_ms = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            restart_acquire();
            world.asker.random = seed * seed;
            world.seen[0] = '\0';
            always("WORK", "-BUSY later\r\n");
            asked.count = 0;
            struct attempts attempts = attempts_of(&asked, TIMEOUT_MS);
            newest_ms = u64_max(newest_ms, attempts.at_ms[attempts.count - 1]);
            assert_int_equal(asked.count, 1);
            assert_int_equal(asked.error, HASP_EBUSY);
            assert_in_range(asked.told_ms,
                            is_read ? TIMEOUT_MS : TIMEOUT_MS - LATE_MS,
                            TIMEOUT_MS);
            asked_done(&asked);
        }
        if (is_read) {
            assert_in_range(newest_ms, TIMEOUT_MS - LATE_MS + 1, TIMEOUT_MS);
        } else {
            assert_in_range(newest_ms, TIMEOUT_MS - 2 * LATE_MS,
                            TIMEOUT_MS - LATE_MS);
        }
    }
}

static struct attempts busy_for(uint64_t time_ms)
{
    struct asked asked = {.ask.is_repeatable = true};
    world.seen[0] = '\0';
    world.rule_count = 0;
    always("WORK", "-BUSY later\r\n");
    struct attempts attempts = attempts_of(&asked, time_ms);
    asked_done(&asked);
    return attempts;
}

/* Pauses are short again after a connection that lasted, and only then. */
static void a_connection_that_lasts_ends_the_pauses(void **state)
{
    static const char *const answers[] = {"+OK\r\n", "-BADARG no\r\n"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        bool lasts = i >= 2;
        struct asked asked = {0};
        restart_acquire();
        (void)busy_for(TIMEOUT_MS - LATE_MS);
        world.rule_count = 0;
        always("WORK", answers[i % 2]);
        ask(&asked); /* Not at once: a pause is under way. */
        pass(lasts ? TIMEOUT_MS : 0);
        world.asker.opened_ns = lasts ? world.asker.opened_ns
                                      : read_clock().monotonic_ns;
        struct attempts attempts = busy_for(700);
        assert_true(attempts.count >= 4);
        assert_in_range(attempts.at_ms[3], lasts ? 10 : 40, lasts ? 30 : 599);
    }
}

/* A node can answer what comes with each connection, and end it at one
 * request. */
static void a_request_that_ends_each_connection_is_not_hurried(void **state)
{
    struct told told;
    int attempts = 0;
    (void)state;
    open_session();
    always("LOCK.ACQUIRE", HANG_UP);
    acquire(&told, "a", 0);
    pass(TIMEOUT_MS - 1);
    for (const char *at = world.seen; (at = strstr(at, "LOCK.ACQUIRE")) != NULL;
         at++) {
        attempts++;
    }
    assert_in_range(attempts, 6, 30);
}

static void it_begins_where_it_is_told_to(void **state)
{
    struct asked asked = {0};
    (void)state;
    cluster_conn_begin_at(&world.asker, 4); /* Of three nodes. */
    ask(&asked);
    assert_seen("1:WORK|");
}

/* A connection that is given up, with a reason or without, leads to the next
 * node. */
static void who_gives_a_connection_up_may_say_why(void **state)
{
    (void)state;
    for (int says = 0; says < 2; says++) {
        struct asked asked = {.ask.is_repeatable = true};
        restart_acquire();
        always("WORK", SILENCE);
        ask_for(&asked, "WORK");
        pass(1);
        cluster_conn_drop(&world.asker, says ? "it was too slow" : NULL, now());
        pass(TIMEOUT_MS);
        assert_seen("0:WORK|1:WORK|");
        assert_end(&asked, HASP_ETIMEDOUT,
                   says ? "no answer in time, it may have been done or not "
                          "(0:1: it was too slow; 1:1: no answer; 2:1: not "
                          "asked)"
                        : "no answer in time, it may have been done or not "
                          "(0:1: not asked; 1:1: no answer; 2:1: not asked)");
        asked_done(&asked);
    }
}

static uint64_t written_again_ns;

static void write_again(struct client_request *ask, struct lease_clock now)
{
    written_again_ns = now.monotonic_ns;
    query_begin(&ask->query, "AGAIN");
}

static void what_is_asked_again_may_be_written_anew(void **state)
{
    struct asked asked = {.ask.is_repeatable = true, .ask.again = write_again};
    (void)state;
    written_again_ns = 0;
    once("WORK", "-BUSY later\r\n");
    ask(&asked);
    assert_int_equal(asked.error, 0);
    assert_seen("0:WORK|1:AGAIN|");
    assert_int_equal(written_again_ns,
                     1000 * NS_PER_S + (5 + asked.told_ms) * NS_PER_MS);
}

static void who_is_sent_elsewhere_goes_there_at_once(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    once("0:WORK", "-MOVED 7 2:1\r\n");
    ask(&asked);
    assert_int_equal(asked.error, 0);
    assert_int_equal(asked.told_ms, 0);
    assert_seen("0:WORK|2:WORK|");
}

/* That connection is separate: its events do not count for the given
 * endpoints. */
static void where_it_was_sent_is_no_endpoint(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    always("0:WORK", "-MOVED 7 2:1\r\n");
    always("2:WORK", "-BUSY later\r\n");
    world.is_dead[1] = true;
    ask(&asked);
    assert_string_equal(asked.why,
                        "busy, nothing was done (0:1: sent us to 2:1; 1:1: "
                        "Connection refused; 2:1: later)");
}

static void an_address_that_is_none_is_no_leader(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    once("0:WORK", "-MOVED 7 nowhere:x\r\n");
    ask(&asked);
    assert_int_equal(asked.error, 0);
    assert_seen("0:WORK|1:WORK|");
}

/* If two nodes keep naming each other, the third is asked after a few tries. */
static void who_is_sent_in_a_circle_leaves_it(void **state)
{
    struct asked asked = {.ask.is_repeatable = true};
    (void)state;
    always("0:WORK", "-MOVED 7 1:1\r\n");
    always("1:WORK", "-MOVED 7 0:1\r\n");
    ask(&asked);
    assert_int_equal(asked.error, 0);
    assert_contains(world.seen, "2:WORK|");
    assert_in_range(strlen(world.seen) / strlen("0:WORK|"), 8, 40);
}

/* --- Authentication ------------------------------------------------------- */

static void a_refused_greeting_is_told_to_all(void **state)
{
    struct asked asked[2] = {0};
    (void)state;
    always("HELLO", "-NOAUTH say who you are\r\n");
    ask_for(&asked[0], "WORK");
    ask_for(&asked[1], "WORK");
    turn();
    for (int i = 0; i < 2; i++) {
        assert_end(&asked[i], HASP_EREPLY, "say who you are");
        assert_string_equal(asked[i].code, "NOAUTH");
        asked_done(&asked[i]);
    }
    assert_seen("");
}

/* A request that was not sent was not done, whatever a node answers to its
 * greeting. */
static void a_node_that_cannot_greet_is_left(void **state)
{
    static const struct {
        const char *answer;
        int error;
    } cases[] = {{"-BUSY later\r\n", HASP_EBUSY},
                 {"-UNKNOWN x\r\n", HASP_EBUSY},
                 {"-NOLEADER x\r\n", HASP_ENOTLEADER},
                 {"HTTP/1.1 400\r\n", HASP_EPROTO}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct asked asked = {0}, vain = {0};
        restart_acquire();
        always("0:HELLO", cases[i].answer);
        ask(&asked);
        assert_int_equal(asked.error, 0);
        assert_int_equal(asked.told_ms, 0);
        assert_seen("1:WORK|");
        restart_acquire();
        always("HELLO", cases[i].answer);
        ask(&vain);
        assert_int_equal(vain.error, cases[i].error);
    }
}

static void the_secret_of_the_user_is_said_after_the_greeting(void **state)
{
    struct asked asked = {0};
    struct endpoints endpoints;
    char why[HASP_WHY_SIZE];
    (void)state;
    assert_int_equal(endpoints_parse("0:1,1:1,2:1", &endpoints, why), 0);
    session_fsm_done(&world.machine);
    cluster_conn_done(&world.asker);
    assert_int_equal(cluster_conn_init(&world.asker, &endpoints, 7), 0);
    cluster_conn_show(&world.asker,
                      (const char[CLIENT_USER_SECRET_SIZE]){"app.123"});
    session_fsm_init(&world.machine, &world.asker);
    endpoints_done(&endpoints);
    once("HELLO 3", "%0\r\n");
    once("AUTH default app.123", "+OK\r\n");
    ask(&asked);
    assert_int_equal(asked.error, 0);
    assert_int_equal(world.asker.state, CLUSTER_CONN_OPEN);
}

static int pushes;

static void note_push(void *data, const struct resp_reply *reply)
{
    assert_ptr_equal(data, &pushes);
    assert_int_equal(reply->value[0].type, RESP_PUSH);
    pushes++;
}

static void what_is_pushed_for_no_session_is_handed_on(void **state)
{
    static const char *const texts[] = {
        ">2\r\n$4\r\nlock\r\n$1\r\nx\r\n",
        ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n:7\r\n",
        ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%1\r\n$7\r\nsession\r\n:4\r\n",
        ">1\r\n*3\r\n:1\r\n:2\r\n%0\r\n"};
    struct asked asked = {0};
    (void)state;
    pushes = 0;
    world.asker.push = note_push;
    world.asker.push_data = &pushes;
    ask(&asked);
    for (int i = 0; i < 4; i++) {
        give(texts[i]);
        assert_int_equal(pushes, i + 1);
    }
}

/* A reply without a request is not an answer. */
static void who_answers_unasked_is_left(void **state)
{
    struct asked asked = {0}, next = {0};
    (void)state;
    ask(&asked);
    assert_seen("0:WORK|");
    give("+OK\r\n");
    assert_true(world.asker.state == CLUSTER_CONN_REST);
    ask(&next);
    assert_int_equal(next.error, 0);
    assert_seen("1:WORK|");
}

static void credentials_are_a_number_and_a_secret(void **state)
{
    static const char *const wrong[] = {"17",
                                        "17:",
                                        ":" SECRET,
                                        "0:" SECRET,
                                        "x:" SECRET,
                                        "17:" SECRET "00",
                                        "17:0102030000000000000000000000000",
                                        "17:0102030000000000000000000000000g",
                                        "17 " SECRET};
    struct credentials credentials;
    (void)state;
    assert_int_equal(credentials_parse("17:" SECRET, &credentials), 0);
    assert_int_equal(credentials.session, 17);
    assert_string_equal(credentials.secret, SECRET);
    assert_int_equal(credentials_parse("1:" SECRET, &credentials), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(credentials_parse(wrong[i], &credentials),
                         HASP_EINVALID);
    }
}

int main(void)
{
#define one(test) \
    cmocka_unit_test_setup_teardown(test, set_up_closed, tear_down)
    const struct CMUnitTest tests[] = {
        one(the_worst_of_all_attempts_is_told),
        one(of_a_read_it_is_no_matter_whether_it_was_done),
        one(what_has_no_answer_may_have_been_done),
        one(what_was_not_sent_was_not_done),
        one(a_refusal_is_told_at_once_and_nobody_else_is_asked),
        one(what_may_not_be_done_twice_ends_when_it_may_have_been),
        one(all_that_waited_for_a_broken_connection_end),
        one(what_was_under_way_is_asked_again_in_its_order),
        one(pauses_between_rounds_grow),
        one(the_longest_pause_is_not_exceeded),
        one(who_was_refused_does_not_ask_at_the_very_end),
        one(a_connection_that_lasts_ends_the_pauses),
        one(a_request_that_ends_each_connection_is_not_hurried),
        one(it_begins_where_it_is_told_to),
        one(who_gives_a_connection_up_may_say_why),
        one(what_is_asked_again_may_be_written_anew),
        one(who_is_sent_elsewhere_goes_there_at_once),
        one(where_it_was_sent_is_no_endpoint),
        one(an_address_that_is_none_is_no_leader),
        one(who_is_sent_in_a_circle_leaves_it),
        one(a_refused_greeting_is_told_to_all),
        one(a_node_that_cannot_greet_is_left),
        one(the_secret_of_the_user_is_said_after_the_greeting),
        one(what_is_pushed_for_no_session_is_handed_on),
        one(who_answers_unasked_is_left),
        one(credentials_are_a_number_and_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
