/* SPDX-License-Identifier: MIT */

#include "core/drain.h"

#include <inttypes.h>

#include "base/log.h"
#include "core/members/transfer.h"
#include "core/state.h"

#define REASON "the node is drained"

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
