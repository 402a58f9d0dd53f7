/* SPDX-License-Identifier: MIT */

/* Authorization: may the requester do this?
 *
 * Everything without an entry is decided here, from the row in the table of
 * commands (enum command_needs) and the names in the call: at the asked node
 * for what that node answers alone, and at the leader when it answers, so that
 * a right revoked meanwhile no longer counts. What becomes an entry is decided
 * when the entry is applied (lockfsm/user/access.h); here only the requester is
 * checked, because the log does not carry the secret that authenticated it. */

#ifndef HASP_CORE_AUTHORIZE_H
#define HASP_CORE_AUTHORIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/model.h"

struct call;
struct core;
struct entry;
struct request;

/* True if 'request' may proceed. Otherwise it has been refused with NOAUTH or
 * NOPERM. If 'is_final' is false, it may wait instead until this leader is
 * confirmed, and is then decided on again: another node may lead and have newer
 * rights (rule 13). */
bool authorize_passes(struct core *core, struct request *request,
                      const struct call *call, bool is_final);
/* The same check for the keys of a Redis command or script that may become an
 * entry. It is made before the command runs, because the answer, and whether
 * there is an entry at all, discloses the keys. The user passes if it may read
 * or lock each key; it may always release its own value, whatever its rights
 * are now. */
bool authorize_passes_keys(struct core *core, struct request *request,
                           const struct call *call, bool is_final);
/* True if the names that a confirmed read asks for are this cell's
 * (lockfsm/cells.h). Otherwise it has been refused with FOREIGN: "not held"
 * would be wrong. redis_read() checks keys itself. */
bool authorize_is_own(struct core *core, struct request *request,
                      const struct call *call);
/* True if the requester has this verb of the cluster. */
bool authorize_has(const struct core *core, const struct request *request,
                   enum verb verb);
/* True if the requester may read this lock. */
bool authorize_reads(const struct core *core, const struct request *request,
                     struct bytes name);
/* True if the requester may see what is private to a session of this user. */
bool authorize_sees(const struct core *core, const struct request *request,
                    uint64_t user);
/* True if the entry of 'request' would be refused when it is applied. The
 * request has then been refused, or waits as above. */
bool authorize_refuses_entry(struct core *core, struct request *request,
                             const struct entry *entry);

#endif /* HASP_CORE_AUTHORIZE_H */
