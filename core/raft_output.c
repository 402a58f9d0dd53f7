/* SPDX-License-Identifier: MIT */

/* Passes to the port what the replica wants to persist, send or connect to. */

#include "core/raft_output.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "core/command.h"
#include "core/forward.h"
#include "core/members/admission.h"
#include "core/members/advertised.h"
#include "core/state.h"

static void send_messages(struct core *core,
                          const struct replica_update *update)
{
    if (is_barred(core)) {
        /* While this node is barred, neither its votes nor its acknowledgements
         * may count. */
        return;
    }
    for (uint32_t i = 0; i < update->message_count; i++) {
        const struct replica_message *message = &update->messages[i];
        CHECK(message->to != core->options.id);
        struct buffer *out = peer_output(core, message->to, FRAME_RAFT);
        if (out != NULL) {
            size_t start = frame_begin(out, FRAME_RAFT);
            buffer_put_bytes(out, message->bytes);
            frame_end(out, start);
        }
    }
    if (update->snapshot_to != 0) {
        core->members.snapshot_to = update->snapshot_to;
    }
}

void raft_output_carry_out(struct core *core,
                           const struct replica_update *update)
{
    const struct core_port *port = &core->port;
    /* While a snapshot is being installed the log is being emptied. */
    CHECK(core->snapshots.installing == 0 ||
          (update->truncate_from == 0 && update->entry_count == 0));
    if (update->save_vote) {
        port->save_vote(port->data, update->term, update->voted_for);
    }
    if (update->truncate_from != 0) {
        port->log_truncate(port->data, update->truncate_from);
        pending_access_truncated(core, update->truncate_from);
    }
    /* The log is never cut below what is committed, and gets no hole. */
    CHECK(update->truncate_from == 0 ||
          update->truncate_from > lockfsm_applied_index(core->fsm));
    if (update->entry_count > 0) {
        port->log_append(port->data, update->entries, update->entry_count);
    }
    send_messages(core, update);
    if (update->members_changed) {
        raft_output_peers(core);
        admission_changed(core);
    }
}

void raft_output_members(struct core *core, uint64_t log_index)
{
    struct buffer encoded = {0};
    struct replica_members members;
    uint64_t ignored;
    replica_members_at(core->replica, log_index, &encoded, &ignored);
    int error = replica_members_decode(buffer_bytes(&encoded), &members);
    CHECK(error == 0);
    buffer_done(&encoded);
    core->members.applied = members;
    raft_output_peers(core);
}

static bool is_member(const struct replica_members *members, uint64_t id)
{
    return replica_members_find(members, id) != NULL;
}

/* Keeps the leader among the members: a log that is catching up may contain the
 * leader's removal first, and only later its return. */
static void keep_leader(const struct core *core, struct replica_members *wanted)
{
    const struct replica_members *before = &core->members.wanted;
    for (uint32_t i = 0; i < before->count; i++) {
        if (before->member[i].id == core->leader.last_id &&
            !is_member(wanted, core->leader.last_id) &&
            wanted->count < MEMBER_COUNT_MAX) {
            wanted->member[wanted->count++] = before->member[i];
        }
    }
}

/* Marks the peers that the log has removed: their connections close for this
 * reason. */
static void mark_removed(struct core *core,
                         const struct replica_members *members)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        struct peer *peer = &core->peers[i];
        if (peer->is_up && is_member(&core->members.wanted, peer->id) &&
            !is_member(members, peer->id)) {
            peer->is_removed = true;
        }
    }
}

/* A member that an uncommitted entry has removed may still lead, and then has
 * to report that it was not removed. */
void raft_output_peers(struct core *core)
{
    struct replica_members wanted;
    const struct replica_members *applied = &core->members.applied;
    replica_members(core->replica, &wanted);
    for (uint32_t i = 0; i < applied->count; i++) {
        if (!is_member(&wanted, applied->member[i].id) &&
            wanted.count < MEMBER_COUNT_MAX) {
            wanted.member[wanted.count++] = applied->member[i];
        }
    }
    keep_leader(core, &wanted);
    advertised_follow(core);
    core->port.peers_changed(core->port.data, &wanted);
    mark_removed(core, &wanted);
    core->members.wanted = wanted;
    standing_follow(core);
}

void raft_output_cluster_id(struct core *core)
{
    uint8_t id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, id);
    if (!core->members.is_cluster_known && cluster_id_is_known(id)) {
        core->members.is_cluster_known = true;
        core->port.cluster_known(core->port.data, id);
    }
}

uint64_t raft_output_snapshot_to(struct core *core)
{
    uint64_t to = core->members.snapshot_to;
    core->members.snapshot_to = 0;
    return to;
}

int core_exit_code(int error)
{
    return error == HASP_ETOOOLD ? CORE_EXIT_TOO_OLD : CORE_EXIT_STORAGE;
}

void core_fatal(struct core *core, int exit_code, const char *why)
{
    CHECK(exit_code != 0);
    if (!core->run.has_fatal) {
        core->run.has_fatal = true;
        core->port.fatal(core->port.data, exit_code, why);
    }
}

void core_condemn(struct core *core, const char *why)
{
    CHECK(!core->run.has_fatal);
    core->run.has_fatal = true;
    core->port.data_lost(core->port.data, why);
}
