/* SPDX-License-Identifier: MIT */

/* That somebody has come by the local door is an act (lockfsm/user/audit.h):
 * the node asks the cluster to note it, by AUDIT.LOGIN on a connection of its
 * own.
 *
 * Nobody waits for that: without a leader, too, the door is open, and the act
 * is written when there is one. A script that comes every minute must not push
 * out other acts, so who comes within LOGIN_QUIET_NS of the last login that was
 * written is not written again.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_LOGINS_H
#define HASP_NODE_LOGINS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/units.h"
#include "core/core.h"

#define LOGIN_QUIET_NS (3600 * NS_PER_S)
#define LOGIN_RETRY_NS (5 * NS_PER_S)
/* The number of its connection; no other one has it. */
#define LOGINS_CONN (CORE_CONN_BRIEF | 1)

struct hasp_node;

struct logins {
    struct hasp_node *node;
    bool is_due;          /* One is to be written. */
    bool is_asking;       /* Its connection is open. */
    uint64_t not_before;  /* In ns; when it is tried again. */
    uint64_t quiet_until; /* In ns. */
    struct buffer answer;
};

void logins_init(struct logins *logins, struct hasp_node *node);
/* Somebody has come by the door. */
void logins_note(struct logins *logins, uint64_t now_ns);
/* In each turn of a core that has begun. */
void logins_turn(struct logins *logins, uint64_t now_ns);
void logins_done(struct logins *logins);

#endif /* HASP_NODE_LOGINS_H */
