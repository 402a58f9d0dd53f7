/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"

static struct rogue_hold *any_held(struct worker *worker)
{
    uint64_t pick = prng_below(&worker->client->sim->prng,
                               sim_held_count(worker));
    for (int i = 0; i < HOLD_MAX; i++) {
        if (worker->held[i].is_there && pick-- == 0) {
            return &worker->held[i];
        }
    }
    return NULL;
}

/* --- Choosing ------------------------------------------------------------- */

static void choose_acquire(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    op->kind = ASK_ACQUIRE;
    op->lock = (uint32_t)prng_below(&sim->prng, worker->client->lock_count);
    op->mode = LOCK_EXCLUSIVE;
    if (sim_lock_is_slots(op->lock)) {
        op->mode = LOCK_SLOTS;
    } else if (sim_lock_is_shared(op->lock) && sim_chance(sim, 0.6)) {
        op->mode = LOCK_SHARED;
    }
    struct rogue_hold *held = sim_held_find(worker, op->lock);
    if (held != NULL) {
        op->mode = held->mode;
    }
    static const enum op_wait waits[] = {WAIT_NOT, WAIT_SOME, WAIT_SOME,
                                         WAIT_EVER};
    op->wait = waits[prng_below(&sim->prng, 4)];
    op->wait_ms = sim_between(sim, 20, 4000);
    op->is_barging = held == NULL && sim_chance(sim, 0.03);
    if (held == NULL && sim_chance(sim, 0.05)) {
        op->hold_ms = sim_between(sim, 300, 4000);
    }
    if (held == NULL && sim_chance(sim, 0.1)) {
        op->delay_ms = sim_between(sim, 100, 2000);
    }
}

static void choose_read(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    op->lock = (uint32_t)prng_below(&sim->prng, worker->client->lock_count);
    op->token = worker->last_token[op->lock];
    op->kind = ASK_SHOW;
    if (op->token != 0 && sim_chance(sim, 0.3)) {
        op->kind = ASK_NOTE;
    }
}

static void choose_release(struct op *op, const struct rogue_hold *held)
{
    op->kind = ASK_RELEASE;
    op->lock = held->lock;
}

/* Numbers belong to the session. Each of the two workers has one request at a
 * time, so every earlier request is over except the other worker's. */
static void number_it(struct worker *worker, struct op *op)
{
    struct sim_client *client = worker->client;
    const struct op *other = &client->worker[1 - worker->number].op;
    op->req = client->next_req++;
    op->acked = op->req - 1;
    if (other->kind != ASK_NONE && other->req != 0) {
        op->acked = other->req - 1;
        if (other->req + 1 < op->req && sim_chance(client->sim, 0.7)) {
            op->also_from = other->req + 1;
            op->also_to = op->req - 1;
        }
    }
    if (sim_chance(client->sim, 0.1)) {
        op->acked = 0;
    }
}

/* The other worker has waited for long: cancel that wait. */
static bool choose_cancel(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    struct worker *other = &worker->client->worker[1 - worker->number];
    if (other->op.kind != ASK_ACQUIRE || other->op.wait == WAIT_NOT ||
        other->op.req == 0 || !other->op.was_sent ||
        sim->now_ns - other->op.since_ns < 300 * SIM_MS ||
        !sim_chance(sim, 0.2)) {
        return false;
    }
    op->kind = ASK_CANCEL;
    op->lock = other->op.lock;
    op->owner = other->number;
    snprintf(op->tag, sizeof op->tag, "%s", other->tag);
    number_it(worker, op);
    return true;
}

static void choose_while_holding(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    struct rogue_hold *held = any_held(worker);
    uint64_t dice = prng_below(&sim->prng, 100);
    if (worker->client->is_draining || dice < 55) {
        choose_release(op, held);
    } else if (dice < 80 && sim_held_count(worker) < HOLD_MAX) {
        choose_acquire(worker, op);
    } else {
        choose_read(worker, op);
    }
}

void sim_ask_choose(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct op op = {.owner = worker->number, .since_ns = sim->now_ns};
    snprintf(op.tag, sizeof op.tag, "%s", worker->tag);
    if (worker->dirty_lock != 0) {
        op.kind = worker->has_cancelled ? ASK_RELEASE : ASK_CANCEL;
        op.lock = worker->dirty_lock - 1;
    } else if (choose_cancel(worker, &op)) {
        worker->op = op;
        return;
    } else if (sim_held_count(worker) > 0) {
        choose_while_holding(worker, &op);
    } else if (client->is_draining) {
        return;
    } else if (sim_chance(sim, 0.1)) {
        choose_read(worker, &op);
    } else if (!sim_admin_choose(worker, &op)) {
        choose_acquire(worker, &op);
    }
    bool is_change = op.kind == ASK_ACQUIRE || op.kind == ASK_RELEASE ||
                     op.kind == ASK_CANCEL;
    /* Some requests have no number. One that was lost on the way may arrive
     * late and do what is no longer wanted. So RELEASE names its token, and
     * ACQUIRE has no HOLD, which it would apply to the wait that exists by
     * then. */
    bool may_lack = op.kind == ASK_ACQUIRE ||
                    (op.kind == ASK_RELEASE && worker->dirty_lock == 0);
    bool lacks = may_lack && sim_chance(sim, 0.1);
    if (lacks && op.kind == ASK_ACQUIRE) {
        op.hold_ms = 0;
        op.value = prng_next(&sim->prng) | 1;
    }
    if (lacks && op.kind == ASK_RELEASE) {
        op.token = sim_held_find(worker, op.lock)->token;
    }
    if (is_change && !lacks) {
        number_it(worker, &op);
    }
    worker->op = op;
}

/* --- Asking --------------------------------------------------------------- */

/* The belief ends when RELEASE is sent. */
static void end_belief(struct worker *worker)
{
    struct op *op = &worker->op;
    struct rogue_hold *held = sim_held_find(worker, op->lock);
    if (held == NULL || op->kind != ASK_RELEASE) {
        return;
    }
    if (!op->was_sent) {
        op->was_believed = sim_held_believed(worker, held) &&
                           held->hold_ms == 0;
    }
    if (held->count <= 1) {
        held->is_over = true;
    }
}

static void put_options(struct sim_channel *channel, const struct op *op)
{
    if (op->wait == WAIT_SOME) {
        sim_channel_word(channel, "WAIT");
        sim_channel_number(channel, op->wait_ms);
    } else if (op->wait == WAIT_EVER) {
        sim_channel_word(channel, "WAIT");
        sim_channel_word(channel, "FOREVER");
    }
    sim_channel_word(channel, "OWNER");
    sim_channel_word(channel, op->tag);
    if (op->hold_ms != 0) {
        sim_channel_word(channel, "HOLD");
        sim_channel_number(channel, op->hold_ms);
    }
    if (op->delay_ms != 0) {
        sim_channel_word(channel, "DELAY");
        sim_channel_number(channel, op->delay_ms);
    }
    if (op->kind == ASK_RELEASE && op->token != 0) {
        sim_channel_word(channel, "TOKEN");
        sim_channel_number(channel, op->token);
    }
    if (op->is_barging) {
        sim_channel_word(channel, "BARGE");
    }
    if (op->value != 0) {
        sim_channel_word(channel, "VALUE");
        sim_channel_number(channel, op->value);
    }
    if (op->req != 0) {
        sim_channel_word(channel, "REQ");
        sim_channel_number(channel, op->req);
    }
    if (op->also_from != 0) {
        char ranges[64];
        snprintf(ranges, sizeof ranges, "%" PRIu64 ",%" PRIu64 "-%" PRIu64,
                 op->acked, op->also_from, op->also_to);
        sim_channel_word(channel, "ACKED");
        sim_channel_word(channel, ranges);
    } else if (op->acked != 0) {
        sim_channel_word(channel, "ACKED");
        sim_channel_number(channel, op->acked);
    }
}

static uint64_t option_count(const struct op *op)
{
    return (op->wait != WAIT_NOT ? 2 : 0) + 2u + (op->hold_ms != 0 ? 2 : 0) +
           (op->delay_ms != 0 ? 2 : 0) + (op->is_barging ? 1 : 0) +
           (op->kind == ASK_RELEASE && op->token != 0 ? 2 : 0) +
           (op->value != 0 ? 2 : 0) + (op->req != 0 ? 2 : 0) +
           (op->acked != 0 || op->also_from != 0 ? 2 : 0);
}

static void put_change(struct sim_channel *channel, const struct op *op)
{
    uint64_t mode_count = 0;
    const char *word = "LOCK.RELEASE";
    if (op->kind == ASK_CANCEL) {
        word = "LOCK.CANCEL";
    } else if (op->kind == ASK_ACQUIRE) {
        word = "LOCK.ACQUIRE";
        mode_count = op->mode == LOCK_SHARED  ? 1
                     : op->mode == LOCK_SLOTS ? 2
                                              : 0;
    }
    sim_channel_begin(channel, 2 + mode_count + option_count(op));
    sim_channel_word(channel, word);
    sim_channel_word(channel, sim_lock_name(op->lock));
    if (mode_count > 0) {
        sim_channel_word(channel, op->mode == LOCK_SLOTS ? "SLOTS" : "SHARED");
    }
    if (mode_count > 1) {
        sim_channel_number(channel, SLOT_COUNT);
    }
    put_options(channel, op);
}

void sim_ask(struct worker *worker)
{
    struct op *op = &worker->op;
    struct sim_client *client = worker->client;
    struct sim_channel *channel = &worker->channel;
    struct lease_clock now = sim_client_clock(client);
    uint64_t wait_ns = 4 * SIM_S;
    switch (op->kind) {
    case ASK_SHOW:
        sim_channel_begin(channel, 2);
        sim_channel_word(channel, "LOCK.SHOW");
        sim_channel_word(channel, sim_lock_name(op->lock));
        break;
    case ASK_NOTE:
        sim_channel_begin(channel, 6);
        sim_channel_word(channel, "LOCK.NOTE");
        sim_channel_word(channel, sim_lock_name(op->lock));
        sim_channel_number(channel, op->token);
        sim_channel_word(channel, op->token % 3 != 0 ? "a checkpoint" : "");
        sim_channel_word(channel, "OWNER");
        sim_channel_word(channel, worker->tag);
        break;
    case ASK_ADMIN:
        sim_admin_put(channel, op);
        break;
    default:
        put_change(channel, op);
        end_belief(worker);
        break;
    }
    if (op->wait == WAIT_SOME) {
        wait_ns += op->wait_ms * SIM_MS;
    } else if (op->wait == WAIT_EVER) {
        wait_ns = sim_between(client->sim, 1000, 20000) * SIM_MS;
    }
    if (!op->was_sent) {
        op->was_sent = true;
        op->sent = now;
        op->newest = sim_check_newest(client->sim);
    }
    sim_note(client->sim, &client->host, "op", worker->number,
             (uint64_t)op->kind * 100 + op->lock, op->req);
    op->is_asked = true;
    sim_channel_send(channel, now, wait_ns);
    channel->asked_newest = op->newest;
}

void sim_ask_attach(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_channel *channel = &worker->channel;
    sim_channel_begin(channel, 3);
    sim_channel_word(channel, "SESSION.ATTACH");
    sim_channel_number(channel, client->session);
    sim_channel_word(channel, client->secret);
    sim_channel_send(channel, sim_client_clock(client), 4 * SIM_S);
}
