/* SPDX-License-Identifier: MIT */

/* A cluster is ended and restored into a new life, as docs/operations.md
 * describes: all nodes are stopped, and node/backup.c restores a backup, taken
 * before or made of a directory, on one of them, on the disk in memory. The
 * others begin empty and are added. The restore is sometimes interrupted, and
 * damaged files are tried first. The new number of members may differ.
 *
 * Half of the times one node of the former life is forgotten: it continues to
 * run, or restarts, with its old directory, until it is wiped. Clients are the
 * old ones; some still trust their leases.
 *
 * Oracles:
 *
 * - a restore keeps what docs/operations.md lists and drops the rest; after an
 *   interrupted restore only a complete one starts;
 * - no node serves in a former life, tokens of a life are above all earlier
 *   ones, ids of clusters differ, and the tokens of a former life are not
 *   admitted (sim_check.c, sim_told.c, sim_saver.h);
 * - in the quarantine nothing is granted; it has the requested length
 *   (sim_silence.h), and so no two clients believe across lives
 *   (sim_belief.h);
 * - a watcher gets a gap between lives (sim_watcher.h). */

#ifndef HASP_TESTS_SIM_SIM_RESTORE_H
#define HASP_TESTS_SIM_SIM_RESTORE_H

#include "tests/sim/sim_backup.h"

struct sim_restore;

struct sim_restore *sim_restore_new(struct sim *sim);
/* After everything else was created. */
void sim_restore_begin(struct sim_restore *restore);
void sim_restore_free(struct sim_restore *restore);

/* True if this run is restored. */
bool sim_restore_is_planned(const struct sim *sim);
/* True if backups are taken in this run. */
bool sim_restore_is_saved(const struct sim *sim);
/* A backup was taken: keeps a copy. */
void sim_restore_keep(struct sim *sim, const struct sim_backup *backup);
/* True if a node is to be added after a restore: then it has been prepared. */
bool sim_restore_wants_member(struct sim *sim, struct sim_node **ret_node);
/* True if that node runs in a former life, and the operator does not know it
 * yet. */
bool sim_restore_has_forgotten(const struct sim *sim,
                               const struct sim_node *node);
/* A token of the life before, higher than all that it has granted. */
uint64_t sim_restore_late_token(const struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_RESTORE_H */
