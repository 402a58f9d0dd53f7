/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_lister.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)

static struct sim *sim_of(const struct sim_lister *lister)
{
    return lister->client->sim;
}

static const char *name_of(const struct sim_lister *lister)
{
    return lister->client->host.name;
}

/* --- What it is shown ----------------------------------------------------- */

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
    if (lister->listing.kind == FACE_LOCK) {
        sim_users_read(sim, name_of(lister), &lister->channel.wire->shown,
                       bytes_of_text(lister->listing.prefix), READS_PREFIX,
                       lister->channel.sent_newest, sim_check_newest(sim));
    }
    if (value->type != RESP_ARRAY || value->count != 2 || cursor.size == 0 ||
        value[2].type != RESP_ARRAY || value[2].count > lister->page) {
        sim_fail(sim, ORACLE_LISTINGS,
                 "LIST answers a cursor and at most a page");
        return;
    }
    sim_shown_page(&lister->channel, name_of(lister), &lister->listing);
    buffer_clear(&lister->cursor);
    if (!lister->listing.is_over) {
        buffer_put_bytes(&lister->cursor, cursor);
        return;
    }
    sim->stats.listings++;
    end_listing(lister);
}

static void take_one(struct sim_lister *lister)
{
    struct sim *sim = sim_of(lister);
    sim->stats.reads++;
    if (lister->session != 0) {
        sim_shown_session(&lister->channel, name_of(lister), lister->session);
    } else {
        sim_users_read(sim, name_of(lister), &lister->channel.wire->shown,
                       sim_lock_bytes(lister->lock), READS_LOCK,
                       lister->channel.sent_newest, sim_check_newest(sim));
        sim_shown_lock(&lister->channel, name_of(lister),
                       sim_lock_bytes(lister->lock));
    }
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
        (lister->is_about_one ? take_one : take_page)(lister);
        if (sim_chance(sim, 0.2)) {
            sim_channel_close(
                &lister->channel); /* Continues at another node. */
        }
        return;
    }
    if (strcmp(word, "NOSESSION") == 0 && lister->is_about_one &&
        sim_history_ended(sim_check_history(sim), lister->session) != 0) {
        end_listing(lister);
        return;
    }
    if (sim_users_is_refusal(word)) {
        end_listing(lister);
    } else if (strcmp(word, "NOLEADER") != 0 && strcmp(word, "BUSY") != 0 &&
               strcmp(word, "MOVED") != 0) {
        sim_fail(
            sim, ORACLE_REFUSALS,
            "errors are those of the contract: %s, which lists, got '%.*s'",
            name_of(lister), (int)value->bytes.size,
            (const char *)value->bytes.data);
    }
    sim_channel_close(&lister->channel);
    sim_channel_later(&lister->channel, sim_between(sim, 10, 300) * SIM_MS);
}

/* --- Asking --------------------------------------------------------------- */

static const char *const commands[] = {[FACE_LOCK] = "LOCK.LIST",
                                       [FACE_SESSION] = "SESSION.LIST",
                                       [FACE_FENCE] = "FENCE.LIST"};

static void begin_listing(struct sim_lister *lister)
{
    static const char *const prefixes[] = {"", "", "l", "crowd/", "s", "k"};
    struct sim *sim = sim_of(lister);
    const char *prefix = prefixes[prng_below(&sim->prng, 6)];
    static const enum face_kind kinds[] = {FACE_LOCK, FACE_LOCK, FACE_LOCK,
                                           FACE_SESSION, FACE_FENCE};
    /* Not everybody can see fences and the sessions of others. */
    bool sees_all = !sim_users_are_there(sim);
    enum face_kind kind = sees_all ? kinds[prng_below(&sim->prng, 5)]
                                   : FACE_LOCK;
    lister->is_listing = true;
    lister->is_about_one = sim_chance(sim, 0.4);
    lister->lock = (uint32_t)prng_below(&sim->prng, LOCK_COUNT_MAX);
    lister->session = 0;
    if (sees_all && sim_chance(sim, 0.3)) {
        lister->session = sim->client[prng_below(&sim->prng, sim->client_count)]
                              ->session;
    }
    sim_shown_begin(&lister->listing, kind,
                    kind == FACE_SESSION && prefix[0] != '\0' ? "c" : prefix);
    lister->page = sim_chance(sim, 0.8) ? sim_between(sim, 1, 5)
                                        : sim_between(sim, 5, 100);
    buffer_clear(&lister->cursor);
}

static void ask_page(struct sim_lister *lister)
{
    struct sim_channel *channel = &lister->channel;
    bool is_first = lister->cursor.size == 0;
    sim_channel_begin(channel, is_first ? 5 : 7);
    sim_channel_word(channel, commands[lister->listing.kind]);
    sim_channel_word(channel, "PREFIX");
    sim_channel_word(channel, lister->listing.prefix);
    sim_channel_word(channel, "COUNT");
    sim_channel_number(channel, lister->page);
    if (!is_first) {
        sim_channel_word(channel, "CURSOR");
        resp_request_argument(&channel->output, buffer_bytes(&lister->cursor));
    }
}

static void ask_one(struct sim_lister *lister)
{
    sim_channel_begin(&lister->channel, 2);
    if (lister->session != 0) {
        sim_channel_word(&lister->channel, "SESSION.SHOW");
        sim_channel_number(&lister->channel, lister->session);
    } else {
        sim_channel_word(&lister->channel, "LOCK.SHOW");
        sim_channel_word(&lister->channel, sim_lock_name(lister->lock));
    }
}

static void ask(struct sim_lister *lister)
{
    (lister->is_about_one ? ask_one : ask_page)(lister);
    lister->is_asking = true;
    sim_channel_send(&lister->channel, sim_client_clock(lister->client),
                     ANSWER_NS);
}

void sim_lister_init(struct sim_lister *lister, struct sim_client *client)
{
    *lister = (struct sim_lister){.client = client};
    sim_channel_init(&lister->channel, client->sim, &client->host);
    end_listing(lister);
}

void sim_lister_done(struct sim_lister *lister)
{
    sim_channel_done(&lister->channel);
    buffer_done(&lister->cursor);
    sim_shown_done(&lister->listing);
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
