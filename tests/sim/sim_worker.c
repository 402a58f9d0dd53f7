/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"

/* Locks by number: first those that are exclusive only, then one that is also
 * shared, then a semaphore. */
static const char *const names[LOCK_COUNT_MAX] = {"l0", "l1", "s0", "l2",
                                                  "k0", "s1", "l3", "k1"};

const char *sim_lock_name(uint32_t lock)
{
    return names[lock];
}

bool sim_lock_is_shared(uint32_t lock)
{
    return sim_lock_name(lock)[0] == 's';
}

bool sim_lock_is_slots(uint32_t lock)
{
    return sim_lock_name(lock)[0] == 'k';
}

struct bytes sim_lock_bytes(uint32_t lock)
{
    return bytes_of_text(sim_lock_name(lock));
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
    worker->op = (struct op){.kind = ASK_NONE};
    memset(worker->held, 0, sizeof worker->held);
    worker->client->next_req = 1;
    snprintf(worker->tag, sizeof worker->tag, "%c",
             (char)('a' + worker->number));
    worker->dirty_lock = 0;
    worker->has_lost = false;
    worker->think_until_ns = worker->client->sim->now_ns +
                             sim_between(worker->client->sim, 0, 300) * SIM_MS;
}

struct rogue_hold *sim_held_find(struct worker *worker, uint32_t lock)
{
    for (int i = 0; i < HOLD_MAX; i++) {
        if (worker->held[i].is_there && worker->held[i].lock == lock) {
            return &worker->held[i];
        }
    }
    return NULL;
}

uint32_t sim_held_count(const struct worker *worker)
{
    uint32_t count = 0;
    for (int i = 0; i < HOLD_MAX; i++) {
        count += worker->held[i].is_there ? 1 : 0;
    }
    return count;
}

/* --- Beliefs -------------------------------------------------------------- */

bool sim_held_believed(const struct worker *worker,
                       const struct rogue_hold *held)
{
    const struct sim_client *client = worker->client;
    if (!held->is_there || held->is_over || !sim_rogue_trusts(client)) {
        return false;
    }
    return held->hold_ms == 0 ||
           lease_hold_remaining(held->sent, held->hold_ms,
                                sim_client_clock(client)) > 0;
}

void sim_worker_beliefs(const struct worker *worker, sim_belief_fn *each,
                        void *data)
{
    for (int i = 0; i < HOLD_MAX; i++) {
        const struct rogue_hold *held = &worker->held[i];
        if (sim_held_believed(worker, held)) {
            struct sim_belief belief = {.client = worker->client,
                                        .session = worker->client->session,
                                        .tag = worker->tag,
                                        .lock = held->lock,
                                        .mode = held->mode,
                                        .token = held->token};
            each(data, &belief);
        }
    }
}

/* --- Working -------------------------------------------------------------- */

void sim_worker_work(struct worker *worker)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct sim_channel *channel = &worker->channel;
    if (channel->is_waiting && sim_channel_take(channel)) {
        worker->op.is_asked = false;
        sim_answer_take(worker);
    }
    sim_channel_watch(channel);
    if (client->session == 0 || client->is_closing || client->is_done) {
        return;
    }
    if (worker->op.is_asked && !channel->is_waiting) {
        /* The connection was lost; it may have taken effect. */
        worker->op.is_asked = false;
        worker->op.is_uncertain = true;
        if (worker->op.req == 0) {
            sim_answer_never_comes(worker);
        }
    }
    if (worker->op.kind == ASK_NONE && sim->now_ns >= worker->think_until_ns) {
        sim_ask_choose(worker);
    }
    if (worker->op.kind == ASK_NONE || !sim_channel_is_ready(channel)) {
        return;
    }
    if (channel->attached != client->session) {
        sim_ask_attach(worker);
    } else {
        sim_ask(worker);
    }
}

uint64_t sim_worker_next(const struct worker *worker)
{
    uint64_t at_ns = sim_channel_next(&worker->channel);
    if (worker->op.kind == ASK_NONE && worker->think_until_ns > at_ns) {
        return worker->think_until_ns;
    }
    return at_ns;
}

bool sim_worker_is_idle(const struct worker *worker)
{
    return worker->op.kind == ASK_NONE && sim_held_count(worker) == 0 &&
           worker->dirty_lock == 0;
}
