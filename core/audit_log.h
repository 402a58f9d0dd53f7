/* SPDX-License-Identifier: MIT */

/* Administration in the log: each entry of it is a line on each node that
 * applies it, with who asked, from where, what, and whose session and locks it
 * is about (lockfsm/user/trail.h has the table of entries). What has no entry,
 * since it changes nothing that is shared, is a line of the node that does it.
 *
 * After a start the newest entries may be applied, and told, again: 'index'
 * says which is which. */

#ifndef HASP_CORE_AUDIT_LOG_H
#define HASP_CORE_AUDIT_LOG_H

#include "base/bytes.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "raft/replica.h"

struct core;
struct request;

/* To be called while a request is decided on. Appends who asks to its encoded
 * entry. */
void audit_log_append(struct core *core, const struct request *request,
                      struct buffer *out);
/* A line of this node alone: 'request' is carried out here. */
void audit_log_log(const struct request *request);
/* Proposes the entry that tells of a change of the members; 'asker' is what
 * audit_log_append() has made when it was asked for. */
void audit_log_act(struct core *core, enum act_kind kind, uint64_t member,
                   const char *address, struct bytes asker);

/* The line of the entry that was applied last, if it deserves one. */
void audit_log_applied(struct core *core, const struct effects *effects);
/* A configuration was applied. */
void audit_log_members(struct core *core, uint64_t log_index,
                       const struct replica_members *members);

#endif /* HASP_CORE_AUDIT_LOG_H */
