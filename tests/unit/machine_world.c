/* SPDX-License-Identifier: MIT */

#include "tests/unit/machine_world.h"

struct machine_world world;

/* --- The cluster ---------------------------------------------------------- */

struct lease_clock read_clock(void)
{
    uint64_t origin_ns = UINT64_C(1000) * NS_PER_S;
    return (struct lease_clock){origin_ns +
                                    (world.ms - world.asleep_ms) * NS_PER_MS,
                                2 * origin_ns + world.ms * NS_PER_MS};
}

/* The memory of the call for the caller's data is taken away; the call must
 * bring it. */
struct lease_clock now(void)
{
    assert_time_kept();
    world.asker.now = (struct lease_clock){0};
    world.given = read_clock();
    return world.given;
}

void assert_time_kept(void)
{
    assert_memory_equal(&world.asker.now, &world.given, sizeof world.given);
}

static void add_rule(const char *prefix, const char *answer, bool is_kept)
{
    assert_true(world.rule_count < RULES);
    world.rule[world.rule_count++] = (struct rule){prefix, answer, is_kept,
                                                   false};
}

void once(const char *prefix, const char *answer)
{
    add_rule(prefix, answer, false);
}

void always(const char *prefix, const char *answer)
{
    add_rule(prefix, answer, true);
}

static const char *answer_of(const char *line)
{
    static char text[256];
    for (int i = 0; i < world.rule_count; i++) {
        struct rule *rule = &world.rule[i];
        const char *prefix = rule->prefix;
        if (prefix[0] == '0' + world.at && prefix[1] == ':') {
            prefix += 2;
        }
        if (!rule->is_used && strncmp(line, prefix, strlen(prefix)) == 0) {
            rule->is_used = !rule->is_kept;
            return rule->answer;
        }
    }
    if (strncmp(line, "SESSION.OPEN", 12) == 0) {
        snprintf(text, sizeof text, "%%4\r\n$2\r\nid\r\n:17\r\n" TIMES,
                 world.linger_ms);
        return text;
    }
    if (strncmp(line, "SESSION.KEEP", 12) == 0) {
        snprintf(text, sizeof text, "%%4\r\n" TIMES "$5\r\nended\r\n*0\r\n",
                 world.linger_ms);
        return text;
    }
    return strncmp(line, "LOCK", 4) == 0 ? ":1\r\n" : "+OK\r\n";
}

/* In two pieces: a reply is seldom read at once. */
void give(const char *text)
{
    size_t half = strlen(text) / 2;
    uint32_t number = world.asker.number;
    cluster_conn_input(&world.asker, bytes_of(text, half), now());
    if (world.asker.number == number) {
        cluster_conn_input(&world.asker, bytes_of_text(text + half), now());
    }
}

/* Writes the map of a grant. */
static void put_grant(char *text, size_t size, long long token, long long first,
                      const char *left)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             "%%5\r\n$5\r\ntoken\r\n:%lld\r\n$5\r\nfirst\r\n:%lld\r\n"
             "$5\r\ncount\r\n:1\r\n$12\r\nhold_left_ms\r\n%s\r\n"
             "$5\r\nas_of\r\n:1000000\r\n",
             token, first != 0 ? first : token, left);
}

/* A rule has only the tokens; the node reports the grants with them. */
static const char *with_grants(const char *line, const char *answer)
{
    static char text[2048];
    char left[32] = "_";
    const char *hold = strstr(line, " HOLD ");
    bool is_list = answer[0] == '*' && strstr(answer, "\r\n:") != NULL &&
                   strchr(answer, '%') == NULL;
    if (strstr(line, " FULL") == NULL || (answer[0] != ':' && !is_list) ||
        strncmp(line, "LOCK.", 5) != 0 || strncmp(answer, "*-1", 3) == 0) {
        return answer;
    }
    if (hold != NULL) {
        snprintf(left, sizeof left, ":%ld", strtol(hold + 6, NULL, 10));
    }
    text[0] = '\0';
    if (is_list) {
        snprintf(text, sizeof text, "%.*s\r\n", (int)strcspn(answer, "\r"),
                 answer);
    }
    for (const char *at = strchr(answer, ':'); at != NULL;
         at = strchr(at + 1, ':')) {
        const char *of = strstr(line, " TOKEN ");
        put_grant(text, sizeof text, strtoll(at + 1, NULL, 10),
                  of != NULL ? strtoll(of + 7, NULL, 10) : 0, left);
    }
    return text;
}

/* Each change and each end names its session, and each heartbeat its secret,
 * too. For the first session the id is not repeated. */
static void take_name(char *line)
{
    static const char beat[] = "SESSION.KEEP 17 " SECRET " FULL";
    static const char full[] = " FULL";
    static const char name[] = " SESSION 17";
    char *at = strstr(line, name);
    bool is_named = strstr(line, " REQ ") != NULL ||
                    strncmp(line, "SESSION.CLOSE", 13) == 0;
    if (is_named) {
        assert_contains(line, " SESSION 1");
    }
    if (strncmp(line, beat, sizeof beat - 1) == 0) {
        memmove(line + sizeof "SESSION.KEEP FULL" - 1, line + sizeof beat - 1,
                strlen(line + sizeof beat - 1) + 1);
        memcpy(line, "SESSION.KEEP FULL", sizeof "SESSION.KEEP FULL" - 1);
    } else if (is_named && at != NULL) {
        memmove(at, at + sizeof name - 1, strlen(at + sizeof name - 1) + 1);
    }
    at = strstr(line, full);
    if (at != NULL && strncmp(line, "LOCK.", 5) == 0) {
        memmove(at, at + sizeof full - 1, strlen(at + sizeof full - 1) + 1);
    } else {
        /* Each of these asks for its full grant. */
        assert_true(strncmp(line, "LOCK.ACQUIRE", 12) != 0 &&
                    strncmp(line, "LOCK.MACQUIRE", 13) != 0 &&
                    strncmp(line, "LOCK.CONVERT", 12) != 0);
    }
}

static void answer_one(const struct resp_request *request)
{
    char line[512] = "";
    uint32_t number = world.asker.number;
    for (uint32_t i = 0; i < request->count; i++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%.*s", i > 0 ? " " : "",
                 (int)request->argument[i].size,
                 (const char *)request->argument[i].data);
    }
    char asked[512];
    memcpy(asked, line, sizeof asked);
    take_name(line);
    if (strncmp(line, "HELLO", 5) != 0) {
        size_t used = strlen(world.seen);
        snprintf(world.seen + used, sizeof world.seen - used, "%d:%s|",
                 world.at, line);
    }
    if (world.is_silent[world.at]) {
        return;
    }
    const char *answer = with_grants(asked, answer_of(line));
    if (strcmp(answer, HANG_UP) == 0) {
        cluster_conn_failed(&world.asker, "closed the connection", now());
    } else if (strcmp(answer, SILENCE) != 0 && number == world.asker.number) {
        give(answer);
    }
}

static void take_output(void)
{
    struct cluster_conn *asker = &world.asker;
    struct buffer out = asker->out;
    struct resp_parser parser = {0};
    struct resp_request request;
    const char *why;
    size_t used, at = 0;
    asker->out = (struct buffer){0};
    while (at < out.size && world.number == asker->number) {
        struct bytes left = bytes_of(out.data + at, out.size - at);
        assert_int_equal(resp_parse(&parser, left, &request, &used, &why), 0);
        answer_one(&request);
        at += used;
    }
    resp_parser_done(&parser);
    buffer_done(&out);
}

void turn(void)
{
    struct cluster_conn *asker = &world.asker;
    for (int i = 0; i < 1000; i++) {
        cluster_conn_turn(asker, now());
        if (world.number != asker->number) {
            world.number = asker->number;
            if (asker->state != CLUSTER_CONN_OPENING) {
                continue;
            }
            if (world.may_renew) {
                world.renewals++;
                cluster_conn_renewed(asker, world.has_changed,
                                     world.why != NULL ? world.why : "", now());
                if (world.number != asker->number) {
                    continue;
                }
            }
            world.at = cluster_conn_endpoint(asker)->host[0] - '0';
            if (world.is_dead[world.at]) {
                cluster_conn_failed(asker, "Connection refused", now());
            } else if (world.is_distrusted[world.at]) {
                cluster_conn_distrusted(asker, "its certificate is over",
                                        now());
            } else {
                cluster_conn_connected(asker);
            }
        } else if (asker->out.size > 0) {
            take_output();
        } else if (cluster_conn_left_ns(&world.asker, read_clock()) > 0) {
            return;
        }
    }
    fail_msg("the machine does not come to rest");
}

/* Lets time pass; each turn comes at its time. */
void pass(uint64_t time_ms)
{
    uint64_t end_ms = world.ms + time_ms;
    turn();
    while (world.ms < end_ms) {
        uint64_t left_ns = cluster_conn_left_ns(&world.asker, read_clock());
        uint64_t left_ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS != 0);
        world.ms += left_ms < end_ms - world.ms ? left_ms : end_ms - world.ms;
        turn();
    }
}

/* --- Helpers -------------------------------------------------------------- */

static void on_done(struct client_call *call)
{
    ((struct told *)call->data)->count++;
}

struct client_call *call_of(struct told *told)
{
    *told = (struct told){.call = {.done = on_done, .data = told}};
    return &told->call;
}

void assert_told(const struct told *told, int error)
{
    assert_int_equal(told->count, 1);
    assert_int_equal(told->call.error, error);
}

void assert_seen(const char *text)
{
    assert_string_equal(world.seen, text);
    world.seen[0] = '\0';
}

void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, text);
    }
}

void open_session(void)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told;
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, 0);
    assert_contains(world.seen, "SESSION.OPEN TTL 1000 NAME me PROOF ");
    world.seen[0] = '\0';
}

void acquire_for(struct told *told, const char *name, uint64_t wait_ms,
                 const char *owner, uint64_t hold_ms)
{
    struct hasp_acquire_options options = {.size = sizeof options,
                                           .wait_ms = wait_ms,
                                           .owner = owner,
                                           .hold_ms = hold_ms,
                                           .interrupt_fd = -1};
    assert_int_equal(session_fsm_acquire(&world.machine, &name, 1, &options,
                                         call_of(told), now()),
                     0);
    turn();
}

void acquire(struct told *told, const char *name, uint64_t wait_ms)
{
    acquire_for(told, name, wait_ms, NULL, 0);
}

void release(struct hasp_hold *hold, struct told *told)
{
    assert_int_equal(
        session_fsm_release(&world.machine, hold, call_of(told), now()), 0);
    turn();
}

uint64_t left_ms(struct hasp_hold *hold)
{
    struct hasp_lease lease;
    session_fsm_look(&world.machine, hold, read_clock(), &lease);
    return lease.remaining_ns / NS_PER_MS;
}

int next_event(void)
{
    struct event_node *node = session_fsm_take_event(&world.machine);
    int kind = node != NULL ? (int)node->event.kind : 0;
    free(node);
    return kind;
}

int set_up_closed(void **state)
{
    struct endpoints endpoints;
    char why[HASP_WHY_SIZE];
    (void)state;
    memset(&world, 0, sizeof world);
    world.ms = 5;
    assert_int_equal(endpoints_parse("0:1,1:1,2:1", &endpoints, why), 0);
    assert_int_equal(cluster_conn_init(&world.asker, &endpoints, 7), 0);
    session_fsm_init(&world.machine, &world.asker);
    world.machine.timeout_ms = 10000;
    endpoints_done(&endpoints);
    return 0;
}

int set_up(void **state)
{
    int error = set_up_closed(state);
    open_session();
    return error;
}

int tear_down(void **state)
{
    (void)state;
    assert_time_kept();
    session_fsm_done(&world.machine);
    cluster_conn_done(&world.asker);
    return 0;
}
