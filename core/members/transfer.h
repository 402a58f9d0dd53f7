/* SPDX-License-Identifier: MIT */

/* Handing leadership over: because an operator requests it, this node stops,
 * its disk is nearly full or slow, or its clock is off.
 *
 *     NONE --> WAITING --> UNDER_WAY --> (stepped down, or NONE: failed)
 *
 * It waits until what is in flight is applied, since the replica accepts
 * nothing during a transfer. */

#ifndef HASP_CORE_MEMBERS_TRANSFER_H
#define HASP_CORE_MEMBERS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/command.h"

struct core;
struct request;

enum transfer_state { TRANSFER_NONE, TRANSFER_WAITING, TRANSFER_UNDER_WAY };

/* Part of a leadership. */
struct transfer {
    enum transfer_state state;
    struct request *request; /* RAFT.TRANSFER's, otherwise NULL. */
    uint64_t to;             /* 0: the voter with the longest log. */
    const char *why;         /* Static text, for the log. */
    uint64_t after_index; /* WAITING: until this is applied; 0: unknown yet. */
    uint64_t deadline_ns; /* WAITING: at most until this time. */
    uint64_t scarce_retry_ns; /* Full disk: no attempt before this time. */
};

/* Decides on a RAFT.TRANSFER to 'to'; 0: the voter with the longest log. */
void transfer_request(struct core *core, struct request *request, uint64_t to);
void transfer_turn(struct core *core);
uint64_t transfer_next(const struct core *core);
void transfer_stepped_down(struct core *core);
void transfer_peer_lost(struct core *core, uint64_t peer);
/* If every disk is nearly full, leadership must not circulate: delays the next
 * attempt. */
void transfer_put_off(struct core *core);
/* The disk has just become nearly full or has space again; or this node is
 * drained. */
void transfer_at_once(struct core *core);
/* Another node leads, or this one again: answers a TRANSFER that was sent to
 * the previous leader. */
void transfer_answer(struct core *core, struct request *request);

#endif /* HASP_CORE_MEMBERS_TRANSFER_H */
