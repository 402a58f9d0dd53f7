/* SPDX-License-Identifier: MIT */

/* Descriptors passed over a UNIX socket. The attack is a TCP socket with
 * SO_LINGER and data that its other end does not read: the process that drops
 * its last reference waits for LINGER_S. Each test runs with a kernel that
 * refuses descriptors (Linux 6.16) and with one that does not, which
 * setsockopt() below simulates. */

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "net/admin_socket.h"
#include "net/local.h"
#include "net/rights.h"
#include "net/stream.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define LINGER_S 40
/* Far more than a loaded machine needs, and less than LINGER_S. */
#define BOUND_MS 20000
#define END_COUNT 4

struct end {
    struct stream stream;
    struct buffer got;
    const char *reason;
    bool is_closed;
    bool is_paused;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t bound;
    struct listener *listener;
    struct stream_limits limits;
    struct end ends[END_COUNT];
    int accepted;
    bool refuses;
    char path[LOCAL_PATH_MAX + 1];
    int tcp_listener;
    int readers[8]; /* The other ends of lingering sockets. */
    int reader_count;
    uint64_t begin_ns;
};

static bool is_old_kernel;

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    if (is_old_kernel && level == SOL_SOCKET && name == SO_PASSRIGHTS) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

static void on_bytes(struct stream *stream)
{
    struct end *end = stream->owner;
    struct bytes input = stream_input(stream);
    if (end->is_paused) {
        stream_pause(stream);
        return;
    }
    buffer_put_bytes(&end->got, input);
    buffer_put_bytes(stream_output(stream), input);
    stream_consume(stream, input.size);
    stream_flush(stream);
}

static void on_closed(struct stream *stream, const char *reason)
{
    struct end *end = stream->owner;
    end->is_closed = true;
    end->reason = reason;
}

static const struct stream_events events = {.on_bytes = on_bytes,
                                            .on_closed = on_closed};

static struct stream *accept_one(void *data, const char *address,
                                 const struct stream_events **ret_events,
                                 const struct stream_limits **ret_limits,
                                 void **ret_owner, const char **ret_refusal)
{
    struct fixture *f = data;
    assert_string_equal(address, LOCAL_ADDRESS);
    int i = f->accepted++;
    if (f->refuses) {
        *ret_refusal = "-LIMIT no place\r\n";
        return NULL;
    }
    assert_true(i < END_COUNT);
    *ret_events = &events;
    *ret_limits = &f->limits;
    *ret_owner = &f->ends[i];
    return &f->ends[i].stream;
}

static void ready(void *data, struct stream *stream)
{
    (void)data;
    (void)stream;
}

static void late_cb(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the loop has not done what it should in time");
}

/* Turns the loop until 'fact' is true, in less time than a socket lingers. */
#define RUN_UNTIL(f, fact)                                       \
    do {                                                         \
        uint64_t begin_ = uv_hrtime();                           \
        uv_timer_start(&(f)->bound, late_cb, BOUND_MS, 0);       \
        while (!(fact)) {                                        \
            uv_run(&(f)->loop, UV_RUN_ONCE);                     \
        }                                                        \
        assert_true(uv_hrtime() - begin_ < BOUND_MS * 1000000L); \
    } while (0)

static struct fixture *begin(bool is_old)
{
    struct fixture *f = memory_new(sizeof *f);
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *folder = getenv("TMPDIR");
    char why[HASP_WHY_SIZE];
    int fd, small = 4096;
    is_old_kernel = is_old;
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    snprintf(f->path, sizeof f->path, "%s/rights.%d",
             folder != NULL ? folder : "/tmp", (int)getpid());
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->bound), 0);
    local_remove(f->path); /* Left by a test that failed. */
    assert_int_equal(local_bind(f->path, &fd, why), 0);
    f->listener = listener_adopt(&f->loop, fd, LOCAL_ADDRESS, accept_one, ready,
                                 f);
    f->tcp_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(f->tcp_listener, SOL_SOCKET, SO_RCVBUF, &small,
                                sizeof small),
                     0);
    assert_int_equal(
        bind(f->tcp_listener, (struct sockaddr *)&loopback, sizeof loopback),
        0);
    assert_int_equal(listen(f->tcp_listener, 8), 0);
    return f;
}

static void end(struct fixture *f)
{
    for (int i = 0; i < f->accepted && !f->refuses; i++) {
        stream_close(&f->ends[i].stream, "the test is over");
        RUN_UNTIL(f, f->ends[i].is_closed);
        buffer_done(&f->ends[i].got);
    }
    for (int i = 0; i < f->reader_count; i++) {
        close(f->readers[i]); /* Resets lingering sockets. */
    }
    listener_close(f->listener);
    uv_close((uv_handle_t *)&f->bound, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    close(f->tcp_listener);
    local_remove(f->path);
    free(f);
}

static int connect_local(struct fixture *f)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(to.sun_path, f->path, sizeof to.sun_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* A TCP socket whose close takes LINGER_S. */
static int open_lingering(struct fixture *f)
{
    static const char bytes[65536];
    struct sockaddr_in to;
    socklen_t size = sizeof to;
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        getsockname(f->tcp_listener, (struct sockaddr *)&to, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int reader = accept(f->tcp_listener, NULL, NULL);
    assert_true(reader >= 0);
    f->readers[f->reader_count++] = reader;
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
        /* Until no more fits. */
    }
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    return fd;
}

/* Passes 'fd' with 'text' and closes our copy; false: the kernel refused it. */
static bool pass(int to, int fd, const char *text, int flags)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {.iov_base = (char *)text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    ssize_t count = sendmsg(to, &message, flags);
    bool is_refused = count < 0 && errno == EPERM;
    assert_true(is_refused || count == (ssize_t)strlen(text));
    if (is_refused) {
        /* It is ours, so it would linger here. */
        struct linger off = {0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
    }
    close(fd);
    return !is_refused;
}

/* Another client is answered. */
static void check_bystander(struct fixture *f)
{
    char answer[8] = "";
    int index = f->accepted;
    int fd = connect_local(f);
    assert_int_equal(send(fd, "hello", 5, 0), 5);
    RUN_UNTIL(f, f->accepted > index && f->ends[index].got.size == 5 &&
                     stream_unsent(&f->ends[index].stream) == 0);
    assert_int_equal(recv(fd, answer, sizeof answer, 0), 5);
    assert_string_equal(answer, "hello");
    close(fd);
}

static bool kernel_refuses(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refuses = rights_refuse(fd);
    close(fd);
    return refuses;
}

/* The offender is closed, if its descriptor came through. */
static void check_offence(bool is_old, int flags)
{
    struct fixture *f = begin(is_old);
    int fd = connect_local(f);
    assert_int_equal(send(fd, "before", 6, 0), 6);
    bool has_passed = pass(fd, open_lingering(f), "x", flags);
    assert_int_equal(has_passed, is_old || !kernel_refuses());
    if (has_passed) {
        RUN_UNTIL(f, f->ends[0].is_closed);
        assert_non_null(strstr(f->ends[0].reason, "descriptors"));
    } else {
        RUN_UNTIL(f, f->ends[0].got.size >= 6);
    }
    check_bystander(f);
    assert_int_equal(f->ends[0].is_closed, has_passed);
    close(fd);
    end(f);
}

static void a_passed_descriptor_stops_nobody(void **state)
{
    (void)state;
    check_offence(false, 0);
}

static void nor_where_the_kernel_lets_it_through(void **state)
{
    (void)state;
    check_offence(true, 0);
}

static void nor_with_an_urgent_byte(void **state)
{
    (void)state;
    check_offence(true, MSG_OOB);
}

static void nor_when_the_connection_is_refused(void **state)
{
    (void)state;
    struct fixture *f = begin(true);
    char answer[64];
    f->refuses = true;
    int fd = connect_local(f);
    assert_true(pass(fd, open_lingering(f), "x", 0));
    RUN_UNTIL(f, f->accepted == 1);
    assert_true(recv(fd, answer, sizeof answer, 0) > 6);
    assert_memory_equal(answer, "-LIMIT", 6);
    close(fd);
    end(f);
}

/* The reader is paused, so the descriptor is in the queue at the close. */
static void nor_when_it_was_not_read_yet(void **state)
{
    (void)state;
    struct fixture *f = begin(true);
    f->limits.input_max = 4;
    f->ends[0].is_paused = true;
    int fd = connect_local(f);
    assert_int_equal(send(fd, "1234", 4, 0), 4);
    RUN_UNTIL(f,
              f->accepted == 1 && stream_input(&f->ends[0].stream).size == 4);
    assert_true(pass(fd, open_lingering(f), "x", 0));
    stream_close(&f->ends[0].stream, "enough");
    RUN_UNTIL(f, f->ends[0].is_closed);
    assert_string_equal(f->ends[0].reason, "enough");
    check_bystander(f);
    close(fd);
    end(f);
}

static void bytes_and_the_end_arrive_where_we_read_ourselves(void **state)
{
    (void)state;
    struct fixture *f = begin(true);
    static char sent[300000], back[300000];
    size_t out = 0, in = 0;
    for (size_t i = 0; i < sizeof sent; i++) {
        sent[i] = (char)(i * 7 + i / 251);
    }
    int fd = connect_local(f);
    while (in < sizeof back) {
        ssize_t count = send(fd, sent + out, sizeof sent - out, MSG_DONTWAIT);
        out += count > 0 ? (size_t)count : 0;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        count = recv(fd, back + in, sizeof back - in, MSG_DONTWAIT);
        in += count > 0 ? (size_t)count : 0;
    }
    assert_memory_equal(sent, back, sizeof sent);
    close(fd);
    RUN_UNTIL(f, f->ends[0].is_closed);
    assert_string_equal(f->ends[0].reason, "closed by the peer");
    assert_true(f->ends[0].stream.was_closed_by_peer);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_passed_descriptor_stops_nobody),
        cmocka_unit_test(nor_where_the_kernel_lets_it_through),
        cmocka_unit_test(nor_with_an_urgent_byte),
        cmocka_unit_test(nor_when_the_connection_is_refused),
        cmocka_unit_test(nor_when_it_was_not_read_yet),
        cmocka_unit_test(bytes_and_the_end_arrive_where_we_read_ourselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
