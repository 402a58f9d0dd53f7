/* SPDX-License-Identifier: MIT */

/* When each lock existed. The state is the witness: a lock can exist for a
 * hold, a wait, a delay or a note. */

#ifndef HASP_TESTS_SIM_SIM_LIVES_H
#define HASP_TESTS_SIM_SIM_LIVES_H

#include "lockfsm/lockfsm.h"

struct sim_lives;

struct sim_lives *sim_lives_new(void);
void sim_lives_free(struct sim_lives *lives);
/* An entry is applied for the first time anywhere. */
void sim_lives_entry(struct sim_lives *lives, uint64_t index,
                     const struct lockfsm *fsm);

/* True if the lock existed at some moment between the two entries. */
bool sim_lives_sometime(const struct sim_lives *lives, struct bytes name,
                        uint64_t from, uint64_t to);

#endif /* HASP_TESTS_SIM_SIM_LIVES_H */
