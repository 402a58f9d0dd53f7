/* SPDX-License-Identifier: MIT */

/* Administration in the log for people. Each node logs a line for each
 * administrative entry that it applies: who made the request, from where, what
 * it was, and which session and locks it concerned (lockfsm/user/trail.h has
 * the table of entries). An act without an entry, because it changes nothing
 * shared, is logged only by the node that does it.
 *
 * After a start the newest entries may be applied and logged again; 'index'
 * shows which lines are repeated. */

#ifndef HASP_CORE_AUDIT_LOG_H
#define HASP_CORE_AUDIT_LOG_H

#include "base/bytes.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "raft/replica.h"

struct core;
struct request;

/* Sets who has made the request in its entry; texts are borrowed from the
 * request. Called while the request is decided on. */
void audit_log_sign(struct core *core, const struct request *request,
                    struct entry *entry);
/* Logs a line on this node only: 'request' is executed here. */
void audit_log_log(const struct request *request);
/* Proposes the entry that records a change of the members; 'asker' is an
 * encoded entry without a command, signed when the change was requested. */
void audit_log_act(struct core *core, enum act_kind kind, uint64_t member,
                   const char *address, uint64_t incarnation,
                   struct bytes asker);

/* Logs the line of the entry that was applied last, if it has one. */
void audit_log_applied(struct core *core, const struct effects *effects);
/* Logs a configuration that was applied. */
void audit_log_members(struct core *core, uint64_t log_index,
                       const struct replica_members *members);

#endif /* HASP_CORE_AUDIT_LOG_H */
