/* SPDX-License-Identifier: MIT */

/* Raft's server is the data directory: messages of a member's former directory
 * count for nothing, and a new one is not mistaken for the former one. */

#include "tests/unit/replica_lone.h"

/* Another directory of member 'id'. */
#define FORMER(id) (900 + (uint64_t)(id))

static void answer_vote(struct lone *lone, uint64_t incarnation, bool is_pre)
{
    struct message vote = {.kind = MESSAGE_VOTE_RESULT,
                           .term = replica_term(lone->replica) + is_pre};
    vote.vote_result.is_granted = true;
    vote.vote_result.is_pre_vote = is_pre;
    assert_int_equal(receive_from(lone, 2, incarnation, &vote), 0);
}

static void a_former_directorys_vote_elects_nobody(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    tick(&lone);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    uint64_t term = replica_term(lone.replica);
    answer_vote(&lone, FORMER(2), true);
    assert_int_equal(replica_term(lone.replica), term); /* No pre-vote won. */
    answer_vote(&lone, DIRECTORY(2), true);
    assert_int_equal(replica_term(lone.replica), term + 1);
    answer_vote(&lone, FORMER(2), false);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    answer_vote(&lone, DIRECTORY(2), false);
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    done(&lone);
}

static void a_former_directorys_acknowledgement_commits_nothing(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    uint64_t entry = submit(&lone);
    persist(&lone, replica_term(lone.replica), entry);
    struct message result = {.kind = MESSAGE_APPEND_RESULT,
                             .term = replica_term(lone.replica)};
    result.append_result.last_index = entry;
    assert_int_equal(receive_from(&lone, 2, FORMER(2), &result), 0);
    assert_int_equal(replica_commit_index(lone.replica), entry - 1);
    assert_true(replica_match(lone.replica, 2) < entry);
    assert_int_equal(receive_from(&lone, 2, DIRECTORY(2), &result), 0);
    assert_int_equal(replica_commit_index(lone.replica), entry);
    done(&lone);
}

static void a_former_directory_confirms_no_leader(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    uint64_t number = replica_ask(lone.replica, lone.now_ms, &lone.update);
    struct message confirmed = {.kind = MESSAGE_CONFIRMED,
                                .term = replica_term(lone.replica),
                                .number = number};
    assert_int_equal(receive_from(&lone, 3, FORMER(3), &confirmed), 0);
    assert_true(replica_confirmed(lone.replica) < number);
    assert_int_equal(receive_from(&lone, 3, DIRECTORY(3), &confirmed), 0);
    assert_int_equal(replica_confirmed(lone.replica), number);
    done(&lone);
}

/* Replica 1 has a new directory, and its log still says: 'voters' members, of
 * which member 1 is the former one. */
static void restart_acquire(struct lone *lone, uint32_t voters)
{
    struct replica_members members;
    *lone = (struct lone){.incarnation = DIRECTORY(1)};
    make_members(&members, voters, 0);
    members.member[0].incarnation = FORMER(1);
    add_entry(lone, 1, &members);
    begin(lone, 1, 0);
}

static void expect_no_candidacy(struct lone *lone)
{
    for (int i = 0; i < 20; i++) {
        tick(lone);
        assert_int_equal(replica_role(lone->replica), REPLICA_FOLLOWER);
        assert_int_equal(replica_term(lone->replica), 1);
        assert_int_equal(lone->update.message_count, 0);
    }
}

/* Also if the former one was the only voter, so that its word alone would make
 * a leader (T2). */
static void a_new_directory_does_not_stand_for_the_former(void **state)
{
    (void)state;
    for (uint32_t voters = 1; voters <= 3; voters += 2) {
        struct lone lone;
        restart_acquire(&lone, voters);
        expect_no_candidacy(&lone);
        done(&lone);
    }
}

/* The same, as its log arrives and not from disk; then the configurations that
 * remove the former one and add this one. */
static void a_new_directory_stands_once_it_is_named(void **state)
{
    struct lone lone;
    struct replica_members members;
    (void)state;
    restart_acquire(&lone, 3);
    make_members(&members, 3, 0);
    memmove(&members.member[0], &members.member[1],
            2 * sizeof members.member[0]);
    members.count = 2;
    add_entry(&lone, 1, &members);
    assert_int_equal(append(&lone, 1, 1, 1, 1), 0);
    persist(&lone, 1, 2);
    make_members(&members, 3, 0);
    members.member[0].role = MEMBER_STANDBY;
    add_entry(&lone, 1, &members);
    assert_int_equal(append(&lone, 1, 2, 1, 2), 0);
    persist(&lone, 1, 3);
    expect_no_candidacy(&lone);
    members.member[0].role = MEMBER_VOTER;
    add_entry(&lone, 1, &members);
    assert_int_equal(append(&lone, 1, 3, 1, 3), 0);
    persist(&lone, 1, 4);
    for (int i = 0; i < 20; i++) {
        tick(&lone);
    }
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    done(&lone);
}

/* The candidate has to know whose vote counts (T14). */
static void a_new_directory_lends_its_vote(void **state)
{
    struct lone lone;
    struct message vote = {.kind = MESSAGE_VOTE, .term = 2};
    (void)state;
    restart_acquire(&lone, 3);
    vote.vote.candidate = 2;
    vote.vote.last_index = 9;
    vote.vote.last_term = 1;
    vote.vote.is_disrupting = true;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    struct message answer = sent(&lone, 0);
    assert_int_equal(answer.kind, MESSAGE_VOTE_RESULT);
    assert_true(answer.vote_result.is_granted);
    done(&lone);
}

/* The directory that counts again if the newest configuration is rolled back;
 * none once it is committed. */
static void the_configuration_before_is_known_until_the_commit(void **state)
{
    struct lone lone;
    struct replica_members members, before;
    (void)state;
    found(&lone, 3, 0);
    replica_members_before(lone.replica, &before);
    assert_int_equal(before.count, 0);
    make_members(&members, 2, 0);
    add_entry(&lone, 1, &members);
    assert_int_equal(append(&lone, 1, 1, 1, 1), 0);
    replica_members_before(lone.replica, &before);
    assert_true(replica_members_name(&before, 3, DIRECTORY(3)));
    assert_int_equal(append(&lone, 1, 2, 0, 2), 0);
    replica_members_before(lone.replica, &before);
    assert_int_equal(before.count, 0);
    done(&lone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_former_directorys_vote_elects_nobody),
        cmocka_unit_test(a_former_directorys_acknowledgement_commits_nothing),
        cmocka_unit_test(a_former_directory_confirms_no_leader),
        cmocka_unit_test(a_new_directory_does_not_stand_for_the_former),
        cmocka_unit_test(a_new_directory_stands_once_it_is_named),
        cmocka_unit_test(a_new_directory_lends_its_vote),
        cmocka_unit_test(the_configuration_before_is_known_until_the_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
