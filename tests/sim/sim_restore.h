/* SPDX-License-Identifier: MIT */

/* A cluster is ended and restored into a new life, as docs/operations.md says:
 * all nodes are stopped, a backup that was taken before (or one that is made of
 * a directory) is restored on one of them by node/backup.c, on the disk in
 * memory; the others begin empty and are added. The restore is cut short at
 * times, and damaged files are tried first. Another number of members may be
 * wanted than before.
 *
 * Half of the times one node of the former life is forgotten: it runs on, or
 * comes up again, with its old directory, until it is wiped. Clients are the
 * old ones; some still trust their leases.
 *
 * Oracles:
 *
 *   - a restore keeps what docs/operations.md says and drops the rest; of one
 *     that was cut short nothing starts but a whole one;
 *   - nobody serves in a life that is over, tokens of a life are above all
 *     before it, ids of clusters differ, and the tokens of a former life are
 *     not admitted (sim_check.c, sim_told.c, sim_saver.h);
 *   - in the quarantine nothing is granted; it is as long as was asked for
 *     (sim_silence.h), and so nobody believes twice across lives
 *     (sim_belief.h);
 *   - whoever watches is told of a gap between lives (sim_watcher.h). */

#ifndef HASP_TESTS_SIM_SIM_RESTORE_H
#define HASP_TESTS_SIM_SIM_RESTORE_H

#include "tests/sim/sim_backup.h"

struct sim_restore;

struct sim_restore *sim_restore_new(struct sim *sim);
/* When all else is there. */
void sim_restore_begin(struct sim_restore *restore);
void sim_restore_free(struct sim_restore *restore);

/* True if this run is restored. */
bool sim_restore_is_planned(const struct sim *sim);
/* True if backups are taken in this run. */
bool sim_restore_is_saved(const struct sim *sim);
/* A backup was taken: keeps a copy. */
void sim_restore_keep(struct sim *sim, const struct sim_backup *backup);
/* True if, after a restore, a node is to be added: then it has been made ready.
 */
bool sim_restore_wants_member(struct sim *sim, struct sim_node **ret_node);
/* True if that node runs in a life that is over, and the operator does not know
 * it yet. */
bool sim_restore_has_forgotten(const struct sim *sim,
                               const struct sim_node *node);
/* A token of the life before, higher than all that it has granted. */
uint64_t sim_restore_late_token(const struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_RESTORE_H */
