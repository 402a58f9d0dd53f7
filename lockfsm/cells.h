/* SPDX-License-Identifier: MIT */

/* Cells: several clusters that share one space of names, by prefix.
 *
 * Each cluster has a map of its own, changed by entries. A row is a prefix of
 * names that are this cluster's, or another's with its endpoints. The longest
 * prefix decides. Without a row a name is this cluster's, so a cluster
 * without a map, as almost all are, checks nothing.
 *
 * No name is granted by two clusters, because each decides at the place of the
 * entry in its own log, and a prefix passes only from one to the other:
 *
 *     GIVE   refused unless no lock and no fence exists under the prefix
 * (holds, waits, delays, Redis values, notes), and no restored client may still
 * believe in one (quarantine). From this entry on, everything under it is
 * refused here. The result is a receipt: giver, taker, epoch, index, highest
 * token. TAKE   only with that receipt, only at the cluster that it names.
 *
 * A receipt counts once. The epoch is a clock of hand-overs (Lamport): a GIVE
 * has one more than all that this cluster knows, and TAKE stores the receipt's.
 * So along the owners of a name the epochs grow, and a receipt that is not
 * above all rows that overlap its prefix was used, or is from before a later
 * one.
 *
 * Tokens grow from owner to owner: a TAKE is refused unless this cluster's
 * token_base is above the receipt's token. A fence therefore refuses tokens of
 * the giver as those of an earlier epoch (rule 21). A cluster founded later has
 * the higher base: prefixes move from the older to the younger cell.
 *
 * Two clusters that both have no map both own everything. So a new cell begins
 * with JOIN, while it is empty: nothing is its own. A restored cluster may have
 * given away what its map calls its own: nothing is, until CONFIRM. VOUCH takes
 * a prefix without a receipt; the operator answers for what it skips.
 *
 * A name of another cell is refused with RESULT_FOREIGN. What gives back
 * (RELEASE, CANCEL, CLOSE, KEEP, RELEASEIF, FENCE.REMOVE) is never refused. The
 * maps of clients are hints: a wrong one costs a refusal. */

#ifndef HASP_LOCKFSM_CELLS_H
#define HASP_LOCKFSM_CELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/list.h"
#include "lockfsm/model.h"

struct entry;
struct lockfsm;
struct result;

/* Changes of the map. Stored in entries: append only. */
enum cells_kind {
    CELLS_JOIN,   /* Nothing is this cluster's; only without a map. */
    CELLS_GIVE,   /* The prefix is now the taker's. */
    CELLS_TAKE,   /* With the giver's receipt. */
    CELLS_POINT,  /* Where a prefix of another cell is now; a hint. */
    CELLS_VOUCH,  /* Take the prefix without a receipt. */
    CELLS_CONFIRM /* The map of a restored cluster is right. */
};

/* The row that decides a name; NULL: none, so the name is this cluster's. */
const struct cell *lockfsm_cell_of(const struct lockfsm *fsm,
                                   struct bytes name);
/* True, with the refusal, if the name is another cell's. O(1) without a map;
 * the text is borrowed until the next call. */
bool lockfsm_name_is_foreign(struct lockfsm *fsm, struct bytes name,
                             struct result *ret_result);
/* True, with the refusal, if the entry would grant or admit something under a
 * name of another cell. Checked when it is applied, at every node alike; a
 * leader asks before that to save the entry. */
bool cells_refuse(struct lockfsm *fsm, const struct entry *command,
                  struct result *result);
/* All rows, by prefix. Nodes: cell.in_order. */
const struct list *lockfsm_cells(const struct lockfsm *fsm);
uint32_t lockfsm_cell_count(const struct lockfsm *fsm);
uint64_t lockfsm_cell_epoch(const struct lockfsm *fsm);
bool lockfsm_cells_are_doubtful(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_CELLS_H */
