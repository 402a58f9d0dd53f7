/* SPDX-License-Identifier: MIT */

/* Members: adding, promoting, demoting, removing, one change at a time.
 *
 * A member is added with its data directory (its incarnation), which the probe
 * learns from the node itself, or which the operator tells. So there is no
 * moment at which any directory could pass for the member's. A directory that
 * was removed is never added again.
 *
 * RAFT.ADD adds a standby and, unless told STANDBY, promotes it when it has
 * caught up; if it has not within CATCH_UP_NS it stays a standby and the answer
 * says so. Where a change stands:
 *
 *            ADD         ADD of a standby, PROMOTE        DEMOTE, REMOVE
 *             |                     |                           |
 *             |--------.            |                           v
 *             v        | FORCE      |          .----------- LISTENING
 *    .--> PROBE_DUE    |            |          |  until the voters that are
 *    |        |        |            |          |  left are heard, or FORCE
 *    |        v        |            |          v
 *    '---- PROBING     |            |       TAKING
 *             |        |            |          |  its entry is applied
 *             v        v            v          |
 *          PROBED -> ADDING -> CATCHING_UP     |
 *                      |         |     ^       |
 *                      |         v     |       |
 *             STANDBY  |       PROMOTING       |
 *                      |           |           |
 *                      |           v           |
 *                      |        SETTLING       |
 *                      |           |           |
 *                      '-----> answered <------'
 *
 * Each of them may also end in a refusal, and all end with the reign. What is
 * settling is committed: it only waits for the new voter to know. */

#ifndef HASP_CORE_MEMBERS_MEMBERSHIP_H
#define HASP_CORE_MEMBERS_MEMBERSHIP_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/command.h"
#include "raft/replica.h"

struct core;
struct request;

enum change_state {
    CHANGE_NONE,
    CHANGE_BEGUN,       /* Being decided on: not left standing. */
    CHANGE_PROBE_DUE,   /* It is to be dialled, at retry_ns. */
    CHANGE_PROBING,     /* The port dials it. */
    CHANGE_PROBED,      /* It was there, or not in time. */
    CHANGE_ADDING,      /* The entry that adds it is under way. */
    CHANGE_CATCHING_UP, /* Promoted as soon as the replica allows it. */
    CHANGE_PROMOTING,   /* The entry that promotes it is under way. */
    CHANGE_SETTLING,    /* The new voter lacks that entry yet. */
    CHANGE_LISTENING,   /* To be taken away, unless that leaves nobody. */
    CHANGE_TAKING,      /* The entry that does so is under way. */
    CHANGE_STATE_COUNT
};

/* The one change that may be under way. Of a leader. */
struct change {
    enum change_state state;
    struct request *request; /* NULL: none. */
    struct buffer asker;     /* Who asked, see audit_log_append(). */
    uint64_t member;
    char address[MEMBER_ADDRESS_SIZE]; /* ADD: as announced. */
    uint64_t incarnation;              /* ADD: its directory; 0: to be asked. */
    bool is_standby;                   /* ADD: it is to stay one. */
    bool is_forced;                    /* LISTENING: whoever is silent. */
    int probe_error;                   /* PROBED: 0, or why it is not there. */
    char probe_why[HASP_WHY_SIZE / 2];
    uint64_t index; /* Of the entry under way; SETTLING: that it lacks. */
    uint64_t retry_ns;
    uint64_t deadline_ns;
};

/* What waits for the clock or for other members. */
void membership_turn(struct core *core);
uint64_t membership_next(const struct core *core);
/* Everything up to 'applied' has been applied. */
void membership_applied(struct core *core, uint64_t applied);
void membership_stepped_down(struct core *core);
void membership_peer_lost(struct core *core, uint64_t peer);

/* Handlers of commands (core/command.h). */
command_run_fn raft_add_run;
command_run_fn raft_promote_run;
command_run_fn raft_take_away_run;

#endif /* HASP_CORE_MEMBERS_MEMBERSHIP_H */
