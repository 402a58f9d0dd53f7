/* SPDX-License-Identifier: MIT */

/* A replica's contract, call by call: questions, the flow of entries, start. */

#include "base/memory.h"
#include "tests/unit/replica_lone.h"

/* --- Questions ------------------------------------------------------------ */

static void answer(struct lone *lone, uint64_t from, uint64_t term,
                   uint64_t number)
{
    struct message confirmed = {
        .kind = MESSAGE_CONFIRMED, .term = term, .number = number};
    assert_int_equal(receive(lone, from, &confirmed), 0);
}

static void a_question_needs_a_majority_of_the_newest_voters(void **state)
{
    struct lone lone;
    uint64_t log_index;
    (void)state;
    found(&lone, 3, 1);
    uint64_t own = serve(&lone);
    uint64_t term = replica_term(lone.replica);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    assert_int_equal(number, 1);
    assert_int_equal(lone.update.message_count, 2); /* The other voters. */
    assert_int_equal(sent(&lone, 0).kind, MESSAGE_CONFIRM);
    assert_int_equal(sent(&lone, 0).number, number);
    answer(&lone, 4, term, number);     /* A standby. */
    answer(&lone, 2, term - 1, number); /* A question of another term. */
    answer(&lone, 2, term, number + 1); /* To a question never asked. */
    answer(&lone, 9, term, number);     /* Not a member. */
    assert_int_equal(replica_confirmed(lone.replica), 0);
    answer(&lone, 3, term, number);
    assert_true(lone.update.confirmed);
    assert_int_equal(replica_confirmed(lone.replica), number);
    /* Four voters: two are no longer a majority. */
    accept_up_to(&lone, 4, own);
    assert_int_equal(replica_set_role(lone.replica, 4, MEMBER_VOTER,
                                      lone.now_ms, &log_index, &lone.update),
                     0);
    assert_int_equal(replica_next_question(lone.replica), 2);
    number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    assert_int_equal(lone.update.message_count, 3);
    answer(&lone, 3, term, number);
    assert_int_equal(replica_confirmed(lone.replica), 1);
    answer(&lone, 4, term, number);
    assert_int_equal(replica_confirmed(lone.replica), 2);
    done(&lone);
}

static void a_removed_leader_does_not_count_itself(void **state)
{
    struct lone lone;
    uint64_t log_index;
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    assert_int_equal(
        replica_remove(lone.replica, 1, lone.now_ms, &log_index, &lone.update),
        0);
    uint64_t term = replica_term(lone.replica);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    answer(&lone, 2, term, number);
    assert_int_equal(replica_confirmed(lone.replica), 0);
    answer(&lone, 3, term, number);
    assert_int_equal(replica_confirmed(lone.replica), number);
    persist(&lone, term, log_index);
    accept_up_to(&lone, 2, log_index);
    accept_up_to(&lone, 3, log_index);
    assert_int_equal(replica_role(lone.replica), REPLICA_FOLLOWER);
    assert_true(lone.update.role_changed);
    assert_int_equal(replica_confirmed(lone.replica), 0);
    done(&lone);
}

static void only_the_present_term_is_confirmed(void **state)
{
    struct lone lone;
    struct message question = {.kind = MESSAGE_CONFIRM, .term = 2, .number = 8};
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(receive(&lone, 2, &question), 0);
    assert_int_equal(lone.update.message_count, 0); /* Ours is 1. */
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    assert_int_equal(receive(&lone, 2, &question), 0);
    assert_int_equal(lone.update.message_count, 1);
    assert_int_equal(lone.update.messages[0].to, 2);
    assert_int_equal(sent(&lone, 0).kind, MESSAGE_CONFIRMED);
    assert_int_equal(sent(&lone, 0).term, 2);
    assert_int_equal(sent(&lone, 0).number, 8);
    /* A vote for another candidate raises the term: from now on, no answer. */
    struct message vote = {.kind = MESSAGE_VOTE, .term = 3};
    vote.vote.candidate = 3;
    vote.vote.last_index = 1;
    vote.vote.last_term = 1;
    vote.vote.is_disrupting = true;
    assert_int_equal(receive(&lone, 3, &vote), 0);
    assert_true(sent(&lone, 0).vote_result.is_granted);
    assert_int_equal(receive(&lone, 2, &question), 0);
    assert_int_equal(lone.update.message_count, 0);
    done(&lone);
}

static void a_new_term_forgets_the_answers_of_the_last(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    uint64_t term = replica_term(lone.replica);
    uint64_t before = replica_ask(lone.replica, lone.now_ms, &lone.update);
    answer(&lone, 2, term, before);
    assert_int_equal(replica_confirmed(lone.replica), before);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    struct message higher = {.kind = MESSAGE_APPEND_RESULT, .term = term + 1};
    assert_int_equal(receive(&lone, 2, &higher), 0);
    assert_int_equal(replica_ask(lone.replica, lone.now_ms, &lone.update), 0);
    serve(&lone);
    assert_int_equal(replica_confirmed(lone.replica), 0);
    answer(&lone, 2, term, number);
    answer(&lone, 2, replica_term(lone.replica), number);
    assert_int_equal(replica_confirmed(lone.replica), 0);
    uint64_t later = replica_ask(lone.replica, lone.now_ms, &lone.update);
    assert_true(later > number);
    answer(&lone, 2, replica_term(lone.replica), later);
    assert_int_equal(replica_confirmed(lone.replica), later);
    done(&lone);
}

/* A vote in a known term is saved as well: otherwise it could be given to two
 * candidates, with a crash in between. */
static void a_vote_is_saved_whether_or_not_its_term_is_new(void **state)
{
    struct lone lone;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 5};
    (void)state;
    found(&lone, 3, 0);
    vote.vote.candidate = 3; /* Its log is empty: it gets its term, no vote. */
    assert_int_equal(receive(&lone, 3, &vote), 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.term, 5);
    assert_int_equal(lone.update.voted_for, 0);
    vote.vote.candidate = 2;
    vote.vote.last_index = vote.vote.last_term = 1;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.voted_for, 2);
    assert_true(sent(&lone, 0).vote_result.is_granted);
    done(&lone);
}

static void a_lost_question_goes_out_again_with_the_heartbeat(void **state)
{
    struct lone lone;
    uint32_t again = 0;
    (void)state;
    found(&lone, 5, 0);
    serve(&lone);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    answer(&lone, 2, replica_term(lone.replica), number);
    tick(&lone);
    for (uint32_t i = 0; i < lone.update.message_count; i++) {
        struct message message = sent(&lone, i);
        if (message.kind == MESSAGE_CONFIRM) {
            assert_int_equal(message.number, number);
            assert_int_not_equal(lone.update.messages[i].to, 2);
            again++;
        }
    }
    assert_int_equal(again, 3);
    answer(&lone, 5, replica_term(lone.replica), number);
    assert_int_equal(replica_confirmed(lone.replica), number);
    tick(&lone);
    for (uint32_t i = 0; i < lone.update.message_count; i++) {
        assert_int_equal(sent(&lone, i).kind, MESSAGE_APPEND);
    }
    done(&lone);
}

/* --- Flow ----------------------------------------------------------------- */

static void followers_at_the_same_place_share_the_bytes(void **state)
{
    struct lone lone;
    struct bytes commands[3] = {BYTES_LITERAL("a"), BYTES_LITERAL(""),
                                BYTES_LITERAL("ccc")};
    uint64_t first;
    (void)state;
    found(&lone, 3, 0);
    uint64_t own = serve(&lone);
    accept_up_to(&lone, 3, own);
    assert_int_equal(replica_submit(lone.replica, commands, 3, lone.now_ms,
                                    &first, &lone.update),
                     0);
    assert_int_equal(first, own + 1);
    assert_int_equal(lone.update.entry_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lone.update.entries[i].log_index, first + i);
        assert_int_equal(lone.update.entries[i].type, ENTRY_COMMAND);
        assert_true(bytes_equal(lone.update.entries[i].body, commands[i]));
        assert_ptr_not_equal(lone.update.entries[i].body.data,
                             commands[i].data);
    }
    assert_int_equal(lone.update.message_count, 2);
    assert_int_not_equal(lone.update.messages[0].to,
                         lone.update.messages[1].to);
    assert_ptr_equal(lone.update.messages[0].bytes.data,
                     lone.update.messages[1].bytes.data);
    assert_int_equal(sent(&lone, 0).append.count, 3);
    done(&lone);
}

static void too_much_in_flight_is_refused(void **state)
{
    struct lone lone;
    struct bytes commands[17] = {BYTES_LITERAL("x")};
    uint8_t *big = calloc(1, REPLICA_ENTRY_SIZE_MAX + 1);
    uint64_t first = 77;
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(replica_submit(lone.replica, commands, 1, lone.now_ms,
                                    &first, &lone.update),
                     HASP_ENOTLEADER);
    serve(&lone);
    assert_int_equal(replica_submit(lone.replica, commands, 17, lone.now_ms,
                                    &first, &lone.update),
                     HASP_EBUSY);
    assert_int_equal(lone.update.entry_count, 0);
    commands[1] = bytes_of(big, REPLICA_ENTRY_SIZE_MAX + 1);
    assert_int_equal(replica_submit(lone.replica, commands, 2, lone.now_ms,
                                    &first, &lone.update),
                     HASP_ETOOBIG);
    commands[1].size = 0;
    assert_int_equal(first, 77);
    assert_int_equal(replica_submit(lone.replica, commands, 16, lone.now_ms,
                                    &first, &lone.update),
                     0);
    assert_int_equal(replica_submit(lone.replica, commands, 1, lone.now_ms,
                                    &first, &lone.update),
                     HASP_EBUSY);
    accept_up_to(&lone, 2, first + 15);
    accept_up_to(&lone, 3, first + 15);
    assert_int_equal(replica_submit(lone.replica, commands, 1, lone.now_ms,
                                    &first, &lone.update),
                     0);
    free(big);
    done(&lone);
}

/* T5 */
static void a_full_window_does_not_flood_the_follower(void **state)
{
    struct lone lone;
    uint32_t to_slow = 0;
    (void)state;
    found(&lone, 3, 0);
    uint64_t own = serve(&lone);
    accept_up_to(&lone, 3, own);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t last = submit(&lone);
        for (uint32_t j = 0; j < lone.update.message_count; j++) {
            to_slow += lone.update.messages[j].to == 3 ? 1 : 0;
        }
        persist(&lone, replica_term(lone.replica), last);
        accept_up_to(&lone, 2, last);
    }
    assert_true(to_slow <= 16 + 2);
    done(&lone);
}

static void a_large_append_is_cut_into_messages(void **state)
{
    struct lone lone;
    static uint8_t large[600000];
    struct bytes commands[12];
    uint64_t first;
    uint32_t count = 0;
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    for (uint32_t i = 0; i < 12; i++) {
        commands[i] = bytes_of(large, sizeof large);
    }
    assert_int_equal(replica_submit(lone.replica, commands, 12, lone.now_ms,
                                    &first, &lone.update),
                     0);
    for (uint32_t i = 0; i < lone.update.message_count; i++) {
        struct message message = sent(&lone, i);
        if (lone.update.messages[i].to == 2) {
            assert_true(lone.update.messages[i].bytes.size < 2 << 20);
            assert_int_equal(message.append.prev_index, first - 1 + count);
            count += message.append.count;
        }
    }
    assert_int_equal(count, 12);
    done(&lone);
}

/* Each message begins after an entry whose term it names, wherever an append is
 * cut and wherever the term changes. */
static void each_part_of_an_append_names_the_term_before_it(void **state)
{
    enum { COUNT = 10 };
    struct lone lone = {0};
    static uint8_t large[600000];
    struct replica_members members;
    uint64_t next = 2;
    (void)state;
    make_members(&members, 3, 0);
    add_entry(&lone, 1, &members);
    for (uint64_t i = 2; i <= COUNT; i++) {
        /* Terms 1, 2, 2, 2, 3 ...; each is a part. */
        struct replica_entry *entry = add_entry(&lone, 1 + i / 3, NULL);
        entry->body = bytes_of(large, sizeof large);
    }
    begin(&lone, 20, 0);
    lead(&lone);
    struct message result = {.kind = MESSAGE_APPEND_RESULT,
                             .term = replica_term(lone.replica)};
    result.append_result.rejected_index = COUNT;
    result.append_result.last_index = 1;
    assert_int_equal(receive(&lone, 2, &result), 0);
    for (uint32_t i = 0; i < lone.update.message_count; i++) {
        struct message message = sent(&lone, i);
        if (message.kind != MESSAGE_APPEND || lone.update.messages[i].to != 2) {
            continue;
        }
        assert_int_equal(message.append.prev_index, next - 1);
        assert_int_equal(message.append.prev_term, lone.entries[next - 2].term);
        next += message.append.count;
    }
    assert_int_equal(next, replica_last_index(lone.replica) + 1);
    done(&lone);
}

/* A follower that answers that its log is empty; the core then knows that its
 * own log is trimmed too far for it. */
static void lack_all(struct lone *lone, uint64_t from, uint64_t rejected_index)
{
    struct message result = {.kind = MESSAGE_APPEND_RESULT,
                             .term = replica_term(lone->replica)};
    result.append_result.rejected_index = rejected_index;
    assert_int_equal(receive(lone, from, &result), 0);
}

/* Serves with 40 entries and a snapshot, while members 4 and 5 lack everything;
 * returns the first of them that is to get the snapshot. The other one is to
 * get it after that. */
static uint64_t serve_with_two_behind(struct lone *lone)
{
    uint64_t last = 0, first = 0;
    found(lone, 3, 2);
    serve(lone);
    for (uint32_t i = 0; i < 40; i++) {
        last = submit(lone);
        persist(lone, replica_term(lone->replica), last);
        accept_up_to(lone, 2, last);
        accept_up_to(lone, 3, last);
    }
    take_snapshot(lone, last);
    lack_all(lone, 4, 1);
    lack_all(lone, 5, 1);
    for (uint32_t i = 0; i < 50 && first == 0; i++) {
        tick(lone);
        first = lone->update.snapshot_to;
    }
    assert_true(first == 4 || first == 5);
    /* There is one more. */
    assert_true(replica_deadline(lone->replica) <= lone->now_ms);
    return first;
}

/* A leader that is deposed, in whichever way, drops the snapshots that it was
 * about to send. */
static void a_former_leader_sends_no_snapshot(void **state)
{
    static const enum message_kind kinds[] = {
        MESSAGE_APPEND_RESULT, MESSAGE_APPEND, MESSAGE_VOTE_RESULT,
        MESSAGE_TIMEOUT_NOW};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct lone lone;
        (void)serve_with_two_behind(&lone);
        struct message higher = {.kind = kinds[i],
                                 .term = replica_term(lone.replica) + 1};
        if (receive(&lone, 2, &higher) != 0 ||
            replica_role(lone.replica) == REPLICA_LEADER) {
            done(&lone);
            assert_int_not_equal(kinds[i], MESSAGE_APPEND_RESULT);
            continue;
        }
        assert_int_equal(lone.update.snapshot_to, 0);
        assert_true(replica_deadline(lone.replica) > lone.now_ms);
        tick(&lone);
        assert_int_equal(lone.update.snapshot_to, 0);
        done(&lone);
    }
}

/* A refused call requests nothing, and does not drop an earlier request for the
 * next update. */
static void a_refused_call_swallows_no_snapshot_to_send(void **state)
{
    struct lone lone;
    struct bytes command = BYTES_LITERAL("x");
    struct bytes commands[17];
    uint64_t last;
    (void)state;
    uint64_t first = serve_with_two_behind(&lone);
    assert_int_equal(replica_receive(lone.replica, 2, DIRECTORY(2), command,
                                     lone.now_ms, &lone.update),
                     HASP_EPROTO);
    assert_int_equal(lone.update.snapshot_to, 0);
    for (uint32_t i = 0; i < 17; i++) {
        commands[i] = command;
    }
    assert_int_equal(replica_submit(lone.replica, commands, 17, lone.now_ms,
                                    &last, &lone.update),
                     HASP_EBUSY);
    assert_int_equal(lone.update.snapshot_to, 0);
    assert_int_equal(
        replica_remove(lone.replica, 9, lone.now_ms, &last, &lone.update),
        HASP_ENOENT);
    assert_int_equal(
        replica_transfer(lone.replica, 9, lone.now_ms, &lone.update),
        HASP_ENOENT);
    assert_int_equal(lone.update.snapshot_to, 0);
    tick(&lone);
    assert_int_equal(lone.update.snapshot_to, 4 + 5 - first);
    done(&lone);
}

/* --- Start ---------------------------------------------------------------- */

static int try_begin(const struct replica_start *start,
                     struct replica_update *update)
{
    struct replica_options options = {.id = 1,
                                      .incarnation = DIRECTORY(1),
                                      .seed = 7,
                                      .election_ms = 300,
                                      .heartbeat_ms = 50};
    char why[HASP_WHY_SIZE] = "";
    struct replica *replica = replica_new(&options);
    int error = replica_begin(replica, start, 1000, update, why);
    assert_true((error != 0) == (why[0] != '\0'));
    replica_free(replica);
    return error;
}

/* It is refused, for that reason. */
static void assert_corrupt(const struct replica_start *start, const char *text)
{
    struct replica_options options = {.id = 1,
                                      .incarnation = DIRECTORY(1),
                                      .seed = 7,
                                      .election_ms = 300,
                                      .heartbeat_ms = 50};
    struct replica_update update;
    char why[HASP_WHY_SIZE] = "";
    struct replica *replica = replica_new(&options);
    assert_int_equal(replica_begin(replica, start, 1000, &update, why),
                     HASP_ECORRUPT);
    assert_string_equal(why, text);
    replica_free(replica);
}

#define ENTRY_COUNT 9

/* A snapshot up to entry 5, which is of term 2, and the log from entry 1 on,
 * whose last entry is of term 4; the caller owns the bodies. */
static struct replica_start good_start(struct lone *lone)
{
    struct replica_members members;
    make_members(&members, 3, 0);
    add_entry(lone, 1, &members);
    for (uint64_t i = 2; i <= ENTRY_COUNT; i++) {
        add_entry(lone, i / 3 + 1, NULL);
    }
    return (struct replica_start){.term = 4,
                                  .voted_for = 2,
                                  .snapshot_index = 5,
                                  .snapshot_term = 2,
                                  .snapshot_members = lone->entries[0].body,
                                  .snapshot_members_index = 1,
                                  .entries = lone->entries,
                                  .entry_count = ENTRY_COUNT,
                                  .applied_index = 7};
}

static void free_bodies(struct lone *lone)
{
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        buffer_done(&lone->bodies[i]);
    }
}

static void numbers_that_do_not_fit_together_are_corrupt(void **state)
{
    struct lone lone = {0};
    struct replica_update update;
    (void)state;
    struct replica_start good = good_start(&lone), bad = good;
    assert_int_equal(try_begin(&good, &update), 0);
    assert_int_equal(update.truncate_from, 0);
    bad.term = 3;
    assert_corrupt(&bad, "the saved term is 3, but the log or the snapshot has "
                         "term 4");
    bad.term = MESSAGE_NUMBER_MAX;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad.term++;
    assert_corrupt(&bad, "the saved term is 4611686018427387905, but the log "
                         "or the snapshot has term 4");
    bad = good;
    bad.applied_index = 4;
    assert_corrupt(&bad, "the table has applied 4, but the snapshot ends at 5 "
                         "and the log at 9");
    bad.applied_index = 5;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad.applied_index = 9;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad.applied_index = 10;
    assert_corrupt(&bad, "the table has applied 10, but the snapshot ends at 5 "
                         "and the log at 9");
    bad = good;
    bad.entries += 6;
    bad.entry_count -= 6;
    assert_corrupt(&bad, "the log begins at index 7, but the snapshot ends at "
                         "5");
    bad.entries--;
    bad.entry_count++;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad.snapshot_term = 4; /* The log continues in term 3. */
    assert_corrupt(&bad, "the log continues after the snapshot with a lower "
                         "term");
    bad.snapshot_term = 3;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad = good;
    bad.snapshot_members.size -= 8;
    assert_corrupt(&bad, "the snapshot's configuration cannot be decoded");
    bad = good;
    bad.snapshot_index = 0;
    bad.snapshot_term = 0;
    bad.entries++;
    bad.entry_count--;
    assert_corrupt(&bad, "the log begins at index 2, but the snapshot ends at "
                         "0");
    bad = good;
    bad.snapshot_term = 0;
    assert_corrupt(&bad, "the snapshot's index and term contradict each other");
    bad = good;
    bad.snapshot_members_index = 0;
    assert_corrupt(&bad, "the snapshot's index and term contradict each other");
    bad.snapshot_members_index = 6;
    assert_corrupt(&bad, "the snapshot's index and term contradict each other");
    bad.snapshot_members_index = 5;
    assert_int_equal(try_begin(&bad, &update), 0);
    bad = good;
    bad.entry_count = 0;
    bad.snapshot_index = bad.applied_index = MESSAGE_NUMBER_MAX + 1;
    assert_corrupt(&bad, "the snapshot's index and term contradict each other");
    free_bodies(&lone);
}

/* Each entry by itself. */
static void an_entry_that_cannot_be_is_corrupt(void **state)
{
    struct lone lone = {0};
    struct replica_update update;
    (void)state;
    struct replica_start good = good_start(&lone);
    struct replica_entry *entry = &lone.entries[7], kept = *entry;
    entry->log_index++;
    assert_corrupt(&good,
                   "the entry at index 8 of the log is not at its index");
    *entry = kept;
    entry->term = 2;
    assert_corrupt(&good, "the entry at index 8 of the log has a lower term "
                          "than the one before");
    *entry = kept;
    entry->type = (enum replica_entry_type)9;
    assert_corrupt(&good,
                   "the entry at index 8 of the log has an unknown type");
    entry->type = (enum replica_entry_type)(ENTRY_COMMAND - 1);
    assert_corrupt(&good,
                   "the entry at index 8 of the log has an unknown type");
    entry->type = ENTRY_CHANGE;
    assert_corrupt(&good, "the entry at index 8 of the log is a configuration "
                          "that cannot be decoded");
    *entry = kept;
    uint8_t *large = memory_new(REPLICA_ENTRY_SIZE_MAX + 1);
    entry->body = bytes_of(large, REPLICA_ENTRY_SIZE_MAX);
    assert_int_equal(try_begin(&good, &update), 0);
    entry->body.size++;
    assert_corrupt(&good, "the entry at index 8 of the log is too big");
    free(large);
    *entry = kept;
    entry = &lone.entries[8];
    kept = *entry;
    good.term = MESSAGE_NUMBER_MAX;
    entry->term = MESSAGE_NUMBER_MAX;
    assert_int_equal(try_begin(&good, &update), 0);
    entry->term++;
    assert_corrupt(&good, "the entry at index 9 of the log has an invalid "
                          "term");
    *entry = kept;
    lone.entries[0].type = ENTRY_COMMAND;
    assert_corrupt(&good,
                   "the entry at index 1 of the log is the first one and "
                   "not a configuration");
    free_bodies(&lone);
}

static void a_log_that_a_snapshot_made_obsolete_is_given_up(void **state)
{
    struct lone lone = {0};
    struct replica_members members;
    struct replica_update update;
    (void)state;
    make_members(&members, 3, 0);
    add_entry(&lone, 1, &members);
    for (uint64_t i = 2; i <= 9; i++) {
        add_entry(&lone, 2, NULL);
    }
    struct replica_start start = {.term = 4,
                                  .snapshot_index = 12,
                                  .snapshot_term = 3,
                                  .snapshot_members = lone.entries[0].body,
                                  .snapshot_members_index = 1,
                                  .entries = lone.entries,
                                  .entry_count = 9,
                                  .applied_index = 12};
    assert_int_equal(try_begin(&start, &update), 0);
    assert_int_equal(update.truncate_from, 1);
    assert_int_equal(update.entry_count, 0);
    start.snapshot_index = 7; /* The log reaches it, in another term. */
    start.applied_index = 7;
    assert_int_equal(try_begin(&start, &update), 0);
    assert_int_equal(update.truncate_from, 1);
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        buffer_done(&lone.bodies[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_needs_a_majority_of_the_newest_voters),
        cmocka_unit_test(a_removed_leader_does_not_count_itself),
        cmocka_unit_test(only_the_present_term_is_confirmed),
        cmocka_unit_test(a_new_term_forgets_the_answers_of_the_last),
        cmocka_unit_test(a_vote_is_saved_whether_or_not_its_term_is_new),
        cmocka_unit_test(a_lost_question_goes_out_again_with_the_heartbeat),
        cmocka_unit_test(followers_at_the_same_place_share_the_bytes),
        cmocka_unit_test(too_much_in_flight_is_refused),
        cmocka_unit_test(a_full_window_does_not_flood_the_follower),
        cmocka_unit_test(a_large_append_is_cut_into_messages),
        cmocka_unit_test(each_part_of_an_append_names_the_term_before_it),
        cmocka_unit_test(a_former_leader_sends_no_snapshot),
        cmocka_unit_test(a_refused_call_swallows_no_snapshot_to_send),
        cmocka_unit_test(numbers_that_do_not_fit_together_are_corrupt),
        cmocka_unit_test(an_entry_that_cannot_be_is_corrupt),
        cmocka_unit_test(a_log_that_a_snapshot_made_obsolete_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
