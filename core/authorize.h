/* SPDX-License-Identifier: MIT */

/* The gate: may who asks do that?
 *
 * One place decides it for all that is no entry, by the row of the command's
 * table (enum command_needs) and the names of its call: at the asked node for
 * what that answers alone, at the leader when it answers, so that a right that
 * was withdrawn meanwhile does not count. What becomes an entry is decided when
 * that is applied (lockfsm/user/access.h); here only who asks is looked at,
 * since the log does not carry the secret by which he came. */

#ifndef HASP_CORE_AUTHORIZE_H
#define HASP_CORE_AUTHORIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/model.h"

struct call;
struct core;
struct request;

/* True if 'request' may go on. Else it has been refused, with NOAUTH or NOPERM;
 * or, where 'is_final' is false, it waits for this leader to be confirmed, and
 * is decided on again then: another may lead, and know better (rule 13). */
bool authorize_passes(struct core *core, struct request *request,
                      const struct call *call, bool is_final);
/* Likewise of the keys of a command or script of Redis that may become an
 * entry, before it is carried out: whatever it answers, and whether it comes to
 * an entry, tells of them. It goes on for who may read or lock each of them; a
 * value of his own he may give back whatever he may do by now. */
bool authorize_passes_keys(struct core *core, struct request *request,
                           const struct call *call, bool is_final);
/* True if who asks has that verb of the cluster. */
bool authorize_has(const struct core *core, const struct request *request,
                   enum verb verb);
/* True if who asks may read that lock. */
bool authorize_reads(const struct core *core, const struct request *request,
                     struct bytes name);
/* True if who asks sees what is private to a session of that user. */
bool authorize_sees(const struct core *core, const struct request *request,
                    uint64_t user);
/* True if the encoded entry in the batch of 'request' would be refused when it
 * is applied; then it has been, or waits, as above. */
bool authorize_refuses_entry(struct core *core, struct request *request,
                             struct bytes command);

#endif /* HASP_CORE_AUTHORIZE_H */
