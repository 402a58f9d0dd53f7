/* SPDX-License-Identifier: MIT */

/* The oracle of the members' places: which directories the log names, and how a
 * lost one is replaced. It is derived from committed entries, and from the
 * configurations in the leaders' logs:
 *
 *     no two members have one directory, and a directory that was removed is
 *     never named again;
 *     a leader that removes the directory of a voter which is being replaced
 *     hears all other voters;
 *     without a request, the leader replaces a directory of an id once an hour
 *     (the simulator's wall clock stands still), only with
 *     cluster.replace_empty, and only by a directory whose volume is marked. */

#ifndef HASP_TESTS_SIM_SIM_PLACES_H
#define HASP_TESTS_SIM_SIM_PLACES_H

#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_places;

struct sim_places *sim_places_new(struct sim *sim);
void sim_places_free(struct sim_places *places);

/* cluster.replace_empty of this run; 0: never. */
uint64_t sim_places_empty_ns(const struct sim *sim);
/* A committed entry, when the first node applies it. 'members' are those after
 * it. */
void sim_places_entry(struct sim_places *places,
                      const struct replica_entry *entry,
                      const struct replica_members *members);
/* The newest configuration in the log of a node has changed. */
void sim_places_look(struct sim_places *places, struct sim_node *node,
                     const struct replica_members *before,
                     const struct replica_members *after);

#endif /* HASP_TESTS_SIM_SIM_PLACES_H */
