/* SPDX-License-Identifier: MIT */

/* base/account: which requests are served if a turn has too little time for
 * all. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/minmax.h"
#include "base/units.h"

#define UNITS 1000

struct source {
    struct account_claim claim;
    struct account *account;
    uint64_t left;   /* Requests that wait. */
    uint64_t cost;   /* Cost of each. */
    uint64_t served; /* How many were served. */
    uint64_t rekey;  /* Its user once it is served; 0: unchanged. */
};

static bool serve(struct account_claim *claim)
{
    struct source *source = (struct source *)claim;
    assert_true(source->left > 0);
    source->left--;
    source->served++;
    account_count(source->account, source->cost);
    if (source->rekey != 0) {
        account_join(source->account, claim, account_key_of_user(source->rekey),
                     serve);
    }
    return source->left > 0;
}

static void join(struct account *account, struct source *source, uint64_t user,
                 uint64_t requests, uint64_t cost)
{
    *source = (struct source){
        .account = account, .left = requests, .cost = cost};
    account_join(account, &source->claim, account_key_of_user(user), serve);
    account_rest(account, &source->claim);
}

static void turn(struct account *account, uint64_t now_ns)
{
    account_begin(account, now_ns);
    account_serve(account, now_ns);
}

static void a_user_with_many_connections_has_one_share(void **state)
{
    (void)state;
    struct account account;
    struct source many[50], lone;
    account_init(&account, UNITS, NULL);
    for (int i = 0; i < 50; i++) {
        join(&account, &many[i], 1, 100000, 1);
    }
    join(&account, &lone, 2, 100000, 1);
    for (uint64_t i = 0; i < 20; i++) {
        turn(&account, i);
    }
    uint64_t total = 0;
    for (int i = 0; i < 50; i++) {
        total += many[i].served;
        assert_in_range(many[i].served, 100, 500);
        account_leave(&account, &many[i].claim);
    }
    assert_in_range(lone.served, 9000, 11000);
    assert_in_range(total, 9000, 11000);
    account_leave(&account, &lone.claim);
    account_done(&account);
}

static void each_payer_has_one_request_in_a_turn_that_is_spent(void **state)
{
    (void)state;
    struct account account;
    struct source sources[500];
    account_init(&account, UNITS, NULL);
    for (uint64_t i = 0; i < 500; i++) {
        join(&account, &sources[i], 1 + i, 10, 1);
    }
    turn(&account, 1);
    for (int i = 0; i < 500; i++) {
        assert_true(sources[i].served >= 1);
        account_leave(&account, &sources[i].claim);
    }
    account_done(&account);
}

static void a_dear_request_is_a_debt(void **state)
{
    (void)state;
    struct account account;
    struct source dear, cheap;
    account_init(&account, UNITS, NULL);
    join(&account, &dear, 1, 1000, 1000);
    join(&account, &cheap, 2, 100000, 1);
    for (uint64_t i = 0; i < 100; i++) {
        turn(&account, i);
    }
    /* Both have received the same. */
    assert_in_range(dear.served * 1000, cheap.served / 2, cheap.served * 2);
    assert_true(dear.served >= 2);
    account_leave(&account, &cheap.claim);
    /* The debt also survives the connection. */
    uint64_t before = dear.served;
    account_leave(&account, &dear.claim);
    join(&account, &dear, 1, 1000, 1000);
    join(&account, &cheap, 2, 100000, 1);
    turn(&account, 200);
    assert_true(before >= 2 && dear.served <= 1);
    account_leave(&account, &dear.claim);
    account_leave(&account, &cheap.claim);
    account_done(&account);
}

static void who_owes_alone_is_served(void **state)
{
    (void)state;
    struct account account;
    struct source dear;
    account_init(&account, UNITS, NULL);
    join(&account, &dear, 1, 10, 1000);
    for (uint64_t i = 0; i < 200 && dear.left > 0; i++) {
        turn(&account, i);
    }
    assert_int_equal(dear.left, 0);
    assert_false(account_has_resting(&account));
    account_leave(&account, &dear.claim);
    account_done(&account);
}

/* A client that has been there for long owes nothing when another one begins to
 * flood, or it would be passed over for hundreds of rounds. */
static void what_was_spent_in_idle_turns_is_no_debt(void **state)
{
    (void)state;
    struct account account;
    struct source old, flood;
    account_init(&account, UNITS, NULL);
    join(&account, &old, 1, 1, 1);
    turn(&account, 0);
    assert_false(account_has_resting(&account));
    for (uint64_t i = 1; i <= 1000; i++) {
        account_begin(&account, i);
        account_start(&account);
        account_count(&account, 100);
        account_charge(&account, &old.claim);
        account_count(&account, 100);
        account_charge_key(&account, account_key_of_user(3)); /* No claim. */
    }
    join(&account, &flood, 2, 100000, 100);
    old.left = 1;
    account_rest(&account, &old.claim);
    turn(&account, 1001);
    assert_int_equal(old.left, 0);
    account_leave(&account, &old.claim);
    account_leave(&account, &flood.claim);
    account_done(&account);
}

static void who_asks_now_and_then_passes_those_that_flood(void **state)
{
    (void)state;
    struct account account;
    struct source many[300], lone;
    account_init(&account, UNITS, NULL);
    for (int i = 0; i < 300; i++) {
        join(&account, &many[i], 1, 100000, 10);
    }
    for (uint64_t i = 0; i < 100; i++) {
        turn(&account, i);
    }
    /* Of the same payer. */
    join(&account, &lone, 1, 1, 1);
    turn(&account, 100);
    assert_int_equal(lone.left, 0);
    for (int i = 0; i < 300; i++) {
        account_leave(&account, &many[i].claim);
    }
    account_leave(&account, &lone.claim);
    account_done(&account);
}

static void what_is_overdrawn_is_taken_from_the_next_turn(void **state)
{
    (void)state;
    struct account account;
    struct source source;
    account_init(&account, UNITS, NULL);
    join(&account, &source, 1, 1, UNITS + 300);
    turn(&account, 1);
    assert_true(account_is_spent(&account));
    account_begin(&account, 2);
    assert_int_equal(account.left, UNITS - 300);
    account_count(&account, 100000);
    account_charge(&account, &source.claim);
    account_begin(&account, 3);
    assert_int_equal(account.left, UNITS / 2);
    account_leave(&account, &source.claim);
    account_done(&account);
}

static void what_was_read_is_told(void **state)
{
    (void)state;
    struct account account;
    struct source first, second;
    account_init(&account, UNITS, NULL);
    assert_int_equal(account_waiting_ns(&account), UINT64_MAX);
    account_begin(&account, 1000);
    assert_true(account_is_open(&account));
    join(&account, &first, 1, 100000, 1);
    assert_false(account_is_open(&account));
    assert_int_equal(account_waiting_ns(&account), 1000);
    account_serve(&account, 2000);
    assert_int_equal(account_waiting_ns(&account), 2000);
    account_begin(&account, 1500);
    join(&account, &second, 2, 1, 1);
    /* It may have arrived before it was noticed. */
    assert_int_equal(account_waiting_ns(&account), 1500);
    account_serve(&account, 3000);
    assert_int_equal(second.left, 0);
    assert_int_equal(account_waiting_ns(&account), 3000);
    account_leave(&account, &first.claim);
    account_leave(&account, &second.claim);
    assert_int_equal(account_waiting_ns(&account), UINT64_MAX);
    account_done(&account);
}

#define TURN_NS (2 * NS_PER_MS)

/* Each of a user's connections waits for the others, for longer than others may
 * wait for the end of a dead holder. */
static void connections_of_one_payer_hold_back_no_deadline(void **state)
{
    enum { COUNT = 8000 };
    static struct source many[COUNT];
    (void)state;
    struct account account;
    uint64_t longest_ns = 0;
    account_init(&account, 2000, NULL);
    account_begin(&account, 0);
    for (int i = 0; i < COUNT; i++) {
        join(&account, &many[i], 1, 100000, 250);
    }
    for (uint64_t now = 0; now < 4 * NS_PER_S; now += TURN_NS) {
        turn(&account, now);
        longest_ns = u64_max(longest_ns, now - account_waiting_ns(&account));
    }
    assert_in_range(longest_ns, ACCOUNT_WAIT_NS / 2,
                    ACCOUNT_WAIT_NS + 100 * NS_PER_MS);
    /* It still counts those that were served since. */
    assert_true(account_has_resting(&account));
    for (int i = 0; i < COUNT; i++) {
        assert_true(many[i].served > 0);
        account_leave(&account, &many[i].claim);
    }
    assert_false(account_has_resting(&account));
    account_done(&account);
}

/* A loop that stands still reads nothing, so that is not their doing. */
static void a_stall_does_not_make_connections_wait_too_long(void **state)
{
    enum { COUNT = 300 };
    struct source many[COUNT];
    (void)state;
    struct account account;
    account_init(&account, 2000, NULL);
    account_begin(&account, 1000);
    for (int i = 0; i < COUNT; i++) {
        join(&account, &many[i], 1, 100000, 250);
    }
    turn(&account, 1000 + TURN_NS);
    turn(&account, 10 * NS_PER_S);
    assert_int_equal(account_waiting_ns(&account), 1000);
    for (int i = 0; i < COUNT; i++) {
        account_leave(&account, &many[i].claim);
    }
    account_done(&account);
}

static void who_has_said_who_he_is_pays_for_himself(void **state)
{
    (void)state;
    struct account account;
    struct source one, other;
    account_init(&account, UNITS, NULL);
    join(&account, &one, 1, 100000, 1);
    join(&account, &other, 1, 100000, 1);
    one.rekey = 7;
    for (uint64_t i = 0; i < 20; i++) {
        turn(&account, i);
    }
    assert_in_range(one.served, 9000, 11000);
    assert_in_range(other.served, 9000, 11000);
    /* Alone at its former payer, while that is served. */
    other.rekey = 8;
    turn(&account, 30);
    account_leave(&account, &one.claim);
    account_leave(&account, &other.claim);
    account_done(&account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_with_many_connections_has_one_share),
        cmocka_unit_test(each_payer_has_one_request_in_a_turn_that_is_spent),
        cmocka_unit_test(a_dear_request_is_a_debt),
        cmocka_unit_test(who_owes_alone_is_served),
        cmocka_unit_test(what_was_spent_in_idle_turns_is_no_debt),
        cmocka_unit_test(who_asks_now_and_then_passes_those_that_flood),
        cmocka_unit_test(what_is_overdrawn_is_taken_from_the_next_turn),
        cmocka_unit_test(what_was_read_is_told),
        cmocka_unit_test(connections_of_one_payer_hold_back_no_deadline),
        cmocka_unit_test(a_stall_does_not_make_connections_wait_too_long),
        cmocka_unit_test(who_has_said_who_he_is_pays_for_himself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
