/* SPDX-License-Identifier: MIT */

/* A flood: in one run of four, if clients are not users in it, all clients but
 * the first send requests for four seconds after the calm, hundreds ahead of
 * their answers: PING, INFO, LOCK.HISTORY, LOCK.SHOW, scripts, futile
 * acquisitions. Requests take time then: a turn lasts as long as the units that
 * its account has spent (base/account.h), 20 us each, or 60 ms for a whole turn
 * if a turn has many.
 *
 * The first client is the bystander. It has a session of 1 s at each node and
 * renews it four times as often. Its session at the leader comes from a machine
 * that floods, so that its connection waits for its turn with those. It is
 * renewed just before it would expire, together with requests on ten other
 * connections of that machine, which have their turns before it: it lies unread
 * past the end of the session, and what has arrived in time counts (rule 6).
 * One more session holds a lock and falls silent.
 *
 * Oracle: no session of a bystander expires whose renewal has arrived in time.
 * Requests that renew, give back, cancel or close are never refused with BUSY.
 * If turns are short, no term begins. The silent holder ends within (T + T/4 +
 * I)/0.9 (rule 10) and 200 ms. */

#ifndef HASP_TESTS_SIM_SIM_FLOOD_H
#define HASP_TESTS_SIM_SIM_FLOOD_H

#include "tests/sim/sim.h"

struct sim_news;

/* Runs the flood, if this run has one. */
void sim_flood(struct sim *sim);
/* Handles news of its connections; true if the news was for one of them. */
bool sim_flood_feed(struct sim *sim, const struct sim_news *news);
/* The time that a turn takes for the units that it has spent; 0 outside of a
 * flood. */
uint64_t sim_flood_turn_ns(const struct sim *sim, uint64_t units);

#endif /* HASP_TESTS_SIM_SIM_FLOOD_H */
