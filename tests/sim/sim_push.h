/* SPDX-License-Identifier: MIT */

/* Ends of waits as pushes report them: each push matches the log in entry,
 * session, owner and tokens. A push may arrive twice, or never. */

#ifndef HASP_TESTS_SIM_SIM_PUSH_H
#define HASP_TESTS_SIM_SIM_PUSH_H

#include "lockfsm/lockfsm.h"
#include "net/resp.h"
#include "tests/sim/sim.h"

struct sim_pushes;

struct sim_pushes *sim_pushes_new(struct sim *sim);
void sim_pushes_free(struct sim_pushes *pushes);
/* An entry is applied for the first time anywhere. */
void sim_pushes_entry(struct sim_pushes *pushes, const struct effects *effects);
/* 'client' got the push. */
void sim_pushes_told(struct sim_pushes *pushes, const char *client,
                     const struct resp_reply *reply);

#endif /* HASP_TESTS_SIM_SIM_PUSH_H */
