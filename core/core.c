/* SPDX-License-Identifier: MIT */

/* The contract of core.h: each event sets the time, goes to its module, and is
 * followed by a check of the role; and the order of a turn. */

#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/check.h"
#include "base/doing.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/apply.h"
#include "core/command.h"
#include "core/dispatch.h"
#include "core/forward.h"
#include "core/members/admission.h"
#include "core/members/feature.h"
#include "core/members/liveness.h"
#include "core/members/peer_filter.h"
#include "core/session/lease.h"
#include "core/session/quarantine.h"
#include "core/state.h"
#include "lockfsm/feature.h"

const struct core_limits core_default_limits = {
#define CORE_LIMIT(kind, name, min, max, standard) .name = (standard),
#include "core/limits.def"
#undef CORE_LIMIT
};

/* The rounds of a turn: what an applied BEGIN admits is proposed in the same
 * turn. */
#define TURN_ROUNDS 3

/* What the answers to reads in one turn may cost, in the account's units. */
#define READ_BUDGET 4000
#define OWN_IN_FLIGHT_DEFAULT 8192
#define BYTES_IN_FLIGHT_DEFAULT (64u << 20)
#define BYTES_PER_CONN_DEFAULT (4u << 20)

static void init_lists(struct core *core)
{
    list_init(&core->conns.by_age);
    list_init(&core->conns.settling);
    list_init(&core->conns.due);
    watches_init(core);
    stats_init(core);
    core->options.classes = NULL; /* Not kept. */
    audit_denied_init(core);
    for (int i = 0; i < REQUEST_STATE_COUNT; i++) {
        list_init(&core->requests.at[i]);
    }
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        list_init(&core->peers[i].attachments);
    }
}

/* A peer's request that was queued gets its turn. */
static void decide_resting(struct core *core, struct request *request)
{
    if (forward_may_decide(core, request)) {
        dispatch_decide(core, request);
    }
}

struct core *core_new(const struct core_options *options,
                      const struct core_port *port,
                      const struct command_table *commands)
{
    struct core *core = memory_new(sizeof *core);
    CHECK(options->id != 0 && options->heartbeat_ms < options->election_ms);
    core->options = *options;
    core->port = *port;
    core->run.commands = commands;
    log_loss_begin(core, &options->accused);
    struct core_limits *limits = &core->options.limits;
    if (limits->sessions_per_conn > FRAME_SESSION_MAX) {
        limits->sessions_per_conn = FRAME_SESSION_MAX;
    }
    if (limits->own_in_flight == 0) {
        limits->own_in_flight = OWN_IN_FLIGHT_DEFAULT;
    }
    if (limits->bytes_in_flight == 0) {
        limits->bytes_in_flight = BYTES_IN_FLIGHT_DEFAULT;
    }
    if (limits->bytes_per_conn == 0) {
        limits->bytes_per_conn = BYTES_PER_CONN_DEFAULT;
    }
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (limits->founding.of[key] == 0) {
            limits->founding.of[key] = lockfsm_default_limits.of[key];
        }
    }
    uint32_t in_flight_max = propose_in_flight_max(core);
    struct replica_options replica = {
        .id = options->id,
        .incarnation = options->incarnation,
        .seed = options->seed,
        .election_ms = options->election_ms,
        .heartbeat_ms = options->heartbeat_ms,
        .in_flight_max = in_flight_max,
    };
    core->replica = replica_new(&replica);
    core->fsm = lockfsm_new();
    if (core->options.feature_level == 0) {
        core->options.feature_level = FEATURE_LEVEL;
    }
    lockfsm_set_node_level(core->fsm, core->options.feature_level);
    if (limits->slice != 0) {
        lockfsm_set_slice(core->fsm, limits->slice);
    }
    core->timers = timers_new();
    init_lists(core);
    forward_queue_init(core, decide_resting, forward_closed);
    command_init(core);
    return core;
}

static void free_requests(struct core *core)
{
    /* The slots of connections point to requests. */
    CHECK(core->conns.by_id == NULL);
    forward_queue_done(core);
    for (int i = 0; i < REQUEST_STATE_COUNT; i++) {
        LIST_FOR_SAFE (struct request, request, &core->requests.at[i],
                       in_list) {
            request_drop(core, request);
        }
    }
    if (core->leadership.change.request != NULL) {
        request_drop(core, core->leadership.change.request);
    }
    if (core->leadership.transfer.request != NULL) {
        request_drop(core, core->leadership.transfer.request);
    }
    requests_free(core);
    scripts_done(&core->scripts);
}

void core_free(struct core *core)
{
    if (core == NULL) {
        return;
    }
    /* Closing the connections is not reported to the leader. */
    core->run.is_stopping = true;
    LIST_FOR_SAFE (struct conn, conn, &core->conns.by_age, in_core) {
        conn_free(core, conn);
    }
    attach_free(core);
    free_requests(core);
    leadership_done(core);
    pending_access_done(&core->pending_access);
    stats_done(core);
    audit_denied_done(core);
    slow_log_done(core);
    event_log_done(&core->event_log);
    history_done(&core->history);
    effects_done(&core->turn.effects);
    buffer_done(&core->watches.message);
    buffer_done(&core->watches.refusal);
    for (int i = 0; i < 4; i++) {
        buffer_done(&core->run.described[i / 2][i % 2]);
    }
    snapshots_free(&core->snapshots);
    timers_free(core->timers);
    lockfsm_free(core->fsm);
    replica_free(core->replica);
    free(core);
}

/* Acts on the replica's decisions, after each event and each stage of a
 * turn. */
static void core_follow(struct core *core)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].is_removed) {
            core->peers[i].is_removed = false;
            core_peer_down(core, core->peers[i].id, false, core->now_ns);
        }
    }
    leadership_follow(core);
    uint64_t to = raft_output_snapshot_to(core);
    if (to != 0 && is_leader(core)) {
        snapshots_send(core, to);
    }
    CHECK(is_leader(core) == (replica_role(core->replica) == REPLICA_LEADER));
}

int core_begin(struct core *core, const struct core_start *start,
               uint64_t now_ns, char why[HASP_WHY_SIZE])
{
    struct replica_update update;
    struct replica_start replica = start->replica;
    flush_start(core, start->table);
    core->run.started_ns = now_ns;
    leadership_start(core, now_ns);
    set_now(core, now_ns);
    int error = lockfsm_load(core->fsm, core->flush.table, why);
    if (error != 0) {
        return error;
    }
    timers_loaded(core->timers, core->fsm, now_ns);
    scripts_note_time(&core->scripts, lockfsm_redis_time(core->fsm), false,
                      now_ns);
    replica.applied_index = lockfsm_applied_index(core->fsm);
    if (replica.applied_index < replica.snapshot_index) {
        snprintf(why, HASP_WHY_SIZE,
                 "the table ends at %" PRIu64
                 ", before the snapshot at %" PRIu64,
                 replica.applied_index, replica.snapshot_index);
        return HASP_ECORRUPT;
    }
    snapshots_begin(core, replica.snapshot_index);
    history_begin(&core->history, replica.applied_index, now_ns);
    event_log_reset(core, replica.applied_index);
    error = replica_begin(core->replica, &replica, now_ns / NS_PER_MS, &update,
                          why);
    if (error != 0) {
        return error;
    }
    if (replica.applied_index > 0) {
        raft_output_members(core, replica.applied_index);
    } else {
        raft_output_peers(core);
    }
    core->run.replayed_index = replica_last_index(core->replica);
    CHECK(replica.applied_index <= core->run.replayed_index);
    pending_access_begin(core, &start->replica);
    raft_output_cluster_id(core);
    raft_output_carry_out(core, &update);
    core_follow(core);
    return 0;
}

void core_client_opened(struct core *core, uint64_t conn, const char *address,
                        const struct identity *identity, uint64_t now_ns)
{
    set_now(core, now_ns);
    CHECK(conn_find(core, conn) == NULL);
    identity_opened(core, conn_open(core, conn, address, identity));
}

void core_client_request(struct core *core, uint64_t conn,
                         const struct resp_request *request, uint64_t now_ns)
{
    set_now(core, now_ns);
    struct conn *found = conn_find(core, conn);
    if (found == NULL || found->is_closing || found->quit_slot != SLOT_NONE ||
        request->count == 0) {
        return;
    }
    struct doing before = doing_begin(
        &(struct doing){.what = "request",
                        .address = bytes_of_text(found->address),
                        .client = found->name,
                        .user = found->user});
    dispatch_received(core, found, request->argument, request->count);
    doing_end(&before);
}

void core_client_closed(struct core *core, uint64_t conn, uint64_t now_ns)
{
    set_now(core, now_ns);
    struct conn *found = conn_find(core, conn);
    if (found != NULL) {
        found->is_closing = true;
        conn_free(core, found);
    }
    CHECK(conn_find(core, conn) == NULL);
}

bool core_client_is_fresh(struct core *core, uint64_t conn)
{
    const struct conn *found = conn_find(core, conn);
    return found == NULL || (!found->is_known && found->watch_count == 0);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA
/* Sends a frame of a later version, for tests. */
static void send_trial(struct core *core, uint64_t id)
{
    struct buffer *out = peer_output(core, id, FRAME_TRIAL);
    if (out != NULL) {
        frame_put_u64(out, FRAME_TRIAL, core->options.id);
    }
}
#endif

/* True if more than half of the voters are connected, counting this node. */
static bool sees_majority(struct core *core)
{
    struct replica_members members;
    uint32_t voters = 0, up = 0;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member *member = &members.member[i];
        if (member->role == MEMBER_VOTER) {
            voters++;
            up += member->id == core->options.id ||
                  peer_is_up(core, member->id);
        }
    }
    return 2 * up > voters;
}

void core_peer_up(struct core *core, const struct frame_hello *hello,
                  uint64_t now_ns)
{
    uint64_t id = hello->from;
    CHECK(id != 0 && id != core->options.id);
    set_now(core, now_ns);
    struct peer *peer = peer_get(core, id);
    if (peer == NULL) {
        return;
    }
    if (peer->is_up) {
        core_peer_down(core, id, false, now_ns);
    }
    if (peer->incarnation != hello->incarnation) {
        peer->digests = (struct digest_points){.next = 0};
        peer->incarnation = hello->incarnation;
        peer->acked_term = peer->acked_index = 0;
        peer->named = (struct frame_members){.count = 0};
    }
    peer->members_index = hello->members_index;
    peer->last_term = hello->last_term;
    peer->last_index = hello->last_index;
    peer->feature_level = hello->feature_level;
    peer->disk = (struct disk_report){.at_ns = 0};
    clocks_linked(peer);
    peer->is_up = true;
    peer->says_removed = false;
    if (log_loss_seen(core, peer, hello)) {
        return;
    }
#ifdef HASP_FEATURE_LEVEL_EXTRA
    send_trial(core, id);
#endif
    feature_member_changed(core);
    admission_greeted(core, id, hello->members_index);
    if (id == core->leader.id) {
        attach_report(core);
    }
    /* A new cluster need not wait for an election timeout. */
    if (sees_majority(core)) {
        replica_hurry(core->replica, 0, now_ns / NS_PER_MS);
    }
}

void core_peer_down(struct core *core, uint64_t id, bool was_closed_by_peer,
                    uint64_t now_ns)
{
    set_now(core, now_ns);
    struct peer *peer = peer_find(core, id);
    if (peer != NULL) {
        peer->is_up = false;
        attach_remove_peer(core, peer);
        snapshots_peer_lost(core, peer);
    }
    forward_peer_lost(core, id);
    digests_peer_lost(core, id);
    log_loss_peer_lost(core, id);
    if (was_closed_by_peer) {
        replica_hurry(core->replica, id, now_ns / NS_PER_MS);
    }
}

static int take_forward(struct core *core, uint64_t id, struct bytes body)
{
    struct request *request = NULL;
    uint64_t payer;
    int error = forward_received(core, id, body, &request, &payer);
    if (request != NULL) {
        dispatch_decide(core, request);
    }
    /* The work belongs to the user, not to the node that forwards. */
    if (error == 0 && core->options.account != NULL) {
        account_charge_key(core->options.account, payer);
    }
    return error;
}

static int core_take_message(struct core *core, uint64_t id, struct bytes body)
{
    struct replica_update update;
    const struct peer *peer = peer_find(core, id);
    CHECK(peer != NULL); /* peer_filter_frame() has found it. */
    int error = replica_receive(core->replica, id, peer->incarnation, body,
                                core->now_ns / NS_PER_MS, &update);
    if (error == 0) {
        log_loss_update(core, id);
        raft_output_carry_out(core, &update);
    }
    return error;
}

static int core_take_frame(struct core *core, uint64_t id, enum frame_type type,
                           struct bytes body)
{
    switch (type) {
    case FRAME_RAFT:
        return core_take_message(core, id, body);
    case FRAME_FORWARD:
        return take_forward(core, id, body);
    case FRAME_ANSWER:
        return forward_answered(core, id, body);
    case FRAME_CLOSED:
        return forward_closed(core, id, body);
    case FRAME_SNAPSHOT:
        return snapshots_chunk(core, id, body);
    case FRAME_SNAPSHOT_ACK:
        return snapshots_ack(core, id, body);
    case FRAME_MEMBERS:
        return admission_received(core, id, body);
    case FRAME_LOST:
        return log_loss_received(core, id, body);
    case FRAME_ACCUSED:
        return log_loss_asked(core, id, body);
    case FRAME_CLEARED:
        return log_loss_cleared(core, id, body);
    case FRAME_DIGEST:
        return digests_received(core, id, body);
    case FRAME_DIVERGED:
        return digests_diverged(core, id, body);
    case FRAME_CLOCK:
        return clocks_received(core, id, body);
#ifdef HASP_FEATURE_LEVEL_EXTRA
    case FRAME_TRIAL:
        LOG_INFO("trial", "peer=%" PRIu64, id);
        return 0;
#endif
    /* The peer chose the type: the link ends, not the node. */
    default:
        return HASP_EPROTO;
    }
}

int core_peer_frame(struct core *core, uint64_t id, enum frame_type type,
                    struct bytes body, uint64_t now_ns, char why[HASP_WHY_SIZE])
{
    CHECK(id != 0 && id != core->options.id);
    set_now(core, now_ns);
    if (!peer_filter_frame(core, id, type)) {
        return type == FRAME_FORWARD ? forward_turned_away(core, id, body) : 0;
    }
    leadership_frame_of(core, id);
    struct doing before = doing_begin(
        &(struct doing){.what = "frame", .peer = id});
    int error = core_take_frame(core, id, type, body);
    core_follow(core);
    doing_end(&before);
    leadership_frame_of(core, 0);
    if (error == HASP_ETOOBIG) {
        snprintf(why, HASP_WHY_SIZE,
                 "its term is more than 2^32 above that of this node, %" PRIu64
                 ": no election leads to such a term",
                 replica_term(core->replica));
    }
    return error;
}

void core_persisted(struct core *core, uint64_t term, uint64_t log_index,
                    uint64_t flush_ns, uint64_t now_ns)
{
    struct replica_update update;
    CHECK(term <= replica_term(core->replica)); /* Terms only grow. */
    set_now(core, now_ns);
    if (core->snapshots.installing != 0) {
        return; /* The event belongs to a log that has been replaced. */
    }
    disks_flushed(core, flush_ns);
    propose_flushed(core, log_index);
    replica_persisted(core->replica, term, log_index, flush_ns / NS_PER_MS,
                      now_ns / NS_PER_MS, &update);
    raft_output_carry_out(core, &update);
    core_follow(core);
}

void core_vote_saved(struct core *core, uint64_t term, uint64_t voted_for,
                     uint64_t flush_ns, uint64_t now_ns)
{
    struct replica_update update;
    CHECK(term <= replica_term(core->replica));
    set_now(core, now_ns);
    replica_vote_saved(core->replica, term, voted_for, flush_ns / NS_PER_MS,
                       now_ns / NS_PER_MS, &update);
    raft_output_carry_out(core, &update);
    core_follow(core);
    snapshots_vote_saved(core);
    core_follow(core);
}

void core_snapshot_taken(struct core *core, uint64_t log_index, int error,
                         uint64_t now_ns)
{
    set_now(core, now_ns);
    snapshots_taken(core, log_index, error);
    core_follow(core);
}

void core_snapshot_received(struct core *core,
                            const struct snapshot_header *header, int error,
                            uint64_t now_ns)
{
    set_now(core, now_ns);
    snapshots_received(core, header, error);
    core_follow(core);
}

void core_snapshot_installed(struct core *core, uint64_t now_ns)
{
    set_now(core, now_ns);
    snapshots_installed(core);
    core_follow(core);
}

static uint64_t next_deadline(struct core *core)
{
    uint64_t now_ns = core->now_ns;
    uint64_t raft_ms = replica_deadline(core->replica);
    uint64_t next = raft_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX
                                                     : raft_ms * NS_PER_MS;
    /* A deadline of the replica that stays in the past must not make the loop
     * spin. */
    next = next > now_ns ? next : now_ns + NS_PER_MS;
    next = u64_min(next, lease_next(core));
    next = u64_min(next, read_index_next(core));
    next = u64_min(next, forward_next(core));
    next = u64_min(next, identity_next(core));
    next = u64_min(next, membership_next(core));
    next = u64_min(next, transfer_next(core));
    next = u64_min(next, snapshots_next(core));
    next = u64_min(next, digests_next(core));
    next = u64_min(next, quarantine_next(core));
    next = u64_min(next, clocks_next(core));
    next = u64_min(next, apart_next(core));
    next = u64_min(next, drain_next(core));
    next = u64_min(next, audit_denied_next(core));
    if (core->flush.due_ns != 0) {
        next = u64_min(next, core->flush.due_ns);
    }
    return next > now_ns ? next : now_ns + NS_PER_MS;
}

static void stage_over(struct core *core, enum core_stage stage)
{
    if (core->port.stage_over != NULL) {
        core->port.stage_over(core->port.data, stage);
    }
}

uint64_t core_turn(struct core *core, uint64_t read_ns, uint64_t now_ns)
{
    struct replica_update update;
    CHECK(read_ns <= now_ns && core->flush.table != NULL);
    set_now(core, now_ns);
    core->turn.has_left_over = core->turn.has_spent_budget = false;
    core->turn.read_budget = READ_BUDGET;
    forward_queue_turn(core);
    if (now_ns / NS_PER_MS >= replica_deadline(core->replica)) {
        replica_tick(core->replica, now_ns / NS_PER_MS, &update);
        raft_output_carry_out(core, &update);
        core_follow(core);
    }
    for (int round = 0; round < TURN_ROUNDS && !core->run.has_fatal; round++) {
        bool was_serving = is_serving(core);
        leadership_begin(core);
        leadership_turn(core);
        core_follow(core);
        read_index_update(core);
        forward_turn(core);
        dispatch_run_ready(core);
        membership_turn(core);
        transfer_turn(core);
        log_loss_turn(core);
        core_follow(core);
        feature_turn(core);
        lease_turn(core, read_ns);
        propose_submit(core);
        core_follow(core);
        read_index_ask(core);
        core_follow(core);
        stage_over(core, CORE_STAGE_PROPOSE);
        propose_replicated(core);
        bool has_applied = apply_committed(core);
        if (has_applied) {
            core_follow(core);
            membership_applied(core, lockfsm_applied_index(core->fsm));
            core_follow(core);
            lease_sessions_ended(core);
        }
        sweep_turn(core);
        identity_turn(core);
        read_index_answer(core);
        dispatch_run_ready(core);
        if (has_applied) {
            stage_over(core, CORE_STAGE_APPLY);
        }
        if (!propose_has_work(core) && is_serving(core) == was_serving) {
            break;
        }
    }
    /* The next turn, which follows at once, continues the work that is left
     * over. */
    core->turn.has_left_over |= propose_has_work(core);
    if (flush_state(core, false)) {
        stage_over(core, CORE_STAGE_TABLE);
    }
    digests_turn(core);
    quarantine_turn(core);
    clocks_turn(core);
    apart_turn(core);
    drain_turn(core);
    snapshots_go_on(core);
    snapshots_turn(core);
    watches_turn(core);
    audit_denied_turn(core);
    stage_over(core, CORE_STAGE_UPKEEP);
    return core->turn.has_left_over ? now_ns : next_deadline(core);
}

void core_disk_is(struct core *core, enum core_disk disk, uint64_t now_ns)
{
    set_now(core, now_ns);
    core->run.disk = disk;
    if (is_leader(core)) {
        transfer_at_once(core);
    }
}

void core_change(struct core *core, const struct core_options *options)
{
    const struct core_limits *from = &options->limits;
    struct core_limits *limits = &core->options.limits;
    core->options.redirect = options->redirect;
    core->options.allows_del = options->allows_del;
    core->options.allows_no_ttl = options->allows_no_ttl;
    core->options.renews_same_value = options->renews_same_value;
    core->options.finalizes_itself = options->finalizes_itself;
    core->options.slow_ms = options->slow_ms;
    stats_use_classes(core, options->classes);
    limits->requests_per_conn = from->requests_per_conn;
    limits->name_size = from->name_size;
    limits->value_size = from->value_size;
    limits->snapshot_log_size = from->snapshot_log_size;
    limits->snapshot_entries = from->snapshot_entries;
    limits->flush_records = from->flush_records;
    limits->flush_ms = from->flush_ms;
}

void core_stop(struct core *core, uint64_t now_ns)
{
    set_now(core, now_ns);
    if (!core->run.is_stopping) {
        core->run.is_stopping = true;
        audit_denied_tell(core);
        LOG_INFO("stopping", "role=%s",
                 replica_role_name(replica_role(core->replica)));
    }
}

bool core_is_quiet(const struct core *core)
{
    if (!core->run.is_stopping) {
        return false;
    }
    if (is_leader(core) && liveness_successor(core) != 0) {
        return false;
    }
    return list_is_empty(&core->requests.at[REQUEST_LOGGED]) &&
           list_is_empty(&core->requests.at[REQUEST_ASKING]) &&
           list_is_empty(&core->requests.at[REQUEST_READY]);
}

int core_flush(struct core *core)
{
    /* The snapshot that is being installed is newer than the state in memory.
     */
    return core->snapshots.installing != 0 ? 0 : flush_whole(core);
}

uint64_t core_token_now(const struct core *core)
{
    return lockfsm_token_base(core->fsm) + lockfsm_applied_index(core->fsm);
}

uint64_t core_token_base(const struct core *core)
{
    return lockfsm_token_base(core->fsm);
}

uint64_t core_ttl_max_ms(const struct core *core)
{
    return lockfsm_limit(core->fsm, LIMIT_TTL_MAX);
}

void core_random(struct core *core, void *out, size_t size)
{
    core->port.random(core->port.data, out, size);
}

const struct lockfsm *core_state(const struct core *core)
{
    return core->fsm;
}

const struct replica *core_replica(const struct core *core)
{
    return core->replica;
}

bool core_is_barred(const struct core *core)
{
    return is_barred(core);
}

bool core_is_serving(const struct core *core)
{
    return is_serving(core);
}

uint64_t core_agreed_index(const struct core *core)
{
    return core->digests.agreed_index;
}

const struct core_counts *core_counts(const struct core *core)
{
    return &core->stats.counts;
}

void core_member(const struct core *core, uint64_t id, uint64_t *ret_match,
                 uint64_t *ret_silence_ms)
{
    bool is_self = id == core->options.id;
    *ret_match = is_self ? replica_last_index(core->replica)
                 : replica_role(core->replica) == REPLICA_LEADER
                     ? replica_match(core->replica, id)
                     : 0;
    *ret_silence_ms = is_self ? 0
                              : core->port.peer_silence_ms(core->port.data, id);
}
