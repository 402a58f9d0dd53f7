/* SPDX-License-Identifier: MIT */

/* The election, BEGIN, and the only function that ends a leadership. */

#include "core/leadership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "core/forward.h"
#include "core/members/feature.h"
#include "core/state.h"

/* The sessions and locks whose deadlines one turn starts, which takes some
 * milliseconds. */
#define DEADLINE_SLICE 4096

static void abandon_all(struct core *core, struct list *list)
{
    LIST_FOR_SAFE (struct request, request, list, in_list) {
        request_abandon(core, request);
    }
}

static void return_all(struct core *core, struct list *list)
{
    LIST_FOR_SAFE (struct request, request, list, in_list) {
        request_return(core, request);
    }
}

/* How long less than a majority of the voters has been heard, which is the
 * silence of the voter that is missing for one. UINT64_MAX: that voter was
 * never heard. */
static uint64_t majority_silence_ms(const struct core *core,
                                    const struct replica_members *members)
{
    uint64_t silence_ms[MEMBER_COUNT_MAX];
    uint32_t others = 0, voters = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        uint64_t id = members->member[i].id;
        if (members->member[i].role != MEMBER_VOTER) {
            continue;
        }
        voters++;
        if (id == core->options.id) {
            continue;
        }
        uint64_t here = core->port.peer_silence_ms(core->port.data, id);
        /* Insertion sort, the shortest silence first. */
        uint32_t at = others++;
        for (; at > 0 && silence_ms[at - 1] > here; at--) {
            silence_ms[at] = silence_ms[at - 1];
        }
        silence_ms[at] = here;
    }
    /* With this node, voters / 2 others make a majority: the silence of the
     * last of them is the majority's. */
    return voters / 2 > 0 && voters / 2 <= others ? silence_ms[voters / 2 - 1]
                                                  : 0;
}

/* Records why this leadership ends; 'term' is the replica's present term. */
static void note_over(struct core *core, uint64_t term)
{
    const struct transfer *transfer = &core->leadership.transfer;
    struct leader *leader = &core->leader;
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *own = replica_members_find(&members,
                                                            core->options.id);
    uint64_t silence_ms = majority_silence_ms(core, &members);
    leader->over_ns = core->now_ns;
    leader->over_term = core->leadership.term;
    char *out = leader->over;
    /* The order matters: after a transfer the successor has a higher term,
     * too. */
    if (transfer->state == TRANSFER_UNDER_WAY) {
        snprintf(out, LEADERSHIP_OVER_SIZE,
                 "handed over to member %" PRIu64 ": %s", transfer->to,
                 transfer->why);
    } else if (term > core->leadership.term && leader->frame_of != 0) {
        snprintf(out, LEADERSHIP_OVER_SIZE,
                 "a higher term, %" PRIu64 ", from member %" PRIu64, term,
                 leader->frame_of);
    } else if (own == NULL || own->role != MEMBER_VOTER) {
        snprintf(out, LEADERSHIP_OVER_SIZE, "this node is no longer a voter");
    } else if (silence_ms == UINT64_MAX) {
        snprintf(out, LEADERSHIP_OVER_SIZE,
                 "no majority answered since the election");
    } else {
        snprintf(out, LEADERSHIP_OVER_SIZE,
                 "no majority answered for %" PRIu64 " ms", silence_ms);
    }
    LOG_INFO("stepped down", "term=%" PRIu64 " reason=%s",
             core->leadership.term, log_quote(out));
}

static void leadership_end(struct core *core, uint64_t term)
{
    CHECK(is_leader(core));
    note_over(core, term);
    disks_led(core);
    core->leadership.stage = LEADERSHIP_NONE;
    timers_end(core->timers);
    propose_abandon(core);
    abandon_all(core, &core->requests.at[REQUEST_LOGGED]);
    abandon_all(core, &core->requests.at[REQUEST_QUEUED]);
    return_all(core, &core->requests.at[REQUEST_ASKING]);
    return_all(core, &core->requests.at[REQUEST_DOOMED]);
    return_all(core, &core->requests.at[REQUEST_RESUMED]);
    return_all(core, &core->requests.at[REQUEST_READY]);
    LIST_FOR_SAFE (struct request, request, &core->requests.at[REQUEST_PARKED],
                   in_list) {
        if (request->conn == NULL) {
            request_return(core, request);
        }
    }
    for (int i = REQUEST_ASKING; i <= REQUEST_READY; i++) {
        /* Stepping down leaves no request of the leader's (rule 14). */
        CHECK(list_is_empty(&core->requests.at[i]));
    }
    attach_stepped_down(core);
    membership_stepped_down(core);
    transfer_stepped_down(core);
    snapshots_stepped_down(core);
    leadership_done(core);
}

void leadership_done(struct core *core)
{
    propose_done(&core->leadership.propose);
    buffer_done(&core->leadership.change.asker);
    core->leadership = (struct leadership){.stage = LEADERSHIP_NONE};
}

void leadership_follow(struct core *core)
{
    bool leads = replica_role(core->replica) == REPLICA_LEADER;
    uint64_t term = replica_term(core->replica);
    uint64_t leader = replica_leader(core->replica);
    CHECK(term >= core->leader.term); /* Terms only grow. */
    if (is_leader(core) && (!leads || term != core->leadership.term)) {
        leadership_end(core, term);
    }
    if (leads && !is_leader(core)) {
        /* The previous leadership has ended. */
        CHECK(core->leadership.propose.ring == NULL);
        core->leadership = (struct leadership){.stage = LEADERSHIP_ELECTED,
                                               .term = term};
        core->stats.counts.elected++;
        LOG_INFO("became leader", "term=%" PRIu64, term);
    }
    if (leader != core->leader.id || term != core->leader.term) {
        if (core->leader.id != 0) {
            core->leader.heard_ns = core->now_ns;
        }
        core->leader.id = leader;
        core->leader.term = term;
        if (leader != 0 && leader != core->leader.last_id) {
            core->leader.last_id = leader;
            core->stats.counts.leaders++;
            raft_output_peers(
                core); /* The previous leader may have been removed. */
        }
        /* This leader now decides what entries of another node's log count. */
        standing_follow(core);
        forward_leader_changed(core);
        attach_report(core);
    }
}

void leadership_begin(struct core *core)
{
    if (core->leadership.stage != LEADERSHIP_ELECTED) {
        return;
    }
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    struct begin_command begin = {
        .node = core->options.id,
        .base_index = timers_base(core->timers),
        .elapsed_ms = timers_elapsed_ms(core->timers, core->now_ns),
    };
    lockfsm_cluster_id(core->fsm, cluster_id);
    if (!cluster_id_is_known(cluster_id)) {
        memcpy(cluster_id, core->options.cluster_id, sizeof cluster_id);
        if (!cluster_id_is_known(cluster_id)) {
            core->port.random(core->port.data, cluster_id, sizeof cluster_id);
        }
        begin.cluster_id = bytes_of(cluster_id, sizeof cluster_id);
        begin.token_base = core->options.token_base;
        begin.feature_level = feature_of_founders(core);
        begin.is_access_required = core->options.founds_access_required;
    }
    if (!lockfsm_has_limits(core->fsm)) {
        begin.limits = core->options.limits.founding.of;
        begin.limit_count = LIMIT_COUNT;
    }
    struct buffer entry = {0};
    encode_begin(&entry, &begin);
    struct bytes command = buffer_bytes(&entry);
    struct replica_update update;
    uint64_t index;
    int error = replica_submit(core->replica, &command, 1,
                               core->now_ns / NS_PER_MS, &index, &update);
    buffer_done(&entry);
    if (error != 0) {
        return; /* The next turn tries again, if this node still leads. */
    }
    core->leadership.stage = LEADERSHIP_BEGUN;
    raft_output_carry_out(core, &update);
}

void leadership_begun(struct core *core)
{
    /* The BEGIN that was applied is this node's own. */
    CHECK(core->leadership.stage == LEADERSHIP_BEGUN);
    core->leadership.stage = LEADERSHIP_TIMING;
    timers_begin(core->timers, core->fsm, core->now_ns);
    leadership_turn(core);
}

void leadership_turn(struct core *core)
{
    uint32_t slice = core->options.limits.slice;
    if (core->leadership.stage != LEADERSHIP_TIMING) {
        return;
    }
    if (!timers_inherit(core->timers, core->fsm,
                        slice != 0 ? slice : DEADLINE_SLICE)) {
        core->turn.has_left_over = true;
        return;
    }
    core->leadership.stage = LEADERSHIP_SERVING;
    core->leadership.serving_ns = core->now_ns;
    disks_leading(core);
    feature_member_changed(core);
    transfer_put_off(core);
    attach_report(core);
    LOG_INFO("serving", "term=%" PRIu64 " sessions=%u", core->leadership.term,
             (unsigned)HASH_CNT(by_id, lockfsm_sessions(core->fsm)));
}

void leadership_frame_of(struct core *core, uint64_t id)
{
    CHECK(id != core->options.id);
    core->leader.frame_of = id;
}

void leadership_start(struct core *core, uint64_t now_ns)
{
    core->leader.heard_ns = now_ns;
}
