/* SPDX-License-Identifier: MIT */

/* A flood: in one run of four, if clients are not users in it, all clients but
 * the first send requests for four seconds after the calm, hundreds ahead of
 * their answers: PING, INFO, LOCK.HISTORY, LOCK.SHOW, scripts, acquisitions in
 * vain. Requests take time then: a turn lasts as long as the units say that its
 * account has spent (base/account.h), 20 us each, or 60 ms for a whole turn
 * where a turn has many.
 *
 * The first client is the bystander. It has a session of 1 s at each node and
 * renews it four times as often. The one at the leader comes from a machine
 * that floods, so that its connection waits for its turn beside those, and is
 * renewed just before it would expire: what has come in time counts (rule 6).
 * One more session holds a lock and falls silent.
 *
 * Oracle: no session of a bystander expires; what renews, gives back, cancels
 * or closes is never refused with BUSY; where turns are short, no term begins;
 * the silent holder ends within (T + T/4 + I)/0.9 (rule 10) and 200 ms. */

#ifndef HASP_TESTS_SIM_SIM_FLOOD_H
#define HASP_TESTS_SIM_SIM_FLOOD_H

#include "tests/sim/sim.h"

struct sim_news;

/* Runs the flood, if this run has one. */
void sim_flood(struct sim *sim);
/* Takes news of its connections; true if it was for one. */
bool sim_flood_feed(struct sim *sim, const struct sim_news *news);
/* How long a turn that has spent so many units takes for that; 0 outside of a
 * flood. */
uint64_t sim_flood_turn_ns(const struct sim *sim, uint64_t units);

#endif /* HASP_TESTS_SIM_SIM_FLOOD_H */
