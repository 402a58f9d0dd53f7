/* SPDX-License-Identifier: MIT */

#include "tests/unit/peers_world.h"

struct fixture *fixture;

/* --- Fixture -------------------------------------------------------------- */

static void note_closed(void *data)
{
    struct node *node = data;
    node->is_closed++;
}

static void do_deed(struct node *node, uint64_t id, enum deed deed)
{
    if (deed == DEED_REMOVE) {
        peers_remove(node->peers, id);
    } else if (deed == DEED_CLOSE) {
        peers_close(node->peers, note_closed, node);
        node->peers = NULL;
    }
}

static void on_up(void *data, uint64_t id, const struct frame_hello *hello)
{
    struct node *node = data;
    assert_int_equal(node->is_closed, 0);
    assert_int_equal(node->ups[id], node->downs[id]);
    assert_true(peers_is_up(node->peers, id));
    assert_non_null(peers_output(node->peers, id, FRAME_RAFT));
    node->ups[id]++;
    node->hello_incarnation = hello->incarnation;
    do_deed(node, id, node->on_up_deed);
}

static void on_down(void *data, uint64_t id, bool was_closed_by_peer)
{
    struct node *node = data;
    assert_int_equal(node->is_closed, 0);
    assert_int_equal(node->ups[id], node->downs[id] + 1);
    assert_false(peers_is_up(node->peers, id));
    assert_null(peers_output(node->peers, id, FRAME_RAFT));
    node->downs[id]++;
    node->was_closed_by_peer = was_closed_by_peer;
}

static int on_frame(void *data, uint64_t id, enum frame_type type,
                    struct bytes body, char why[HASP_WHY_SIZE])
{
    (void)why;
    struct node *node = data;
    assert_true(node->ups[id] > node->downs[id]);
    assert_int_equal(type, FRAME_RAFT);
    node->frame_count++;
    buffer_put_bytes(&node->got, body);
    do_deed(node, id, node->on_frame_deed);
    return node->on_frame_deed == DEED_REFUSE ? HASP_EINVALID : 0;
}

static int check(void *data, const struct frame_hello *hello, bool is_wanted,
                 char why[HASP_WHY_SIZE])
{
    struct node *node = data;
    if (!is_wanted) {
        node->asked_about_guests++;
        if (!node->admits_guests) {
            snprintf(why, HASP_WHY_SIZE, "node %d is not a member",
                     (int)hello->from);
            return HASP_ENOENT;
        }
    }
    if (node->check_refusal != NULL) {
        snprintf(why, HASP_WHY_SIZE, "%s", node->check_refusal);
        return node->check_error != 0 ? node->check_error : HASP_EREFUSED;
    }
    return 0;
}

static bool goes_before(void *data, const struct frame_hello *hello)
{
    const struct node *node = data;
    assert_int_not_equal(hello->from, node->id);
    return node->named != 0 && node->named == hello->incarnation;
}

static bool names_other(void *data, uint64_t id, uint64_t incarnation)
{
    const struct node *node = data;
    assert_int_not_equal(id, node->id);
    return node->named != 0 && node->named != incarnation;
}

static void on_too_old(void *data, const struct frame_hello *hello)
{
    struct node *node = data;
    assert_true(hello->cluster_level > node->feature_level);
    assert_int_equal(hello->incarnation, 0); /* It says only what is needed. */
    node->told_too_old++;
}

static void fill_hello(void *data, struct frame_hello *hello)
{
    const struct node *node = data;
    hello->cluster_level = node->cluster_level;
}

static bool was_removed(void *data, const struct frame_hello *hello,
                        char why[HASP_WHY_SIZE])
{
    const struct node *node = data;
    (void)hello;
    if (node->tells_removed) {
        snprintf(why, HASP_WHY_SIZE, "member %d was removed", (int)hello->from);
    }
    return node->tells_removed;
}

static void on_refused(void *data, uint64_t id, enum frame_refusal refusal,
                       const char *why, bool was_dialled)
{
    struct node *node = data;
    node->refused_by = id;
    node->refusal = refusal;
    node->was_dialled = was_dialled;
    snprintf(node->refused_why, sizeof node->refused_why, "%s", why);
}

void late_cb(uv_timer_t *timer)
{
    (void)timer;
    fixture->is_late = true;
}

static void log_sink(void *data, enum log_level level, const char *event,
                     const char *fields)
{
    (void)data;
    buffer_printf(&fixture->log, "%s %s\n", event, fields);
    fixture->log_lines += level <= LOG_WARN_LEVEL;
}

bool was_logged(const char *text)
{
    buffer_put_u8(&fixture->log, 0);
    bool found = strstr((char *)fixture->log.data, text) != NULL;
    fixture->log.size--;
    if (!found) {
        print_message("the log is: %.*s\n", (int)fixture->log.size,
                      (char *)fixture->log.data);
    }
    return found;
}

const uint8_t cluster_a[16] = {1, 2, 3};

const uint8_t cluster_b[16] = {3, 2, 1};

const uint8_t cluster_unknown[16];

void open_node_on(uint64_t id, const uint8_t cluster_id[16],
                  uint64_t incarnation, uint16_t port)
{
    struct node *node = &fixture->node[id];
    struct peers_options options = {.id = id,
                                    .incarnation = incarnation,
                                    .feature_level = node->feature_level,
                                    .versions = node->versions,
                                    .host = "127.0.0.1",
                                    .port = port};
    struct peers_events events = {.data = node,
                                  .on_up = on_up,
                                  .on_down = on_down,
                                  .on_frame = on_frame,
                                  .check = check,
                                  .goes_before = goes_before,
                                  .names_other = names_other,
                                  .was_removed = was_removed,
                                  .on_refused = on_refused,
                                  .on_too_old = on_too_old,
                                  .fill_hello = fill_hello};
    char why[HASP_WHY_SIZE];
    memcpy(options.cluster_id, cluster_id, 16);
    node->id = id;
    node->is_closed = 0;
    assert_int_equal(
        peers_open(&fixture->loop, &options, &events, &node->peers, why), 0);
}

void open_node(uint64_t id, const uint8_t cluster_id[16])
{
    open_node_on(id, cluster_id, 100 + id, 0);
}

void introduce_at(uint64_t who, uint64_t id, uint64_t at)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u",
             peers_port(fixture->node[at].peers));
    peers_add(fixture->node[who].peers, id, address);
}

void introduce(uint64_t a, uint64_t b)
{
    introduce_at(a, b, b);
    introduce_at(b, a, a);
}

void run_for(uint64_t ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end) {
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

bool is_up(uint64_t who, uint64_t id)
{
    return peers_is_up(fixture->node[who].peers, id);
}

void close_node(uint64_t id)
{
    struct node *node = &fixture->node[id];
    peers_close(node->peers, note_closed, node);
    node->peers = NULL;
    RUN_UNTIL(node->is_closed == 1);
}

int set_up(void **state)
{
    (void)state;
    fixture = memory_new(sizeof *fixture);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    assert_int_equal(uv_timer_init(&fixture->loop, &fixture->bound), 0);
    log_set_sink(log_sink, NULL);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    for (uint64_t id = 1; id < NODE_MAX; id++) {
        if (fixture->node[id].peers != NULL) {
            close_node(id);
        }
        buffer_done(&fixture->node[id].got);
    }
    log_set_sink(NULL, NULL);
    uv_close((uv_handle_t *)&fixture->bound, NULL);
    assert_int_equal(uv_run(&fixture->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    buffer_done(&fixture->log);
    free(fixture);
    return 0;
}

/* --- An unknown peer ------------------------------------------------------ */

int dial_node(uint64_t id)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(peers_port(fixture->node[id].peers)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

struct frame_hello hello_of(uint64_t from, uint64_t to)
{
    struct frame_hello hello = {.versions = frame_versions_spoken,
                                .feature_level = 1,
                                .from = from,
                                .to = to,
                                .incarnation = 100 + from};
    memcpy(hello.cluster_id, cluster_a, 16);
    return hello;
}

void say(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

void say_hello(int fd, const struct frame_hello *hello)
{
    struct buffer out = {0};
    frame_put_hello(&out, hello);
    say(fd, out.data, out.size);
    buffer_done(&out);
}

bool is_hung_up(int fd)
{
    char waste[4096];
    for (;;) {
        ssize_t size = recv(fd, waste, sizeof waste, MSG_DONTWAIT);
        if (size == 0 || (size < 0 && errno != EAGAIN)) {
            return true;
        }
        if (size < 0) {
            return false;
        }
    }
}

enum frame_type hear(int fd, struct buffer *in, struct buffer *ret_body)
{
    enum frame_type type;
    struct bytes body;
    size_t used;
    uint64_t end = uv_hrtime() + BOUND_MS * 1000000ull;
    while (frame_parse(buffer_bytes(in), FRAME_SIZE_MAX, &type, &body, &used) !=
           0) {
        assert_true(uv_hrtime() < end);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
        ssize_t size = recv(fd, buffer_reserve(in, 4096), 4096, MSG_DONTWAIT);
        assert_int_not_equal(size, 0);
        if (size > 0) {
            in->size += (size_t)size;
        } else {
            usleep(1000);
        }
    }
    buffer_clear(ret_body);
    buffer_put_bytes(ret_body, body);
    buffer_consume(in, used);
    return type;
}

int connect_as_member_2(void)
{
    open_node(1, cluster_a);
    peers_add(fixture->node[1].peers, 2, "127.0.0.1:1");
    int fd = dial_node(1);
    struct frame_hello hello = hello_of(2, 1);
    say_hello(fd, &hello);
    RUN_UNTIL(is_up(1, 2));
    return fd;
}
