/* SPDX-License-Identifier: MIT */

/* The leader's deadlines, over a real state machine. Each rule, and each listed
 * way to get one wrong, is a test.
 *
 * due() gives what was proposed as text, one command per line, sessions by the
 * order in which they were opened: "expire 1 2". What was proposed waits until
 * apply_proposed() applies it, as it does in the log. Times are
 * milliseconds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/prng.h"
#include "lockfsm/command.pb-c.h"
#include "lockfsm/encode.h"
#include "lockfsm/timers.h"

#define MS UINT64_C(1000000)
#define SESSION_MAX 64
#define PROPOSED_MAX 256

struct world {
    struct lockfsm *fsm;
    struct timers *timers;
    struct effects effects;
    uint64_t index;
    uint64_t now_ms;
    uint64_t session[SESSION_MAX];
    uint32_t session_count;
    struct buffer proposed[PROPOSED_MAX];
    uint32_t proposed_count;
    uint32_t applied_count;
    bool is_refusing;
    struct buffer text;
    struct buffer command;
};

static uint64_t ns(const struct world *w)
{
    return w->now_ms * MS;
}

static uint32_t number_of(const struct world *w, uint64_t session)
{
    for (uint32_t i = 0; i < w->session_count; i++) {
        if (w->session[i] == session) {
            return i + 1;
        }
    }
    return 0;
}

static struct result apply(struct world *w, struct bytes command)
{
    effects_clear(&w->effects);
    w->index++;
    assert_int_equal(lockfsm_apply(w->fsm, w->index, 1, command, &w->effects),
                     0);
    struct result result = {.code = RESULT_OK};
    for (uint32_t i = 0; i < w->effects.count; i++) {
        timers_follow(w->timers, w->fsm, &w->effects.effect[i], ns(w));
        if (w->effects.effect[i].type == EFFECT_RESULT) {
            result = w->effects.effect[i].result;
        }
    }
    return result;
}

static struct result apply_command(struct world *w)
{
    struct result result = apply(w, buffer_bytes(&w->command));
    buffer_clear(&w->command);
    return result;
}

static int set_up(void **state)
{
    struct world *w = memory_new(sizeof *w);
    w->fsm = lockfsm_new(&lockfsm_default_limits);
    w->timers = timers_new();
    w->now_ms = 1000000;
    uint8_t cluster_id[16] = {1};
    struct begin_command begin = {.node = 1,
                                  .incarnation = 7,
                                  .cluster_id = cluster_id,
                                  .token_base = 1000};
    encode_begin(&w->command, &begin);
    apply_command(w);
    timers_begin(w->timers, w->fsm, ns(w));
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < PROPOSED_MAX; i++) {
        buffer_done(&w->proposed[i]);
    }
    buffer_done(&w->text);
    buffer_done(&w->command);
    effects_done(&w->effects);
    timers_free(w->timers);
    lockfsm_free(w->fsm);
    free(w);
    return 0;
}

/* Opens session number session_count + 1. */
static uint64_t open_session(struct world *w, uint32_t ttl_ms,
                             uint32_t linger_ms)
{
    struct open_command open = {.ttl_ms = ttl_ms,
                                .linger_ms = linger_ms,
                                .name = BYTES_LITERAL("client"),
                                .address = BYTES_LITERAL("10.0.0.1:1")};
    encode_open(&w->command, &open);
    struct result result = apply_command(w);
    assert_int_equal(result.code, RESULT_OK);
    w->session[w->session_count++] = result.token;
    return result.token;
}

struct ask {
    uint64_t wait_ms;
    uint64_t delay_ms;
    uint64_t hold_ms;
};

static struct result acquire(struct world *w, uint64_t session,
                             const char *lock, struct ask ask)
{
    struct bytes name = bytes_of_text(lock);
    struct acquire_command command = {.origin = {.session = session},
                                      .names = &name,
                                      .name_count = 1,
                                      .is_waiting = true,
                                      .wait_ms = ask.wait_ms,
                                      .delay_ms = ask.delay_ms,
                                      .hold_ms = ask.hold_ms};
    encode_acquire(&w->command, &command);
    return apply_command(w);
}

static void release(struct world *w, uint64_t session, const char *lock)
{
    struct bytes name = bytes_of_text(lock);
    struct release_command command = {
        .origin = {.session = session}, .names = &name, .name_count = 1};
    encode_release(&w->command, &command);
    assert_int_equal(apply_command(w).code, RESULT_OK);
}

static void describe(struct world *w, struct bytes command)
{
    Hasp__Command *c = hasp__command__unpack(NULL, command.size, command.data);
    assert_non_null(c);
    switch (c->op_case) {
    case HASP__COMMAND__OP_EXPIRE:
        buffer_put_text(&w->text, "expire");
        for (size_t i = 0; i < c->expire->n_sessions; i++) {
            buffer_printf(&w->text, " %u",
                          number_of(w, c->expire->sessions[i]));
        }
        break;
    case HASP__COMMAND__OP_AGE:
        buffer_put_text(&w->text, "age");
        for (size_t i = 0; i < c->age->n_aged; i++) {
            buffer_printf(&w->text, " %u=%u",
                          number_of(w, c->age->aged[i]->session),
                          c->age->aged[i]->age_ms);
        }
        break;
    case HASP__COMMAND__OP_WAIT_TIMEOUT:
        buffer_printf(&w->text, "wait-timeout %u @%llu",
                      number_of(w, c->wait_timeout->session),
                      (unsigned long long)c->wait_timeout->wait_index);
        break;
    case HASP__COMMAND__OP_DELAY_OVER:
        buffer_printf(&w->text, "delay-over %.*s @%llu",
                      (int)c->delay_over->name.len, c->delay_over->name.data,
                      (unsigned long long)c->delay_over->since_index);
        break;
    case HASP__COMMAND__OP_HOLD_OVER:
        buffer_printf(&w->text, "hold-over %u %llu",
                      number_of(w, c->hold_over->session),
                      (unsigned long long)c->hold_over->token);
        break;
    case HASP__COMMAND__OP_HOLD_AGE:
        buffer_printf(&w->text, "hold-age %u %llu",
                      number_of(w, c->hold_age->session),
                      (unsigned long long)c->hold_age->age_ms);
        break;
    case HASP__COMMAND__OP_BLACKLIST_OVER:
        buffer_printf(&w->text, "blacklist-over @%llu",
                      (unsigned long long)c->blacklist_over->since_index);
        break;
    case HASP__COMMAND__OP_QUARANTINE_OVER:
        buffer_printf(&w->text, "quarantine-over @%llu",
                      (unsigned long long)c->quarantine_over->since_index);
        break;
    default:
        buffer_put_text(&w->text, "another");
        break;
    }
    buffer_put_text(&w->text, "\n");
    hasp__command__free_unpacked(c, NULL);
}

static bool propose(void *data, struct bytes command)
{
    struct world *w = data;
    if (w->is_refusing) {
        return false;
    }
    assert_true(w->proposed_count < PROPOSED_MAX);
    buffer_put_bytes(&w->proposed[w->proposed_count++], command);
    describe(w, command);
    return true;
}

/* What timers_due() proposes at 'now_ms', which becomes the time. */
static const char *due_at(struct world *w, uint64_t now_ms,
                          uint32_t session_max, uint32_t command_max)
{
    w->now_ms = now_ms;
    buffer_clear(&w->text);
    timers_due(w->timers, w->fsm, ns(w), session_max, command_max, propose, w);
    buffer_put_u8(&w->text, 0);
    return (const char *)w->text.data;
}

static const char *due(struct world *w, uint64_t now_ms)
{
    return due_at(w, now_ms, 100, 100);
}

static void apply_proposed(struct world *w)
{
    while (w->applied_count < w->proposed_count) {
        apply(w, buffer_bytes(&w->proposed[w->applied_count++]));
    }
}

/* What the core does for a heartbeat that needs it. */
static void log_age0(struct world *w, uint64_t session)
{
    struct session_age age = {session, 0};
    encode_age(&w->command, &age, 1);
    buffer_put_bytes(&w->proposed[w->proposed_count++],
                     buffer_bytes(&w->command));
    buffer_clear(&w->command);
}

static void change_leader(struct world *w, uint64_t now_ms)
{
    timers_end(w->timers);
    w->now_ms = now_ms;
    timers_begin(w->timers, w->fsm, ns(w));
}

static uint64_t lease_left(struct world *w, uint64_t session)
{
    return timers_lease_left(w->timers, session, ns(w)) / MS;
}

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
    uint64_t s = open_session(w, 1000, 0);
    w->now_ms = t0 + 600;
    encode_set_ttl(&w->command, s, 5000);
    apply_command(w);
    assert_int_equal(lease_left(w, s), 5000);
    /* A shorter one takes nothing away that was promised. */
    encode_set_ttl(&w->command, s, 100);
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
    timers_before_transfer(w->timers, w->fsm, ns(w), propose, w);
    buffer_put_u8(&w->text, 0);
    assert_string_equal((const char *)w->text.data, "age 1=333\n");
}

/* --- Waits, delays, max holds, blacklistings ------------------------------ */

static void a_wait_is_over_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 100000, 0);
    uint64_t s2 = open_session(w, 100000, 0);
    acquire(w, s1, "a", (struct ask){.wait_ms = 0});
    struct result queued = acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    assert_int_equal(queued.code, RESULT_QUEUED);
    uint64_t wait_index = w->index;
    assert_string_equal(due(w, t0 + 299), "");
    char expected[64];
    snprintf(expected, sizeof expected, "wait-timeout 2 @%llu\n",
             (unsigned long long)wait_index);
    assert_string_equal(due(w, t0 + 300), expected);
    assert_string_equal(due(w, t0 + 900), "");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_wait_that_was_granted_is_not_timed_out(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 100000, 0);
    uint64_t s2 = open_session(w, 100000, 0);
    acquire(w, s1, "a", (struct ask){.wait_ms = 0});
    acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    release(w, s1, "a");
    assert_string_equal(due(w, t0 + 300), "");
}

static void a_repeated_wait_counts_anew(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 100000, 0);
    uint64_t s2 = open_session(w, 100000, 0);
    acquire(w, s1, "a", (struct ask){.wait_ms = 0});
    acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    w->now_ms = t0 + 200;
    acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    assert_string_equal(due(w, t0 + 499), "");
    w->now_ms = t0 + 499;
    acquire(w, s2, "a", (struct ask){.wait_ms = 0});
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_new_leader_starts_a_wait_in_full(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 100000, 0);
    uint64_t s2 = open_session(w, 100000, 0);
    acquire(w, s1, "a", (struct ask){.wait_ms = 0});
    acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    change_leader(w, t0 + 200);
    assert_string_equal(due(w, t0 + 499), "");
    assert_non_null(strstr(due(w, t0 + 500), "wait-timeout 2"));
}

static void a_delay_is_over_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    acquire(w, s, "a", (struct ask){.delay_ms = 700});
    due(w, t0 + 1000);
    apply_proposed(w);
    char expected[64];
    snprintf(expected, sizeof expected, "delay-over a @%llu\n",
             (unsigned long long)w->index);
    assert_int_equal(timers_delay_left(w->timers, BYTES_LITERAL("a"), ns(w)),
                     700 * MS);
    assert_string_equal(due(w, t0 + 1699), "");
    change_leader(w, t0 + 1699);
    assert_string_equal(due(w, t0 + 2398), "");
    assert_string_equal(due(w, t0 + 2399), expected);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_limited_hold_ages_and_ends(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    struct result result = acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    struct bytes lock = BYTES_LITERAL("a");
    struct bytes owner = {NULL, 0};
    char over[64];
    snprintf(over, sizeof over, "hold-over 1 %llu\n",
             (unsigned long long)result.token);
    assert_int_equal(timers_hold_left(w->timers, lock, s, owner, ns(w)),
                     4000 * MS);
    assert_string_equal(due(w, t0 + 1999), "");
    assert_string_equal(due(w, t0 + 2000), "hold-age 1 2000\n");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 2999), "");
    change_leader(w, t0 + 3000);
    assert_int_equal(timers_hold_left(w->timers, lock, s, owner, ns(w)),
                     2000 * MS);
    assert_string_equal(due(w, t0 + 4000), "hold-age 1 3000\n");
    assert_string_equal(due(w, t0 + 4999), "");
    assert_string_equal(due(w, t0 + 5000), over);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 20000), "");
}

static void a_released_hold_is_not_ended_later(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    release(w, s, "a");
    assert_string_equal(due(w, t0 + 5000), "");
    /* And the next hold of the same owner counts from its own grant. */
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    assert_string_equal(due(w, t0 + 6999), "");
    assert_string_equal(due(w, t0 + 7000), "hold-age 1 2000\n");
}

static void re_entry_does_not_prolong_a_limited_hold(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    w->now_ms = t0 + 1000;
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    assert_string_equal(due(w, t0 + 2000), "hold-age 1 2000\n");
    /* One of the two is given back: it is still held, and still limited. */
    release(w, s, "a");
    assert_non_null(strstr(due(w, t0 + 4000), "hold-over 1"));
}

static void a_blacklisting_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct blacklist_command add = {.client = BYTES_LITERAL("evil*"),
                                    .reason = BYTES_LITERAL("why"),
                                    .for_ms = 800};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "blacklist-over @%llu\n",
             (unsigned long long)w->index);
    change_leader(w, t0 + 100);
    assert_string_equal(due(w, t0 + 899), "");
    assert_string_equal(due(w, t0 + 900), expected);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

/* 4a.10: without this command nothing would ever be granted again. */
static void a_quarantine_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint8_t cluster_id[16] = {2};
    struct begin_command begin = {.node = 1, .cluster_id = cluster_id};
    timers_end(w->timers);
    lockfsm_new_life(w->fsm, 700);
    encode_begin(&w->command, &begin);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "quarantine-over @%llu\n",
             (unsigned long long)w->index);
    uint64_t t0 = w->now_ms;
    change_leader(w, t0);
    assert_string_equal(due(w, t0 + 600), "");
    change_leader(w, t0 + 600); /* It counts anew: longer, never shorter. */
    assert_string_equal(due(w, t0 + 1299), "");
    assert_string_equal(due(w, t0 + 1300), expected);
    apply_proposed(w);
    assert_int_equal(lockfsm_quarantine(w->fsm, NULL), 0);
    uint64_t s = open_session(w, 100000, 0);
    assert_int_equal(acquire(w, s, "a", (struct ask){.wait_ms = 0}).code,
                     RESULT_OK);
    change_leader(w, t0 + 2000);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void the_rest_is_left_after_a_refusal(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s1 = open_session(w, 100000, 0);
    uint64_t s2 = open_session(w, 100000, 0);
    acquire(w, s1, "a", (struct ask){.wait_ms = 0});
    acquire(w, s2, "a", (struct ask){.wait_ms = 300});
    w->is_refusing = true;
    assert_string_equal(due(w, t0 + 400), "");
    w->is_refusing = false;
    assert_non_null(strstr(due(w, t0 + 400), "wait-timeout 2"));
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
    struct lockfsm_limits limits = lockfsm_default_limits;
    limits.sessions = MANY;
    lockfsm_free(w->fsm);
    w->fsm = lockfsm_new(&limits);
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
        timers_due(w->timers, w->fsm, ns(w), 1000, 1000, count_proposed,
                   &count);
        assert_int_equal(count, 0);
    }
    timers_due(w->timers, w->fsm, ns(w) + 10000 * MS, 1000, 1000,
               count_proposed, &count);
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
        TEST(a_wait_is_over_after_its_time),
        TEST(a_wait_that_was_granted_is_not_timed_out),
        TEST(a_repeated_wait_counts_anew),
        TEST(a_new_leader_starts_a_wait_in_full),
        TEST(a_delay_is_over_after_its_time),
        TEST(a_limited_hold_ages_and_ends),
        TEST(a_released_hold_is_not_ended_later),
        TEST(re_entry_does_not_prolong_a_limited_hold),
        TEST(a_blacklisting_ends_after_its_time),
        TEST(a_quarantine_ends_after_its_time),
        TEST(the_rest_is_left_after_a_refusal),
        TEST(deadlines_agree_with_a_naive_model),
        TEST(a_hundred_thousand_sessions_are_kept_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
