/* SPDX-License-Identifier: MIT */

/* Snapshots: when to take one, sending it to a follower in chunks, receiving
 * it.
 *
 * A sender has at most WINDOW chunks on the way, so that Raft's messages on the
 * same connection are never far behind. A receiver hands chunks to the port in
 * order; when all are there the port checks them, and only then is the replica
 * asked whether it wants them. */

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

/* Of a leader, to one follower. */
struct snapshot_sender {
    bool is_active;
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t sent;
    uint64_t acked;
    uint64_t moved_ns; /* When it began, or a part was acknowledged. */
};

struct snapshot_receiver {
    bool is_active;   /* Chunks are coming in. */
    bool is_adopting; /* All is there, the port checks it, installs it ... */
    bool must_adopt;  /* ... or will, when the vote has been saved. */
    bool is_good;     /* It was checked; a leader must be known for the rest. */
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
    /* Index of the one whose log and table the port makes; 0: none. */
    uint64_t installing;
    uint64_t index; /* Of the newest one that was taken or loaded. */
    uint64_t retry_ns;
    struct snapshot_receiver receiver;
    struct backup backup;        /* Of backup.h. */
    struct snapshot_header good; /* What was checked, if anything ... */
    struct buffer members;       /* ... and its configuration. */
};

void snapshots_free(struct snapshots *snapshots);
/* Takes one if the log has grown enough. */
void snapshots_turn(struct core *core);
/* Goes on with one that was received, checked and made durable, if a leader is
 * known. What it holds was committed, whoever leads by now; but Raft's core
 * takes a snapshot from a leader alone. If that took so long that its own leads
 * no more, it counts as the present one's: received anew it would take as long
 * again, and where a majority needs this node no leader might last so long. */
void snapshots_go_on(struct core *core);
uint64_t snapshots_next(const struct core *core);

/* A request of RAFT.BACKUP waits for a snapshot of all that is applied; then,
 * or when none could be taken, backup_answer() answers it. */
void snapshots_enqueue(struct core *core, struct request *request);

/* Sends the newest one to 'member', as the leader. */
void snapshots_send(struct core *core, uint64_t member);
/* At the start: the one that the log begins after. */
void snapshots_begin(struct core *core, uint64_t log_index);
void snapshots_peer_lost(struct core *core, struct peer *peer);
void snapshots_stepped_down(struct core *core);
/* Adopts what has been received, unless a vote is being saved: the term of what
 * is on disk is never ahead of the vote's. */
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

/* Handlers of commands (core/command.h). */
command_run_fn raft_snapshot_run;

#endif /* HASP_CORE_SNAPSHOT_SNAPSHOTS_H */
