/* SPDX-License-Identifier: MIT */

/* The oracle of backups: what a serving node sent, or what was made of a
 * directory, is the complete state that one entry left, with the configuration
 * of that entry. A file with any damage is refused with a reason. */

#ifndef HASP_TESTS_SIM_SIM_BACKUP_H
#define HASP_TESTS_SIM_SIM_BACKUP_H

#include "base/bytes.h"
#include "lockfsm/lockfsm.h"
#include "storage/table.h"
#include "tests/sim/sim.h"

/* A backup file. */
struct sim_backup {
    uint32_t life; /* Life of the node that it is from. */
    uint64_t log_index;
    uint64_t term;
    struct buffer bytes;
};
void sim_backup_done(struct sim_backup *backup);

/* The state in an intact file. */
struct sim_state {
    struct lockfsm *fsm;
    struct table *table;
};
/* False, and the run has failed, if the file cannot be loaded. */
bool sim_state_load(struct sim *sim, struct bytes file,
                    struct sim_state *ret_state);
void sim_state_done(struct sim_state *state);

/* Checks a file that was sent, or written, as intact. 'who' is for people. */
void sim_backup_check(struct sim *sim, const char *who,
                      const struct sim_backup *backup);
/* Flips a bit of the bytes, or removes some or adds some. */
void sim_backup_damage(struct sim *sim, struct buffer *bytes);

#endif /* HASP_TESTS_SIM_SIM_BACKUP_H */
