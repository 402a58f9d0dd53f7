/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_durable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_pairs.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)
/* One in this many runs has one. */
#define RUNS 3
#define LOCKS 3

static struct sim *sim_of(const struct sim_durable *durable)
{
    return durable->client->sim;
}

static void rest(struct sim_durable *durable)
{
    struct sim *sim = sim_of(durable);
    durable->session = 0;
    durable->channel.attached = 0;
    durable->stage = durable->client->is_draining ? DURABLE_LIST : DURABLE_REST;
    durable->rest_until_ns = sim->now_ns + sim_between(sim, 500, 5000) * SIM_MS;
}

/* --- Asking --------------------------------------------------------------- */

static void put_open(struct sim_durable *durable)
{
    struct sim *sim = sim_of(durable);
    struct sim_channel *channel = &durable->channel;
    uint64_t low = prng_next(&sim->prng);
    uint64_t high = prng_next(&sim->prng);
    snprintf(durable->secret, sizeof durable->secret,
             "%016" PRIx64 "%016" PRIx64, high, low);
    sim_channel_begin(channel, 7);
    sim_channel_word(channel, "SESSION.OPEN");
    sim_channel_word(channel, "TTL");
    sim_channel_word(channel, "NONE");
    sim_channel_word(channel, "NAME");
    sim_channel_word(channel, SIM_DURABLE_NAME);
    sim_rogue_put_proof(channel, durable->secret);
}

static void put_break(struct sim_durable *durable, const char *lock)
{
    struct sim *sim = sim_of(durable);
    sim_channel_begin(&durable->channel, 4);
    sim_channel_word(&durable->channel, "LOCK.BREAK");
    sim_channel_word(&durable->channel, lock);
    sim_channel_word(&durable->channel, "AFTER");
    sim_channel_number(&durable->channel, sim_between(sim, 300, 5000));
}

static void put_work(struct sim_durable *durable)
{
    static const char *const words[] = {"LOCK.ACQUIRE", "LOCK.ACQUIRE",
                                        "LOCK.OBJECT", "LOCK.RELEASE"};
    struct sim *sim = sim_of(durable);
    char lock[16];
    snprintf(lock, sizeof lock, "durable/%" PRIu64,
             prng_below(&sim->prng, LOCKS));
    if (sim_chance(sim, 0.2)) {
        sim_channel_begin(&durable->channel, 1);
        sim_channel_word(&durable->channel, "SESSION.KEEP");
    } else if (sim_chance(sim, 0.5)) {
        put_break(durable, lock);
    } else {
        sim_channel_begin(&durable->channel, 2);
        sim_channel_word(&durable->channel, words[prng_below(&sim->prng, 4)]);
        sim_channel_word(&durable->channel, lock);
    }
}

static void put_list(struct sim_durable *durable)
{
    bool is_over = durable->stage == DURABLE_PARDON;
    sim_channel_begin(&durable->channel, 3);
    sim_channel_word(&durable->channel,
                     is_over ? "BLACKLIST.REMOVE" : "BLACKLIST.ADD");
    sim_channel_word(&durable->channel, "CLIENT");
    sim_channel_word(&durable->channel, SIM_DURABLE_NAME);
}

static void ask(struct sim_durable *durable)
{
    struct sim_channel *channel = &durable->channel;
    durable->is_attaching = durable->session != 0 &&
                            channel->attached != durable->session;
    if (durable->is_attaching) {
        sim_channel_begin(channel, 3);
        sim_channel_word(channel, "SESSION.ATTACH");
        sim_channel_number(channel, durable->session);
        sim_channel_word(channel, durable->secret);
    } else if (durable->stage == DURABLE_OPEN) {
        put_open(durable);
    } else if (durable->stage == DURABLE_WORK) {
        put_work(durable);
    } else if (durable->stage == DURABLE_CLOSE) {
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "SESSION.CLOSE");
    } else {
        put_list(durable);
    }
    sim_channel_send(channel, sim_client_clock(durable->client), ANSWER_NS);
}

/* --- Answers -------------------------------------------------------------- */

static void take_opened(struct sim_durable *durable)
{
    const struct resp_value *id = resp_find(&durable->channel.reply, 0, "id");
    if (id == NULL || id->type != RESP_INTEGER) {
        sim_fail(sim_of(durable), ORACLE_REFUSALS,
                 "OPEN answers a map with id");
        return;
    }
    durable->session = (uint64_t)id->integer;
    durable->channel.attached = durable->session;
    durable->stage = DURABLE_WORK;
    sim_of(durable)->stats.durables++;
}

static void take_good(struct sim_durable *durable)
{
    struct sim *sim = sim_of(durable);
    if (durable->is_attaching) {
        durable->channel.attached = durable->session;
        return;
    }
    sim->stats.operations++;
    switch (durable->stage) {
    case DURABLE_OPEN:
        take_opened(durable);
        break;
    case DURABLE_WORK:
        /* Sometimes long enough for any lease to expire. */
        sim_channel_later(&durable->channel,
                          sim_chance(sim, 0.1)
                              ? sim_between(sim, 5000, 15000) * SIM_MS
                              : sim_between(sim, 1, 1500) * SIM_MS);
        break;
    case DURABLE_CLOSE:
        rest(durable);
        break;
    case DURABLE_LIST:
        durable->stage = DURABLE_PARDON;
        break;
    default:
        durable->has_swept = true;
        if (durable->client->is_draining) {
            durable->stage = DURABLE_DONE;
        } else {
            rest(durable);
        }
        break;
    }
}

/* The session has ended, and the log has it. */
static void take_end(struct sim_durable *durable, const char *word)
{
    struct sim *sim = sim_of(durable);
    if (sim_history_ended(sim_check_history(sim), durable->session) != 0) {
        rest(durable);
    } else if (strcmp(word, "EXPIRED") == 0) {
        sim_fail(
            sim, ORACLE_REFUSALS,
            "a refusal reflects committed state: the durable session %" PRIu64
            " got EXPIRED, and lives",
            durable->session);
    } else {
        sim_channel_close(&durable->channel);
    }
}

static void take_error(struct sim_durable *durable, const char *word)
{
    struct sim *sim = sim_of(durable);
    bool is_end = strcmp(word, "EXPIRED") == 0 ||
                  strcmp(word, "NOSESSION") == 0;
    if (is_end && durable->session != 0) {
        take_end(durable, word);
        return;
    }
    if (strcmp(word, "NOTHELD") != 0) {
        sim_channel_close(&durable->channel);
    }
    sim_channel_later(&durable->channel, sim_between(sim, 10, 300) * SIM_MS);
}

static void take(struct sim_durable *durable)
{
    char word[32];
    sim_channel_error(&durable->channel, word);
    if (word[0] == '\0') {
        take_good(durable);
    } else {
        take_error(durable, word);
    }
}

/* --- Life ----------------------------------------------------------------- */

void sim_durable_init(struct sim_durable *durable, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *durable = (struct sim_durable){.client = client};
    sim_channel_init(&durable->channel, sim, &client->host);
    durable->is_there = client->host.number == sim->node_count &&
                        (sim->options.seed % RUNS == 1 ||
                         sim_pairs_are_drawn(sim));
    durable->rest_until_ns = sim->now_ns + 500 * SIM_MS;
}

void sim_durable_die(struct sim_durable *durable)
{
    sim_channel_done(&durable->channel);
    sim_channel_init(&durable->channel, sim_of(durable),
                     &durable->client->host);
}

/* Dead programs have left sessions without end, which would block others for
 * the whole calm. */
static bool is_to_be_swept(const struct sim_durable *durable)
{
    const struct sim *sim = sim_of(durable);
    return sim_pairs_are_drawn(sim) && sim->phase != SIM_CHAOS &&
           !durable->has_swept;
}

static void choose_stage(struct sim_durable *durable)
{
    if ((durable->client->is_draining || is_to_be_swept(durable)) &&
        durable->stage < DURABLE_CLOSE) {
        durable->stage = durable->session != 0 ? DURABLE_CLOSE : DURABLE_LIST;
    } else if (durable->stage == DURABLE_REST &&
               sim_of(durable)->now_ns >= durable->rest_until_ns) {
        durable->stage = DURABLE_OPEN;
    }
}

void sim_durable_work(struct sim_durable *durable)
{
    struct sim_channel *channel = &durable->channel;
    if (!durable->is_there) {
        return;
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(durable);
    }
    sim_channel_watch(channel);
    if (!channel->is_waiting) {
        choose_stage(durable);
    }
    if (durable->stage != DURABLE_REST && durable->stage != DURABLE_DONE &&
        sim_channel_is_ready(channel)) {
        ask(durable);
    }
}

uint64_t sim_durable_next(const struct sim_durable *durable)
{
    if (!durable->is_there || durable->stage == DURABLE_DONE) {
        return UINT64_MAX;
    }
    return durable->stage == DURABLE_REST ? durable->rest_until_ns
                                          : sim_channel_next(&durable->channel);
}

bool sim_durable_is_idle(const struct sim_durable *durable)
{
    return !durable->is_there || durable->stage == DURABLE_DONE;
}
