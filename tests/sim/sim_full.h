/* SPDX-License-Identifier: MIT */

/* The oracle of full tables: LIMIT is the answer only if there is no room, and
 * never to a request that gives back. No entry makes anything grow above its
 * limit. A limit that was lowered can be exceeded by what there was. */

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

/* The use of each limit after the newest entry. */
struct sim_uses {
    uint64_t of[LIMIT_COUNT];
};

/* An entry was applied, and left this state. */
void sim_full_entry(struct sim *sim, struct sim_uses *uses, uint64_t index,
                    const struct lockfsm *fsm);

/* sim_admin.c: a value for a limit of the state, small enough to be reached, or
 * the default. */
uint64_t sim_admin_limit(struct sim *sim, enum limit_key key);

#endif /* HASP_TESTS_SIM_SIM_FULL_H */
