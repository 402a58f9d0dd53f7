/* SPDX-License-Identifier: MIT */

#include "core/drain.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "core/members/peer.h"
#include "core/members/transfer.h"
#include "core/state.h"

#define REASON "the node is drained"

bool drain_is_refused(const struct core *core, char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    uint32_t voters = 0, connected = 0;
    replica_members(core->replica, &members);
    MEMBER_EACH (member, &members) {
        bool is_voter = member->role == MEMBER_VOTER;
        voters += is_voter;
        /* Two followers have nothing to say to each other but PING, so a member
         * that hangs is noticed when its connection is closed. */
        connected += is_voter && member->id != core->options.id &&
                     peer_is_up(core, member->id);
    }
    if (2 * connected > voters) {
        return false;
    }
    snprintf(why, HASP_WHY_SIZE,
             "not without node %" PRIu64 ": it is connected with %" PRIu32
             " other voters of %" PRIu32 ", which are no majority; start the "
             "others, or use FORCE",
             core->options.id, connected, voters);
    return true;
}

bool drain_is_over(const struct core *core)
{
    char why[HASP_WHY_SIZE];
    return core_is_draining(core) && !is_leader(core) &&
           drain_client_count(core) == 0 && !drain_is_refused(core, why);
}

void drain_begin(struct core *core)
{
    if (core->drain.began_ns == 0) {
        core->drain = (struct drain){.began_ns = core->now_ns,
                                     .step_ns = core->now_ns};
        LOG_WARN("this node is drained",
                 "clients=%" PRIu32 " hint=\"it takes no clients and does not "
                 "lead until NODE.DRAIN CANCEL, or a restart\"",
                 drain_client_count(core));
        if (is_leader(core)) {
            transfer_at_once(core);
        }
    }
}

void drain_cancel(struct core *core)
{
    if (core->drain.began_ns != 0) {
        core->drain = (struct drain){0};
        LOG_WARN("this node is no longer drained", "%s", "");
    }
}

bool core_is_draining(const struct core *core)
{
    return core->drain.began_ns != 0;
}

uint64_t core_drained_ns(const struct core *core, uint64_t now_ns)
{
    return core->drain.began_ns != 0 && now_ns > core->drain.began_ns
               ? now_ns - core->drain.began_ns
               : 0;
}

bool drain_refuses(const struct core *core, const struct conn *conn)
{
    return core->drain.began_ns != 0 && conn->way != IDENTITY_LOCAL;
}

/* True for a connection that does not only ask this node about itself. */
static bool drain_must_close(const struct core *core, const struct conn *conn)
{
    return drain_refuses(core, conn) && !conn->is_closing &&
           (conn->is_known || conn->must_leave || conn->watch_count > 0 ||
            conn->session_count > 0);
}

uint32_t drain_client_count(const struct core *core)
{
    uint32_t count = 0;
    LIST_FOR (const struct conn, conn, &core->conns.by_age, in_core) {
        count += drain_must_close(core, conn);
    }
    return count;
}

void drain_turn(struct core *core)
{
    struct drain *drain = &core->drain;
    if (drain->began_ns == 0 || core->now_ns < drain->step_ns) {
        return;
    }
    bool has_waited = core->now_ns >= drain->began_ns + DRAIN_GRACE_NS;
    uint32_t left = DRAIN_STEP_COUNT;
    LIST_FOR_SAFE (struct conn, conn, &core->conns.by_age, in_core) {
        bool is_idle = conn->first_slot == conn->next_slot;
        if (left > 0 && drain_must_close(core, conn) &&
            (is_idle || has_waited)) {
            conn_close_quietly(core, conn, REASON);
            left--;
        }
    }
    drain->step_ns = core->now_ns + DRAIN_STEP_NS;
}

uint64_t drain_next(const struct core *core)
{
    return core->drain.began_ns != 0 ? core->drain.step_ns : UINT64_MAX;
}
