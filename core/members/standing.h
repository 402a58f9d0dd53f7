/* SPDX-License-Identifier: MIT */

/* What another node's data directory is to this node, by this node's log.
 *
 * Raft's guarantees hold between servers that remember what they have promised.
 * That is the directory, not the node's number: a replaced member's old
 * directory and its new one have the same number, and both may run. So whatever
 * a link is worth is asked here, by number and incarnation, and answered by the
 * newest configuration in the LOG, committed or not, because that is what Raft
 * counts its majorities by. The applied state would not do: after a power
 * failure it is made again from an older snapshot.
 *
 *     member   the configuration names that directory (while the log is empty,
 *              any): all frames
 *     leaving  the configuration has removed it by an entry that may still be
 *              rolled back: all frames but its clients' requests, and whom it
 *              names
 *     guest    not named, but it may be a member by a configuration that this
 *              node lacks: a member has named it (core/members/admission.h), or
 * its log is newer than this one, or this node is itself not named yet and
 * follows whoever leads it. Raft's messages and snapshots, and those only while
 * no other leader is heard. None of its answers counts (replica_receive()) none
 * another directory than the one that is named, or a stranger: it gets no link,
 * and one that it has is closed
 *
 * It is asked at each HELLO, for each frame, and for every standing link
 * whenever the newest configuration changes: by an entry that is appended or
 * truncated, and by a snapshot. */

#ifndef HASP_CORE_MEMBERS_STANDING_H
#define HASP_CORE_MEMBERS_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "net/frame.h"

struct core;

enum standing {
    STANDING_NONE = 0,
    STANDING_MEMBER = 1,
    STANDING_LEAVING = 2,
    STANDING_GUEST = 4
};

enum standing standing_of_hello(const struct core *core,
                                const struct frame_hello *hello);
/* Of the node at the other end of the link that is up; none if none is. */
enum standing standing_of(const struct core *core, uint64_t id);

/* The newest configuration has changed: closes the links that are none. */
void standing_follow(struct core *core);

/* Directories that were refused because another one has their number, or none
 * any more: an operator has to stop them, or to finish a replacement. The
 * newest ones are kept, for status, metrics and an alert. */
#define REPLACED_MAX 8
struct replaced {
    uint64_t id; /* 0: free. */
    uint64_t incarnation;
    uint64_t seen_ns; /* It last tried to connect. */
};
void standing_note_replaced(struct core *core, const struct frame_hello *hello);

#endif /* HASP_CORE_MEMBERS_STANDING_H */
