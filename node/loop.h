/* SPDX-License-Identifier: MIT */

/* When what happens: turns of the core on libuv's loop.
 *
 * One iteration of the loop polls, and the callbacks of sockets and of the log
 * feed the core all that has arrived. Then, in uv_check, one turn:
 *
 *     core_turn()      proposes all gathered requests as one batch, applies,
 *                      answers
 *     journal_start()  the write of the batch begins ...
 *     peers_flush()    ... and runs in parallel with the network
 *     clients_flush()  one write for each connection that has output
 *     clients_resume() connections that were held back parse on; if that
 *                      brought requests, once more from the start (bounded)
 *
 * uv_prepare does the same for what came from timers and closed handles. One
 * timer serves the core's deadline and the housekeeping of each second.
 *
 * Stalls (rule 6). If the loop did not come round for longer than a tick
 * (SIGSTOP, a suspended machine, a long turn), input may lie unread that
 * belongs before what has become due. From then on the loop polls without
 * blocking, and the core is told 'has_read_all' only after PASSES_AFTER_STALL
 * whole passes: the first accepts and reads, the second reads what was
 * accepted; a pass that still found a new connection is followed by another
 * (bounded). */

#ifndef HASP_NODE_LOOP_H
#define HASP_NODE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct hasp_node;

struct loop {
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;   /* Active: the next poll does not block. */
    uv_timer_t timer; /* The earlier of 'deadline_ns' and 'tick_ns'. */
    uv_async_t stop;
    uint64_t deadline_ns; /* The core's. */
    uint64_t tick_ns;     /* Housekeeping. */
    uint64_t armed_ns;    /* What the timer stands at. */
    uint64_t alive_ns;    /* The loop was surely running then. */
    uint32_t passes_left; /* Until all input has been read after a stall. */
    uint32_t passes_max;  /* Bounds that under a flood of connections. */
    bool has_events;      /* Since the last turn. */
    bool saw_more;        /* In this pass: more input may follow at once. */
    bool is_idling;
    bool is_stopping;
    bool is_over;
    uint64_t stop_by_ns;
    uint64_t seen_leader; /* What the host was told last. */
    uint64_t seen_term;
    bool seen_serving;
    uint64_t stall_count; /* For the metrics. */
    uint64_t turn_count;
};

void loop_open(struct hasp_node *node);
/* Runs until the node has stopped or failed. */
void loop_run(struct hasp_node *node);
/* Closes the handles (done when the loop has run once more). */
void loop_close(struct hasp_node *node);

/* Something has happened: a turn is due in this iteration. */
void loop_wake(struct hasp_node *node);
/* A connection was accepted: what it has sent is read in the next pass. */
void loop_saw_more(struct hasp_node *node);

#endif /* HASP_NODE_LOOP_H */
