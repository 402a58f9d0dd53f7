/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_client.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_flood.h"
#include "tests/sim/sim_pairs.h"
#include "tests/sim/sim_program.h"
#include "tests/sim/sim_worker.h"

static void client_wake(struct sim *sim, struct sim_event *event);

struct sim_client *sim_client_of(struct sim *sim, const struct sim_host *host)
{
    CHECK(host->number >= sim->node_count);
    return sim->client[host->number - sim->node_count];
}

const struct sim_identity *sim_client_identity(const struct sim_client *client)
{
    return &client->who;
}

void sim_client_renew(struct sim_client *client)
{
    sim_identity_choose(client->sim,
                        client->host.number - client->sim->node_count,
                        &client->who);
}

struct lease_clock sim_client_clock(const struct sim_client *client)
{
    uint64_t boot_ns = sim_host_now(client->sim, &client->host);
    uint64_t mono_ns = client->is_suspended ? client->suspended_at_ns : boot_ns;
    return (struct lease_clock){mono_ns - client->asleep_ns, boot_ns};
}

void sim_client_beliefs(struct sim_client *client, sim_belief_fn *each,
                        void *data)
{
    if (client->is_rogue) {
        sim_rogue_beliefs(client, each, data);
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_program_beliefs(client->program[i], each, data);
    }
}

/* It has this session, and trusts its lease of it. */
static bool trusts(struct sim_client *client, uint64_t session)
{
    for (uint32_t i = 0; i < client->program_count; i++) {
        if (client->program[i]->session == session &&
            sim_program_trusts(client->program[i])) {
            return true;
        }
    }
    return client->is_rogue && client->session == session &&
           sim_rogue_trusts(client);
}

bool sim_client_has(const struct sim_client *client, uint64_t session)
{
    for (uint32_t i = 0; i < client->program_count; i++) {
        if (client->program[i]->session == session) {
            return true;
        }
    }
    return client->is_rogue && client->session == session;
}

bool sim_client_has_heard(const struct sim_client *client, uint64_t session,
                          uint64_t index)
{
    for (uint32_t i = 0; i < client->program_count; i++) {
        if (client->program[i]->session == session) {
            return sim_program_has_heard(client->program[i], index);
        }
    }
    return true;
}

bool sim_clients_run(struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        const struct sim_client *client = sim->client[i];
        for (uint32_t k = 0; k < client->program_count; k++) {
            if (client->program[k]->session == session) {
                return client->host.is_running;
            }
        }
    }
    return false;
}

bool sim_clients_use(struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        const struct sim_client *client = sim->client[i];
        if (client->host.is_running && (sim_client_has(client, session) ||
                                        client->crowd.session == session)) {
            return true;
        }
    }
    return false;
}

bool sim_clients_report_late(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (sim->client[i]->host.is_running &&
            sim_witness_is_late(&sim->client[i]->witness)) {
            return true;
        }
    }
    return false;
}

void sim_clients_check_deaths(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (sim->client[i]->host.is_running) {
            sim_witness_check(&sim->client[i]->witness);
        }
    }
}

const char *sim_clients_believe_in(struct sim *sim, uint64_t session)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (trusts(sim->client[i], session)) {
            return sim->client[i]->host.name;
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
    client->line.client = client;
    /* Operators are rogues, too, so there is always one. */
    client->is_rogue = number == sim->node_count || sim_chance(sim, 0.25);
    if (!client->is_rogue) {
        bool has_many = sim_chance(sim, 0.4);
        client->program_count = 1;
        client->program_count += has_many ? (uint32_t)sim_between(sim, 1, 2)
                                          : 0;
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        client->program[i] = sim_program_new(client);
    }
    sim_redis_init(&client->redis, client);
    sim_watcher_init(&client->watcher, client);
    sim_lister_init(&client->lister, client);
    sim_witness_init(&client->witness, client);
    sim_saver_init(&client->saver, client);
    sim_replacer_init(&client->replacer, client);
    sim_crowd_init(&client->crowd, client);
    sim_drawn_init(&client->drawn, client);
    sim_durable_init(&client->durable, client);
    sim_keeper_init(&client->keeper, client);
    sim_client_renew(client);
    client->lock_count = 1 + (uint32_t)(sim->options.seed % LOCK_COUNT_MAX);
    if (sim_pairs_are_drawn(sim)) {
        client->lock_count = sim->options.seed % 8 == 0 ? LOCK_COUNT_MAX : 5;
    }
    return client;
}

/* The memory of the process is lost with it. */
static void die(struct sim_client *client)
{
    if (client->is_rogue) {
        sim_rogue_die(client);
    }
    sim_line_die(&client->line);
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_program_die(client->program[i]);
    }
    sim_redis_done(&client->redis);
    sim_watcher_done(&client->watcher);
    sim_lister_done(&client->lister);
    sim_witness_done(&client->witness);
    sim_saver_done(&client->saver);
    sim_replacer_done(&client->replacer);
    sim_crowd_done(&client->crowd);
    sim_drawn_done(&client->drawn);
    sim_durable_die(&client->durable);
    sim_keeper_done(&client->keeper);
    sim_inbox_clear(&client->host.inbox);
}

void sim_client_free(struct sim_client *client)
{
    if (client->host.is_running) {
        die(client);
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        free(client->program[i]);
    }
    free(client);
}

struct sim_host *sim_client_host(struct sim_client *client)
{
    return &client->host;
}

void sim_client_start(struct sim_client *client)
{
    if (client->host.is_running) {
        return;
    }
    client->process++;
    client->host.is_running = true;
    client->host.is_os_up = true;
    client->host.is_paused = false;
    sim_note(client->sim, &client->host, "starts", 0, 0, 0);
    if (client->is_rogue) {
        sim_rogue_start(client);
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_program_start(client->program[i]);
    }
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
    die(client);
    sim_redis_init(&client->redis, client);
    sim_watcher_init(&client->watcher, client);
    sim_lister_init(&client->lister, client);
    sim_witness_init(&client->witness, client);
    sim_saver_init(&client->saver, client);
    sim_replacer_init(&client->replacer, client);
    sim_crowd_init(&client->crowd, client);
    sim_drawn_init(&client->drawn, client);
    sim_keeper_init(&client->keeper, client);
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
    sim_channel_close(&client->redis.channel);
    sim_channel_close(&client->watcher.channel);
    sim_channel_close(&client->lister.channel);
    sim_channel_close(&client->witness.channel);
    sim_channel_close(&client->saver.channel);
    sim_channel_close(&client->replacer.channel);
    sim_channel_close(&client->crowd.channel);
    sim_channel_close(&client->drawn.channel);
    sim_channel_close(&client->durable.channel);
    sim_channel_close(&client->keeper.channel);
    if (client->is_rogue) {
        sim_rogue_reconnect(client);
    }
    sim_line_reconnect(&client->line);
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_line_reconnect(&client->program[i]->own);
    }
    sim_host_poke(client->sim, &client->host);
}

void sim_client_drain(struct sim_client *client)
{
    client->is_draining = true;
    sim_host_poke(client->sim, &client->host);
}

/* Its sessions have ended for good. */
static bool is_over(const struct sim_client *client)
{
    for (uint32_t i = 0; i < client->program_count; i++) {
        if (!client->program[i]->is_done) {
            return false;
        }
    }
    return !client->is_rogue || client->is_done;
}

bool sim_client_is_done(const struct sim_client *client)
{
    return !client->host.is_running ||
           (is_over(client) && sim_redis_is_idle(&client->redis) &&
            sim_crowd_is_idle(&client->crowd) &&
            sim_durable_is_idle(&client->durable));
}

bool sim_client_is_told(const struct sim_client *client)
{
    return !client->host.is_running || sim_watcher_is_told(&client->watcher);
}

uint64_t sim_client_progress(const struct sim_client *client)
{
    return client->progress;
}

void sim_client_reset_progress(struct sim_client *client)
{
    client->progress = 0;
    sim_witness_calm(&client->witness);
}

/* --- The loop ------------------------------------------------------------- */

static bool feed_lines(struct sim_client *client, const struct sim_news *news)
{
    bool is_fed = sim_line_feed(&client->line, news);
    for (uint32_t i = 0; !is_fed && i < client->program_count; i++) {
        is_fed = sim_line_feed(&client->program[i]->own, news);
    }
    return is_fed;
}

static void feed(struct sim_client *client, const struct sim_news *news)
{
    if (!sim_flood_feed(client->sim, news) &&
        !sim_channel_feed(&client->redis.channel, news) &&
        !sim_channel_feed(&client->watcher.channel, news) &&
        !sim_channel_feed(&client->lister.channel, news) &&
        !sim_channel_feed(&client->witness.channel, news) &&
        !sim_channel_feed(&client->saver.channel, news) &&
        !sim_channel_feed(&client->replacer.channel, news) &&
        !sim_channel_feed(&client->crowd.channel, news) &&
        !sim_channel_feed(&client->drawn.channel, news) &&
        !sim_channel_feed(&client->durable.channel, news) &&
        !sim_channel_feed(&client->keeper.channel, news)) {
        (void)(client->is_rogue ? sim_rogue_feed(client, news)
                                : feed_lines(client, news));
    }
}

static uint64_t not_before(uint64_t at_ns, uint64_t earliest_ns)
{
    return at_ns > earliest_ns ? at_ns : earliest_ns;
}

/* To the microsecond: the machines decide when. */
static void work_programs(struct sim_client *client)
{
    struct sim *sim = client->sim;
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_program_work(client->program[i]);
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        sim_at_latest(sim, &client->host.wake,
                      not_before(sim_program_next(client->program[i]),
                                 sim->now_ns + SIM_US));
    }
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
    uint64_t soon_ns = sim->now_ns + SIM_MS;
    sim_at(sim, &host->wake, sim->now_ns + 200 * SIM_MS);
    if (client->is_rogue) {
        sim_rogue_work(client);
        sim_at_latest(sim, &host->wake,
                      not_before(sim_rogue_next(client), soon_ns));
    }
    work_programs(client);
    sim_redis_work(&client->redis);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_redis_next(&client->redis), soon_ns));
    sim_watcher_work(&client->watcher);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_watcher_next(&client->watcher), soon_ns));
    sim_lister_work(&client->lister);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_lister_next(&client->lister), soon_ns));
    sim_witness_work(&client->witness);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_witness_next(&client->witness), soon_ns));
    sim_saver_work(&client->saver);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_saver_next(&client->saver), soon_ns));
    sim_replacer_work(&client->replacer);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_replacer_next(&client->replacer), soon_ns));
    sim_crowd_work(&client->crowd);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_crowd_next(&client->crowd), soon_ns));
    sim_drawn_work(&client->drawn);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_drawn_next(&client->drawn), soon_ns));
    sim_durable_work(&client->durable);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_durable_next(&client->durable), soon_ns));
    sim_keeper_work(&client->keeper);
    sim_at_latest(sim, &host->wake,
                  not_before(sim_keeper_next(&client->keeper), soon_ns));
    sim_beliefs_check(client);
}
