/* SPDX-License-Identifier: MIT */

/* Received messages: checked against the state, then fed to the core.
 *
 * The core trusts its messages: it only asserts that they fit its state, and
 * Debian's build has no assertions. So everything it assumes is checked here
 * first. A message that no correct member can send is HASP_EPROTO and changes
 * nothing; a late message is made harmless or dropped. */

#include "raft/replica_state.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"

/* A part of an AppendEntries that is passed to the core as one event. */
struct part {
    uint64_t prev_index;
    uint64_t prev_term;
    struct replica_entry *entries;
    uint32_t count;
};

/* True unless the message contradicts what is committed here, or the leader of
 * that term. */
static bool append_fits(const struct replica *replica, uint64_t from,
                        const struct message *message)
{
    const struct message_append *append = &message->append;
    uint64_t committed = replica->core.commit_index;
    uint64_t prev_term = known_term(replica, append->prev_index);
    if (message->term == replica->core.current_term) {
        uint64_t leader = replica_leader(replica);
        /* Election Safety: a term has at most one leader (Raft, 5.2). */
        if (leader != 0 && leader != from) {
            return false;
        }
    }
    /* A committed entry never changes (Leader Completeness, Raft, 5.4). */
    if (append->prev_index <= committed && prev_term != 0 &&
        prev_term != append->prev_term) {
        return false;
    }
    for (uint32_t i = 0; i < append->count; i++) {
        const struct replica_entry *entry = &replica->received[i];
        if (entry->log_index > committed) {
            break;
        }
        uint64_t term = known_term(replica, entry->log_index);
        if (term != 0 && term != entry->term) {
            return false;
        }
    }
    return true;
}

/* T9: if an AppendEntries begins below the trimmed log, the core does not know
 * the entry before it. It then rejects committed entries or, if the message
 * begins with the very first entry, appends old entries after the newest.
 * Everything that our snapshot covers is committed, so the leader has it, too
 * (Leader Completeness). Therefore the message is made to begin at the
 * snapshot's end. */
static void receive_reanchor(const struct replica *replica, struct part *all)
{
    const struct raft_trail *trail = &replica->core.trail;
    uint64_t snapshot = trail->snapshot.index;
    if (snapshot == 0 || all->prev_index > trail->offset ||
        all->prev_index == snapshot) {
        return;
    }
    /* The snapshot ends after the message's start. */
    CHECK(all->prev_index < snapshot);
    uint64_t covered = snapshot - all->prev_index;
    if (covered > all->count) {
        covered = all->count;
    }
    all->prev_index = snapshot;
    all->prev_term = trail->snapshot.term;
    all->entries += covered;
    all->count -= (uint32_t)covered;
}

/* T12: the core sets its commit index to min(leader's, last entry of the
 * message), which goes BACK if the message ends below the present commit index
 * (an old message, or a part of one). Such a message gets no new commit index.
 * The first entry of the log is the same everywhere and counts as committed, as
 * at its start. */
static uint64_t sound_commit(const struct replica *replica,
                             const struct part *part, uint64_t commit_index)
{
    uint64_t last = part->prev_index + part->count;
    if (part->prev_index == 0 && part->count > 0 && commit_index == 0) {
        commit_index = 1;
    }
    if (last < replica->core.commit_index) {
        return 0;
    }
    return commit_index;
}

static void receive_feed(struct replica *replica, uint64_t from,
                         struct raft_message *message)
{
    struct raft_event event = {.type = RAFT_RECEIVE};
    message->server_id = from;
    /* The core copies the address, or echoes it into the update. */
    message->server_address = "";
    event.receive.message = message;
    step_core(replica, &event);
}

static void feed_part(struct replica *replica, uint64_t from,
                      const struct message *message, const struct part *part)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
    ROOM(replica->core_entries, replica->core_entries_capacity, part->count);
    /* The core frees the payload of entries that it does not accept, so it gets
     * a dummy block. The payload itself is read in place, and copied if it is
     * accepted. */
    void *block = part->count > 0 ? raft_malloc(1) : NULL;
    CHECK(part->count == 0 || block != NULL);
    for (uint32_t i = 0; i < part->count; i++) {
        const struct replica_entry *entry = &part->entries[i];
        /* Only the first can be a configuration (T1). */
        struct bytes body = core_body(replica, entry);
        replica->core_entries[i] = (struct raft_entry){
            .term = entry->term,
            .type = (enum raft_entry_type)entry->type,
            .buf = {.base = (void *)(uintptr_t)body.data, .len = body.size},
            .batch = block,
        };
    }
    m.append_entries.term = message->term;
    m.append_entries.prev_log_index = part->prev_index;
    m.append_entries.prev_log_term = part->prev_term;
    m.append_entries.leader_commit = sound_commit(replica, part,
                                                  message->append.commit_index);
    m.append_entries.entries = part->count > 0 ? replica->core_entries : NULL;
    m.append_entries.n_entries = part->count;
    receive_feed(replica, from, &m);
}

/* T13: a configuration follows another in a log only if the older one was
 * committed. But a core that gets the newer one forgets the older without
 * recording it as committed, and would roll back too far. So the core first
 * gets the commit index of the older one, if the message will match. */
static void commit_change_before(struct replica *replica,
                                 const struct part *part)
{
    uint64_t uncommitted = replica->core.configuration_uncommitted_index;
    if (part->count > 0 && part->entries[0].type == ENTRY_CHANGE &&
        uncommitted > 0 && uncommitted <= part->prev_index &&
        !replica->is_installing &&
        known_term(replica, part->prev_index) == part->prev_term) {
        feed_configuration(replica, uncommitted);
    }
}

/* T1: for a configuration anywhere in an AppendEntries the core records the
 * index of the first new entry. So each configuration begins a part. */
static void feed_parts(struct replica *replica, uint64_t from,
                       const struct message *message, struct part all)
{
    do {
        struct part part = all;
        part.count = all.count > 0 ? 1 : 0;
        while (part.count < all.count &&
               all.entries[part.count].type != ENTRY_CHANGE) {
            part.count++;
        }
        commit_change_before(replica, &part);
        feed_part(replica, from, message, &part);
        if (part.count == 0) {
            return;
        }
        all.prev_index += part.count;
        all.prev_term = all.entries[part.count - 1].term;
        all.entries += part.count;
        all.count -= part.count;
    } while (all.count > 0 &&
             known_term(replica, all.prev_index) == all.prev_term);
}

static int receive_append(struct replica *replica, uint64_t from,
                          const struct message *message)
{
    const struct message_append *append = &message->append;
    struct part all = {.prev_index = append->prev_index,
                       .prev_term = append->prev_term};
    if (message->term < replica->core.current_term) {
        /* The core reads only the term of such a message, to answer with ours.
         */
        replica->is_answering_stale = true;
        feed_part(replica, from, message, &all);
        replica->is_answering_stale = false;
        return 0;
    }
    ROOM(replica->received, replica->received_capacity, append->count);
    message_entries(append, replica->received);
    if (!append_fits(replica, from, message)) {
        return HASP_EPROTO;
    }
    all.entries = replica->received;
    all.count = append->count;
    if (!replica->is_installing) {
        receive_reanchor(replica, &all);
    }
    feed_parts(replica, from, message, all);
    replica->heard_commit = u64_max(replica->heard_commit,
                                    append->commit_index);
    note_leader(replica, message->term);
    return 0;
}

static void receive_append_result(struct replica *replica, uint64_t from,
                                  const struct message *message)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES_RESULT};
    uint64_t rejected = message->append_result.rejected_index;
    uint64_t last = message->append_result.last_index;
    raft_index match = 0;
    if (!replica_is_leader(replica) ||
        raft_match_index(&replica->core, from, &match) != 0) {
        return; /* The answer is late, or the node is no longer a member. */
    }
    /* T9, the leader's side: a follower keeps what it has acknowledged. A
     * rejection below that index is late; a last index below it is wrong. */
    CHECK(from != replica->id);
    if (rejected > 0 && rejected <= match) {
        rejected = 0;
        last = match;
    } else if (rejected > 0) {
        last = u64_max(match, last);
        last = last >= rejected ? rejected - 1 : last;
    }
    m.append_entries_result.version = 2;
    m.append_entries_result.term = message->term;
    m.append_entries_result.rejected = rejected;
    m.append_entries_result.last_log_index = last;
    if (message->term == replica->core.current_term) {
        note_answer(replica, from, rejected > 0);
    }
    receive_feed(replica, from, &m);
}

static void answer_pre_vote(struct replica *replica, uint64_t to, uint64_t term,
                            bool is_granted)
{
    struct message answer = {.kind = MESSAGE_VOTE_RESULT, .term = term};
    if (answer.term < replica->core.current_term) {
        answer.term = replica->core.current_term; /* T15 */
    }
    answer.vote_result.is_granted = is_granted;
    answer.vote_result.is_pre_vote = true;
    answer.vote_result.flush_ms = (uint32_t)replica->timing.flush_ms;
    step_send(replica, to, &answer);
}

/* T14: the core of a member that is not a voter by its own log refuses every
 * vote. But the candidate that requests its vote has promoted it. If that entry
 * has not arrived yet and the vote is needed (it always is when one voter
 * becomes two), no node can ever be elected to send the entry. So the member
 * votes by the rules for voters: the candidate's configuration decides whether
 * a vote counts (thesis, 4.1). */
static bool may_lend_vote(const struct replica *replica, uint64_t from,
                          const struct message *message)
{
    const struct raft *core = &replica->core;
    const struct replica_members *members = newest_members(replica);
    const struct replica_member *self = own_member(replica);
    uint64_t last = log_last(&replica->log);
    uint64_t last_term = known_term(replica, last);
    if (members->count == 0 || (self != NULL && self->role == MEMBER_VOTER) ||
        core->state != RAFT_FOLLOWER || replica->is_installing ||
        message->term < core->current_term) {
        return false;
    }
    /* The core of a member that does not vote never gives up a leader. */
    bool has_voted = message->term == core->current_term &&
                     core->voted_for != 0 && core->voted_for != from;
    if ((hears_leader(replica) && !message->vote.is_disrupting) ||
        (has_voted && !message->vote.is_pre_vote)) {
        return false;
    }
    return message->vote.last_term > last_term ||
           (message->vote.last_term == last_term &&
            message->vote.last_index >= last);
}

static int receive_vote(struct replica *replica, uint64_t from,
                        const struct message *message)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE};
    if (message->vote.candidate != from ||
        message->vote.last_term > message->term) {
        return HASP_EPROTO;
    }
    if (message->vote.is_standing) {
        election_timing_stands(replica, from, message->vote.flush_ms);
        return 0;
    }
    m.request_vote.version = 2;
    m.request_vote.term = message->term;
    m.request_vote.candidate_id = from;
    m.request_vote.last_log_index = message->vote.last_index;
    m.request_vote.last_log_term = message->vote.last_term;
    m.request_vote.disrupt_leader = message->vote.is_disrupting;
    m.request_vote.pre_vote = message->vote.is_pre_vote;
    replica->timing.asking_flush = message->vote.flush_ms;
    if (!hears_leader(replica)) {
        /* T8: the core would wait for its own random timer. */
        m.request_vote.disrupt_leader = true;
    }
    if (message->vote.is_pre_vote && election_timing_refuses(replica, from)) {
        answer_pre_vote(replica, from, message->term, false);
    } else if (!may_lend_vote(replica, from, message)) {
        receive_feed(replica, from, &m);
    } else if (message->vote.is_pre_vote) {
        answer_pre_vote(replica, from, message->term, true);
    } else {
        replica->is_lending_vote = true;
        receive_feed(replica, from, &m);
        replica->is_lending_vote = false;
        CHECK(replica->core.current_term == message->term);
        CHECK(replica->core.voted_for == 0 || replica->core.voted_for == from);
        replica->core.voted_for = from;
        replica->out.save_vote = true;
    }
    return 0;
}

static int receive_vote_result(struct replica *replica, uint64_t from,
                               const struct message *message)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE_RESULT};
    uint64_t term = replica->core.current_term;
    if (replica->core.state != RAFT_CANDIDATE) {
        /* The answer is late, and the core would read a candidate's state. */
        return 0;
    }
    if (message->vote_result.is_granted &&
        message->term > term + (message->vote_result.is_pre_vote ? 1 : 0)) {
        /* The member has granted a vote that was not asked for. */
        return HASP_EPROTO;
    }
    if (message->vote_result.is_pre_vote &&
        replica->core.candidate_state.in_pre_vote) {
        election_timing_answered(replica, message->vote_result.is_granted,
                                 message->vote_result.flush_ms);
    }
    if (message->vote_result.is_granted && message->term == term) {
        note_answer(replica, from, false);
    }
    m.request_vote_result.version = 2;
    m.request_vote_result.term = message->term;
    m.request_vote_result.vote_granted = message->vote_result.is_granted;
    m.request_vote_result.pre_vote = message->vote_result.is_pre_vote;
    receive_feed(replica, from, &m);
    return 0;
}

static void receive_timeout_now(struct replica *replica, uint64_t from,
                                const struct message *message)
{
    struct raft_message m = {.type = RAFT_TIMEOUT_NOW};
    if (is_sole_voter(replica)) {
        return; /* T2: the core would lead without a new term. */
    }
    m.timeout_now.term = message->term;
    m.timeout_now.last_log_index = message->timeout_now.last_index;
    m.timeout_now.last_log_term = message->timeout_now.last_term;
    receive_feed(replica, from, &m);
}

/* Rule 22: the answer comes from the core's current term, in this very step. */
static void receive_confirm(struct replica *replica, uint64_t from,
                            const struct message *message)
{
    if (message->term == raft_current_term(&replica->core)) {
        struct message answer = {.kind = MESSAGE_CONFIRMED,
                                 .term = message->term,
                                 .number = message->number};
        step_send(replica, from, &answer);
    }
}

/* True for an answer: it counts for this node's own decisions. */
static bool is_answer(const struct message *message)
{
    return message->kind == MESSAGE_APPEND_RESULT ||
           message->kind == MESSAGE_VOTE_RESULT ||
           message->kind == MESSAGE_CONFIRMED;
}

int replica_receive(struct replica *replica, uint64_t from,
                    uint64_t incarnation, struct bytes encoded, uint64_t now_ms,
                    struct replica_update *update)
{
    struct message message;
    int error = message_decode(encoded, &message);
    if (error == 0 && (from == 0 || from == replica->id)) {
        error = HASP_EPROTO;
    } else if (error == 0 && !replica_is_near_term(replica, message.term)) {
        error = HASP_ETOOBIG;
    }
    step_begin(replica, now_ms);
    /* An answer from a directory that the configuration does not name, or no
     * longer names, promises nothing for the directory that it names. It must
     * not count for a majority. */
    if (error == 0 && (!is_answer(&message) ||
                       replica_is_named(replica, from, incarnation))) {
        switch (message.kind) {
        case MESSAGE_APPEND:
            error = receive_append(replica, from, &message);
            break;
        case MESSAGE_APPEND_RESULT:
            receive_append_result(replica, from, &message);
            break;
        case MESSAGE_VOTE:
            error = receive_vote(replica, from, &message);
            break;
        case MESSAGE_VOTE_RESULT:
            error = receive_vote_result(replica, from, &message);
            break;
        case MESSAGE_TIMEOUT_NOW:
            receive_timeout_now(replica, from, &message);
            break;
        case MESSAGE_CONFIRM:
            receive_confirm(replica, from, &message);
            break;
        case MESSAGE_CONFIRMED:
            confirm_take(&replica->confirm, from, message.term, message.number);
            break;
        default:
            UNREACHABLE();
        }
    }
    return step_end_call(replica, error, update);
}
