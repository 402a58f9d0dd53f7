/* SPDX-License-Identifier: MIT */

/* RAFT.SNAPSHOT, a sender to each follower, and the receiver. */

#include "core/snapshot/snapshots.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/minmax.h"
#include "core/apply.h"
#include "core/audit_log.h"
#include "core/command.h"
#include "core/events/events.h"
#include "core/state.h"

#define WINDOW 2
#define RETRY_NS (10000 * NS_PER_MS)
/* A sending without an acknowledged part for this time is restarted: the
 * receiver was adopting another leader's snapshot and ignored it. */
#define SENDER_STALL_NS (3000 * NS_PER_MS)

static struct snapshot_sender *sender_to(struct core *core,
                                         const struct peer *peer)
{
    CHECK(peer >= core->peers && peer < core->peers + PEER_COUNT_MAX);
    return &core->leadership.senders[peer - core->peers];
}

/* Spreads the threshold by up to a quarter, because nodes that apply the same
 * entries should not all write at once. */
static uint64_t snapshots_spread(const struct core *core, uint64_t threshold)
{
    return threshold + threshold / 4 * (core->options.seed % 16) / 16;
}

/* True for a backup, which any node makes, whether it leads or not. */
static bool is_backup(const struct request *request)
{
    return (request->command->flags & COMMAND_ASKED) != 0;
}

/* RAFT.SNAPSHOT is answered when a snapshot is on disk that has everything
 * applied at its receipt; a backup, everything that the leader had applied. */
static void answer_waiting(struct core *core)
{
    LIST_FOR_SAFE (struct request, request,
                   &core->requests.at[REQUEST_SNAPSHOT], in_list) {
        if (request->index > core->snapshots.index) {
            continue;
        }
        if (is_backup(request)) {
            backup_answer(core, request, 0);
        } else {
            request_answer_ok(core, request);
        }
    }
}

void snapshots_enqueue(struct core *core, struct request *request)
{
    /* The arguments of BACKUP are no longer needed. */
    request_release_call(core, request);
    request_move(core, request, REQUEST_SNAPSHOT);
    request->index = u64_max(lockfsm_applied_index(core->fsm),
                             request->read_index);
    answer_waiting(core);
}

/* True if a client waits for a snapshot that can be taken now. */
static bool snapshots_is_asked_for(const struct core *core)
{
    LIST_FOR (const struct request, request,
              &core->requests.at[REQUEST_SNAPSHOT], in_list) {
        if (request->index <= lockfsm_applied_index(core->fsm)) {
            return true;
        }
    }
    return false;
}

static void snapshots_take(struct core *core)
{
    struct buffer members = {0};
    struct snapshot_header header = {0};
    (void)flush_state(core, true);
    if (core->run.has_fatal || core->flush.is_table_full) {
        return;
    }
    header.last_index = lockfsm_flushed_index(core->fsm);
    header.last_term = lockfsm_applied_term(core->fsm);
    replica_members_at(core->replica, header.last_index, &members,
                       &header.configuration_index);
    header.configuration = buffer_bytes(&members);
    CHECK(!core->snapshots.is_taking && header.last_index > 0);
    /* A snapshot has committed configurations only. */
    CHECK(header.configuration_index <= header.last_index);
    core->snapshots.is_taking = true;
    core->port.snapshot_take(core->port.data, &header);
    buffer_done(&members);
}

void snapshots_free(struct snapshots *snapshots)
{
    buffer_done(&snapshots->members);
}

void snapshots_turn(struct core *core)
{
    uint64_t applied = lockfsm_applied_index(core->fsm);
    const struct core_limits *limits = &core->options.limits;
    if (core->snapshots.is_taking || core->snapshots.receiver.is_adopting ||
        core->run.has_fatal || core->now_ns < core->snapshots.retry_ns ||
        applied == core->snapshots.index) {
        return;
    }
    if (snapshots_is_asked_for(core) ||
        applied - core->snapshots.index >=
            snapshots_spread(core, limits->snapshot_entries) ||
        replica_log_size(core->replica) >=
            snapshots_spread(core, limits->snapshot_log_size)) {
        snapshots_take(core);
    }
}

uint64_t snapshots_next(const struct core *core)
{
    return snapshots_is_asked_for(core) && !core->snapshots.is_taking &&
                   core->snapshots.retry_ns > core->now_ns
               ? core->snapshots.retry_ns
               : UINT64_MAX;
}

/* Answers the clients that wait for a backup that the disk is full. */
static void refuse_backups(struct core *core, int error)
{
    LIST_FOR_SAFE (struct request, request,
                   &core->requests.at[REQUEST_SNAPSHOT], in_list) {
        if (is_backup(request)) {
            backup_answer(core, request, error);
        }
    }
}

void snapshots_taken(struct core *core, uint64_t log_index, int error)
{
    struct replica_update update;
    CHECK(core->snapshots.is_taking); /* The snapshot was requested. */
    core->snapshots.is_taking = false;
    if (error != 0) {
        LOG_WARN("cannot take a snapshot", "index=%" PRIu64 " error=\"%s\"",
                 log_index, hasp_strerror(error));
        core->snapshots.retry_ns = core->now_ns + RETRY_NS;
        refuse_backups(core, error);
        return;
    }
    uint64_t trim = replica_snapshot_taken(core->replica, log_index,
                                           core->now_ns / NS_PER_MS, &update);
    raft_output_carry_out(core, &update);
    if (trim != 0) {
        core->port.log_trim(core->port.data, trim);
    }
    core->snapshots.index = u64_max(core->snapshots.index, log_index);
    answer_waiting(core);
}

static void snapshots_pump(struct core *core, struct peer *peer)
{
    struct snapshot_sender *sender = sender_to(core, peer);
    uint64_t chunk_size = core->options.limits.snapshot_chunk_size;
    struct buffer chunk = {0};
    /* Only a leader sends, and its senders end with its leadership. */
    CHECK(is_leader(core));
    CHECK(sender->acked <= sender->sent);
    while (sender->is_active && sender->sent < sender->size &&
           sender->sent - sender->acked < WINDOW * chunk_size) {
        struct buffer *out = peer_output(core, peer->id, FRAME_SNAPSHOT);
        buffer_clear(&chunk);
        if (out == NULL ||
            !core->port.snapshot_read(core->port.data, sender->index,
                                      sender->term, sender->sent, chunk_size,
                                      &chunk) ||
            chunk.size == 0) {
            /* The receiver asks again, and then gets the whole snapshot. */
            sender->is_active = false;
            break;
        }
        struct frame_snapshot part = {
            .leader_term = core->leadership.term,
            .last_index = sender->index,
            .last_term = sender->term,
            .total_size = sender->size,
            .offset = sender->sent,
            .chunk = buffer_bytes(&chunk),
        };
        frame_put_snapshot(out, &part);
        sender->sent += chunk.size;
    }
    buffer_done(&chunk);
}

void snapshots_send(struct core *core, uint64_t member)
{
    struct peer *peer = peer_find(core, member);
    if (peer == NULL || !peer->is_up) {
        return;
    }
    struct snapshot_sender *sender = sender_to(core, peer);
    bool has_stalled = sender->acked < sender->size &&
                       core->now_ns - sender->moved_ns >= SENDER_STALL_NS;
    if (sender->is_active && !has_stalled) {
        return;
    }
    *sender = (struct snapshot_sender){.moved_ns = core->now_ns};
    if (!core->port.snapshot_stat(core->port.data, &sender->index,
                                  &sender->term, &sender->size)) {
        /* The replica asks again, and then there may be a snapshot. */
        return;
    }
    LOG_INFO("sending a snapshot",
             "to=%" PRIu64 " index=%" PRIu64 " size=%" PRIu64, member,
             sender->index, sender->size);
    sender->is_active = true;
    snapshots_pump(core, peer);
}

void snapshots_begin(struct core *core, uint64_t log_index)
{
    core->snapshots.index = log_index;
}

void snapshots_peer_lost(struct core *core, struct peer *peer)
{
    sender_to(core, peer)->is_active = false;
    if (core->snapshots.receiver.is_active &&
        core->snapshots.receiver.from == peer->id) {
        core->snapshots.receiver.is_active = false;
    }
}

void snapshots_stepped_down(struct core *core)
{
    LIST_FOR_SAFE (struct request, request,
                   &core->requests.at[REQUEST_SNAPSHOT], in_list) {
        if (!is_backup(request)) {
            request_return(core, request);
        }
    }
}

/* True if the snapshot fits on the disk without using the reserve. */
static bool has_room(struct core *core, uint64_t from, uint64_t size)
{
    uint64_t room = core->port.snapshot_room(core->port.data);
    uint32_t left_out;
    if (size <= room) {
        return true;
    }
    if (log_limit_pass(&core->run.logged.ignored, core->now_ns / NS_PER_MS,
                       &left_out)) {
        LOG_WARN("snapshot refused",
                 "from=%" PRIu64 " size=%" PRIu64 " room=%" PRIu64
                 " suppressed=%" PRIu32
                 " hint=\"it would use the space that disk_reserve keeps "
                 "free\"",
                 from, size, room, left_out);
    }
    return false;
}

static void snapshots_acknowledge(struct core *core, bool is_done)
{
    const struct snapshot_receiver *receiver = &core->snapshots.receiver;
    struct buffer *out = peer_output(core, receiver->from, FRAME_SNAPSHOT_ACK);
    if (out != NULL) {
        struct frame_snapshot_ack ack = {.leader_term = receiver->leader_term,
                                         .last_index = receiver->index,
                                         .offset = receiver->offset,
                                         .is_done = is_done};
        frame_put_snapshot_ack(out, &ack);
    }
}

/* Starts to receive with the first part of a sending; false if the rest is not
 * wanted. */
static bool snapshots_begin_receiving(struct core *core, uint64_t from,
                                      const struct frame_snapshot *part)
{
    struct snapshot_receiver *receiver = &core->snapshots.receiver;
    if (!has_room(core, from, part->total_size)) {
        /* The sender restarts when it gets no acknowledgement. */
        receiver->is_active = false;
        return false;
    }
    *receiver = (struct snapshot_receiver){.from = from,
                                           .leader_term = part->leader_term,
                                           .index = part->last_index,
                                           .term = part->last_term,
                                           .size = part->total_size};
    if (part->last_index <= lockfsm_applied_index(core->fsm)) {
        snapshots_acknowledge(core,
                              true); /* This node has applied all of it. */
        return false;
    }
    receiver->is_active = true;
    return true;
}

/* True if the part is the next one of what is being received. */
static bool is_next_part(const struct snapshot_receiver *receiver,
                         uint64_t from, const struct frame_snapshot *part)
{
    return receiver->is_active && receiver->from == from &&
           receiver->leader_term == part->leader_term &&
           receiver->index == part->last_index &&
           receiver->size == part->total_size &&
           receiver->offset == part->offset;
}

int snapshots_chunk(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_snapshot part;
    struct snapshot_receiver *receiver = &core->snapshots.receiver;
    int error = frame_get_snapshot(body, &part);
    if (error != 0 || part.chunk.size == 0) {
        return HASP_EPROTO;
    }
    if (receiver->is_adopting) {
        return 0;
    }
    if (!replica_is_near_term(core->replica, part.leader_term)) {
        return HASP_ETOOBIG;
    }
    if (part.leader_term != replica_term(core->replica)) {
        /* The sender no longer leads, or is not yet known here as the
         * leader. */
        return 0;
    }
    if (part.offset == 0 && !snapshots_begin_receiving(core, from, &part)) {
        return 0;
    }
    if (!is_next_part(receiver, from, &part)) {
        return 0; /* The part belongs to a sending that was abandoned. */
    }
    core->port.snapshot_write(core->port.data, part.offset, part.chunk);
    receiver->offset += part.chunk.size;
    snapshots_acknowledge(core, false);
    if (receiver->offset == receiver->size) {
        receiver->is_active = false;
        receiver->is_adopting = true;
        receiver->must_adopt = true;
        snapshots_vote_saved(core);
    }
    return 0;
}

void snapshots_vote_saved(struct core *core)
{
    CHECK(!core->snapshots.receiver.must_adopt ||
          core->snapshots.receiver.is_adopting);
    if (core->snapshots.receiver.must_adopt &&
        replica_vote_is_saved(core->replica)) {
        core->snapshots.receiver.must_adopt = false;
        core->port.snapshot_adopt(core->port.data);
    }
}

int snapshots_ack(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_snapshot_ack ack;
    int error = frame_get_snapshot_ack(body, &ack);
    if (error != 0) {
        return error;
    }
    struct peer *peer = peer_find(core, from);
    if (peer == NULL || !is_leader(core) ||
        ack.leader_term != core->leadership.term) {
        return 0;
    }
    struct snapshot_sender *sender = sender_to(core, peer);
    if (!sender->is_active || ack.last_index != sender->index) {
        return 0;
    }
    if (ack.is_done) {
        sender->is_active = false;
        return 0;
    }
    if (ack.offset > sender->sent) {
        /* The acknowledgement belongs to a sending that was abandoned. */
        return 0;
    }
    sender->acked = ack.offset;
    sender->moved_ns = core->now_ns;
    snapshots_pump(core, peer);
    return 0;
}

void snapshots_go_on(struct core *core)
{
    struct snapshot_receiver *receiver = &core->snapshots.receiver;
    const struct snapshot_header *header = &core->snapshots.good;
    uint64_t term = replica_term(core->replica);
    uint64_t leader = replica_leader(core->replica);
    struct replica_update update;
    /* If no leader is known, the sender leads this term, provided that it sent
     * in it: a term has at most one leader (Raft, 5.2). */
    if (!receiver->is_good || (leader == 0 && receiver->leader_term != term)) {
        return;
    }
    receiver->is_good = false;
    bool is_wanted = replica_install(
        core->replica, leader != 0 ? leader : receiver->from, term,
        header->last_index, header->last_term, header->configuration,
        header->configuration_index, core->now_ns / NS_PER_MS, &update);
    raft_output_carry_out(core, &update);
    if (is_wanted) {
        core->snapshots.installing = header->last_index;
        core->port.snapshot_install(core->port.data, header->last_index + 1);
    } else {
        receiver->is_adopting = false;
        snapshots_acknowledge(core, true);
    }
}

void snapshots_received(struct core *core, const struct snapshot_header *header,
                        int error)
{
    struct snapshot_receiver *receiver = &core->snapshots.receiver;
    CHECK(receiver->is_adopting && !receiver->must_adopt && !receiver->is_good);
    if (error != 0) {
        receiver->is_adopting = false;
        LOG_WARN("the received snapshot is damaged",
                 "index=%" PRIu64 " error=\"%s\"", receiver->index,
                 hasp_strerror(error));
        snapshots_acknowledge(core, true);
        return;
    }
    core->snapshots.good = *header;
    /* The header's list of members is the caller's memory, and the installation
     * can wait until a leader is known. */
    buffer_clear(&core->snapshots.members);
    buffer_put_bytes(&core->snapshots.members, header->configuration);
    core->snapshots.good.configuration = buffer_bytes(&core->snapshots.members);
    receiver->is_good = true;
    snapshots_go_on(core);
}

/* The log now begins after the snapshot: loads the state from the table. */
void snapshots_installed(struct core *core)
{
    struct replica_update update;
    char why[HASP_WHY_SIZE];
    uint64_t index = core->snapshots.installing;
    CHECK(index != 0 && core->snapshots.receiver.is_adopting);
    core->snapshots.installing = 0;
    core->snapshots.receiver.is_adopting = false;
    int error = lockfsm_load(core->fsm, core->flush.table, why);
    if (error != 0) {
        core_fatal(core, core_exit_code(error), why);
        return;
    }
    if (lockfsm_applied_index(core->fsm) != index) {
        core_fatal(core, 70, "cannot load the received snapshot");
        return;
    }
    core->snapshots.index = index;
    answer_waiting(core);
    flush_cancel(core); /* The table has the whole state. */
    timers_loaded(core->timers, core->fsm, core->now_ns);
    scripts_note_time(&core->scripts, lockfsm_redis_time(core->fsm), false,
                      core->now_ns);
    history_add(&core->history, index, core->now_ns);
    LOG_INFO("snapshot installed", "index=%" PRIu64, index);
    raft_output_cluster_id(core);
    replica_installed(core->replica, core->now_ns / NS_PER_MS, &update);
    raft_output_carry_out(core, &update);
    raft_output_members(core, index);
    attach_check(core);
    event_log_reset(core, index);
    events_missed(core);
    identity_changed(core);
    snapshots_acknowledge(core, true);
}
