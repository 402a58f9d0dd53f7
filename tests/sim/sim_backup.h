/* SPDX-License-Identifier: MIT */

/* The oracle of backups: what a node told while it served, or what was made of
 * a directory, is the state that one entry left, whole, with the configuration
 * of that entry; and a file that was damaged anywhere is refused with a
 * reason. */

#ifndef HASP_TESTS_SIM_SIM_BACKUP_H
#define HASP_TESTS_SIM_SIM_BACKUP_H

#include "base/bytes.h"
#include "lockfsm/lockfsm.h"
#include "storage/table.h"
#include "tests/sim/sim.h"

/* A file. */
struct sim_backup {
    uint32_t life; /* Of the node that it is from. */
    uint64_t log_index;
    uint64_t term;
    struct buffer bytes;
};
void sim_backup_done(struct sim_backup *backup);

/* The state in a file, which is good. */
struct sim_state {
    struct lockfsm *fsm;
    struct table *table;
};
/* False, and the run has failed, if it cannot be loaded. */
bool sim_state_load(struct sim *sim, struct bytes file,
                    struct sim_state *ret_state);
void sim_state_done(struct sim_state *state);

/* It was told, or written, as good. 'who' is for people. */
void sim_backup_check(struct sim *sim, const char *who,
                      const struct sim_backup *backup);
/* Flips a bit of the bytes, or takes some off or adds some. */
void sim_backup_damage(struct sim *sim, struct buffer *bytes);

#endif /* HASP_TESTS_SIM_SIM_BACKUP_H */
