/* SPDX-License-Identifier: MIT */

/* What the replica's role, term and leader mean for the core.
 *
 *   - become leader: BEGIN is submitted in the same turn; nothing is answered
 *     before it is applied;
 *   - step down: lease state is dropped, pending changes are UNKNOWN (with REQ:
 *     asked again of the next leader), reads and heartbeats are asked again;
 *   - another leader or term: what was forwarded to the old one likewise.
 *
 * Any call of the replica may depose its caller. So nobody looks at the role in
 * the middle of something: core.c does, after each event and each stage of a
 * turn. */

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
    LEADERSHIP_TIMING,  /* It has been applied; deadlines are being started. */
    LEADERSHIP_SERVING  /* All deadlines stand. */
};

/* All that a leader loses with its term (rule 14), beside its timers: zero
 * while this node does not lead, and zero again, by one assignment, when it has
 * stepped down. */
struct leadership {
    enum leadership_stage stage;
    uint64_t term;
    struct read_index read_index;
    struct propose propose;
    struct change change;
    struct transfer transfer;
    struct sweep sweep;
    struct snapshot_sender senders[PEER_COUNT_MAX]; /* As core.peers. */
    bool must_compare_levels;
    uint64_t clock_heir; /* To hand over to, for this node's clock; 0. */
    uint64_t disk_heir;  /* Likewise, for its slow disk. */
};

#define LEADERSHIP_OVER_SIZE 128

/* As last seen. Lives as long as the core. */
struct leader {
    uint64_t id; /* 0: none is known. */
    uint64_t term;
    uint64_t last_id;  /* The newest that was known. */
    uint64_t heard_ns; /* When one was known last, or the core began. */
    uint64_t frame_of; /* Whose frame is being taken; 0: none is. */
    uint64_t over_ns;  /* When this node stepped down last; 0: never. */
    uint64_t over_term;
    char over[LEADERSHIP_OVER_SIZE]; /* Why. */
};

/* Lets go of what it has kept. */
void leadership_done(struct core *core);
/* Looks at role, term and leader, and acts on what has changed. */
void leadership_follow(struct core *core);
/* Submits the BEGIN of a new term, if that is due. */
void leadership_begin(struct core *core);
/* Our BEGIN has been applied. */
void leadership_begun(struct core *core);
/* Goes on with what it began: starts deadlines, a slice of them in each turn,
 * and serves once all stand. */
void leadership_turn(struct core *core);
/* There is a new member, or an old one with a new connection: what level does
 * it announce? */
void leadership_member_changed(struct core *core);

#endif /* HASP_CORE_LEADERSHIP_H */
