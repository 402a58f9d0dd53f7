/* SPDX-License-Identifier: MIT */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "raft/confirm.h"
#include "raft/log.h"
#include "raft/members.h"
#include "raft/pending_writes.h"

/* --- The cache of payloads ------------------------------------------------ */

static uint8_t byte_of(uint64_t term, uint64_t log_index)
{
    return (uint8_t)(term * 31 + log_index * 7);
}

static size_t size_of(uint64_t log_index)
{
    return log_index % 5 == 0 ? 0 : log_index % 300;
}

static void append(struct log *log, uint64_t term, uint32_t count)
{
    static uint8_t bodies[100][300];
    struct replica_entry entries[100];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t log_index = log_last(log) + 1 + i;
        memset(bodies[i], byte_of(term, log_index), sizeof bodies[i]);
        entries[i] = (struct replica_entry){
            .term = term,
            .type = ENTRY_COMMAND,
            .body = bytes_of(bodies[i], size_of(log_index)),
        };
    }
    log_append(log, entries, count);
    memset(bodies, 0, sizeof bodies); /* They were copied. */
}

static void check_all(const struct log *log, const uint64_t *terms)
{
    uint64_t size = 0;
    for (uint64_t i = log_last(log); i > log->base; i--) {
        struct replica_entry entry = log_entry(log, i);
        assert_int_equal(entry.log_index, i);
        assert_int_equal(entry.term, terms[i]);
        assert_int_equal(log_term(log, i), terms[i]);
        assert_int_equal(entry.body.size, size_of(i));
        for (size_t j = 0; j < entry.body.size; j++) {
            assert_int_equal(entry.body.data[j], byte_of(entry.term, i));
        }
        assert_int_equal(log_size_above(log, i), size);
        size += entry.body.size;
    }
    assert_int_equal(log_size_above(log, log->base), size);
    assert_int_equal(log_size_above(log, 0), size);
    assert_int_equal(log_term(log, log->base), 0);
    assert_int_equal(log_term(log, log_last(log) + 1), 0);
}

static void the_cache_follows_a_model(void **state)
{
    static uint64_t terms[100000];
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct prng prng = {.state = seed};
        struct log log = {0};
        uint64_t term = 1;
        for (int step = 0; step < 300; step++) {
            uint64_t last = log_last(&log);
            switch (prng_below(&prng, 6)) {
            case 0:
                term++;
                break;
            case 1:
                if (last > log.base) {
                    uint64_t from = log.base + 1 +
                                    prng_below(&prng, last - log.base);
                    log_truncate(&log, from);
                    assert_int_equal(log_last(&log), from - 1);
                }
                break;
            case 2:
                log_trim(&log,
                         log.base + prng_below(&prng, last - log.base + 1));
                assert_int_equal(log_last(&log), last);
                break;
            case 3:
                if (prng_below(&prng, 20) == 0) {
                    log_reset(&log, last + prng_below(&prng, 50));
                }
                break;
            default: {
                uint32_t count = (uint32_t)prng_below(&prng, 100);
                append(&log, term, count);
                for (uint32_t i = 0; i < count; i++) {
                    terms[last + 1 + i] = term;
                }
                assert_int_equal(log_last(&log), last + count);
            }
            }
            if (step % 10 == 0) {
                check_all(&log, terms);
            }
        }
        check_all(&log, terms);
        log_done(&log);
    }
}

static void a_great_append_is_kept_in_several_blocks(void **state)
{
    struct log log = {0};
    uint8_t *body = calloc(1, 700000);
    struct replica_entry entries[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        entries[i] = (struct replica_entry){
            .term = 1, .type = ENTRY_COMMAND, .body = bytes_of(body, 700000)};
    }
    log_append(&log, entries, 3);
    assert_ptr_not_equal(log_slot(&log, 1)->batch, log_slot(&log, 2)->batch);
    log_trim(&log, 2);
    assert_int_equal(log_size_above(&log, 0), 700000);
    log_done(&log);
    free(body);
}

static void one_append_makes_one_block(void **state)
{
    struct log log = {0};
    (void)state;
    append(&log, 1, 90);
    for (uint64_t i = 2; i <= 90; i++) {
        assert_ptr_equal(log_slot(&log, i)->batch, log_slot(&log, 1)->batch);
    }
    log_done(&log);
}

/* --- The order of writes -------------------------------------------------- */

static void queue(struct pending_writes *written, uint64_t term, uint64_t first,
                  uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        pending_writes_queue(written, term, i);
    }
}

static void completions_are_taken_in_the_order_of_writes(void **state)
{
    struct pending_writes written = {0};
    (void)state;
    queue(&written, 1, 2, 9);
    assert_int_equal(pending_writes_complete(&written, 1, 4), 4);
    assert_int_equal(pending_writes_complete(&written, 1, 4), 0);
    assert_int_equal(pending_writes_complete(&written, 2, 6), 0);
    assert_int_equal(pending_writes_complete(&written, 1, 10), 0);
    queue(&written, 2, 10, 12);
    assert_int_equal(pending_writes_complete(&written, 2, 11), 11);
    assert_int_equal(pending_writes_complete(&written, 1, 9), 0);
    assert_int_equal(pending_writes_complete(&written, 2, 12), 12);
    assert_int_equal(written.count, 0);
    pending_writes_done(&written);
}

static void a_replaced_write_counts_only_below_its_replacement(void **state)
{
    struct pending_writes written = {0};
    (void)state;
    queue(&written, 1, 2, 9);
    queue(&written, 3, 6, 7);
    assert_int_equal(pending_writes_complete(&written, 1, 9), 5);
    assert_int_equal(pending_writes_complete(&written, 3, 7), 7);
    queue(&written, 3, 8, 8);
    queue(&written, 4, 8, 8);
    queue(&written, 3, 8, 8); /* Whatever the reason: the same again. */
    assert_int_equal(pending_writes_complete(&written, 3, 8), 7);
    assert_int_equal(pending_writes_complete(&written, 3, 8), 8);
    assert_int_equal(pending_writes_complete(&written, 4, 8), 0);
    queue(&written, 5, 9, 10);
    pending_writes_clear(&written);
    assert_int_equal(pending_writes_complete(&written, 5, 10), 0);
    pending_writes_done(&written);
}

/* --- Configurations ------------------------------------------------------- */

static struct replica_members make(uint32_t voters, uint32_t standbys)
{
    struct replica_members members = {.count = voters + standbys};
    for (uint32_t i = 0; i < members.count; i++) {
        members.member[i].id = i + 1;
        members.member[i].incarnation = i + 1;
        members.member[i].role = i < voters ? MEMBER_VOTER : MEMBER_STANDBY;
        snprintf(members.member[i].address, MEMBER_ADDRESS_SIZE, "h%u:1,h%u:2",
                 i, i);
    }
    return members;
}

static void the_history_follows_the_log(void **state)
{
    struct members_history history = {0};
    struct replica_members one = make(1, 0);
    struct replica_members two = make(2, 0);
    struct replica_members three = make(3, 0);
    (void)state;
    assert_null(members_history_at(&history, 9));
    members_history_put(&history, 1, &one);
    members_history_put(&history, 5, &two);
    members_history_put(&history, 8, &three);
    assert_null(members_history_at(&history, 0));
    assert_int_equal(members_history_at(&history, 4)->members.count, 1);
    assert_int_equal(members_history_at(&history, 5)->log_index, 5);
    assert_int_equal(members_history_at(&history, 7)->members.count, 2);
    members_history_truncate(&history, 8);
    assert_int_equal(members_history_at(&history, 9)->log_index, 5);
    members_history_put(&history, 9, &three);
    members_history_trim(&history, 6);
    assert_int_equal(history.count, 2);
    assert_int_equal(members_history_at(&history, 6)->log_index, 5);
    members_history_trim(&history, 100);
    assert_int_equal(history.count, 1);
    assert_int_equal(members_history_at(&history, 100)->log_index, 9);
    members_history_done(&history);
}

static void who_votes_is_counted(void **state)
{
    struct replica_members members = make(1, 2);
    (void)state;
    assert_int_equal(members_voter_count(&members), 1);
    members.member[2].role = MEMBER_VOTER;
    assert_int_equal(members_voter_count(&members), 2);
}

/* --- Questions ------------------------------------------------------------ */

static void a_later_answer_answers_all_before(void **state)
{
    struct confirm confirm = {0};
    struct replica_members members = make(5, 2);
    (void)state;
    confirm_begin(&confirm, 7);
    for (int i = 0; i < 3; i++) {
        (void)confirm_ask(&confirm);
    }
    confirm_take(&confirm, 1, 7, 3);
    confirm_take(&confirm, 2, 7, 1);
    assert_int_equal(confirm_count(&confirm, &members), 0);
    confirm_take(&confirm, 6, 7, 3); /* A standby's does not count. */
    assert_int_equal(confirm_count(&confirm, &members), 0);
    confirm_take(&confirm, 3, 7, 2);
    assert_int_equal(confirm_count(&confirm, &members), 1);
    confirm_take(&confirm, 2, 7, 3);
    assert_int_equal(confirm_count(&confirm, &members), 2);
    confirm_take(&confirm, 2, 7, 1); /* Late: it takes nothing back. */
    assert_int_equal(confirm_count(&confirm, &members), 2);
    confirm_take(&confirm, 3, 7, 4); /* Was never asked. */
    confirm_take(&confirm, 3, 8, 3);
    assert_int_equal(confirm_count(&confirm, &members), 2);
    members = make(2, 0);
    confirm_keep(&confirm, &members);
    assert_int_equal(confirm_answered(&confirm, 3), 0);
    assert_int_equal(confirm_count(&confirm, &members), 3);
    confirm_begin(&confirm, 0);
    confirm_take(&confirm, 1, 0, 3);
    assert_int_equal(confirm_count(&confirm, &members), 0);
    confirm_begin(&confirm, 9);
    assert_int_equal(confirm_ask(&confirm), 4);
    confirm_take(&confirm, 1, 9, 3); /* The number of another term. */
    assert_int_equal(confirm_answered(&confirm, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_follows_a_model),
        cmocka_unit_test(a_great_append_is_kept_in_several_blocks),
        cmocka_unit_test(one_append_makes_one_block),
        cmocka_unit_test(completions_are_taken_in_the_order_of_writes),
        cmocka_unit_test(a_replaced_write_counts_only_below_its_replacement),
        cmocka_unit_test(the_history_follows_the_log),
        cmocka_unit_test(who_votes_is_counted),
        cmocka_unit_test(a_later_answer_answers_all_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
