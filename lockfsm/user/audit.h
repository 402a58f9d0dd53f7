/* SPDX-License-Identifier: MIT */

/* The newest administrative acts: who did what, from where, when, and what came
 * of it. An act is its entry in the log; what the state keeps of it here is for
 * those who ask later. What an entry was refused by is kept, too; what was
 * refused before it was proposed is no entry, and stands nowhere here (see
 * core/session/audit_denied.h).
 *
 * Nothing is decided by an act. Its time is the clock on the wall of the node
 * that proposed it. Secrets and their hashes are never part of one. */

#ifndef HASP_LOCKFSM_USER_AUDIT_H
#define HASP_LOCKFSM_USER_AUDIT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/list.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/model.h"

/* What is older goes. */
#define ACT_COUNT_MAX 10000
/* Of an act's texts; longer ones are cut. */
#define ACT_WHAT_SIZE_MAX 1024
#define ACT_WHY_SIZE_MAX 256

/* Texts are owned. */
struct act {
    struct list in_order; /* By number, and so by log_index. */
    uint64_t number;      /* Counts the acts of all lives: no gap unless ... */
    uint64_t log_index;   /* ... what is between was too old. */
    uint64_t wall_ms;     /* 0: not known. */
    struct bytes command; /* "USER.SET" */
    struct bytes user;    /* His name; empty: nobody said, or nobody asked. */
    struct bytes from;    /* "host:port"; empty: nobody asked. */
    struct bytes by;      /* What he or his connection is called, or empty. */
    struct bytes what;    /* name=app roles=a,b */
    enum result_code code;
    struct bytes why; /* Of a refusal. */
    struct stored stored;
};

/* By number. */
const struct list *lockfsm_acts(const struct lockfsm *fsm);
uint32_t lockfsm_act_count(const struct lockfsm *fsm);
/* The number of the first act of this life, or of the next one if there was
 * none; and that of the newest act of all, 0: there was none. */
uint64_t lockfsm_first_act(const struct lockfsm *fsm);
uint64_t lockfsm_last_act(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_AUDIT_H */
