/* SPDX-License-Identifier: MIT */

/* Deficit round robin over payers, and plain round robin over the claims of
 * each. */

#include "base/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"

/* The most payers whose debts a turn checks. */
#define OWING_PER_TURN 64
/* Skipping a payer in debt takes some 20 ns. */
#define SKIPPED_PER_UNIT 50
#define ORIGIN_BIT (UINT64_C(1) << 63)

struct account_payer {
    UT_hash_handle by_key;
    uint64_t key;
    struct list
        in_ring; /* In the ring while it has resting claims or a debt. */
    /* Resting claims: those that have had a turn since they rest, and the
     * others. The first of each list is next. */
    struct list claims;
    struct list fresh;
    bool was_fresh;       /* The last served claim was a fresh one. */
    uint32_t claim_count; /* All joined claims. */
    int64_t credit;       /* Negative: a debt. */
    uint64_t idle_count;  /* The account's, when the credit was last used. */
};

void account_init(struct account *account, uint64_t units,
                  uint64_t (*clock)(void))
{
    CHECK(units > 0);
    *account = (struct account){
        .units = units, .left = (int64_t)units, .clock = clock};
    list_init(&account->ring);
    list_init(&account->owing);
    list_init(&account->unserved);
    list_init(&account->served);
    list_init(&account->overdue);
}

/* Forgives a debt from before a turn with time left for everybody. Called
 * before the credit is used. */
static void account_forgive(const struct account *account,
                            struct account_payer *payer)
{
    if (payer->idle_count != account->idle_count) {
        payer->idle_count = account->idle_count;
        payer->credit = payer->credit < 0 ? 0 : payer->credit;
    }
}

static bool has_claims(const struct account_payer *payer)
{
    return !list_is_empty(&payer->claims) || !list_is_empty(&payer->fresh);
}

static void free_payer(struct account *account, struct account_payer *payer)
{
    CHECK(payer->claim_count == 0 && !has_claims(payer));
    list_remove(&payer->in_ring);
    HASH_DELETE(by_key, account->payers, payer);
    free(payer);
}

void account_done(struct account *account)
{
    CHECK(list_is_empty(&account->ring) && !account_has_resting(account));
    while (!list_is_empty(&account->owing)) {
        free_payer(account,
                   LIST_FIRST(&account->owing, struct account_payer, in_ring));
    }
    CHECK(account->payers == NULL);
}

/* A payer without claims is kept while it has a debt; otherwise reconnecting
 * would cancel the debt. */
static void drop_payer(struct account *account, struct account_payer *payer)
{
    list_remove(&payer->in_ring);
    account_forgive(account, payer);
    if (payer->credit >= 0) {
        free_payer(account, payer);
    } else {
        list_push_back(&account->owing, &payer->in_ring);
    }
}

static void let_pay(struct account *account)
{
    for (int i = 0; i < OWING_PER_TURN && !list_is_empty(&account->owing);
         i++) {
        struct account_payer *payer = LIST_FIRST(&account->owing,
                                                 struct account_payer, in_ring);
        payer->credit += ACCOUNT_QUANTUM;
        drop_payer(account, payer);
    }
}

void account_begin(struct account *account, uint64_t read_ns)
{
    int64_t units = (int64_t)account->units;
    int64_t over = account->left < 0 ? -account->left : 0;
    account->idle_count += account_is_open(account) ? 1 : 0;
    account->left = units - (over < units / 2 ? over : units / 2);
    account->read_ns = read_ns;
    let_pay(account);
}

static struct account_payer *find_payer(struct account *account, uint64_t key)
{
    struct account_payer *payer;
    HASH_FIND(by_key, account->payers, &key, sizeof key, payer);
    if (payer == NULL) {
        payer = memory_new(sizeof *payer);
        payer->key = key;
        payer->idle_count = account->idle_count;
        list_init(&payer->in_ring);
        list_init(&payer->claims);
        list_init(&payer->fresh);
        HASH_ADD(by_key, account->payers, key, sizeof payer->key, payer);
    }
    return payer;
}

/* Puts the claim after the other fresh ones of its payer. */
static void account_line_up(struct account *account,
                            struct account_claim *claim)
{
    struct account_payer *payer = claim->payer;
    if (!has_claims(payer)) {
        list_remove(&payer->in_ring);
        list_push_back(&account->ring, &payer->in_ring);
    }
    list_push_back(&payer->fresh, &claim->in_payer);
}

/* Removes the claim from its payer, which leaves the ring with its last claim.
 */
static void step_out(struct account_claim *claim)
{
    list_remove(&claim->in_payer);
    if (!has_claims(claim->payer)) {
        list_remove(&claim->payer->in_ring);
        /* Only waiting claims have credit, so that none can save it up. */
        if (claim->payer->credit > 0) {
            claim->payer->credit = 0;
        }
    }
}

void account_join(struct account *account, struct account_claim *claim,
                  uint64_t key, account_serve_fn *serve)
{
    struct account_payer *former = claim->payer;
    bool rests = former != NULL && account_rests(claim);
    if (former != NULL && former->key == key) {
        return;
    }
    if (former == NULL) {
        list_init(&claim->in_payer);
        list_init(&claim->in_account);
        claim->serve = serve;
    } else if (rests) {
        step_out(claim);
    }
    claim->payer = find_payer(account, key);
    claim->payer->claim_count++;
    list_remove(&claim->payer->in_ring);
    if (has_claims(claim->payer)) {
        list_push_back(&account->ring, &claim->payer->in_ring);
    }
    if (rests) {
        account_line_up(account, claim);
    }
    /* Last: the claim has left its queues by now. */
    if (former != NULL && --former->claim_count == 0) {
        drop_payer(account, former);
    }
}

void account_leave(struct account *account, struct account_claim *claim)
{
    struct account_payer *payer = claim->payer;
    if (payer == NULL) {
        return;
    }
    account_wake(claim);
    claim->payer = NULL;
    CHECK(payer->claim_count > 0);
    if (--payer->claim_count == 0) {
        drop_payer(account, payer);
    }
}

uint64_t account_key_of_user(uint64_t user)
{
    return user & ~ORIGIN_BIT;
}

uint64_t account_key_of_origin(const char *origin)
{
    return hash_bytes(origin, strlen(origin)) | ORIGIN_BIT;
}

bool account_is_spent(const struct account *account)
{
    return account->left <= 0;
}

bool account_is_open(const struct account *account)
{
    return account->left > 0 && !account_has_resting(account);
}

bool account_rests(const struct account_claim *claim)
{
    return claim->payer != NULL && !list_is_empty(&claim->in_account);
}

/* The input may have arrived at any time since everything was read. */
void account_rest(struct account *account, struct account_claim *claim)
{
    CHECK(claim->payer != NULL);
    if (account_rests(claim)) {
        return;
    }
    claim->since_ns = account->read_ns;
    claim->since_ran_ns = account->ran_ns;
    list_push_back(&account->unserved, &claim->in_account);
    account_line_up(account, claim);
    account->rested_count++;
}

void account_wake(struct account_claim *claim)
{
    if (account_rests(claim)) {
        list_remove(&claim->in_account);
        step_out(claim);
    }
}

void account_start(struct account *account)
{
    account->at_hand = 0;
    account->clock_at = account->clock != NULL ? account->clock() : 0;
}

void account_count(struct account *account, uint64_t units)
{
    account->at_hand += units;
}

/* Takes the units from the turn, and returns them. */
static int64_t account_take(struct account *account)
{
    uint64_t units = account->at_hand;
    if (account->clock != NULL) {
        uint64_t now = account->clock();
        CHECK(now >= account->clock_at);
        units = now - account->clock_at > units ? now - account->clock_at
                                                : units;
        account->clock_at = now;
    }
    account->at_hand = 0;
    /* A pause of the process is charged as work, so a debt needs a bound. */
    units = units < ACCOUNT_DEBT_MAX ? units : ACCOUNT_DEBT_MAX;
    account->left -= (int64_t)units;
    return (int64_t)units;
}

static void account_pay(const struct account *account,
                        struct account_payer *payer, int64_t units)
{
    account_forgive(account, payer);
    payer->credit -= units;
    if (payer->credit < -ACCOUNT_DEBT_MAX) {
        payer->credit = -ACCOUNT_DEBT_MAX;
    }
}

void account_charge(struct account *account, struct account_claim *claim)
{
    int64_t units = account_take(account);
    if (claim != NULL) {
        claim->credit -= units;
    }
    if (claim != NULL && claim->payer != NULL) {
        account_pay(account, claim->payer, units);
    }
}

uint64_t account_charge_key(struct account *account, uint64_t key)
{
    int64_t units = account_take(account);
    struct account_payer *payer = find_payer(account, key);
    account_pay(account, payer, units);
    if (payer->claim_count == 0) {
        drop_payer(account, payer); /* It is kept while it owes. */
    }
    return (uint64_t)units;
}

/* The claim of the payer that is served next. */
static struct account_claim *account_choose(struct account_payer *payer)
{
    bool is_fresh = list_is_empty(&payer->claims) ||
                    (!payer->was_fresh && !list_is_empty(&payer->fresh));
    payer->was_fresh = is_fresh;
    return LIST_ENTRY(is_fresh ? payer->fresh.next : payer->claims.next,
                      struct account_claim, in_payer);
}

/* Serves one request of a claim, which then goes to the end of the line if it
 * has had its share. */
static void account_serve_one(struct account *account,
                              struct account_payer *payer, uint64_t now_ns)
{
    struct account_claim *claim = account_choose(payer);
    if (claim->credit <= 0) {
        claim->credit = ACCOUNT_QUANTUM;
    }
    list_remove(&claim->in_account);
    list_push_back(&account->served, &claim->in_account);
    claim->since_ns = now_ns;
    claim->since_ran_ns = account->ran_ns;
    account->served_count++;
    bool has_more = claim->serve(claim);
    account_charge(account, claim);
    if (!has_more) {
        account_wake(claim);
    } else if (claim->credit <= 0 && account_rests(claim)) {
        list_remove(&claim->in_payer);
        list_push_back(&claim->payer->claims, &claim->in_payer);
    }
}

/* Serves a payer's share of one round; returns the number of served requests.
 */
static uint32_t serve_payer(struct account *account,
                            struct account_payer *payer, uint64_t now_ns)
{
    uint32_t count = 0;
    account_forgive(account, payer);
    payer->credit += ACCOUNT_QUANTUM;
    payer->claim_count++; /* Otherwise the payer could be freed with its last
                             claim. */
    while (payer->credit > 0 && has_claims(payer) &&
           (count == 0 || !account_is_spent(account))) {
        account_serve_one(account, payer, now_ns);
        count++;
    }
    if (--payer->claim_count == 0) {
        drop_payer(account, payer);
    }
    return count;
}

/* Moves claims that have waited for too long. Each list is in the order of
 * their times. */
static void move_overdue(struct account *account, struct list *claims)
{
    struct account_claim *claim;
    while ((claim = LIST_FIRST(claims, struct account_claim, in_account)) !=
               NULL &&
           account->ran_ns - claim->since_ran_ns > ACCOUNT_WAIT_NS) {
        list_remove(&claim->in_account);
        list_push_back(&account->overdue, &claim->in_account);
    }
}

static void account_ran_until(struct account *account, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > account->serve_ns ? now_ns - account->serve_ns
                                                    : 0;
    account->serve_ns = now_ns;
    account->ran_ns += u64_min(passed_ns, ACCOUNT_TURN_NS);
}

void account_serve(struct account *account, uint64_t now_ns)
{
    uint32_t skipped = 0;
    struct list round;
    list_init(&round);
    account_ran_until(account, now_ns);
    account_start(account);
    do {
        /* Claims that begin to rest meanwhile wait for the next round. */
        while (!list_is_empty(&account->ring)) {
            struct list *node = account->ring.next;
            list_remove(node);
            list_push_back(&round, node);
        }
        while (!list_is_empty(&round)) {
            struct list *node = round.next;
            list_remove(node);
            list_push_back(&account->ring, node);
            struct account_payer *payer = LIST_ENTRY(node, struct account_payer,
                                                     in_ring);
            if (serve_payer(account, payer, now_ns) == 0 &&
                ++skipped % SKIPPED_PER_UNIT == 0) {
                account->left--;
            }
        }
    } while (!account_is_spent(account) && !list_is_empty(&account->ring));
    move_overdue(account, &account->unserved);
    move_overdue(account, &account->served);
}

bool account_has_resting(const struct account *account)
{
    return !list_is_empty(&account->unserved) ||
           !list_is_empty(&account->served) ||
           !list_is_empty(&account->overdue);
}

static uint64_t first_since(const struct list *claims)
{
    const struct account_claim *first = LIST_FIRST(claims, struct account_claim,
                                                   in_account);
    return first != NULL ? first->since_ns : UINT64_MAX;
}

uint64_t account_waiting_ns(const struct account *account)
{
    uint64_t unserved = first_since(&account->unserved);
    uint64_t served = first_since(&account->served);
    return unserved < served ? unserved : served;
}
