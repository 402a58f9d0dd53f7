/* SPDX-License-Identifier: MIT */

/* The other nodes, as far as the core cares: up or down, and whose. */

#ifndef HASP_CORE_MEMBERS_PEER_H
#define HASP_CORE_MEMBERS_PEER_H

#include "base/list.h"
#include "core/members/clock_rate.h"
#include "core/members/digests.h"
#include "core/members/disks.h"
#include "net/frame.h"

#define PEER_COUNT_MAX 32

struct core;

struct peer {
    uint64_t id;                  /* 0: free. */
    struct digest_points digests; /* Of that directory. */
    bool is_up;
    uint64_t incarnation; /* The rest of its greeting is for standing.h. */
    uint64_t members_index;
    uint64_t last_term;
    uint64_t last_index;
    uint32_t feature_level; /* As it last announced. */
    struct clock_rate clock;
    bool is_clock_known;
    int32_t clock_ppm;    /* Then: as at the last look. */
    bool is_clock_logged; /* That it differs. */
    struct disk_report disk;
    uint64_t acked_term;  /* That directory's log was durable, when this ... */
    uint64_t acked_index; /* ... node led in acked_term; 0: not known. */
    bool has_lost;        /* It is not any more. */
    bool says_removed;    /* That this node was. */
    bool has_asked;       /* Whether that is so: with this accusation, ... */
    struct frame_lost asked;
    uint64_t question; /* ... to be answered after this confirmed question. */
    bool is_removed;   /* Its connection counts no more, as of the next look. */
    struct frame_members named; /* By it; index 0: it has not said. */
    struct list attachments;
};

/* NULL if nothing is known of it. */
struct peer *peer_find(struct core *core, uint64_t id);
const struct peer *peer_look(const struct core *core, uint64_t id);
/* Likewise, but makes room; NULL only if PEER_COUNT_MAX are known. */
struct peer *peer_get(struct core *core, uint64_t id);
/* True if there is a link with the directory that the configuration names: what
 * another one under that number says is not the member's word. */
bool peer_is_up(const struct core *core, uint64_t id);
/* Where a frame of this type for it goes; NULL if it is not up, does not know
 * such frames, or has no standing (core/members/standing.h). */
struct buffer *peer_output(struct core *core, uint64_t id,
                           enum frame_type type);

#endif /* HASP_CORE_MEMBERS_PEER_H */
