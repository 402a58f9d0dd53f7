/* SPDX-License-Identifier: MIT */

/* What may change between two states of lockfsm, for all tests that apply
 * entries: the token of a lock only grows, the applied index grows by what was
 * applied, a session never comes back, a spent number stays spent, a mark goes
 * by a HEARD alone, the clock moves by a step an entry at most. */

#ifndef HASP_TESTS_UNIT_LOCKFSM_DELTA_H
#define HASP_TESTS_UNIT_LOCKFSM_DELTA_H

#include "lockfsm/lockfsm.h"

struct lockfsm_delta;
struct lockfsm_delta *lockfsm_delta_new(void);
void lockfsm_delta_free(struct lockfsm_delta *delta);
/* To be called at the state before an entry, and at each one after it: compares
 * it with that of the call before. NULL, or a static text that says what is
 * wrong. */
const char *lockfsm_delta_check(struct lockfsm_delta *delta,
                                const struct lockfsm *fsm);

#endif /* HASP_TESTS_UNIT_LOCKFSM_DELTA_H */
