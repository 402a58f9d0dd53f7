/* SPDX-License-Identifier: MIT */

/* Each node sends the others its time and the state of its disk, measures their
 * clocks, and hands leadership over if its own clock is off. */

#include "core/members/clocks.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/members/disks.h"
#include "core/state.h"

#define SEND_NS (500 * NS_PER_MS)
/* A deviation is logged from WARN_PPM on, and its end below CALM_PPM. */
#define WARN_PPM 10000
#define CALM_PPM 8000
#define OFF_PPM 50000
#define HAND_OVER_NS (60 * NS_PER_S)
#define PPM 1000000

static bool clocks_range(const struct core *core, uint64_t id,
                         struct clock_range *ret_range)
{
    const struct peer *peer = peer_look(core, id);
    if (id == core->options.id) {
        *ret_range = (struct clock_range){.ppm = 0};
        return true;
    }
    if (peer == NULL || !peer->is_clock_known) {
        return false;
    }
    *ret_range = peer->clock_range;
    return true;
}

bool core_clock_ppm(const struct core *core, uint64_t id, int32_t *ret_ppm)
{
    struct clock_range range;
    if (!clocks_range(core, id, &range)) {
        return false;
    }
    bool is_exact = (int64_t)range.high_ppm - range.low_ppm <= 2 * WARN_PPM;
    /* Otherwise only as much as is proven. */
    *ret_ppm = is_exact             ? range.ppm
               : range.low_ppm > 0  ? range.low_ppm
               : range.high_ppm < 0 ? range.high_ppm
                                    : 0;
    return true;
}

/* How much faster one clock is than another; both are measured against that of
 * this node. */
static int64_t faster_ppm(int32_t ppm, int32_t than_ppm)
{
    CHECK(than_ppm > -PPM); /* A stopped clock cannot be compared. */
    return ((int64_t)ppm - than_ppm) * PPM / (PPM + than_ppm);
}

/* True if more than half of the other voters' clocks are faster, or if more
 * than half are slower: for sure, or possibly, within the errors of the
 * measurements. */
static bool is_off(const struct core *core, uint64_t id, int64_t limit_ppm,
                   bool is_sure)
{
    struct replica_members members;
    struct clock_range own, its;
    uint32_t others = 0, faster = 0, slower = 0;
    replica_members(core->replica, &members);
    if (!clocks_range(core, id, &own)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        if (member->role != MEMBER_VOTER || member->id == id) {
            continue;
        }
        others++;
        if (clocks_range(core, member->id, &its)) {
            int64_t least_ppm = faster_ppm(its.low_ppm, own.high_ppm);
            int64_t most_ppm = faster_ppm(its.high_ppm, own.low_ppm);
            faster += (is_sure ? least_ppm : most_ppm) > limit_ppm;
            slower += (is_sure ? most_ppm : least_ppm) < -limit_ppm;
        }
    }
    /* If two clocks differ, either can be wrong: a majority needs a third. */
    return others > 1 && (2 * faster > others || 2 * slower > others);
}

static void log_peer(struct peer *peer)
{
    const struct clock_range *range = &peer->clock_range;
    int32_t ppm = range->ppm;
    if (!peer->is_clock_known) {
        return;
    }
    if (!peer->is_clock_logged &&
        (range->low_ppm > WARN_PPM || range->high_ppm < -WARN_PPM)) {
        peer->is_clock_logged = true;
        LOG_WARN("clocks differ",
                 "peer=%" PRIu64 " ppm=%" PRId32 " at_least=%" PRId32
                 " at_most=%" PRId32
                 " hint=\"the peer's clock is %s than this node's; "
                 "hasp_clock_rate_ppm of the other nodes shows which of the "
                 "two is off\"",
                 peer->id, ppm, range->low_ppm, range->high_ppm,
                 ppm > 0 ? "faster" : "slower");
    } else if (peer->is_clock_logged && abs(ppm) < CALM_PPM &&
               range->low_ppm > -WARN_PPM && range->high_ppm < WARN_PPM) {
        /* CALM_PPM is below WARN_PPM, so that a clock at the edge is not logged
         * again and again. */
        peer->is_clock_logged = false;
        LOG_INFO("clocks agree", "peer=%" PRIu64 " ppm=%" PRId32, peer->id,
                 ppm);
    }
}

/* A clock that can no longer be measured keeps its last state. */
static void log_own(struct core *core)
{
    if (!core->clocks.is_off &&
        is_off(core, core->options.id, WARN_PPM, true)) {
        core->clocks.is_off = true;
        LOG_WARN("this node's clock is off",
                 "hint=\"most other voters' clocks run at another speed; "
                 "above 10 %% two clients may both believe that they hold a "
                 "lock\"");
    } else if (core->clocks.is_off &&
               !is_off(core, core->options.id, CALM_PPM, false)) {
        core->clocks.is_off = false;
        LOG_INFO("this node's clock agrees", "node=%" PRIu64, core->options.id);
    }
}

/* The successor: its clock cannot be off, and among several it has the longest
 * log. 0 if there is none. */
static uint64_t clocks_find_successor(struct core *core)
{
    struct replica_members members;
    struct clock_range range;
    uint64_t successor = 0, most = 0;
    bool is_soon = core->clocks.moved_ns != 0 &&
                   core->now_ns < core->clocks.moved_ns + HAND_OVER_NS;
    /* Not again within HAND_OVER_NS: if no clock is right, leadership would go
     * round. */
    if (!is_serving(core) || is_soon ||
        !is_off(core, core->options.id, OFF_PPM, true)) {
        return 0;
    }
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        uint64_t match = replica_match(core->replica, member->id);
        if (member->role == MEMBER_VOTER && peer_is_up(core, member->id) &&
            clocks_range(core, member->id, &range) &&
            !is_off(core, member->id, OFF_PPM, false) &&
            (successor == 0 || match > most)) {
            successor = member->id;
            most = match;
        }
    }
    return successor;
}

void clocks_turn(struct core *core)
{
    if (core->now_ns < core->clocks.due_ns) {
        return;
    }
    core->clocks.due_ns = core->now_ns + SEND_NS;
    disks_look(core);
    /* Only rates are derived from it: clocks of nodes are never compared. */
    struct frame_clock own = {.time_ns = core->now_ns};
    disks_report(core, &own);
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        struct peer *peer = &core->peers[i];
        struct buffer *out = peer->is_up
                                 ? peer_output(core, peer->id, FRAME_CLOCK)
                                 : NULL;
        if (out != NULL) {
            own.echo_ns = peer->clock_echo_ns;
            own.echo_received_ns = peer->clock_received_ns;
            frame_put_clock(out, &own);
            peer->is_clock_known = clock_rate_range(&peer->clock,
                                                    &peer->clock_range);
            log_peer(peer);
        }
    }
    log_own(core);
    core->leadership.clock_successor = clocks_find_successor(core);
}

uint64_t clocks_next(const struct core *core)
{
    return core->clocks.due_ns;
}

void clocks_linked(struct peer *peer)
{
    peer->clock = (struct clock_rate){.count = 0};
    peer->is_clock_known = false;
    peer->clock_echo_ns = peer->clock_received_ns = 0;
}

int clocks_received(struct core *core, uint64_t from, struct bytes body)
{
    struct peer *peer = peer_find(core, from);
    struct frame_clock clock;
    int error = frame_get_clock(body, &clock);
    if (error == 0 && peer != NULL) {
        struct clock_times times = {.remote_ns = clock.time_ns,
                                    .local_ns = core->now_ns,
                                    .echo_ns = clock.echo_ns,
                                    .echo_received_ns = clock.echo_received_ns};
        clock_rate_add(&peer->clock, &times);
        peer->clock_echo_ns = clock.time_ns;
        peer->clock_received_ns = core->now_ns;
        disks_received(core, from, &clock);
    }
    return error;
}

void clocks_handed_over(struct core *core, uint64_t to)
{
    CHECK(is_serving(core) && to != core->options.id);
    core->clocks.moved_ns = core->now_ns;
    core->leadership.clock_successor = 0;
    LOG_WARN("leadership is handed over",
             "to=%" PRIu64 " reason=\"this node's clock is more than 5 %% off "
             "from those of most voters\"",
             to);
}

uint64_t core_clock_moved_ns(const struct core *core)
{
    return core->clocks.moved_ns;
}
