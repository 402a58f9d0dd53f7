/* SPDX-License-Identifier: MIT */

/* A rogue's session and its heartbeats, by hand. It shows that leases hold for
 * any client that speaks the protocol, also for one that does not know "lost":
 * it trusts every OK. It does what the library never does: several connections
 * for one session, waits that block one, requests without a number, CANCEL, a
 * secret that the leader makes. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/sha.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

bool sim_rogue_trusts(const struct sim_client *client)
{
    struct lease lease = client->lease;
    return client->host.is_running && client->session != 0 &&
           !client->is_closing &&
           (client->sim->options.is_planted ||
            lease_check(&lease, sim_client_clock(client)) == LEASE_HELD);
}

void sim_rogue_beliefs(const struct sim_client *client, sim_belief_fn *each,
                       void *data)
{
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_beliefs(&client->worker[i], each, data);
    }
}

static void drop_session(struct sim_client *client)
{
    if (client->beat.is_waiting) {
        sim_channel_close(&client->beat); /* That answer is not needed. */
    }
    client->session = 0;
    client->is_closing = false;
    client->beat_asked = BEAT_NONE;
    lease_init(&client->lease);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_channel_close(&client->worker[i].channel);
        sim_worker_reset(&client->worker[i]);
    }
}

static void choose_times(struct sim_client *client)
{
    static const uint64_t ttls_ms[] = {300, 1000, 1000, 2000, 4000, 8000};
    struct sim *sim = client->sim;
    client->ttl_ms = ttls_ms[prng_below(&sim->prng, 6)];
    client->linger_ms = 0;
    if (sim_chance(sim, 0.4)) {
        client->linger_ms = sim_between(sim, client->ttl_ms / 5,
                                        client->ttl_ms);
    }
}

void sim_rogue_start(struct sim_client *client)
{
    sim_channel_init(&client->beat, client->sim, &client->host);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_init(&client->worker[i], client, i);
    }
    drop_session(client);
    choose_times(client);
}

void sim_rogue_die(struct sim_client *client)
{
    client->session = 0;
    sim_channel_done(&client->beat);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_done(&client->worker[i]);
    }
}

void sim_rogue_reconnect(struct sim_client *client)
{
    sim_channel_close(&client->beat);
    client->beat_asked = BEAT_NONE;
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_channel_close(&client->worker[i].channel);
    }
}

void sim_rogue_lose(struct sim_client *client, const char *why)
{
    sim_note(client->sim, &client->host, "loses its session", client->session,
             0, 0);
    sim_say(client->sim, &client->host, "because %s", why);
    client->sim->stats.lost++;
    drop_session(client);
    choose_times(client);
}

/* --- Heartbeats ----------------------------------------------------------- */

static void put_hash(struct sim_channel *channel, const char *option,
                     const char *secret)
{
    uint8_t hash[SHA256_SIZE];
    char proof[2 * SHA256_SIZE + 1];
    int error = sha256(bytes_of_text(secret), hash);
    CHECK(error == 0);
    hex_put(proof, bytes_of(hash, sizeof hash));
    sim_channel_word(channel, option);
    sim_channel_word(channel, proof);
}

void sim_rogue_put_proof(struct sim_channel *channel, const char *secret)
{
    put_hash(channel, "PROOF", secret);
}

/* Nobody guesses here: a secret need not be random, but always different. */
static void put_proof(struct sim_client *client)
{
    snprintf(client->secret, sizeof client->secret, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)client->host.number, client->sim->now_ns);
    sim_rogue_put_proof(&client->beat, client->secret);
}

static void put_will(struct sim_client *client)
{
    snprintf(client->word, sizeof client->word, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)client->host.number + 1000, client->sim->now_ns);
    put_hash(&client->beat, "WILL", client->word);
}

static void ask_open(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    /* LINGER or WILL. */
    sim_channel_begin(beat, 7u + (client->makes_secret ? 2u : 0u));
    sim_channel_word(beat, "SESSION.OPEN");
    sim_channel_word(beat, "TTL");
    sim_channel_number(beat, client->ttl_ms);
    sim_channel_word(beat, "NAME");
    sim_channel_word(beat, client->host.name);
    if (client->linger_ms != 0) {
        sim_channel_word(beat, "LINGER");
        sim_channel_number(beat, client->linger_ms);
    } else {
        put_will(client);
    }
    if (client->makes_secret) {
        put_proof(client);
    }
    client->beat_asked = BEAT_OPEN;
    sim_channel_send(beat, sim_client_clock(client), 4 * SIM_S);
}

static void ask_keep(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    struct lease_clock now = sim_client_clock(client);
    sim_channel_begin(beat, 4);
    sim_channel_word(beat, "SESSION.KEEP");
    sim_channel_number(beat, client->session);
    sim_channel_word(beat, client->secret);
    sim_channel_word(beat, "FULL");
    client->beat_asked = BEAT_KEEP;
    lease_beat_sent(&client->lease, now);
    sim_channel_send(beat, now, client->ttl_ms * SIM_MS / 3 + 100 * SIM_MS);
}

static void ask_close(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    client->is_closing = true;
    sim_channel_begin(beat, 1);
    sim_channel_word(beat, "SESSION.CLOSE");
    client->beat_asked = BEAT_CLOSE;
    sim_channel_send(beat, sim_client_clock(client), 4 * SIM_S);
}

static void ask_attach(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    sim_channel_begin(beat, 3);
    sim_channel_word(beat, "SESSION.ATTACH");
    sim_channel_number(beat, client->session);
    sim_channel_word(beat, client->secret);
    client->beat_asked = BEAT_ATTACH;
    sim_channel_send(beat, sim_client_clock(client), 4 * SIM_S);
}

static bool take_number(struct sim_channel *channel, const char *key,
                        uint64_t *ret_number)
{
    const struct resp_value *value = resp_find(&channel->reply, 0, key);
    if (value == NULL || value->type != RESP_INTEGER) {
        return false;
    }
    *ret_number = (uint64_t)value->integer;
    return true;
}

static void take_opened(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    const struct resp_value *secret = resp_find(&beat->reply, 0, "secret");
    uint64_t ttl_ms = 0, linger_ms = 0;
    if (!take_number(beat, "id", &client->session) ||
        !take_number(beat, "ttl_ms", &ttl_ms) ||
        !take_number(beat, "linger_ms", &linger_ms) ||
        (secret == NULL) != client->makes_secret ||
        (secret != NULL && secret->bytes.size != 32)) {
        sim_fail(client->sim, ORACLE_REFUSALS,
                 "OPEN answers a map with id, ttl_ms, linger_ms "
                 "and, but for PROOF, secret");
        return;
    }
    if (secret != NULL) {
        memcpy(client->secret, secret->bytes.data, 32);
        client->secret[32] = '\0';
    }
    if (!sim_history_opened(sim_check_history(client->sim), client->session)) {
        sim_fail(client->sim, ORACLE_RESULTS,
                 "an answer reflects committed state: %s got session %" PRIu64,
                 client->host.name, client->session);
    }
    lease_init(&client->lease);
    lease_answered(&client->lease, beat->sent, ttl_ms, linger_ms);
    beat->attached = client->session;
    sim_history_beat(sim_check_history(client->sim), client->session,
                     beat->sent_ns, ttl_ms, linger_ms);
    if (client->linger_ms == 0) {
        sim_witness_tie(client, client->session, client->word);
    }
    client->progress++;
    sim_note(client->sim, &client->host, "opened", client->session, ttl_ms,
             linger_ms);
}

static void take_kept(struct sim_client *client)
{
    struct sim *sim = client->sim;
    struct sim_channel *beat = &client->beat;
    uint64_t ttl_ms = 0, linger_ms = 0;
    if (!take_number(beat, "ttl_ms", &ttl_ms) ||
        !take_number(beat, "linger_ms", &linger_ms)) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "KEEP answers a map with ttl_ms and linger_ms");
        return;
    }
    sim->stats.beats++;
    client->progress++;
    sim_note(sim, &client->host, "kept", client->session, 0, 0);
    sim_users_kept(sim, client->host.name, &beat->wire->shown,
                   beat->sent_newest, beat->sent_applied);
    sim_history_beat(sim_check_history(sim), client->session, beat->sent_ns,
                     ttl_ms, linger_ms);
    uint64_t ended = sim_history_ended(sim_check_history(sim), client->session);
    if (ended != 0 && ended <= beat->sent_newest) {
        sim_fail(
            sim, ORACLE_DEATH,
            "dead stays dead: %s got OK for a heartbeat of session %" PRIu64
            ", which entry %" PRIu64 " had ended before it was sent",
            client->host.name, client->session, ended);
    }
    lease_answered(&client->lease, beat->sent, ttl_ms, linger_ms);
    if (ended != 0 &&
        !sim_history_dropped(sim_check_history(sim), client->session) &&
        sim_rogue_trusts(client)) {
        sim_fail(sim, ORACLE_LEASES,
                 "the client ends first: %s got OK and trusts session %" PRIu64
                 ", which entry %" PRIu64 " has ended",
                 client->host.name, client->session, ended);
    }
}

static void take_refusal(struct sim_client *client, const char *word)
{
    bool is_end = strcmp(word, "EXPIRED") == 0 ||
                  strcmp(word, "NOSESSION") == 0 ||
                  strcmp(word, "BLACKLISTED") == 0;
    if (is_end && client->beat_asked != BEAT_OPEN) {
        uint64_t ended = sim_history_ended(sim_check_history(client->sim),
                                           client->session);
        if (ended == 0 && strcmp(word, "BLACKLISTED") != 0 &&
            !client->is_closing) {
            sim_fail(client->sim, ORACLE_REFUSALS,
                     "a refusal reflects committed state: %s got %s, and "
                     "session %" PRIu64 " lives",
                     client->host.name, word, client->session);
        }
        lease_refused(&client->lease);
        client->is_done = client->is_done || client->is_draining;
        sim_rogue_lose(client, word);
        return;
    }
    bool is_known = strcmp(word, "NOLEADER") == 0 ||
                    strcmp(word, "BUSY") == 0 || strcmp(word, "UNKNOWN") == 0 ||
                    strcmp(word, "MOVED") == 0 || strcmp(word, "LIMIT") == 0 ||
                    strcmp(word, "BLACKLISTED") == 0 ||
                    sim_users_is_refusal(word);
    if (!is_known) {
        sim_fail(client->sim, ORACLE_REFUSALS,
                 "errors are those of the contract: %s got '%.*s'",
                 client->host.name, (int)client->beat.reply.value[0].bytes.size,
                 (const char *)client->beat.reply.value[0].bytes.data);
    }
    if (strcmp(word, "BUSY") != 0) {
        sim_channel_close(&client->beat);
    }
    sim_channel_later(&client->beat,
                      sim_between(client->sim, 10, 200) * SIM_MS);
}

static void take_beat(struct sim_client *client)
{
    char word[32];
    sim_channel_error(&client->beat, word);
    if (word[0] != '\0') {
        take_refusal(client, word);
    } else if (client->beat_asked == BEAT_OPEN) {
        take_opened(client);
    } else if (client->beat_asked == BEAT_KEEP) {
        take_kept(client);
    } else if (client->beat_asked == BEAT_ATTACH) {
        client->beat.attached = client->session;
    } else if (client->beat_asked == BEAT_CLOSE) {
        client->is_done = client->is_draining;
        drop_session(client);
        choose_times(client);
    }
    client->beat_asked = BEAT_NONE;
}

static bool may_close(struct sim_client *client)
{
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        if (!sim_worker_is_idle(&client->worker[i])) {
            return false;
        }
    }
    return client->is_draining;
}

static void beat_work(struct sim_client *client)
{
    if (client->session != 0 &&
        lease_check(&client->lease, sim_client_clock(client)) == LEASE_LOST) {
        lease_init(&client->lease); /* Until the next OK. */
    }
    if (client->is_done) {
        return;
    }
    if (client->session == 0 && client->is_draining) {
        client->is_done = true;
        return;
    }
    bool is_due = client->session == 0 || client->is_closing ||
                  may_close(client) ||
                  client->beat.attached != client->session ||
                  lease_next_beat(&client->lease, sim_client_clock(client)) ==
                      0;
    if (!is_due || !sim_channel_is_ready(&client->beat)) {
        return;
    }
    if (client->session == 0) {
        ask_open(client);
    } else if (lease_next_beat(&client->lease, sim_client_clock(client)) == 0 &&
               !client->is_closing) {
        ask_keep(client);
    } else if (client->beat.attached != client->session) {
        ask_attach(client);
    } else if (client->is_closing || may_close(client)) {
        ask_close(client);
    }
}

bool sim_rogue_feed(struct sim_client *client, const struct sim_news *news)
{
    if (sim_channel_feed(&client->beat, news)) {
        return true;
    }
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        if (sim_channel_feed(&client->worker[i].channel, news)) {
            return true;
        }
    }
    return false;
}

void sim_rogue_work(struct sim_client *client)
{
    if (client->beat.is_waiting && sim_channel_take(&client->beat)) {
        take_beat(client);
    }
    sim_channel_watch(&client->beat);
    beat_work(client);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_work(&client->worker[i]);
    }
}

static uint64_t beat_next(const struct sim_client *client)
{
    uint64_t at_ns = sim_channel_next(&client->beat);
    if (client->session == 0 || client->is_draining ||
        client->beat.is_waiting) {
        return at_ns;
    }
    uint64_t in_ns = lease_next_beat(&client->lease, sim_client_clock(client));
    uint64_t due_ns = in_ns == UINT64_MAX
                          ? UINT64_MAX
                          : sim_clock_when(
                                &client->host.clock,
                                sim_host_now(client->sim, &client->host) +
                                    in_ns);
    return due_ns > at_ns ? due_ns : at_ns;
}

uint64_t sim_rogue_next(const struct sim_client *client)
{
    uint64_t next_ns = beat_next(client);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        uint64_t at_ns = sim_worker_next(&client->worker[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}
