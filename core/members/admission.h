/* SPDX-License-Identifier: MIT */

/* Guests: nodes that this node's log does not name yet.
 *
 * They were added while this node was away, and one of them may lead now or
 * need its vote: Raft's servers accept messages also from servers that their
 * own configuration does not contain (thesis, 4.1). What such a node reports
 * about itself counts for nothing, because anybody could report it: a member
 * that this node's log does name must have named it in a newer configuration
 * (FRAME_MEMBERS, which each node sends to those that know less). If none of
 * these members is left, the operator can name one node to trust, whose word
 * for others then counts as a member's (options.trusted). */

#ifndef HASP_CORE_MEMBERS_ADMISSION_H
#define HASP_CORE_MEMBERS_ADMISSION_H

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"

struct core;

/* The index of the newest configuration in the log; 0 if there is none. */
uint64_t admission_own_index(const struct core *core,
                             struct replica_members *ret_members);
/* True if this directory of 'id', which has a configuration of that index, is
 * admitted although the log does not name it. */
bool admission_admits(const struct core *core, uint64_t id,
                      uint64_t incarnation, uint64_t its_members_index);

/* A peer's HELLO has a configuration of that index. */
void admission_greeted(struct core *core, uint64_t id,
                       uint64_t its_members_index);
/* This node has a new configuration. */
void admission_changed(struct core *core);
MUST_CHECK int admission_received(struct core *core, uint64_t from,
                                  struct bytes body);

#endif /* HASP_CORE_MEMBERS_ADMISSION_H */
