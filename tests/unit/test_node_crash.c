/* SPDX-License-Identifier: MIT */

/* A node whose process dies inside any call that it makes to its storage: the
 * next start of the directory succeeds, and has everything that was answered.
 * The calls are those of the operating system; what was not flushed survives,
 * as it does when a process is killed.
 *
 * NODE_CALLS=n tries the n'th call first, and not those before it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "include/hasp/node.h"
#include "node/data_loss_marker.h"
#include "storage/port.h"

/* How a life ends, beside the statuses of a node. */
#define DIED 100
#define NO_ANSWER 101
#define WRONG_ANSWER 102
#define LIFE_SECONDS 60
#define ANSWER_SECONDS 30
#define PROCESSES 12

static char folder[256];

/* --- The storage, whose n'th call ends the process ------------------------ */

static atomic_int calls_left; /* 0: it does not end. */

static void count_call(void)
{
    if (atomic_load(&calls_left) > 0 && atomic_fetch_sub(&calls_left, 1) == 1) {
        _exit(DIED);
    }
}

static ssize_t count_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    count_call();
    return storage_port_system.pwrite(fd, data, size, offset);
}

static ssize_t count_pwrite_dsync(int fd, const void *data, size_t size,
                                  off_t offset)
{
    count_call();
    return storage_port_system.pwrite_dsync(fd, data, size, offset);
}

static int count_fsync(int fd)
{
    count_call();
    return storage_port_system.fsync(fd);
}

static int count_fdatasync(int fd)
{
    count_call();
    return storage_port_system.fdatasync(fd);
}

static int count_ftruncate(int fd, off_t size)
{
    count_call();
    return storage_port_system.ftruncate(fd, size);
}

static int count_mkdir(const char *path)
{
    count_call();
    return storage_port_system.mkdir(path);
}

static int count_renameat(int folder_fd, const char *from, int to_folder_fd,
                          const char *to)
{
    count_call();
    return storage_port_system.renameat(folder_fd, from, to_folder_fd, to);
}

static int count_unlinkat(int folder_fd, const char *path)
{
    count_call();
    return storage_port_system.unlinkat(folder_fd, path);
}

static void use_counted_port(int calls)
{
    static struct storage_port port;
    port = storage_port_system;
    port.pwrite = count_pwrite;
    port.pwrite_dsync = count_pwrite_dsync;
    port.fsync = count_fsync;
    port.fdatasync = count_fdatasync;
    port.ftruncate = count_ftruncate;
    port.mkdir = count_mkdir;
    port.renameat = count_renameat;
    port.unlinkat = count_unlinkat;
    storage_port = &port;
    atomic_store(&calls_left, calls);
}

/* --- A life of a node, in a process of its own ---------------------------- */

struct life {
    int calls;        /* It dies in this call; 0: it does not. */
    const char *name; /* cluster.name. */
    int out;          /* A granted token is written there ... */
    uint64_t token;   /* ... and one of a former life is held; 0: none. */
};

static void *run(void *data)
{
    return (void *)(intptr_t)hasp_node_run(data);
}

static int dial(const struct hasp_node *node)
{
    uint64_t port = 0;
    const char *colon = strrchr(hasp_node_client_address(node), ':');
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    (void)bytes_to_u64(bytes_of_text(colon + 1), &port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return connect(fd, (struct sockaddr *)&to, sizeof to) == 0 ? fd : -1;
}

/* Asks until the node serves; true: it was answered by 'reply'. */
static bool ask(int fd, const char *text, const char *end, char reply[512])
{
    for (int i = 0; i < 100 * ANSWER_SECONDS; i++) {
        size_t size = 0;
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) !=
            (ssize_t)strlen(text)) {
            return false;
        }
        do {
            ssize_t part = recv(fd, reply + size, 511 - size, 0);
            if (part <= 0) {
                return false;
            }
            size += (size_t)part;
            reply[size] = '\0';
        } while (strstr(reply, reply[0] == '-' ? "\r\n" : end) == NULL);
        if (strncmp(reply, "-NOLEADER", 9) != 0 &&
            strncmp(reply, "-BUSY", 5) != 0) {
            return reply[0] != '-';
        }
        usleep(10000);
    }
    return false;
}

/* Acquires a lock, and says so; the lock of a former life is still held. */
static int be_client(const struct hasp_node *node, const struct life *life)
{
    char reply[512], question[64];
    int fd = dial(node);
    if (fd < 0 || !ask(fd, "SESSION.OPEN TTL NONE\r\n", "linger_ms", reply)) {
        return NO_ANSWER;
    }
    snprintf(question, sizeof question, "LOCK.CHECK a %" PRIu64 "\r\n",
             life->token);
    if (life->token != 0 && (!ask(fd, question, "\r\n", reply) ||
                             strstr(reply, ":1\r\n") == NULL)) {
        return WRONG_ANSWER;
    }
    if (life->token == 0) {
        if (!ask(fd, "LOCK.ACQUIRE a\r\n", "\r\n", reply)) {
            return NO_ANSWER;
        }
        const char *number = strrchr(reply, ':');
        uint64_t token = number != NULL ? strtoull(number + 1, NULL, 10) : 0;
        if (write(life->out, &token, sizeof token) != sizeof token) {
            return NO_ANSWER;
        }
    }
    close(fd);
    return HASP_NODE_OK;
}

_Noreturn static void live(const struct life *life)
{
    struct hasp_node_options options;
    struct hasp_node *node;
    char why[HASP_NODE_WHY_SIZE] = "";
    pthread_t thread;
    void *status;
    alarm(LIFE_SECONDS);
    use_counted_port(life->calls);
    hasp_node_options_init(&options);
    options.id = 1;
    options.directory = folder;
    options.cluster_name = life->name;
    options.listen_client = "127.0.0.1:0";
    options.listen_peer = "127.0.0.1:0";
    options.limits.disk_reserve = 0;
    options.limits.wal_segment_size = 1 << 20;
    int error = hasp_node_open(&options, &node, why);
    if (error != HASP_NODE_OK) {
        fprintf(stderr, "%s\n", why);
        _exit(error);
    }
    if (pthread_create(&thread, NULL, run, node) != 0) {
        _exit(NO_ANSWER);
    }
    int answer = be_client(node, life);
    hasp_node_stop(node);
    pthread_join(thread, &status);
    fprintf(stderr, "%s\n", hasp_node_why(node));
    hasp_node_close(node);
    _exit((intptr_t)status != HASP_NODE_OK ? (int)(intptr_t)status : answer);
}

/* Returns how the life ended. */
static int live_apart(const struct life *life)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        live(life);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void make_folder(void)
{
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hasp-node-XXXXXX",
             above != NULL ? above : "/tmp");
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* --- Tests ---------------------------------------------------------------- */

/* A life that dies in its n'th call; the token that it was granted, or 0. */
static int die_in_call(int call, uint64_t *ret_token)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct life first = {.calls = call, .name = "one", .out = ends[1]};
    int status = live_apart(&first);
    close(ends[1]);
    *ret_token = 0;
    (void)!read(ends[0], ret_token, sizeof *ret_token);
    close(ends[0]);
    return status;
}

/* Shared by the processes. */
static struct {
    atomic_int deaths;  /* Lives that died in their call ... */
    atomic_int refused; /* ... and then did not start under another name. */
} * counts;

/* Starts after that death, under the name "two" first if 'is_renamed', and
 * returns how that ends. */
static int start_again(uint64_t token, bool is_renamed)
{
    struct life life = {.name = is_renamed ? "two" : "one",
                        .out = STDERR_FILENO,
                        .token = token};
    int outcome = live_apart(&life);
    if (is_renamed && outcome == HASP_NODE_CONFIG) {
        atomic_fetch_add(&counts->refused, 1);
        life.name = "one";
        outcome = live_apart(&life);
    }
    return outcome;
}

/* Tries every PROCESSES'th call from 'call' on, until a life survives. Returns
 * 0, or the call after which the start failed. */
static int try_calls(int call, bool is_renamed)
{
    int status = DIED;
    for (; status == DIED; call += PROCESSES) {
        uint64_t token;
        make_folder();
        status = die_in_call(call, &token);
        int outcome = status == DIED || status == HASP_NODE_OK
                          ? start_again(token, is_renamed)
                          : status;
        remove_folder();
        if (outcome != HASP_NODE_OK) {
            fprintf(stderr, "NODE_CALLS=%d: the start after it ends with %d\n",
                    call, outcome);
            return call;
        }
        atomic_fetch_add(&counts->deaths, status == DIED);
    }
    return 0;
}

/* Tries all calls, in several processes, since they mostly wait for the disk.
 */
static void try_all(bool is_renamed)
{
    const char *text = getenv("NODE_CALLS");
    uint64_t number = 0;
    if (text != NULL) {
        assert_true(bytes_to_u64(bytes_of_text(text), &number));
    }
    int only = (int)number;
    pid_t child[PROCESSES];
    int failed = 0;
    atomic_store(&counts->deaths, 0);
    atomic_store(&counts->refused, 0);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = only > 0 && i > 0 ? 0 : fork();
        if (child[i] == 0 && (only == 0 || i == 0)) {
            _exit(try_calls(only > 0 ? only : i + 1, is_renamed) != 0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        if (child[i] > 0) {
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        }
    }
    assert_int_equal(failed, 0);
}

static void a_node_that_dies_in_any_call_starts_again(void **state)
{
    (void)state;
    try_all(false);
    assert_true(atomic_load(&counts->deaths) > 30);
}

/* Once a founding has begun it is completed with the same founders, or not at
 * all: until it has ended, a start under another cluster.name is refused. */
static void a_founding_that_has_begun_keeps_its_founders(void **state)
{
    (void)state;
    try_all(true);
    /* Its record, the vote, the log, the identity. */
    assert_in_range(atomic_load(&counts->refused), 3, 100);
}

/* A directory with a mark of lost data does not start, and says why; it does
 * once the marks are removed. */
static void a_marked_directory_does_not_start(void **state)
{
    static const struct core_accusation accusation = {.term = 3,
                                                      .last_index = 7};
    struct life life = {.name = "one", .out = STDERR_FILENO};
    char why[HASP_WHY_SIZE];
    (void)state;
    make_folder();
    assert_int_equal(live_apart(&life), HASP_NODE_OK);
    assert_int_equal(data_loss_marker_write(folder, "it lost entries", why), 0);
    assert_int_equal(live_apart(&life), HASP_NODE_STORAGE);
    assert_int_equal(hasp_node_uncondemn(folder, why), 0);
    assert_int_equal(live_apart(&life), HASP_NODE_OK);
    assert_int_equal(data_loss_marker_bar(folder, &accusation, "why", why), 0);
    snprintf(why, sizeof why, "%s/barred", folder);
    assert_int_equal(truncate(why, 3), 0);
    assert_int_equal(live_apart(&life), HASP_NODE_STORAGE);
    assert_int_equal(hasp_node_uncondemn(folder, why), 0);
    assert_int_equal(live_apart(&life), HASP_NODE_OK);
    remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_dies_in_any_call_starts_again),
        cmocka_unit_test(a_founding_that_has_begun_keeps_its_founders),
        cmocka_unit_test(a_marked_directory_does_not_start),
    };
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
