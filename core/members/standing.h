/* SPDX-License-Identifier: MIT */

/* What another node's data directory is to this node, by this node's log.
 *
 * Raft's guarantees hold between servers that remember what they have promised.
 * That is the directory, not the node id: a replaced member's old directory and
 * its new one have the same id, and both may run. So the rights of a link are
 * decided here, by id and incarnation, from the newest configuration in the
 * LOG, committed or not, because Raft counts its majorities by that. The
 * applied state would not do: after a power failure it is rebuilt from an older
 * snapshot.
 *
 *     member   the configuration names the directory (while the log is empty,
 *              any): all frames
 *     leaving  the configuration has removed it by an entry that may still be
 *              rolled back: all frames except its clients' requests and the
 *              members that it names
 *     guest    not named, but possibly a member by a configuration that this
 *              node lacks: a member has named it (core/members/admission.h), or
 *              its log is newer than this one, or this node is itself not named
 *              yet and follows whichever node leads. Raft's messages and
 *              snapshots, and those only while no other leader is heard. None
 *              of its answers counts (replica_receive())
 *     none     another directory than the named one, or an unknown node: it
 *              gets no link, and an existing link is closed
 *
 * It is decided at each HELLO, for each frame, and for every link whenever the
 * newest configuration changes: by an entry that is appended or truncated, and
 * by a snapshot. */

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
/* The standing of the node at the other end of the link; none if no link is
 * up. */
enum standing standing_of(const struct core *core, uint64_t id);

/* The newest configuration has changed: closes links with standing none. */
void standing_follow(struct core *core);

/* Directories that were refused because another one has their node id, or none
 * has it any longer: an operator has to stop them, or to finish a replacement.
 * The newest ones are kept, for status, metrics and an alert. */
#define REPLACED_MAX 8
struct replaced {
    uint64_t id; /* 0: free. */
    uint64_t incarnation;
    uint64_t seen_ns; /* When it last tried to connect. */
};
void standing_note_replaced(struct core *core, const struct frame_hello *hello);

#endif /* HASP_CORE_MEMBERS_STANDING_H */
