/* SPDX-License-Identifier: MIT */

/* When a replica stands for election: each wait that raft/election_timing.h
 * promises, to the millisecond. The total time of elections is in
 * test_replica.c. */

#include "base/minmax.h"
#include "tests/unit/replica_lone.h"

#define ELECTION_MS 300 /* As replica_lone.c has them. */
#define BEAT_MS 50
#define FLUSH_TOLD_MAX_MS 4000

/* Longer than the core's own wait, so that only the pledge is visible. */
#define SLOW_MS 700

static uint64_t wait_ms(const struct lone *lone)
{
    uint64_t deadline_ms = replica_deadline(lone->replica);
    return deadline_ms > lone->now_ms ? deadline_ms - lone->now_ms : 0;
}

/* A request for a vote, or an announcement; its log is as good as ours. */
static struct message vote_of(uint64_t from, uint64_t term, uint32_t flush_ms)
{
    struct message message = {.kind = MESSAGE_VOTE, .term = term};
    message.vote.candidate = from;
    message.vote.last_index = message.vote.last_term = 1;
    message.vote.flush_ms = flush_ms;
    return message;
}

static void announce(struct lone *lone, uint64_t from, uint32_t flush_ms)
{
    struct message message = vote_of(from, 2, flush_ms);
    message.vote.is_standing = true;
    assert_int_equal(receive(lone, from, &message), 0);
    assert_int_equal(lone->update.message_count, 0);
}

static bool grants_pre_vote(struct lone *lone, uint64_t from)
{
    uint64_t term = replica_term(lone->replica) + 1;
    struct message message = vote_of(from, term, 0);
    message.vote.is_pre_vote = true;
    assert_int_equal(receive(lone, from, &message), 0);
    assert_int_equal(lone->update.message_count, 1);
    return sent(lone, 0).vote_result.is_granted;
}

static void answer_pre_vote(struct lone *lone, uint64_t from, bool is_granted,
                            uint32_t flush_ms)
{
    struct message message = {.kind = MESSAGE_VOTE_RESULT};
    message.term = replica_term(lone->replica) + (is_granted ? 1 : 0);
    message.vote_result.is_granted = is_granted;
    message.vote_result.is_pre_vote = true;
    message.vote_result.flush_ms = flush_ms;
    assert_int_equal(receive(lone, from, &message), 0);
}

static void note_flush(struct lone *lone, uint64_t flush_ms)
{
    replica_persisted(lone->replica, 1, 1, flush_ms, lone->now_ms,
                      &lone->update);
}

static void vote_saved(struct lone *lone, uint64_t flush_ms)
{
    lone->now_ms += flush_ms;
    replica_vote_saved(lone->replica, replica_term(lone->replica),
                       replica_voted_for(lone->replica), flush_ms, lone->now_ms,
                       &lone->update);
}

/* The durations of flushes that this replica reports to others. */
static uint32_t told_flush_ms(struct lone *lone)
{
    (void)grants_pre_vote(lone, 3);
    return sent(lone, 0).vote_result.flush_ms;
}

/* Follows leader 2; then the connection to it closes. */
static void lose_leader(struct lone *lone)
{
    assert_int_equal(append(lone, 2, 1, 0, 1), 0);
    lone->now_ms += 7;
    replica_hurry(lone->replica, 2, lone->now_ms);
}

/* --- After granting a vote ------------------------------------------------ */

static void who_has_granted_holds_still_for_the_slower_flush(void **state)
{
    static const struct {
        uint32_t asker_ms, own_ms;
    } cases[] = {{SLOW_MS, 0}, {SLOW_MS, 40}, {30, SLOW_MS}, {10, 10}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lone lone;
        found(&lone, 3, 0);
        lone.saves_no_vote = true;
        lose_leader(&lone);
        note_flush(&lone, cases[i].own_ms);
        struct message vote = vote_of(2, 3, cases[i].asker_ms);
        uint64_t granted_ms = lone.now_ms;
        assert_int_equal(receive(&lone, 2, &vote), 0);
        assert_true(lone.update.save_vote);
        /* Not while the vote is being saved, */
        assert_int_equal(wait_ms(&lone), BEAT_MS);
        lone.now_ms += 9;
        replica_tick(lone.replica, lone.now_ms, &lone.update);
        assert_int_equal(wait_ms(&lone), BEAT_MS);
        vote_saved(&lone, cases[i].own_ms);
        /* nor before the new leader should have been heard. */
        uint64_t until_ms = granted_ms + 2 * BEAT_MS +
                            2 * u64_max(cases[i].asker_ms, cases[i].own_ms);
        until_ms = u64_max(until_ms, lone.now_ms + 2 * BEAT_MS);
        if (until_ms > granted_ms + 4 * BEAT_MS) {
            assert_int_equal(replica_deadline(lone.replica), until_ms);
        } else {
            /* The core's wait, which was shortened, comes later. */
            assert_in_range(replica_deadline(lone.replica), until_ms,
                            granted_ms + 4 * BEAT_MS);
        }
        done(&lone);
    }
}

static void a_vote_that_took_long_to_save_counts_from_its_end(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lone.saves_no_vote = true;
    lose_leader(&lone);
    struct message vote = vote_of(2, 3, 0);
    assert_int_equal(receive(&lone, 2, &vote), 0);
    vote_saved(&lone, 5 * BEAT_MS);
    assert_int_equal(wait_ms(&lone), 2 * BEAT_MS);
    done(&lone);
}

/* A term that another node begins is saved as well, without waiting for a
 * node. */
static void a_term_without_a_vote_holds_nobody(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lone.saves_no_vote = true;
    lose_leader(&lone);
    struct message vote = vote_of(2, 3, 0);
    vote.vote.last_index = 0; /* It knows less. */
    vote.vote.last_term = 0;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_true(lone.update.save_vote);
    assert_int_equal(replica_voted_for(lone.replica), 0);
    vote_saved(&lone, 5 * BEAT_MS);
    assert_int_equal(wait_ms(&lone), 0);
    done(&lone);
}

/* The vote was given, and is being saved: no wait for a candidate that has died
 * since, or leads already. */
static void what_a_saved_vote_was_for_may_be_over(void **state)
{
    (void)state;
    for (int leads = 0; leads < 2; leads++) {
        struct lone lone;
        found(&lone, 3, 0);
        lone.saves_no_vote = true;
        lose_leader(&lone);
        struct message vote = vote_of(2, 3, 0);
        assert_int_equal(receive(&lone, 2, &vote), 0);
        if (leads) {
            assert_int_equal(append(&lone, 3, 1, 0, 1), 0);
            vote_saved(&lone, 5 * BEAT_MS);
            assert_int_equal(wait_ms(&lone), ELECTION_MS + 1 - 5 * BEAT_MS);
        } else {
            replica_hurry(lone.replica, 2, lone.now_ms);
            vote_saved(&lone, 5 * BEAT_MS);
            assert_int_equal(wait_ms(&lone), 0);
        }
        done(&lone);
    }
}

/* --- Pledges -------------------------------------------------------------- */

static void who_hears_that_one_stands_holds_still(void **state)
{
    (void)state;
    for (uint32_t flush_ms = FLUSH_TOLD_MAX_MS; flush_ms > 0; flush_ms /= 7) {
        struct lone lone;
        found(&lone, 3, 0);
        lose_leader(&lone);
        announce(&lone, 2, flush_ms);
        assert_int_equal(wait_ms(&lone), 2 * flush_ms + 2 * BEAT_MS);
        /* Another one's announcement neither prolongs nor ends it: */
        announce(&lone, 3, flush_ms + 1);
        assert_int_equal(wait_ms(&lone), 2 * flush_ms + 2 * BEAT_MS);
        /* nor does a shorter one of the same; a longer one does. */
        announce(&lone, 2, flush_ms / 2);
        assert_int_equal(wait_ms(&lone), 2 * flush_ms + 2 * BEAT_MS);
        /* Until then no other node gets a pre-vote; from then on it does. */
        lone.now_ms = replica_deadline(lone.replica) - 1;
        assert_false(grants_pre_vote(&lone, 3));
        assert_true(grants_pre_vote(&lone, 2));
        lone.now_ms += BEAT_MS;
        assert_true(grants_pre_vote(&lone, 3));
        done(&lone);
    }
}

static void a_pledge_is_over_at_its_time(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    announce(&lone, 2, 10);
    lone.now_ms += 20 + 2 * BEAT_MS - 1;
    assert_false(grants_pre_vote(&lone, 3));
    lone.now_ms++;
    assert_true(grants_pre_vote(&lone, 3));
    done(&lone);
}

static void the_slowest_are_not_waited_for(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    uint64_t before_ms = wait_ms(&lone);
    announce(&lone, 2, FLUSH_TOLD_MAX_MS + 1);
    assert_int_equal(wait_ms(&lone), before_ms);
    assert_true(grants_pre_vote(&lone, 3));
    done(&lone);
}

static void who_hears_a_leader_pledges_nothing(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    announce(&lone, 3, SLOW_MS);
    assert_int_equal(wait_ms(&lone), ELECTION_MS + 1);
    done(&lone);
}

static void a_pledge_ends_with_its_connection_or_a_leader(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lone lone;
        found(&lone, 3, 0);
        lose_leader(&lone);
        announce(&lone, 3, SLOW_MS);
        uint64_t until_ms = replica_deadline(lone.replica);
        if (i == 0) {
            replica_hurry(lone.replica, 3, lone.now_ms);
            assert_in_range(wait_ms(&lone), 0, 4 * BEAT_MS);
            assert_true(grants_pre_vote(&lone, 2));
        } else if (i == 1) {
            replica_hurry(lone.replica, 2, lone.now_ms); /* Of another one. */
            assert_int_equal(replica_deadline(lone.replica), until_ms);
            assert_false(grants_pre_vote(&lone, 2));
        } else {
            assert_int_equal(append(&lone, 3, 1, 0, 1), 0);
            assert_int_equal(wait_ms(&lone), ELECTION_MS + 1);
        }
        done(&lone);
    }
}

/* A granted pre-vote is a pledge for one heartbeat, once. */
static void a_pre_vote_is_a_pledge_once(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    assert_int_equal(wait_ms(&lone), 1);
    assert_true(grants_pre_vote(&lone, 2));
    assert_int_equal(wait_ms(&lone), BEAT_MS);
    lone.now_ms += BEAT_MS - 1;
    assert_false(grants_pre_vote(&lone, 3));
    assert_true(grants_pre_vote(&lone, 2)); /* Again, without a pledge. */
    assert_int_equal(wait_ms(&lone), 1);
    lone.now_ms++;
    assert_true(grants_pre_vote(&lone, 3));
    assert_int_equal(wait_ms(&lone), 0);
    /* After its own attempt it pledges again, */
    tick(&lone);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    answer_pre_vote(&lone, 2, false, 0);
    assert_true(grants_pre_vote(&lone, 2));
    assert_int_equal(wait_ms(&lone), BEAT_MS);
    /* and after a leader, */
    lose_leader(&lone);
    assert_true(grants_pre_vote(&lone, 3));
    assert_int_equal(wait_ms(&lone), BEAT_MS);
    /* even one whose silence has not been noticed yet. */
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    lone.now_ms += ELECTION_MS;
    assert_true(grants_pre_vote(&lone, 3));
    assert_int_equal(wait_ms(&lone), BEAT_MS);
    done(&lone);
}

/* There was no leader yet, and one more connection has closed: it is another
 * election. */
static void before_the_first_leader_each_end_allows_a_pledge(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_true(grants_pre_vote(&lone, 2));
    lone.now_ms += 2 * BEAT_MS;
    replica_hurry(lone.replica, 0, lone.now_ms);
    assert_in_range(wait_ms(&lone), 0, BEAT_MS - 1);
    assert_true(grants_pre_vote(&lone, 3));
    assert_int_equal(wait_ms(&lone), BEAT_MS);
    done(&lone);
}

/* --- Candidates ----------------------------------------------------------- */

static void who_asks_for_pre_votes_refuses_others_for_half_a_beat(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    tick(&lone);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    lone.now_ms += BEAT_MS / 2 - 1;
    assert_false(grants_pre_vote(&lone, 3));
    lone.now_ms++;
    assert_true(grants_pre_vote(&lone, 3));
    done(&lone);
}

static void a_refusal_ends_the_candidates_own_pledge(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    tick(&lone);
    assert_false(grants_pre_vote(&lone, 3));
    answer_pre_vote(&lone, 2, false, 0);
    assert_true(grants_pre_vote(&lone, 3));
    done(&lone);
}

/* The candidate waits for its own flush, then for that of the slowest voter
 * that it may need, and two to four heartbeats for the messages. */
static void a_candidate_waits_for_the_slowest_voter(void **state)
{
    static const struct {
        uint32_t own_ms, other_ms, counts_ms;
    } cases[] = {{0, SLOW_MS, SLOW_MS},
                 {30, FLUSH_TOLD_MAX_MS, FLUSH_TOLD_MAX_MS},
                 {SLOW_MS, FLUSH_TOLD_MAX_MS + 1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lone lone;
        found(&lone, 5, 0);
        note_flush(&lone, cases[i].own_ms);
        lone.flush_ms = cases[i].own_ms;
        lose_leader(&lone);
        tick(&lone);
        lone.saves_no_vote = true;
        answer_pre_vote(&lone, 2, false, 0);
        answer_pre_vote(&lone, 3, true, cases[i].other_ms);
        assert_false(lone.update.save_vote);
        answer_pre_vote(&lone, 4, true, 1); /* Makes the majority. */
        assert_true(lone.update.save_vote);
        uint64_t flush_ms = u64_max(cases[i].own_ms,
                                    u64_max(cases[i].counts_ms, 1));
        /* All other voters learn of its candidacy and its flush time. */
        assert_int_equal(lone.update.message_count, 4);
        for (uint32_t j = 0; j < 4; j++) {
            assert_true(sent(&lone, j).vote.is_standing);
            assert_int_equal(sent(&lone, j).vote.candidate, 1);
            assert_int_equal(sent(&lone, j).vote.flush_ms, flush_ms);
            assert_int_equal(lone.update.messages[j].to, j + 2);
        }
        assert_int_equal(wait_ms(&lone), BEAT_MS);
        uint64_t stood_ms = lone.now_ms;
        vote_saved(&lone, cases[i].own_ms);
        /* Then no other node gets a pre-vote, although one voter had
         * refused. */
        assert_false(grants_pre_vote(&lone, 5));
        uint64_t least_ms = u64_max(stood_ms + 2 * flush_ms,
                                    lone.now_ms + 2 * cases[i].counts_ms) +
                            2 * BEAT_MS;
        assert_in_range(replica_deadline(lone.replica), least_ms,
                        least_ms + 2 * BEAT_MS - 1);
        done(&lone);
    }
}

/* Two simultaneous candidates do not collide again: part of the wait is
 * drawn. */
static void candidates_part_by_chance(void **state)
{
    uint64_t least_ms = UINT64_MAX, most_ms = 0;
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    for (int i = 0; i < 16; i++) {
        tick(&lone);
        assert_true(sent(&lone, 0).vote.is_pre_vote);
        answer_pre_vote(&lone, 3, true, SLOW_MS);
        assert_false(sent(&lone, 0).vote.is_pre_vote);
        least_ms = u64_min(least_ms, wait_ms(&lone));
        most_ms = u64_max(most_ms, wait_ms(&lone));
    }
    assert_in_range(least_ms, 2 * SLOW_MS + 2 * BEAT_MS,
                    2 * SLOW_MS + 2 * BEAT_MS + BEAT_MS / 2);
    assert_in_range(most_ms, 2 * SLOW_MS + 3 * BEAT_MS + BEAT_MS / 2,
                    2 * SLOW_MS + 4 * BEAT_MS - 1);
    done(&lone);
}

/* T16: a replica that was told to stand for election, and is not elected, asks
 * like any other. */
static void who_was_told_to_stand_is_told_once(void **state)
{
    struct message order = {.kind = MESSAGE_TIMEOUT_NOW, .term = 2};
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    order.timeout_now.last_index = order.timeout_now.last_term = 1;
    assert_int_equal(receive(&lone, 2, &order), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    assert_true(sent(&lone, 0).vote.is_disrupting);
    assert_false(sent(&lone, 0).vote.is_pre_vote);
    tick(&lone);
    assert_false(sent(&lone, 0).vote.is_disrupting);
    assert_true(sent(&lone, 0).vote.is_pre_vote);
    done(&lone);
}

/* A deposed leader waits like any follower, whatever its wait as a
 * candidate. */
static void who_has_led_waits_for_nobody(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    tick(&lone);
    answer_pre_vote(&lone, 3, true, SLOW_MS);
    struct message granted = {.kind = MESSAGE_VOTE_RESULT};
    granted.term = replica_term(lone.replica);
    granted.vote_result.is_granted = true;
    assert_int_equal(receive(&lone, 3, &granted), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    struct message vote = vote_of(2, 9, 0);
    vote.vote.last_index = vote.vote.last_term = 0;
    vote.vote.is_disrupting = true;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_FOLLOWER);
    assert_in_range(wait_ms(&lone), ELECTION_MS, 2 * ELECTION_MS);
    done(&lone);
}

/* The durations of voters in one election do not count for the next. */
static void the_next_attempt_forgets_what_others_took(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 5, 0);
    lose_leader(&lone);
    tick(&lone);
    assert_int_equal(sent(&lone, 0).vote.flush_ms, 0);
    answer_pre_vote(&lone, 3, true, SLOW_MS);
    tick(&lone);
    assert_true(sent(&lone, 0).vote.is_pre_vote);
    assert_int_equal(sent(&lone, 0).vote.flush_ms, 0);
    done(&lone);
}

/* A slower flush counts at once, a faster one by an eighth of the difference.
 */
static void the_time_of_flushes_is_told(void **state)
{
    static const struct {
        uint32_t took_ms, told_ms;
    } cases[] = {{80, 80}, {80, 80}, {0, 70},  {70, 70}, {69, 69},
                 {90, 90}, {82, 89}, {81, 88}, {0, 77},  {77, 77}};
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(told_flush_ms(&lone), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        note_flush(&lone, cases[i].took_ms);
        assert_int_equal(told_flush_ms(&lone), cases[i].told_ms);
    }
    done(&lone);
}

/* --- Hurry ---------------------------------------------------------------- */

/* After a leader's end each wait is short for the time of 16 elections, then as
 * long as Raft's. */
static void later_attempts_are_hurried_for_a_while(void **state)
{
    struct lone lone;
    uint32_t count = 0;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    uint64_t end_ms = lone.now_ms + 16 * ELECTION_MS;
    assert_int_equal(wait_ms(&lone), 1);
    end_ms += wait_ms(&lone); /* It was a candidate once: from then. */
    for (tick(&lone); lone.now_ms < end_ms; tick(&lone)) {
        assert_in_range(wait_ms(&lone), BEAT_MS / 2,
                        BEAT_MS / 2 + 2 * BEAT_MS - 1);
        /* Messages heard in between shorten nothing a second time. */
        uint64_t until_ms = replica_deadline(lone.replica);
        answer_pre_vote(&lone, 2, false, 0);
        replica_tick(lone.replica, lone.now_ms, &lone.update);
        assert_int_equal(replica_deadline(lone.replica), until_ms);
        count++;
    }
    assert_in_range(count, 16 * ELECTION_MS / (3 * BEAT_MS),
                    16 * ELECTION_MS / (BEAT_MS / 2));
    for (int i = 0; i < 5; i++) {
        assert_in_range(wait_ms(&lone), ELECTION_MS, 2 * ELECTION_MS);
        tick(&lone);
    }
    done(&lone);
}

static void the_hurry_ends_at_its_time(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct lone lone;
        found(&lone, 3, 0);
        lose_leader(&lone);
        tick(&lone);
        lone.now_ms += 16 * ELECTION_MS - 1 + (uint64_t)late;
        tick(&lone);
        assert_true((wait_ms(&lone) < ELECTION_MS) == !late);
        done(&lone);
    }
}

/* A candidate that got no vote follows again, and waits long enough for another
 * to be elected. */
static void a_follower_is_hurried_less_than_a_candidate(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    lose_leader(&lone);
    tick(&lone);
    struct message vote = vote_of(2, 9, 0);
    vote.vote.last_index = vote.vote.last_term = 0;
    assert_int_equal(receive(&lone, 2, &vote), 0);
    assert_int_equal(replica_role(lone.replica), REPLICA_FOLLOWER);
    assert_in_range(wait_ms(&lone), 2 * BEAT_MS, 4 * BEAT_MS - 1);
    done(&lone);
}

/* The first attempt after a start takes its full time; later ones do not. */
static void the_first_attempt_is_not_hurried(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_in_range(wait_ms(&lone), ELECTION_MS, 2 * ELECTION_MS);
    tick(&lone);
    assert_in_range(wait_ms(&lone), BEAT_MS / 2, BEAT_MS / 2 + 2 * BEAT_MS - 1);
    done(&lone);
}

/* A leader is given up when it has been silent for an election's time, not a
 * millisecond earlier. */
static void a_silent_leader_is_given_up_at_its_time(void **state)
{
    struct lone lone;
    (void)state;
    found(&lone, 3, 0);
    assert_int_equal(append(&lone, 2, 1, 0, 1), 0);
    uint64_t heard_ms = lone.now_ms;
    lone.now_ms = heard_ms + ELECTION_MS;
    replica_tick(lone.replica, lone.now_ms, &lone.update);
    assert_int_equal(replica_leader(lone.replica), 2);
    assert_int_equal(lone.update.message_count, 0);
    assert_int_equal(wait_ms(&lone), 1);
    tick(&lone);
    assert_int_equal(lone.now_ms, heard_ms + ELECTION_MS + 1);
    assert_int_equal(replica_role(lone.replica), REPLICA_CANDIDATE);
    assert_true(sent(&lone, 0).vote.is_pre_vote);
    done(&lone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_granted_holds_still_for_the_slower_flush),
        cmocka_unit_test(a_vote_that_took_long_to_save_counts_from_its_end),
        cmocka_unit_test(a_term_without_a_vote_holds_nobody),
        cmocka_unit_test(what_a_saved_vote_was_for_may_be_over),
        cmocka_unit_test(who_hears_that_one_stands_holds_still),
        cmocka_unit_test(a_pledge_is_over_at_its_time),
        cmocka_unit_test(the_slowest_are_not_waited_for),
        cmocka_unit_test(who_hears_a_leader_pledges_nothing),
        cmocka_unit_test(a_pledge_ends_with_its_connection_or_a_leader),
        cmocka_unit_test(a_pre_vote_is_a_pledge_once),
        cmocka_unit_test(before_the_first_leader_each_end_allows_a_pledge),
        cmocka_unit_test(who_asks_for_pre_votes_refuses_others_for_half_a_beat),
        cmocka_unit_test(a_refusal_ends_the_candidates_own_pledge),
        cmocka_unit_test(a_candidate_waits_for_the_slowest_voter),
        cmocka_unit_test(candidates_part_by_chance),
        cmocka_unit_test(who_was_told_to_stand_is_told_once),
        cmocka_unit_test(who_has_led_waits_for_nobody),
        cmocka_unit_test(the_next_attempt_forgets_what_others_took),
        cmocka_unit_test(the_time_of_flushes_is_told),
        cmocka_unit_test(later_attempts_are_hurried_for_a_while),
        cmocka_unit_test(the_hurry_ends_at_its_time),
        cmocka_unit_test(a_follower_is_hurried_less_than_a_candidate),
        cmocka_unit_test(the_first_attempt_is_not_hurried),
        cmocka_unit_test(a_silent_leader_is_given_up_at_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
