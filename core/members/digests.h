/* SPDX-License-Identifier: MIT */

/* Do all nodes have the same state?
 *
 * Each node takes the digest of its state (lockfsm_digest()) at each 8192nd
 * entry, and where it has been idle for a while: so at the same indexes as the
 * others, sooner or later. It sends it to its leader, which compares. Who
 * differs from what a majority of the voters has is told (FRAME_DIVERGED),
 * looks whether that is so, writes down that nothing may start from its
 * directory again, and stops; if it is the leader itself, likewise. Where no
 * majority is known nobody can say who is right: that is logged, until one is.
 *
 * What differs between two nodes is found so; what rots in one of them, while
 * no entry touches it, by the scrub: a few records at each step
 * (lockfsm_scrub()). Then the node stops, too, and may start again: it reads
 * what is on disk, where the same sum has to come out. */

#ifndef HASP_CORE_MEMBERS_DIGESTS_H
#define HASP_CORE_MEMBERS_DIGESTS_H

#include "base/bytes.h"
#include "base/err.h"
#include "net/frame.h"

struct core;

/* What the newest digests of a state were. */
#define DIGEST_POINT_COUNT 16
struct digest_points {
    struct frame_digest point[DIGEST_POINT_COUNT]; /* log_index 0: none. */
    uint32_t next;
};

/* Lives as long as the core. */
struct digests {
    struct digest_points own;
    uint64_t applied_index;  /* At the last look, and ... */
    uint64_t quiet_since_ns; /* ... since when it is that. */
    uint64_t scrub_due_ns;
    uint64_t sent_index;    /* The newest point that ... */
    uint64_t sent_to;       /* ... this leader has been sent; 0: none. */
    uint64_t agreed_index;  /* Of a leader: a majority had the same there. */
    uint64_t differs_index; /* Here they differed, and no majority was known. */
};

/* The entry 'log_index' has just been applied. */
void digests_applied(struct core *core, uint64_t log_index);
void digests_turn(struct core *core);
uint64_t digests_next(const struct core *core);
/* What was on its way to it may be lost. */
void digests_peer_lost(struct core *core, uint64_t id);
MUST_CHECK int digests_received(struct core *core, uint64_t from,
                                struct bytes body);
MUST_CHECK int digests_diverged(struct core *core, uint64_t from,
                                struct bytes body);

#endif /* HASP_CORE_MEMBERS_DIGESTS_H */
