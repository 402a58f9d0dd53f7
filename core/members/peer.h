/* SPDX-License-Identifier: MIT */

/* The other nodes: up or down, and which data directory each has. */

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
    struct digest_points digests; /* The digests of that directory. */
    bool is_up;
    uint64_t incarnation; /* The rest of its HELLO is for standing.h. */
    uint64_t members_index;
    uint64_t last_term;
    uint64_t last_index;
    uint32_t feature_level; /* As last announced. */
    struct clock_rate clock;
    bool is_clock_known;
    struct clock_range clock_range; /* In that case: as last measured. */
    bool is_clock_logged;           /* It was logged that the clock differs. */
    uint64_t clock_echo_ns;     /* Its newest time, 0: none by this link ... */
    uint64_t clock_received_ns; /* ... and when it was received. */
    struct disk_report disk;
    uint64_t acked_term;  /* The directory's log was durable up to ... */
    uint64_t acked_index; /* ... here when this node led; 0: unknown. */
    bool has_lost;        /* It has lost a part of that. */
    bool says_removed;    /* It reports that this node was removed. */
    bool has_asked;       /* It asks about this accusation, ... */
    struct frame_lost asked;
    uint64_t question; /* ... to be answered once this question is confirmed. */
    bool is_removed;   /* At the last check: its link is to be closed. */
    /* The members that it has named; index 0: none. */
    struct frame_members named;
    struct list attachments;
};

/* NULL if the node is unknown. */
struct peer *peer_find(struct core *core, uint64_t id);
const struct peer *peer_look(const struct core *core, uint64_t id);
/* Finds or adds it; NULL only if PEER_COUNT_MAX are known. */
struct peer *peer_get(struct core *core, uint64_t id);
/* True if there is a link with the directory that the configuration names:
 * another directory with that node id does not speak for the member. */
bool peer_is_up(const struct core *core, uint64_t id);
/* Where to append a frame of this type for it; NULL if it is not up, does not
 * know such frames, or is not admissible (core/members/standing.h). */
struct buffer *peer_output(struct core *core, uint64_t id,
                           enum frame_type type);

#endif /* HASP_CORE_MEMBERS_PEER_H */
