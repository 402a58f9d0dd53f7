/* SPDX-License-Identifier: MIT */

/* The door for Consul at a core, without sockets: what keys show, when a GET
 * with an index is answered, and what refusals look like. */

#include "http/consul.h"
#include "http/exchange.h"
#include "net/json.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"
#include "tests/unit/gateway_world.h"

#define VALUE "v"

/* --- In place of net/http.c ----------------------------------------------- */

struct http_exchange {
    char method[8];
    char target[256];
    char body[256];
    void *owner;
    unsigned status; /* 0: not answered. */
    uint64_t index;
    char answer[1024];
};

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_target(const struct http_exchange *exchange)
{
    return exchange->target;
}

struct bytes http_body(const struct http_exchange *exchange)
{
    return bytes_of_text(exchange->body);
}

const char *http_address(const struct http_exchange *exchange)
{
    (void)exchange;
    return "127.0.0.1:1";
}

const struct tls_identity *http_identity(const struct http_exchange *exchange)
{
    (void)exchange;
    return NULL;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    (void)exchange;
    return strcmp(name, "Host") == 0 ? "127.0.0.1:1" : NULL;
}

void http_set_owner(struct http_exchange *exchange, void *owner)
{
    exchange->owner = owner;
}

void *http_owner(const struct http_exchange *exchange)
{
    return exchange->owner;
}

void http_answer(struct http_exchange *exchange, struct http_reply *reply)
{
    CHECK(exchange->status == 0);
    exchange->status = reply->status;
    snprintf(exchange->answer, sizeof exchange->answer, "%.*s",
             (int)reply->body.size,
             reply->body.size > 0 ? (const char *)reply->body.data : "");
    for (int i = 0; reply->header[i].name != NULL; i++) {
        if (strcmp(reply->header[i].name, "X-Consul-Index") == 0) {
            exchange->index = strtoull(reply->header[i].value, NULL, 10);
        }
    }
    buffer_done(&reply->body);
}

void http_stream(struct http_exchange *exchange, struct http_reply *reply)
{
    (void)exchange, (void)reply;
    abort();
}

struct buffer *http_stream_output(struct http_exchange *exchange)
{
    (void)exchange;
    abort();
}

void http_stream_more(struct http_exchange *exchange)
{
    (void)exchange;
}

size_t http_stream_unsent(const struct http_exchange *exchange)
{
    (void)exchange;
    return 0;
}

void http_stream_end(struct http_exchange *exchange)
{
    (void)exchange;
}

/* --- A node with the door ------------------------------------------------- */

static struct http_exchange sent[8];

static int set_up(void **state)
{
    (void)state;
    struct gateway_port port = gateway_world_new();
    client_open(world, 1, 1);
    struct gateway_consul consul = {.datacenter = "dc1", .waits_max = 4};
    gateway_open_consul(&gateway, &port, "", &consul);
    return 0;
}

static void forget(struct http_exchange *exchange)
{
    if (exchange->owner != NULL) {
        gateway_end(&gateway, exchange);
    }
    *exchange = (struct http_exchange){0};
}

static int end(void **state)
{
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        forget(&sent[i]);
    }
    gateway_done(&gateway);
    return tear_down(state);
}

static struct http_exchange *start(uint32_t place, const char *method,
                                   const char *body, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static struct http_exchange *start(uint32_t place, const char *method,
                                   const char *body, const char *format, ...)
{
    struct http_exchange *exchange = &sent[place];
    va_list args;
    forget(exchange);
    va_start(args, format);
    vsnprintf(exchange->target, sizeof exchange->target, format, args);
    va_end(args);
    snprintf(exchange->method, sizeof exchange->method, "%s", method);
    snprintf(exchange->body, sizeof exchange->body, "%s", body);
    gateway_request(&gateway, exchange);
    return exchange;
}

#define ASK(method, body, ...) \
    (start(0, method, body, __VA_ARGS__), gateway_world_run_ms(50), &sent[0])

static const char *open_session(const char *delay, char out[CONSUL_ID_SIZE])
{
    char body[128];
    json_error_t error;
    snprintf(body, sizeof body, "{\"TTL\":\"10s\",\"LockDelay\":\"%s\"}",
             delay);
    struct http_exchange *answer = ASK("PUT", body, "/v1/session/create");
    json_t *json = json_loads(answer->answer, 0, &error);
    assert_int_equal(answer->status, 200);
    snprintf(out, CONSUL_ID_SIZE, "%s",
             json_string_value(json_object_get(json, "ID")));
    json_decref(json);
    return out;
}

static void acquire(const char *key, const char *session, const char *expected)
{
    assert_string_equal(
        ASK("PUT", VALUE, "/v1/kv/%s?acquire=%s", key, session)->answer,
        expected);
}

static void assert_shows(const struct http_exchange *answer,
                         const char *session)
{
    assert_int_equal(answer->status, 200);
    assert_non_null(strstr(answer->answer, session));
}

#define NOBODY "00000000-0000-0000-0000-000000000000"

/* --- Tests ---------------------------------------------------------------- */

static void a_get_is_answered_by_a_change_of_its_key_alone(void **state)
{
    (void)state;
    char ours[CONSUL_ID_SIZE], other[CONSUL_ID_SIZE];
    open_session("0s", ours);
    open_session("0s", other);
    uint64_t index = ASK("GET", "", "/v1/kv/k")->index;
    assert_true(index > 0);
    struct http_exchange *wait = start(1, "GET", "", "/v1/kv/k?index=%llu",
                                       (unsigned long long)index);
    acquire("kk", other, "true");
    acquire("j", other, "true");
    gateway_world_run_ms(1000);
    assert_int_equal(wait->status, 0);
    acquire("k", ours, "true");
    assert_shows(wait, ours);
    assert_true(wait->index > index);

    /* The same index again: it has changed since. The new one: it has not. */
    uint64_t held = wait->index;
    assert_shows(
        ASK("GET", "", "/v1/kv/k?index=%llu", (unsigned long long)index), ours);
    wait = start(1, "GET", "", "/v1/kv/k?index=%llu", (unsigned long long)held);
    /* Nor does a native client that waits change what is shown. */
    client_ask(world, 1, 1, "SESSION.OPEN");
    client_ask(world, 1, 1, "LOCK.ACQUIRE consul/k WAIT 100");
    gateway_world_run_ms(200);
    assert_int_equal(wait->status, 0);
    assert_string_equal(ASK("PUT", "", "/v1/kv/k?release=%s", ours)->answer,
                        "true");
    assert_int_equal(wait->status, 404);
    assert_true(wait->index > held);
    /* Gone since, and an earlier index: answered at once. */
    assert_int_equal(
        ASK("GET", "", "/v1/kv/k?index=%llu", (unsigned long long)held)->status,
        404);
}

static void a_get_is_answered_when_its_time_is_over(void **state)
{
    (void)state;
    uint64_t index = ASK("GET", "", "/v1/kv/k")->index;
    struct http_exchange *wait = start(
        1, "GET", "", "/v1/kv/k?index=%llu&wait=2s", (unsigned long long)index);
    gateway_world_run_ms(1900);
    assert_int_equal(wait->status, 0);
    gateway_world_run_ms(200);
    assert_int_equal(wait->status, 404);
    wait = start(1, "GET", "", "/v1/kv/k?index=%llu&wait=10m",
                 (unsigned long long)index);
    gateway_world_run_ms(59 * 1000);
    assert_int_equal(wait->status, 0);
    gateway_world_run_ms(2000);
    assert_int_equal(wait->status, 404);
    /* An index that was never reached. */
    wait = start(1, "GET", "", "/v1/kv/k?index=%llu",
                 (unsigned long long)index << 1);
    gateway_world_run_ms(1100);
    assert_int_equal(wait->status, 404);
    assert_true(wait->index < index << 1);
}

static void beyond_the_limit_a_get_waits_for_a_moment(void **state)
{
    (void)state;
    uint64_t index = ASK("GET", "", "/v1/kv/k")->index;
    for (uint32_t i = 1; i <= 5; i++) {
        start(i, "GET", "", "/v1/kv/k?index=%llu", (unsigned long long)index);
        gateway_world_run_ms(20);
    }
    assert_int_equal(gateway.wait_count, 5);
    gateway_world_run_ms(1100);
    assert_int_equal(sent[5].status, 404);
    assert_int_equal(gateway.wait_count, 4);
    for (uint32_t i = 1; i <= 4; i++) {
        assert_int_equal(sent[i].status, 0);
        forget(&sent[i]); /* The client is gone. */
    }
    assert_int_equal(gateway.wait_count, 0);
}

static void a_key_never_shows_a_session_that_has_ended(void **state)
{
    (void)state;
    char ours[CONSUL_ID_SIZE], other[CONSUL_ID_SIZE];
    open_session("5s", ours);
    open_session("0s", other);
    acquire("k", ours, "true");
    uint64_t index = ASK("GET", "", "/v1/kv/k")->index;
    struct http_exchange *wait = start(1, "GET", "", "/v1/kv/k?index=%llu",
                                       (unsigned long long)index);
    gateway_world_run_ms(50);
    assert_string_equal(ASK("PUT", "", "/v1/session/destroy/%s", ours)->answer,
                        "true");
    assert_shows(wait, NOBODY);
    assert_null(strstr(wait->answer, ours));
    acquire("k", other, "false");
    wait = start(1, "GET", "", "/v1/kv/k?index=%llu",
                 (unsigned long long)wait->index);
    gateway_world_run_ms(4000);
    assert_int_equal(wait->status, 0);
    gateway_world_run_ms(2000);
    assert_int_equal(wait->status, 404);
    acquire("k", other, "true");
}

static void two_acquisitions_at_once_count_once(void **state)
{
    (void)state;
    char ours[CONSUL_ID_SIZE], other[CONSUL_ID_SIZE];
    open_session("0s", ours);
    open_session("0s", other);
    for (uint32_t i = 1; i <= 3; i++) {
        start(i, "PUT", VALUE, "/v1/kv/k?acquire=%s", ours);
    }
    gateway_world_run_ms(100);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_string_equal(sent[i].answer, "true");
    }
    assert_string_equal(ASK("PUT", "", "/v1/kv/k?release=%s", ours)->answer,
                        "true");
    acquire("k", other, "true");
}

static void every_refusal_is_plain_text(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "BADARG",  "ERR",   "NOAUTH", "WRONGPASS", "NOPERM",   "NOTLS",
        "NOTHELD", "GONE",  "LIMIT",  "NOSESSION", "DEADLOCK", "BLACKLISTED",
        "BUSY",    "LEVEL", "HELD",   "NOLEADER",  "UNKNOWN",  "EXPIRED"};
    for (unsigned status = 400; status < 600; status++) {
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
            struct http_reply reply = {0};
            struct problem problem;
            json_error_t error;
            problem_set(&problem, status, codes[i], NULL, "why");
            door_consul.refuse(&problem, &reply);
            assert_true(reply.status == 400 || reply.status == 403 ||
                        reply.status == 500 ||
                        (reply.status == 404 && i == 0 && status == 404));
            assert_string_equal(reply.content_type, "text/plain");
            assert_null(json_loadb((const char *)reply.body.data,
                                   reply.body.size, JSON_DECODE_ANY, &error));
            buffer_done(&reply.body);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, end)
    const struct CMUnitTest tests[] = {
        TEST(a_get_is_answered_by_a_change_of_its_key_alone),
        TEST(a_get_is_answered_when_its_time_is_over),
        TEST(beyond_the_limit_a_get_waits_for_a_moment),
        TEST(a_key_never_shows_a_session_that_has_ended),
        TEST(two_acquisitions_at_once_count_once),
        cmocka_unit_test(every_refusal_is_plain_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
