/* SPDX-License-Identifier: MIT */

/* Connections between nodes (net/peers.h): members and unknown peers. */

#include <dlfcn.h>

#include "tests/unit/peers_world.h"

/* --- Members -------------------------------------------------------------- */

static void three_nodes_connect_and_the_greater_id_dials(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        open_node(id, cluster_a);
    }
    introduce(1, 2);
    introduce(2, 3);
    introduce(1, 3);
    assert_int_equal(peers_silence_ms(fixture->node[1].peers, 2), UINT64_MAX);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1) && is_up(1, 3) && is_up(3, 1) &&
              is_up(2, 3) && is_up(3, 2));
    assert_true(peers_silence_ms(fixture->node[1].peers, 2) < 1000);
    assert_int_equal(fixture->node[1].hello_incarnation / 100, 1);
    run_for(1200); /* PINGs go to and fro. */
    for (uint64_t id = 1; id <= 3; id++) {
        for (uint64_t other = 1; other <= 3; other++) {
            assert_int_equal(fixture->node[id].ups[other], id != other);
            assert_int_equal(fixture->node[id].downs[other], 0);
            if (id != other) {
                assert_true(peers_silence_ms(fixture->node[id].peers, other) <
                            1000);
            }
        }
    }
    assert_int_equal(fixture->log_lines, 0);
}

static void frames_arrive_in_order(void **state)
{
    (void)state;
    struct buffer sent = {0};
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    for (uint32_t i = 0; i < 400; i++) {
        struct buffer *out = peers_output(fixture->node[2].peers, 1,
                                          FRAME_RAFT);
        size_t size = i % 100 == 50 ? 5u << 20 : i * 37;
        size_t start = frame_begin(out, FRAME_RAFT);
        uint8_t *at = buffer_reserve(out, size);
        for (size_t j = 0; j < size; j++) {
            at[j] = (uint8_t)(j * 7 + i);
        }
        buffer_put(&sent, at, size);
        out->size += size;
        frame_end(out, start);
        if (i % 3 == 0) {
            peers_flush(fixture->node[2].peers);
            uv_run(&fixture->loop, UV_RUN_NOWAIT);
        }
    }
    peers_flush(fixture->node[2].peers);
    RUN_UNTIL(fixture->node[1].frame_count == 400);
    assert_true(
        bytes_equal(buffer_bytes(&fixture->node[1].got), buffer_bytes(&sent)));
    buffer_done(&sent);
}

static void a_node_that_does_not_know_its_cluster_yet_may_join(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_unknown);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    peers_set_cluster(fixture->node[2].peers, cluster_a);
    run_for(20);
    assert_true(is_up(1, 2) && is_up(2, 1));
    /* If it turns out to be another one, the connection ends. */
    peers_set_cluster(fixture->node[2].peers, cluster_b);
    assert_false(is_up(2, 1));
    RUN_UNTIL(fixture->node[2].downs[1] == 1 && fixture->node[1].downs[2] == 1);
    assert_false(fixture->node[2].was_closed_by_peer);
    RUN_UNTIL(fixture->log_lines > 0);
    assert_true(was_logged("it belongs to another cluster"));
}

static void a_node_of_another_cluster_is_refused(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_b);
    introduce(1, 2);
    RUN_UNTIL(fixture->log_lines >= 2);
    assert_true(was_logged("peer refused"));
    assert_true(was_logged("it belongs to another cluster"));
    assert_int_equal(fixture->node[1].ups[2], 0);
    assert_int_equal(fixture->node[2].ups[1], 0);
}

static void an_address_that_leads_to_another_node_is_refused(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        open_node(id, cluster_a);
    }
    introduce_at(3, 1, 2); /* Node 3 mistakes node 2's address for node 1's. */
    introduce_at(2, 3, 3);
    RUN_UNTIL(fixture->log_lines > 0);
    assert_true(was_logged("it is looking for node 1, this is node 2"));
    assert_int_equal(fixture->node[2].ups[3], 0);
}

/* The socket at node 1's address claims to be node 2. */
static void an_answer_of_another_node_is_refused(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    char address[32];
    struct buffer in = {0};
    struct buffer body = {0};
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    open_node(3, cluster_a);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    peers_add(fixture->node[3].peers, 2, "127.0.0.1:1");
    peers_add(fixture->node[3].peers, 1, address);
    run_for(20);
    int fd = accept(listening, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(hear(fd, &in, &body), FRAME_HELLO);
    struct frame_hello hello = hello_of(2, 3);
    say_hello(fd, &hello);
    RUN_UNTIL(fixture->log_lines > 0);
    assert_true(was_logged("node 2 answers at the address of node 1"));
    assert_int_equal(fixture->node[3].ups[1] + fixture->node[3].ups[2], 0);
    close(fd);
    close(listening);
    buffer_done(&in);
    buffer_done(&body);
}

static void a_node_that_is_no_member_is_refused(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce_at(2, 1, 1);
    RUN_UNTIL(fixture->log_lines > 0);
    assert_true(was_logged("node 2 is not a member"));
    /* Once it is a member, it gets in without help. */
    introduce_at(1, 2, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
}

static void the_owners_check_can_refuse_with_its_reason(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    fixture->node[1].check_refusal = "its data directory is empty";
    introduce(1, 2);
    RUN_UNTIL(fixture->log_lines > 0);
    assert_true(was_logged("its data directory is empty"));
    assert_int_equal(fixture->node[1].ups[2], 0);
    assert_int_equal(fixture->node[2].ups[1], 0);
    fixture->node[1].check_refusal = NULL;
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
}

/* Whichever node dials. */
static void who_is_too_old_for_the_cluster_is_told_so(void **state)
{
    (void)state;
    for (uint64_t old = 1; old <= 2; old++) {
        struct node *older = &fixture->node[old];
        struct node *newer = &fixture->node[3 - old];
        older->feature_level = older->cluster_level = 1;
        newer->feature_level = newer->cluster_level = 2;
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        introduce(1, 2);
        RUN_UNTIL(older->told_too_old > 0);
        assert_true(
            was_logged("that node is too old: it supports feature level 1, "
                       "and the cluster has level 2"));
        assert_int_equal(newer->told_too_old, 0);
        assert_int_equal(older->ups[3 - old], 0);
        assert_int_equal(newer->ups[old], 0);
        close_node(1);
        close_node(2);
        older->feature_level = 2; /* It has been upgraded. */
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        introduce(1, 2);
        RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
        close_node(1);
        close_node(2);
        memset(fixture->node, 0, sizeof fixture->node);
    }
}

/* It is asked at its own address, where it makes no such claim. */
static void a_stranger_makes_nobody_too_old(void **state)
{
    (void)state;
    fixture->node[1].feature_level = fixture->node[2].feature_level = 1;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce(1, 2);
    struct frame_hello hello = hello_of(2, 1);
    hello.cluster_level = 1000;
    int fd = dial_node(1);
    say_hello(fd, &hello);
    RUN_UNTIL(is_hung_up(fd));
    assert_true(was_logged("this node is too old"));
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    run_for(100);
    assert_int_equal(fixture->node[1].told_too_old, 0);
    close(fd);
}

static void a_node_comes_back_after_it_went_away(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    uint16_t port = peers_port(fixture->node[1].peers);
    close_node(1);
    RUN_UNTIL(fixture->node[2].downs[1] == 1);
    assert_true(fixture->node[2].was_closed_by_peer);
    run_for(300);
    memset(fixture->node[1].ups, 0, sizeof fixture->node[1].ups);
    open_node_on(1, cluster_a, 101, port);
    introduce_at(1, 2, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    assert_int_equal(fixture->node[2].ups[1], 2);
}

static void a_removed_member_is_not_dialled_again(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    peers_remove(fixture->node[2].peers, 1);
    assert_false(is_up(2, 1));
    assert_int_equal(fixture->node[2].downs[1], 0); /* Not inside the call. */
    RUN_UNTIL(fixture->node[2].downs[1] == 1 && fixture->node[1].downs[2] == 1);
    assert_false(fixture->node[2].was_closed_by_peer);
    assert_true(fixture->node[1].was_closed_by_peer);
    run_for(300);
    assert_int_equal(fixture->node[1].ups[2], 1);
    introduce_at(2, 1, 1);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    peers_remove(fixture->node[2].peers, 77); /* Unknown: nothing. */
}

static void a_member_may_move(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce_at(1, 2, 2);
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1"); /* Nobody there. */
    run_for(50);
    introduce_at(2, 1, 1);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    /* An open connection survives a change of address. */
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1");
    run_for(50);
    assert_true(is_up(2, 1));
    peers_add(fixture->node[2].peers, 3, "nonsense");
    assert_true(was_logged("peer cannot be dialled"));
}

/* Replaces libuv's. The name "member.example" resolves to 127.0.0.1 while there
 * is a name server. */
typedef int getaddrinfo_fn(uv_loop_t *loop, uv_getaddrinfo_t *request,
                           uv_getaddrinfo_cb cb, const char *node,
                           const char *service, const struct addrinfo *hints);
static bool has_name_server = true;
static int lookups;

int uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request,
                   uv_getaddrinfo_cb cb, const char *node, const char *service,
                   const struct addrinfo *hints)
{
    getaddrinfo_fn *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "uv_getaddrinfo");
    assert_true(real != NULL);
    assert_string_equal(node, "member.example");
    lookups++;
    return real(loop, request, cb,
                has_name_server ? "127.0.0.1" : "no such host", service, hints);
}

static void introduce_by_name(uint64_t who, uint64_t id, uint16_t port)
{
    char address[64];
    snprintf(address, sizeof address, "member.example:%u", (unsigned)port);
    peers_add(fixture->node[who].peers, id, address);
}

static void a_name_is_looked_up_at_each_connection(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce_at(1, 2, 2);
    uint16_t port = peers_port(fixture->node[1].peers);
    lookups = 0;
    introduce_by_name(2, 1, port);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    assert_int_equal(lookups, 1);
    close_node(1);
    RUN_UNTIL(fixture->node[2].downs[1] == 1 && lookups > 3);
}

static void without_a_name_server_a_member_is_where_it_was(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce_at(1, 2, 2);
    uint16_t port = peers_port(fixture->node[1].peers);
    introduce_by_name(2, 1, port);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    has_name_server = false;
    close_node(1);
    RUN_UNTIL(fixture->node[2].downs[1] == 1);
    memset(fixture->node[1].ups, 0, sizeof fixture->node[1].ups);
    open_node_on(1, cluster_a, 101, port);
    peers_add(fixture->node[1].peers, 2, "127.0.0.1:1"); /* Nobody there. */
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    has_name_server = true;
}

/* One that has just started knows no address of those that it is to dial. */
static void without_a_name_server_who_dials_is_let_in(void **state)
{
    (void)state;
    has_name_server = false;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce_by_name(2, 1, peers_port(fixture->node[1].peers));
    introduce_at(1, 2, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    has_name_server = true;
}

/* --- Misbehaving members -------------------------------------------------- */

static void a_reset_is_told_as_the_other_ends(void **state)
{
    (void)state;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = connect_as_member_2();
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    assert_true(fixture->node[1].was_closed_by_peer);
}

static void pings_are_said_and_answered(void **state)
{
    (void)state;
    struct buffer in = {0};
    struct buffer body = {0};
    struct buffer out = {0};
    uint64_t stamp = 0;
    int fd = connect_as_member_2();
    assert_int_equal(hear(fd, &in, &body), FRAME_HELLO);
    struct frame_hello hello;
    assert_int_equal(frame_get_hello(buffer_bytes(&body), &hello), 0);
    assert_int_equal(hello.from, 1);
    assert_int_equal(hello.to, 2);
    assert_int_equal(hello.incarnation, 101);
    assert_memory_equal(hello.cluster_id, cluster_a, 16);
    frame_put_u64(&out, FRAME_PING, 4711);
    say(fd, out.data, out.size);
    assert_int_equal(hear(fd, &in, &body), FRAME_PONG);
    assert_int_equal(frame_get_u64(buffer_bytes(&body), &stamp), 0);
    assert_int_equal(stamp, 4711);
    assert_int_equal(hear(fd, &in, &body), FRAME_PING);
    assert_int_equal(fixture->node[1].frame_count, 0);
    close(fd);
    buffer_done(&in);
    buffer_done(&body);
    buffer_done(&out);
}

/* The time until the answer is measured; only the answer to that PING counts.
 */
static void a_round_trip_is_measured(void **state)
{
    (void)state;
    struct buffer in = {0}, body = {0}, out = {0};
    uint64_t stamp = 0;
    int fd = connect_as_member_2();
    struct peers *peers = fixture->node[1].peers;
    assert_int_equal(hear(fd, &in, &body), FRAME_HELLO);
    assert_int_equal(hear(fd, &in, &body), FRAME_PING);
    assert_int_equal(frame_get_u64(buffer_bytes(&body), &stamp), 0);
    assert_int_equal(peers_round_trip_us(peers, 2), -1);
    frame_put_u64(&out, FRAME_PONG, stamp - 1);
    frame_put_u64(&out, FRAME_PONG, 0);
    frame_put_u64(&out, FRAME_PONG, UINT64_MAX);
    say(fd, out.data, out.size);
    usleep(60000);
    buffer_clear(&out);
    frame_put_u64(&out, FRAME_PONG, stamp);
    say(fd, out.data, out.size);
    RUN_UNTIL(peers_round_trip_us(peers, 2) >= 0);
    assert_in_range(peers_round_trip_us(peers, 2), 60000, 60000000);
    close(fd);
    buffer_done(&in);
    buffer_done(&body);
    buffer_done(&out);
}

static void a_silent_member_is_closed_after_three_seconds(void **state)
{
    (void)state;
    int fd = connect_as_member_2();
    uint64_t start = uv_hrtime();
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    assert_in_range((uv_hrtime() - start) / 1000000, 2900, 6000);
    assert_false(fixture->node[1].was_closed_by_peer);
    assert_true(is_hung_up(fd));
    close(fd);
}

static void a_stall_of_our_own_closes_nobody(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    run_for(600);
    usleep(3300000);
    run_for(1000);
    assert_int_equal(fixture->node[1].downs[2], 0);
    assert_int_equal(fixture->node[2].downs[1], 0);
}

static void
a_second_connection_of_the_same_life_replaces_the_first(void **state)
{
    (void)state;
    int first = connect_as_member_2();
    int second = dial_node(1);
    struct frame_hello hello = hello_of(2, 1);
    say_hello(second, &hello);
    RUN_UNTIL(fixture->node[1].ups[2] == 2);
    assert_int_equal(fixture->node[1].downs[2], 1);
    assert_false(fixture->node[1].was_closed_by_peer);
    RUN_UNTIL(is_hung_up(first));
    assert_true(is_up(1, 2));
    assert_false(is_hung_up(second));
    close(first);
    close(second);
    RUN_UNTIL(fixture->node[1].downs[2] == 2);
}

static void a_second_connection_of_another_life_is_refused(void **state)
{
    (void)state;
    int first = connect_as_member_2();
    int second = dial_node(1);
    struct frame_hello hello = hello_of(2, 1);
    hello.incarnation++;
    say_hello(second, &hello);
    RUN_UNTIL(is_hung_up(second));
    assert_true(was_logged("already connected, with another data directory"));
    assert_true(is_up(1, 2));
    assert_int_equal(fixture->node[1].downs[2], 0);
    assert_false(is_hung_up(first));
    close(first);
    close(second);
}

static void a_member_that_never_reads_is_closed(void **state)
{
    (void)state;
    int fd = connect_as_member_2();
    for (int i = 0; i < 100 && is_up(1, 2); i++) {
        struct buffer *out = peers_output(fixture->node[1].peers, 2,
                                          FRAME_RAFT);
        size_t start = frame_begin(out, FRAME_RAFT);
        memset(buffer_reserve(out, 1u << 20), 0, 1u << 20);
        out->size += 1u << 20;
        frame_end(out, start);
        peers_flush(fixture->node[1].peers);
        assert_true(i < 64 ? is_up(1, 2) : true);
    }
    assert_false(is_up(1, 2));
    assert_int_equal(fixture->node[1].downs[2], 0); /* Not inside the call. */
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    assert_false(fixture->node[1].was_closed_by_peer);
    close(fd);
}

struct misdeed {
    enum frame_type type;
    const char *body;
    size_t size;
    const char *reason;
};

static void wrong_frames_of_a_member_close_the_connection(void **state)
{
    (void)state;
    static const struct misdeed misdeeds[] = {
        {FRAME_PING, "short", 5, "its PING is malformed"},
        {FRAME_HELLO, "", 0, "it sent HELLO twice"},
        {(enum frame_type)77, "", 0, "a malformed frame: protocol error"},
        {FRAME_RAFT, "bad", 3, "a frame of type 2: invalid argument"},
    };
    open_node(1, cluster_a);
    peers_add(fixture->node[1].peers, 2, "127.0.0.1:1");
    fixture->node[1].on_frame_deed = DEED_REFUSE;
    for (size_t i = 0; i < sizeof misdeeds / sizeof *misdeeds; i++) {
        struct buffer out = {0};
        struct frame_hello hello = hello_of(2, 1);
        int fd = dial_node(1);
        frame_put_hello(&out, &hello);
        size_t start = frame_begin(&out, misdeeds[i].type);
        buffer_put(&out, misdeeds[i].body, misdeeds[i].size);
        frame_end(&out, start);
        say(fd, out.data, out.size);
        RUN_UNTIL(fixture->node[1].downs[2] == (int)i + 1);
        assert_true(was_logged(misdeeds[i].reason));
        assert_false(fixture->node[1].was_closed_by_peer);
        assert_true(is_hung_up(fd));
        close(fd);
        buffer_done(&out);
    }
}

static void a_frame_beyond_the_limit_is_refused_at_its_header(void **state)
{
    (void)state;
    uint8_t header[FRAME_HEADER_SIZE] = {0};
    int fd = connect_as_member_2();
    store_u32(header, FRAME_SIZE_MAX + 1);
    header[4] = FRAME_RAFT;
    say(fd, header, sizeof header);
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    assert_true(was_logged("a malformed frame: too big"));
    close(fd);
}

/* --- Unknown peers -------------------------------------------------------- */

static void strangers_bytes_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    static const char oversize[] = "\x01\x02\x00\x00\x01\x00\x00\x00";
    static const char vast[] = "\xff\xff\xff\xff\x01\x00\x00\x00";
    static const char early[] = "\x00\x00\x00\x00\x02\x00\x00\x00";
    static const char stub[] = "\x03\x00\x00\x00\x01\x00\x00\x00"
                               "abc";
    static const struct {
        const char *bytes;
        size_t size;
        const char *reason;
    } cases[] = {
        {http, sizeof http - 1, "does not use hasp's peer protocol"},
        {tls, sizeof tls - 1, "does not use hasp's peer protocol"},
        {oversize, 8, "peer protocol: too big"},
        {vast, 8, "peer protocol: too big"},
        {early, 8, "its first frame is not HELLO"},
        {stub, sizeof stub - 1, "its HELLO is truncated"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_node(1, cluster_a);
        fixture->log.size = 0;
        int fd = dial_node(1);
        say(fd, cases[i].bytes, cases[i].size);
        RUN_UNTIL(is_hung_up(fd));
        assert_true(was_logged(cases[i].reason));
        assert_true(was_logged("address=127.0.0.1:"));
        close(fd);
        close_node(1);
    }
}

#define TEXT_OF(number) TEXT_OF_VALUE(number)
#define TEXT_OF_VALUE(number) #number

static void wrong_hellos_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct frame_hello good = hello_of(2, 1);
    struct frame_hello cases[7] = {good, good, good, good, good, good, good};
    static const char *const reasons[7] = {
        "node 1 supports 1 to " TEXT_OF(
            FRAME_VERSION_NEWEST) ", node 2 supports 7 to 9; upgrade node 1",
        "it is looking for node 9, this is node 1",
        "it claims to be node 1, which is this node",
        "node 5 is not a member",
        "it belongs to another cluster",
        "it claims to be node 0, which is not a valid id",
        "it claims to be node 18446744073709551615, which is not a valid id",
    };
    cases[0].versions = (struct frame_versions){.oldest = 7, .newest = 9};
    cases[1].to = 9;
    cases[2].from = 1;
    cases[3].from = 5;
    cases[4].cluster_id[0]++;
    cases[5].from = 0;
    cases[6].from = UINT64_MAX;
    for (int i = 0; i < 7; i++) {
        open_node(1, cluster_a);
        peers_add(fixture->node[1].peers, 2, "127.0.0.1:1");
        fixture->log.size = 0;
        int fd = dial_node(1);
        say_hello(fd, &cases[i]);
        RUN_UNTIL(is_hung_up(fd));
        assert_true(was_logged(reasons[i]));
        assert_int_equal(fixture->node[1].ups[2], 0);
        close(fd);
        close_node(1);
    }
}

static void who_ought_to_be_dialled_must_not_dial(void **state)
{
    (void)state;
    open_node(2, cluster_a);
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1");
    int fd = dial_node(2);
    struct frame_hello hello = hello_of(1, 2);
    say_hello(fd, &hello);
    RUN_UNTIL(is_hung_up(fd));
    assert_true(was_logged("this node dials node 1, not the other way round"));
    assert_false(was_logged("peer refused"));
    close(fd);
}

/* A member was replaced while node 2 was away: the new directory is not at the
 * address that node 2 knows, so that it can only dial. */
static void who_is_at_another_address_may_dial(void **state)
{
    (void)state;
    open_node(2, cluster_a);
    fixture->node[2].named = 55; /* The former directory's. */
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1");
    int fd = dial_node(2);
    struct frame_hello hello = hello_of(1, 2);
    say_hello(fd, &hello);
    RUN_UNTIL(is_up(2, 1));
    /* The former one is named here, and is let in, too; when the log has named
     * the new one, that one replaces it. */
    hello.incarnation = 55;
    int former = dial_node(2);
    say_hello(former, &hello);
    RUN_UNTIL(fixture->node[2].ups[1] == 2);
    RUN_UNTIL(is_hung_up(fd));
    close(fd);
    hello.incarnation = fixture->node[2].named = 101;
    fd = dial_node(2);
    say_hello(fd, &hello);
    RUN_UNTIL(fixture->node[2].ups[1] == 3);
    RUN_UNTIL(is_hung_up(former));
    assert_true(is_up(2, 1));
    close(fd);
    close(former);
}

/* A replaced directory learns of it, and is reported, whichever side has
 * dialled, and whichever node is connected under its number. */
static void the_owner_judges_before_all_else(void **state)
{
    (void)state;
    open_node(2, cluster_a);
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1");
    fixture->node[2].check_refusal = "this directory was replaced";
    int fd = dial_node(2);
    struct frame_hello hello = hello_of(1, 2);
    say_hello(fd, &hello);
    RUN_UNTIL(is_hung_up(fd));
    assert_true(was_logged("this directory was replaced"));
    close(fd);

    fixture->log.size = 0;
    int first = connect_as_member_2();
    fixture->node[1].check_refusal = "so was this one";
    int second = dial_node(1);
    hello = hello_of(2, 1);
    hello.incarnation++;
    say_hello(second, &hello);
    RUN_UNTIL(is_hung_up(second));
    assert_true(was_logged("so was this one"));
    assert_true(is_up(1, 2));
    close(first);
    close(second);
}

static void a_silent_stranger_is_closed_after_two_seconds(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    peers_add(fixture->node[1].peers, 2, "127.0.0.1:1");
    uint64_t start = uv_hrtime();
    int silent = dial_node(1);
    int slow = dial_node(1);
    struct buffer out = {0};
    struct frame_hello hello = hello_of(2, 1);
    frame_put_hello(&out, &hello);
    size_t said = 0;
    while (!is_hung_up(silent) || !is_hung_up(slow)) {
        assert_true(uv_hrtime() - start < 5000000000u);
        if (said < 20 && (uv_hrtime() - start) / 90000000 > said) {
            say(slow, out.data + said++, 1); /* A byte now and then. */
        }
        run_for(5);
    }
    assert_true(uv_hrtime() - start > 1900000000u);
    assert_true(was_logged("it did not send HELLO within 2000 ms"));
    assert_int_equal(fixture->log_lines, 2);
    close(silent);
    close(slow);
    buffer_done(&out);
}

static int count_hung_up(const int *fd, int count)
{
    int hung_up = 0;
    for (int i = 0; i < count; i++) {
        hung_up += is_hung_up(fd[i]);
    }
    return hung_up;
}

static void a_flood_of_strangers_does_not_keep_a_member_out(void **state)
{
    (void)state;
    int fd[100];
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    for (int i = 0; i < 100; i++) {
        fd[i] = dial_node(1);
    }
    RUN_UNTIL(count_hung_up(fd, 36) == 36);
    assert_int_equal(count_hung_up(fd + 36, 64), 0);
    introduce(1, 2);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    for (int i = 0; i < 100; i++) {
        close(fd[i]);
    }
}

static void strangers_do_not_fill_the_log(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    for (int i = 0; i < 60; i++) {
        int fd = dial_node(1);
        say(fd, "0123456789", 10);
        RUN_UNTIL(is_hung_up(fd));
        close(fd);
    }
    assert_in_range(fixture->log_lines, 1, 5);
}

/* --- Closing from inside -------------------------------------------------- */

static void closing_or_removing_inside_an_event_is_fine(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct node *node = &fixture->node[1];
        struct buffer out = {0};
        struct frame_hello hello = hello_of(2, 1);
        enum deed deed = i % 2 == 0 ? DEED_REMOVE : DEED_CLOSE;
        memset(node->ups, 0, sizeof node->ups);
        memset(node->downs, 0, sizeof node->downs);
        node->on_up_deed = i < 2 ? deed : DEED_NONE;
        node->on_frame_deed = i < 2 ? DEED_NONE : deed;
        node->frame_count = 0;
        open_node(1, cluster_a);
        peers_add(node->peers, 2, "127.0.0.1:1");
        int fd = dial_node(1);
        frame_put_hello(&out, &hello);
        for (int frame = 0; frame < 3; frame++) {
            frame_end(&out, frame_begin(&out, FRAME_RAFT));
        }
        say(fd, out.data, out.size);
        if (deed == DEED_CLOSE) {
            RUN_UNTIL(node->is_closed == 1);
            assert_int_equal(node->downs[2], 0);
        } else {
            RUN_UNTIL(node->downs[2] == 1);
            close_node(1);
        }
        assert_int_equal(node->ups[2], 1);
        assert_int_equal(node->frame_count, i < 2 ? 0 : 1);
        assert_true(is_hung_up(fd));
        close(fd);
        buffer_done(&out);
    }
}

static void closing_ends_all_events_in_every_state(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        memset(fixture->node, 0, sizeof fixture->node);
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        introduce(1, 2);
        int fd = dial_node(1);
        for (int i = 0; i < turns; i++) {
            uv_run(&fixture->loop, UV_RUN_NOWAIT);
        }
        int ups = fixture->node[2].ups[1];
        close_node(2);
        assert_int_equal(fixture->node[2].ups[1], ups);
        assert_int_equal(fixture->node[2].downs[1], 0);
        close_node(1);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEERS_TEST(three_nodes_connect_and_the_greater_id_dials),
        PEERS_TEST(frames_arrive_in_order),
        PEERS_TEST(a_node_that_does_not_know_its_cluster_yet_may_join),
        PEERS_TEST(a_node_of_another_cluster_is_refused),
        PEERS_TEST(an_address_that_leads_to_another_node_is_refused),
        PEERS_TEST(an_answer_of_another_node_is_refused),
        PEERS_TEST(a_node_that_is_no_member_is_refused),
        PEERS_TEST(the_owners_check_can_refuse_with_its_reason),
        PEERS_TEST(who_is_too_old_for_the_cluster_is_told_so),
        PEERS_TEST(a_stranger_makes_nobody_too_old),
        PEERS_TEST(a_node_comes_back_after_it_went_away),
        PEERS_TEST(a_removed_member_is_not_dialled_again),
        PEERS_TEST(a_member_may_move),
        PEERS_TEST(a_name_is_looked_up_at_each_connection),
        PEERS_TEST(without_a_name_server_a_member_is_where_it_was),
        PEERS_TEST(without_a_name_server_who_dials_is_let_in),
        PEERS_TEST(a_reset_is_told_as_the_other_ends),
        PEERS_TEST(pings_are_said_and_answered),
        PEERS_TEST(a_round_trip_is_measured),
        PEERS_TEST(a_silent_member_is_closed_after_three_seconds),
        PEERS_TEST(a_stall_of_our_own_closes_nobody),
        PEERS_TEST(a_second_connection_of_the_same_life_replaces_the_first),
        PEERS_TEST(a_second_connection_of_another_life_is_refused),
        PEERS_TEST(a_member_that_never_reads_is_closed),
        PEERS_TEST(wrong_frames_of_a_member_close_the_connection),
        PEERS_TEST(a_frame_beyond_the_limit_is_refused_at_its_header),
        PEERS_TEST(strangers_bytes_are_refused_with_a_reason),
        PEERS_TEST(wrong_hellos_are_refused_with_a_reason),
        PEERS_TEST(who_ought_to_be_dialled_must_not_dial),
        PEERS_TEST(who_is_at_another_address_may_dial),
        PEERS_TEST(the_owner_judges_before_all_else),
        PEERS_TEST(a_silent_stranger_is_closed_after_two_seconds),
        PEERS_TEST(a_flood_of_strangers_does_not_keep_a_member_out),
        PEERS_TEST(strangers_do_not_fill_the_log),
        PEERS_TEST(closing_or_removing_inside_an_event_is_fine),
        PEERS_TEST(closing_ends_all_events_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
