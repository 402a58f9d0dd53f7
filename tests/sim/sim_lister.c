/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_lister.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_lives.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)
#define NAME_SIZE_MAX 64

static struct sim *sim_of(const struct sim_lister *lister)
{
    return lister->client->sim;
}

static struct sim_lives *lives_of(const struct sim_lister *lister)
{
    return sim_check_lives(sim_of(lister));
}

static const char *name_of(const struct sim_lister *lister)
{
    return lister->client->host.name;
}

/* --- What it is shown ----------------------------------------------------- */

static struct bytes name_at(const struct sim_lister *lister, size_t at)
{
    const uint8_t *size = lister->names.data + at;
    return bytes_of(size + 1, *size);
}

static bool was_shown(const struct sim_lister *lister, struct bytes name)
{
    size_t at = 0;
    while (at < lister->names.size && !bytes_equal(name_at(lister, at), name)) {
        at += 1 + name_at(lister, at).size;
    }
    return at < lister->names.size;
}

/* As memcmp() orders them. */
static bool is_behind(struct bytes name, struct bytes other)
{
    size_t size = name.size < other.size ? name.size : other.size;
    int order = memcmp(name.data, other.data, size);
    return order != 0 ? order > 0 : name.size > other.size;
}

static void take_name(struct sim_lister *lister, struct bytes name)
{
    struct sim *sim = sim_of(lister);
    uint64_t from = lister->channel.sent_newest, to = sim_check_newest(sim);
    if (name.size == 0 || name.size > NAME_SIZE_MAX ||
        !bytes_has_prefix(name, bytes_of_text(lister->prefix)) ||
        (lister->names.size > 0 &&
         !is_behind(name, name_at(lister, lister->last)))) {
        sim_fail(sim,
                 "a listing is in the order of the names, each once: %s is "
                 "shown '%.*s' in the wrong place",
                 name_of(lister), (int)name.size, (const char *)name.data);
        return;
    }
    if (!sim_lives_sometime(lives_of(lister), name, from, to)) {
        sim_fail(sim,
                 "what is listed is there: %s is shown '%.*s', which was not "
                 "between entries %" PRIu64 " and %" PRIu64,
                 name_of(lister), (int)name.size, (const char *)name.data, from,
                 to);
    }
    lister->last = lister->names.size;
    buffer_put_u8(&lister->names, (uint8_t)name.size);
    buffer_put_bytes(&lister->names, name);
}

static void look_for(void *data, struct bytes name)
{
    struct sim_lister *lister = data;
    if (bytes_has_prefix(name, bytes_of_text(lister->prefix)) &&
        !was_shown(lister, name)) {
        sim_fail(sim_of(lister),
                 "what is there all the time is listed: %s is not shown '%.*s' "
                 "in pages of %" PRIu64 " from entry %" PRIu64 " on",
                 name_of(lister), (int)name.size, (const char *)name.data,
                 lister->page, lister->from);
    }
}

static void end_listing(struct sim_lister *lister)
{
    struct sim *sim = sim_of(lister);
    lister->is_listing = false;
    lister->think_until_ns = sim->now_ns +
                             sim_between(sim, 500, 10000) * SIM_MS;
}

/* [cursor, [{name, ...}, ...]] */
static void take_page(struct sim_lister *lister)
{
    struct sim *sim = sim_of(lister);
    const struct resp_reply *reply = &lister->channel.reply;
    const struct resp_value *value = reply->value;
    struct bytes cursor = reply->count > 2 ? value[1].bytes : bytes_of_text("");
    sim->stats.reads++;
    if (value->type != RESP_ARRAY || value->count != 2 || cursor.size == 0 ||
        value[2].type != RESP_ARRAY || value[2].count > lister->page) {
        sim_fail(sim, "LIST answers a cursor and no more than a page");
        return;
    }
    if (lister->cursor.size == 0) {
        lister->from = lister->channel.sent_newest;
        buffer_clear(&lister->names);
    }
    uint32_t at = 3;
    for (uint32_t i = 0; i < value[2].count && !sim->has_failed; i++) {
        const struct resp_value *name = resp_find(reply, at, "name");
        take_name(lister, name != NULL ? name->bytes : bytes_of_text(""));
        at += value[at].span;
    }
    buffer_clear(&lister->cursor);
    if (!bytes_equal(cursor, BYTES_LITERAL("0"))) {
        buffer_put_bytes(&lister->cursor, cursor);
        return;
    }
    sim_lives_always(lives_of(lister), lister->from, sim_check_newest(sim),
                     look_for, lister);
    sim->stats.listings++;
    end_listing(lister);
}

static void take(struct sim_lister *lister)
{
    struct sim *sim = sim_of(lister);
    const struct resp_value *value = &lister->channel.reply.value[0];
    char word[32];
    sim_channel_error(&lister->channel, word);
    lister->is_asking = false;
    if (word[0] == '\0') {
        take_page(lister);
        if (sim_chance(sim, 0.2)) {
            sim_channel_close(&lister->channel); /* Elsewhere goes on. */
        }
        return;
    }
    if (strcmp(word, "NOLEADER") != 0 && strcmp(word, "BUSY") != 0 &&
        strcmp(word, "MOVED") != 0) {
        sim_fail(sim,
                 "errors are those of the contract: %s, which lists, was told "
                 "'%.*s'",
                 name_of(lister), (int)value->bytes.size,
                 (const char *)value->bytes.data);
    }
    sim_channel_close(&lister->channel);
    sim_channel_later(&lister->channel, sim_between(sim, 10, 300) * SIM_MS);
}

/* --- Asking --------------------------------------------------------------- */

static void begin_listing(struct sim_lister *lister)
{
    static const char *const prefixes[] = {"", "", "l", "crowd/", "s", "k"};
    struct sim *sim = sim_of(lister);
    lister->is_listing = true;
    lister->prefix = prefixes[prng_below(&sim->prng, 6)];
    lister->page = sim_chance(sim, 0.8) ? sim_between(sim, 1, 5)
                                        : sim_between(sim, 5, 100);
    buffer_clear(&lister->cursor);
    buffer_clear(&lister->names);
}

static void ask(struct sim_lister *lister)
{
    struct sim_channel *channel = &lister->channel;
    bool is_first = lister->cursor.size == 0;
    sim_channel_begin(channel, is_first ? 5 : 7);
    sim_channel_word(channel, "LOCK.LIST");
    sim_channel_word(channel, "PREFIX");
    sim_channel_word(channel, lister->prefix);
    sim_channel_word(channel, "COUNT");
    sim_channel_number(channel, lister->page);
    if (!is_first) {
        sim_channel_word(channel, "CURSOR");
        resp_request_argument(&channel->output, buffer_bytes(&lister->cursor));
    }
    lister->is_asking = true;
    sim_channel_send(channel, sim_client_clock(lister->client), ANSWER_NS);
}

void sim_lister_init(struct sim_lister *lister, struct sim_client *client)
{
    *lister = (struct sim_lister){.client = client, .prefix = ""};
    sim_channel_init(&lister->channel, client->sim, &client->host);
    end_listing(lister);
}

void sim_lister_done(struct sim_lister *lister)
{
    sim_channel_done(&lister->channel);
    buffer_done(&lister->cursor);
    buffer_done(&lister->names);
}

void sim_lister_work(struct sim_lister *lister)
{
    struct sim_channel *channel = &lister->channel;
    struct sim *sim = sim_of(lister);
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(lister);
    }
    sim_channel_watch(channel);
    if (!lister->is_listing && !lister->client->is_draining &&
        sim->now_ns >= lister->think_until_ns) {
        begin_listing(lister);
    }
    if (lister->is_listing && sim_channel_is_ready(channel)) {
        ask(lister);
    }
}

uint64_t sim_lister_next(const struct sim_lister *lister)
{
    uint64_t at_ns = sim_channel_next(&lister->channel);
    if (lister->is_listing) {
        return at_ns;
    }
    return lister->client->is_draining ? UINT64_MAX : lister->think_until_ns;
}
