/* SPDX-License-Identifier: MIT */

/* How long flushes take, on this node and on others, and which voter should
 * lead instead. */

#include "core/members/disks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/members/liveness.h"
#include "core/state.h"

#define RECENT_NS (2 * NS_PER_S)
/* The median of older flushes says nothing about the disk's present state. */
#define OLD_NS (30 * NS_PER_S)
/* A disk that has not been used for this time is no longer called slow. */
#define FORGET_NS (60 * NS_PER_S)
#define SLOW_US 50000
#define CALM_US 40000
/* This many flushes suffice to call a disk slow, to hand over because of it,
 * and to call another one faster. */
#define SAID_COUNT 5
#define MOVE_COUNT 20
#define HEIR_COUNT 2
#define RATIO 4
#define LEADERSHIP_NS (30 * NS_PER_S)
#define LEADERSHIP_MAX_NS (600 * NS_PER_S)

static int disks_compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static uint64_t disks_median(uint64_t *values, uint32_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof values[0], disks_compare);
    return values[count / 2];
}

/* The flush that is 'place' places before the newest; NULL: unknown. */
static const struct disk_flush *flush_before(const struct disks *disks,
                                             uint32_t place)
{
    if (place >= DISK_FLUSH_COUNT || place >= disks->flush_count) {
        return NULL;
    }
    return &disks->flush[(disks->flush_count - 1 - place) % DISK_FLUSH_COUNT];
}

void disks_flushed(struct core *core, uint64_t took_ns)
{
    struct disks *disks = &core->disks;
    disks->flush[disks->flush_count % DISK_FLUSH_COUNT] = (struct disk_flush){
        .at_ns = core->now_ns, .took_ns = took_ns};
    disks->flush_count++;
}

/* The flushes of the last 2 s. */
static void measure_recent(struct core *core)
{
    struct disks *disks = &core->disks;
    uint64_t took_us[DISK_FLUSH_COUNT];
    const struct disk_flush *flush;
    uint32_t count = 0;
    while ((flush = flush_before(disks, count)) != NULL &&
           core->now_ns - flush->at_ns <= RECENT_NS) {
        took_us[count++] = flush->took_ns / NS_PER_US;
    }
    disks->recent_us = disks_median(took_us, count);
    disks->recent_count = count;
}

/* At least 20 flushes, and as many as started within 2 s. */
static void disks_measure(struct core *core)
{
    struct disks *disks = &core->disks;
    uint64_t took_us[DISK_FLUSH_COUNT];
    const struct disk_flush *flush;
    uint64_t oldest_ns = core->now_ns;
    uint32_t count = 0;
    while ((flush = flush_before(disks, count)) != NULL &&
           core->now_ns - flush->at_ns <= OLD_NS &&
           (count < MOVE_COUNT || core->now_ns - oldest_ns < RECENT_NS)) {
        took_us[count++] = flush->took_ns / NS_PER_US;
        oldest_ns = flush->at_ns - u64_min(flush->at_ns, flush->took_ns);
    }
    disks->median_us = disks_median(took_us, count);
    disks->median_count = count;
}

static void disks_judge(struct core *core)
{
    struct disks *disks = &core->disks;
    const struct disk_flush *newest = flush_before(disks, 0);
    bool is_known = disks->median_count >= SAID_COUNT;
    /* CALM_US is below SLOW_US, so that a disk between them is not logged again
     * and again. */
    if (!disks->is_slow && is_known && disks->median_us >= SLOW_US) {
        disks->is_slow = true;
        LOG_WARN("flushes are slow",
                 "flush_ms=%" PRIu64 " flushes=%" PRIu32
                 " hint=\"the median of the newest flushes of the log; each "
                 "change waits for the leader's disk: check what else uses "
                 "it\"",
                 disks->median_us / 1000, disks->median_count);
    } else if (disks->is_slow && is_known && disks->median_us < CALM_US) {
        disks->is_slow = false;
        LOG_INFO("flushes are no longer slow", "flush_ms=%" PRIu64,
                 disks->median_us / 1000);
    } else if (disks->is_slow && core->now_ns - newest->at_ns >= FORGET_NS) {
        disks->is_slow = false;
        LOG_INFO("flushes are no longer slow",
                 "hint=\"the log has not been flushed for a minute\"");
    }
}

/* True if the flushes that 'id' has reported are faster by that factor. */
static bool is_faster(const struct core *core, uint64_t id, uint64_t *ret_us)
{
    uint32_t count;
    return core_disk_flush(core, id, ret_us, &count) && count >= HEIR_COUNT &&
           core->disks.median_us >= RATIO * *ret_us;
}

/* True if 'id' is heard and has all that is committed. */
static bool is_level(const struct core *core, uint64_t id)
{
    return peer_is_up(core, id) && liveness_is_heard(core, id) &&
           replica_match(core->replica, id) >=
               replica_commit_index(core->replica);
}

bool disks_may_take_over(const struct core *core, uint64_t id)
{
    uint64_t us;
    return is_level(core, id) && is_faster(core, id, &us);
}

/* The successor; 0: none, or it is not time. */
static uint64_t disks_find_successor(const struct core *core)
{
    const struct disks *disks = &core->disks;
    struct replica_members members;
    uint64_t successor = 0, least_us = 0, us;
    if (!is_serving(core) || !disks->is_slow || disks->median_us < SLOW_US ||
        disks->median_count < MOVE_COUNT ||
        core->now_ns - disks->since_ns < disks->required_ns) {
        return 0;
    }
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        /* A member that lacks a committed entry cannot be elected (thesis,
         * 3.6.1), so the cluster would lose its leader for nothing. */
        if (member->role == MEMBER_VOTER && member->id != core->options.id &&
            is_level(core, member->id) && is_faster(core, member->id, &us) &&
            (successor == 0 || us < least_us)) {
            successor = member->id;
            least_us = us;
        }
    }
    return successor;
}

void disks_look(struct core *core)
{
    measure_recent(core);
    disks_measure(core);
    disks_judge(core);
    core->leadership.disk_successor = disks_find_successor(core);
}

void disks_report(const struct core *core, struct frame_clock *out)
{
    const struct disks *disks = &core->disks;
    out->flush_us = (uint32_t)u64_min(disks->recent_us, UINT32_MAX);
    out->flush_count = disks->recent_count;
}

void disks_received(struct core *core, uint64_t from,
                    const struct frame_clock *clock)
{
    struct peer *peer = peer_find(core, from);
    if (peer != NULL) {
        peer->disk = (struct disk_report){.at_ns = core->now_ns,
                                          .flush_us = clock->flush_us,
                                          .flush_count = clock->flush_count};
    }
}

void disks_leading(struct core *core)
{
    struct disks *disks = &core->disks;
    bool has_led = disks->led_ns != 0 &&
                   core->now_ns - disks->led_ns < LEADERSHIP_MAX_NS;
    CHECK(is_serving(core));
    disks->required_ns = has_led ? u64_min(2 * disks->required_ns,
                                           LEADERSHIP_MAX_NS)
                                 : LEADERSHIP_NS;
    disks->since_ns = core->now_ns;
}

void disks_led(struct core *core)
{
    /* A leadership that never served did not set its required time. */
    if (is_serving(core)) {
        core->disks.led_ns = core->now_ns;
    }
}

void disks_handed_over(struct core *core, uint64_t to, char why[HASP_WHY_SIZE])
{
    struct disks *disks = &core->disks;
    uint64_t us = 0;
    uint32_t count = 0;
    CHECK(is_serving(core) && to != core->options.id);
    (void)core_disk_flush(core, to, &us, &count);
    snprintf(why, HASP_WHY_SIZE,
             "a flush of this node's disk takes %" PRIu64
             " ms, one of member %" PRIu64 "'s %" PRIu64 ".%" PRIu64
             " ms (medians of %" PRIu32 " and %" PRIu32 ")",
             disks->median_us / 1000, to, us / 1000, us / 100 % 10,
             disks->median_count, count);
    core->leadership.disk_successor = 0;
    disks->moved_count++;
    disks->moved_to = to;
    /* If the other voter does not take over, the next attempt is not made at
     * once. */
    disks->since_ns = core->now_ns;
}

bool core_disk_flush(const struct core *core, uint64_t id, uint64_t *ret_us,
                     uint32_t *ret_count)
{
    const struct peer *peer = peer_look(core, id);
    if (id == core->options.id) {
        *ret_us = core->disks.recent_us;
        *ret_count = core->disks.recent_count;
    } else if (peer != NULL && peer->is_up && peer->disk.at_ns != 0 &&
               core->now_ns - peer->disk.at_ns <= RECENT_NS) {
        *ret_us = peer->disk.flush_us;
        *ret_count = peer->disk.flush_count;
    } else {
        return false;
    }
    return *ret_count > 0;
}

bool core_disk_is_slow(const struct core *core, uint64_t *ret_median_us)
{
    *ret_median_us = core->disks.median_us;
    return core->disks.is_slow;
}

uint64_t core_disk_moved(const struct core *core, uint64_t *ret_to)
{
    *ret_to = core->disks.moved_to;
    return core->disks.moved_count;
}
