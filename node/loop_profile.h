/* SPDX-License-Identifier: MIT */

/* Where the one thread of the loop spends its time: in each pass, by stage, for
 * the metrics.
 *
 * A pass goes from the first bytes that the poll has brought until the loop
 * polls again. While one stage lasts everything else waits, so the longest of
 * them says what a client may be held up by, whatever it asks.
 *
 * Pure: the times come in. Threads: one. */

#ifndef HASP_NODE_LOOP_PROFILE_H
#define HASP_NODE_LOOP_PROFILE_H

#include <stdint.h>

#include "base/histogram.h"

enum stage {
    STAGE_RECEIVE, /* Reading, parsing, checking what has come; accepting. */
    STAGE_PROPOSE, /* Deciding; a batch of entries to Raft. */
    STAGE_APPLY,   /* Entries into the state, and their answers. */
    STAGE_TABLE,   /* What has changed to the table's writer. */
    STAGE_UPKEEP,  /* Snapshots, digests, the scrub, watchers. */
    STAGE_SEND,    /* To the log's writer, and to the other nodes. */
    STAGE_REPLY,   /* Answers to the sockets. */
    STAGE_REST,    /* Handshakes, timers, connections that close. */
    STAGE_COUNT
};
extern const char *const stage_names[STAGE_COUNT];

/* Zeroed memory is one that sleeps. */
struct loop_profile {
    uint64_t at_ns;                 /* Up to when all is counted; 0: asleep. */
    uint64_t spent_ns[STAGE_COUNT]; /* In this pass. */
    struct histogram times[STAGE_COUNT];
    uint64_t max_ns[STAGE_COUNT];
};

/* The loop is at work from 'now_ns' on; nothing if it was already. */
void loop_profile_begin(struct loop_profile *loop_profile, uint64_t now_ns);
/* What has passed since the last call was spent in 'stage'; nothing while it
 * sleeps. */
void loop_profile_end(struct loop_profile *loop_profile, enum stage stage,
                      uint64_t now_ns);
/* The pass is over: counts what it has spent. */
void loop_profile_sleep(struct loop_profile *loop_profile);
/* In which stage this pass has spent most; "none" if in none. */
const char *loop_profile_longest(const struct loop_profile *loop_profile);

#endif /* HASP_NODE_LOOP_PROFILE_H */
