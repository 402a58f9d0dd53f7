/* SPDX-License-Identifier: MIT */

/* Nodes whose programs know different frames (net/frame.h) connect to each
 * other. Builds for tests know one more. */

#include "tests/unit/peers_world.h"

/* Each pair of ranges: the common part, and the side to upgrade if there is
 * none. */
static void
two_versions_of_the_frames_speak_the_highest_common_one(void **state)
{
    (void)state;
    static const struct {
        struct frame_versions one, two;
        const char *says;
    } cases[] = {
        {{1, 1}, {1, 3}, "frames=1"},
        {{1, 2}, {1, 3}, "frames=2"},
        {{1, 4}, {1, 3}, "frames=3"},
        {{1, 1},
         {2, 3},
         "node 1 supports 1 to 1, node 2 supports 2 to 3; upgrade "
         "node 1"},
        {{1, 1},
         {2, 3},
         "node 2 supports 2 to 3, node 1 supports 1 to 1; upgrade "
         "node 1"},
        {{4, 5},
         {1, 3},
         "node 1 supports 4 to 5, node 2 supports 1 to 3; upgrade "
         "node 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool fits = strncmp(cases[i].says, "frames", 6) == 0;
        fixture->node[1].versions = cases[i].one;
        fixture->node[2].versions = cases[i].two;
        fixture->log.size = 0;
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        introduce(1, 2);
        if (fits) {
            RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
        } else {
            RUN_UNTIL(was_logged(cases[i].says));
            /* Node 2 dials, and learns it. */
            RUN_UNTIL(fixture->node[2].refused_by == 1);
            assert_non_null(strstr(fixture->node[2].refused_why,
                                   "no common version of the peer protocol"));
            assert_false(is_up(1, 2) || is_up(2, 1));
        }
        assert_true(was_logged(cases[i].says));
        close_node(1);
        close_node(2);
        memset(fixture->node, 0, sizeof fixture->node);
    }
}

/* A peer of an older version is sent no frames that it does not know, and may
 * not send them. (There is only one version of frames, except in tests.) */
#ifdef HASP_FEATURE_LEVEL_EXTRA
static void frames_are_no_newer_than_the_connection(void **state)
{
    (void)state;
    for (uint32_t newest = 1; newest <= 2; newest++) {
        bool knows = newest == 2;
        fixture->node[2].versions = (struct frame_versions){1, newest};
        open_node(1, cluster_a);
        open_node(2, cluster_a);
        introduce(1, 2);
        RUN_UNTIL(is_up(1, 2) && is_up(2, 1));
        struct peers *one = fixture->node[1].peers;
        assert_true((peers_output(one, 2, FRAME_TRIAL) != NULL) == knows);
        assert_non_null(peers_output(one, 2, FRAME_RAFT));
        close_node(1);
        close_node(2);
        memset(fixture->node, 0, sizeof fixture->node);
    }
    struct frame_hello hello = hello_of(2, 1);
    struct buffer out = {0};
    hello.versions.newest = 1;
    open_node(1, cluster_a);
    peers_add(fixture->node[1].peers, 2, "127.0.0.1:1");
    int fd = dial_node(1);
    frame_put_hello(&out, &hello);
    frame_put_u64(&out, FRAME_TRIAL, 1);
    say(fd, out.data, out.size);
    RUN_UNTIL(is_hung_up(fd));
    assert_true(
        was_logged("a frame of type 18, which does not exist in version 1"));
    close(fd);
    buffer_done(&out);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEERS_TEST(two_versions_of_the_frames_speak_the_highest_common_one),
#ifdef HASP_FEATURE_LEVEL_EXTRA
        PEERS_TEST(frames_are_no_newer_than_the_connection),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
