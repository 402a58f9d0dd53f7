/* SPDX-License-Identifier: MIT */

#include "tests/unit/replica_lone.h"

void make_members(struct replica_members *members, uint32_t voters,
                  uint32_t standbys)
{
    *members = (struct replica_members){.count = voters + standbys};
    for (uint32_t i = 0; i < members->count; i++) {
        members->member[i].id = i + 1;
        members->member[i].incarnation = DIRECTORY(i + 1);
        members->member[i].role = i < voters ? MEMBER_VOTER : MEMBER_STANDBY;
        snprintf(members->member[i].address, MEMBER_ADDRESS_SIZE, "n%u", i + 1);
    }
}

struct replica_entry *add_entry(struct lone *lone, uint64_t term,
                                const struct replica_members *members)
{
    assert_true(lone->count < ENTRIES_MAX);
    struct replica_entry *entry = &lone->entries[lone->count];
    struct buffer *body = &lone->bodies[lone->count++];
    buffer_clear(body);
    if (members != NULL) {
        replica_members_encode(members, body);
    } else {
        buffer_printf(body, "command %u of term %u", lone->count,
                      (unsigned)term);
    }
    *entry = (struct replica_entry){
        .term = term,
        .log_index = lone->count,
        .type = members != NULL ? ENTRY_CHANGE : ENTRY_COMMAND,
        .body = buffer_bytes(body),
    };
    return entry;
}

struct message sent(const struct lone *lone, uint32_t i)
{
    struct message message;
    assert_true(i < lone->update.message_count);
    assert_int_equal(message_decode(lone->update.messages[i].bytes, &message),
                     0);
    return message;
}

void save_vote(struct lone *lone)
{
    struct replica_update after;
    if (!lone->update.save_vote || lone->saves_no_vote) {
        return;
    }
    for (uint32_t i = 0; i < lone->update.message_count; i++) {
        struct message early = sent(lone, i);
        assert_true(early.kind == MESSAGE_VOTE && early.vote.is_standing);
    }
    replica_vote_saved(lone->replica, replica_term(lone->replica),
                       replica_voted_for(lone->replica), lone->flush_ms,
                       lone->now_ms, &after);
    lone->update.messages = after.messages;
    lone->update.message_count = after.message_count;
}

void begin(struct lone *lone, uint64_t term, uint64_t voted_for)
{
    struct replica_options options = {.id = 1,
                                      .incarnation = lone->incarnation != 0
                                                         ? lone->incarnation
                                                         : DIRECTORY(1),
                                      .seed = 7,
                                      .election_ms = 300,
                                      .heartbeat_ms = 50,
                                      .in_flight_max = 16};
    struct replica_start start = {.term = term,
                                  .voted_for = voted_for,
                                  .entries = lone->entries,
                                  .entry_count = lone->count};
    char why[HASP_WHY_SIZE];
    lone->now_ms = 1000;
    lone->replica = replica_new(&options);
    assert_int_equal(
        replica_begin(lone->replica, &start, lone->now_ms, &lone->update, why),
        0);
    save_vote(lone);
}

void found(struct lone *lone, uint32_t voters, uint32_t standbys)
{
    struct replica_members members;
    *lone = (struct lone){0};
    make_members(&members, voters, standbys);
    add_entry(lone, 1, &members);
    begin(lone, 0, 0);
}

void done(struct lone *lone)
{
    replica_free(lone->replica);
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        buffer_done(&lone->bodies[i]);
    }
}

int receive(struct lone *lone, uint64_t from, const struct message *message)
{
    return receive_from(lone, from, DIRECTORY(from), message);
}

int receive_from(struct lone *lone, uint64_t from, uint64_t incarnation,
                 const struct message *message)
{
    struct buffer encoded = {0};
    message_encode(message, &encoded);
    int error = replica_receive(lone->replica, from, incarnation,
                                buffer_bytes(&encoded), lone->now_ms,
                                &lone->update);
    buffer_done(&encoded);
    save_vote(lone);
    return error;
}

int append(struct lone *lone, uint64_t term, uint64_t prev, uint32_t count,
           uint64_t commit)
{
    struct message message = {.kind = MESSAGE_APPEND, .term = term};
    message.append.prev_index = prev;
    message.append.prev_term = prev > 0 ? lone->entries[prev - 1].term : 0;
    message.append.commit_index = commit;
    message.append.count = count;
    message.append.entries = &lone->entries[prev];
    return receive(lone, 2, &message);
}

void persist(struct lone *lone, uint64_t term, uint64_t log_index)
{
    replica_persisted(lone->replica, term, log_index, 0, lone->now_ms,
                      &lone->update);
}

void tick(struct lone *lone)
{
    uint64_t deadline = replica_deadline(lone->replica);
    if (deadline > lone->now_ms) {
        lone->now_ms = deadline;
    }
    replica_tick(lone->replica, lone->now_ms, &lone->update);
    save_vote(lone);
}

static inline void give_vote(struct lone *lone, uint64_t from, uint64_t term,
                             bool is_pre_vote)
{
    struct message vote = {.kind = MESSAGE_VOTE_RESULT, .term = term};
    vote.vote_result.is_granted = true;
    vote.vote_result.is_pre_vote = is_pre_vote;
    assert_int_equal(receive(lone, from, &vote), 0);
}

void lead(struct lone *lone)
{
    tick(lone);
    assert_int_equal(replica_role(lone->replica), REPLICA_CANDIDATE);
    uint64_t term = replica_term(lone->replica) + 1;
    give_vote(lone, 2, term, true);
    if (replica_term(lone->replica) < term) {
        give_vote(lone, 3, term, true);
    }
    assert_true(lone->update.save_vote);
    give_vote(lone, 2, term, false);
    if (replica_role(lone->replica) != REPLICA_LEADER) {
        give_vote(lone, 3, term, false);
    }
    assert_int_equal(replica_role(lone->replica), REPLICA_LEADER);
    assert_true(lone->update.role_changed);
}

void accept_up_to(struct lone *lone, uint64_t from, uint64_t last)
{
    struct message result = {.kind = MESSAGE_APPEND_RESULT,
                             .term = replica_term(lone->replica)};
    result.append_result.last_index = last;
    assert_int_equal(receive(lone, from, &result), 0);
}

uint64_t submit(struct lone *lone)
{
    struct bytes command = BYTES_LITERAL("x");
    uint64_t first = 0;
    assert_int_equal(replica_submit(lone->replica, &command, 1, lone->now_ms,
                                    &first, &lone->update),
                     0);
    return first;
}

uint64_t serve(struct lone *lone)
{
    lead(lone);
    uint64_t first = submit(lone);
    persist(lone, replica_term(lone->replica), first);
    accept_up_to(lone, 2, first);
    if (replica_commit_index(lone->replica) < first) {
        accept_up_to(lone, 3, first);
    }
    assert_int_equal(replica_commit_index(lone->replica), first);
    return first;
}

void take_snapshot(struct lone *lone, uint64_t log_index)
{
    replica_applied(lone->replica, log_index);
    uint64_t trimmed = replica_snapshot_taken(lone->replica, log_index,
                                              lone->now_ms, &lone->update);
    assert_int_equal(trimmed, log_index - 16);
}
