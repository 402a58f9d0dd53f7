/* SPDX-License-Identifier: MIT */

/* Members: adding, promoting, demoting, removing, one change at a time.
 *
 * A member is added with its data directory (its incarnation), which the probe
 * learns from the node itself, or which the operator gives. So there is no
 * moment at which another directory could pass for the member's. A directory
 * that was removed is never added again.
 *
 * RAFT.ADD adds a standby and, without STANDBY, promotes it when it has caught
 * up; if it has not within CATCH_UP_NS it stays a standby and the answer says
 * so. The states of a change:
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
 * RAFT.UPDATE changes the addresses of a member, which keeps its directory and
 * its role: it goes to UPDATING at once, and is answered when its entry is
 * applied. Nothing is dialled, since the member may have yet to move.
 *
 * RAFT.REPLACE gives a voter that has lost its data directory the empty one
 * with which its node runs. It never turns one directory into another in one
 * entry, because Raft would then count what the former one has acknowledged for
 * the new one. It is a REMOVE and an ADD, each committed before the next step:
 *
 *    PROBE_DUE, PROBING, PROBED -> RECORDING -> LISTENING -> TAKING
 *                  |   |                                       |
 *                  |   '------- it is not a member now ---.    |
 *                  |                                      v    v
 *                  '-- it is a standby already --.       RETURNING -> ADDING
 * ...
 *                                                v
 *                                           CATCHING_UP -> PROMOTING ...
 *
 * Before each step all other voters have to be heard and to be level, so that
 * no second one is missing in the meantime. The new directory must be empty
 * when it is recorded (replacement.h). The members, lockfsm_replaced_at() and
 * lockfsm_replaced_by() determine the next step, and the node itself names its
 * directory. So any leader that gets the same request continues, even if the
 * node was wiped once more; and once the vote is taken, every leader continues
 * without a request, every few seconds, until the member votes again or an
 * operator does something else with it. Such an own change gives way to any
 * request while none of its entries is in flight.
 *
 * Each of them may also end in a refusal, and all end with the leadership. A
 * change in SETTLING is committed: it only waits until the new voter knows. */

#ifndef HASP_CORE_MEMBERS_MEMBERSHIP_H
#define HASP_CORE_MEMBERS_MEMBERSHIP_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/command.h"
#include "core/core.h"
#include "raft/replica.h"

struct core;
struct request;

enum change_state {
    CHANGE_NONE,
    CHANGE_BEGUN,       /* Being decided on; never left in this state. */
    CHANGE_PROBE_DUE,   /* To be dialled, at retry_ns. */
    CHANGE_PROBING,     /* The port is dialling. */
    CHANGE_PROBED,      /* The node has answered, or not in time. */
    CHANGE_ADDING,      /* The entry that adds it is in flight. */
    CHANGE_CATCHING_UP, /* To be promoted as soon as the replica allows it. */
    CHANGE_PROMOTING,   /* The entry that promotes it is in flight. */
    CHANGE_SETTLING,    /* The new voter does not have that entry yet. */
    CHANGE_LISTENING,   /* To be removed, if a majority is left. */
    CHANGE_TAKING,      /* The entry that removes it is in flight. */
    CHANGE_UPDATING,    /* The entry with its new address is in flight. */
    CHANGE_RECORDING,   /* REPLACE: that it begins, or is over, is in flight. */
    CHANGE_RETURNING,   /* REPLACE: to be added with its new directory. */
    CHANGE_STATE_COUNT
};

/* The one change in progress. Part of a leadership. */
struct change {
    enum change_state state;
    struct request *request; /* NULL: none, or the leader's own change. */
    uint32_t flags;          /* Those of the command, or of REPLACE. */
    const char *name;        /* Name of the command. */
    struct buffer asker;     /* The requester, for audit_log_act(). */
    uint64_t member;
    char address[MEMBER_ADDRESS_SIZE]; /* ADD, UPDATE: the announced one. */
    uint64_t incarnation;        /* ADD: its directory; 0: ask the node. */
    struct core_directory found; /* PROBED: what the node reports. */
    bool is_standby;             /* ADD: it stays a standby. */
    bool is_forced;              /* LISTENING: even if members are silent. */
    int probe_error;             /* PROBED: 0, or why it was not reached. */
    char probe_why[HASP_WHY_SIZE / 2];
    /* The entry in flight; SETTLING: the one that it lacks. */
    uint64_t index;
    uint64_t retry_ns;
    uint64_t deadline_ns;
    /* When this leader next searches for a replacement to continue, and the
     * member whose replacement it continued last. */
    uint64_t resume_ns;
    uint64_t resumed;
};

/* The arguments of RAFT.ADD. */
struct change_add {
    uint64_t member;
    struct bytes address;
    uint64_t incarnation; /* 0: ask the node. */
    bool is_standby;
};
/* Begin a change for the request, which is answered when the change is done, or
 * refused. The flags of the command tell DEMOTE from REMOVE. */
void membership_begin_add(struct core *core, struct request *request,
                          const struct change_add *add);
void membership_begin_update(struct core *core, struct request *request,
                             uint64_t id, struct bytes address);
void membership_begin_promote(struct core *core, struct request *request,
                              uint64_t id);
void membership_begin_take(struct core *core, struct request *request,
                           uint64_t id, bool is_forced);
void membership_begin_replace(struct core *core, struct request *request,
                              uint64_t id, bool is_forced);
/* True if no change is in progress. One that this leader has begun by itself,
 * and that has nothing in flight, gives way. */
bool membership_is_free(struct core *core);
/* Continues a change that waits for the clock or for other members. */
void membership_turn(struct core *core);
uint64_t membership_next(const struct core *core);
/* Everything up to 'applied' has been applied. */
void membership_applied(struct core *core, uint64_t applied);
void membership_stepped_down(struct core *core);
void membership_peer_lost(struct core *core, uint64_t peer);

#endif /* HASP_CORE_MEMBERS_MEMBERSHIP_H */
