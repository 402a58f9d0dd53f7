/* SPDX-License-Identifier: MIT */

/* Snapshots: when to take one, sending it to a follower in chunks, receiving
 * it.
 *
 * A sender has at most WINDOW chunks in flight, so that Raft's messages on the
 * same connection are not delayed much. A receiver passes chunks to the port in
 * order; when it has all of them the port checks them, and only then is the
 * replica asked whether it wants the snapshot. */

#ifndef HASP_CORE_SNAPSHOT_SNAPSHOTS_H
#define HASP_CORE_SNAPSHOT_SNAPSHOTS_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "core/command.h"
#include "core/snapshot/backup.h"
#include "storage/snapshot.h"

struct core;
struct peer;
struct request;

/* A leader's sender to one follower. */
struct snapshot_sender {
    bool is_active;
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t sent;
    uint64_t acked;
    uint64_t moved_ns; /* When it started, or a part was acknowledged. */
};

struct snapshot_receiver {
    bool is_active;   /* It is receiving chunks. */
    bool is_adopting; /* It has all; the port checks and installs it ... */
    bool must_adopt;  /* ... or will, once the vote is saved. */
    bool is_good;     /* It was checked; the rest needs a known leader. */
    uint64_t from;
    uint64_t leader_term;
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t offset;
};

/* Lives as long as the core. */
struct snapshots {
    bool is_taking;
    /* The index of the snapshot from which the port builds log and table; 0:
     * none. */
    uint64_t installing;
    uint64_t index; /* Index of the newest snapshot taken or loaded. */
    uint64_t retry_ns;
    struct snapshot_receiver receiver;
    struct backup backup;        /* See backup.h. */
    struct snapshot_header good; /* The checked snapshot, if any ... */
    struct buffer members;       /* ... and its configuration. */
};

void snapshots_free(struct snapshots *snapshots);
/* Takes a snapshot if the log has grown enough. */
void snapshots_turn(struct core *core);
/* Continues with a snapshot that was received, checked and made durable, if a
 * leader is known. Its entries were committed, whichever node leads now; but
 * Raft's core accepts a snapshot only from a leader. If its own leader no
 * longer leads, it counts as the present leader's: receiving it again would
 * take as long again, and if a majority needs this node, no leader might last
 * that long. */
void snapshots_go_on(struct core *core);
uint64_t snapshots_next(const struct core *core);

/* Makes RAFT.BACKUP wait for a snapshot of everything applied; backup_answer()
 * answers it when there is one, or when none could be taken. */
void snapshots_enqueue(struct core *core, struct request *request);

/* As the leader, sends the newest snapshot to 'member'. */
void snapshots_send(struct core *core, uint64_t member);
/* At the start: the snapshot after which the log begins. */
void snapshots_begin(struct core *core, uint64_t log_index);
void snapshots_peer_lost(struct core *core, struct peer *peer);
void snapshots_stepped_down(struct core *core);
/* Adopts a received snapshot, unless a vote is being saved: the term on disk
 * must never be ahead of the vote's. */
void snapshots_vote_saved(struct core *core);
/* The core's calls of the same name. */
void snapshots_taken(struct core *core, uint64_t log_index, int error);
void snapshots_received(struct core *core, const struct snapshot_header *header,
                        int error);
void snapshots_installed(struct core *core);
MUST_CHECK int snapshots_chunk(struct core *core, uint64_t from,
                               struct bytes body);
MUST_CHECK int snapshots_ack(struct core *core, uint64_t from,
                             struct bytes body);

#endif /* HASP_CORE_SNAPSHOT_SNAPSHOTS_H */
