/* SPDX-License-Identifier: MIT */

/* An account of the work that one turn of a loop does for others, shared fairly
 * among those that it is done for.
 *
 * Work is counted in units. A *payer* is a user, or the origin of those that
 * have not said who they are; a *claim* is one source of work of a payer, as a
 * rule a connection. While units are left and nobody rests, a claim is worked
 * for as its input comes. Otherwise it *rests*, and account_serve() works for
 * it by deficit round robin [M. Shreedhar, G. Varghese, Efficient Fair Queuing
 * Using Deficit Round Robin, 1995]: payers take turns, in each turn a payer has
 * a quantum more to spend, and its claims take turns for a quantum each, since
 * it costs as much to send one answer as twenty. One that has just come to rest
 * has every second turn of its payer's [fq_codel, RFC 8290, 4.2, has such new
 * flows first], so that who asks now and then does not wait for all that flood.
 *
 * However little is left, account_serve() makes one whole round, so a request
 * at the head of its claim waits for one round only. A request that costs more
 * than its payer has is a debt: the payer is passed over until later rounds
 * have paid it. What work cost is known only afterwards, so what a turn
 * overdraws is taken from the next one, but never more than half of that.
 *
 * account_waiting_ns() is the time since which input may lie unread: rule 6 of
 * the leases counts with it.
 *
 * Pure: the times and a clock come in. Threads: one. */

#ifndef HASP_BASE_ACCOUNT_H
#define HASP_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"

/* A unit is about what a microsecond of work costs. */
#define ACCOUNT_QUANTUM 50
/* No payer owes more than this, however dear its requests were. */
#define ACCOUNT_DEBT_MAX 20000

struct account_claim;

/* Works for one request of the claim; true if there may be more. */
typedef bool account_serve_fn(struct account_claim *claim);

/* Zeroed memory is one that has not joined. The owner embeds it. */
struct account_claim {
    struct account_payer *payer; /* NULL: it has not joined. */
    struct list in_payer;        /* While it rests; likewise: */
    struct list in_account;
    uint64_t since_ns; /* Input that came then may lie unread. */
    int64_t credit;    /* Until the next claim of its payer has its turn. */
    account_serve_fn *serve;
};

struct account {
    struct account_payer *payers; /* Hash table by key. */
    struct list ring;             /* Payers with claims that rest. */
    struct list owing;            /* Payers without any, that owe. */
    /* Claims by 'since_ns': those that have not been served since they rest,
     * and the others. */
    struct list unserved;
    struct list served;
    uint64_t units;        /* Of a turn. */
    int64_t left;          /* In this turn; negative: overdrawn. */
    uint64_t at_hand;      /* Counted, and charged to nobody yet. */
    uint64_t clock_at;     /* Up to where time has been charged. */
    uint64_t read_ns;      /* See account_begin(). */
    uint64_t served_count; /* For the metrics. */
    uint64_t rested_count; /* Claims that came to rest. */
    /* Units that have passed, by a clock, or NULL: what is charged then is what
     * was counted. */
    uint64_t (*clock)(void);
};

void account_init(struct account *account, uint64_t units,
                  uint64_t (*clock)(void));
/* All claims have left. */
void account_done(struct account *account);

/* A turn begins. Input of claims that do not rest now has been read as far as
 * it had come by 'read_ns', which never goes back. */
void account_begin(struct account *account, uint64_t read_ns);

/* The claim's work is charged to the payer with this key from now on. May be
 * called again, with another key. */
void account_join(struct account *account, struct account_claim *claim,
                  uint64_t key, account_serve_fn *serve);
void account_leave(struct account *account, struct account_claim *claim);

/* Keys: of a user, and of an origin's text (never 0). */
uint64_t account_key_of_user(uint64_t user);
uint64_t account_key_of_origin(const char *origin);

/* True if work may be done at once: units are left, and nobody rests. */
bool account_is_open(const struct account *account);
bool account_is_spent(const struct account *account);
/* The claim has work, and waits for account_serve(). */
void account_rest(struct account *account, struct account_claim *claim);
bool account_rests(const struct account_claim *claim);
/* It has none any more. */
void account_wake(struct account_claim *claim);

/* Work that is about to be charged begins now. */
void account_start(struct account *account);
/* Something was done that is worth so many units. */
void account_count(struct account *account, uint64_t units);
/* Charges what was counted since, or the time that has passed if that is
 * more. NULL: to nobody but the turn. */
void account_charge(struct account *account, struct account_claim *claim);

/* Serves those that rest: one round, and others while units are left. */
void account_serve(struct account *account, uint64_t now_ns);
bool account_has_resting(const struct account *account);
/* All input that had come by then has been read, or its claim has been served
 * since; UINT64_MAX: nobody rests. */
uint64_t account_waiting_ns(const struct account *account);

#endif /* HASP_BASE_ACCOUNT_H */
