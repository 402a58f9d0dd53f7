/* SPDX-License-Identifier: MIT */

/* Digests of the state, which all nodes compute at the same indexes and the
 * leader compares; and the scrub of stored records. */

#include "core/members/digests.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/minmax.h"
#include "core/state.h"

/* All nodes compute a digest if the index is a multiple of this. At 100,000
 * entries per second that is about twelve digests per second. */
#define POINT_ENTRIES 8192
/* The log counts as idle after this time without an entry. */
#define QUIET_NS (200 * NS_PER_MS)
/* Records that one step of the scrub checks. Steps are frequent enough for a
 * round to take less than a minute, and rare enough to use only a few
 * hundredths of the loop's time (docs/operations.md has the figure). */
#define SCRUB_RECORDS 256
#define SCRUB_ROUND_NS (50 * NS_PER_S)
#define SCRUB_INTERVAL_MIN_NS (10 * NS_PER_MS)
#define SCRUB_INTERVAL_MAX_NS (100 * NS_PER_MS)

static const struct frame_digest *
digests_find(const struct digest_points *points, uint64_t log_index)
{
    for (uint32_t i = 0; i < DIGEST_POINT_COUNT; i++) {
        if (points->point[i].log_index == log_index) {
            return &points->point[i];
        }
    }
    return NULL;
}

static const struct frame_digest *
digests_newest(const struct digest_points *points)
{
    uint32_t last = (points->next + DIGEST_POINT_COUNT - 1) %
                    DIGEST_POINT_COUNT;
    return &points->point[last];
}

static void digests_add(struct digest_points *points,
                        const struct frame_digest *point)
{
    CHECK(points->next < DIGEST_POINT_COUNT);
    points->point[points->next] = *point;
    points->next = (points->next + 1) % DIGEST_POINT_COUNT;
}

/* The known digest of a member at this index, or NULL. */
static const struct frame_digest *of_member(struct core *core, uint64_t id,
                                            uint64_t log_index)
{
    if (id == core->options.id) {
        return digests_find(&core->digests.own, log_index);
    }
    const struct peer *peer = peer_find(core, id);
    return peer != NULL ? digests_find(&peer->digests, log_index) : NULL;
}

static void digests_condemn(struct core *core, uint64_t log_index)
{
    char why[HASP_WHY_SIZE];
    snprintf(why, sizeof why,
             "the state of this node at entry %" PRIu64
             " differs from that of a majority: its memory or its disk was "
             "damaged, or its program differs. Remove this member from the "
             "cluster and add it again with an empty directory",
             log_index);
    core_condemn(core, why);
}

static void notify_diverged(struct core *core, uint64_t id,
                            const struct frame_digest *right)
{
    CHECK(is_leader(core) && id != core->options.id);
    struct buffer *out = peer_output(core, id, FRAME_DIVERGED);
    LOG_ERROR("a member's state differs from the majority's",
              "member=%" PRIu64 " index=%" PRIu64
              " hint=\"the member stops; remove it and add it again with an "
              "empty directory\"",
              id, right->log_index);
    if (out != NULL) {
        frame_put_digest(out, FRAME_DIVERGED, right);
    }
}

/* The digest that more than half of the voters have at this index, or NULL;
 * sets '*ret_differ' if two members have different ones. */
static const struct frame_digest *
digests_majority(struct core *core, const struct replica_members *members,
                 uint64_t log_index, bool *ret_differ)
{
    const struct frame_digest *right = NULL;
    const struct frame_digest *first = NULL;
    uint32_t voters = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        voters += members->member[i].role == MEMBER_VOTER;
    }
    *ret_differ = false;
    /* Standbys are compared, too, but only voters decide which state is
     * right. */
    for (uint32_t i = 0; i < members->count; i++) {
        const struct frame_digest *point = of_member(
            core, members->member[i].id, log_index);
        uint32_t same = 0;
        if (point == NULL) {
            continue;
        }
        first = first != NULL ? first : point;
        *ret_differ |= point->digest != first->digest;
        for (uint32_t j = 0; j < members->count; j++) {
            const struct frame_digest *other = of_member(
                core, members->member[j].id, log_index);
            same += members->member[j].role == MEMBER_VOTER && other != NULL &&
                    other->digest == point->digest;
        }
        right = 2 * same > voters ? point : right;
    }
    return right;
}

/* Compares the digests at this index, after the leader has received another
 * one. */
static void digests_compare(struct core *core, uint64_t log_index)
{
    struct replica_members members;
    bool differ;
    if (!is_leader(core) || core->run.has_fatal) {
        return;
    }
    replica_members(core->replica, &members);
    const struct frame_digest *right = digests_majority(core, &members,
                                                        log_index, &differ);
    CHECK(right == NULL || right->log_index == log_index);
    if (right == NULL) {
        if (differ && core->digests.differs_index != log_index) {
            LOG_ERROR("the states of members differ",
                      "index=%" PRIu64
                      " hint=\"a majority of the voters must be up to decide "
                      "which state is right\"",
                      log_index);
            core->digests.differs_index = log_index;
        }
        return;
    }
    for (uint32_t i = 0; i < members.count && differ; i++) {
        uint64_t id = members.member[i].id;
        const struct frame_digest *point = of_member(core, id, log_index);
        if (point == NULL || point->digest == right->digest) {
            continue;
        }
        /* A wrong leader stops at once and notifies nobody: all it could say
         * from now on comes from the wrong state. */
        if (id == core->options.id) {
            digests_condemn(core, log_index);
            return;
        }
        notify_diverged(core, id, right);
    }
    core->digests.agreed_index = u64_max(core->digests.agreed_index, log_index);
}

static void take_point(struct core *core, uint64_t log_index)
{
    struct frame_digest point = {.log_index = log_index,
                                 .digest = lockfsm_digest(core->fsm)};
    CHECK(log_index == lockfsm_applied_index(core->fsm));
    digests_add(&core->digests.own, &point);
    digests_compare(core, log_index);
}

void digests_applied(struct core *core, uint64_t log_index)
{
    if (log_index % POINT_ENTRIES == 0) {
        take_point(core, log_index);
    }
}

/* Computes a digest when no entry has been applied for a while: then all nodes
 * have applied the same index. */
static void take_idle_point(struct core *core)
{
    struct digests *digests = &core->digests;
    uint64_t applied = lockfsm_applied_index(core->fsm);
    CHECK(digests_newest(&digests->own)->log_index <= applied);
    if (applied != digests->applied_index) {
        digests->applied_index = applied;
        digests->quiet_since_ns = core->now_ns;
    } else if (core->now_ns - digests->quiet_since_ns >= QUIET_NS &&
               digests_newest(&digests->own)->log_index != applied) {
        take_point(core, applied);
    }
}

static void send_point(struct core *core)
{
    struct digests *digests = &core->digests;
    const struct frame_digest *point = digests_newest(&digests->own);
    if (is_leader(core) || core->leader.id == 0 || point->log_index == 0 ||
        (digests->sent_to == core->leader.id &&
         digests->sent_index == point->log_index)) {
        return;
    }
    CHECK(core->leader.id != core->options.id);
    struct buffer *out = peer_output(core, core->leader.id, FRAME_DIGEST);
    if (out != NULL) {
        frame_put_digest(out, FRAME_DIGEST, point);
        digests->sent_to = core->leader.id;
        digests->sent_index = point->log_index;
    }
}

static uint64_t scrub_interval_ns(const struct core *core)
{
    uint64_t count = lockfsm_settled_count(core->fsm) + 1;
    uint64_t ns = SCRUB_ROUND_NS * SCRUB_RECORDS / count;
    return ns < SCRUB_INTERVAL_MIN_NS   ? SCRUB_INTERVAL_MIN_NS
           : ns > SCRUB_INTERVAL_MAX_NS ? SCRUB_INTERVAL_MAX_NS
                                        : ns;
}

static void digests_scrub(struct core *core)
{
    if (core->now_ns < core->digests.scrub_due_ns ||
        core->snapshots.installing != 0) {
        return;
    }
    core->digests.scrub_due_ns = core->now_ns + scrub_interval_ns(core);
    const char *wrong = lockfsm_scrub(core->fsm, core->flush.table,
                                      SCRUB_RECORDS,
                                      &core->stats.counts.scrubbed);
    if (wrong != NULL) {
        char why[HASP_WHY_SIZE];
        snprintf(why, sizeof why,
                 "a record of the state was damaged after it was written: %s",
                 wrong);
        core_fatal(core, 70, why);
    }
}

void digests_turn(struct core *core)
{
    if (core->run.has_fatal) {
        return;
    }
    take_idle_point(core);
    send_point(core);
    digests_scrub(core);
}

uint64_t digests_next(const struct core *core)
{
    return core->digests.scrub_due_ns;
}

void digests_peer_lost(struct core *core, uint64_t id)
{
    if (core->digests.sent_to == id) {
        core->digests.sent_to = 0;
    }
}

int digests_received(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_digest point;
    struct peer *peer = peer_find(core, from);
    int error = frame_get_digest(body, &point);
    if (error == 0 && peer != NULL &&
        digests_find(&peer->digests, point.log_index) == NULL) {
        digests_add(&peer->digests, &point);
        digests_compare(core, point.log_index);
    }
    return error;
}

int digests_diverged(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_digest right;
    int error = frame_get_digest(body, &right);
    if (error != 0 || from != core->leader.id || core->run.has_fatal) {
        return error;
    }
    const struct frame_digest *own = digests_find(&core->digests.own,
                                                  right.log_index);
    if (own != NULL && own->log_index != 0 && own->digest != right.digest) {
        digests_condemn(core, right.log_index);
    }
    return 0;
}
