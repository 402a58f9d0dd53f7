/* SPDX-License-Identifier: MIT */

#include "raft/replica.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "raft/replica_state.h"

#define IN_FLIGHT_DEFAULT 16384u
#define SNAPSHOT_TIMEOUT_DEFAULT_MS 10000u

const char *replica_role_name(enum replica_role role)
{
    switch (role) {
    case REPLICA_FOLLOWER:
        return "follower";
    case REPLICA_CANDIDATE:
        return "candidate";
    case REPLICA_LEADER:
        return "leader";
    }
    return "unknown";
}

/* --- Life ----------------------------------------------------------------- */

struct replica *replica_new(const struct replica_options *options)
{
    CHECK(options->id > 0 && options->id <= REPLICA_ID_MAX);
    CHECK(options->incarnation > 0);
    CHECK(options->heartbeat_ms > 0);
    CHECK(options->election_ms > options->heartbeat_ms);
    struct replica *replica = memory_new(sizeof *replica);
    struct raft *core = &replica->core;
    replica->id = options->id;
    replica->incarnation = options->incarnation;
    replica->election_ms = options->election_ms;
    replica->heartbeat_ms = options->heartbeat_ms;
    replica->in_flight_max = options->in_flight_max > 0 ? options->in_flight_max
                                                        : IN_FLIGHT_DEFAULT;
    replica->prng.state = options->seed;
    int rv = raft_init(core, NULL, NULL, options->id, "");
    CHECK(rv == 0);
    /* The core would format even what it does not print. */
    core->tracer = NULL;
    raft_seed(core, (unsigned)prng_next(&replica->prng));
    raft_set_election_timeout(core, options->election_ms);
    raft_set_heartbeat_timeout(core, options->heartbeat_ms);
    raft_set_install_snapshot_timeout(core, options->snapshot_timeout_ms > 0
                                                ? options->snapshot_timeout_ms
                                                : SNAPSHOT_TIMEOUT_DEFAULT_MS);
    raft_set_pre_vote(core, !options->without_pre_vote);
    raft_set_max_inflight_entries(core, replica->in_flight_max); /* T5 */
    raft_set_capacity_threshold(core, 0);                        /* T4 */
    return replica;
}

void replica_free(struct replica *replica)
{
    if (replica == NULL) {
        return;
    }
    if (replica->is_installing) {
        raft_configuration_close(&replica->metadata.configuration);
    }
    raft_close(&replica->core, NULL);
    log_done(&replica->log);
    pending_writes_done(&replica->written);
    members_history_done(&replica->history);
    buffer_done(&replica->view);
    buffer_done(&replica->out.bytes);
    free(replica->out.outgoing);
    free(replica->out.messages);
    free(replica->out.entries);
    free(replica->core_entries);
    free(replica->received);
    free(replica);
}

/* --- Events --------------------------------------------------------------- */

void replica_persisted(struct replica *replica, uint64_t term,
                       uint64_t log_index, uint64_t flush_ms, uint64_t now_ms,
                       struct replica_update *update)
{
    step_begin(replica, now_ms);
    election_timing_note_flush(replica, flush_ms);
    uint64_t durable = pending_writes_complete(&replica->written, term,
                                               log_index);
    if (durable > replica->core.last_stored && !replica->is_installing) {
        /* A node does not become a candidate while its writes are under way. */
        CHECK(replica->core.state == RAFT_LEADER ||
              replica->core.state == RAFT_FOLLOWER);
        CHECK(known_term(replica, durable) > 0);
        struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
        event.persisted_entries.index = durable;
        step_core(replica, &event);
    }
    step_end(replica, update);
}

void replica_vote_saved(struct replica *replica, uint64_t term,
                        uint64_t voted_for, uint64_t flush_ms, uint64_t now_ms,
                        struct replica_update *update)
{
    step_begin(replica, now_ms);
    CHECK(term <= replica->core.current_term);
    election_timing_note_flush(replica, flush_ms);
    replica->saved_term = term;
    replica->saved_vote = voted_for;
    if (vote_is_saved(replica)) {
        election_timing_vote_saved(replica);
    }
    step_end(replica, update);
}

bool replica_vote_is_saved(const struct replica *replica)
{
    return vote_is_saved(replica);
}

/* True for a follower that can become leader by its own vote alone. */
static bool replica_is_alone(const struct replica *replica)
{
    return replica->core.state == RAFT_FOLLOWER && !replica->is_installing &&
           replica->core.last_stored == log_last(&replica->log) &&
           is_sole_voter(replica);
}

/* T2, at run time: a single voter that has stepped down would lead again in the
 * same term. So the core first votes for itself in the next term, as if it had
 * requested the vote; it leads when its timer expires again. */
static void vote_for_itself(struct replica *replica)
{
    uint64_t last = log_last(&replica->log);
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    struct raft_event event = {.type = RAFT_RECEIVE};
    m.server_id = replica->id;
    m.server_address = "";
    m.request_vote.version = 2;
    m.request_vote.term = replica->core.current_term + 1;
    m.request_vote.candidate_id = replica->id;
    m.request_vote.last_log_index = last;
    m.request_vote.last_log_term = known_term(replica, last);
    m.request_vote.disrupt_leader = true;
    event.receive.message = &m;
    step_core(replica, &event);
    CHECK(replica->core.voted_for == replica->id);
}

/* Sends the question to each other voter. */
static void send_question(struct replica *replica, uint64_t number)
{
    const struct replica_members *members = newest_members(replica);
    struct message question = {.kind = MESSAGE_CONFIRM,
                               .term = raft_current_term(&replica->core),
                               .number = number};
    MEMBER_EACH (member, members) {
        if (member->role == MEMBER_VOTER && member->id != replica->id &&
            confirm_answered(&replica->confirm, member->id) < number) {
            step_send(replica, member->id, &question);
        }
    }
}

void replica_tick(struct replica *replica, uint64_t now_ms,
                  struct replica_update *update)
{
    step_begin(replica, now_ms);
    election_timing_silence(replica);
    if (replica->now_ms >= replica_deadline(replica) &&
        replica->clock_ms >= raft_timeout(&replica->core)) {
        replica->ticked_ms = replica->now_ms;
        replica->has_ticked = true;
        if (replica_is_alone(replica) &&
            replica->core.voted_for != replica->id) {
            vote_for_itself(replica);
        } else {
            struct raft_event event = {.type = RAFT_TIMEOUT};
            if (!replica_is_leader(replica)) {
                election_timing_attempt(replica);
            }
            step_core(replica, &event);
        }
        /* The newest question may have been lost in the network. */
        if (replica_is_leader(replica) &&
            replica->confirmed < replica->confirm.asked &&
            replica->confirm.asked > replica->confirm.asked_before) {
            send_question(replica, replica->confirm.asked);
        }
    }
    step_end(replica, update);
}

uint64_t replica_deadline(const struct replica *replica)
{
    uint64_t timeout = raft_timeout(&replica->core);
    uint64_t deadline = timeout > replica->ahead_ms
                            ? timeout - replica->ahead_ms
                            : 0;
    if (replica->snapshot_to_count > 0) {
        /* The next update names the members that need a snapshot. */
        return replica->now_ms;
    }
    /* T3: with a member that was demoted to a spare the core's deadline stays
     * in the past for ever. */
    uint64_t pause_ms = 1;
    if (replica_is_leader(replica) && replica->heartbeat_ms >= 8) {
        pause_ms = replica->heartbeat_ms / 4;
    }
    if (replica->has_ticked && deadline < replica->ticked_ms + pause_ms) {
        deadline = replica->ticked_ms + pause_ms;
    }
    return election_timing_deadline(replica, deadline);
}

int replica_submit(struct replica *replica, const struct bytes *commands,
                   uint32_t count, uint64_t now_ms, uint64_t *ret_first,
                   struct replica_update *update)
{
    int error = 0;
    CHECK(count > 0);
    step_begin(replica, now_ms);
    uint64_t last = log_last(&replica->log);
    /* A predecessor's uncommitted entries do not count: otherwise a new
     * leader's first entry could be refused because of them (T10). */
    uint64_t settled = u64_max(replica->core.commit_index,
                               replica->elected_index);
    if (!replica_is_leader(replica) || replica_is_transferring(replica)) {
        error = HASP_ENOTLEADER;
    } else if (last - settled + count > replica->in_flight_max) {
        error = HASP_EBUSY;
    }
    for (uint32_t i = 0; error == 0 && i < count; i++) {
        if (commands[i].size > REPLICA_ENTRY_SIZE_MAX) {
            error = HASP_ETOOBIG;
        }
    }
    if (error == 0) {
        step_submit(replica, ENTRY_COMMAND, commands, count);
        *ret_first = last + 1;
    }
    return step_end_call(replica, error, update);
}

uint64_t replica_ask(struct replica *replica, uint64_t now_ms,
                     struct replica_update *update)
{
    uint64_t number = 0;
    step_begin(replica, now_ms);
    if (replica_is_leader(replica)) {
        number = confirm_ask(&replica->confirm);
        confirm_take(&replica->confirm, replica->id,
                     raft_current_term(&replica->core), number);
        send_question(replica, number);
    }
    step_end(replica, update);
    return number;
}

uint64_t replica_next_question(const struct replica *replica)
{
    return replica->confirm.asked + 1;
}

uint64_t replica_confirmed(const struct replica *replica)
{
    return replica_is_leader(replica) ? replica->confirmed : 0;
}

/* --- Snapshots ------------------------------------------------------------ */

uint64_t replica_snapshot_taken(struct replica *replica, uint64_t log_index,
                                uint64_t now_ms, struct replica_update *update)
{
    const struct raft_trail *trail = &replica->core.trail;
    uint64_t trimmed = 0;
    step_begin(replica, now_ms);
    if (!replica->is_installing && log_index > trail->snapshot.index &&
        log_index <= replica_appliable(replica)) {
        const struct members_record *record = members_history_at(
            &replica->history, log_index);
        struct raft_event event = {.type = RAFT_SNAPSHOT};
        CHECK(record != NULL && log_has(&replica->log, log_index));
        event.snapshot.metadata.index = log_index;
        event.snapshot.metadata.term = log_term(&replica->log, log_index);
        event.snapshot.metadata.configuration_index = record->log_index;
        core_configuration(replica, &record->members,
                           &event.snapshot.metadata.configuration);
        event.snapshot.trailing = replica->in_flight_max; /* T9 */
        step_core(replica, &event);
        trimmed = trail->offset;
        log_trim(&replica->log, trimmed);
        members_history_trim(&replica->history, log_index);
    }
    step_end(replica, update);
    return trimmed;
}

bool replica_install(struct replica *replica, uint64_t from,
                     uint64_t leader_term, uint64_t log_index, uint64_t term,
                     struct bytes encoded, uint64_t members_index,
                     uint64_t now_ms, struct replica_update *update)
{
    struct replica_members members;
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT};
    struct raft_event event = {.type = RAFT_RECEIVE};
    bool is_accepted = false;
    step_begin(replica, now_ms);
    uint64_t current = replica->core.current_term;
    uint64_t leader = replica_leader(replica);
    bool is_sound = from > 0 && from != replica->id && log_index > 0 &&
                    term > 0 && term <= leader_term &&
                    leader_term <= MESSAGE_NUMBER_MAX &&
                    log_index <= MESSAGE_NUMBER_MAX && members_index > 0 &&
                    members_index <= log_index &&
                    replica_members_decode(encoded, &members) == 0 &&
                    !(leader_term == current && leader != 0 && leader != from);
    /* B2: the core leaks a snapshot that arrives during an installation. */
    if (is_sound && !replica->is_installing) {
        m.server_id = from;
        m.server_address = "";
        m.install_snapshot.term = leader_term;
        m.install_snapshot.last_index = log_index;
        m.install_snapshot.last_term = term;
        m.install_snapshot.conf_index = members_index;
        core_configuration(replica, &members, &m.install_snapshot.conf);
        event.receive.message = &m;
        /* B5: the core does not set the last index of such an answer. */
        replica->is_answering_stale = leader_term < current;
        step_core(replica, &event);
        replica->is_answering_stale = false;
        is_accepted = replica->is_installing;
        if (leader_term >= current) {
            note_leader(replica, leader_term);
        }
    }
    if (is_accepted) {
        log_reset(&replica->log, log_index);
        /* The log will be emptied, so completions of earlier writes must not
         * count. */
        pending_writes_clear(&replica->written);
        replica->installing = members;
    }
    step_end(replica, update);
    return is_accepted;
}

void replica_installed(struct replica *replica, uint64_t now_ms,
                       struct replica_update *update)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    CHECK(replica->is_installing);
    step_begin(replica, now_ms);
    members_history_clear(&replica->history);
    members_history_put(&replica->history,
                        replica->metadata.configuration_index,
                        &replica->installing);
    replica->out.members_changed = true;
    replica->applied_index = replica->metadata.index;
    replica->is_installing = false;
    /* The core takes over the configuration's memory. */
    event.persisted_snapshot.metadata = replica->metadata;
    event.persisted_snapshot.last = true;
    step_core(replica, &event);
    CHECK(!replica->core.snapshot.installing);
    step_end(replica, update);
}

/* --- Questions ------------------------------------------------------------ */

enum replica_role replica_role(const struct replica *replica)
{
    switch (replica->core.state) {
    case RAFT_LEADER:
        return REPLICA_LEADER;
    case RAFT_CANDIDATE:
        return REPLICA_CANDIDATE;
    default:
        return REPLICA_FOLLOWER;
    }
}

uint64_t replica_term(const struct replica *replica)
{
    return raft_current_term(&replica->core);
}

bool replica_is_near_term(const struct replica *replica, uint64_t term)
{
    uint64_t own = raft_current_term(&replica->core);
    return term <= own || term - own <= REPLICA_TERM_STEP_MAX;
}

uint64_t replica_voted_for(const struct replica *replica)
{
    return raft_voted_for(&replica->core);
}

uint64_t replica_leader(const struct replica *replica)
{
    if (replica_is_leader(replica)) {
        return replica->id;
    }
    /* In a new term the core keeps the leader of an earlier one. */
    if (replica->core.state == RAFT_FOLLOWER &&
        replica->leader_term == replica->core.current_term) {
        return replica->core.follower_state.current_leader.id;
    }
    return 0;
}

bool replica_has_leader(const struct replica *replica, uint64_t now_ms)
{
    uint64_t clock_ms = now_ms + replica->ahead_ms;
    if (is_sole_voter(replica)) {
        return false;
    }
    return replica_is_leader(replica) ||
           (replica->has_heard_leader &&
            clock_ms < replica->heard_ms + replica->election_ms);
}

bool replica_is_transferring(const struct replica *replica)
{
    return raft_transferee(&replica->core) != 0;
}

uint64_t replica_last_index(const struct replica *replica)
{
    return log_last(&replica->log);
}

uint64_t replica_last_term(const struct replica *replica)
{
    return known_term(replica, log_last(&replica->log));
}

uint64_t replica_commit_index(const struct replica *replica)
{
    return raft_commit_index(&replica->core);
}

uint64_t replica_known_commit(const struct replica *replica)
{
    return replica_is_leader(replica) ? replica_commit_index(replica)
                                      : replica->heard_commit;
}

uint64_t replica_appliable(const struct replica *replica)
{
    uint64_t committed = replica->core.commit_index;
    uint64_t stored = replica->core.last_stored; /* C1 */
    return u64_min(committed, stored);
}

struct replica_entry replica_entry(const struct replica *replica,
                                   uint64_t log_index)
{
    return log_entry(&replica->log, log_index);
}

void replica_applied(struct replica *replica, uint64_t log_index)
{
    CHECK(replica->is_begun);
    CHECK(log_index >= replica->applied_index &&
          log_index <= replica_appliable(replica));
    replica->applied_index = log_index;
}

void replica_members(const struct replica *replica,
                     struct replica_members *ret_members)
{
    *ret_members = *newest_members(replica);
}

const struct replica_members *
replica_configuration(const struct replica *replica)
{
    return newest_members(replica);
}

void replica_members_before(const struct replica *replica,
                            struct replica_members *ret_members)
{
    const struct members_history *history = &replica->history;
    const struct members_record *newest = members_history_at(history,
                                                             UINT64_MAX);
    const struct members_record *before = NULL;
    uint64_t committed = u64_max(replica->core.commit_index,
                                 replica->applied_index);
    if (newest != NULL && newest->log_index > committed) {
        before = members_history_at(history, newest->log_index - 1);
    }
    *ret_members = before != NULL ? before->members
                                  : (struct replica_members){0};
}

void replica_members_at(const struct replica *replica, uint64_t log_index,
                        struct buffer *out, uint64_t *ret_index)
{
    const struct members_record *record = members_history_at(&replica->history,
                                                             log_index);
    CHECK(record != NULL);
    replica_members_encode(&record->members, out);
    *ret_index = record->log_index;
}

uint64_t replica_match(const struct replica *replica, uint64_t id)
{
    raft_index match = 0;
    if (raft_match_index(&replica->core, id, &match) != 0) {
        return 0;
    }
    return match;
}

uint64_t replica_log_size(const struct replica *replica)
{
    return log_size_above(&replica->log, replica->core.trail.snapshot.index);
}
