/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of sessions (lease/timers, lease/leases). Each rule,
 * and each listed way to break one, is a test. Waits, delays and max holds:
 * test_spans.c. */

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
    change_leader(w, t0 + 1000);
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

/* The clock of the log waits for the next turn. */
static void a_full_turn_proposes_no_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    open_session(w, 1000, 0);
    open_session(w, 4000, 0);
    assert_string_equal(due_at(w, t0 + 1000, 1, 1), "expire 1\n");
    assert_string_equal(due_at(w, t0 + 1000, 1, 1), "expire 2\n");
    assert_int_equal(w->time_count, 0);
    assert_string_equal(due_at(w, t0 + 1000, 1, 1), "mark 3=1000\n");
}

/* It is heard like others, but has no deadline, mark or HEARD. */
static void a_durable_session_has_no_deadline(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_durable(w);
    for (uint64_t t = 0; t <= 10; t++) {
        assert_string_equal(due(w, t0 + t * 4500005), "");
        assert_true(timers_heard(w->timers, s, ns(w)));
        assert_false(timers_needs_heard(w->timers, s));
        assert_false(timers_is_doomed(w->timers, s));
        timers_hearing(w->timers, s);
        timers_detached(w->timers, s, ns(w));
        if (t == 5) {
            change_leader(w, w->now_ms);
        }
    }
    assert_int_equal(w->time_count, 0);
    assert_int_equal(timers_next(w->timers), UINT64_MAX);
    assert_int_equal(lease_left(w, s), 0);
}

static void a_blacklisting_moves_no_deadline(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->now_ms = t0 + 600;
    struct blacklist_add_command add = {.session = s,
                                        .reason = BYTES_LITERAL("why")};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 400);
}

static void encode_redis_key(struct buffer *out, const struct redis_key *key)
{
    encode_redis(out, &(struct redis_command){.keys = key, .key_count = 1});
}

static void a_changed_ttl_counts_from_its_entry(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct redis_key value = {.name = BYTES_LITERAL("a"),
                              .change = REDIS_SET,
                              .new_value = BYTES_LITERAL("v"),
                              .ttl_ms = 1000,
                              .px_ms = 800};
    encode_redis_key(&w->command, &value);
    apply_command(w);
    uint64_t s = lockfsm_token_base(w->fsm) + w->index;
    value.was = REDIS_VALUE;
    value.value = BYTES_LITERAL("v");
    value.change = REDIS_RENEW;
    w->now_ms = t0 + 600;
    value.ttl_ms = 5000;
    encode_redis_key(&w->command, &value);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 5000);
    /* A shorter one is what its sender asked for. */
    value.ttl_ms = 100;
    encode_redis_key(&w->command, &value);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 100);
}

/* --- Rule 9: marks and the log's clock ------------------------------------ */

static void a_value_gets_and_loses_its_lease(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct redis_key key = {.name = BYTES_LITERAL("k"),
                            .change = REDIS_SET,
                            .new_value = BYTES_LITERAL("v"),
                            .is_durable = true};
    encode_redis_key(&w->command, &key);
    struct result result = apply_command(w);
    assert_int_equal(result.count, 1);
    w->session[w->session_count++] = result.token;
    assert_string_equal(due(w, t0 + 100000), "");
    key = (struct redis_key){.name = BYTES_LITERAL("k"),
                             .was = REDIS_VALUE,
                             .value = BYTES_LITERAL("v"),
                             .change = REDIS_RENEW,
                             .ttl_ms = 1000,
                             .px_ms = 796};
    encode_redis_key(&w->command, &key);
    assert_int_equal(apply_command(w).count, 1);
    assert_int_equal(lease_left(w, result.token), 1000);
    assert_string_equal(due(w, t0 + 100300), "mark 1=300\n");
    apply_proposed(w);
    key.is_durable = true;
    key.ttl_ms = 0;
    key.px_ms = 0;
    encode_redis_key(&w->command, &key);
    assert_int_equal(apply_command(w).count, 1);
    assert_string_equal(due(w, t0 + 200000), "");
    assert_int_equal(timers_next(w->timers), UINT64_MAX);
    key.is_durable = false;
    key.ttl_ms = 1000;
    key.px_ms = 796;
    encode_redis_key(&w->command, &key);
    assert_int_equal(apply_command(w).count, 1);
    assert_string_equal(due(w, t0 + 200999), "mark 1=999\n");
    assert_string_equal(due(w, t0 + 201000), "expire 1\n");
}

static void a_quiet_session_is_marked_once_at_a_quarter(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    assert_string_equal(due(w, t0 + 249), "");
    assert_string_equal(due(w, t0 + 250), "mark 1=250\n");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 260), "");
    assert_string_equal(due(w, t0 + 999), "");
    assert_string_equal(due(w, t0 + 1000), "expire 1\n");
}

static void a_session_that_is_heard_is_not_marked(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    for (uint64_t t = 200; t < 5000; t += 200) {
        assert_string_equal(due(w, t0 + t), "");
        assert_true(timers_heard(w->timers, s, ns(w)));
    }
    assert_int_equal(w->time_count, 0);
    assert_string_equal(due(w, t0 + 4800 + 250), "mark 1=250\n");
}

/* All that are quiet go into one entry. */
static void many_sessions_are_marked_in_one_entry(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    open_session(w, 2000, 0);
    open_session(w, 1000, 0);
    assert_string_equal(due(w, t0 + 500), "mark 1=500 3=500 2=500\n");
}

static void at_most_one_time_is_under_way(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 1000, 0);
    open_session(w, 2000, 0);
    assert_string_equal(due(w, t0 + 250), "mark 1=250\n");
    assert_true(timers_next(w->timers) == (t0 + 1000) * MS);
    assert_string_equal(due(w, t0 + 900), "");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 900), "mark 2=900\n");
}

static void a_mark_binds_from_its_proposal_until_heard_is_applied(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    assert_false(timers_needs_heard(w->timers, s));
    due(w, t0 + 250);
    assert_true(timers_needs_heard(w->timers, s)); /* Not yet applied. */
    apply_proposed(w);
    assert_true(timers_needs_heard(w->timers, s));
    assert_true(timers_heard(w->timers, s, ns(w)));
    assert_true(timers_needs_heard(w->timers, s));
    log_heard(w, s);
    assert_true(timers_needs_heard(w->timers, s));
    apply_proposed(w);
    assert_false(timers_needs_heard(w->timers, s));
}

static void a_mark_that_was_not_taken_does_not_bind(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    w->is_refusing = true;
    due(w, t0 + 250);
    assert_false(timers_needs_heard(w->timers, s));
    w->is_refusing = false;
    assert_string_equal(due(w, t0 + 251), "mark 1=251\n");
}

static void nobody_is_marked_while_a_heard_is_under_way(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 250);
    apply_proposed(w);
    assert_true(timers_heard(w->timers, s, (t0 + 250) * MS));
    log_heard(w, s);
    assert_string_equal(due(w, t0 + 600), "");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 600), "mark 1=350\n");
}

/* The renewal of a value is a HEARD without an announcement; a mark that
 * follows it in the log is not ended by it. */
static void a_renewal_does_not_free_from_a_later_mark(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct redis_key value = {.name = BYTES_LITERAL("a"),
                              .change = REDIS_SET,
                              .new_value = BYTES_LITERAL("v"),
                              .ttl_ms = 1000,
                              .px_ms = 800};
    encode_redis_key(&w->command, &value);
    apply_command(w);
    uint64_t s = lockfsm_token_base(w->fsm) + w->index;
    value.was = REDIS_VALUE;
    value.value = BYTES_LITERAL("v");
    value.change = REDIS_RENEW;
    due(w, t0 + 250);
    encode_redis_key(&w->command, &value); /* Proposed first, applied first. */
    apply_command(w);
    assert_true(timers_needs_heard(w->timers, s));
    apply_proposed(w);
    assert_true(timers_needs_heard(w->timers, s));
    encode_redis_key(&w->command, &value);
    apply_command(w);
    assert_false(timers_needs_heard(w->timers, s));
}

static void an_inherited_mark_counts_and_binds(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    assert_string_equal(due(w, t0 + 500), "mark 1=500\n");
    apply_proposed(w);
    change_leader(w, t0 + 600);
    assert_int_equal(lease_left(w, s), 400);
    assert_true(timers_needs_heard(w->timers, s));
    assert_string_equal(due(w, t0 + 999), "");
    assert_string_equal(due(w, t0 + 1000), "expire 1\n");
}

static void a_mark_that_ended_binds_nobody(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 500);
    assert_true(timers_heard(w->timers, s, ns(w)));
    log_heard(w, s);
    apply_proposed(w);
    assert_false(timers_needs_heard(w->timers, s));
    change_leader(w, t0 + 600); /* But its BEGIN does. */
    assert_int_equal(lease_left(w, s), 1000);
    assert_true(timers_needs_heard(w->timers, s));
}

static void a_begin_marks_whom_no_leader_has_heard(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    change_leader(w, t0 + 200);
    assert_int_equal(lease_left(w, s), 1000);
    change_leader(w, t0 + 400);
    assert_int_equal(lease_left(w, s), 800);
    /* Its first quarter is over; the mark says so. */
    assert_string_equal(due(w, t0 + 450), "mark 1=250\n");
    apply_proposed(w);
    change_leader(w, t0 + 500);
    assert_string_equal(due(w, t0 + 1199), "");
    assert_string_equal(due(w, t0 + 1200), "expire 1\n");
}

static void the_clock_moves_as_long_as_a_mark_stands(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 0);
    assert_int_equal(w->time_count, 0);
    assert_true(timers_next(w->timers) == (t0 + 2500) * MS);
    due(w, t0 + 2500);
    apply_proposed(w);
    for (uint64_t t = 2600; t <= 7500; t += 100) {
        due(w, t0 + t);
        apply_proposed(w);
    }
    /* The first TIME after a pause counts a second at most. */
    assert_int_equal(w->time_count, 7);
    assert_int_equal(lockfsm_clock(w->fsm), 1000 + 6 * 800);
    assert_true(timers_heard(w->timers, s, ns(w)));
    log_heard(w, s);
    apply_proposed(w);
    for (uint64_t t = 7600; t < 10000; t += 100) {
        due(w, t0 + t);
    }
    assert_int_equal(w->time_count, 7);
}

static void a_refused_time_is_proposed_again(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    open_session(w, 10000, 0);
    due(w, t0 + 2500);
    apply_proposed(w);
    w->is_refusing = true;
    due(w, t0 + 3400);
    assert_int_equal(w->time_count, 1);
    w->is_refusing = false;
    due(w, t0 + 3450);
    assert_int_equal(w->time_count, 2);
    assert_int_equal(w->elapsed_ms, 950);
}

/* A restarted node has measured nothing before. */
static void time_is_measured_from_a_start_on(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    due(w, t0 + 500);
    apply_proposed(w);
    timers_loaded(w->timers, w->fsm, (t0 + 750) * MS);
    change_leader(w, t0 + 800);
    assert_int_equal(lease_left(w, s), 450);
}

/* How long a session lives after its last heartbeat, if leaderships are this
 * short. */
static uint64_t life_under(struct world *w, uint64_t reign_ms)
{
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 0);
    while (lockfsm_session(w->fsm, s) != NULL) {
        uint64_t t = w->now_ms - t0;
        assert_in_range(t, 0, 60000);
        due(w, w->now_ms);
        apply_proposed(w);
        forget_proposed(w);
        w->now_ms += 10;
        if ((t + 10) / reign_ms > t / reign_ms) {
            change_leader(w, w->now_ms);
        }
    }
    return w->now_ms - t0;
}

/* The bound of rule 10: T + T/4 + a step. */
static void a_dead_session_outlives_no_number_of_reigns(void **state)
{
    struct world *w = *state;
    static const uint64_t reigns_ms[] = {300,  500,  1000, 1900, 2000, 2600,
                                         3000, 5000, 7400, 9900, 15000};
    for (size_t i = 0; i < sizeof reigns_ms / sizeof reigns_ms[0]; i++) {
        uint64_t life_ms = life_under(w, reigns_ms[i]);
        assert_in_range(life_ms, 10000, 13500);
    }
}

/* More changes than the BEGINs stored: the session seems a little younger, and
 * ends all the same. */
static void a_long_lease_ends_under_very_many_reigns(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 600000, 0);
    while (lockfsm_session(w->fsm, s) != NULL) {
        assert_in_range(w->now_ms - t0, 0, 900000);
        due(w, w->now_ms);
        apply_proposed(w);
        change_leader(w, w->now_ms + 500);
    }
    assert_in_range(w->now_ms - t0, 600000, 640000);
}

static void an_unknown_session_is_not_heard(void **state)
{
    struct world *w = *state;
    assert_false(timers_heard(w->timers, 4711, ns(w)));
    assert_false(timers_is_doomed(w->timers, 4711));
    assert_true(timers_needs_heard(w->timers, 4711));
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
    assert_string_equal(due(w, t0 + 1000), "mark 1=9500\n");
    assert_string_equal(due(w, t0 + 1001), "");
    apply_proposed(w);
    change_leader(w, t0 + 1100);
    assert_int_equal(lease_left(w, s), 401);
}

static void a_marked_session_that_lingers_is_marked_again(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    assert_string_equal(due(w, t0 + 2500), "mark 1=2500\n");
    apply_proposed(w);
    timers_detached(w->timers, s, ns(w));
    assert_string_equal(due(w, t0 + 2500), "mark 1=9500\n");
}

static void a_client_that_comes_back_gets_its_whole_ttl(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 10000, 500);
    timers_detached(w->timers, s, ns(w));
    due(w, t0 + 10);
    assert_true(timers_needs_heard(w->timers, s));
    assert_true(timers_heard(w->timers, s, (t0 + 100) * MS));
    assert_int_equal(lease_left(w, s), 10090);
    log_heard(w, s);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 2599), "");
    assert_string_equal(due(w, t0 + 2600), "mark 1=2500\n");
}

/* --- In the large --------------------------------------------------------- */

/* A naive model: an array of deadlines, searched at each step. */
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
        forget_proposed(w);
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

static bool count_proposed(void *data, const struct entry *entry)
{
    (void)entry;
    ++*(int *)data;
    return true;
}

static void a_hundred_thousand_sessions_are_kept_alive(void **state)
{
    struct world *w = *state;
    lockfsm_free(w->fsm);
    w->fsm = lockfsm_new();
    begin_timers(w);
    uint64_t *sessions = memory_new(MANY * sizeof *sessions);
    w->index = 0;
    uint8_t cluster_id[16] = {1};
    struct begin_command begin = {
        .node = 1, .cluster_id = bytes_of(cluster_id, CLUSTER_ID_SIZE)};
    encode_begin(&w->command, &begin);
    apply_command(w);
    for (uint32_t i = 0; i < MANY; i++) {
        w->session_count = 0;
        sessions[i] = open_session(w, 10000, 0);
    }
    change_leader(w, w->now_ms);
    /* No entry of a leader has more. */
    for (uint32_t i = 0; i < MANY; i += 4000) {
        encode_heard(&w->command,
                     &(struct heard_command){.sessions = sessions + i,
                                             .session_count = 4000});
        apply_command(w);
    }
    int count = 0;
    for (int beat = 0; beat < 20; beat++) {
        w->now_ms += 2000;
        for (uint32_t i = 0; i < MANY; i++) {
            assert_true(timers_heard(w->timers, sessions[i], ns(w)));
        }
        timers_due(w->timers, ns(w), ns(w), 1000, 1000, count_proposed, &count);
        assert_int_equal(count, 0);
    }
    w->now_ms += 10000;
    timers_due(w->timers, ns(w), ns(w), 1000, 1000, count_proposed, &count);
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
        TEST(a_full_turn_proposes_no_time),
        TEST(a_durable_session_has_no_deadline),
        TEST(a_value_gets_and_loses_its_lease),
        TEST(a_blacklisting_moves_no_deadline),
        TEST(a_changed_ttl_counts_from_its_entry),
        TEST(a_quiet_session_is_marked_once_at_a_quarter),
        TEST(a_session_that_is_heard_is_not_marked),
        TEST(many_sessions_are_marked_in_one_entry),
        TEST(at_most_one_time_is_under_way),
        TEST(a_mark_binds_from_its_proposal_until_heard_is_applied),
        TEST(a_mark_that_was_not_taken_does_not_bind),
        TEST(nobody_is_marked_while_a_heard_is_under_way),
        TEST(a_renewal_does_not_free_from_a_later_mark),
        TEST(an_inherited_mark_counts_and_binds),
        TEST(a_mark_that_ended_binds_nobody),
        TEST(a_begin_marks_whom_no_leader_has_heard),
        TEST(the_clock_moves_as_long_as_a_mark_stands),
        TEST(a_refused_time_is_proposed_again),
        TEST(time_is_measured_from_a_start_on),
        TEST(a_dead_session_outlives_no_number_of_reigns),
        TEST(a_long_lease_ends_under_very_many_reigns),
        TEST(an_unknown_session_is_not_heard),
        TEST(a_close_lowers_the_deadline_to_linger),
        TEST(a_close_without_linger_changes_nothing),
        TEST(a_close_never_raises_a_deadline),
        TEST(a_close_counts_from_the_last_heartbeat_at_least),
        TEST(linger_survives_a_change_of_leader),
        TEST(a_marked_session_that_lingers_is_marked_again),
        TEST(a_client_that_comes_back_gets_its_whole_ttl),
        TEST(deadlines_agree_with_a_naive_model),
        TEST(a_hundred_thousand_sessions_are_kept_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
