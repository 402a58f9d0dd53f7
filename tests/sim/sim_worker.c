/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"

/* Locks by number: the first ones exclusive only, then one that is shared as
 * well, then a semaphore. */
static const char *const lock_names[LOCK_COUNT_MAX] = {"l0", "l1", "s0", "l2",
                                                       "k0", "s1", "l3", "k1"};
#define SLOT_COUNT 2

static bool is_shared_lock(uint32_t lock)
{
    return lock_names[lock][0] == 's';
}

static bool is_slots_lock(uint32_t lock)
{
    return lock_names[lock][0] == 'k';
}

static struct bytes lock_name(uint32_t lock)
{
    return bytes_of_text(lock_names[lock]);
}

static const char *owner_of(uint32_t number)
{
    static const char *const owners[WORKER_COUNT] = {"a", "b"};
    return owners[number];
}

void sim_worker_init(struct worker *worker, struct sim_client *client,
                     uint32_t number)
{
    *worker = (struct worker){.client = client, .number = number};
    sim_channel_init(&worker->channel, client->sim, &client->host);
    sim_worker_reset(worker);
}

void sim_worker_done(struct worker *worker)
{
    sim_channel_done(&worker->channel);
}

void sim_worker_reset(struct worker *worker)
{
    worker->op = (struct op){.kind = OP_NONE};
    memset(worker->held, 0, sizeof worker->held);
    worker->next_req = 1;
    worker->acked = 0;
    worker->dirty_lock = 0;
    worker->has_lost = false;
    worker->think_until_ns = worker->client->sim->now_ns +
                             sim_between(worker->client->sim, 0, 300) * SIM_MS;
}

static struct held *find_held(struct worker *worker, uint32_t lock)
{
    for (int i = 0; i < HOLD_MAX; i++) {
        if (worker->held[i].is_there && worker->held[i].lock == lock) {
            return &worker->held[i];
        }
    }
    return NULL;
}

static uint32_t held_count(const struct worker *worker)
{
    uint32_t count = 0;
    for (int i = 0; i < HOLD_MAX; i++) {
        count += worker->held[i].is_there ? 1 : 0;
    }
    return count;
}

static struct held *any_held(struct worker *worker)
{
    uint64_t pick = prng_below(&worker->client->sim->prng, held_count(worker));
    for (int i = 0; i < HOLD_MAX; i++) {
        if (worker->held[i].is_there && pick-- == 0) {
            return &worker->held[i];
        }
    }
    return NULL;
}

/* --- Beliefs
 * -------------------------------------------------------------------- */

static bool believes(const struct worker *worker, const struct held *held)
{
    const struct sim_client *client = worker->client;
    if (!held->is_there || held->is_over || !sim_client_trusts(client)) {
        return false;
    }
    return held->hold_ms == 0 ||
           lease_hold_remaining(held->sent, held->hold_ms,
                                sim_client_clock(client)) > 0;
}

static bool conflicts(const struct held *a, const struct held *b)
{
    return a->lock == b->lock &&
           (a->mode == LOCK_EXCLUSIVE || b->mode == LOCK_EXCLUSIVE);
}

/* 'held' is believed in from this moment on: nobody else may believe in what
 * excludes it. Beliefs that overlap do so at the beginning of one of them. */
static void belief_begins(struct worker *worker, const struct held *held)
{
    struct sim *sim = worker->client->sim;
    uint32_t slots = 0;
    if (!believes(worker, held)) {
        return;
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        for (uint32_t j = 0; j < WORKER_COUNT; j++) {
            struct worker *other = &sim->client[i]->worker[j];
            for (uint32_t k = 0; k < HOLD_MAX; k++) {
                struct held *theirs = &other->held[k];
                if (!believes(other, theirs) || theirs->lock != held->lock) {
                    continue;
                }
                slots++;
                if (other != worker && conflicts(held, theirs)) {
                    sim_fail(sim,
                             "one believer per exclusive lock: %s.%s believes "
                             "in '%s' with token %" PRIu64 ", and so does "
                             "%s.%s with token %" PRIu64,
                             worker->client->host.name,
                             owner_of(worker->number), lock_names[held->lock],
                             held->token, other->client->host.name,
                             owner_of(other->number), theirs->token);
                }
            }
        }
    }
    if (is_slots_lock(held->lock) && slots > SLOT_COUNT) {
        sim_fail(sim,
                 "a semaphore has as many believers as slots: '%s' has "
                 "%u",
                 lock_names[held->lock], slots);
    }
}

void sim_client_beliefs_begin(struct sim_client *client)
{
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        for (uint32_t k = 0; k < HOLD_MAX; k++) {
            belief_begins(&client->worker[i], &client->worker[i].held[k]);
        }
    }
}

/* --- Choosing
 * ------------------------------------------------------------------- */

static void choose_acquire(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    op->kind = OP_ACQUIRE;
    op->lock = (uint32_t)prng_below(&sim->prng, worker->client->lock_count);
    op->mode = LOCK_EXCLUSIVE;
    if (is_slots_lock(op->lock)) {
        op->mode = LOCK_SLOTS;
    } else if (is_shared_lock(op->lock) && sim_chance(sim, 0.6)) {
        op->mode = LOCK_SHARED;
    }
    struct held *held = find_held(worker, op->lock);
    if (held != NULL) {
        op->mode = held->mode; /* Another one is CONVERT's matter. */
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
    op->kind = op->token != 0 && sim_chance(sim, 0.7) ? OP_CHECK : OP_SHOW;
}

static void choose_release(struct op *op, const struct held *held)
{
    op->kind = OP_RELEASE;
    op->lock = held->lock;
}

/* The other worker waits for long: cancel that. */
static bool choose_cancel(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    struct worker *other = &worker->client->worker[1 - worker->number];
    if (other->op.kind != OP_ACQUIRE || other->op.wait == WAIT_NOT ||
        other->op.req == 0 || !other->op.was_sent ||
        sim->now_ns - other->op.since_ns < 300 * SIM_MS ||
        !sim_chance(sim, 0.2)) {
        return false;
    }
    op->kind = OP_CANCEL;
    op->lock = other->op.lock;
    op->owner = other->number;
    op->req = other->next_req++;
    op->acked = other->acked;
    return true;
}

static void choose_while_holding(struct worker *worker, struct op *op)
{
    struct sim *sim = worker->client->sim;
    struct held *held = any_held(worker);
    uint64_t dice = prng_below(&sim->prng, 100);
    if (worker->client->is_draining || dice < 55) {
        choose_release(op, held);
    } else if (dice < 65 && is_shared_lock(held->lock) && held->hold_ms == 0) {
        op->kind = OP_CONVERT;
        op->lock = held->lock;
        op->mode = held->mode == LOCK_SHARED ? LOCK_EXCLUSIVE : LOCK_SHARED;
        op->wait = sim_chance(sim, 0.7) ? WAIT_SOME : WAIT_NOT;
        op->wait_ms = sim_between(sim, 20, 2000);
    } else if (dice < 80 && held_count(worker) < HOLD_MAX) {
        choose_acquire(worker, op);
    } else {
        choose_read(worker, op);
    }
}

static void choose(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct op op = {.owner = worker->number, .since_ns = sim->now_ns};
    if (worker->dirty_lock != 0) {
        op.kind = worker->has_cancelled ? OP_RELEASE : OP_CANCEL;
        op.lock = worker->dirty_lock - 1;
    } else if (choose_cancel(worker, &op)) {
        worker->op = op;
        return;
    } else if (held_count(worker) > 0) {
        choose_while_holding(worker, &op);
    } else if (client->is_draining) {
        return;
    } else if (sim_chance(sim, 0.1)) {
        choose_read(worker, &op);
    } else if (sim_chance(sim, 0.01)) {
        op.kind = OP_ADMIN;
        op.lock = (uint32_t)prng_below(&sim->prng, 2);
    } else {
        choose_acquire(worker, &op);
    }
    bool is_change = op.kind == OP_ACQUIRE || op.kind == OP_RELEASE ||
                     op.kind == OP_CONVERT || op.kind == OP_CANCEL;
    /* Some ask without a number. What is lost on the way may then arrive late
     * and do what is not wanted any more: so RELEASE names its token. */
    bool may_lack = op.kind == OP_ACQUIRE ||
                    (op.kind == OP_RELEASE && worker->dirty_lock == 0);
    bool lacks = may_lack && sim_chance(sim, 0.1);
    if (lacks && op.kind == OP_RELEASE) {
        op.token = find_held(worker, op.lock)->token;
    }
    if (is_change && !lacks) {
        op.req = worker->next_req++;
        op.acked = sim_chance(sim, 0.9) ? worker->acked : 0;
    }
    worker->op = op;
}

/* --- Asking
 * ---------------------------------------------------------------------- */

/* RELEASE, and CONVERT to less, end the belief when they are sent. */
static void end_belief(struct worker *worker)
{
    struct op *op = &worker->op;
    struct held *held = find_held(worker, op->lock);
    if (held == NULL || (op->kind != OP_RELEASE && op->kind != OP_CONVERT)) {
        return;
    }
    if (!op->was_sent) {
        op->was_believed = believes(worker, held) && held->hold_ms == 0;
    }
    if (op->kind == OP_RELEASE && held->count <= 1) {
        held->is_over = true;
    } else if (op->kind == OP_CONVERT && op->mode == LOCK_SHARED) {
        held->mode = LOCK_SHARED;
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
    sim_channel_word(channel, owner_of(op->owner));
    if (op->hold_ms != 0) {
        sim_channel_word(channel, "HOLD");
        sim_channel_number(channel, op->hold_ms);
    }
    if (op->delay_ms != 0) {
        sim_channel_word(channel, "DELAY");
        sim_channel_number(channel, op->delay_ms);
    }
    if (op->kind == OP_RELEASE && op->token != 0) {
        sim_channel_word(channel, "TOKEN");
        sim_channel_number(channel, op->token);
    }
    if (op->is_barging) {
        sim_channel_word(channel, "BARGE");
    }
    if (op->req != 0) {
        sim_channel_word(channel, "REQ");
        sim_channel_number(channel, op->req);
    }
    if (op->acked != 0) {
        sim_channel_word(channel, "ACKED");
        sim_channel_number(channel, op->acked);
    }
}

static uint64_t option_count(const struct op *op)
{
    return (op->wait != WAIT_NOT ? 2 : 0) + 2u + (op->hold_ms != 0 ? 2 : 0) +
           (op->delay_ms != 0 ? 2 : 0) + (op->is_barging ? 1 : 0) +
           (op->kind == OP_RELEASE && op->token != 0 ? 2 : 0) +
           (op->req != 0 ? 2 : 0) + (op->acked != 0 ? 2 : 0);
}

static void put_change(struct sim_channel *channel, const struct op *op)
{
    uint64_t mode_count = 0;
    const char *word = "LOCK.RELEASE";
    if (op->kind == OP_CANCEL) {
        word = "LOCK.CANCEL";
    } else if (op->kind == OP_CONVERT) {
        word = "LOCK.CONVERT";
        mode_count = 1;
    } else if (op->kind == OP_ACQUIRE) {
        word = "LOCK.ACQUIRE";
        mode_count = op->mode == LOCK_SHARED  ? 1
                     : op->mode == LOCK_SLOTS ? 2
                                              : 0;
    }
    sim_channel_begin(channel, 2 + mode_count + option_count(op));
    sim_channel_word(channel, word);
    sim_channel_word(channel, lock_names[op->lock]);
    if (mode_count > 0) {
        sim_channel_word(channel, op->mode == LOCK_SLOTS    ? "SLOTS"
                                  : op->mode == LOCK_SHARED ? "SHARED"
                                                            : "EXCLUSIVE");
    }
    if (mode_count > 1) {
        sim_channel_number(channel, SLOT_COUNT);
    }
    put_options(channel, op);
}

static void put_admin(struct sim_channel *channel, const struct op *op)
{
    sim_channel_begin(channel, 1);
    sim_channel_word(channel,
                     op->lock == 0 ? "RAFT.TRANSFER" : "RAFT.SNAPSHOT");
    if (op->lock == 0) {
        channel->sim->stats.transfers++;
    }
}

static void ask(struct worker *worker)
{
    struct op *op = &worker->op;
    struct sim_client *client = worker->client;
    struct sim_channel *channel = &worker->channel;
    struct lease_clock now = sim_client_clock(client);
    uint64_t wait_ns = 4 * SIM_S;
    switch (op->kind) {
    case OP_CHECK:
        sim_channel_begin(channel, 3);
        sim_channel_word(channel, "LOCK.CHECK");
        sim_channel_word(channel, lock_names[op->lock]);
        sim_channel_number(channel, op->token);
        break;
    case OP_SHOW:
        sim_channel_begin(channel, 2);
        sim_channel_word(channel, "LOCK.SHOW");
        sim_channel_word(channel, lock_names[op->lock]);
        break;
    case OP_ADMIN:
        put_admin(channel, op);
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
}

static void ask_attach(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim_channel *channel = &worker->channel;
    sim_channel_begin(channel, 3);
    sim_channel_word(channel, "SESSION.ATTACH");
    sim_channel_number(channel, client->session);
    sim_channel_word(channel, client->secret);
    sim_channel_send(channel, sim_client_clock(client), 4 * SIM_S);
}

/* --- Answers
 * ---------------------------------------------------------------------- */

static void op_ends(struct worker *worker)
{
    struct sim *sim = worker->client->sim;
    sim->stats.operations++;
    worker->client->progress++;
    worker->op.kind = OP_NONE;
    uint64_t think_ms = sim_chance(sim, 0.5) ? sim_between(sim, 0, 20)
                                             : sim_between(sim, 20, 800);
    worker->think_until_ns = sim->now_ns + think_ms * SIM_MS;
}

/* The answer was OK; what it says must stand in the history. */
static void check_answer(struct worker *worker, enum result_code code,
                         uint64_t token, uint64_t count)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    const struct op *op = &worker->op;
    uint64_t ended = sim_history_ended(sim_check_history(sim), client->session);
    if (ended != 0 && ended <= worker->channel.sent_newest) {
        sim_fail(sim,
                 "dead stays dead: %s was answered for session %" PRIu64
                 ", which entry %" PRIu64 " had ended before it asked",
                 client->host.name, client->session, ended);
    }
    if (op->req == 0) {
        return;
    }
    struct past_result past;
    if (!sim_history_result(sim_check_history(sim), client->session,
                            bytes_of_text(owner_of(op->owner)), op->req,
                            &past)) {
        sim_fail(sim,
                 "an answer is about what is committed: %s.%s was "
                 "answered REQ %" PRIu64 " and no entry has it",
                 client->host.name, owner_of(op->owner), op->req);
    } else if (past.code != code || past.token != token ||
               past.count != count) {
        sim_fail(sim,
                 "acknowledged results stay: %s.%s was told token %" PRIu64
                 " count %" PRIu64 " code %d for REQ %" PRIu64
                 ", committed are %" PRIu64 ", %" PRIu64 ", %d",
                 client->host.name, owner_of(op->owner), token, count,
                 (int)code, op->req, past.token, past.count, (int)past.code);
    } else if (past.first_index <= op->newest) {
        sim_fail(sim,
                 "an effect follows its cause: REQ %" PRIu64 " of %s.%s "
                 "took effect before it was asked",
                 op->req, client->host.name, owner_of(op->owner));
    }
}

static void take_grant(struct worker *worker, uint64_t token)
{
    struct sim_client *client = worker->client;
    struct op *op = &worker->op;
    /* A token answers with count 1 for the first hold, more for a re-entry. */
    struct held *held = find_held(worker, op->lock);
    if (!sim_history_granted(sim_check_history(client->sim),
                             lock_name(op->lock), client->session,
                             bytes_of_text(owner_of(op->owner)), token)) {
        sim_fail(client->sim,
                 "an answer is about what is committed: %s.%s "
                 "was told token %" PRIu64 " of '%s'",
                 client->host.name, owner_of(op->owner), token,
                 lock_names[op->lock]);
    }
    worker->last_token[op->lock] = token;
    if (held != NULL && held->token == token) {
        held->count++;
        return;
    }
    for (int i = 0; i < HOLD_MAX && held == NULL; i++) {
        if (!worker->held[i].is_there) {
            held = &worker->held[i];
        }
    }
    CHECK(held != NULL);
    *held = (struct held){
        .is_there = true,
        .lock = op->lock,
        .mode = op->mode,
        .token = token,
        .count = 1,
        .hold_ms = op->hold_ms,
        .sent = op->sent,
    };
    belief_begins(worker, held);
}

static void take_acquired(struct worker *worker, const struct resp_value *value)
{
    struct op *op = &worker->op;
    if (value->type == RESP_NULL) {
        check_answer(worker, RESULT_NOT_ACQUIRED, 0, 0);
    } else {
        struct past_result past = {.count = 0};
        sim_history_result(sim_check_history(worker->client->sim),
                           worker->client->session,
                           bytes_of_text(owner_of(op->owner)), op->req, &past);
        check_answer(worker, RESULT_OK, (uint64_t)value->integer, past.count);
        take_grant(worker, (uint64_t)value->integer);
    }
}

static void take_converted(struct worker *worker,
                           const struct resp_value *value)
{
    struct op *op = &worker->op;
    struct held *held = find_held(worker, op->lock);
    if (value->type == RESP_NULL || held == NULL) {
        return;
    }
    uint64_t token = (uint64_t)value->integer;
    if (op->mode == LOCK_SHARED && held->token != token) {
        sim_fail(worker->client->sim,
                 "a downgrade keeps its token: %s.%s had %" PRIu64
                 " of '%s' and has %" PRIu64,
                 worker->client->host.name, owner_of(worker->number),
                 held->token, lock_names[op->lock], token);
    }
    held->token = token;
    held->mode = op->mode;
    worker->last_token[op->lock] = token;
    belief_begins(worker, held);
}

static void take_released(struct worker *worker, const struct resp_value *value)
{
    struct op *op = &worker->op;
    struct held *held = find_held(worker, op->lock);
    check_answer(worker, RESULT_OK, 0, (uint64_t)value->integer);
    if (held != NULL) {
        held->count = (uint64_t)value->integer;
        if (held->count == 0) {
            held->is_there = false;
        }
    }
    if (value->integer == 0) {
        worker->dirty_lock = 0;
    }
}

static void check_cancelled(struct worker *worker,
                            const struct resp_value *value)
{
    /* One that came too late says so with 0, and keeps the token as well. */
    struct op *op = &worker->op;
    struct past_result past = {.token = 0};
    sim_history_result(sim_check_history(worker->client->sim),
                       worker->client->session,
                       bytes_of_text(owner_of(op->owner)), op->req, &past);
    check_answer(worker, RESULT_OK, past.token, (uint64_t)value->integer);
}

/* A read sees everything up to what was committed when it was asked, and
 * nothing later than what is now. */
static void take_checked(struct worker *worker, const struct resp_value *value)
{
    struct sim *sim = worker->client->sim;
    struct op *op = &worker->op;
    uint64_t from = worker->channel.sent_newest;
    uint64_t to = sim_check_newest(sim);
    struct bytes name = lock_name(op->lock);
    bool is_wrong = value->integer == 1
                        ? !sim_history_held_sometime(sim_check_history(sim),
                                                     name, op->token, from, to)
                        : sim_history_held_always(sim_check_history(sim), name,
                                                  op->token, from, to);
    sim->stats.reads++;
    if (is_wrong) {
        sim_fail(sim,
                 "reads are linearizable: %s was told %d for token "
                 "%" PRIu64 " of '%s' between entries %" PRIu64 " and %" PRIu64,
                 worker->client->host.name, (int)value->integer, op->token,
                 lock_names[op->lock], from, to);
    }
}

static void take_shown(struct worker *worker)
{
    struct sim *sim = worker->client->sim;
    const struct resp_reply *reply = &worker->channel.reply;
    const struct resp_value *holders = resp_find(reply, 0, "holders");
    uint64_t from = worker->channel.sent_newest;
    uint64_t to = sim_check_newest(sim);
    struct bytes name = lock_name(worker->op.lock);
    sim->stats.reads++;
    if (holders == NULL || holders->type != RESP_ARRAY) {
        sim_fail(sim, "SHOW answers a map with holders");
        return;
    }
    if (holders->count == 0 &&
        sim_history_taken_always(sim_check_history(sim), name, from, to)) {
        sim_fail(sim,
                 "reads are linearizable: %s was shown '%s' without "
                 "holders between entries %" PRIu64 " and %" PRIu64,
                 worker->client->host.name, lock_names[worker->op.lock], from,
                 to);
    }
    uint32_t at = (uint32_t)(holders - reply->value) + 1;
    for (uint32_t i = 0; i < holders->count; i++) {
        const struct resp_value *token = resp_find(reply, at, "token");
        if (token == NULL ||
            !sim_history_held_sometime(sim_check_history(sim), name,
                                       (uint64_t)token->integer, from, to)) {
            sim_fail(sim,
                     "reads are linearizable: %s was shown a holder of "
                     "'%s' that was none between entries %" PRIu64
                     " and %" PRIu64,
                     worker->client->host.name, lock_names[worker->op.lock],
                     from, to);
        }
        at += reply->value[at].span;
    }
}

static void take_ok(struct worker *worker)
{
    const struct resp_value *value = &worker->channel.reply.value[0];
    switch (worker->op.kind) {
    case OP_ACQUIRE:
        take_acquired(worker, value);
        break;
    case OP_RELEASE:
        take_released(worker, value);
        break;
    case OP_CONVERT:
        take_converted(worker, value);
        break;
    case OP_CANCEL:
        check_cancelled(worker, value);
        worker->has_cancelled |= worker->op.owner == worker->number;
        break;
    case OP_CHECK:
        take_checked(worker, value);
        break;
    case OP_SHOW:
        take_shown(worker);
        break;
    default:
        break;
    }
    const struct op *others = &worker->client->worker[1 - worker->number].op;
    bool is_cancelling = others->kind == OP_CANCEL &&
                         others->owner == worker->number;
    if (worker->op.req != 0 && worker->op.owner == worker->number &&
        !is_cancelling) {
        worker->acked = worker->op.req;
    }
    op_ends(worker);
}

static bool is_word(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(word, *words) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_disk_full(struct bytes text)
{
    return bytes_has_prefix(text, BYTES_LITERAL("LIMIT disk"));
}

/* What was held was believed in, and is not held. */
static void take_not_held(struct worker *worker)
{
    struct op *op = &worker->op;
    if (op->was_believed && (!op->is_uncertain || op->req != 0)) {
        sim_fail(worker->client->sim,
                 "who believes in a hold has it: %s.%s gives back '%s' and is "
                 "told NOTHELD",
                 worker->client->host.name, owner_of(worker->number),
                 lock_names[op->lock]);
    }
    struct held *held = find_held(worker, op->lock);
    if (held != NULL) {
        held->is_there = false;
    }
    worker->dirty_lock = 0;
}

static void clean_up(struct worker *worker, uint32_t lock)
{
    worker->dirty_lock = lock + 1;
    worker->has_cancelled = false;
}

/* Nothing more is known of it: it will be given back to be sure. */
static void give_up_unknown(struct worker *worker)
{
    struct op *op = &worker->op;
    if (op->kind == OP_ACQUIRE || op->kind == OP_RELEASE ||
        op->kind == OP_CONVERT) {
        struct held *held = find_held(worker, op->lock);
        if (held != NULL) {
            held->is_over = true;
        }
        clean_up(worker, op->lock);
        worker->has_lost = true;
    }
    op_ends(worker);
}

static void take_error(struct worker *worker, const char *word)
{
    static const char *const later[] = {"NOLEADER", "BUSY", "MOVED", NULL};
    static const char *const ended[] = {"EXPIRED", "NOSESSION", "BLACKLISTED",
                                        NULL};
    const struct resp_value *value = &worker->channel.reply.value[0];
    static const char *const refused[] = {"DEADLOCK", "LIMIT", NULL};
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct op *op = &worker->op;
    sim_say(sim, &client->host, "op of %s answered %s",
            owner_of(worker->number), word);
    if (is_word(word, later) || is_disk_full(value->bytes)) {
        sim_channel_later(&worker->channel, sim_between(sim, 10, 300) * SIM_MS);
        if (strcmp(word, "MOVED") == 0) {
            sim_channel_close(&worker->channel);
        }
    } else if (is_word(word, ended)) {
        if (sim_history_ended(sim_check_history(sim), client->session) != 0) {
            lease_refused(&client->lease);
            sim_client_lose(client, word);
        } else if (strcmp(word, "EXPIRED") == 0) {
            sim_fail(sim,
                     "a refusal is about what is committed: %s was told "
                     "%s, and session %" PRIu64 " lives",
                     client->host.name, word, client->session);
        } else {
            sim_channel_close(&worker->channel);
        }
    } else if (strcmp(word, "UNKNOWN") == 0) {
        sim->stats.unknowns++;
        op->is_uncertain = true;
        if (op->req == 0) {
            give_up_unknown(worker);
        } else {
            sim_channel_later(&worker->channel,
                              sim_between(sim, 10, 300) * SIM_MS);
        }
    } else if (strcmp(word, "NOTHELD") == 0) {
        take_not_held(worker);
        op_ends(worker);
    } else if (is_word(word, refused) || op->kind == OP_ADMIN) {
        op_ends(worker);
    } else if (strcmp(word, "BADARG") == 0 && worker->has_lost &&
               op->kind == OP_ACQUIRE) {
        /* A lost request without a number waits there by now. */
        clean_up(worker, op->lock);
        op_ends(worker);
    } else {
        sim_fail(sim,
                 "errors are those of the contract: %s.%s was told "
                 "'%.*s'",
                 client->host.name, owner_of(worker->number),
                 (int)value->bytes.size, (const char *)value->bytes.data);
    }
}

static void take(struct worker *worker)
{
    struct sim_client *client = worker->client;
    char word[32];
    sim_channel_error(&worker->channel, word);
    if (worker->channel.attached != client->session) {
        if (word[0] == '\0') {
            worker->channel.attached = client->session;
        } else {
            sim_channel_close(&worker->channel);
        }
    } else if (word[0] == '\0') {
        take_ok(worker);
    } else {
        take_error(worker, word);
    }
}

void sim_worker_work(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct sim_channel *channel = &worker->channel;
    if (channel->is_waiting && sim_channel_take(channel)) {
        worker->op.is_asked = false;
        take(worker);
    }
    sim_channel_watch(channel);
    if (client->session == 0 || client->is_closing || client->is_done) {
        return;
    }
    if (worker->op.is_asked && !channel->is_waiting) {
        /* The connection was lost: did it take effect? */
        worker->op.is_asked = false;
        worker->op.is_uncertain = true;
        if (worker->op.req == 0) {
            give_up_unknown(worker);
        }
    }
    if (worker->op.kind == OP_NONE && sim->now_ns >= worker->think_until_ns) {
        choose(worker);
    }
    if (worker->op.kind == OP_NONE || !sim_channel_is_ready(channel)) {
        return;
    }
    if (channel->attached != client->session) {
        ask_attach(worker);
    } else {
        ask(worker);
    }
}

uint64_t sim_worker_next(const struct worker *worker)
{
    uint64_t at_ns = sim_channel_next(&worker->channel);
    if (worker->op.kind == OP_NONE && worker->think_until_ns > at_ns) {
        return worker->think_until_ns;
    }
    return at_ns;
}

bool sim_worker_is_idle(const struct worker *worker)
{
    return worker->op.kind == OP_NONE && held_count(worker) == 0 &&
           worker->dirty_lock == 0;
}
