/* SPDX-License-Identifier: MIT */

/* Do all nodes have the same state?
 *
 * Each node computes the digest of its state (lockfsm_digest()) at each 8192nd
 * entry, and when it has been idle for a while: so sooner or later at the same
 * indexes as the others. It sends the digest to its leader, which compares
 * them. A node that differs from a majority of the voters is notified
 * (FRAME_DIVERGED). It checks that this is true, records that nothing may start
 * from its directory again, and stops; a leader that differs does the same. If
 * no majority agrees, nobody can say which node is right: the leader logs that
 * until a majority does.
 *
 * This finds differences between nodes. The scrub finds a record that was
 * damaged in one of them while no entry uses it: it checks a few records at
 * each step (lockfsm_scrub()). Then the node stops, too, but may start again:
 * it reads what is on disk, where the same sum must result. */

#ifndef HASP_CORE_MEMBERS_DIGESTS_H
#define HASP_CORE_MEMBERS_DIGESTS_H

#include "base/bytes.h"
#include "base/err.h"
#include "net/frame.h"

struct core;

/* The newest digests of a state. */
#define DIGEST_POINT_COUNT 16
struct digest_points {
    struct frame_digest point[DIGEST_POINT_COUNT]; /* log_index 0: none. */
    uint32_t next;
};

/* Lives as long as the core. */
struct digests {
    struct digest_points own;
    uint64_t applied_index;  /* At the last check, and ... */
    uint64_t quiet_since_ns; /* ... since when it has been that. */
    uint64_t scrub_due_ns;
    uint64_t sent_index; /* The newest point that ... */
    uint64_t sent_to;    /* ... was sent to this leader; 0: none. */
    /* A leader's: the index at which a majority agreed. */
    uint64_t agreed_index;
    /* The index at which members differed without a majority. */
    uint64_t differs_index;
};

/* The entry 'log_index' has just been applied. */
void digests_applied(struct core *core, uint64_t log_index);
void digests_turn(struct core *core);
uint64_t digests_next(const struct core *core);
/* Digests on their way to this peer may be lost. */
void digests_peer_lost(struct core *core, uint64_t id);
MUST_CHECK int digests_received(struct core *core, uint64_t from,
                                struct bytes body);
MUST_CHECK int digests_diverged(struct core *core, uint64_t from,
                                struct bytes body);

#endif /* HASP_CORE_MEMBERS_DIGESTS_H */
