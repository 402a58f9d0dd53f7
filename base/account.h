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
 * flows first], so that a client with few requests does not wait for those that
 * flood.
 *
 * However little is left, account_serve() makes one whole round, so a request
 * at the head of its claim waits for one round only. A request that costs more
 * than its payer has is a debt: the payer is passed over until later rounds
 * have paid it. After a turn that had time left for everybody, nobody owes
 * anything. Otherwise a client of long standing would be passed over as soon as
 * another one floods. What work cost is known only afterwards, so what a turn
 * overdraws is taken from the next one, but never more than half of that.
 *
 * account_waiting_ns() is the time since which input may lie unread: rule 6 of
 * the leases counts with it. A claim that has waited for ACCOUNT_WAIT_NS of
 * running turns waits for other claims of its own payer, or for its payer's
 * debt: one that is alone is served in each round. It no longer counts until it
 * is served, as else the connections of one payer would delay the end of all
 * dead sessions for as long as one round of them takes.
 *
 * Pure: the times and a clock come in. Threads: one. */

#ifndef HASP_BASE_ACCOUNT_H
#define HASP_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/units.h"

/* A unit is about a microsecond of work. */
#define ACCOUNT_QUANTUM 50
/* The largest debt of a payer, however expensive its requests were. */
#define ACCOUNT_DEBT_MAX 20000
/* Claims that have waited for longer are not waited for. */
#define ACCOUNT_WAIT_NS (500 * NS_PER_MS)
/* A turn counts as no longer than this: in a stall nobody is served. */
#define ACCOUNT_TURN_NS (50 * NS_PER_MS)

struct account_claim;

/* Works for one request of the claim; true if there may be more. */
typedef bool account_serve_fn(struct account_claim *claim);

/* Zeroed memory is a claim that has not joined. The owner embeds it. */
struct account_claim {
    struct account_payer *payer; /* NULL: it has not joined. */
    struct list in_payer;        /* While it rests; likewise: */
    struct list in_account;
    uint64_t since_ns;     /* Input that arrived then may be unread. */
    uint64_t since_ran_ns; /* Value of 'ran_ns' then. */
    int64_t credit; /* Left before the next claim of its payer has its turn. */
    account_serve_fn *serve;
};

struct account {
    struct account_payer *payers; /* Hash table by key. */
    struct list ring;             /* Payers with resting claims. */
    struct list owing;            /* Payers in debt without resting claims. */
    /* Resting claims by 'since_ns': those that were not served since, and the
     * others; and those that have waited for ACCOUNT_WAIT_NS. */
    struct list unserved;
    struct list served;
    struct list overdue;
    uint64_t units;
    int64_t left;          /* In this turn; negative: overdrawn. */
    uint64_t at_hand;      /* Counted, not charged to a payer yet. */
    uint64_t clock_at;     /* Up to where time has been charged. */
    uint64_t read_ns;      /* See account_begin(). */
    uint64_t idle_count;   /* Turns that had time left for everybody. */
    uint64_t serve_ns;     /* Time of the newest account_serve(). */
    uint64_t ran_ns;       /* Time of turns, without stalls. */
    uint64_t served_count; /* For the metrics. */
    uint64_t rested_count; /* Claims that began to rest. */
    /* Clock that counts units, or NULL: then the counted units are charged. */
    uint64_t (*clock)(void);
};

void account_init(struct account *account, uint64_t units,
                  uint64_t (*clock)(void));
/* All claims have left. */
void account_done(struct account *account);

/* Begins a turn. All input that claims not resting now had received by
 * 'read_ns', which never decreases, was read. */
void account_begin(struct account *account, uint64_t read_ns);

/* The claim's work is charged to the payer with this key from now on. May be
 * called again, with another key. */
void account_join(struct account *account, struct account_claim *claim,
                  uint64_t key, account_serve_fn *serve);
void account_leave(struct account *account, struct account_claim *claim);

/* Keys: of a user, and of an origin's text (never 0). */
uint64_t account_key_of_user(uint64_t user);
uint64_t account_key_of_origin(const char *origin);

/* True if work may be done at once: units are left, and no claim rests. */
bool account_is_open(const struct account *account);
bool account_is_spent(const struct account *account);
/* The claim has work and waits for account_serve(). */
void account_rest(struct account *account, struct account_claim *claim);
bool account_rests(const struct account_claim *claim);
/* The claim has no work left. */
void account_wake(struct account_claim *claim);

/* Starts measuring work that will be charged. */
void account_start(struct account *account);
/* Counts 'units' of work. */
void account_count(struct account *account, uint64_t units);
/* Charges the counted units or the elapsed time, whichever is more. NULL: to
 * the turn only. */
void account_charge(struct account *account, struct account_claim *claim);
/* Charges them to the payer with this key, whether or not it has a claim, and
 * returns them: for work on a request that is done outside of its claim's
 * turn. */
uint64_t account_charge_key(struct account *account, uint64_t key);

/* Serves resting claims: one round, and more while units are left. */
void account_serve(struct account *account, uint64_t now_ns);
bool account_has_resting(const struct account *account);
/* All input that had arrived by then was read, or its claim was served since,
 * or is overdue; UINT64_MAX: no other claim rests. */
uint64_t account_waiting_ns(const struct account *account);

#endif /* HASP_BASE_ACCOUNT_H */
