/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/sha.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

static void client_wake(struct sim *sim, struct sim_event *event);

struct lease_clock sim_client_clock(const struct sim_client *client)
{
    uint64_t boot_ns = sim_host_now(client->sim, &client->host);
    uint64_t mono_ns = client->is_suspended ? client->suspended_at_ns : boot_ns;
    return (struct lease_clock){mono_ns - client->asleep_ns, boot_ns};
}

bool sim_client_trusts(const struct sim_client *client)
{
    struct lease lease = client->lease;
    return client->host.is_running && client->session != 0 &&
           !client->is_closing &&
           lease_check(&lease, sim_client_clock(client)) == LEASE_HELD;
}

bool sim_clients_use(struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (sim->client[i]->session == session &&
            sim->client[i]->host.is_running) {
            return true;
        }
    }
    return false;
}

const char *sim_clients_believe_in(struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        struct sim_client *client = sim->client[i];
        if (client->session == session && sim_client_trusts(client)) {
            return client->host.name;
        }
    }
    return NULL;
}

struct sim_client *sim_client_new(struct sim *sim, uint32_t number)
{
    struct sim_client *client = memory_new(sizeof *client);
    client->sim = sim;
    sim_host_init(sim, &client->host, number, 'c');
    client->host.wake.run = client_wake;
    client->makes_secret = number % 2 == 0;
    sim_channel_init(&client->beat, sim, &client->host);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_init(&client->worker[i], client, i);
    }
    sim_redis_init(&client->redis, client);
    client->lock_count = 1 + (uint32_t)(sim->options.seed % LOCK_COUNT_MAX);
    return client;
}

static void drop_session(struct sim_client *client)
{
    if (client->beat.is_waiting) {
        sim_channel_close(&client->beat); /* Nobody wants that answer. */
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

void sim_client_free(struct sim_client *client)
{
    sim_channel_done(&client->beat);
    sim_redis_done(&client->redis);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_done(&client->worker[i]);
    }
    sim_inbox_clear(&client->host.inbox);
    free(client);
}

struct sim_host *sim_client_host(struct sim_client *client)
{
    return &client->host;
}

static void choose_times(struct sim_client *client)
{
    static const uint64_t ttls_ms[] = {300, 1000, 1000, 2000, 4000, 8000};
    struct sim *sim = client->sim;
    client->ttl_ms = ttls_ms[prng_below(&sim->prng, 6)];
    client->linger_ms = 0;
    client->is_raw = sim_chance(sim, 0.3);
    client->is_curious = sim_chance(sim, 0.2);
    client->is_manifold = sim_chance(sim, 0.4);
    if (sim_chance(sim, 0.4)) {
        client->linger_ms = sim_between(sim, client->ttl_ms / 5,
                                        client->ttl_ms);
    }
}

void sim_client_start(struct sim_client *client)
{
    if (client->host.is_running) {
        return;
    }
    client->host.is_running = true;
    client->host.is_os_up = true;
    client->host.is_paused = false;
    sim_note(client->sim, &client->host, "starts", 0, 0, 0);
    drop_session(client);
    choose_times(client);
    sim_host_poke(client->sim, &client->host);
}

void sim_client_kill(struct sim_client *client, bool is_os_down)
{
    if (!client->host.is_running) {
        return;
    }
    sim_note(client->sim, &client->host,
             is_os_down ? "loses power" : "is killed", client->session, 0, 0);
    sim_client_pause(client, false, false);
    client->host.is_running = false;
    client->host.is_os_up = !is_os_down;
    sim_cancel(client->sim, &client->host.wake);
    sim_net_host_died(client->sim, client->host.number, is_os_down);
    client->beat.wire = NULL;
    sim_channel_done(&client->beat);
    sim_channel_init(&client->beat, client->sim, &client->host);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        struct sim_channel *channel = &client->worker[i].channel;
        sim_channel_done(channel);
        sim_channel_init(channel, client->sim, &client->host);
    }
    sim_redis_done(&client->redis);
    sim_redis_init(&client->redis, client);
    sim_inbox_clear(&client->host.inbox);
    drop_session(client);
}

void sim_client_pause(struct sim_client *client, bool is_paused,
                      bool is_suspended)
{
    if (!client->host.is_running || client->host.is_paused == is_paused) {
        return;
    }
    sim_note(client->sim, &client->host, is_paused ? "is stopped" : "goes on",
             is_suspended, 0, 0);
    uint64_t clock_ns = sim_host_now(client->sim, &client->host);
    if (is_paused) {
        client->is_suspended = is_suspended;
        client->suspended_at_ns = clock_ns;
        client->sim->stats.pauses++;
        sim_cancel(client->sim, &client->host.wake);
    } else if (client->is_suspended) {
        client->is_suspended = false;
        client->asleep_ns += clock_ns - client->suspended_at_ns;
    }
    client->host.is_paused = is_paused;
    sim_host_poke(client->sim, &client->host);
}

void sim_client_reconnect(struct sim_client *client)
{
    if (!client->host.is_running || client->host.is_paused) {
        return;
    }
    sim_note(client->sim, &client->host, "reconnects", 0, 0, 0);
    sim_channel_close(&client->beat);
    sim_channel_close(&client->redis.channel);
    client->beat_asked = BEAT_NONE;
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_channel_close(&client->worker[i].channel);
    }
    sim_host_poke(client->sim, &client->host);
}

void sim_client_drain(struct sim_client *client)
{
    client->is_draining = true;
    sim_host_poke(client->sim, &client->host);
}

bool sim_client_is_done(const struct sim_client *client)
{
    return !client->host.is_running ||
           (client->is_done && sim_redis_is_idle(&client->redis));
}

uint64_t sim_client_progress(const struct sim_client *client)
{
    return client->progress;
}

void sim_client_reset_progress(struct sim_client *client)
{
    client->progress = 0;
}

void sim_client_lose(struct sim_client *client, const char *why)
{
    sim_note(client->sim, &client->host, "loses its session", client->session,
             0, 0);
    sim_say(client->sim, &client->host, "because %s", why);
    client->sim->stats.lost++;
    drop_session(client);
    choose_times(client);
}

/* --- Heartbeats ----------------------------------------------------------- */

/* Nobody guesses here: what is made need not be random, but always another. */
static void put_proof(struct sim_client *client)
{
    uint8_t hash[SHA256_SIZE];
    char proof[2 * SHA256_SIZE + 1];
    snprintf(client->secret, sizeof client->secret, "%016" PRIx64 "%016" PRIx64,
             (uint64_t)client->host.number, client->sim->now_ns);
    int error = sha256(bytes_of_text(client->secret), hash);
    CHECK(error == 0);
    hex_put(proof, bytes_of(hash, sizeof hash));
    sim_channel_word(&client->beat, "PROOF");
    sim_channel_word(&client->beat, proof);
}

static void ask_open(struct sim_client *client)
{
    struct sim_channel *beat = &client->beat;
    sim_channel_begin(beat, (client->linger_ms != 0 ? 7u : 5u) +
                                (client->makes_secret ? 2u : 0u));
    sim_channel_word(beat, "SESSION.OPEN");
    sim_channel_word(beat, "TTL");
    sim_channel_number(beat, client->ttl_ms);
    sim_channel_word(beat, "NAME");
    sim_channel_word(beat, client->host.name);
    if (client->linger_ms != 0) {
        sim_channel_word(beat, "LINGER");
        sim_channel_number(beat, client->linger_ms);
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
        sim_fail(client->sim, "OPEN answers a map with id, ttl_ms, linger_ms "
                              "and, but for PROOF, secret");
        return;
    }
    if (secret != NULL) {
        memcpy(client->secret, secret->bytes.data, 32);
        client->secret[32] = '\0';
    }
    if (!sim_history_opened(sim_check_history(client->sim), client->session)) {
        sim_fail(client->sim,
                 "an answer is about what is committed: %s was "
                 "told of session %" PRIu64,
                 client->host.name, client->session);
    }
    lease_init(&client->lease);
    lease_answered(&client->lease, beat->sent, ttl_ms, linger_ms);
    beat->attached = client->session;
    sim_history_beat(sim_check_history(client->sim), client->session,
                     beat->sent_ns, ttl_ms, linger_ms);
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
        sim_fail(sim, "KEEP answers a map with ttl_ms and linger_ms");
        return;
    }
    sim->stats.beats++;
    client->progress++;
    sim_note(sim, &client->host, "kept", client->session, 0, 0);
    sim_history_beat(sim_check_history(sim), client->session, beat->sent_ns,
                     ttl_ms, linger_ms);
    uint64_t ended = sim_history_ended(sim_check_history(sim), client->session);
    if (ended != 0 && ended <= beat->sent_newest) {
        sim_fail(sim,
                 "dead stays dead: %s was told OK for a heartbeat of "
                 "session %" PRIu64 ", which entry %" PRIu64
                 " had ended before it was sent",
                 client->host.name, client->session, ended);
    }
    bool did_trust = sim_client_trusts(client);
    lease_answered(&client->lease, beat->sent, ttl_ms, linger_ms);
    if (ended != 0 && sim_client_trusts(client)) {
        sim_fail(sim,
                 "the client ends first: %s was told OK and trusts "
                 "session %" PRIu64 ", which entry %" PRIu64 " has ended",
                 client->host.name, client->session, ended);
    }
    if (!did_trust && sim_client_trusts(client)) {
        sim_client_beliefs_begin(client);
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
            sim_fail(client->sim,
                     "a refusal is about what is committed: %s "
                     "was told %s, and session %" PRIu64 " lives",
                     client->host.name, word, client->session);
        }
        lease_refused(&client->lease);
        client->is_done = client->is_done || client->is_draining;
        sim_client_lose(client, word);
        return;
    }
    bool is_known = strcmp(word, "NOLEADER") == 0 ||
                    strcmp(word, "BUSY") == 0 || strcmp(word, "UNKNOWN") == 0 ||
                    strcmp(word, "MOVED") == 0 || strcmp(word, "LIMIT") == 0 ||
                    strcmp(word, "BLACKLISTED") == 0;
    if (!is_known) {
        sim_fail(client->sim,
                 "errors are those of the contract: %s was told "
                 "'%.*s'",
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
        if (client->is_raw) {
            lease_init(&client->lease); /* Until the next OK. */
        } else {
            sim_client_lose(client, "its lease has run out");
        }
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

/* --- The loop ------------------------------------------------------------- */

static void feed(struct sim_client *client, const struct sim_news *news)
{
    if (sim_channel_feed(&client->beat, news) ||
        sim_channel_feed(&client->redis.channel, news)) {
        return;
    }
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        if (sim_channel_feed(&client->worker[i].channel, news)) {
            return;
        }
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

static void client_wake(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = LIST_ENTRY(event, struct sim_host, wake);
    struct sim_client *client = LIST_ENTRY(host, struct sim_client, host);
    CHECK(host->is_running && !host->is_paused);
    while (!list_is_empty(&host->inbox)) {
        struct sim_news *news = LIST_FIRST(&host->inbox, struct sim_news,
                                           in_inbox);
        list_remove(&news->in_inbox);
        feed(client, news);
        sim_news_free(news);
    }
    if (client->beat.is_waiting && sim_channel_take(&client->beat)) {
        take_beat(client);
    }
    sim_channel_watch(&client->beat);
    beat_work(client);
    sim_redis_work(&client->redis);
    uint64_t next_ns = beat_next(client);
    uint64_t redis_ns = sim_redis_next(&client->redis);
    next_ns = redis_ns < next_ns ? redis_ns : next_ns;
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        sim_worker_work(&client->worker[i]);
        uint64_t at_ns = sim_worker_next(&client->worker[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    uint64_t soonest_ns = sim->now_ns + SIM_MS;
    uint64_t latest_ns = sim->now_ns + 200 * SIM_MS;
    next_ns = next_ns < soonest_ns ? soonest_ns : next_ns;
    sim_at(sim, &host->wake, next_ns < latest_ns ? next_ns : latest_ns);
}
