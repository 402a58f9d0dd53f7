/* SPDX-License-Identifier: MIT */

/* One step of libraft's core, and what follows from it. See replica_state.h. */

#include "raft/replica_state.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"

/* The core's AppendEntries is cut into messages of about this size ... */
#define PART_SIZE_MAX (1u << 20)

/* ... and entries beyond this total are left out: the follower's next answer
 * makes the core send them. */
#define SEND_SIZE_MAX (16u << 20)

static void follow_commit(struct replica *replica);
static bool is_consistent(struct replica *replica);

void step_begin(struct replica *replica, uint64_t now_ms)
{
    struct step_output *out = &replica->out;
    CHECK(replica->is_begun);
    replica->now_ms = u64_max(replica->now_ms, now_ms);
    /* T6: to the core a step back in time is a very long silence. */
    replica->clock_ms = u64_max(replica->clock_ms,
                                replica->now_ms + replica->ahead_ms);
    out->save_vote = false;
    out->members_changed = false;
    out->truncate_from = 0;
    out->append_first = 0;
    if (!replica->is_holding) {
        buffer_clear(&out->bytes);
        out->outgoing_count = 0;
    }
    for (uint32_t i = 0; i < MEMBER_COUNT_MAX; i++) {
        replica->followers[i].is_addressed = false;
    }
}

/* Puts the entries that the core wants persisted into the cache. */
static void take_entries(struct replica *replica,
                         const struct raft_update *update, bool is_ours)
{
    struct step_output *out = &replica->out;
    const struct raft_entry *batch = update->entries.batch;
    uint64_t first = update->entries.index;
    uint32_t count = update->entries.n;
    CHECK(count > 0 && first <= log_last(&replica->log) + 1);
    if (first <= log_last(&replica->log)) {
        /* Only the first step of an event can find a conflict: what it appends
         * ends where the next step's entries begin. */
        CHECK(out->append_first == 0 && out->truncate_from == 0);
        CHECK(first > replica->reported_appliable);
        out->truncate_from = first;
        log_truncate(&replica->log, first);
        uint32_t before = replica->history.count;
        members_history_truncate(&replica->history, first);
        out->members_changed |= replica->history.count != before;
    }
    if (out->append_first == 0) {
        out->append_first = first;
    }
    ROOM(out->entries, out->entries_capacity, count);
    for (uint32_t i = 0; i < count; i++) {
        struct replica_entry entry = {
            .term = batch[i].term,
            .log_index = first + i,
            .type = (enum replica_entry_type)batch[i].type,
            .body = bytes_of(batch[i].buf.base, batch[i].buf.len),
        };
        if (entry.body.data == replica->view.data && entry.body.size > 0) {
            entry.body = replica->view_body;
        }
        out->entries[i] = entry;
        pending_writes_queue(&replica->written, entry.term, entry.log_index);
        if (entry.type == ENTRY_CHANGE) {
            struct replica_members members;
            int error = replica_members_decode(entry.body, &members);
            CHECK(error == 0);
            members_history_put(&replica->history, entry.log_index, &members);
            out->members_changed = true;
        }
    }
    log_append(&replica->log, out->entries, count);
    if (!is_ours) {
        /* The batch of a barrier, or of a received append, is freed here. */
        raft_free(batch[0].batch);
    }
}

/* The number of the 'left' entries from 'first' on that fit into one message.
 */
static uint32_t part_count(const struct replica *replica, uint64_t first,
                           uint64_t left, size_t *ret_size)
{
    uint32_t count = 0;
    size_t size = 0;
    while (count < left) {
        CHECK(log_has(&replica->log, first + count));
        size_t next = log_slot(&replica->log, first + count)->size;
        if (count > 0 && size + next > PART_SIZE_MAX) {
            break;
        }
        size += next;
        count++;
    }
    *ret_size = size;
    return count;
}

static void add_outgoing(struct replica *replica, uint64_t to, size_t offset,
                         size_t size)
{
    struct step_output *out = &replica->out;
    ROOM(out->outgoing, out->outgoing_capacity, out->outgoing_count + 1);
    out->outgoing[out->outgoing_count++] = (struct outgoing){
        .to = to, .offset = offset, .size = size};
}

static void send_entries(struct replica *replica, uint64_t to,
                         const struct raft_append_entries *append)
{
    struct shared_append *shared = &replica->shared;
    struct step_output *out = &replica->out;
    if (shared->outgoing_count > 0 &&
        shared->prev_index == append->prev_log_index &&
        shared->commit_index == append->leader_commit &&
        shared->count == append->n_entries) {
        for (uint32_t i = 0; i < shared->outgoing_count; i++) {
            struct outgoing same = out->outgoing[shared->outgoing_first + i];
            add_outgoing(replica, to, same.offset, same.size);
        }
        return;
    }
    uint32_t outgoing_first = out->outgoing_count;
    uint64_t first = append->prev_log_index + 1;
    uint64_t left = append->n_entries;
    uint64_t prev_term = append->prev_log_term;
    size_t sent = 0;
    /* At least one message: without entries it is a heartbeat. */
    do {
        size_t size;
        uint32_t count = part_count(replica, first, left, &size);
        ROOM(out->entries, out->entries_capacity, count);
        for (uint32_t i = 0; i < count; i++) {
            out->entries[i] = log_entry(&replica->log, first + i);
        }
        struct message message = {.kind = MESSAGE_APPEND, .term = append->term};
        message.append.prev_index = first - 1;
        message.append.prev_term = prev_term;
        message.append.commit_index = append->leader_commit;
        message.append.count = count;
        message.append.entries = out->entries;
        step_send(replica, to, &message);
        first += count;
        left -= count;
        sent += size;
        prev_term = count > 0 ? out->entries[count - 1].term : prev_term;
    } while (left > 0 && sent < SEND_SIZE_MAX);
    *shared = (struct shared_append){
        .prev_index = append->prev_log_index,
        .commit_index = append->leader_commit,
        .count = append->n_entries,
        .outgoing_first = outgoing_first,
        .outgoing_count = out->outgoing_count - outgoing_first,
    };
}

/* T5: to a follower whose window is full the core sends an empty AppendEntries
 * with every single submit. One per half a heartbeat is enough. */
static bool is_flooding(struct replica *replica, const struct raft_message *m,
                        const struct follower *follower)
{
    const struct raft_append_entries *append = &m->append_entries;
    raft_index match = 0;
    if (append->n_entries > 0 ||
        append->prev_log_index >= log_last(&replica->log) ||
        raft_match_index(&replica->core, m->server_id, &match) != 0 ||
        append->prev_log_index < match + replica->in_flight_max) {
        return false;
    }
    return follower->sent_ms > 0 &&
           replica->clock_ms - follower->sent_ms < replica->heartbeat_ms / 2;
}

/* The place of member 'id'. If the member is new, a free place, or that of the
 * member to which nothing was sent for the longest time. */
static struct follower *follower_of(struct replica *replica, uint64_t id)
{
    struct follower *place = &replica->followers[0];
    CHECK(id != 0);
    for (uint32_t i = 0; i < MEMBER_COUNT_MAX; i++) {
        struct follower *follower = &replica->followers[i];
        if (follower->id == id) {
            return follower;
        }
        /* A member that has voted has a place, even if nothing was sent to it
         * yet. */
        if (place->id != 0 &&
            (follower->id == 0 || follower->sent_ms < place->sent_ms)) {
            place = follower;
        }
    }
    *place = (struct follower){.id = id};
    return place;
}

/* Sends the entries, which the core leaves to the caller. */
static void send_append(struct replica *replica, const struct raft_message *m)
{
    struct follower *follower = follower_of(replica, m->server_id);
    follower->is_addressed = true;
    follower->prev_index = m->append_entries.prev_log_index;
    if (!is_flooding(replica, m, follower)) {
        follower->sent_ms = replica->clock_ms;
        send_entries(replica, m->server_id, &m->append_entries);
    }
}

static void queue_snapshot(struct replica *replica, uint64_t to)
{
    for (uint32_t i = 0; i < replica->snapshot_to_count; i++) {
        if (replica->snapshot_to[i] == to) {
            return;
        }
    }
    if (replica->snapshot_to_count < MEMBER_COUNT_MAX) {
        replica->snapshot_to[replica->snapshot_to_count++] = to;
    }
}

static void step_take_message(struct replica *replica,
                              const struct raft_message *m)
{
    struct message message = {0};
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        send_append(replica, m);
        return;
    case RAFT_INSTALL_SNAPSHOT:
        queue_snapshot(replica, m->server_id);
        return;
    case RAFT_APPEND_ENTRIES_RESULT:
        message.kind = MESSAGE_APPEND_RESULT;
        message.term = m->append_entries_result.term;
        message.append_result.rejected_index = m->append_entries_result
                                                   .rejected;
        message.append_result.last_index = replica->is_answering_stale
                                               ? 0
                                               : m->append_entries_result
                                                     .last_log_index;
        break;
    case RAFT_REQUEST_VOTE:
        message.kind = MESSAGE_VOTE;
        message.term = m->request_vote.term;
        message.vote.candidate = m->request_vote.candidate_id;
        message.vote.last_index = m->request_vote.last_log_index;
        message.vote.last_term = m->request_vote.last_log_term;
        message.vote.is_disrupting = m->request_vote.disrupt_leader;
        message.vote.is_pre_vote = m->request_vote.pre_vote;
        message.vote.flush_ms = (uint32_t)election_timing_flush(replica);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        message.kind = MESSAGE_VOTE_RESULT;
        message.term = m->request_vote_result.term;
        if (message.term < replica->core.current_term) {
            /* T15: the core refuses a pre-vote of an earlier term and answers
             * with that term. The candidate would never learn the later term,
             * and would ask with its own for ever. */
            message.term = replica->core.current_term;
        }
        message.vote_result.is_granted = m->request_vote_result.vote_granted ||
                                         replica->is_lending_vote;
        message.vote_result.is_pre_vote = m->request_vote_result.pre_vote;
        message.vote_result.flush_ms = (uint32_t)replica->timing.flush_ms;
        if (message.vote_result.is_granted) {
            election_timing_granted(replica, m->server_id,
                                    message.vote_result.is_pre_vote);
        }
        break;
    case RAFT_TIMEOUT_NOW:
        message.kind = MESSAGE_TIMEOUT_NOW;
        message.term = m->timeout_now.term;
        message.timeout_now.last_index = m->timeout_now.last_log_index;
        message.timeout_now.last_term = m->timeout_now.last_log_term;
        break;
    default:
        UNREACHABLE();
    }
    step_send(replica, m->server_id, &message);
}

static void take_messages(struct replica *replica,
                          const struct raft_update *update)
{
    replica->shared.outgoing_count = 0;
    for (uint32_t i = 0; i < update->messages.n; i++) {
        const struct raft_message *message = &update->messages.batch[i];
        if (message->server_id != replica->id) {
            step_take_message(replica, message);
        }
    }
}

/* Drops the answers and the requests for snapshots with the term of leadership
 * that they belong to. */
static void follow_leadership(struct replica *replica)
{
    uint64_t leading_term = replica_is_leader(replica)
                                ? replica->core.current_term
                                : 0;
    if (replica->confirm.term != leading_term) {
        /* A node leads a term at most once. */
        CHECK(leading_term == 0 || leading_term > replica->confirm.term);
        confirm_begin(&replica->confirm, leading_term);
        replica->confirmed = 0;
        replica->snapshot_to_count = 0;
        replica->elected_index = log_last(&replica->log);
    }
}

void step_core(struct replica *replica, struct raft_event *event)
{
    struct raft_update update;
    bool is_ours = event->type == RAFT_SUBMIT;
    event->time = replica->clock_ms;
    event->capacity = 0;
    int rv = raft_step(&replica->core, event, &update);
    /* All refusals have been ruled out before. What remains is lack of memory
     * or a bug, after which the core's state cannot be trusted. */
    CHECK(rv == 0);
    if ((update.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) !=
        0) {
        replica->out.save_vote = true;
    }
    if ((update.flags & (RAFT_UPDATE_SNAPSHOT)) != 0) {
        CHECK(!replica->is_installing);
        replica->is_installing = true;
        replica->metadata = update.snapshot.metadata;
    }
    if ((update.flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        take_entries(replica, &update, is_ours);
    }
    follow_leadership(replica);
    if ((update.flags & (RAFT_UPDATE_MESSAGES)) != 0) {
        take_messages(replica, &update);
    }
    follow_commit(replica);
}

void step_send(struct replica *replica, uint64_t to,
               const struct message *message)
{
    struct step_output *out = &replica->out;
    size_t offset = out->bytes.size;
    message_encode(message, &out->bytes);
    add_outgoing(replica, to, offset, out->bytes.size - offset);
    out->outgoing[out->outgoing_count - 1]
        .is_early = (message->kind == MESSAGE_VOTE &&
                     message->vote.is_standing) ||
                    (message->kind == MESSAGE_VOTE_RESULT &&
                     message->vote_result.is_pre_vote);
}

/* True if the vote must be saved. The core also says so when it repeats a vote.
 */
static bool must_save(const struct replica *replica)
{
    return replica->out.save_vote &&
           (replica->asked_term != replica->core.current_term ||
            replica->asked_vote != replica->core.voted_for);
}

static bool needs_nudge(const struct replica *replica,
                        const struct follower *follower)
{
    return !follower->is_addressed && !follower->is_nudged &&
           !follower->has_rejected && follower->prev_index > 0 &&
           replica->clock_ms - follower->heard_ms < replica->election_ms;
}

/* T17: if a follower has not answered between two of the core's ticks, even if
 * they are a moment apart, the core treats it as lost and sends it one message
 * per heartbeat, until one of them has new entries. So new entries are also
 * sent to followers that have answered recently and were left out; their
 * answers make the core continue by itself. */
static void step_nudge(struct replica *replica)
{
    const struct replica_members *members = newest_members(replica);
    uint64_t last = log_last(&replica->log);
    replica->shared.outgoing_count = 0;
    MEMBER_EACH (member, members) {
        raft_index match = 0;
        if (member->id == replica->id || member->role == MEMBER_SPARE ||
            raft_match_index(&replica->core, member->id, &match) != 0) {
            continue;
        }
        struct follower *follower = follower_of(replica, member->id);
        uint64_t prev = match > 0 ? match : follower->prev_index;
        /* A follower whose previous entry is not in the log needs a snapshot,
         * which the core decides. */
        if (!needs_nudge(replica, follower) || prev >= last ||
            !log_has(&replica->log, prev + 1) ||
            known_term(replica, prev) == 0 ||
            last - prev > replica->in_flight_max) {
            continue;
        }
        struct raft_append_entries append = {
            .term = replica->core.current_term,
            .prev_log_index = prev,
            .prev_log_term = known_term(replica, prev),
            .leader_commit = replica->core.commit_index,
            .n_entries = (unsigned)(last - prev),
        };
        follower->is_nudged = true;
        send_entries(replica, member->id, &append);
    }
}

static void end_entries(struct replica *replica, struct replica_update *update)
{
    struct step_output *out = &replica->out;
    if (out->append_first == 0) {
        return;
    }
    uint64_t count = log_last(&replica->log) + 1 - out->append_first;
    ROOM(out->entries, out->entries_capacity, count);
    for (uint64_t i = 0; i < count; i++) {
        out->entries[i] = log_entry(&replica->log, out->append_first + i);
    }
    update->entries = out->entries;
    update->entry_count = (uint32_t)count;
}

static void end_messages(struct replica *replica, struct replica_update *update)
{
    struct step_output *out = &replica->out;
    if (replica->snapshot_to_count > 0) {
        update->snapshot_to = replica->snapshot_to[0];
        replica->snapshot_to_count--;
        memmove(replica->snapshot_to, replica->snapshot_to + 1,
                replica->snapshot_to_count * sizeof *replica->snapshot_to);
    }
    /* Term and vote are durable before a message that depends on them is sent
     * (Raft, figure 2). */
    replica->is_holding = !vote_is_saved(replica);
    if (out->outgoing_count == 0) {
        return;
    }
    ROOM(out->messages, out->messages_capacity, out->outgoing_count);
    for (uint32_t i = 0; i < out->outgoing_count; i++) {
        struct outgoing *outgoing = &out->outgoing[i];
        if (outgoing->to == 0 || (replica->is_holding && !outgoing->is_early)) {
            continue;
        }
        out->messages[update->message_count++] = (struct replica_message){
            .to = outgoing->to,
            .bytes = bytes_of(out->bytes.data + outgoing->offset,
                              outgoing->size),
        };
        outgoing->to = 0;
    }
    update->messages = out->messages;
}

static void end_news(struct replica *replica, struct replica_update *update)
{
    enum replica_role role = replica_role(replica);
    uint64_t leader = replica_leader(replica);
    uint64_t appliable = replica_appliable(replica);
    update->role_changed = role != replica->reported_role ||
                           update->term != replica->reported_term ||
                           leader != replica->reported_leader;
    replica->reported_role = role;
    replica->reported_term = update->term;
    replica->reported_leader = leader;
    if (appliable > replica->reported_appliable) {
        replica->reported_appliable = appliable;
        update->committed = true;
    }
    /* Rule 22: only voters of the newest configuration confirm. */
    if (replica_is_leader(replica)) {
        uint64_t confirmed = confirm_count(&replica->confirm,
                                           newest_members(replica));
        if (confirmed > replica->confirmed) {
            replica->confirmed = confirmed;
            update->confirmed = true;
        }
    }
}

/* A member that is added again later under the same number is another server.
 */
static void forget_followers(struct replica *replica)
{
    for (uint32_t i = 0; i < MEMBER_COUNT_MAX; i++) {
        struct follower *follower = &replica->followers[i];
        if (replica_members_find(newest_members(replica), follower->id) ==
            NULL) {
            *follower = (struct follower){0};
        }
    }
}

void step_end(struct replica *replica, struct replica_update *update)
{
    *update = (struct replica_update){
        .save_vote = must_save(replica),
        .term = replica->core.current_term,
        .voted_for = replica->core.voted_for,
        .truncate_from = replica->out.truncate_from,
        .members_changed = replica->out.members_changed,
    };
    replica->asked_term = update->term;
    replica->asked_vote = update->voted_for;
    if (replica->out.members_changed) {
        /* Answers of a removed member must not count for another directory that
         * gets its number later (README, Servers are directories). */
        confirm_keep(&replica->confirm, newest_members(replica));
        forget_followers(replica);
    }
    /* These two send messages, so they come before end_messages(). */
    election_timing_follow(replica);
    if (replica_is_leader(replica) && replica->out.append_first > 0) {
        step_nudge(replica);
    }
    end_entries(replica, update);
    end_messages(replica, update);
    end_news(replica, update);
    CHECK_SLOW(is_consistent(replica));
}

int step_end_call(struct replica *replica, int error,
                  struct replica_update *update)
{
    if (error == 0) {
        step_end(replica, update);
    } else {
        CHECK(!replica->out.save_vote && replica->out.append_first == 0 &&
              (replica->is_holding || replica->out.outgoing_count == 0));
        *update = (struct replica_update){
            .term = replica->core.current_term,
            .voted_for = replica->core.voted_for,
        };
    }
    return error;
}

void step_submit(struct replica *replica, enum replica_entry_type type,
                 const struct bytes *bodies, uint32_t count)
{
    /* The core requires a block of memory, but neither reads nor frees it; the
     * payload is copied into the cache afterwards. */
    static uint8_t block;
    ROOM(replica->core_entries, replica->core_entries_capacity, count);
    for (uint32_t i = 0; i < count; i++) {
        replica->core_entries[i] = (struct raft_entry){
            .term = replica->core.current_term,
            .type = (enum raft_entry_type)type,
            .buf = {.base = (void *)(uintptr_t)bodies[i].data,
                    .len = bodies[i].size},
            .batch = &block,
        };
    }
    struct raft_event event = {.type = RAFT_SUBMIT};
    event.submit.entries = replica->core_entries;
    event.submit.n = count;
    step_core(replica, &event);
}

const struct replica_members *newest_members(const struct replica *replica)
{
    static const struct replica_members none;
    const struct members_record *record = members_history_at(&replica->history,
                                                             UINT64_MAX);
    return record == NULL ? &none : &record->members;
}

const struct replica_member *own_member(const struct replica *replica)
{
    const struct replica_member *self = replica_members_find(
        newest_members(replica), replica->id);
    return self != NULL && self->incarnation == replica->incarnation ? self
                                                                     : NULL;
}

bool is_sole_voter(const struct replica *replica)
{
    const struct replica_member *self = own_member(replica);
    return self != NULL && self->role == MEMBER_VOTER &&
           members_voter_count(newest_members(replica)) == 1;
}

bool replica_is_named(const struct replica *replica, uint64_t id,
                      uint64_t incarnation)
{
    return replica_members_name(newest_members(replica), id, incarnation);
}

struct bytes core_body(struct replica *replica,
                       const struct replica_entry *entry)
{
    struct replica_members members, view;
    if (entry->type != ENTRY_CHANGE) {
        return entry->body;
    }
    int error = replica_members_decode(entry->body, &members);
    CHECK(error == 0); /* Messages and the log on disk have been checked. */
    members_core_view(&members, replica->id, replica->incarnation, &view);
    buffer_clear(&replica->view);
    replica_members_encode(&view, &replica->view);
    replica->view_body = entry->body;
    return buffer_bytes(&replica->view);
}

void core_configuration(const struct replica *replica,
                        const struct replica_members *members,
                        struct raft_configuration *ret_configuration)
{
    struct replica_members view;
    members_core_view(members, replica->id, replica->incarnation, &view);
    members_to_core(&view, ret_configuration);
}

uint64_t known_term(const struct replica *replica, uint64_t log_index)
{
    uint64_t term = log_term(&replica->log, log_index);
    if (term == 0 && log_index > 0 &&
        log_index == replica->core.trail.snapshot.index) {
        term = replica->core.trail.snapshot.term;
    }
    return term;
}

bool replica_is_leader(const struct replica *replica)
{
    return replica->core.state == RAFT_LEADER;
}

bool vote_is_saved(const struct replica *replica)
{
    return replica->saved_term == replica->core.current_term &&
           replica->saved_vote == replica->core.voted_for;
}

bool hears_leader(const struct replica *replica)
{
    return replica_is_leader(replica) ||
           (replica->has_heard_leader && !replica->timing.is_leader_gone &&
            replica->clock_ms - replica->heard_ms < replica->election_ms);
}

void note_answer(struct replica *replica, uint64_t id, bool has_rejected)
{
    struct follower *follower = follower_of(replica, id);
    follower->heard_ms = replica->clock_ms;
    follower->is_nudged = false;
    follower->has_rejected = has_rejected;
}

void note_leader(struct replica *replica, uint64_t term)
{
    replica->leader_term = term;
    replica->heard_ms = replica->clock_ms;
    replica->has_heard_leader = true;
    election_timing_leader(replica);
}

void feed_configuration(struct replica *replica, uint64_t log_index)
{
    const struct members_record *record = members_history_at(&replica->history,
                                                             log_index);
    CHECK(record != NULL && record->log_index == log_index);
    CHECK(replica->core.configuration_uncommitted_index == log_index);
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    event.configuration.index = log_index;
    core_configuration(replica, &record->members, &event.configuration.conf);
    step_core(replica, &event); /* The core takes over the configuration. */
    CHECK(replica->core.configuration_committed_index == log_index);
}

/* Reports a configuration to the core as soon as it is committed: a later step
 * of the same event can rely on it. */
static void follow_commit(struct replica *replica)
{
    uint64_t uncommitted = replica->core.configuration_uncommitted_index;
    uint64_t committed = replica->core.commit_index;
    if (committed < replica->applied_index) {
        /* At a start the snapshot, or the table, is ahead of the core. */
        committed = replica->applied_index;
    }
    if (uncommitted > 0 && uncommitted <= committed &&
        !replica->is_installing) {
        feed_configuration(replica, uncommitted);
    }
}

/* True if the cache and the history agree with the core. */
__attribute__((unused)) static bool is_consistent(struct replica *replica)
{
    const struct raft *core = &replica->core;
    struct replica_members view;
    members_core_view(newest_members(replica), replica->id,
                      replica->incarnation, &view);
    if (log_last(&replica->log) != raft_last_index(&replica->core)) {
        return false;
    }
    if (replica->is_installing) {
        return true;
    }
    if (core->configuration.n != view.count) {
        return false;
    }
    /* A snapshot's term and configuration are those of its last entry. */
    uint64_t snapshot = core->trail.snapshot.index;
    const struct members_record *record = members_history_at(&replica->history,
                                                             snapshot);
    if (snapshot > 0 &&
        ((log_has(&replica->log, snapshot) &&
          log_term(&replica->log, snapshot) != core->trail.snapshot.term) ||
         record == NULL ||
         record->log_index != core->configuration_last_snapshot_index)) {
        return false;
    }
    for (uint32_t i = 0; i < view.count; i++) {
        if (core->configuration.servers[i].id != view.member[i].id ||
            core->configuration.servers[i].role != (int)view.member[i].role) {
            return false;
        }
    }
    return true;
}
