/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_channel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"

#define CONNECT_NS (1500 * SIM_MS)

void sim_channel_init(struct sim_channel *channel, struct sim *sim,
                      struct sim_host *host)
{
    *channel = (struct sim_channel){.sim = sim, .host = host};
}

void sim_channel_done(struct sim_channel *channel)
{
    buffer_done(&channel->input);
    buffer_done(&channel->output);
    resp_reply_done(&channel->reply);
}

static void next_in_turn(struct sim_channel *channel);

static void forget(struct sim_channel *channel)
{
    channel->wire = NULL;
    channel->is_open = false;
    channel->is_waiting = false;
    channel->is_authenticating = channel->is_authenticated = false;
    channel->attached = 0;
    buffer_clear(&channel->input);
    sim_channel_later(channel, sim_between(channel->sim, 1, 100) * SIM_MS);
}

void sim_channel_close(struct sim_channel *channel)
{
    if (channel->wire != NULL) {
        sim_net_close(channel->sim, channel->wire, 0, 0);
        forget(channel);
    }
}

static void dial(struct sim_channel *channel)
{
    struct sim *sim = channel->sim;
    uint32_t to = channel->next_node > 0
                      ? channel->next_node - 1
                      : (uint32_t)prng_below(&sim->prng, sim->node_count);
    channel->next_node = 0;
    channel->wire = sim_net_dial(sim, WIRE_CLIENT, channel->host->number, to);
    channel->wire->shown = channel->who != NULL
                               ? *channel->who
                               : *sim_client_identity(
                                     sim_client_of(sim, channel->host));
    channel->give_up_ns = sim->now_ns + CONNECT_NS;
}

/* Authenticates before the first request. */
static void authenticate(struct sim_channel *channel)
{
    struct sim *sim = channel->sim;
    struct buffer request = {0};
    resp_request_begin(&request, 2);
    resp_request_argument(&request, BYTES_LITERAL("AUTH"));
    resp_request_argument(&request, bytes_of_text(channel->wire->shown.secret));
    channel->is_waiting = channel->is_authenticating = true;
    channel->give_up_ns = sim->now_ns + CONNECT_NS;
    sim_net_send(sim, channel->wire, 0, buffer_bytes(&request), 0);
    buffer_done(&request);
}

bool sim_channel_is_ready(struct sim_channel *channel)
{
    struct sim *sim = channel->sim;
    if (channel->is_waiting || sim->now_ns < channel->not_before_ns) {
        return false;
    }
    if (channel->wire == NULL) {
        dial(channel);
        return false;
    }
    if (channel->is_open && channel->wire->shown.way == WHO_SECRET &&
        !channel->is_authenticated) {
        authenticate(channel);
        return false;
    }
    return channel->is_open;
}

void sim_channel_begin(struct sim_channel *channel, uint64_t count)
{
    buffer_clear(&channel->output);
    resp_request_begin(&channel->output, count);
}

void sim_channel_word(struct sim_channel *channel, const char *text)
{
    resp_request_argument(&channel->output, bytes_of_text(text));
}

void sim_channel_number(struct sim_channel *channel, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    sim_channel_word(channel, text);
}

void sim_channel_send(struct sim_channel *channel, struct lease_clock now,
                      uint64_t wait_ns)
{
    struct sim *sim = channel->sim;
    CHECK(channel->is_open && !channel->is_waiting);
    channel->is_waiting = true;
    channel->sent = now;
    channel->sent_ns = sim->now_ns;
    channel->sent_newest = channel->asked_newest = sim_check_newest(sim);
    channel->sent_applied = sim_users_has_applied(sim, channel->wire->host[1]);
    channel->give_up_ns = sim->now_ns + wait_ns;
    sim_note(sim, channel->host, "asks", channel->wire->id,
             channel->output.size, channel->wire->host[1] + 1);
    sim_net_send(sim, channel->wire, 0, buffer_bytes(&channel->output), 0);
}

bool sim_channel_feed(struct sim_channel *channel, const struct sim_news *news)
{
    if (channel->wire == NULL || news->wire != channel->wire) {
        return false;
    }
    switch (news->kind) {
    case NEWS_CONNECTED:
        channel->is_open = true;
        break;
    case NEWS_DATA:
        buffer_put_bytes(&channel->input, news->bytes);
        break;
    default:
        if (!channel->is_open) {
            next_in_turn(
                channel); /* Nobody listens there; the next node might. */
        }
        sim_net_close(channel->sim, channel->wire, 0, 0);
        forget(channel);
        break;
    }
    return true;
}

/* Parses the first reply of any kind. */
static bool take_any(struct sim_channel *channel)
{
    if (channel->input.size == 0) {
        return false;
    }
    size_t used = 0;
    /* The reply borrows from the input: keep a copy of it in 'output'. */
    int error = resp_parse_reply(buffer_bytes(&channel->input), 10000,
                                 &channel->reply, &used);
    if (error == HASP_EMORE) {
        return false;
    }
    CHECK(error == 0);
    buffer_clear(&channel->output);
    buffer_put(&channel->output, channel->input.data, used);
    buffer_consume(&channel->input, used);
    error = resp_parse_reply(buffer_bytes(&channel->output), 10000,
                             &channel->reply, &used);
    CHECK(error == 0);
    return true;
}

static bool is_push(struct sim_channel *channel)
{
    return channel->pushed != NULL ? channel->pushed(channel)
                                   : channel->reply.value[0].type == RESP_PUSH;
}

/* The answer to AUTH. */
static void take_authenticated(struct sim_channel *channel)
{
    char word[32];
    channel->is_authenticating = false;
    channel->is_authenticated = true;
    sim_channel_error(channel, word);
    if (word[0] != '\0') {
        if (strcmp(word, "WRONGPASS") == 0) {
            sim_client_renew(sim_client_of(channel->sim, channel->host));
        }
        sim_channel_close(channel);
        sim_channel_later(channel, sim_between(channel->sim, 10, 300) * SIM_MS);
    }
}

bool sim_channel_take(struct sim_channel *channel)
{
    while (take_any(channel)) {
        if (!is_push(channel)) {
            CHECK(channel->is_waiting);
            channel->is_waiting = false;
            if (!channel->is_authenticating) {
                return true;
            }
            take_authenticated(channel);
            return false;
        }
    }
    return false;
}

/* Not at random: each node has its turn. */
static void next_in_turn(struct sim_channel *channel)
{
    channel->next_node = (channel->wire->host[1] + 1) %
                             channel->sim->node_count +
                         1;
}

const char *sim_channel_error(struct sim_channel *channel, char word[32])
{
    const struct resp_value *value = &channel->reply.value[0];
    word[0] = '\0';
    if (value->type != RESP_ERROR) {
        return word;
    }
    size_t i = 0;
    while (i < value->bytes.size && i < 31 && value->bytes.data[i] != ' ') {
        word[i] = (char)value->bytes.data[i];
        i++;
    }
    word[i] = '\0';
    if (sim_users_is_refusal(word)) {
        sim_users_told(channel->sim, channel->host->name, &channel->wire->shown,
                       value->bytes, channel->asked_newest,
                       channel->wire->accepted);
        if (channel->who == NULL && strcmp(word, "NOAUTH") == 0) {
            sim_client_renew(sim_client_of(channel->sim, channel->host));
        }
    } else if (strcmp(word, "NOLEADER") == 0) {
        next_in_turn(channel);
    } else if (strcmp(word, "MOVED") == 0) {
        char text[128] = "";
        size_t size = value->bytes.size < sizeof text - 1 ? value->bytes.size
                                                          : sizeof text - 1;
        memcpy(text, value->bytes.data, size);
        unsigned id = 0;
        if (sscanf(text, "MOVED %*u 10.0.0.%u:", &id) == 1 && id > 0) {
            channel->next_node = id;
        }
    }
    return word;
}

void sim_channel_watch(struct sim_channel *channel)
{
    if (channel->wire != NULL && (channel->is_waiting || !channel->is_open) &&
        channel->sim->now_ns >= channel->give_up_ns) {
        channel->sim->stats.unknowns += channel->is_waiting ? 1 : 0;
        next_in_turn(channel);
        sim_channel_close(channel);
    }
}

void sim_channel_later(struct sim_channel *channel, uint64_t ns)
{
    channel->not_before_ns = channel->sim->now_ns + ns;
}

uint64_t sim_channel_next(const struct sim_channel *channel)
{
    if (channel->wire != NULL && (channel->is_waiting || !channel->is_open)) {
        return channel->give_up_ns;
    }
    return channel->not_before_ns;
}
