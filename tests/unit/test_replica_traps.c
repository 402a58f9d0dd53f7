/* SPDX-License-Identifier: MIT */

/* The traps of libraft that raft/README.md lists, each in its shortest form. */

#include "tests/unit/replica_lone.h"

/* --- Log ------------------------------------------------------------------ */

static void only_what_is_durable_here_may_be_applied(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    add_entry(&lone, 2, NULL);
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 1, 2, 3), 0);
    assert_int_equal(lone.update.entry_count, 2);
    assert_int_equal(lone.update.message_count, 0);
    assert_int_equal(replica_commit_index(lone.replica), 3);
    assert_int_equal(replica_appliable(lone.replica), 1);
    persist(&lone, 2, 2);
    assert_true(lone.update.committed);
    assert_int_equal(replica_appliable(lone.replica), 2);
    persist(&lone, 2, 3);
    assert_int_equal(replica_appliable(lone.replica), 3);
    assert_int_equal(sent(&lone, 0).kind, MESSAGE_APPEND_RESULT);
    assert_int_equal(sent(&lone, 0).append_result.last_index, 3);
    done(&lone);
}

static void a_completion_of_a_replaced_write_is_dropped(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 1, 1, 1), 0); /* 2^2 */
    lone.count = 1;
    add_entry(&lone, 3, NULL);
    assert_int_equal(append(&lone, 3, 1, 1, 1), 0); /* 2^3 instead */
    assert_int_equal(lone.update.truncate_from, 2);
    persist(&lone, 2, 2);
    assert_int_equal(lone.update.message_count, 0);
    assert_int_equal(replica_appliable(lone.replica), 1);
    persist(&lone, 3, 2);
    assert_int_equal(sent(&lone, 0).append_result.last_index, 2);
    done(&lone);
}

static void the_same_entry_written_twice_needs_the_second_write(void **state)
{
    struct lone lone;
    struct replica_entry twice;
    (void)state;
    found(&lone, 3, 0);
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 1, 1, 1), 0); /* 2^2 */
    twice = lone.entries[1];
    add_entry(&lone, 3, NULL);
    lone.entries[1] = lone.entries[2];
    assert_int_equal(append(&lone, 3, 1, 1, 1), 0); /* 2^3 */
    lone.entries[1] = twice;
    assert_int_equal(append(&lone, 4, 1, 1, 2), 0); /* 2^2 again */
    /* The first write has ended. A crash could still leave 2^3 on disk. */
    persist(&lone, 2, 2);
    assert_int_equal(lone.update.message_count, 0);
    assert_int_equal(replica_appliable(lone.replica), 1);
    persist(&lone, 3, 2);
    assert_int_equal(replica_appliable(lone.replica), 1);
    persist(&lone, 2, 2);
    assert_int_equal(replica_appliable(lone.replica), 2);
    done(&lone);
}

/* T12 */
static void the_commit_index_never_goes_back(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    for (uint32_t i = 0; i < 4; i++) {
        add_entry(&lone, 2, NULL);
    }
    assert_int_equal(append(&lone, 2, 1, 4, 5), 0);
    persist(&lone, 2, 5);
    assert_int_equal(replica_commit_index(lone.replica), 5);
    /* A window that is full, or a retry: it ends below what is committed. */
    for (uint32_t count = 0; count < 4; count++) {
        assert_int_equal(append(&lone, 2, 1, count, 9), 0);
        assert_int_equal(replica_commit_index(lone.replica), 5);
        assert_int_equal(replica_known_commit(lone.replica), 9);
        assert_int_equal(sent(&lone, 0).append_result.rejected_index, 0);
    }
    /* An older message, which names less. */
    for (uint64_t commit = 0; commit < 9; commit++) {
        assert_int_equal(append(&lone, 2, 5, 0, commit), 0);
        assert_int_equal(replica_commit_index(lone.replica), 5);
        assert_int_equal(replica_known_commit(lone.replica), 9);
    }
    done(&lone);
}

/* --- Configurations ------------------------------------------------------- */

/* T1 */
static void a_configuration_inside_a_batch_is_committed(void **state)
{
    struct lone lone;
    struct replica_members members;
    uint64_t log_index;
    (void)state;
    found(&lone, 3, 0);
    add_entry(&lone, 2, NULL);
    add_entry(&lone, 2, NULL);
    make_members(&members, 3, 1);
    add_entry(&lone, 2, &members);
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 1, 4, 5), 0);
    assert_int_equal(lone.update.entry_count, 4);
    assert_true(lone.update.members_changed);
    persist(&lone, 2, 5);
    serve(&lone);
    /* Were it still uncommitted in the core, this would be refused. */
    assert_int_equal(
        replica_remove(lone.replica, 4, lone.now_ms, &log_index, &lone.update),
        0);
    done(&lone);
}

/* T13 */
static void
a_configuration_that_another_follows_is_not_rolled_back(void **state)
{
    struct lone lone;
    struct replica_members first, second, newest;
    uint64_t log_index;
    (void)state;
    found(&lone, 3, 0);
    make_members(&first, 3, 1);
    make_members(&second, 3, 2);
    add_entry(&lone, 2, &first);
    assert_int_equal(append(&lone, 2, 1, 1, 1), 0);
    /* The leader has committed it and failed; its successor's message does not
     * know that yet. */
    add_entry(&lone, 2, &second);
    assert_int_equal(append(&lone, 2, 2, 1, 1), 0);
    persist(&lone, 2, 3);
    lone.count = 2;
    add_entry(&lone, 3, NULL);
    assert_int_equal(append(&lone, 3, 2, 1, 1), 0);
    assert_int_equal(lone.update.truncate_from, 3);
    assert_true(lone.update.members_changed);
    persist(&lone, 3, 3);
    replica_members(lone.replica, &newest);
    assert_int_equal(newest.count, 4);
    /* The core agrees: it votes and counts by the same one. */
    serve(&lone);
    assert_int_equal(
        replica_remove(lone.replica, 4, lone.now_ms, &log_index, &lone.update),
        0);
    replica_members(lone.replica, &newest);
    assert_int_equal(newest.count, 3);
    done(&lone);
}

/* T11 */
static void a_change_needs_a_committed_entry_of_the_own_term(void **state)
{
    struct lone lone;
    uint64_t log_index;
    (void)state;
    found(&lone, 4, 0);
    lead(&lone);
    assert_int_equal(lone.update.entry_count, 0); /* No barrier: idle. */
    assert_int_equal(
        replica_remove(lone.replica, 4, lone.now_ms, &log_index, &lone.update),
        HASP_EBUSY);
    uint64_t own = submit(&lone);
    persist(&lone, replica_term(lone.replica), own);
    assert_int_equal(
        replica_remove(lone.replica, 4, lone.now_ms, &log_index, &lone.update),
        HASP_EBUSY);
    accept_up_to(&lone, 2, own);
    accept_up_to(&lone, 3, own);
    assert_int_equal(
        replica_remove(lone.replica, 4, lone.now_ms, &log_index, &lone.update),
        0);
    assert_int_equal(log_index, own + 1);
    assert_int_equal(lone.update.entry_count, 1);
    assert_int_equal(lone.update.entries[0].type, ENTRY_CHANGE);
    assert_int_equal(
        replica_remove(lone.replica, 3, lone.now_ms, &log_index, &lone.update),
        HASP_EBUSY);
    done(&lone);
}

static void a_change_waits_for_the_member_promoted_last(void **state)
{
    struct lone lone;
    uint64_t promoted, log_index;
    (void)state;
    found(&lone, 3, 1);
    uint64_t own = serve(&lone);
    assert_int_equal(replica_set_role(lone.replica, 4, MEMBER_VOTER,
                                      lone.now_ms, &promoted, &lone.update),
                     HASP_EBUSY); /* Has nothing yet. */
    accept_up_to(&lone, 4, own);
    assert_int_equal(replica_set_role(lone.replica, 4, MEMBER_VOTER,
                                      lone.now_ms, &promoted, &lone.update),
                     0);
    persist(&lone, replica_term(lone.replica), promoted);
    accept_up_to(&lone, 2, promoted);
    accept_up_to(&lone, 3, promoted);
    assert_int_equal(replica_commit_index(lone.replica), promoted);
    assert_int_equal(
        replica_remove(lone.replica, 3, lone.now_ms, &log_index, &lone.update),
        HASP_EBUSY);
    accept_up_to(&lone, 4, promoted);
    assert_int_equal(
        replica_remove(lone.replica, 3, lone.now_ms, &log_index, &lone.update),
        0);
    done(&lone);
}

static void a_group_of_the_largest_size_can_be_changed(void **state)
{
    struct lone lone;
    uint64_t log_index;
    const uint64_t last = MEMBER_COUNT_MAX;
    (void)state;
    found(&lone, 3, MEMBER_COUNT_MAX - 4);
    serve(&lone);
    assert_int_equal(replica_add(lone.replica, last, DIRECTORY(last), "last",
                                 lone.now_ms, &log_index, &lone.update),
                     0);
    persist(&lone, replica_term(lone.replica), log_index);
    accept_up_to(&lone, 2, log_index);
    accept_up_to(&lone, 3, log_index);
    assert_int_equal(replica_commit_index(lone.replica), log_index);
    assert_int_equal(replica_add(lone.replica, last + 1, DIRECTORY(last + 1),
                                 "more", lone.now_ms, &log_index, &lone.update),
                     HASP_EFULL);
    assert_int_equal(replica_remove(lone.replica, last, lone.now_ms, &log_index,
                                    &lone.update),
                     0);
    done(&lone);
}

static void the_last_two_voters_stay(void **state)
{
    struct lone lone;
    uint64_t log_index;
    (void)state;
    found(&lone, 2, 1);
    serve(&lone);
    assert_int_equal(
        replica_remove(lone.replica, 2, lone.now_ms, &log_index, &lone.update),
        HASP_EREFUSED);
    assert_int_equal(replica_set_role(lone.replica, 2, MEMBER_STANDBY,
                                      lone.now_ms, &log_index, &lone.update),
                     HASP_EREFUSED);
    assert_int_equal(
        replica_remove(lone.replica, 9, lone.now_ms, &log_index, &lone.update),
        HASP_ENOENT);
    assert_int_equal(replica_add(lone.replica, 3, 9, "elsewhere", lone.now_ms,
                                 &log_index, &lone.update),
                     HASP_EEXIST);
    assert_int_equal(replica_add(lone.replica, 4, 9, "n3", lone.now_ms,
                                 &log_index, &lone.update),
                     HASP_EEXIST);
    assert_int_equal(replica_add(lone.replica, 4, DIRECTORY(3), "n4",
                                 lone.now_ms, &log_index, &lone.update),
                     HASP_EEXIST);
    assert_int_equal(replica_add(lone.replica, 4, 9, "", lone.now_ms,
                                 &log_index, &lone.update),
                     HASP_EINVALID);
    assert_int_equal(replica_add(lone.replica, 4, 0, "n4", lone.now_ms,
                                 &log_index, &lone.update),
                     HASP_EINVALID);
    assert_int_equal(
        replica_transfer(lone.replica, 3, lone.now_ms, &lone.update),
        HASP_EINVALID);
    assert_int_equal(
        replica_remove(lone.replica, 3, lone.now_ms, &log_index, &lone.update),
        0);
    done(&lone);
}

static void a_member_gets_another_address_and_nothing_else(void **state)
{
    struct lone lone;
    uint64_t log_index;
    (void)state;
    found(&lone, 3, 1);
    uint64_t own = serve(&lone);
    accept_up_to(&lone, 4, own);
    struct replica_members before = *replica_configuration(lone.replica);
    static const struct {
        uint64_t id;
        const char *address;
        int error;
    } refused[] = {{9, "elsewhere", HASP_ENOENT},
                   {4, "", HASP_EINVALID},
                   {4, "n3", HASP_EEXIST},
                   {4, "n4", HASP_EEXIST}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(replica_set_address(lone.replica, refused[i].id,
                                             refused[i].address, lone.now_ms,
                                             &log_index, &lone.update),
                         refused[i].error);
    }
    assert_int_equal(replica_set_address(lone.replica, 4, "elsewhere",
                                         lone.now_ms, &log_index, &lone.update),
                     0);
    assert_int_equal(replica_set_address(lone.replica, 3, "n33", lone.now_ms,
                                         &own, &lone.update),
                     HASP_EBUSY);
    const struct replica_members *after = replica_configuration(lone.replica);
    assert_int_equal(after->count, before.count);
    for (uint32_t i = 0; i < after->count; i++) {
        const struct replica_member *one = &after->member[i];
        const struct replica_member *was = &before.member[i];
        assert_int_equal(one->id, was->id);
        assert_int_equal(one->incarnation, was->incarnation);
        assert_int_equal(one->role, was->role);
        assert_string_equal(one->address,
                            one->id == 4 ? "elsewhere" : was->address);
    }
    /* What it had acknowledged still counts. */
    assert_int_equal(replica_match(lone.replica, 4), log_index - 1);
    persist(&lone, replica_term(lone.replica), log_index);
    accept_up_to(&lone, 2, log_index);
    assert_int_equal(replica_commit_index(lone.replica), log_index);
    done(&lone);
}

/* T3 */
static void a_demoted_spare_does_not_keep_the_timer_busy(void **state)
{
    struct lone lone;
    uint64_t log_index;
    uint32_t ticks = 0;
    (void)state;
    found(&lone, 3, 1);
    uint64_t own = serve(&lone);
    accept_up_to(&lone, 4, own);
    assert_int_equal(replica_set_role(lone.replica, 4, MEMBER_SPARE,
                                      lone.now_ms, &log_index, &lone.update),
                     0);
    persist(&lone, replica_term(lone.replica), log_index);
    accept_up_to(&lone, 2, log_index);
    uint64_t until = lone.now_ms + 1000;
    while (lone.now_ms < until) {
        tick(&lone);
        accept_up_to(&lone, 2, log_index);
        ticks++;
    }
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    assert_true(ticks <= 1000 / (50 / 4) + 2);
    done(&lone);
}

/* --- Elections ------------------------------------------------------------ */

/* T2 */
static void a_single_voter_starts_each_life_in_a_new_term(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 1, 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.term, 2);
    assert_int_equal(lone.update.voted_for, 1);
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    replica_free(lone.replica);
    begin(&lone, 2, 1);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.term, 3);
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    assert_true(lone.update.confirmed);
    assert_int_equal(replica_confirmed(lone.replica), number);
    done(&lone);
}

/* T2, at run time */
static void a_single_voter_that_stepped_down_leads_in_a_new_term(void **state)
{
    struct lone lone;
    struct message late = {.kind = MESSAGE_APPEND_RESULT, .term = 6};
    (void)state;
    found(&lone, 1, 1);
    assert_int_equal(receive(&lone, 2, &late), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_FOLLOWER);
    assert_int_equal(replica_term(lone.replica), 6);
    /* Nor if a leader that has left hands over to it. */
    struct message now = {.kind = MESSAGE_TIMEOUT_NOW, .term = 6};
    now.timeout_now.last_index = 1;
    now.timeout_now.last_term = 1;
    assert_int_equal(receive(&lone, 2, &now), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_FOLLOWER);
    for (int i = 0; i < 3 && replica_leader(lone.replica) == 0; i++) {
        tick(&lone);
        for (uint32_t j = 0; j < lone.update.message_count; j++) {
            assert_int_equal(lone.update.messages[j].to, 2);
        }
    }
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    assert_int_equal(replica_term(lone.replica), 7);
    assert_int_equal(replica_voted_for(lone.replica), 1);
    done(&lone);
}

/* T14 */
static void a_standby_votes_for_who_has_promoted_it(void **state)
{
    struct lone lone;
    struct replica_members members;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 5};
    (void)state;
    *(&lone) = (struct lone){0};
    make_members(&members, 2, 0);
    members.member[0].role = MEMBER_STANDBY; /* This replica. */
    add_entry(&lone, 1, &members);
    add_entry(&lone, 1, NULL);
    begin(&lone, 4, 0);
    vote.vote.candidate = 2;
    vote.vote.last_index = 1; /* Older than ours. */
    vote.vote.last_term = 1;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_false(sent(&lone, 0).vote_result.is_granted);
    vote.vote.last_index = 3;
    vote.vote.is_pre_vote = true;
    vote.term = 6;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_true(sent(&lone, 0).vote_result.is_granted);
    assert_true(sent(&lone, 0).vote_result.is_pre_vote);
    assert_false(lone.update.save_vote);
    vote.vote.is_pre_vote = false;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_true(sent(&lone, 0).vote_result.is_granted);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.voted_for, 2);
    assert_int_equal(lone.update.term, 6);
    vote.vote.candidate = 3; /* One vote per term. */
    assert_int_equal(receive(&lone, 3, &vote), 0);
    assert_false(sent(&lone, 0).vote_result.is_granted);
    assert_int_equal(replica_voted_for(lone.replica), 2);
    /* A leader that was heard just now is not deposed. */
    assert_int_equal(append(&lone, 6, 2, 0, 1), 0);
    vote.term = 7;
    assert_int_equal(receive(&lone, 3, &vote), 0);
    assert_false(sent(&lone, 0).vote_result.is_granted);
    assert_int_equal(replica_term(lone.replica), 6);
    done(&lone);
}

/* A standby of a cluster with one voter, member 2, at the start of term 6. */
static struct message stand_by(struct lone *lone)
{
    struct replica_members members;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 6};
    *lone = (struct lone){0};
    make_members(&members, 2, 0);
    members.member[0].role = MEMBER_STANDBY;
    add_entry(lone, 1, &members);
    begin(lone, 6, 0);
    vote.vote.candidate = 2;
    vote.vote.last_index = 30;
    vote.vote.last_term = 5;
    return vote;
}

/* The core saves a later term by itself, and this term is not later. */
static void a_vote_lent_in_a_known_term_is_saved(void **state)
{
    struct lone lone;
    (void)state;
    struct message vote = stand_by(&lone);
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(lone.update.voted_for, 2);
    assert_true(sent(&lone, 0).vote_result.is_granted);
    done(&lone);
}

static void no_vote_is_lent_in_a_former_term(void **state)
{
    struct lone lone;
    (void)state;
    struct message vote = stand_by(&lone);
    vote.term = 5;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_false(sent(&lone, 0).vote_result.is_granted);
    assert_int_equal(sent(&lone, 0).term, 6);
    assert_int_equal(replica_voted_for(lone.replica), 0);
    done(&lone);
}

/* While a snapshot is installed the log on the disk is neither the old nor the
 * new one. */
static void no_vote_is_lent_during_an_installation(void **state)
{
    struct lone lone;
    struct replica_members members;
    struct buffer encoded = {0};
    (void)state;
    struct message vote = stand_by(&lone);
    make_members(&members, 2, 0);
    members.member[0].role = MEMBER_STANDBY;
    replica_members_encode(&members, &encoded);
    assert_true(replica_install(lone.replica, 2, 6, 9, 5,
                                buffer_bytes(&encoded), 3, lone.now_ms,
                                &lone.update));
    lone.now_ms += 2000; /* Longer than any leader may be silent. */
    vote.term = 7;
    for (int is_real = 0; is_real <= 1; is_real++) {
        vote.vote.is_pre_vote = !is_real;
        assert_int_equal(receive(&lone, 2, &vote), 0);
        for (uint32_t i = 0; i < lone.update.message_count; i++) {
            assert_false(sent(&lone, i).vote_result.is_granted);
        }
    }
    assert_int_equal(replica_voted_for(lone.replica), 0);
    buffer_done(&encoded);
    done(&lone);
}

/* A candidate has no entry of a term after its own. */
static void a_log_from_the_future_is_hostile(void **state)
{
    struct lone lone;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 5};
    (void)state;
    found(&lone, 3, 0);
    vote.vote.candidate = 2;
    vote.vote.last_index = 9;
    vote.vote.last_term = 6;
    assert_int_equal(receive(&lone, 2, &vote), HASP_EPROTO);
    assert_int_equal(replica_term(lone.replica), 1);
    assert_int_equal(replica_voted_for(lone.replica), 0);
    done(&lone);
}

/* Only a pre-vote is about the term after the candidate's own. */
static void a_vote_that_nobody_asked_for_is_hostile(void **state)
{
    struct lone lone;
    struct message vote = {.kind = MESSAGE_VOTE_RESULT};
    (void)state;
    found(&lone, 3, 0);
    tick(&lone);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    uint64_t term = replica_term(lone.replica);
    vote.vote_result.is_granted = true;
    vote.term = term + 1;
    assert_int_equal(receive(&lone, 2, &vote), HASP_EPROTO);
    vote.vote_result.is_pre_vote = true;
    vote.term = term + 2;
    assert_int_equal(receive(&lone, 2, &vote), HASP_EPROTO);
    assert_int_equal(replica_term(lone.replica), term);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    done(&lone);
}

/* By the term of the last entry, then by its index: by the core of a voter, and
 * by the replacement for it on a node that lends its vote. */
static void who_votes_compares_the_logs(void **state)
{
    static const struct {
        uint64_t last_term, last_index;
        bool is_granted;
    } cases[] = {{1, 99, false}, {2, 2, false}, {2, 3, true},
                 {2, 4, true},   {3, 1, true},  {3, 3, true}};
    (void)state;
    for (int role = MEMBER_VOTER; role <= MEMBER_STANDBY; role++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct lone lone = {0};
            struct replica_members members;
            struct message vote = {.kind = MESSAGE_VOTE, .term = 6};
            make_members(&members, 3, 0);
            members.member[0].role = (enum member_role)role; /* This replica. */
            add_entry(&lone, 1, &members);
            add_entry(&lone, 2, NULL);
            add_entry(&lone, 2, NULL);
            begin(&lone, 4, 0);
            vote.vote.candidate = 2;
            vote.vote.last_index = cases[i].last_index;
            vote.vote.last_term = cases[i].last_term;
            for (int is_real = 0; is_real <= 1; is_real++) {
                vote.vote.is_pre_vote = !is_real;
                assert_int_equal(receive(&lone, 2, &vote), 0);
                save_vote(&lone);
                if (sent(&lone, 0).vote_result.is_granted !=
                    cases[i].is_granted) {
                    fail_msg("role %d, case %u", role, (unsigned)i);
                }
            }
            assert_int_equal(replica_voted_for(lone.replica),
                             cases[i].is_granted ? 2 : 0);
            done(&lone);
        }
    }
}

/* T15 */
static void a_refused_pre_vote_tells_the_later_term(void **state)
{
    struct lone lone;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 2};
    struct message refusal = {.kind = MESSAGE_VOTE_RESULT, .term = 9};
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(append(&lone, 8, 1, 0, 1), 0);
    vote.vote.candidate = 3;
    vote.vote.last_index = 5;
    vote.vote.last_term = 1;
    vote.vote.is_pre_vote = true;
    assert_int_equal(receive(&lone, 3, &vote), 0);
    assert_false(sent(&lone, 0).vote_result.is_granted);
    assert_true(sent(&lone, 0).vote_result.is_pre_vote);
    assert_int_equal(sent(&lone, 0).term, 8);
    /* And a node that hears it continues from there. */
    replica_free(lone.replica);
    begin(&lone, 1, 0);
    tick(&lone);
    assert_true(sent(&lone, 0).vote.is_pre_vote);
    assert_int_equal(sent(&lone, 0).term, 2);
    refusal.vote_result.is_pre_vote = true;
    assert_int_equal(receive(&lone, 3, &refusal), 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(replica_term(lone.replica), 9);
    tick(&lone);
    assert_true(sent(&lone, 0).vote.is_pre_vote);
    assert_int_equal(sent(&lone, 0).term, 10);
    done(&lone);
}

static void hurrying_moves_only_the_own_leaders_election(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    uint64_t at_first = replica_deadline(lone.replica);
    replica_hurry(lone.replica, 2, lone.now_ms);
    assert_int_equal(replica_deadline(lone.replica), at_first);
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    replica_hurry(lone.replica, 3, lone.now_ms);
    replica_hurry(lone.replica, 0, lone.now_ms);
    assert_true(replica_deadline(lone.replica) >= lone.now_ms + 300);
    replica_hurry(lone.replica, 2, lone.now_ms);
    assert_true(replica_deadline(lone.replica) < lone.now_ms + 50);
    tick(&lone);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    done(&lone);
}

/* --- Snapshots ------------------------------------------------------------ */

/* T9 */
static void an_append_below_the_trimmed_log_is_acknowledged(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    for (uint32_t i = 0; i < 39; i++) {
        add_entry(&lone, 2, NULL);
    }
    assert_int_equal(append(&lone, 2, 1, 39, 40), 0);
    persist(&lone, 2, 40);
    take_snapshot(&lone, 38);
    assert_int_equal(replica_log_size(lone.replica),
                     lone.entries[38].body.size + lone.entries[39].body.size);
    uint64_t prevs[] = {0, 1, 10, 22, 23};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(append(&lone, 2, prevs[i], 5, 40), 0);
        assert_int_equal(lone.update.entry_count, 0);
        assert_int_equal(sent(&lone, 0).append_result.rejected_index, 0);
        assert_true(sent(&lone, 0).append_result.last_index >= 28 ||
                    prevs[i] == 23);
        assert_int_equal(replica_last_index(lone.replica), 40);
    }
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 5, 36, 41), 0);
    assert_int_equal(lone.update.entry_count, 1);
    assert_int_equal(lone.update.entries[0].log_index, 41);
    done(&lone);
}

/* T9, the leader's side */
static void a_rejection_of_what_was_acknowledged_is_late(void **state)
{
    struct lone lone;
    struct message late = {.kind = MESSAGE_APPEND_RESULT};
    (void)state;
    found(&lone, 3, 0);
    uint64_t own = serve(&lone);
    for (int i = 0; i < 20; i++) { /* Silence: from pipeline to probe. */
        lone.now_ms += 49;
        accept_up_to(&lone, 3, own);
        tick(&lone);
    }
    late.term = replica_term(lone.replica);
    late.append_result.rejected_index = own;
    late.append_result.last_index = 0;
    assert_int_equal(receive(&lone, 2, &late), 0);
    assert_int_equal(replica_match(lone.replica, 2), own);
    uint64_t next = submit(&lone);
    lone.now_ms += 50;
    tick(&lone);
    bool is_sent = false;
    for (uint32_t i = 0; i < lone.update.message_count; i++) {
        struct message message = sent(&lone, i);
        if (lone.update.messages[i].to == 2 && message.append.count == 1) {
            is_sent = message.append.prev_index == next - 1;
        }
    }
    assert_true(is_sent);
    done(&lone);
}

/* The index before the first entry that member 2 is sent next. */
static uint64_t sent_from(struct lone *lone)
{
    for (int i = 0; i < 10; i++) {
        for (uint32_t j = 0; j < lone->update.message_count; j++) {
            struct message message = sent(lone, j);
            if (lone->update.messages[j].to == 2 &&
                message.kind == MESSAGE_APPEND) {
                return message.append.prev_index;
            }
        }
        lone->now_ms += 50;
        tick(lone);
    }
    fail_msg("nothing is sent to member 2");
    return 0;
}

/* Whatever a rejection says about the end of the log: what was acknowledged is
 * there, and the rejected entry is not. */
static void a_rejection_leads_back_between_both_bounds(void **state)
{
    static const uint64_t ends[] = {0, 1, 5, 1000000};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct lone lone;
        struct message rejection = {.kind = MESSAGE_APPEND_RESULT};
        found(&lone, 3, 0);
        uint64_t own = serve(&lone);
        uint64_t last = own;
        for (int j = 0; j < 4; j++) {
            last = submit(&lone);
            persist(&lone, replica_term(lone.replica), last);
        }
        rejection.term = replica_term(lone.replica);
        rejection.append_result.rejected_index = own + 2;
        rejection.append_result.last_index = ends[i];
        assert_int_equal(receive(&lone, 2, &rejection), 0);
        assert_int_equal(replica_match(lone.replica, 2), own);
        uint64_t from = sent_from(&lone);
        assert_in_range(from, own, own + 1);
        done(&lone);
    }
}

static void a_snapshot_is_installed_only_if_it_is_news(void **state)
{
    struct lone lone;
    struct replica_members members;
    struct buffer encoded = {0};
    uint64_t members_index;
    (void)state;
    found(&lone, 3, 0);
    make_members(&members, 3, 1);
    replica_members_encode(&members, &encoded);
    struct bytes body = buffer_bytes(&encoded);
    uint64_t now_ms = lone.now_ms;
    add_entry(&lone, 2, NULL);
    assert_int_equal(append(&lone, 2, 1, 1, 1), 0);
    struct replica *r = lone.replica;
    struct replica_update *u = &lone.update;
    assert_false(replica_install(r, 2, 1, 9, 1, body, 5, now_ms, u));
    assert_int_equal(sent(&lone, 0).term, 2); /* Its term is stale. */
    assert_false(replica_install(r, 3, 2, 9, 2, body, 5, now_ms, u));
    assert_false(replica_install(r, 2, 2, 9, 3, body, 5, now_ms, u));
    assert_false(replica_install(r, 2, 2, 9, 2, body, 10, now_ms, u));
    assert_false(replica_install(r, 2, 2, 2, 2, body, 1, now_ms, u));
    body.size--;
    assert_false(replica_install(r, 2, 2, 9, 2, body, 5, now_ms, u));
    body.size++;
    assert_true(replica_install(r, 2, 2, 9, 2, body, 5, now_ms, u));
    assert_false(replica_install(r, 2, 2, 12, 2, body, 5, now_ms, u));
    assert_int_equal(replica_appliable(r), 0);
    persist(&lone, 2, 2); /* Of the old log: it has no meaning now. */
    assert_int_equal(replica_snapshot_taken(r, 1, now_ms, u), 0);
    replica_installed(r, now_ms, u);
    assert_true(u->committed && u->members_changed);
    assert_int_equal(replica_appliable(r), 9);
    assert_int_equal(replica_last_index(r), 9);
    assert_int_equal(sent(&lone, 0).append_result.last_index, 9);
    buffer_clear(&encoded);
    replica_members_at(r, 9, &encoded, &members_index);
    assert_int_equal(members_index, 5);
    assert_false(
        replica_install(r, 2, 2, 9, 2, buffer_bytes(&encoded), 5, now_ms, u));
    buffer_done(&encoded);
    done(&lone);
}

/* Entries of the log that the snapshot replaces were being written. */
static void a_completion_from_before_a_snapshot_is_dropped(void **state)
{
    struct lone lone;
    struct replica_members members;
    struct buffer encoded = {0};
    (void)state;
    found(&lone, 3, 0);
    make_members(&members, 3, 0);
    replica_members_encode(&members, &encoded);
    for (uint32_t i = 0; i < 11; i++) {
        add_entry(&lone, 2, NULL);
    }
    assert_int_equal(append(&lone, 2, 1, 11, 1), 0);
    assert_true(replica_install(lone.replica, 2, 3, 9, 3,
                                buffer_bytes(&encoded), 1, lone.now_ms,
                                &lone.update));
    replica_installed(lone.replica, lone.now_ms, &lone.update);
    persist(&lone, 2, 12);
    assert_int_equal(replica_appliable(lone.replica), 9);
    assert_int_equal(replica_last_index(lone.replica), 9);
    buffer_done(&encoded);
    done(&lone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_durable_here_may_be_applied),
        cmocka_unit_test(a_completion_of_a_replaced_write_is_dropped),
        cmocka_unit_test(the_same_entry_written_twice_needs_the_second_write),
        cmocka_unit_test(the_commit_index_never_goes_back),
        cmocka_unit_test(a_configuration_inside_a_batch_is_committed),
        cmocka_unit_test(
            a_configuration_that_another_follows_is_not_rolled_back),
        cmocka_unit_test(a_change_needs_a_committed_entry_of_the_own_term),
        cmocka_unit_test(a_change_waits_for_the_member_promoted_last),
        cmocka_unit_test(a_group_of_the_largest_size_can_be_changed),
        cmocka_unit_test(the_last_two_voters_stay),
        cmocka_unit_test(a_member_gets_another_address_and_nothing_else),
        cmocka_unit_test(a_demoted_spare_does_not_keep_the_timer_busy),
        cmocka_unit_test(a_single_voter_starts_each_life_in_a_new_term),
        cmocka_unit_test(a_single_voter_that_stepped_down_leads_in_a_new_term),
        cmocka_unit_test(a_standby_votes_for_who_has_promoted_it),
        cmocka_unit_test(a_vote_lent_in_a_known_term_is_saved),
        cmocka_unit_test(no_vote_is_lent_in_a_former_term),
        cmocka_unit_test(no_vote_is_lent_during_an_installation),
        cmocka_unit_test(a_log_from_the_future_is_hostile),
        cmocka_unit_test(a_vote_that_nobody_asked_for_is_hostile),
        cmocka_unit_test(a_rejection_leads_back_between_both_bounds),
        cmocka_unit_test(who_votes_compares_the_logs),
        cmocka_unit_test(a_refused_pre_vote_tells_the_later_term),
        cmocka_unit_test(hurrying_moves_only_the_own_leaders_election),
        cmocka_unit_test(an_append_below_the_trimmed_log_is_acknowledged),
        cmocka_unit_test(a_rejection_of_what_was_acknowledged_is_late),
        cmocka_unit_test(a_snapshot_is_installed_only_if_it_is_news),
        cmocka_unit_test(a_completion_from_before_a_snapshot_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
