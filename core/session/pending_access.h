/* SPDX-License-Identifier: MIT */

/* Changes of users and access that were in the log when this node started, and
 * that it has not applied yet.
 *
 * A starting node applies nothing before it hears a leader. After a power
 * failure its state may be a million entries older than its log: since then
 * access may have been required, a secret removed, a certificate revoked. So
 * the node reads those changes from its log when it starts, and respects them
 * until it has applied the newest of them:
 *
 *   - access is required if one of them requires it;
 *   - a certificate is revoked if one of them revokes it;
 *   - if one of them may remove a right, a secret or a user, no client can
 *     authenticate with a secret or a certificate.
 *
 * The local socket is always open. Entries that a leader truncates no longer
 * count. None of this is part of the replicated state. */

#ifndef HASP_CORE_SESSION_PENDING_ACCESS_H
#define HASP_CORE_SESSION_PENDING_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockfsm/model.h"
#include "raft/replica.h"

struct core;

#define PENDING_ACCESS_WHY                                              \
    "this node has not yet applied changes of users and access in its " \
    "log, and waits for a leader: try another node"

/* Lives as long as the core. */
struct pending_access {
    uint64_t until_index; /* Of the newest change; 0: none. */
    bool requires_access; /* A change requires access. */
    bool takes_rights;    /* A change may remove a right. */
    uint8_t (*revoked)[FINGERPRINT_SIZE];
    uint32_t revoked_count;
    uint32_t revoked_capacity;
};

/* The state has been loaded; 'start' has the log. */
void pending_access_begin(struct core *core, const struct replica_start *start);
/* The log is truncated from this index on. */
void pending_access_truncated(struct core *core, uint64_t from_index);
void pending_access_done(struct pending_access *pending);
bool pending_access_requires(const struct core *core);
bool pending_access_takes(const struct core *core);
bool pending_access_revokes(const struct core *core,
                            const uint8_t fingerprint[FINGERPRINT_SIZE]);

#endif /* HASP_CORE_SESSION_PENDING_ACCESS_H */
