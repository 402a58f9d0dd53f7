/* SPDX-License-Identifier: MIT */

/* The changes allowed between two states of lockfsm, for all tests that apply
 * entries: the token of a lock only grows, the applied index grows by the
 * number of entries applied, a session never returns, a spent number stays
 * spent, only a HEARD removes a mark, the clock moves by at most one step an
 * entry. */

#ifndef HASP_TESTS_UNIT_LOCKFSM_DELTA_H
#define HASP_TESTS_UNIT_LOCKFSM_DELTA_H

#include "lockfsm/lockfsm.h"

struct lockfsm_delta;
struct lockfsm_delta *lockfsm_delta_new(void);
void lockfsm_delta_free(struct lockfsm_delta *delta);
/* To be called at the state before an entry, and at each one after it: compares
 * it with that of the previous call. NULL, or a static text that describes the
 * violation. */
const char *lockfsm_delta_check(struct lockfsm_delta *delta,
                                const struct lockfsm *fsm);

#endif /* HASP_TESTS_UNIT_LOCKFSM_DELTA_H */
