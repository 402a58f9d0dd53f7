/* SPDX-License-Identifier: MIT */

/* The audit trail: administrative entries carry the origin and author of their
 * request. Applying them makes these fields available for a line in each node's
 * log and for the record in the state (lockfsm/user/audit.h). */

#ifndef HASP_LOCKFSM_USER_TRAIL_H
#define HASP_LOCKFSM_USER_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/model.h"

struct lockfsm;

/* An entry in the terms of operators. Bytes are borrowed until the next entry.
 */
struct trail {
    const char *command; /* "BLACKLIST.ADD"; NULL: not administrative. */
    struct bytes from;   /* "host:port" as seen by the node that received the
                            request; empty: the cluster did it on its own. */
    struct bytes user;   /* User name; empty: unauthenticated. */
    struct bytes by;     /* The operator's name, or the connection's. */
    uint64_t session;    /* Session of the request; 0: none. */
    struct bytes what;   /* name=app roles=a,b: for the log and for the act. */
    bool is_for_log;     /* Logged only: not an administrator's act. */
    bool begins_life;
    bool tells_itself; /* The fields already contain the result. */
};

/* The trail of the entry that was applied last. */
const struct trail *lockfsm_trail(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_TRAIL_H */
