/* SPDX-License-Identifier: MIT */

/* The oracle of full tables: LIMIT for what is counted in all is the answer
 * only if there is no room, and never to a request that gives back. */

#ifndef HASP_TESTS_SIM_SIM_FULL_H
#define HASP_TESTS_SIM_SIM_FULL_H

#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "tests/sim/sim.h"

struct sim_promises;

/* An entry is applied for the first time anywhere, and has this result. */
void sim_full_check(struct sim *sim, struct sim_promises *promises,
                    uint64_t index, const struct entry *command,
                    const struct result *result, const struct lockfsm *fsm);

/* sim_admin.c: a value for a limit of the state, small enough to be reached, or
 * the default. */
uint64_t sim_admin_limit(struct sim *sim, enum limit_key key);

#endif /* HASP_TESTS_SIM_SIM_FULL_H */
