/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_drawn.h"

#include "tests/sim/sim_users.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)
/* One in this many runs has such clients. */
#define RUNS 4
/* Sessions end soon after the clients were told to finish. */
#define TTL_MS_MAX 2000
/* From one release to the next one, in the end. */
#define RELEASE_NS (50 * SIM_MS)
#define HEARD_FROM (1 << 20)

static struct sim *sim_of(const struct sim_drawn *drawn)
{
    return drawn->client->sim;
}

static uint32_t below(void *data, uint32_t bound)
{
    struct sim_drawn *drawn = data;
    return (uint32_t)prng_below(&drawn->prng, bound);
}

/* The requests of a piece are sent at once, so that they meet in a turn. */
static void think(struct sim_drawn *drawn)
{
    struct sim *sim = sim_of(drawn);
    uint32_t way = below(drawn, 100);
    uint64_t ms = way < 60 ? 0 : way < 98 ? below(drawn, 40) : 2000;
    drawn->think_until_ns = sim->now_ns + ms * SIM_MS;
}

/* Tokens and ids are drawn again. */
static void hear(struct sim_drawn *drawn, const struct resp_reply *reply)
{
    struct drawn_heard *heard = &drawn->heard;
    for (uint32_t i = 0; i < reply->count; i++) {
        if (reply->value[i].type == RESP_INTEGER &&
            reply->value[i].integer >= HEARD_FROM) {
            heard->number[heard->next++ % DRAWN_HEARD_COUNT] = (uint64_t)reply
                                                                   ->value[i]
                                                                   .integer;
        }
    }
}

/* An error may have been made up by a script, so its word is not checked. */
static bool says_to_go(const struct resp_value *value)
{
    static const char *const words[] = {"NOLEADER", "BUSY", "MOVED", "UNKNOWN"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        is_one |= value->type == RESP_ERROR &&
                  bytes_has_prefix(value->bytes, bytes_of_text(words[i]));
    }
    return is_one;
}

static void take(struct sim_drawn *drawn)
{
    struct sim_channel *channel = &drawn->channel;
    drawn->is_asking = false;
    sim_of(drawn)->stats.drawn++;
    hear(drawn, &channel->reply);
    if (says_to_go(&channel->reply.value[0])) {
        sim_channel_close(channel);
        sim_channel_later(channel, (10 + below(drawn, 200)) * SIM_MS);
        return;
    }
    if (drawn->client->is_draining) {
        if (channel->reply.value[0].type == RESP_ERROR) {
            sim_channel_close(channel); /* It was in a transaction. */
        }
        drawn->think_until_ns = sim_of(drawn)->now_ns + RELEASE_NS;
        return;
    }
    think(drawn);
    if (below(drawn, 100) == 0) {
        sim_channel_close(channel); /* Also in the middle of a transaction. */
    }
}

/* What the other oracles can judge: the oracle of events writes texts
 * literally, and a user that has lost a right could not release a durable
 * value. */
static bool is_fit(struct sim *sim, const struct drawn_request *request)
{
    bool is_good = drawn_is_tame(request);
    for (uint32_t i = 0; i < request->count; i++) {
        const struct bytes word = request->word[i];
        for (size_t at = 0; at < word.size; at++) {
            is_good &= word.data[at] != '\r';
        }
        is_good &= !bytes_is_word(word, "DURABLE") || !sim_users_are_there(sim);
    }
    return is_good;
}

static void send(struct sim_drawn *drawn)
{
    drawn->is_asking = true;
    sim_channel_send(&drawn->channel, sim_client_clock(drawn->client),
                     ANSWER_NS);
}

/* No time ends durable values, so they are released: one name after the other,
 * and again, as a request that was given up may still take effect. */
static void release(struct sim_drawn *drawn)
{
    /* Those that are drawn, and those of spoiled requests. */
    static const char *const names[] = {"k",
                                        "a",
                                        "b",
                                        "a/b",
                                        "hold",
                                        "-1",
                                        "NONE",
                                        "9007199254740992",
                                        "18446744073709551616"};
    struct sim_channel *channel = &drawn->channel;
    sim_channel_begin(channel, 4);
    sim_channel_word(channel, "EVAL");
    sim_channel_word(channel, "redis.pcall('get',KEYS[1]) "
                              "return redis.call('del',KEYS[1])");
    sim_channel_word(channel, "1");
    sim_channel_word(channel,
                     names[drawn->released++ % (sizeof names / sizeof *names)]);
    send(drawn);
}

static void ask(struct sim_drawn *drawn)
{
    struct sim_channel *channel = &drawn->channel;
    const struct choice choice = {
        .below = below, .data = drawn, .ms_max = TTL_MS_MAX};
    struct drawn_request request;
    do {
        drawn_request(&choice, &drawn->heard, &request);
    } while (!is_fit(sim_of(drawn), &request));
    sim_channel_begin(channel, request.count);
    for (uint32_t i = 0; i < request.count; i++) {
        resp_request_argument(&channel->output, request.word[i]);
    }
    send(drawn);
}

void sim_drawn_init(struct sim_drawn *drawn, struct sim_client *client)
{
    uint64_t seed = client->sim->options.seed;
    uint64_t number = client->host.number;
    *drawn = (struct sim_drawn){.client = client,
                                .is_there = seed % RUNS == 1,
                                .prng = {seed * 1000 + number + 1},
                                .think_until_ns = client->sim->now_ns + SIM_S};
    sim_channel_init(&drawn->channel, client->sim, &client->host);
}

void sim_drawn_done(struct sim_drawn *drawn)
{
    sim_channel_done(&drawn->channel);
}

void sim_drawn_work(struct sim_drawn *drawn)
{
    struct sim_channel *channel = &drawn->channel;
    if (!drawn->is_there) {
        return;
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(drawn);
    }
    sim_channel_watch(channel);
    if (channel->is_waiting || sim_of(drawn)->now_ns < drawn->think_until_ns ||
        !sim_channel_is_ready(channel)) {
        return;
    }
    if (drawn->client->is_draining) {
        release(drawn);
    } else {
        ask(drawn);
    }
}

uint64_t sim_drawn_next(const struct sim_drawn *drawn)
{
    if (!drawn->is_there) {
        return UINT64_MAX;
    }
    uint64_t at_ns = sim_channel_next(&drawn->channel);
    if (drawn->is_asking || drawn->channel.is_waiting) {
        return at_ns;
    }
    return drawn->think_until_ns;
}
