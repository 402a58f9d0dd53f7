/* SPDX-License-Identifier: MIT */

/* Peers on loopback: nodes in one loop, and a plain socket that plays unknown
 * peers, guests and misbehaving members. Every loop is bounded in time. */

#ifndef HASP_TESTS_UNIT_PEERS_WORLD_H
#define HASP_TESTS_UNIT_PEERS_WORLD_H

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
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "net/peers.h"

#define NODE_MAX 4
#define ID_MAX (PEERS_GUEST_MAX + 4)
#define BOUND_MS 60000

enum deed { DEED_NONE, DEED_REFUSE, DEED_REMOVE, DEED_CLOSE };

struct node {
    struct peers *peers;
    uint64_t id;
    int ups[ID_MAX];
    int downs[ID_MAX];
    bool was_closed_by_peer;
    uint64_t hello_incarnation;
    struct buffer got; /* Bodies of RAFT frames. */
    int frame_count;
    int is_closed;
    uint32_t feature_level;
    uint32_t cluster_level;
    struct frame_versions versions; /* Zero: those of this program. */
    int told_too_old;
    const char *check_refusal;
    int check_error; /* Of that; 0: HASP_EREFUSED. */
    uint64_t named;  /* Every member's incarnation; 0: it knows none. */
    bool tells_removed;
    uint64_t refused_by; /* 0: by nobody. */
    enum frame_refusal refusal;
    bool was_dialled;
    char refused_why[FRAME_REFUSED_SIZE_MAX + 1];
    bool admits_guests;
    int asked_about_guests;
    enum deed on_up_deed;
    enum deed on_frame_deed;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t bound;
    bool is_late;
    struct node node[NODE_MAX]; /* By id; [0] is not used. */
    struct buffer log;
    int log_lines; /* Errors and warnings. */
};

extern struct fixture *fixture;
bool was_logged(const char *text);
extern const uint8_t cluster_a[16];
extern const uint8_t cluster_b[16];
extern const uint8_t cluster_unknown[16];
void open_node_on(uint64_t id, const uint8_t cluster_id[16],
                  uint64_t incarnation, uint16_t port);
void open_node(uint64_t id, const uint8_t cluster_id[16]);

/* 'who' learns that the address of member 'id' is the port of node 'at'. */
void introduce_at(uint64_t who, uint64_t id, uint64_t at);

void introduce(uint64_t a, uint64_t b);

void late_cb(uv_timer_t *timer);
int set_up(void **state);
int tear_down(void **state);

#define RUN_UNTIL(fact)                                        \
    do {                                                       \
        uv_timer_start(&fixture->bound, late_cb, BOUND_MS, 0); \
        while (!(fact)) {                                      \
            assert_false(fixture->is_late);                    \
            uv_run(&fixture->loop, UV_RUN_ONCE);               \
        }                                                      \
    } while (0)

void run_for(uint64_t ms);
bool is_up(uint64_t who, uint64_t id);
void close_node(uint64_t id);
int dial_node(uint64_t id);

/* The first frame of a peer. */
struct frame_hello hello_of(uint64_t from, uint64_t to);

void say(int fd, const void *data, size_t size);
void say_hello(int fd, const struct frame_hello *hello);

/* True if the node has closed the connection (after any output). */
bool is_hung_up(int fd);

/* The next frame for an unknown peer; turns the loop meanwhile. */
enum frame_type hear(int fd, struct buffer *in, struct buffer *ret_body);

/* Node 1, and a socket that is member 2 to it. */
int connect_as_member_2(void);

#define PEERS_TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif /* HASP_TESTS_UNIT_PEERS_WORLD_H */
