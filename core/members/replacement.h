/* SPDX-License-Identifier: MIT */

/* Which data directory may become a member's, and when a voter that lost its
 * own gets another one. membership.h has the steps.
 *
 * A directory may take the place of a lost one only if it is empty: it belongs
 * to no cluster, has voted in no term, and has no log. One that is not empty
 * may have promised something under that id, in this cluster or in another. Its
 * HELLO says so; with TLS between the nodes it comes from the holder of the
 * member's certificate. The log records this verdict (ACT_REPLACE names the
 * directory), so that the next leader accepts that very directory even if an
 * entry of the replacement has reached it meanwhile. */

#ifndef HASP_CORE_MEMBERS_REPLACEMENT_H
#define HASP_CORE_MEMBERS_REPLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/frame.h"
#include "raft/replica.h"

struct core;
struct core_directory;

/* The directories that have greeted this node under the id of a member and are
 * not that member's. The oldest one is forgotten first. */
#define NEWCOMER_MAX 16
struct newcomer {
    uint64_t id; /* 0: free. */
    uint64_t incarnation;
    uint64_t seen_ns; /* When it greeted last. */
    bool is_empty;
    bool is_marked; /* Its volume is not a missing mount (frame_hello). */
};

/* A directory has greeted that the newest configuration does not name. */
void replacement_note(struct core *core, const struct frame_hello *hello);
/* True if a member may be added with this directory: it has no log and belongs
 * to no cluster, or it belongs to this one. It may have a term, by an addition
 * that its leader could not commit. A log without a cluster id could be any
 * cluster's: Raft tells two logs apart only by the terms and indexes of their
 * entries. 'why' says what to do. That the directory was removed from this
 * cluster is another question (lockfsm_was_removed()). */
bool replacement_may_join(const struct core *core, uint64_t id,
                          const struct core_directory *directory,
                          char why[HASP_WHY_SIZE]);
/* True if it has greeted within the last seconds. */
bool replacement_has_greeted(const struct core *core, uint64_t id,
                             uint64_t incarnation);
/* True if the directory may take the place of 'id': it is empty, by what it has
 * said within the last seconds, or was when the replacement was logged. 'why'
 * says what is wrong with it. */
bool replacement_is_empty(const struct core *core, uint64_t id,
                          uint64_t incarnation, char why[HASP_WHY_SIZE]);
/* True if another voter is not heard, or not level: with the one that is
 * replaced two would be missing. 'why' names it. */
bool replacement_must_wait(const struct core *core, uint64_t id,
                           char why[HASP_WHY_SIZE]);
/* True if the member's own directory is connected: it has not been lost. */
bool replacement_is_needless(const struct core *core,
                             const struct replica_member *member,
                             char why[HASP_WHY_SIZE]);
/* True if the member must not be removed now in favor of the empty directory at
 * 'address'. 'is_forced': the nodes need not authenticate each other. */
bool replacement_is_refused(const struct core *core,
                            const struct replica_member *member,
                            const char *address, bool is_forced,
                            char why[HASP_WHY_SIZE]);
/* The first node after 'after' whose replacement has begun and is not over: it
 * was removed, or is a standby. Starts again from the first; 0: none. */
uint64_t replacement_left(const struct core *core, uint64_t after);

/* cluster.replace_empty: the leader begins a replacement by itself.
 *
 * The voter whose new directory has greeted this leader, and which the leader
 * may begin to replace now; 0: none. */
uint64_t replacement_due(const struct core *core);

#endif /* HASP_CORE_MEMBERS_REPLACEMENT_H */
