/* SPDX-License-Identifier: MIT */

/* Who may do what, as the log says: users, roles, access and revoked
 * certificates, kept apart from the state machine and by rules of their own,
 * one version for each entry that changed them.
 *
 * Oracle: an entry that was carried out was allowed by the rights at its index,
 * and one that was refused for want of them was not; nobody ends or renews what
 * is another's but by RELEASEIF or the blacklist; a change of rights ends the
 * waits that are no longer allowed, those alone, and never a hold; a user has
 * what the log gave him, within his quotas, and what gives back is not refused
 * for them. What clients are told of rights is held against the versions
 * between their question and the answer. */

#ifndef HASP_TESTS_SIM_SIM_RIGHTS_H
#define HASP_TESTS_SIM_SIM_RIGHTS_H

#include "tests/sim/sim.h"
#include "tests/sim/sim_may.h"

struct sim_rights;

struct sim_rights *sim_rights_new(struct sim *sim);
void sim_rights_free(struct sim_rights *rights);
/* The entry at 'place' (sim_check.h) is applied for the first time anywhere.
 * 'is_repeated': its number was asked by an entry before it. */
void sim_rights_entry(struct sim_rights *rights, uint64_t place, uint64_t token,
                      const struct entry *command, bool is_repeated,
                      const struct effects *effects, const struct lockfsm *fsm);
/* A new life has begun there with this state. */
void sim_rights_begin_life(struct sim_rights *rights, uint64_t place,
                           const struct lockfsm *fsm);

/* By the newest entry. */
const struct rights *sim_rights_now(const struct sim_rights *rights);
/* The versions that stood at some place between the two, in their order; until
 * the next entry. */
const struct rights *sim_rights_between(const struct sim_rights *rights,
                                        uint64_t from, uint64_t to,
                                        uint32_t *ret_count);
/* By the newest entry: may the request that waits there go on waiting? */
bool sim_rights_lets_wait(const struct sim_rights *rights, uint64_t wait_index);
/* The sessions that a user has. */
uint32_t sim_rights_session_count(const struct sim_rights *rights,
                                  uint64_t number);

#endif /* HASP_TESTS_SIM_SIM_RIGHTS_H */
