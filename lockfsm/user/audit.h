/* SPDX-License-Identifier: MIT */

/* The newest administrative acts: user, command, origin, time and result. An
 * act is an entry of the log; the state keeps this record of it for later
 * questions. Refusals of entries are recorded, too. A request that was refused
 * before it was proposed has no entry, and so no record here (see
 * core/session/audit_denied.h).
 *
 * Nothing depends on an act. Its time is the wall clock of the node that
 * proposed it. It never contains secrets or their hashes. */

#ifndef HASP_LOCKFSM_USER_AUDIT_H
#define HASP_LOCKFSM_USER_AUDIT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/list.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/model.h"

#define ACT_COUNT_MAX 10000
/* Sizes of an act's texts; longer ones are cut. */
#define ACT_WHAT_SIZE_MAX 1024
#define ACT_WHY_SIZE_MAX 256

/* Texts are owned. */
struct act {
    struct list in_order; /* By number, and so by log_index. */
    uint64_t number;      /* Counts the acts of all epochs: no gap unless ... */
    uint64_t log_index;   /* ... the acts between were dropped. */
    uint64_t wall_ms;     /* 0: unknown. */
    struct bytes command; /* "USER.SET" */
    struct bytes
        user; /* User name; empty: unauthenticated, or the cluster itself. */
    struct bytes from; /* "host:port"; empty: the cluster itself. */
    struct bytes by;   /* Name of the operator or connection, or empty. */
    struct bytes what; /* name=app roles=a,b */
    enum result_code code;
    struct bytes why;
    struct stored stored;
};

/* The acts, by number. */
const struct list *lockfsm_acts(const struct lockfsm *fsm);
uint32_t lockfsm_act_count(const struct lockfsm *fsm);
/* The number of the first act of this epoch, or of the next act if there was
 * none; and the number of the newest act, 0 if there was none. */
uint64_t lockfsm_first_act(const struct lockfsm *fsm);
uint64_t lockfsm_last_act(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_AUDIT_H */
