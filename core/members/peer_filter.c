/* SPDX-License-Identifier: MIT */

/* Which types of frames a peer may send, by its standing. */

#include "core/members/peer_filter.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "core/members/standing.h"
#include "core/state.h"

/* The standings of peers from which a frame of this type is accepted. */
static unsigned heeded_of(enum frame_type type)
{
    switch (type) {
    case FRAME_RAFT:
    case FRAME_SNAPSHOT:
        return STANDING_MEMBER | STANDING_LEAVING | STANDING_GUEST;
    case FRAME_FORWARD:
    case FRAME_CLOSED:
    case FRAME_MEMBERS:
        return STANDING_MEMBER;
    case FRAME_ANSWER:
    case FRAME_SNAPSHOT_ACK:
    case FRAME_LOST:
    case FRAME_ACCUSED:
    case FRAME_CLEARED:
    case FRAME_DIGEST:
    case FRAME_DIVERGED:
    case FRAME_CLOCK:
#ifdef HASP_FEATURE_LEVEL_EXTRA
    case FRAME_TRIAL:
#endif
        return STANDING_MEMBER | STANDING_LEAVING;
    case FRAME_HELLO:
    case FRAME_PING:
    case FRAME_PONG:
    case FRAME_REFUSED:
    case FRAME_TYPE_END:
        break; /* The connection handles these itself. */
    }
    return 0;
}

bool peer_filter_speaks_for_users(const struct core *core, uint64_t id)
{
    return core_users(core) != CORE_USERS_ENFORCED ||
           core->port.peer_is_proven(core->port.data, id);
}

/* True for clients' requests and their answers. */
static bool is_of_users(enum frame_type type)
{
    return type == FRAME_FORWARD || type == FRAME_CLOSED ||
           type == FRAME_ANSWER;
}

static void log_ignored(struct core *core, uint64_t id, enum frame_type type,
                        const char *reason)
{
    uint32_t left_out;
    if (log_limit_pass(&core->run.logged.ignored, core->now_ns / NS_PER_MS,
                       &left_out)) {
        LOG_WARN("frame ignored",
                 "peer=%" PRIu64 " type=%d reason=\"%s\" suppressed=%" PRIu32,
                 id, (int)type, reason, left_out);
    }
}

bool peer_filter_frame(struct core *core, uint64_t id, enum frame_type type)
{
    enum standing standing = standing_of(core, id);
    const struct peer *peer = peer_find(core, id);
    CHECK(type < FRAME_TYPE_END); /* The connection has checked the type. */
    if (peer != NULL && peer->has_lost) {
        return type == FRAME_ACCUSED;
    }
    if (type == FRAME_MEMBERS && id == core->options.trusted) {
        return true;
    }
    if ((heeded_of(type) & standing) == 0) {
        if (standing == STANDING_GUEST) {
            log_ignored(core, id, type, "the log does not name the peer");
        }
        return false;
    }
    if (is_of_users(type) && !peer_filter_speaks_for_users(core, id)) {
        log_ignored(core, id, type,
                    "this cluster requires authentication, and the peer "
                    "presents no certificate: set tls.peer = require");
        return false;
    }
    return standing != STANDING_GUEST || replica_leader(core->replica) == id ||
           !replica_has_leader(core->replica, core->now_ns / NS_PER_MS);
}
