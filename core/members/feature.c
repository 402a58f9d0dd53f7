/* SPDX-License-Identifier: MIT */

/* The level of the cluster: what it could be, which member prevents that, and
 * raising it. */

#include "core/members/feature.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/command.h"
#include "core/propose.h"
#include "core/state.h"
#include "lockfsm/feature.h"

uint32_t feature_of_member(const struct core *core, uint64_t id)
{
    if (id == core->options.id) {
        return core->options.feature_level;
    }
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].id == id) {
            return core->peers[i].feature_level;
        }
    }
    return 0;
}

uint32_t feature_possible(const struct core *core, char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    uint32_t present = lockfsm_feature_level(core->fsm);
    uint32_t lowest = core->options.feature_level, highest = lowest;
    uint64_t last = core->options.id;
    why[0] = '\0';
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t id = members.member[i].id;
        uint32_t level = feature_of_member(core, id);
        /* A member that is away may come back with an older version, which
         * would stop at the first entry of the new level. */
        if (id != core->options.id && !peer_is_up(core, id)) {
            snprintf(why, HASP_WHY_SIZE,
                     "member %" PRIu64
                     " is not connected, so its version is unknown: start it, "
                     "or remove it",
                     id);
            return 0;
        }
        last = level < lowest ? id : last;
        lowest = level < lowest ? level : lowest;
        highest = level > highest ? level : highest;
    }
    if (lowest <= present && highest > present) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " understands feature level %" PRIu32
                 " only: upgrade it first",
                 last, lowest);
    }
    return lowest > present ? lowest : 0;
}

uint32_t feature_of_founders(const struct core *core)
{
    struct replica_members members;
    uint32_t lowest = core->options.feature_level;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        uint32_t level = feature_of_member(core, members.member[i].id);
        level = level != 0 ? level : core->options.founders_level;
        lowest = level < lowest ? level : lowest;
    }
    return lowest > FEATURE_LEVEL_FIRST ? lowest : FEATURE_LEVEL_FIRST;
}

/* True if something that this version supports is not allowed yet, whatever the
 * node's options say. */
static bool feature_is_behind(const struct core *core)
{
    return lockfsm_feature_level(core->fsm) < FEATURE_LEVEL;
}

bool feature_allows(const struct core *core, uint32_t level)
{
    return level <= lockfsm_feature_level(core->fsm);
}

void feature_refuse(struct core *core, struct request *request,
                    const char *what)
{
    char text[HASP_WHY_SIZE];
    CHECK(feature_is_behind(core));
    snprintf(text, sizeof text,
             "%s needs a higher feature level than the cluster's, %" PRIu32
             "; upgrade all nodes, then run: hasp cluster finalize",
             what, lockfsm_feature_level(core->fsm));
    request_refuse(core, request, WORD_LEVEL, text);
}

void feature_member_changed(struct core *core)
{
    if (is_leader(core)) {
        core->leadership.must_compare_levels = true;
    }
}

void feature_turn(struct core *core)
{
    char why[HASP_WHY_SIZE];
    if (!core->leadership.must_compare_levels || !propose_is_open(core)) {
        return;
    }
    core->leadership.must_compare_levels = false;
    uint32_t level = feature_possible(core, why);
    if (level == 0) {
        return;
    }
    if (core->options.finalizes_itself) {
        struct set_feature_command set = {.level = level};
        struct entry entry = entry_of_set_feature(&set);
        /* If the entry was not accepted, the next turn tries again. */
        core->leadership.must_compare_levels = !propose_own(core, &entry);
    } else if (level > core->run.logged.level) {
        core->run.logged.level = level;
        LOG_INFO("upgrade can be finalized",
                 "level=%" PRIu32 " present=%" PRIu32
                 " hint=\"hasp cluster finalize\"",
                 level, lockfsm_feature_level(core->fsm));
    }
}
