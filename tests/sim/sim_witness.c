/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_witness.h"

#include <inttypes.h>
#include <string.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)

static struct sim *sim_of(const struct sim_witness *witness)
{
    return witness->client->sim;
}

static bool is_dead(const struct sim_tie *tie)
{
    return !tie->of->host.is_running || tie->of->process != tie->process;
}

void sim_witness_tie(struct sim_client *client, uint64_t session,
                     const char *word)
{
    struct sim *sim = client->sim;
    uint32_t number = client->host.number - sim->node_count;
    struct sim_client *other = sim->client[(number + 1) % sim->client_count];
    if (!other->host.is_running) {
        return; /* No agent: the TTL decides. */
    }
    for (uint32_t i = 0; i < SIM_TIE_MAX; i++) {
        struct sim_tie *tie = &other->witness.tie[i];
        if (tie->of == NULL) {
            *tie = (struct sim_tie){.of = client,
                                    .process = client->process,
                                    .life = sim->life,
                                    .session = session};
            memcpy(tie->word, word, sizeof tie->word);
            return;
        }
    }
    /* It is full: the session is not tied. */
}

/* The tie whose death is to be reported first, + 1; 0: none. */
static uint32_t find_death(struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    for (uint32_t i = 0; i < SIM_TIE_MAX; i++) {
        struct sim_tie *tie = &witness->tie[i];
        if (tie->of == NULL) {
            continue;
        }
        if (tie->known_ns == 0 && is_dead(tie)) {
            tie->known_ns = sim->now_ns + sim_between(sim, 0, 100) * SIM_MS;
        }
        if (tie->known_ns != 0 && sim->now_ns >= tie->known_ns) {
            return i + 1;
        }
    }
    return 0;
}

static void ask(struct sim_witness *witness, uint32_t which)
{
    struct sim *sim = sim_of(witness);
    const struct sim_tie *tie = &witness->tie[which - 1];
    char word[sizeof tie->word];
    memcpy(word, tie->word, sizeof word);
    witness->is_wrong = sim_chance(sim, 0.1);
    if (witness->is_wrong) {
        word[0] = word[0] == '0' ? '1' : '0';
    }
    sim_channel_begin(&witness->channel, 3);
    sim_channel_word(&witness->channel, "SESSION.DIED");
    sim_channel_number(&witness->channel, tie->session);
    sim_channel_word(&witness->channel, word);
    witness->asked = which;
    sim_note(sim, &witness->client->host, "reports dead", tie->session,
             witness->is_wrong, tie->process);
    sim_channel_send(&witness->channel, sim_client_clock(witness->client),
                     ANSWER_NS);
}

static void take(struct sim_witness *witness)
{
    static const char *const later[] = {"NOLEADER", "BUSY", "MOVED", "UNKNOWN",
                                        "NOTLS"};
    struct sim *sim = sim_of(witness);
    struct sim_tie *tie = &witness->tie[witness->asked - 1];
    const struct resp_value *value = &witness->channel.reply.value[0];
    char word[32];
    bool is_later = false;
    witness->asked = 0;
    sim_channel_error(&witness->channel, word);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        is_later |= strcmp(word, later[i]) == 0;
    }
    if (is_later) {
        sim_channel_close(&witness->channel);
        sim_channel_later(&witness->channel,
                          sim_between(sim, 10, 200) * SIM_MS);
        return;
    }
    if (value->type != RESP_INTEGER ||
        (witness->is_wrong && value->integer != 0)) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "DIED answers how many sessions have ended: the witness got "
                 "'%s' for session %" PRIu64,
                 word, tie->session);
        return;
    }
    if (witness->is_wrong) {
        return;
    }
    if (tie->life == sim->life &&
        sim_history_ended(sim_check_history(sim), tie->session) == 0) {
        sim_fail(sim, ORACLE_DEATH,
                 "a session whose DIED was answered has ended: %" PRIu64,
                 tie->session);
    }
    sim->stats.died += (uint64_t)value->integer;
    if (sim_chance(sim, 0.8)) {
        tie->of = NULL; /* Otherwise it says so once more. */
    }
}

void sim_witness_init(struct sim_witness *witness, struct sim_client *client)
{
    *witness = (struct sim_witness){.client = client};
    sim_channel_init(&witness->channel, client->sim, &client->host);
    /* Any user will do, but there must be one. */
    witness->channel.who = sim_users_are_there(client->sim)
                               ? &sim_identity_local
                               : NULL;
}

void sim_witness_done(struct sim_witness *witness)
{
    sim_channel_done(&witness->channel);
}

void sim_witness_work(struct sim_witness *witness)
{
    struct sim_channel *channel = &witness->channel;
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(witness);
    }
    sim_channel_watch(channel);
    uint32_t which = channel->is_waiting ? 0 : find_death(witness);
    if (which != 0 && sim_channel_is_ready(channel)) {
        ask(witness, which);
    }
}

uint64_t sim_witness_next(const struct sim_witness *witness)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < SIM_TIE_MAX; i++) {
        const struct sim_tie *tie = &witness->tie[i];
        if (tie->of != NULL && tie->known_ns != 0) {
            uint64_t at_ns = sim_channel_next(&witness->channel);
            at_ns = at_ns > tie->known_ns ? at_ns : tie->known_ns;
            next_ns = at_ns < next_ns ? at_ns : next_ns;
        }
    }
    return next_ns;
}
