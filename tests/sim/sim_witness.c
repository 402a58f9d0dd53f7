/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_witness.h"

#include <inttypes.h>
#include <string.h>

#include "base/minmax.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_program.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)
/* From a death that is noticed, in a cluster without faults, to its answer. */
#define REPORT_NS (15 * SIM_S)
#define PROCESS_MAX 1024

static struct sim *sim_of(const struct sim_witness *witness)
{
    return witness->client->sim;
}

/* The client that the agent watches. */
static struct sim_client *watched_by(const struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    uint32_t number = witness->client->host.number - sim->node_count;
    return sim->client[(number + sim->client_count - 1) % sim->client_count];
}

/* --- Ties ----------------------------------------------------------------- */

/* The process of the client, which lives; NULL: there is no room. */
static struct tied_process *process_of(struct sim_witness *witness,
                                       const struct sim_client *client)
{
    pid_t pid = (pid_t)client->host.number;
    struct tied_process *found = ties_find(witness->ties, pid, client->process);
    for (uint32_t i = 0; found == NULL && i < SIM_WATCHED_MAX; i++) {
        struct sim_watched *watched = &witness->watched[i];
        if (watched->tied == NULL) {
            found = ties_add(witness->ties, pid, client->process,
                             client->host.number);
            CHECK(found != NULL);
            found->driver = watched;
            *watched = (struct sim_watched){.tied = found};
        }
    }
    return found;
}

static void witness_tie(struct sim_witness *witness,
                        const struct sim_client *client, uint64_t session,
                        const char *word)
{
    struct tied_process *process = process_of(witness, client);
    if (process == NULL) {
        return; /* The session is not tied. */
    }
    if (process->connections == 0) {
        ties_join(process);
    }
    enum tie_answer answer = ties_tie(witness->ties, process, session, word,
                                      TIE_TTL_DEFAULT_MS);
    if (answer != TIE_DONE) {
        sim_fail(sim_of(witness), ORACLE_DEATH,
                 "the agent ties a session of a process that lives: %" PRIu64
                 ", answer %d",
                 session, (int)answer);
    }
    if (sim_chance(sim_of(witness), 0.05)) {
        /* As before a session is handed over: the TTL alone ends it. */
        if (!ties_untie(witness->ties, process, session, word)) {
            sim_fail(sim_of(witness), ORACLE_DEATH,
                     "UNTIE ends a tie: %" PRIu64, session);
        }
    }
    if (sim_chance(sim_of(witness), 0.2)) {
        /* The connection is lost, and the process lives. */
        struct sim_watched *watched = process->driver;
        if (ties_leave(witness->ties, process)) {
            watched->tied = NULL;
        }
    }
}

void sim_witness_tie(struct sim_client *client, uint64_t session,
                     const char *word)
{
    struct sim *sim = client->sim;
    uint32_t number = client->host.number - sim->node_count;
    struct sim_client *other = sim->client[(number + 1) % sim->client_count];
    if (other->host.is_running) { /* Otherwise there is no agent. */
        witness_tie(&other->witness, client, session, word);
    }
}

/* The agent has restarted, and the connections of the living have ended. */
static void tie_again(struct sim_witness *witness)
{
    const struct sim_client *client = watched_by(witness);
    witness->again_ns = 0;
    if (!client->host.is_running) {
        return;
    }
    if (client->is_rogue && client->session != 0 && client->linger_ms == 0) {
        witness_tie(witness, client, client->session, client->word);
    }
    for (uint32_t i = 0; i < client->program_count; i++) {
        const struct sim_program *program = client->program[i];
        if (program->session != 0 && program->word[0] != '\0') {
            witness_tie(witness, client, program->session, program->word);
        }
    }
}

/* --- Deaths --------------------------------------------------------------- */

static bool is_dead(const struct sim_witness *witness,
                    const struct tied_process *process)
{
    const struct sim_client *client = watched_by(witness);
    return !client->host.is_running || client->process != process->start;
}

/* Notices deaths, each some time after it. */
static void notice(struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    for (uint32_t i = 0; i < SIM_WATCHED_MAX; i++) {
        struct sim_watched *watched = &witness->watched[i];
        if (watched->tied == NULL) {
            continue;
        }
        if (watched->known_ns == 0 && is_dead(witness, watched->tied)) {
            watched->known_ns = sim->now_ns + sim_between(sim, 0, 100) * SIM_MS;
        }
        if (watched->known_ns != 0 && sim->now_ns >= watched->known_ns) {
            ties_died(witness->ties, watched->tied, sim->now_ns);
            watched->tied = NULL;
        }
    }
    if (ties_counts(witness->ties).pending == 0) {
        witness->pending_since_ns = 0;
    } else if (witness->pending_since_ns == 0) {
        witness->pending_since_ns = sim->now_ns;
        witness->outside_ns = 0;
    }
}

static void report(struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    witness->death_count = ties_batch(witness->ties, sim->now_ns,
                                      witness->death);
    if (witness->death_count == 0) {
        return;
    }
    witness->is_wrong = sim_chance(sim, 0.1);
    witness->life = sim->life;
    sim_channel_begin(&witness->channel, 1 + 2 * witness->death_count);
    sim_channel_word(&witness->channel, "SESSION.DIED");
    for (uint32_t i = 0; i < witness->death_count; i++) {
        char word[TIE_WORD_SIZE];
        memcpy(word, witness->death[i].word, sizeof word);
        if (i == 0 && witness->is_wrong) {
            word[0] = word[0] == '0' ? '1' : '0';
        }
        sim_channel_number(&witness->channel, witness->death[i].session);
        sim_channel_word(&witness->channel, word);
    }
    sim_note(sim, &witness->client->host, "reports dead",
             witness->death[0].session, witness->is_wrong,
             witness->death_count);
    uint32_t node = witness->channel.wire->host[1];
    witness->outside_since_ns = sim_check_is_member(sim, sim->node[node])
                                    ? 0
                                    : sim->now_ns;
    sim_channel_send(&witness->channel, sim_client_clock(witness->client),
                     ANSWER_NS);
}

/* The time that the oracle leaves out: that of requests to nodes outside the
 * cluster, but at most the time of one request to each node. */
static uint64_t left_out_ns(const struct sim_witness *witness)
{
    const struct sim *sim = sim_of(witness);
    uint64_t ns = witness->outside_ns;
    if (witness->outside_since_ns != 0) {
        ns += sim->now_ns - witness->outside_since_ns;
    }
    return u64_min(ns, sim->node_count * ANSWER_NS);
}

/* The batch is over; what is not answered is reported again. */
static void witness_end(struct sim_witness *witness, bool is_answered)
{
    ties_batch_end(witness->ties, is_answered ? TIE_REPORTED : TIE_UNREPORTED);
    witness->death_count = 0;
    if (witness->outside_since_ns != 0) {
        witness->outside_ns += sim_of(witness)->now_ns -
                               witness->outside_since_ns;
        witness->outside_since_ns = 0;
    }
}

static bool is_to_be_repeated(struct sim_channel *channel, char word[32])
{
    static const char *const later[] = {"NOLEADER", "BUSY", "MOVED", "UNKNOWN",
                                        "NOTLS"};
    sim_channel_error(channel, word);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (strcmp(word, later[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void take(struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    const struct resp_value *value = &witness->channel.reply.value[0];
    char word[32];
    if (is_to_be_repeated(&witness->channel, word)) {
        witness_end(witness, false);
        sim_channel_close(&witness->channel);
        sim_channel_later(&witness->channel,
                          sim_between(sim, 10, 200) * SIM_MS);
        return;
    }
    int64_t most = (int64_t)witness->death_count - witness->is_wrong;
    if (value->type != RESP_INTEGER || value->integer < 0 ||
        value->integer > most) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "DIED answers how many sessions have ended: the witness got "
                 "'%s' for session %" PRIu64,
                 word, witness->death[0].session);
        return;
    }
    for (uint32_t i = witness->is_wrong; i < witness->death_count; i++) {
        if (witness->life == sim->life &&
            sim_history_ended(sim_check_history(sim),
                              witness->death[i].session) == 0) {
            sim_fail(sim, ORACLE_DEATH,
                     "a session whose DIED was answered has ended: %" PRIu64,
                     witness->death[i].session);
        }
    }
    sim->stats.died += (uint64_t)value->integer;
    /* Otherwise it says so once more. */
    witness_end(witness, !witness->is_wrong && sim_chance(sim, 0.8));
}

void sim_witness_calm(struct sim_witness *witness)
{
    uint64_t now_ns = sim_of(witness)->now_ns;
    witness->pending_since_ns = witness->pending_since_ns != 0 ? now_ns : 0;
    witness->outside_ns = 0;
    witness->outside_since_ns = witness->outside_since_ns != 0 ? now_ns : 0;
}

bool sim_witness_is_late(const struct sim_witness *witness)
{
    return witness->pending_since_ns != 0 &&
           sim_of(witness)->now_ns > witness->pending_since_ns + REPORT_NS;
}

void sim_witness_check(const struct sim_witness *witness)
{
    struct sim *sim = sim_of(witness);
    uint64_t since_ns = witness->pending_since_ns;
    uint64_t out_ns = left_out_ns(witness);
    if (since_ns != 0 && sim->now_ns > since_ns + REPORT_NS + out_ns) {
        sim_fail(sim, ORACLE_DEATH,
                 "a death that an agent has seen is reported in time: %s has "
                 "%" PRIu64 " since %llu s, and %llu s of these it asked nodes "
                 "outside the cluster",
                 witness->client->host.name, ties_counts(witness->ties).pending,
                 (unsigned long long)((sim->now_ns - since_ns) / SIM_S),
                 (unsigned long long)(out_ns / SIM_S));
    }
}

/* --- For the client ------------------------------------------------------- */

void sim_witness_init(struct sim_witness *witness, struct sim_client *client)
{
    *witness = (struct sim_witness){.client = client,
                                    .ties = ties_new(PROCESS_MAX),
                                    .again_ns = client->sim->now_ns + 1};
    sim_channel_init(&witness->channel, client->sim, &client->host);
    /* Any user will do, but there must be one. */
    witness->channel.who = sim_users_are_there(client->sim)
                               ? &sim_identity_local
                               : NULL;
}

void sim_witness_done(struct sim_witness *witness)
{
    sim_channel_done(&witness->channel);
    ties_free(witness->ties);
    witness->ties = NULL;
}

void sim_witness_work(struct sim_witness *witness)
{
    struct sim_channel *channel = &witness->channel;
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(witness);
    }
    sim_channel_watch(channel);
    if (witness->death_count != 0 && !channel->is_waiting) {
        witness_end(witness, false); /* The connection or the answer is lost. */
    }
    if (witness->again_ns != 0 && sim_of(witness)->now_ns > witness->again_ns) {
        tie_again(witness);
    }
    notice(witness);
    if (!channel->is_waiting && ties_counts(witness->ties).pending != 0 &&
        sim_channel_is_ready(channel)) {
        report(witness);
    }
}

uint64_t sim_witness_next(const struct sim_witness *witness)
{
    uint64_t next_ns = UINT64_MAX;
    if (ties_counts(witness->ties).pending != 0) {
        next_ns = sim_channel_next(&witness->channel);
    }
    for (uint32_t i = 0; i < SIM_WATCHED_MAX; i++) {
        const struct sim_watched *watched = &witness->watched[i];
        if (watched->tied != NULL && watched->known_ns != 0 &&
            watched->known_ns < next_ns) {
            next_ns = watched->known_ns;
        }
    }
    return next_ns;
}
