/* SPDX-License-Identifier: MIT */

/* What the replica's role, term and leader mean for the core.
 *
 *   - become leader: BEGIN is submitted in the same turn; nothing is answered
 *     before it is applied;
 *   - step down: lease state is dropped, pending changes become UNKNOWN (those
 *     with a REQ are repeated at the next leader), reads and heartbeats are
 *     repeated;
 *   - another leader or term: what was forwarded to the old leader likewise.
 *
 * Any call of the replica may depose its caller. So the role is not checked in
 * the middle of an operation: core.c checks it after each event and each stage
 * of a turn. */

#ifndef HASP_CORE_LEADERSHIP_H
#define HASP_CORE_LEADERSHIP_H

#include "core/members/membership.h"
#include "core/members/peer.h"
#include "core/members/transfer.h"
#include "core/propose.h"
#include "core/read_index.h"
#include "core/session/sweep.h"
#include "core/snapshot/snapshots.h"

struct core;

enum leadership_stage {
    LEADERSHIP_NONE,    /* This node does not lead. */
    LEADERSHIP_ELECTED, /* BEGIN has yet to be submitted. */
    LEADERSHIP_BEGUN,   /* BEGIN is under way. */
    /* BEGIN has been applied; deadlines are being started. */
    LEADERSHIP_TIMING,
    LEADERSHIP_SERVING /* All deadlines are set. */
};

/* Everything that a leader loses with its term (rule 14), besides its timers.
 * It is zero while this node does not lead; stepping down zeroes it by one
 * assignment. */
struct leadership {
    enum leadership_stage stage;
    uint64_t term;
    uint64_t serving_ns; /* Since when it serves. */
    struct read_index read_index;
    struct propose propose;
    struct change change;
    struct transfer transfer;
    struct sweep sweep;
    struct snapshot_sender senders[PEER_COUNT_MAX]; /* Indexed as core.peers. */
    bool must_compare_levels;
    uint64_t
        clock_successor; /* The successor, if this node's clock is off; 0. */
    uint64_t disk_successor; /* The successor, if its disk is slow; 0. */
};

#define LEADERSHIP_OVER_SIZE 128

/* The leader as last seen. Lives as long as the core. */
struct leader {
    uint64_t id; /* 0: unknown. */
    uint64_t term;
    uint64_t last_id;  /* The newest one known. */
    uint64_t heard_ns; /* When one was last known, or the core started. */
    uint64_t frame_of; /* The sender of the frame being received; 0: none. */
    uint64_t over_ns;  /* When this node last stepped down; 0: never. */
    uint64_t over_term;
    char over[LEADERSHIP_OVER_SIZE]; /* Why. */
};

/* Frees what it has stored. */
void leadership_done(struct core *core);
/* Checks role, term and leader, and acts on what has changed. */
void leadership_follow(struct core *core);
/* Submits the BEGIN of a new term, if it is due. */
void leadership_begin(struct core *core);
/* Called when this leader's BEGIN has been applied. */
void leadership_begun(struct core *core);
/* Starts the deadlines, a slice of them in each turn; once all are set the
 * leader serves. */
void leadership_turn(struct core *core);
/* A frame of this node begins to be received, or 0: no longer. If it has a
 * higher term, the log names its sender as the reason for the end of the
 * leadership. */
void leadership_frame_of(struct core *core, uint64_t id);
/* The core starts: a leader may have been heard until now. */
void leadership_start(struct core *core, uint64_t now_ns);

#endif /* HASP_CORE_LEADERSHIP_H */
