/* SPDX-License-Identifier: MIT */

/* Time that the loop's thread spends in each stage of a pass, for the metrics.
 *
 * A pass lasts from the first bytes of a poll until the loop polls again.
 * During one stage everything else waits, so the longest stage shows how long
 * any request of a client can be delayed.
 *
 * Pure: times are arguments. Threads: one. */

#ifndef HASP_NODE_LOOP_PROFILE_H
#define HASP_NODE_LOOP_PROFILE_H

#include <stdint.h>

#include "base/histogram.h"

enum stage {
    STAGE_RECEIVE, /* Reading, parsing, checking input; accepting. */
    STAGE_PROPOSE, /* Deciding; passing a batch of entries to Raft. */
    STAGE_APPLY,   /* Applying entries and making their answers. */
    STAGE_TABLE,   /* Passing changes to the table's writer. */
    STAGE_UPKEEP,  /* Snapshots, digests, the scrub, watchers. */
    STAGE_SEND,    /* Writing to the log's thread and to other nodes. */
    STAGE_REPLY,   /* Writing answers to sockets. */
    STAGE_REST,    /* Handshakes, timers, closing connections. */
    STAGE_COUNT
};
extern const char *const stage_names[STAGE_COUNT];

/* Zeroed memory is a sleeping loop. */
struct loop_profile {
    /* Time up to which all is counted; 0: asleep. */
    uint64_t at_ns;
    uint64_t spent_ns[STAGE_COUNT]; /* In this pass. */
    struct histogram times[STAGE_COUNT];
    uint64_t max_ns[STAGE_COUNT];
};

/* The loop starts to work at 'now_ns'; ignored if it works already. */
void loop_profile_begin(struct loop_profile *loop_profile, uint64_t now_ns);
/* Counts the time since the last call for 'stage'; ignored while the loop
 * sleeps. */
void loop_profile_end(struct loop_profile *loop_profile, enum stage stage,
                      uint64_t now_ns);
/* The pass is over: adds its times to the histograms. */
void loop_profile_sleep(struct loop_profile *loop_profile);
/* The stage in which this pass has spent the most time, or "none". */
const char *loop_profile_longest(const struct loop_profile *loop_profile);

#endif /* HASP_NODE_LOOP_PROFILE_H */
