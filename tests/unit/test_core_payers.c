/* SPDX-License-Identifier: MIT */

/* Who pays for the work on a request: the account of a turn. */

#include "base/account.h"
#include "core/state.h"
#include "http/exchange.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_users.h"
#include "tests/unit/core_world.h"

struct payer_source {
    struct account_claim claim; /* First: the claim is the source. */
    struct account *account;
    uint32_t served;
};

static bool payer_serve(struct account_claim *claim)
{
    struct payer_source *source = (struct payer_source *)claim;
    source->served++;
    account_count(source->account, ACCOUNT_QUANTUM);
    return true;
}

static void payer_join(struct payer_source *source, struct account *account,
                       const char *user)
{
    const struct user *who = lockfsm_user_named(world->node[leader].core->fsm,
                                                bytes_of_text(user));
    *source = (struct payer_source){.account = account};
    account_join(account, &source->claim, account_key_of_user(who->number),
                 payer_serve);
    account_rest(account, &source->claim);
}

/* What a user does by way of a follower is its work at the leader, although it
 * was served at once: from then on others are served before it. */
static void a_forward_is_charged_to_its_user_at_the_leader(void **state)
{
    (void)state;
    enum { FORWARDS = 50, UNITS = 100000 };
    struct account account;
    struct payer_source app, web;
    make_user("app", "lock,read:*");
    make_user("web", "lock,read:*");
    world_run(world, 100);
    come_as(follower, APP, "app");
    account_init(&account, UNITS, NULL);
    world->node[leader].core->options.account = &account;
    for (int i = 0; i < FORWARDS; i++) {
        client_ask(world, follower, APP, "EVAL %s 0", "return");
    }
    world->node[leader].core->options.account = NULL;
    int64_t spent = UNITS - account.left;
    assert_true(spent >= FORWARDS);
    /* No time is left, so the debt stays. */
    account_count(&account, UNITS);
    account_charge(&account, NULL);
    payer_join(&app, &account, "app");
    payer_join(&web, &account, "web");
    account.units = (uint64_t)spent;
    account_begin(&account, 1);
    account_serve(&account, 1);
    assert_int_equal(app.served, 0);
    assert_true(web.served > 0);
    account_leave(&account, &app.claim);
    account_leave(&account, &web.claim);
    account_done(&account);
}

static uint64_t clock_units;

/* Each piece of work takes ten quanta. */
static uint64_t payer_clock(void)
{
    clock_units += 10 * ACCOUNT_QUANTUM;
    return clock_units;
}

/* The events of a turn are made into JSON after it, and sent. */
static void what_streams_are_sent_is_charged_to_their_origin(void **state)
{
    (void)state;
    struct account account;
    struct payer_source watcher, other;
    struct gateway gateway;
    struct gateway_port port = {.account = &account};
    struct exchange stream = {.origin = account_key_of_origin("10.0.0.1")};
    account_init(&account, 5 * ACCOUNT_QUANTUM, payer_clock);
    gateway_open(&gateway, &port, "", true);
    list_init(&stream.in_dirty);
    list_push_back(&gateway.dirty, &stream.in_dirty);
    gateway_flush(&gateway);
    gateway_done(&gateway);
    account.clock = NULL;
    watcher = (struct payer_source){.account = &account};
    other = (struct payer_source){.account = &account};
    account_join(&account, &watcher.claim, stream.origin, payer_serve);
    account_join(&account, &other.claim, account_key_of_origin("10.0.0.2"),
                 payer_serve);
    account_rest(&account, &watcher.claim);
    account_rest(&account, &other.claim);
    account_begin(&account, 1);
    account_serve(&account, 1);
    assert_int_equal(watcher.served, 0);
    assert_true(other.served > 0);
    account_leave(&account, &watcher.claim);
    account_leave(&account, &other.claim);
    account_done(&account);
}

/* Each read takes ten quanta, a turn has eight of those for reads, and the
 * world makes up to eight turns at a time. */
static void a_turn_ends_when_its_reads_have_taken_long(void **state)
{
    (void)state;
    enum { READS = 400, AT_ONCE = 8 * 8 };
    struct account account;
    struct world_node *node = &world->node[leader];
    size_t size = strlen(client_ask(world, leader, ADMIN, "LOCK.CHECK a 1"));
    account_init(&account, 100000, payer_clock);
    node->core->options.account = &account;
    client_clear(world, leader, ADMIN);
    for (int i = 0; i < READS; i++) {
        client_send(world, leader, ADMIN, "LOCK.CHECK a 1");
    }
    struct buffer *output = &node->client[ADMIN].output;
    for (int i = 0; i < 100 && output->size == 0; i++) {
        world->now_ms++;
        world_step(world);
    }
    assert_in_range(output->size, size, AT_ONCE * size);
    world_run(world, 100);
    assert_int_equal(output->size, READS * size);
    node->core->options.account = NULL;
    account_done(&account);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, users_set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_forward_is_charged_to_its_user_at_the_leader),
        cmocka_unit_test(what_streams_are_sent_is_charged_to_their_origin),
        TEST(a_turn_ends_when_its_reads_have_taken_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
