/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of sessions (lockfsm/timers, lockfsm/leases). Each
 * rule, and each listed way to get one wrong, is a test. Waits, delays and max
 * holds: test_spans.c. */

#include "base/prng.h"
#include "tests/unit/timers_world.h"

/* --- Rules 2, 4, 5 -------------------------------------------------------- */

static void a_session_expires_at_its_deadline_and_not_before(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 999);
    apply_proposed(w);
    assert_false(timers_has_due_sessions(w->timers, ns(w)));
    assert_int_equal(lease_left(w, s), 1);
    assert_string_equal(due(w, t0 + 1000), "expire 1\n");
    apply_proposed(w);
    assert_null(lockfsm_session(w->fsm, s));
    assert_string_equal(due(w, t0 + 9000), "");
    assert_int_equal(lease_left(w, s), 0);
}

static void a_heartbeat_counts_from_its_receipt(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->now_ms = t0 + 240;
    assert_true(timers_heard(w->timers, s, (t0 + 200) * MS));
    assert_int_equal(lease_left(w, s), 960);
}

static void an_older_receipt_does_not_lower_a_deadline(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    assert_true(timers_heard(w->timers, s, (t0 + 200) * MS));
    assert_true(timers_heard(w->timers, s, (t0 + 100) * MS));
    assert_int_equal(lease_left(w, s), 1200);
}

static void a_new_leader_starts_every_session_with_its_whole_ttl(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 1000, 0);
    uint64_t s2 = open_session(w, 3000, 0);
    change_leader(w, t0 + 900);
    assert_int_equal(lease_left(w, s1), 1000);
    assert_int_equal(lease_left(w, s2), 3000);
    assert_false(timers_has_due_sessions(w->timers, (t0 + 1899) * MS));
    assert_true(timers_has_due_sessions(w->timers, (t0 + 1900) * MS));
}

static void a_doomed_session_is_heard_no_more(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    assert_false(timers_is_doomed(w->timers, s));
    assert_string_equal(due(w, t0 + 1000), "expire 1\n");
    assert_true(timers_is_doomed(w->timers, s));
    assert_false(timers_heard(w->timers, s, (t0 + 1001) * MS));
    assert_int_equal(lease_left(w, s), 0);
    timers_detached(w->timers, s, (t0 + 1001) * MS);
    /* Nor is it proposed again while its EXPIRE is on the way. */
    assert_string_equal(due(w, t0 + 5000), "");
}

static void a_session_is_not_doomed_if_the_proposal_was_refused(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->is_refusing = true;
    assert_string_equal(due(w, t0 + 1000), "");
    assert_false(timers_is_doomed(w->timers, s));
    assert_true(timers_has_due_sessions(w->timers, ns(w)));
    assert_true(timers_heard(w->timers, s, (t0 + 1001) * MS));
    w->is_refusing = false;
    assert_string_equal(due(w, t0 + 1002), "");
    assert_string_equal(due(w, t0 + 2001), "expire 1\n");
}

static void a_refused_expiry_is_proposed_again(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    w->is_refusing = true;
    due(w, t0 + 1000);
    w->is_refusing = false;
    assert_string_equal(due(w, t0 + 1001), "expire 1\n");
}

static void stepping_down_drops_doom_and_deadlines(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 1000);
    assert_true(timers_is_doomed(w->timers, s));
    timers_end(w->timers);
    assert_false(timers_are_on(w->timers));
    assert_int_equal(timers_next(w->timers), UINT64_MAX);
    timers_begin(w->timers, w->fsm, ns(w));
    assert_false(timers_is_doomed(w->timers, s));
    assert_true(timers_heard(w->timers, s, ns(w)));
    assert_string_equal(due(w, t0 + 1001), "");
}

static void
a_heartbeat_between_list_and_proposal_saves_the_session(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 1000, 0);
    open_session(w, 1000, 0);
    assert_true(timers_has_due_sessions(w->timers, (t0 + 1000) * MS));
    /* Now leadership is being confirmed, and meanwhile: */
    assert_true(timers_heard(w->timers, s1, (t0 + 1005) * MS));
    assert_string_equal(due(w, t0 + 1010), "expire 2\n");
}

static void sessions_expire_in_batches(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    for (uint32_t i = 0; i < 5; i++) {
        open_session(w, 1000 + i, 0);
    }
    assert_string_equal(due_at(w, t0 + 1004, 2, 2), "expire 1 2\nexpire 3 4\n");
    assert_string_equal(due_at(w, t0 + 1004, 2, 2), "expire 5\n");
}

static void a_blacklisting_moves_no_deadline(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->now_ms = t0 + 600;
    struct blacklist_command add = {.session = s,
                                    .reason = BYTES_LITERAL("why")};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 400);
}

static void a_changed_ttl_counts_from_its_entry(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct redis_set_command value = {.name = BYTES_LITERAL("a"),
                                      .value = BYTES_LITERAL("v"),
                                      .ttl_ms = 1000,
                                      .px_ms = 800};
    encode_redis_set(&w->command, &value);
    apply_command(w);
    uint64_t s = lockfsm_token_base(w->fsm) + w->index;
    w->now_ms = t0 + 600;
    value.ttl_ms = 5000;
    encode_redis_set(&w->command, &value);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 5000);
    /* A shorter one takes nothing away that was promised. */
    value.ttl_ms = 100;
    encode_redis_set(&w->command, &value);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 5000);
}

/* --- Rule 9: AGE ---------------------------------------------------------- */

static void a_quiet_session_ages_at_each_quarter(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    assert_string_equal(due(w, t0 + 249), "");
    assert_string_equal(due(w, t0 + 250), "age 1=250\n");
    assert_string_equal(due(w, t0 + 260), "");
    assert_string_equal(due(w, t0 + 510), "age 1=510\n");
    assert_string_equal(due(w, t0 + 749), "");
    assert_string_equal(due(w, t0 + 750), "age 1=750\n");
    assert_string_equal(due(w, t0 + 999), "");
    assert_string_equal(due(w, t0 + 1000), "expire 1\n");
}

static void a_session_that_is_heard_does_not_age(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    for (uint64_t t = 200; t < 5000; t += 200) {
        assert_string_equal(due(w, t0 + t), "");
        assert_true(timers_heard(w->timers, s, ns(w)));
    }
    assert_string_equal(due(w, t0 + 4800 + 250), "age 1=250\n");
}

/* All that are quiet go into one entry. */
static void many_sessions_age_in_one_entry(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    open_session(w, 2000, 0);
    open_session(w, 1000, 0);
    assert_string_equal(due_at(w, t0 + 500, 2, 9), "age 1=500 3=500\n"
                                                   "age 2=500\n");
}

static void an_age_binds_from_its_proposal_until_age_0_is_applied(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    assert_false(timers_needs_age0(w->timers, s));
    due(w, t0 + 250);
    assert_true(timers_needs_age0(w->timers, s)); /* Not yet applied. */
    apply_proposed(w);
    assert_true(timers_needs_age0(w->timers, s));
    assert_true(timers_heard(w->timers, s, ns(w)));
    assert_true(timers_needs_age0(w->timers, s));
    log_age0(w, s);
    assert_true(timers_needs_age0(w->timers, s));
    apply_proposed(w);
    assert_false(timers_needs_age0(w->timers, s));
}

static void an_age_that_was_not_taken_does_not_bind(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->is_refusing = true;
    due(w, t0 + 250);
    assert_false(timers_needs_age0(w->timers, s));
    w->is_refusing = false;
    assert_string_equal(due(w, t0 + 251), "age 1=251\n");
}

/* AGE 250, AGE 0, AGE 250 in the log: the AGE 0 does not undo what stands
 * behind it. */
static void an_age_0_does_not_free_from_a_later_age(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 250);
    assert_true(timers_heard(w->timers, s, (t0 + 250) * MS));
    log_age0(w, s);
    assert_string_equal(due(w, t0 + 500), "age 1=250\n");
    apply(w, buffer_bytes(&w->proposed[0]));
    apply(w, buffer_bytes(&w->proposed[1]));
    assert_true(timers_needs_age0(w->timers, s));
    apply(w, buffer_bytes(&w->proposed[2]));
    assert_true(timers_needs_age0(w->timers, s));
}

static void an_inherited_age_counts_and_binds(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 500);
    apply_proposed(w);
    change_leader(w, t0 + 600);
    assert_int_equal(lease_left(w, s), 500);
    assert_true(timers_needs_age0(w->timers, s));
    /* The next quarter, then the end. */
    assert_string_equal(due(w, t0 + 849), "");
    assert_string_equal(due(w, t0 + 850), "age 1=750\n");
    assert_string_equal(due(w, t0 + 1100), "expire 1\n");
}

static void an_age_0_found_in_the_state_binds_nobody(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 500);
    assert_true(timers_heard(w->timers, s, ns(w)));
    log_age0(w, s);
    apply_proposed(w);
    change_leader(w, t0 + 600);
    assert_int_equal(lease_left(w, s), 1000);
    assert_false(timers_needs_age0(w->timers, s));
}

static void a_session_not_yet_heard_ages_at_a_quarter(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    change_leader(w, t0 + 5000);
    assert_string_equal(due(w, t0 + 5250), "age 1=250\n");
}

/* Reigns of 0.3 T each: without ages a dead session would live for ever. */
static void a_dead_session_does_not_outlive_five_short_reigns(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    int reigns = 0;
    for (; reigns < 20 && lockfsm_session(w->fsm, s) != NULL; reigns++) {
        for (uint64_t t = 0; t <= 300; t += 10) {
            due(w, t0 + (uint64_t)reigns * 300 + t);
            apply_proposed(w);
        }
        change_leader(w, w->now_ms);
    }
    assert_in_range(reigns, 2, 5);
}

static void an_unknown_session_is_not_heard(void **state)
{
    struct world *w = *state;
    assert_false(timers_heard(w->timers, 4711, ns(w)));
    assert_false(timers_is_doomed(w->timers, 4711));
    assert_true(timers_needs_age0(w->timers, 4711));
    timers_detached(w->timers, 4711, ns(w));
}

/* --- Rule 8: linger ------------------------------------------------------- */

static void a_close_lowers_the_deadline_to_linger(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    w->now_ms = t0 + 1000;
    timers_detached(w->timers, s, ns(w));
    assert_int_equal(lease_left(w, s), 500);
    assert_true(timers_next(w->timers) <= (t0 + 1500) * MS);
    assert_string_equal(due(w, t0 + 1500), "expire 1\n");
}

static void a_close_without_linger_changes_nothing(void **state)
{
    struct world *w = *state;
    uint64_t s = open_session(w, 10000, 0);
    timers_detached(w->timers, s, ns(w));
    assert_int_equal(lease_left(w, s), 10000);
    assert_string_equal(due(w, w->now_ms + 1), "");
}

static void a_close_never_raises_a_deadline(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 900);
    w->now_ms = t0 + 800;
    timers_detached(w->timers, s, ns(w));
    assert_int_equal(lease_left(w, s), 200);
}

/* The follower saw the close before it passed on the last heartbeat. */
static void a_close_counts_from_the_last_heartbeat_at_least(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    assert_true(timers_heard(w->timers, s, (t0 + 2000) * MS));
    w->now_ms = t0 + 2000;
    timers_detached(w->timers, s, (t0 + 1000) * MS);
    assert_int_equal(lease_left(w, s), 500);
}

static void linger_survives_a_change_of_leader(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    w->now_ms = t0 + 1000;
    timers_detached(w->timers, s, ns(w));
    assert_string_equal(due(w, t0 + 1000), "age 1=9500\n");
    assert_string_equal(due(w, t0 + 1001), "");
    apply_proposed(w);
    change_leader(w, t0 + 1100);
    assert_int_equal(lease_left(w, s), 500);
}

static void a_client_that_comes_back_gets_its_whole_ttl(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    timers_detached(w->timers, s, ns(w));
    due(w, t0 + 10);
    assert_true(timers_needs_age0(w->timers, s));
    assert_true(timers_heard(w->timers, s, (t0 + 100) * MS));
    assert_int_equal(lease_left(w, s), 10090);
    assert_string_equal(due(w, t0 + 2599), "");
}

/* --- Transfer ------------------------------------------------------------- */

static void ages_above_a_quarter_are_logged_before_a_transfer(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    uint64_t heard = open_session(w, 1000, 0);
    due(w, t0 + 250);
    w->now_ms = t0 + 333;
    assert_true(timers_heard(w->timers, heard, (t0 + 200) * MS));
    buffer_clear(&w->text);
    timers_before_transfer(w->timers, ns(w), propose, w);
    buffer_put_u8(&w->text, 0);
    assert_string_equal((const char *)w->text.data, "age 1=333\n");
}

/* --- In the large --------------------------------------------------------- */

/* A naive model: deadlines in an array, looked through at each step. */
static void deadlines_agree_with_a_naive_model(void **state)
{
    struct world *w = *state;
    struct prng prng = {42};
    uint64_t deadline[SESSION_MAX];
    uint64_t ttl[SESSION_MAX];
    for (uint32_t i = 0; i < SESSION_MAX; i++) {
        ttl[i] = 100 + prng_below(&prng, 2000);
        open_session(w, (uint32_t)ttl[i], 0);
        deadline[i] = w->now_ms + ttl[i];
    }
    for (int step = 0; step < 20000; step++) {
        w->now_ms += prng_below(&prng, 20);
        uint64_t i = prng_below(&prng, SESSION_MAX);
        if (deadline[i] != 0 && deadline[i] > w->now_ms) {
            assert_true(timers_heard(w->timers, w->session[i], ns(w)));
            deadline[i] = w->now_ms + ttl[i];
        }
        w->proposed_count = 0;
        w->applied_count = 0;
        for (uint32_t j = 0; j < PROPOSED_MAX; j++) {
            buffer_clear(&w->proposed[j]);
        }
        uint64_t earliest = UINT64_MAX;
        for (uint32_t j = 0; j < SESSION_MAX; j++) {
            if (deadline[j] != 0 && deadline[j] < earliest) {
                earliest = deadline[j];
            }
        }
        bool is_due = earliest <= w->now_ms;
        assert_int_equal(timers_has_due_sessions(w->timers, ns(w)), is_due);
        assert_true(earliest == UINT64_MAX ||
                    timers_next(w->timers) <= earliest * MS);
        due(w, w->now_ms);
        for (uint32_t j = 0; j < SESSION_MAX; j++) {
            bool is_over = deadline[j] != 0 && deadline[j] <= w->now_ms;
            if (is_over) {
                assert_true(timers_is_doomed(w->timers, w->session[j]));
                deadline[j] = 0;
            }
        }
        apply_proposed(w);
    }
}

#define MANY 100000

static bool count_proposed(void *data, struct bytes command)
{
    (void)command;
    ++*(int *)data;
    return true;
}

static void a_hundred_thousand_sessions_are_kept_alive(void **state)
{
    struct world *w = *state;
    lockfsm_free(w->fsm);
    w->fsm = lockfsm_new();
    timers_begin(w->timers, w->fsm, ns(w));
    uint64_t *sessions = memory_new(MANY * sizeof *sessions);
    w->index = 0;
    uint8_t cluster_id[16] = {1};
    struct begin_command begin = {.node = 1, .cluster_id = cluster_id};
    encode_begin(&w->command, &begin);
    apply_command(w);
    for (uint32_t i = 0; i < MANY; i++) {
        w->session_count = 0;
        sessions[i] = open_session(w, 10000, 0);
    }
    timers_begin(w->timers, w->fsm, ns(w));
    int count = 0;
    for (int beat = 0; beat < 20; beat++) {
        w->now_ms += 2000;
        for (uint32_t i = 0; i < MANY; i++) {
            assert_true(timers_heard(w->timers, sessions[i], ns(w)));
        }
        timers_due(w->timers, ns(w), 1000, 1000, count_proposed, &count);
        assert_int_equal(count, 0);
    }
    timers_due(w->timers, ns(w) + 10000 * MS, 1000, 1000, count_proposed,
               &count);
    assert_int_equal(count, 100);
    free(sessions);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_expires_at_its_deadline_and_not_before),
        TEST(a_heartbeat_counts_from_its_receipt),
        TEST(an_older_receipt_does_not_lower_a_deadline),
        TEST(a_new_leader_starts_every_session_with_its_whole_ttl),
        TEST(a_doomed_session_is_heard_no_more),
        TEST(a_session_is_not_doomed_if_the_proposal_was_refused),
        TEST(a_refused_expiry_is_proposed_again),
        TEST(stepping_down_drops_doom_and_deadlines),
        TEST(a_heartbeat_between_list_and_proposal_saves_the_session),
        TEST(sessions_expire_in_batches),
        TEST(a_blacklisting_moves_no_deadline),
        TEST(a_changed_ttl_counts_from_its_entry),
        TEST(a_quiet_session_ages_at_each_quarter),
        TEST(a_session_that_is_heard_does_not_age),
        TEST(many_sessions_age_in_one_entry),
        TEST(an_age_binds_from_its_proposal_until_age_0_is_applied),
        TEST(an_age_that_was_not_taken_does_not_bind),
        TEST(an_age_0_does_not_free_from_a_later_age),
        TEST(an_inherited_age_counts_and_binds),
        TEST(an_age_0_found_in_the_state_binds_nobody),
        TEST(a_session_not_yet_heard_ages_at_a_quarter),
        TEST(a_dead_session_does_not_outlive_five_short_reigns),
        TEST(an_unknown_session_is_not_heard),
        TEST(a_close_lowers_the_deadline_to_linger),
        TEST(a_close_without_linger_changes_nothing),
        TEST(a_close_never_raises_a_deadline),
        TEST(a_close_counts_from_the_last_heartbeat_at_least),
        TEST(linger_survives_a_change_of_leader),
        TEST(a_client_that_comes_back_gets_its_whole_ttl),
        TEST(ages_above_a_quarter_are_logged_before_a_transfer),
        TEST(deadlines_agree_with_a_naive_model),
        TEST(a_hundred_thousand_sessions_are_kept_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
