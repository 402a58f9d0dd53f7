/* SPDX-License-Identifier: MIT */

#include "node/core/update.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "node/core/attach.h"
#include "node/core/commands.h"
#include "node/core/feature.h"
#include "node/core/forward.h"
#include "node/core/membership.h"
#include "node/core/peer.h"
#include "node/core/propose.h"
#include "node/core/request.h"
#include "node/core/snapshots.h"
#include "node/core/vouch.h"

static void send_messages(struct core *core,
                          const struct replica_update *update);
static bool is_member(const struct replica_members *members, uint64_t id);
static void want_leader(const struct core *core,
                        struct replica_members *wanted);
static void forget_removed(struct core *core,
                           const struct replica_members *members);
static void look_at_role(struct core *core);
static void step_down(struct core *core);
static void give_up(struct core *core, struct list *list);

void update_carry_out(struct core *core, const struct replica_update *update)
{
    const struct core_port *port = &core->port;
    if (update->save_vote) {
        port->save_vote(port->data, update->term, update->voted_for);
    }
    if (update->truncate_from != 0) {
        port->log_truncate(port->data, update->truncate_from);
    }
    if (update->entry_count > 0) {
        port->log_append(port->data, update->entries, update->entry_count);
    }
    send_messages(core, update);
    if (update->members_changed) {
        peers_want(core);
        vouch_changed(core);
    }
    look_at_role(core);
}

void peers_applied(struct core *core, uint64_t log_index)
{
    struct buffer encoded = {0};
    struct replica_members members;
    uint64_t ignored;
    replica_members_at(core->replica, log_index, &encoded, &ignored);
    int error = replica_members_decode(buffer_bytes(&encoded), &members);
    CHECK(error == 0);
    buffer_done(&encoded);
    core->applied_members = members;
    peers_want(core);
}

/* Who was removed by an entry that is not committed may lead, and then has to
 * tell us that it was not. */
void peers_want(struct core *core)
{
    struct replica_members wanted;
    const struct replica_members *applied = &core->applied_members;
    replica_members(core->replica, &wanted);
    for (uint32_t i = 0; i < applied->count; i++) {
        if (!is_member(&wanted, applied->member[i].id) &&
            wanted.count < MEMBER_COUNT_MAX) {
            wanted.member[wanted.count++] = applied->member[i];
        }
    }
    want_leader(core, &wanted);
    core->port.peers_changed(core->port.data, &wanted);
    forget_removed(core, &wanted);
    core->wanted_members = wanted;
}

void life_learnt(struct core *core)
{
    uint8_t id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, id);
    if (!core->is_cluster_told && cluster_id_is_known(id)) {
        core->is_cluster_told = true;
        core->port.cluster_known(core->port.data, id);
    }
}

void leader_begin(struct core *core)
{
    if (!core->must_begin) {
        return;
    }
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    struct begin_command begin = {
        .node = core->options.id,
        .incarnation = core->options.incarnation,
        .base_index = timers_base(core->timers),
        .elapsed_ms = timers_elapsed_ms(core->timers, core->now_ns),
    };
    lockfsm_cluster_id(core->fsm, cluster_id);
    if (!cluster_id_is_known(cluster_id)) {
        memcpy(cluster_id, core->options.cluster_id, sizeof cluster_id);
        if (!cluster_id_is_known(cluster_id)) {
            core->port.random(core->port.data, cluster_id, sizeof cluster_id);
        }
        begin.cluster_id = cluster_id;
        begin.token_base = core->options.token_base;
        begin.feature_level = feature_of_founders(core);
    }
    if (!lockfsm_has_limits(core->fsm)) {
        begin.limits = &core->options.limits.founding;
    }
    buffer_clear(&core->scratch);
    encode_begin(&core->scratch, &begin);
    struct bytes command = buffer_bytes(&core->scratch);
    struct replica_update update;
    uint64_t index;
    int error = replica_submit(core->replica, &command, 1,
                               core->now_ns / NS_PER_MS, &index, &update);
    if (error != 0) {
        return; /* Tried again in the next turn, if still leader. */
    }
    core->must_begin = false;
    update_carry_out(core, &update);
}

void leader_serve(struct core *core)
{
    core->is_serving = true;
    core->asked = core->asked_before = core->asked_first = 0;
    core->confirmed_ns = 0;
    core->wants_expiry_question = false;
    core->must_register = core->must_look_at_levels = true;
    /* Where every disk is scarce leadership does not go round at once. */
    core->scarce_retry_ns = core->now_ns + SCARCE_RETRY_NS;
    timers_begin(core->timers, core->fsm, core->now_ns);
    attach_tell(core);
    LOG_INFO("serving", "term=%" PRIu64 " sessions=%u", core->led_term,
             (unsigned)HASH_CNT(by_id, lockfsm_sessions(core->fsm)));
}

int core_exit_code(int error)
{
    return error == HASP_ETOOOLD ? CORE_EXIT_TOO_OLD : CORE_EXIT_STORAGE;
}

void core_fatal(struct core *core, int exit_code, const char *why)
{
    if (!core->has_fatal) {
        core->has_fatal = true;
        core->port.fatal(core->port.data, exit_code, why);
    }
}

static void send_messages(struct core *core,
                          const struct replica_update *update)
{
    if (core_is_barred(core)) {
        return; /* Neither a vote nor an acknowledgement may count. */
    }
    for (uint32_t i = 0; i < update->message_count; i++) {
        const struct replica_message *message = &update->messages[i];
        struct buffer *out = peer_output(core, message->to);
        if (out != NULL) {
            size_t start = frame_begin(out, FRAME_RAFT);
            buffer_put_bytes(out, message->bytes);
            frame_end(out, start);
        }
    }
    if (update->snapshot_to != 0) {
        snapshots_send(core, update->snapshot_to);
    }
}

static bool is_member(const struct replica_members *members, uint64_t id)
{
    return replica_members_find(members, id) != NULL;
}

/* A log that is being caught up with may tell that its own leader was removed,
 * and only later that it was added again: its connection brings the rest. */
static void want_leader(const struct core *core, struct replica_members *wanted)
{
    const struct replica_members *before = &core->wanted_members;
    for (uint32_t i = 0; i < before->count; i++) {
        if (before->member[i].id == core->last_leader &&
            !is_member(wanted, core->last_leader) &&
            wanted->count < MEMBER_COUNT_MAX) {
            wanted->member[wanted->count++] = before->member[i];
        }
    }
}

/* A removed member's connection has gone with it. */
static void forget_removed(struct core *core,
                           const struct replica_members *members)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        struct peer *peer = &core->peers[i];
        if (peer->is_up && is_member(&core->wanted_members, peer->id) &&
            !is_member(members, peer->id)) {
            core_peer_down(core, peer->id, false, core->now_ns);
        }
    }
}

static void look_at_role(struct core *core)
{
    bool is_leader = replica_role(core->replica) == REPLICA_LEADER;
    uint64_t term = replica_term(core->replica);
    uint64_t leader = replica_leader(core->replica);
    if (core->is_leader && (!is_leader || term != core->led_term)) {
        LOG_INFO("stepped down", "term=%" PRIu64, core->led_term);
        step_down(core);
    }
    if (is_leader && !core->is_leader) {
        core->is_leader = true;
        core->must_begin = true;
        core->led_term = term;
        LOG_INFO("became leader", "term=%" PRIu64, term);
    }
    if (leader != core->known_leader || term != core->known_term) {
        core->known_leader = leader;
        core->known_term = term;
        if (leader != 0 && leader != core->last_leader) {
            core->last_leader = leader;
            peers_want(core); /* The one before may have been removed. */
        }
        forward_leader_changed(core);
        attach_tell(core);
    }
}

/* Volatile state of a leader ends with its term (rule 14). */
static void step_down(struct core *core)
{
    core->is_leader = false;
    core->must_begin = false;
    core->is_serving = false;
    timers_end(core->timers);
    propose_abandon(core);
    propose_forget(core);
    give_up(core, &core->logged);
    give_up(core, &core->queued);
    LIST_EACH_SAFE (node, &core->asking) {
        request_return(core, LIST_ENTRY(node, struct request, in_list));
    }
    LIST_EACH_SAFE (node, &core->doomed) {
        request_return(core, LIST_ENTRY(node, struct request, in_list));
    }
    LIST_EACH_SAFE (node, &core->parked) {
        struct request *request = LIST_ENTRY(node, struct request, in_list);
        if (request->conn == NULL) {
            request_return(core, request);
        }
    }
    attach_stepped_down(core);
    membership_stepped_down(core);
    snapshots_stepped_down(core);
}

/* Changes that were logged: whether they will take effect is not known. What
 * came from a peer is left to that peer, which learns of the new term as
 * well. */
static void give_up(struct core *core, struct list *list)
{
    LIST_EACH_SAFE (node, list) {
        struct request *request = LIST_ENTRY(node, struct request, in_list);
        if (request->conn == NULL) {
            request_drop(core, request);
        } else {
            request_return(core, request);
        }
    }
}
