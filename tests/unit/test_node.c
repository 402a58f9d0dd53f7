/* SPDX-License-Identifier: MIT */

/* A node inside this process, through its public header alone (except for one
 * bound that no option sets). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "include/hasp/node.h"
#include "node/node.h"

static char folder[256];

static int make_folder(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hasp-node-XXXXXX",
             above != NULL ? above : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

static struct hasp_node_options options_here(void)
{
    struct hasp_node_options options;
    hasp_node_options_init(&options);
    options.id = 1;
    options.directory = folder;
    options.listen_client = "127.0.0.1:0";
    options.listen_peer = "127.0.0.1:0";
    options.limits.disk_reserve = 0;
    options.limits.wal_segment_size = 1 << 20;
    return options;
}

struct runner {
    struct hasp_node *node;
    pthread_t thread;
    int status;
};

static void *run(void *data)
{
    struct runner *runner = data;
    runner->status = hasp_node_run(runner->node);
    return NULL;
}

static void open_node(struct runner *runner)
{
    struct hasp_node_options options = options_here();
    char why[HASP_NODE_WHY_SIZE] = "";
    if (hasp_node_open(&options, &runner->node, why) != HASP_NODE_OK) {
        fail_msg("%s", why);
    }
}

static void start_opened(struct runner *runner)
{
    assert_int_equal(pthread_create(&runner->thread, NULL, run, runner), 0);
}

static void start(struct runner *runner)
{
    open_node(runner);
    start_opened(runner);
}

static void stop(struct runner *runner)
{
    hasp_node_stop(runner->node);
    hasp_node_stop(runner->node);
    assert_int_equal(pthread_join(runner->thread, NULL), 0);
    assert_int_equal(runner->status, HASP_NODE_OK);
    assert_string_equal(hasp_node_why(runner->node), "");
    hasp_node_close(runner->node);
}

static int dial(const struct hasp_node *node)
{
    uint64_t port;
    const char *colon = strrchr(hasp_node_client_address(node), ':');
    assert_true(bytes_to_u64(bytes_of_text(colon + 1), &port));
    struct sockaddr_in to = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 10};
    assert_true(fd >= 0);
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends an inline command and reads until the answer has 'size' bytes. */
static void ask(int fd, const char *text, const char *answer)
{
    char got[256] = "";
    size_t size = 0;
    assert_int_equal(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    while (size < strlen(answer)) {
        ssize_t part = recv(fd, got + size, sizeof got - 1 - size, 0);
        assert_true(part > 0);
        size += (size_t)part;
    }
    got[size] = '\0';
    assert_string_equal(got, answer);
}

/* Sends an inline command and reads until the answer ends with 'end'. */
static void read_until(int fd, const char *text, const char *end,
                       char reply[512])
{
    size_t size = 0;
    assert_int_equal(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    do {
        ssize_t part = recv(fd, reply + size, 511 - size, 0);
        assert_true(part > 0);
        size += (size_t)part;
        reply[size] = '\0';
    } while (size < strlen(end) ||
             strcmp(reply + size - strlen(end), end) != 0);
}

static void a_node_serves_from_inside_a_program(void **state)
{
    struct runner runner;
    (void)state;
    start(&runner);
    int fd = dial(runner.node);
    ask(fd, "PING\r\n", "+PONG\r\n");
    close(fd);
    stop(&runner);
}

static void what_it_knew_is_there_when_it_is_opened_again(void **state)
{
    struct runner runner;
    (void)state;
    start(&runner);
    int fd = dial(runner.node);
    char reply[512];
    read_until(fd, "SESSION.OPEN TTL 60000\r\n", "\r\n:48000\r\n", reply);
    read_until(fd, "LOCK.ACQUIRE a\r\n", "\r\n", reply);
    assert_int_equal(reply[0], ':');
    uint64_t token;
    reply[strlen(reply) - 2] = '\0';
    assert_true(bytes_to_u64(bytes_of_text(reply + 1), &token));
    close(fd);
    stop(&runner);

    start(&runner);
    fd = dial(runner.node);
    char question[64];
    snprintf(question, sizeof question, "LOCK.CHECK a %" PRIu64 "\r\n", token);
    ask(fd, question, ":1\r\n");
    close(fd);
    stop(&runner);
}

static void a_node_may_stop_with_clients_connected(void **state)
{
    struct runner runner;
    (void)state;
    start(&runner);
    int fd[20];
    for (int i = 0; i < 20; i++) {
        fd[i] = dial(runner.node);
        ask(fd[i], "PING\r\n", "+PONG\r\n");
    }
    stop(&runner);
    for (int i = 0; i < 20; i++) {
        char byte;
        assert_int_equal(recv(fd[i], &byte, 1, 0), 0);
        close(fd[i]);
    }
}

/* Sends requests, without reading answers, until the node accepts none for a
 * while; true if it has closed the connection. */
static bool is_closed_unread(int fd)
{
    static char words[60000];
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    if (words[0] == '\0') {
        memset(words, 'x', sizeof words);
        memcpy(words, "*2\r\n$4\r\nPING\r\n$59976\r\n", 22);
        memcpy(words + sizeof words - 2, "\r\n", 2);
    }
    size_t sent = 0;
    while (poll(&writable, 1, 100) > 0) {
        if ((writable.revents & (POLLERR | POLLHUP)) != 0) {
            return true;
        }
        ssize_t size = send(fd, words + sent, sizeof words - sent,
                            MSG_DONTWAIT);
        if (size < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return true;
        }
        sent += size > 0 ? (size_t)size : 0;
        sent = sent == sizeof words ? 0 : sent;
    }
    return false;
}

static void clients_that_do_not_read_are_closed_beyond_what_fits(void **state)
{
    enum { COUNT = 8 };
    struct runner runner;
    int fd[COUNT];
    uint32_t closed = 0;
    (void)state;
    open_node(&runner);
    runner.node->clients.unsent_max = 1 << 20;
    start_opened(&runner);
    int other = dial(runner.node);
    for (int i = 0; i < COUNT; i++) {
        fd[i] = dial(runner.node);
        (void)is_closed_unread(fd[i]);
    }
    for (int round = 0; closed == 0 && round < 50; round++) {
        for (int i = 0; i < COUNT; i++) {
            closed += is_closed_unread(fd[i]) ? 1 : 0;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        close(fd[i]);
    }
    assert_in_range(closed, 1, COUNT - 1);
    ask(other, "PING\r\n", "+PONG\r\n");
    close(other);
    stop(&runner);
}

static void a_node_may_be_closed_without_having_run(void **state)
{
    struct hasp_node_options options = options_here();
    struct hasp_node *node;
    char why[HASP_NODE_WHY_SIZE];
    (void)state;
    assert_int_equal(hasp_node_open(&options, &node, why), HASP_NODE_OK);
    hasp_node_close(node);
    hasp_node_close(NULL);
}

static void a_directory_in_use_is_a_storage_error(void **state)
{
    struct hasp_node_options options = options_here();
    struct hasp_node *node, *second = NULL;
    char why[HASP_NODE_WHY_SIZE] = "";
    (void)state;
    assert_int_equal(hasp_node_open(&options, &node, why), HASP_NODE_OK);
    assert_int_equal(hasp_node_open(&options, &second, why), HASP_NODE_STORAGE);
    assert_non_null(strstr(why, folder));
    assert_null(second);
    hasp_node_close(node);
}

static void a_port_in_use_is_told_apart(void **state)
{
    struct hasp_node_options options = options_here();
    struct hasp_node *node, *second;
    char why[HASP_NODE_WHY_SIZE] = "", other[300], address[128];
    (void)state;
    assert_int_equal(hasp_node_open(&options, &node, why), HASP_NODE_OK);
    snprintf(address, sizeof address, "%s", hasp_node_client_address(node));
    snprintf(other, sizeof other, "%s/other", folder);
    options.directory = other;
    options.listen_client = address;
    assert_int_equal(hasp_node_open(&options, &second, why),
                     HASP_NODE_UNAVAILABLE);
    assert_non_null(strstr(why, "cannot listen"));
    hasp_node_close(node);
}

static void options_that_cannot_be_are_refused(void **state)
{
    struct hasp_node_options options = options_here();
    char why[HASP_NODE_WHY_SIZE];
    (void)state;
    assert_int_equal(hasp_node_options_check(&options, why), HASP_NODE_OK);
    options.listen_client = "192.0.2.1:7420";
    assert_int_equal(hasp_node_options_check(&options, why), HASP_NODE_CONFIG);
    options.is_insecure = true;
    assert_int_equal(hasp_node_options_check(&options, why), HASP_NODE_OK);
    options.size--;
    assert_int_equal(hasp_node_options_check(&options, why), HASP_NODE_CONFIG);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_serves_from_inside_a_program),
        TEST(what_it_knew_is_there_when_it_is_opened_again),
        TEST(a_node_may_stop_with_clients_connected),
        TEST(clients_that_do_not_read_are_closed_beyond_what_fits),
        TEST(a_node_may_be_closed_without_having_run),
        TEST(a_directory_in_use_is_a_storage_error),
        TEST(a_port_in_use_is_told_apart),
        TEST(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
