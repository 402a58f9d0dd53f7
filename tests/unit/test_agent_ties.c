/* SPDX-License-Identifier: MIT */

/* Which sessions an agent ends with which process. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/hasp/agent/ties.h"

#define A "0123456789abcdef0123456789abcdef"
#define B "fedcba9876543210fedcba9876543210"
#define SECOND_NS UINT64_C(1000000000)

static struct tie_death deaths[TIE_BATCH_MAX];

static void
what_a_dead_process_has_tied_is_reported_until_it_is_answered(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    assert_int_equal(ties_tie(ties, process, 6, B, 1000), TIE_DONE);
    assert_int_equal(ties_counts(ties).ties, 2);
    assert_int_equal(ties_batch(ties, 0, deaths), 0);
    assert_null(ties_find(ties, 7, 2)); /* The pid is used again. */
    ties_died(ties, process, 0);
    assert_null(ties_find(ties, 7, 1));
    assert_int_equal(ties_batch(ties, 0, deaths), 2);
    assert_int_equal(deaths[0].session, 5);
    assert_string_equal(deaths[0].word, A);
    assert_int_equal(ties_batch(ties, 0, deaths), 0); /* One at a time. */
    ties_batch_end(ties, TIE_UNREPORTED);
    assert_int_equal(ties_batch(ties, 0, deaths), 2);
    ties_batch_end(ties, TIE_REPORTED);
    assert_int_equal(ties_batch(ties, 0, deaths), 0);
    assert_int_equal(ties_counts(ties).reported, 2);
    ties_free(ties);
}

static void
a_death_is_dropped_when_the_session_has_ended_by_itself(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    ties_died(ties, process, SECOND_NS);
    assert_int_equal(ties_batch(ties, 3 * SECOND_NS - 1, deaths), 1);
    ties_batch_end(ties, TIE_UNREPORTED);
    assert_int_equal(ties_batch(ties, 3 * SECOND_NS, deaths), 0);
    assert_int_equal(ties_counts(ties).too_late, 1);
    ties_free(ties);
}

static void what_is_untied_is_not_reported(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    assert_false(ties_untie(ties, process, 5, B));
    assert_true(ties_untie(ties, process, 5, A));
    assert_false(ties_untie(ties, process, 5, A));
    ties_died(ties, process, 0);
    assert_int_equal(ties_batch(ties, 0, deaths), 0);
    ties_free(ties);
}

static void a_session_is_tied_to_one_process_by_its_word(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *one = ties_add(ties, 7, 1, 1000);
    struct tied_process *two = ties_add(ties, 7, 2, 1000); /* A reused pid. */
    assert_ptr_equal(ties_find(ties, 7, 2), two);
    assert_int_equal(ties_tie(ties, one, 5, A, 1000), TIE_DONE);
    assert_int_equal(ties_tie(ties, two, 5, A, 1000), TIE_TAKEN);
    assert_false(ties_untie(ties, two, 5, A));
    /* A stranger who guesses the id is in nobody's way. */
    assert_int_equal(ties_tie(ties, two, 5, B, 1000), TIE_DONE);
    ties_died(ties, two, 0);
    assert_int_equal(ties_batch(ties, 0, deaths), 1);
    assert_string_equal(deaths[0].word, B);
    ties_free(ties);
}

static void a_user_has_a_share_of_the_processes(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    int count = 0;
    while (ties_add(ties, 10 + count, 1, 1000) != NULL) {
        count++;
    }
    assert_int_equal(count, TIE_USER_LEAST);
    while (ties_add(ties, 10 + count, 1, 1001) != NULL) {
        count++;
    }
    assert_int_equal(count, 100);
    ties_join(ties_find(ties, 10, 1));
    assert_true(ties_leave(ties, ties_find(ties, 10, 1)));
    assert_non_null(ties_add(ties, 1000, 1, 1000));
    ties_free(ties);
}

static void a_process_has_a_bound_of_ties(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    for (uint64_t i = 0; i < TIE_PER_PROCESS_MAX; i++) {
        assert_int_equal(ties_tie(ties, process, i, A, 1000), TIE_DONE);
    }
    assert_int_equal(ties_tie(ties, process, 9999, A, 1000), TIE_TOO_MANY);
    ties_died(ties, process, 0);
    uint32_t reported = 0, count;
    while ((count = ties_batch(ties, 0, deaths)) > 0) {
        reported += count;
        ties_batch_end(ties, TIE_REPORTED);
    }
    assert_int_equal(reported, TIE_PER_PROCESS_MAX);
    ties_free(ties);
}

static void a_supervisor_reports_a_death_once(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    /* Its process lives; the word decides. */
    assert_true(ties_hear(ties, 1001, 5, A, 0));
    assert_true(ties_hear(ties, 1001, 5, A, 0));
    assert_true(ties_hear(ties, 1001, 6, B, 0));
    assert_int_equal(ties_batch(ties, 0, deaths), 2);
    ties_batch_end(ties, TIE_REPORTED);
    ties_join(process);
    assert_true(ties_leave(ties, process));
    ties_free(ties);
}

static void the_end_of_a_connection_is_no_death(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    ties_join(process);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    ties_join(process);
    assert_false(ties_leave(ties, process));
    assert_false(ties_leave(ties, process));
    assert_int_equal(ties_counts(ties).ties, 1);
    assert_int_equal(ties_batch(ties, 0, deaths), 0);
    assert_ptr_equal(ties_find(ties, 7, 1), process);
    /* It connects again; the tie is the same. */
    ties_join(process);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    assert_int_equal(ties_counts(ties).tied, 1);
    assert_true(ties_untie(ties, process, 5, A));
    assert_true(ties_leave(ties, process));
    assert_null(ties_find(ties, 7, 1));
    ties_free(ties);
}

static void a_user_has_a_share_of_the_ties(void **state)
{
    (void)state;
    struct ties *ties = ties_new(10000);
    uint64_t count = 0;
    enum tie_answer answer = TIE_DONE;
    for (pid_t pid = 1; answer != TIE_NO_ROOM; pid++) {
        struct tied_process *process = ties_add(ties, pid, 1, 1000);
        assert_non_null(process);
        do {
            answer = ties_tie(ties, process, count + 1, A, 1000);
            count += answer == TIE_DONE;
        } while (answer == TIE_DONE);
        ties_died(ties, process, 0); /* Pending deaths count, too. */
    }
    assert_int_equal(count, TIE_MAX / TIE_USER_PART);
    assert_false(ties_hear(ties, 1000, count + 1, A, 0));
    assert_true(ties_hear(ties, 1001, count + 1, A, 0));
    ties_free(ties);
}

/* A user with many deaths, or many reports, does not hold up the others. */
static void a_batch_has_deaths_of_each_user(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_true(ties_hear(ties, 1001, i, B, 0));
    }
    struct tied_process *process = ties_add(ties, 7, 1, 1000);
    assert_int_equal(ties_tie(ties, process, 5, A, 1000), TIE_DONE);
    ties_died(ties, process, 0);
    assert_int_equal(ties_batch(ties, 0, deaths), TIE_BATCH_MAX);
    assert_int_equal(deaths[0].session, 1);
    assert_string_equal(deaths[1].word, A);
    ties_batch_end(ties, TIE_UNREPORTED);
    /* In the same order again. */
    assert_int_equal(ties_batch(ties, 0, deaths), TIE_BATCH_MAX);
    bool is_first = deaths[0].session == 1 || deaths[1].session == 1;
    assert_true(is_first);
    ties_batch_end(ties, TIE_REPORTED);
    assert_int_equal(ties_batch(ties, 0, deaths), TIE_BATCH_MAX);
    assert_int_equal(deaths[0].session, 100);
    ties_batch_end(ties, TIE_REPORTED);
    ties_free(ties);
}

/* The cluster refuses a request as a whole: a death that it does not
 * understand must not take others with it. */
static void a_death_that_is_refused_holds_up_no_other(void **state)
{
    (void)state;
    struct ties *ties = ties_new(100);
    uint32_t reported = 0, rounds = 0, count;
    bool has_bad = true;
    for (uint64_t i = 1; i <= 150; i++) {
        assert_true(ties_hear(ties, 1000, i, A, 0));
    }
    while (reported < 149 && rounds++ < 100) {
        count = ties_batch(ties, 0, deaths);
        assert_in_range(count, 1, TIE_BATCH_MAX);
        has_bad = false;
        for (uint32_t i = 0; i < count; i++) {
            has_bad |= deaths[i].session == 30;
        }
        reported += has_bad ? 0 : count;
        ties_batch_end(ties, has_bad ? TIE_REJECTED : TIE_REPORTED);
    }
    assert_int_equal(reported, 149);
    assert_in_range(rounds, 1, 40);
    /* It is tried until its time is over. */
    assert_int_equal(ties_batch(ties, 0, deaths), 1);
    ties_batch_end(ties, TIE_REJECTED);
    assert_int_equal(ties_batch(ties, 120 * SECOND_NS, deaths), 0);
    assert_int_equal(ties_counts(ties).too_late, 1);
    ties_free(ties);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            what_a_dead_process_has_tied_is_reported_until_it_is_answered),
        cmocka_unit_test(
            a_death_is_dropped_when_the_session_has_ended_by_itself),
        cmocka_unit_test(what_is_untied_is_not_reported),
        cmocka_unit_test(a_session_is_tied_to_one_process_by_its_word),
        cmocka_unit_test(a_user_has_a_share_of_the_processes),
        cmocka_unit_test(a_process_has_a_bound_of_ties),
        cmocka_unit_test(a_supervisor_reports_a_death_once),
        cmocka_unit_test(the_end_of_a_connection_is_no_death),
        cmocka_unit_test(a_user_has_a_share_of_the_ties),
        cmocka_unit_test(a_batch_has_deaths_of_each_user),
        cmocka_unit_test(a_death_that_is_refused_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
