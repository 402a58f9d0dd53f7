/* SPDX-License-Identifier: MIT */

/* Who pays for the work on a request: the account of a turn at the leader. */

#include "base/account.h"
#include "core/state.h"
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

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, users_set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_forward_is_charged_to_its_user_at_the_leader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
