/* SPDX-License-Identifier: MIT */

/* Handing leadership over: because an operator asks for it, because this node
 * stops, because its disk is scarce or slow, or because its clock is off.
 *
 *     NONE --> WAITING --> UNDER_WAY --> (stepped down, or NONE: in vain)
 *
 * It waits for what is under way to be applied, since during a transfer the
 * replica takes nothing. */

#ifndef HASP_CORE_MEMBERS_TRANSFER_H
#define HASP_CORE_MEMBERS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/command.h"

struct core;
struct request;

enum transfer_state { TRANSFER_NONE, TRANSFER_WAITING, TRANSFER_UNDER_WAY };

/* Of a leader. */
struct transfer {
    enum transfer_state state;
    struct request *request;  /* Of RAFT.TRANSFER, else NULL. */
    uint64_t to;              /* 0: to whom has most of the log. */
    const char *why;          /* Static text, for the log. */
    uint64_t after_index;     /* WAITING: must be applied; 0: not known yet. */
    uint64_t deadline_ns;     /* WAITING: no longer for that. */
    uint64_t scarce_retry_ns; /* A scarce disk: not tried again sooner. */
};

void transfer_turn(struct core *core);
uint64_t transfer_next(const struct core *core);
void transfer_stepped_down(struct core *core);
void transfer_peer_lost(struct core *core, uint64_t peer);
/* Where every disk is scarce leadership must not go round at once. */
void transfer_put_off(struct core *core);
/* The disk has just become scarce, or has room again. */
void transfer_at_once(struct core *core);
/* Leadership is elsewhere, or here again: answers a TRANSFER that was sent to
 * the leader before. */
void transfer_answer(struct core *core, struct request *request);

/* Handlers of commands (core/command.h). */
command_run_fn raft_transfer_run;

#endif /* HASP_CORE_MEMBERS_TRANSFER_H */
