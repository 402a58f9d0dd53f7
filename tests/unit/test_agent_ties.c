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
    ties_batch_end(ties, false);
    assert_int_equal(ties_batch(ties, 0, deaths), 2);
    ties_batch_end(ties, true);
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
    ties_batch_end(ties, false);
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
    ties_remove(ties, ties_find(ties, 10, 1));
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
        ties_batch_end(ties, true);
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
    ties_hear(ties, 5, A, 0); /* Its process lives; the word decides. */
    ties_hear(ties, 5, A, 0);
    ties_hear(ties, 6, B, 0);
    assert_int_equal(ties_batch(ties, 0, deaths), 2);
    ties_batch_end(ties, true);
    ties_remove(ties, process);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
