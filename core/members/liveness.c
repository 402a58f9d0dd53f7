/* SPDX-License-Identifier: MIT */

/* Which members are heard, as a text and as a condition. */

#include "core/members/liveness.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/duration.h"
#include "core/state.h"

bool liveness_is_heard(const struct core *core, uint64_t id)
{
    return id == core->options.id ||
           (peer_is_up(core, id) && !liveness_is_silent(core, id));
}

bool liveness_is_silent(const struct core *core, uint64_t id)
{
    return id != core->options.id &&
           core->port.peer_silence_ms(core->port.data, id) >
               core->options.election_ms;
}

void liveness_text(const struct core *core, uint64_t id, char *out, size_t size)
{
    CHECK(id != core->options.id); /* No node is silent to itself. */
    char time[DURATION_TEXT_SIZE];
    uint64_t silence_ms = core->port.peer_silence_ms(core->port.data, id);
    if (silence_ms == UINT64_MAX) {
        snprintf(out, size,
                 "member %" PRIu64 " has not been heard by member %" PRIu64
                 " yet",
                 id, core->options.id);
        return;
    }
    duration_format(silence_ms, time);
    snprintf(out, size, "member %" PRIu64 " has been silent for %s", id, time);
}

uint64_t liveness_successor(const struct core *core)
{
    struct replica_members members;
    uint64_t successor = 0, successor_match = 0;
    bool successor_is_heard = false;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        uint64_t id = member->id;
        if (member->role != MEMBER_VOTER || id == core->options.id ||
            !peer_is_up(core, id)) {
            continue;
        }
        bool is_heard = liveness_is_heard(core, id);
        uint64_t match = replica_match(core->replica, id);
        /* Being heard counts more than a long log: a voter that hangs would not
         * take over at all. */
        if (successor == 0 || (is_heard && !successor_is_heard) ||
            (is_heard == successor_is_heard && match > successor_match)) {
            successor = id;
            successor_match = match;
            successor_is_heard = is_heard;
        }
    }
    CHECK(successor != core->options.id);
    return successor;
}

bool liveness_needs(const struct core *core, uint64_t id,
                    char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    uint32_t left = 0, heard = 0;
    uint64_t silent = 0;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        if (member->role != MEMBER_VOTER || member->id == id) {
            continue;
        }
        left++;
        if (liveness_is_heard(core, member->id)) {
            heard++;
        } else if (silent == 0) {
            silent = member->id;
        }
    }
    if (2 * heard > left) {
        return false;
    }
    char text[HASP_WHY_SIZE / 2];
    /* At least this node is heard, so the silent one is another. */
    CHECK(silent != 0);
    liveness_text(core, silent, text, sizeof text);
    snprintf(
        why, HASP_WHY_SIZE,
        "%s; without %" PRIu64 " only %" PRIu32 " of %" PRIu32
        " voters would be connected, which is not a majority: remove %" PRIu64
        " instead, or force it",
        text, id, heard, left, silent);
    return true;
}
