/* SPDX-License-Identifier: MIT */

/* What clients of every kind believe that they hold at this moment, by their
 * own clocks; and the oracles on that:
 *
 *   one believer per exclusive lock, as many as slots for a semaphore
 *   the client ends first: nobody believes in a hold that an entry has ended */

#ifndef HASP_TESTS_SIM_SIM_BELIEF_H
#define HASP_TESTS_SIM_SIM_BELIEF_H

#include "lockfsm/model.h"
#include "tests/sim/sim.h"

struct sim_client;

/* One owner's belief in one lock; everything is borrowed. */
struct sim_belief {
    struct sim_client *client;
    uint64_t session;
    const char *tag;
    uint32_t lock;
    enum lock_mode mode;
    uint64_t token; /* An upgrade may have brought a later token. */
};
typedef void sim_belief_fn(void *data, const struct sim_belief *belief);

/* Checks all beliefs of a client after it has worked: beliefs that overlap do
 * so when one of them begins, and beliefs begin in no other way. */
void sim_beliefs_check(struct sim_client *client);
/* An entry has ended a hold; not by an upgrade. */
void sim_beliefs_end(struct sim *sim, uint64_t log_index, struct bytes lock,
                     uint64_t session, struct bytes owner, uint64_t token);

#endif /* HASP_TESTS_SIM_SIM_BELIEF_H */
