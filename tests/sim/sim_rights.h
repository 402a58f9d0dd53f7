/* SPDX-License-Identifier: MIT */

/* The rights of each user, as the log has them: users, roles, access and
 * revoked certificates, kept apart from the state machine and by separate
 * rules, one version for each entry that changed them.
 *
 * Oracle: an entry that was carried out was allowed by the rights at its index,
 * and one that was refused for lack of them was not allowed. What belongs to
 * another user is ended or renewed only by RELEASEIF or the blacklist. A change
 * of rights ends the waits that are no longer allowed, only those, and never a
 * hold. A user has what the log granted, within the user's quotas, and a
 * request that gives back is not refused for them. Answers about rights are
 * checked against the versions between request and answer. */

#ifndef HASP_TESTS_SIM_SIM_RIGHTS_H
#define HASP_TESTS_SIM_SIM_RIGHTS_H

#include "tests/sim/sim.h"
#include "tests/sim/sim_may.h"

struct sim_rights;

struct sim_rights *sim_rights_new(struct sim *sim);
void sim_rights_free(struct sim_rights *rights);
/* The entry at 'place' (sim_check.h) is applied for the first time anywhere.
 * 'is_repeated': an earlier entry had its number. */
void sim_rights_entry(struct sim_rights *rights, uint64_t place, uint64_t token,
                      const struct entry *command, bool is_repeated,
                      const struct effects *effects, const struct lockfsm *fsm);
/* A new life has begun there with this state. */
void sim_rights_begin_life(struct sim_rights *rights, uint64_t place,
                           const struct lockfsm *fsm);

/* By the newest entry. */
const struct rights *sim_rights_now(const struct sim_rights *rights);
/* The versions valid at some place between the two, in order; until the next
 * entry. */
const struct rights *sim_rights_between(const struct sim_rights *rights,
                                        uint64_t from, uint64_t to,
                                        uint32_t *ret_count);
/* By the newest entry: may the wait of that request continue? */
bool sim_rights_lets_wait(const struct sim_rights *rights, uint64_t wait_index);
/* The number of a user's sessions. */
uint32_t sim_rights_session_count(const struct sim_rights *rights,
                                  uint64_t number);

#endif /* HASP_TESTS_SIM_SIM_RIGHTS_H */
