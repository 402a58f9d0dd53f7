/* SPDX-License-Identifier: MIT */

/* A login at the admin socket is an act (lockfsm/user/audit.h): the node asks
 * the cluster to record it, with AUDIT.LOGIN on an internal connection.
 *
 * The login does not wait for that: the socket works without a leader, and the
 * act is recorded once there is one. A script that logs in every minute must
 * not push other acts out of the log, so a login within LOGIN_QUIET_NS of the
 * last recorded one is not recorded.
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
/* Number of the internal connection; no other has it. */
#define LOGINS_CONN (CORE_CONN_BRIEF | 1)

struct hasp_node;

struct logins {
    struct hasp_node *node;
    bool is_due;          /* A login is to be recorded. */
    bool is_asking;       /* A request is in progress. */
    uint64_t not_before;  /* Time of the next attempt, ns. */
    uint64_t quiet_until; /* Logins are not recorded before, ns. */
    struct buffer answer;
};

void logins_init(struct logins *logins, struct hasp_node *node);
/* Reports a login at the admin socket. */
void logins_note(struct logins *logins, uint64_t now_ns);
/* Call it in each turn after the core has started. */
void logins_turn(struct logins *logins, uint64_t now_ns);
void logins_done(struct logins *logins);

#endif /* HASP_NODE_LOGINS_H */
