/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_line.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_pairs.h"
#include "tests/sim/sim_program.h"
#include "tests/sim/sim_restore.h"

/* An asker that wants this many actions in one moment does not settle. */
#define TURN_COUNT_MAX 1000

static struct lease_clock now(const struct sim_line *line)
{
    return sim_client_clock(line->client);
}

/* --- The connection ------------------------------------------------------- */

static void shut(struct sim_line *line)
{
    if (line->wire != NULL) {
        sim_net_close(line->client->sim, line->wire, 0, 0);
        line->wire = NULL;
    }
    line->is_connected = false;
}

static void dial(struct sim_line *line)
{
    struct sim *sim = line->client->sim;
    const struct endpoint *endpoint = cluster_conn_endpoint(&line->asker);
    unsigned id = 0;
    CHECK(sscanf(endpoint->host, "10.0.0.%u", &id) == 1 && id > 0 &&
          id <= sim->node_count);
    line->wire = sim_net_dial(sim, WIRE_CLIENT, line->client->host.number,
                              id - 1);
    line->was = line->who;
    line->was_accepted = line->accepted;
    if (line->who.way == WHO_CERTIFICATE) {
        sim_identity_renew(sim, &line->who);
    }
    line->wire->shown = line->who;
}

static void send_out(struct sim_line *line)
{
    struct sim *sim = line->client->sim;
    struct buffer *out = &line->asker.out;
    if (!line->is_connected || out->size == 0) {
        return;
    }
    for (uint32_t i = 0; i < line->program_count; i++) {
        sim_program_sends(line->program[i], line->wire->host[1]);
    }
    sim_note(sim, &line->client->host, "asks", line->wire->id, out->size,
             line->wire->host[1] + 1);
    sim_net_send(sim, line->wire, 0, buffer_bytes(out), 0);
    buffer_clear(out);
}

/* Carries out what the asker wants. */
static void follow(struct sim_line *line)
{
    if (line->number != line->asker.number) {
        shut(line);
        line->number = line->asker.number;
        if (line->asker.state == CLUSTER_CONN_OPENING) {
            dial(line);
        }
    }
    send_out(line);
}

/* --- Who is on it --------------------------------------------------------- */

static void begin(struct sim_line *line)
{
    static const uint32_t ttls_ms[] = {300, 1000, 1000, 2000, 4000, 8000};
    struct sim *sim = line->client->sim;
    struct endpoints endpoints;
    char text[SIM_NODE_MAX * 16] = "", why[HASP_WHY_SIZE];
    for (uint32_t i = 0; i < sim->node_count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s10.0.0.%u",
                 i > 0 ? "," : "", i + 1);
    }
    uint64_t seed = prng_next(&sim->prng);
    CHECK(endpoints_parse(text, &endpoints, why) == 0);
    sim_client_renew(line->client);
    line->who = *sim_client_identity(line->client);
    char secret[CLIENT_USER_SECRET_SIZE];
    snprintf(secret, sizeof secret, "%s", line->who.secret);
    CHECK(cluster_conn_init(&line->asker, &endpoints, seed) == 0);
    cluster_conn_show(&line->asker, secret);
    endpoints_done(&endpoints);
    cluster_conn_begin_at(&line->asker, (uint32_t)(seed >> 33));
    line->ttl_ms = ttls_ms[prng_below(&sim->prng, 6)];
    if (sim_hoards_are_there(sim)) {
        line->ttl_ms = 8000;
    }
    line->number = 0;
    /* The restored state of such a session may be older than its client
     * believes, and no quarantine ends that. It also outlives the secret with
     * which its line began. */
    line->is_durable = sim_pairs_are_drawn(sim) && sim->phase == SIM_CHAOS &&
                       !sim_restore_is_planned(sim) &&
                       !sim_users_are_there(sim) && sim_chance(sim, 0.4);
}

void sim_line_join(struct sim_line *line, struct sim_program *program)
{
    CHECK(line->program_count < LINE_PROGRAM_MAX);
    if (line->program_count == 0) {
        begin(line);
    }
    line->program[line->program_count++] = program;
}

void sim_line_leave(struct sim_line *line, struct sim_program *program)
{
    uint32_t i = 0;
    while (line->program[i] != program) {
        i++;
        CHECK(i < line->program_count);
    }
    line->program[i] = line->program[--line->program_count];
    if (line->program_count == 0) {
        shut(line);
        cluster_conn_done(&line->asker);
    }
}

/* --- Turns ---------------------------------------------------------------- */

static void look_before(struct sim_line *line)
{
    for (uint32_t i = 0; i < line->program_count; i++) {
        struct sim_program *program = line->program[i];
        program->before = program->machine.lease;
    }
}

static void look_after(struct sim_line *line)
{
    for (uint32_t i = 0; i < line->program_count; i++) {
        sim_told_lease(line->program[i], &line->program[i]->before);
    }
}

static void come_to_rest(struct sim_line *line)
{
    for (int i = 0; i < TURN_COUNT_MAX; i++) {
        cluster_conn_turn(&line->asker, now(line));
        bool is_late = line->number != line->asker.number;
        follow(line);
        if (!is_late && cluster_conn_left_ns(&line->asker, now(line)) > 0) {
            return;
        }
    }
    sim_fail(line->client->sim, ORACLE_PROGRESS,
             "an asker settles: that of %s does not", line->client->host.name);
}

void sim_line_turn(struct sim_line *line)
{
    look_before(line);
    come_to_rest(line);
    look_after(line);
    for (uint32_t i = 0; i < line->program_count; i++) {
        sim_program_take_events(line->program[i]);
    }
}

uint64_t sim_line_next(const struct sim_line *line)
{
    const struct sim_host *host = &line->client->host;
    uint64_t left_ns = cluster_conn_left_ns(&line->asker, now(line));
    return left_ns == UINT64_MAX
               ? UINT64_MAX
               : sim_clock_when(&host->clock,
                                sim_host_now(line->client->sim, host) +
                                    left_ns);
}

/* --- What happens to it --------------------------------------------------- */

bool sim_line_feed(struct sim_line *line, const struct sim_news *news)
{
    struct cluster_conn *asker = &line->asker;
    if (line->wire == NULL || news->wire != line->wire) {
        return false;
    }
    if (line->number != asker->number) {
        return true; /* The asker has abandoned that connection. */
    }
    switch (news->kind) {
    case NEWS_CONNECTED:
        line->is_connected = true;
        cluster_conn_connected(asker);
        break;
    case NEWS_DATA:
        line->accepted = line->wire->accepted;
        look_before(line);
        cluster_conn_input(asker, news->bytes, now(line));
        look_after(line);
        break;
    default:
        shut(line);
        cluster_conn_failed(asker, "closed the connection", now(line));
        break;
    }
    return true;
}

void sim_line_reconnect(struct sim_line *line)
{
    if (line->wire != NULL && line->number == line->asker.number) {
        shut(line);
        cluster_conn_failed(&line->asker, "reset", now(line));
    }
}

void sim_line_die(struct sim_line *line)
{
    line->wire = NULL;
}
