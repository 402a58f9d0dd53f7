/* SPDX-License-Identifier: MIT */

/* Turns of the core on libuv's loop.
 *
 * One iteration of the loop polls; the callbacks of sockets and of the log pass
 * the input to the core: everything from other nodes and the disk, and from
 * clients as much as their account allows (base/account.h). Then, in uv_check,
 * one turn:
 *
 *     account_serve()  clients that rest, in turn, one request of each at least
 *     core_turn()      proposes all gathered requests as one batch, applies,
 *                      answers
 *     journal_start()  the write of the batch begins ...
 *     peers_flush()    ... and runs in parallel with the network
 *     clients_flush()  one write for each connection that has output
 *     clients_resume() connections that were held back parse on; if that
 *                      brought requests, once more from the start (bounded)
 *
 * uv_prepare does the same for timers and closed handles. One timer serves the
 * core's deadline and the housekeeping of each second.
 *
 * After a stall (node/stall.h, rule 6) the loop polls without blocking until
 * all input that had arrived by then is read. In each turn the core gets the
 * time up to which all input has been read. */

#ifndef HASP_NODE_LOOP_H
#define HASP_NODE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/histogram.h"
#include "node/turn.h"

struct hasp_node;

struct loop {
    struct turn *turn;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;   /* Active: the next poll does not block. */
    uv_timer_t timer; /* The earlier of 'deadline_ns' and 'tick_ns'. */
    uv_async_t stop;
    uv_async_t reload;
    uint64_t deadline_ns; /* The core's. */
    uint64_t tick_ns;     /* Housekeeping. */
    uint64_t armed_ns;    /* Time for which the timer is set. */
    bool is_idling;
    uint64_t stop_by_ns;
    uint64_t seen_leader; /* As last reported to the host. */
    uint64_t seen_term;
    bool seen_serving;
    bool has_logged_unenforced; /* The warning was logged. */
    uint64_t logged_room;       /* Table room as last logged. */
    uint64_t stall_count;       /* For the metrics. */
    uint64_t turn_count;
    struct histogram turns;
};

void loop_open(struct hasp_node *node);
/* Runs until the node has stopped or failed. */
void loop_run(struct hasp_node *node);
/* Closes the handles; that is complete when the loop has run once more. */
void loop_close(struct hasp_node *node);

#endif /* HASP_NODE_LOOP_H */
