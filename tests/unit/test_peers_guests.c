/* SPDX-License-Identifier: MIT */

/* Nodes that this one has not heard of (net/peers.h), and the nodes they
 * dial. */

#include "tests/unit/peers_world.h"

static int greet_as(uint64_t from)
{
    int fd = dial_node(1);
    struct frame_hello hello = hello_of(from, 1);
    say_hello(fd, &hello);
    return fd;
}

static void a_guest_comes_and_goes_with_its_connection(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    fixture->node[1].admits_guests = true;
    int fd = greet_as(2);
    RUN_UNTIL(is_up(1, 2));
    assert_int_equal(fixture->node[1].asked_about_guests, 1);
    close(fd);
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    assert_false(is_up(1, 2));
    assert_int_equal(peers_silence_ms(fixture->node[1].peers, 2), UINT64_MAX);
    /* Not if it is of another cluster, or of none. */
    fixture->node[1].asked_about_guests = 0;
    for (int i = 0; i < 2; i++) {
        struct frame_hello hello = hello_of(2, 1);
        hello.cluster_id[0]++;
        if (i == 1) {
            memset(hello.cluster_id, 0, sizeof hello.cluster_id);
        }
        fd = dial_node(1);
        say_hello(fd, &hello);
        RUN_UNTIL(is_hung_up(fd));
        close(fd);
    }
    assert_int_equal(fixture->node[1].asked_about_guests, 0);
    assert_int_equal(fixture->node[1].ups[2], 1);
}

static void a_guest_becomes_a_member_on_the_same_connection(void **state)
{
    (void)state;
    open_node(2, cluster_a);
    open_node(1, cluster_a);
    fixture->node[2].admits_guests = true;
    /* As a guest the node with the smaller id may dial, too. */
    int fd = dial_node(2);
    struct frame_hello hello = hello_of(1, 2);
    say_hello(fd, &hello);
    RUN_UNTIL(is_up(2, 1));
    peers_add(fixture->node[2].peers, 1, "127.0.0.1:1");
    assert_true(is_up(2, 1));
    assert_int_equal(fixture->node[2].downs[1], 0);
    close(fd);
    RUN_UNTIL(fixture->node[2].downs[1] == 1);
    /* From now on it has to be dialled. */
    fd = dial_node(2);
    say_hello(fd, &hello);
    RUN_UNTIL(is_hung_up(fd));
    assert_true(was_logged("this node dials node 1, not the other way round"));
    close(fd);
}

static void a_guest_can_be_shown_out(void **state)
{
    (void)state;
    open_node(1, cluster_a);
    fixture->node[1].admits_guests = true;
    int fd = greet_as(2);
    RUN_UNTIL(is_up(1, 2));
    peers_remove(fixture->node[1].peers, 2);
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    RUN_UNTIL(is_hung_up(fd));
    close(fd);
    /* A second connection replaces the first. */
    fd = greet_as(2);
    RUN_UNTIL(fixture->node[1].ups[2] == 2);
    int second = greet_as(2);
    RUN_UNTIL(fixture->node[1].ups[2] == 3);
    assert_int_equal(fixture->node[1].downs[2], 2);
    assert_true(is_up(1, 2));
    close(fd);
    close(second);
}

static void guests_are_bounded(void **state)
{
    (void)state;
    int fds[PEERS_GUEST_MAX];
    open_node(1, cluster_a);
    fixture->node[1].admits_guests = true;
    for (uint64_t i = 0; i < PEERS_GUEST_MAX; i++) {
        fds[i] = greet_as(i + 2);
        RUN_UNTIL(is_up(1, i + 2));
    }
    int fd = greet_as(PEERS_GUEST_MAX + 2);
    RUN_UNTIL(is_hung_up(fd));
    assert_int_equal(fixture->node[1].asked_about_guests, PEERS_GUEST_MAX);
    close(fd);
    close(fds[0]);
    RUN_UNTIL(fixture->node[1].downs[2] == 1);
    fd = greet_as(PEERS_GUEST_MAX + 2);
    RUN_UNTIL(is_up(1, PEERS_GUEST_MAX + 2));
    close(fd);
    for (uint64_t i = 1; i < PEERS_GUEST_MAX; i++) {
        close(fds[i]);
    }
}

/* Node 2 does not know of node 1, which has waited for it to dial. */
static void who_is_not_dialled_dials_after_a_while(void **state)
{
    char address[32];
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    fixture->node[2].admits_guests = true;
    snprintf(address, sizeof address, "127.0.0.1:%d",
             peers_port(fixture->node[2].peers));
    uint64_t begun = uv_hrtime();
    peers_add(fixture->node[1].peers, 2, address);
    RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
    assert_true(uv_hrtime() - begun >= 2900 * UINT64_C(1000000));
}

/* Node 2 dials node 1, which does not know it. */
static void who_is_refused_hears_why(void **state)
{
    (void)state;
    struct node *refused = NULL;
    for (int i = 0; i < 3; i++) {
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        refused = &fixture->node[2];
        refused->refused_by = 0;
        fixture->node[1].tells_removed = i == 1;
        if (i == 2) {
            introduce_at(1, 2, 2);
            fixture->node[1].check_refusal = "its time has not come";
        }
        introduce_at(2, 1, 1);
        RUN_UNTIL(refused->refused_by == 1);
        assert_true(refused->was_dialled);
        assert_int_equal(refused->refusal, i == 0   ? REFUSAL_STRANGER
                                           : i == 1 ? REFUSAL_REMOVED
                                                    : REFUSAL_OTHER);
        assert_string_equal(refused->refused_why,
                            i == 0   ? "node 2 is not a member"
                            : i == 1 ? "member 2 was removed"
                                     : "its time has not come");
        assert_false(is_up(1, 2) || is_up(2, 1));
        close_node(1);
        close_node(2);
    }
    /* An unknown peer has nothing to refuse; an admitted member has. */
    fixture->node[1].check_refusal = NULL;
    int fd = connect_as_member_2();
    struct buffer out = {0};
    frame_put_refused(&out, REFUSAL_REMOVED, BYTES_LITERAL("so they say"));
    say(fd, out.data, out.size);
    RUN_UNTIL(fixture->node[1].refused_by == 2);
    assert_false(fixture->node[1].was_dialled);
    RUN_UNTIL(is_hung_up(fd));
    close(fd);
    fixture->node[1].refused_by = 0;
    fd = dial_node(1);
    say(fd, out.data, out.size);
    RUN_UNTIL(is_hung_up(fd));
    assert_int_equal(fixture->node[1].refused_by, 0);
    assert_true(was_logged("its first frame is not HELLO"));
    close(fd);
    buffer_done(&out);
}

/* Node 2 dials node 1 again and again, and tells it each time that it was
 * removed. Node 1 believes that only where it has dialled itself, so it does.
 */
static void who_is_removed_asks_where_it_dials(void **state)
{
    char address[32];
    (void)state;
    open_node(1, cluster_a);
    open_node(2, cluster_a);
    fixture->node[2].check_refusal = "it was removed";
    fixture->node[2].check_error = HASP_ENOENT;
    fixture->node[2].tells_removed = true;
    introduce_at(2, 1, 1);
    snprintf(address, sizeof address, "127.0.0.1:%d",
             peers_port(fixture->node[2].peers));
    peers_add(fixture->node[1].peers, 2, address);
    RUN_UNTIL(fixture->node[1].refused_by == 2 && fixture->node[1].was_dialled);
    assert_int_equal(fixture->node[1].refusal, REFUSAL_REMOVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEERS_TEST(a_guest_comes_and_goes_with_its_connection),
        PEERS_TEST(a_guest_becomes_a_member_on_the_same_connection),
        PEERS_TEST(a_guest_can_be_shown_out),
        PEERS_TEST(guests_are_bounded),
        PEERS_TEST(who_is_refused_hears_why),
        PEERS_TEST(who_is_not_dialled_dials_after_a_while),
        PEERS_TEST(who_is_removed_asks_where_it_dials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
