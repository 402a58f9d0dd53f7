/* SPDX-License-Identifier: MIT */

/* The machine of a client against a scripted cluster of three nodes: bytes in,
 * bytes out, and a time that is set. No socket, clock or thread. */

#ifndef HASP_TESTS_UNIT_MACHINE_WORLD_H
#define HASP_TESTS_UNIT_MACHINE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "client/session_fsm.h"

#define NODES 3
#define TTL_MS 1000
#define RULES 64
#define SECRET "01020300000000000000000000000000"
#define SILENCE "silence" /* As an answer: none. */
#define HANG_UP "hang up" /* As an answer: the connection is closed. */
#define QUEUED "+QUEUED 8\r\n"
#define NIL "_\r\n"
#define TIMES                                             \
    "$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:%d\r\n" \
    "$8\r\ntrust_ms\r\n:800\r\n"

/* The answer of a node to requests with this prefix; once, or always. A prefix
 * that begins with "1:" is for node 1 alone. */
struct rule {
    const char *prefix;
    const char *answer;
    bool is_kept;
    bool is_used;
};

extern struct machine_world {
    struct cluster_conn asker;
    struct session_fsm machine;
    uint64_t ms; /* Since the start; 'asleep_ms' of it suspended. */
    uint64_t asleep_ms;
    struct lease_clock given; /* The newest time passed to a call. */
    int linger_ms;
    bool is_dead[NODES], is_silent[NODES], is_distrusted[NODES];
    /* The driver reads the credentials again, and they had changed; or the
     * reason why they were refused. */
    bool may_renew, has_changed;
    const char *why;
    int renewals;
    struct rule rule[RULES];
    int rule_count;
    uint32_t number;
    int at;          /* The node that is connected. */
    char seen[4096]; /* Requests but HELLO, e.g. "1:LOCK.ACQUIRE a REQ 1|". */
} world;

struct told {
    struct client_call call;
    int count;
};

#define ANSWER_PUSH(owner)                                           \
    ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%4\r\n$4\r\nwait\r\n:8\r\n" \
    "$7\r\nsession\r\n:17\r\n$5\r\nowner\r\n$2\r\n" owner "\r\n"     \
    "$5\r\nindex\r\n:9\r\n"

/* The node's answer to a grant: numbers as texts; "_" as 'left' means no
 * limit. */
#define GRANT(token, first, count, left, as_of)                     \
    "%5\r\n$5\r\ntoken\r\n:" token "\r\n$5\r\nfirst\r\n:" first     \
    "\r\n$5\r\ncount\r\n:" count "\r\n$12\r\nhold_left_ms\r\n" left \
    "\r\n$5\r\nas_of\r\n:" as_of "\r\n"
/* Pushes it to the waiter at place 8. */
#define GRANT_PUSH(owner, grant)                                    \
    ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%4\r\n$7\r\nsession\r\n"   \
    ":17\r\n$5\r\nowner\r\n$2\r\n" owner "\r\n$4\r\nwait\r\n:8\r\n" \
    "$6\r\ngrants\r\n*1\r\n" grant

/* The readings of the clocks. */
struct lease_clock read_clock(void);
/* The same, for a call that passes the time to the machine: if a call forgets
 * to store it, the next such call detects that, and code that uses the time of
 * an earlier call reads 0. */
struct lease_clock now(void);
void assert_time_kept(void);
/* The answer to the next request, or to all, that begins so. */
void once(const char *prefix, const char *answer);
void always(const char *prefix, const char *answer);
/* These bytes arrive. */
void give(const char *text);
/* Lets the machine and the nodes talk until both are idle. */
void turn(void);
/* The same, while time passes. */
void pass(uint64_t time_ms);
struct client_call *call_of(struct told *told);
void assert_told(const struct told *told, int error);
void assert_seen(const char *text);
void assert_contains(const char *text, const char *part);
void open_session(void);
void acquire_for(struct told *told, const char *name, uint64_t wait_ms,
                 const char *owner, uint64_t hold_ms);
void acquire(struct told *told, const char *name, uint64_t wait_ms);
void release(struct hasp_hold *hold, struct told *told);
uint64_t left_ms(struct hasp_hold *hold);
int next_event(void);
int set_up_closed(void **state);
int set_up(void **state);
int tear_down(void **state);

#endif /* HASP_TESTS_UNIT_MACHINE_WORLD_H */
