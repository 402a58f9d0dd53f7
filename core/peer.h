/* SPDX-License-Identifier: MIT */

/* The other nodes, as far as the core cares: up or down, and whose. */

#ifndef HASP_CORE_PEER_H
#define HASP_CORE_PEER_H

#include "base/list.h"
#include "core/clock_rate.h"
#include "core/digests.h"
#include "net/frame.h"

#define PEER_COUNT_MAX 32

struct core;

struct peer {
    uint64_t id;                  /* 0: free. */
    struct digest_points digests; /* Of that directory. */
    bool is_up;
    uint64_t incarnation;
    uint32_t feature_level; /* As it last announced. */
    struct clock_rate clock;
    bool is_clock_known;
    int32_t clock_ppm;    /* Then: as at the last look. */
    bool is_clock_logged; /* That it differs. */
    uint64_t acked_term;  /* That directory's log was durable, when this ... */
    uint64_t acked_index; /* ... node led in acked_term; 0: not known. */
    bool has_lost;        /* It is not any more. */
    bool says_removed;    /* That this node was. */
    bool has_asked;       /* Whether that is so: with this accusation, ... */
    struct frame_lost asked;
    uint64_t question; /* ... to be answered after this confirmed question. */
    bool is_removed;   /* Its connection counts no more, as of the next look. */
    uint64_t registering_term;  /* In which this connection's directory was
                                   proposed for registration. */
    struct frame_members named; /* By it; index 0: it has not said. */
    struct list attachments;
};

/* NULL if nothing is known of it. */
struct peer *peer_find(struct core *core, uint64_t id);
/* Likewise, but makes room; NULL only if PEER_COUNT_MAX are known. */
struct peer *peer_get(struct core *core, uint64_t id);
bool peer_is_up(struct core *core, uint64_t id);
/* Where a frame of this type for it goes; NULL if it is not up, or does not
 * know such frames. */
struct buffer *peer_output(struct core *core, uint64_t id,
                           enum frame_type type);

#endif /* HASP_CORE_PEER_H */
