/* SPDX-License-Identifier: MIT */

/* client/: endpoints, connections, retries, sessions, against nodes that follow
 * a script. A scripted node is a thread that accepts connections on a free port
 * of loopback and gives each request the next answer of its script. */

#include "client/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "client/clock.h"

/* --- A scripted node ------------------------------------------------------ */

#define CONNECTIONS_MAX 16
#define HELLO_REPLY "%1\r\n$6\r\nserver\r\n$5\r\nhaspd\r\n"
#define SILENCE "silence" /* As an answer: none. */
#define HANG_UP "hang up" /* As an answer: the connection is closed. */

struct node {
    pthread_t thread;
    int listen_fd;
    int stop_fd;
    char address[32];
    const char *(*answer)(struct node *node, const char *request);
    void *data;
    atomic_int connections;
    pthread_mutex_t mutex;
    char seen[8192]; /* Requests but HELLO, words separated by blanks, '|'. */
};

/* The requests so far, until the next call. */
static const char *seen_by(struct node *node)
{
    static char seen[sizeof node->seen];
    pthread_mutex_lock(&node->mutex);
    memcpy(seen, node->seen, sizeof seen);
    pthread_mutex_unlock(&node->mutex);
    return seen;
}

#define assert_seen(node, text) assert_string_equal(seen_by(node), text)

static void answer_one(struct node *node, struct pollfd *fd,
                       const struct resp_request *request)
{
    char line[512] = "";
    for (uint32_t i = 0; i < request->count; i++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%.*s", i > 0 ? " " : "",
                 (int)request->argument[i].size,
                 (const char *)request->argument[i].data);
    }
    const char *reply = HELLO_REPLY;
    if (strncmp(line, "HELLO", 5) != 0) {
        pthread_mutex_lock(&node->mutex);
        size_t used = strlen(node->seen);
        snprintf(node->seen + used, sizeof node->seen - used, "%s|", line);
        pthread_mutex_unlock(&node->mutex);
        reply = node->answer(node, line);
    }
    if (strcmp(reply, HANG_UP) == 0) {
        close(fd->fd);
        fd->fd = -1;
    } else if (strcmp(reply, SILENCE) != 0) {
        /* In two pieces: a reply is seldom read at once. */
        size_t half = strlen(reply) / 2;
        send(fd->fd, reply, half, MSG_NOSIGNAL);
        send(fd->fd, reply + half, strlen(reply) - half, MSG_NOSIGNAL);
    }
}

static void serve(struct node *node, struct pollfd *fd, struct buffer *in,
                  struct resp_parser *parser)
{
    struct resp_request request;
    size_t used;
    const char *why;
    uint8_t *at = buffer_reserve(in, 4096);
    ssize_t count = recv(fd->fd, at, 4096, MSG_DONTWAIT);
    if (count <= 0) {
        close(fd->fd);
        fd->fd = -1;
        buffer_clear(in);
        return;
    }
    in->size += (size_t)count;
    while (fd->fd >= 0 && in->size > 0 &&
           resp_parse(parser, buffer_bytes(in), &request, &used, &why) == 0) {
        answer_one(node, fd, &request);
        buffer_consume(in, used);
    }
}

static void *run_node(void *data)
{
    struct node *node = data;
    struct pollfd fds[CONNECTIONS_MAX + 2];
    struct buffer in[CONNECTIONS_MAX] = {0};
    struct resp_parser parser[CONNECTIONS_MAX] = {0};
    for (int i = 0; i < CONNECTIONS_MAX + 2; i++) {
        fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    fds[CONNECTIONS_MAX].fd = node->listen_fd;
    fds[CONNECTIONS_MAX + 1].fd = node->stop_fd;
    for (;;) {
        poll(fds, CONNECTIONS_MAX + 2, -1);
        if (fds[CONNECTIONS_MAX + 1].revents != 0) {
            break;
        }
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            if (fds[i].fd >= 0 && fds[i].revents != 0) {
                serve(node, &fds[i], &in[i], &parser[i]);
            }
        }
        if (fds[CONNECTIONS_MAX].revents != 0) {
            int slot = 0;
            while (fds[slot].fd >= 0) {
                slot++;
            }
            buffer_clear(&in[slot]);
            fds[slot].fd = accept(node->listen_fd, NULL, NULL);
            fds[slot].revents = 0;
            atomic_fetch_add(&node->connections, 1);
        }
    }
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        if (fds[i].fd >= 0) {
            close(fds[i].fd);
        }
        buffer_done(&in[i]);
        resp_parser_done(&parser[i]);
    }
    return NULL;
}

static int listen_on_loopback(char address[32])
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    getsockname(fd, (struct sockaddr *)&name, &size);
    snprintf(address, 32, "127.0.0.1:%u", ntohs(name.sin_port));
    return fd;
}

static struct node *
node_start(const char *(*answer)(struct node *, const char *), void *data)
{
    struct node *node = memory_new(sizeof *node);
    node->answer = answer;
    node->data = data;
    pthread_mutex_init(&node->mutex, NULL);
    node->listen_fd = listen_on_loopback(node->address);
    node->stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&node->thread, NULL, run_node, node), 0);
    return node;
}

static void node_stop(struct node *node)
{
    uint64_t one = 1;
    assert_int_equal(write(node->stop_fd, &one, sizeof one), sizeof one);
    pthread_join(node->thread, NULL);
    close(node->listen_fd);
    close(node->stop_fd);
    pthread_mutex_destroy(&node->mutex);
    free(node);
}

/* Answers line by line; 'data' is an array of answers that ends with NULL, the
 * last one being repeated. */
static const char *next_answer(struct node *node, const char *request)
{
    const char **script = node->data;
    (void)request;
    const char *answer = script[0];
    if (script[1] != NULL) {
        node->data = script + 1;
    }
    return answer;
}

/* --- Helpers -------------------------------------------------------------- */

static struct client *client_of(const char *addresses)
{
    struct endpoints endpoints;
    char why[HASP_WHY_SIZE];
    assert_int_equal(endpoints_parse(addresses, &endpoints, why), 0);
    struct client *client = client_new(&endpoints, NULL);
    endpoints_done(&endpoints);
    return client;
}

static struct client *client_of_two(const char *one, const char *two)
{
    char both[80];
    snprintf(both, sizeof both, "%s,%s", one, two);
    return client_of(both);
}

static uint64_t in_ms(uint64_t time_ms)
{
    return client_now_ns() + time_ms * NS_PER_MS;
}

static int ask(struct client *client, const char *command,
               const struct client_options *options, int64_t *ret_integer)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, command);
    int error = client_ask(client, &query, options, &reply);
    query_done(&query);
    if (error == 0) {
        *ret_integer = reply->value[0].integer;
    }
    return error;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, text);
    }
}

/* --- Endpoints ------------------------------------------------------------ */

static void addresses_are_understood(void **state)
{
    (void)state;
    struct endpoints endpoints;
    char why[HASP_WHY_SIZE];
    assert_int_equal(
        endpoints_parse("a:1,b,[::1]:65535,[fe80::1],fe80::2", &endpoints, why),
        0);
    assert_int_equal(endpoints.count, 5);
    assert_string_equal(endpoints.endpoint[0].host, "a");
    assert_string_equal(endpoints.endpoint[0].port, "1");
    assert_string_equal(endpoints.endpoint[1].text, "b:7420");
    assert_string_equal(endpoints.endpoint[2].host, "::1");
    assert_string_equal(endpoints.endpoint[2].text, "[::1]:65535");
    assert_string_equal(endpoints.endpoint[3].text, "[fe80::1]:7420");
    assert_string_equal(endpoints.endpoint[4].text, "[fe80::2]:7420");
    endpoints_done(&endpoints);
    assert_int_equal(endpoints_parse("unix:/a:1,/b,unix", &endpoints, why), 0);
    assert_string_equal(endpoint_socket(&endpoints.endpoint[0]), "/a:1");
    assert_string_equal(endpoints.endpoint[0].text, "unix:/a:1");
    assert_false(endpoint_is_local(&endpoints.endpoint[0]));
    assert_true(endpoint_is_local(&endpoints.endpoint[1]));
    assert_null(endpoint_socket(&endpoints.endpoint[1]));
    assert_null(endpoint_socket(&endpoints.endpoint[2])); /* A host. */
    endpoints_done(&endpoints);
}

static void what_is_no_address_is_refused_with_its_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        ",",    "a:1,",   "a:",     ":1",     "a:0",
        "a:65536", "a:1x", "[::1",   "[::1]x", "[]:1",   "a: 1",
        "a:-1",    "a:+1", "a:0x10", "unix:",  "unix:a",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct endpoints endpoints;
        char why[HASP_WHY_SIZE] = "";
        if (endpoints_parse(bad[i], &endpoints, why) != HASP_EINVALID) {
            fail_msg("'%s' was taken for an address", bad[i]);
        }
        assert_contains(why, "host:port");
    }
}

static void credentials_are_a_number_and_32_hex_digits(void **state)
{
    (void)state;
    struct credentials credentials;
    assert_int_equal(
        credentials_parse("42:00112233445566778899aabbccddeeff", &credentials),
        0);
    assert_int_equal(credentials.session, 42);
    assert_string_equal(credentials.secret, "00112233445566778899aabbccddeeff");
    static const char *const bad[] = {
        "42",
        "42:",
        "0:00112233445566778899aabbccddeeff",
        "x:00112233445566778899aabbccddeeff",
        "42:00112233445566778899aabbccddeef",
        "42:00112233445566778899aabbccddeefff",
        "42:00112233445566778899aabbccddeefg",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(credentials_parse(bad[i], &credentials),
                         HASP_EINVALID);
    }
}

/* --- Asking --------------------------------------------------------------- */

static void an_answer_is_given_out(void **state)
{
    (void)state;
    const char *script[] = {":7\r\n", NULL};
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(ask(client, "B", &options, &value), 0);
    assert_seen(node, "A|B|");
    assert_int_equal(atomic_load(&node->connections), 1);
    client_free(client);
    node_stop(node);
}

static void a_refusal_is_not_repeated(void **state)
{
    (void)state;
    const char *script[] = {"-NOTHELD not held by you\r\n", ":1\r\n", NULL};
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000),
                                     .is_repeatable = true};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), HASP_EREPLY);
    assert_string_equal(client_code(client), "NOTHELD");
    assert_string_equal(client_why(client), "not held by you");
    assert_seen(node, "A|");
    client_free(client);
    node_stop(node);
}

/* Nothing was done, so even a request that must not run twice is repeated. */
static void no_leader_and_busy_are_asked_again(void **state)
{
    (void)state;
    const char *script[] = {"-NOLEADER\r\n", "-BUSY later\r\n",
                            "-NOLEADER no leader\r\n", ":3\r\n", NULL};
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_int_equal(value, 3);
    assert_seen(node, "A|A|A|A|");
    client_free(client);
    node_stop(node);
}

static void the_next_endpoint_is_asked_where_one_is_dead(void **state)
{
    (void)state;
    const char *script[] = {":1\r\n", NULL};
    char dead[32];
    close(listen_on_loopback(dead));
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of_two(dead, node->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_string_equal(client_peer(client), node->address);
    client_free(client);
    node_stop(node);
}

/* A paused node's kernel accepts, and then no bytes arrive. */
static void a_node_that_accepts_and_is_silent_is_left(void **state)
{
    (void)state;
    const char *script[] = {":1\r\n", NULL};
    char paused[32];
    int fd = listen_on_loopback(paused);
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of_two(paused, node->address);
    struct client_options options = {.deadline_ns = in_ms(10000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    client_free(client);
    node_stop(node);
    close(fd);
}

static void moved_leads_to_the_node_that_is_named(void **state)
{
    (void)state;
    const char *leads[] = {":9\r\n", NULL};
    char moved[64];
    struct node *leader = node_start(next_answer, leads);
    snprintf(moved, sizeof moved, "-MOVED 0 %s\r\n", leader->address);
    const char *sends[] = {moved, NULL};
    struct node *follower = node_start(next_answer, sends);
    struct client *client = client_of(follower->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_int_equal(value, 9);
    assert_string_equal(client_peer(client), leader->address);
    client_free(client);
    node_stop(follower);
    node_stop(leader);
}

static void a_lost_connection_leaves_a_change_unknown(void **state)
{
    (void)state;
    const char *script[] = {HANG_UP, ":1\r\n", NULL};
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), HASP_ETIMEDOUT);
    assert_contains(client_why(client), "may have been done");
    assert_seen(node, "A|");
    client_free(client);
    node_stop(node);
}

static void what_is_repeatable_is_asked_again_after_a_lost_answer(void **state)
{
    (void)state;
    const char *script[] = {HANG_UP, "-UNKNOWN the leader died\r\n", SILENCE,
                            ":1\r\n", NULL};
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {
        .deadline_ns = in_ms(8000), .attempt_ms = 200, .is_repeatable = true};
    int64_t value;
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_seen(node, "A|A|A|A|");
    client_free(client);
    node_stop(node);
}

static void a_silent_cluster_is_told_from_one_without_a_leader(void **state)
{
    (void)state;
    const char *silent[] = {SILENCE, NULL};
    const char *leaderless[] = {"-NOLEADER\r\n", NULL};
    int64_t value;
    struct node *node = node_start(next_answer, silent);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(1000),
                                     .is_repeatable = true};
    assert_int_equal(ask(client, "A", &options, &value), HASP_ETIMEDOUT);
    options = (struct client_options){.deadline_ns = in_ms(1000),
                                      .is_read = true};
    assert_int_equal(ask(client, "A", &options, &value), HASP_ECONNECT);
    client_free(client);
    node_stop(node);

    node = node_start(next_answer, leaderless);
    client = client_of(node->address);
    options = (struct client_options){.deadline_ns = in_ms(3000)};
    assert_int_equal(ask(client, "A", &options, &value), HASP_ENOTLEADER);
    assert_contains(client_why(client), node->address);
    client_free(client);
    node_stop(node);

    char dead[32];
    close(listen_on_loopback(dead));
    client = client_of(dead);
    options = (struct client_options){.deadline_ns = in_ms(1000)};
    assert_int_equal(ask(client, "A", &options, &value), HASP_ECONNECT);
    assert_contains(client_why(client), "refused");
    client_free(client);
}

static void what_does_not_speak_the_protocol_is_named(void **state)
{
    (void)state;
    const char *script[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", NULL};
    int64_t value;
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000),
                                     .is_once = true};
    assert_int_equal(ask(client, "A", &options, &value), HASP_EPROTO);
    assert_contains(client_why(client), node->address);
    client_free(client);
    node_stop(node);
}

static void a_session_is_attached_anew_on_each_connection(void **state)
{
    (void)state;
    const char *script[] = {"+OK\r\n", ":1\r\n", HANG_UP,
                            "+OK\r\n", ":2\r\n", NULL};
    int64_t value;
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct credentials credentials = {5, "00112233445566778899aabbccddeeff"};
    struct client_options options = {.deadline_ns = in_ms(5000),
                                     .is_repeatable = true};
    client_set_session(client, &credentials);
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_int_equal(ask(client, "B", &options, &value), 0);
    assert_int_equal(value, 2);
    assert_seen(node, "SESSION.ATTACH 5 00112233445566778899aabbccddeeff|A|B|"
                      "SESSION.ATTACH 5 00112233445566778899aabbccddeeff|B|");
    client_free(client);
    node_stop(node);
}

static void count_push(void *data, const struct resp_reply *reply)
{
    int *count = data;
    assert_int_equal(reply->value[0].type, RESP_PUSH);
    (*count)++;
}

static void pushes_go_past_the_answers(void **state)
{
    (void)state;
    const char *script[] = {">2\r\n+lock\r\n+please\r\n:1\r\n>1\r\n+x\r\n",
                            NULL};
    int64_t value;
    int count = 0;
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(5000)};
    client_set_push(client, count_push, &count);
    assert_int_equal(ask(client, "A", &options, &value), 0);
    assert_int_equal(value, 1);
    assert_true(count >= 1); /* Bytes read together are delivered together. */
    assert_int_equal(client_wait_push(client, in_ms(5000)), 0);
    assert_int_equal(count, 2);
    assert_int_equal(client_wait_push(client, in_ms(50)), HASP_ETIMEDOUT);
    client_free(client);
    node_stop(node);
}

static void a_wait_can_be_interrupted(void **state)
{
    (void)state;
    const char *script[] = {SILENCE, NULL};
    uint64_t one = 1;
    int64_t value;
    int fd = eventfd(0, EFD_CLOEXEC);
    struct node *node = node_start(next_answer, script);
    struct client *client = client_of(node->address);
    struct client_options options = {.deadline_ns = in_ms(20000),
                                     .is_repeatable = true};
    client_set_interrupt(client, fd);
    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
    assert_int_equal(ask(client, "A", &options, &value), HASP_EINTR);
    client_free(client);
    node_stop(node);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_understood),
        cmocka_unit_test(what_is_no_address_is_refused_with_its_text),
        cmocka_unit_test(credentials_are_a_number_and_32_hex_digits),
        cmocka_unit_test(an_answer_is_given_out),
        cmocka_unit_test(a_refusal_is_not_repeated),
        cmocka_unit_test(no_leader_and_busy_are_asked_again),
        cmocka_unit_test(the_next_endpoint_is_asked_where_one_is_dead),
        cmocka_unit_test(a_node_that_accepts_and_is_silent_is_left),
        cmocka_unit_test(moved_leads_to_the_node_that_is_named),
        cmocka_unit_test(a_lost_connection_leaves_a_change_unknown),
        cmocka_unit_test(what_is_repeatable_is_asked_again_after_a_lost_answer),
        cmocka_unit_test(a_silent_cluster_is_told_from_one_without_a_leader),
        cmocka_unit_test(what_does_not_speak_the_protocol_is_named),
        cmocka_unit_test(a_session_is_attached_anew_on_each_connection),
        cmocka_unit_test(pushes_go_past_the_answers),
        cmocka_unit_test(a_wait_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
