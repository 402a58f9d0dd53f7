/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_hoard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_program.h"

/* One in this many runs has hoards. */
#define RUNS 64
/* Most requests in flight at once. */
#define FLIGHT_MAX 400

struct hoard_item {
    struct sim_hoard *hoard;
    struct client_call call;
    bool is_told;
    struct hasp_hold *hold; /* NULL: none. */
    char name[32];
    char tag[OWNER_TAG_SIZE];
};

static struct sim *sim_of(const struct sim_hoard *hoard)
{
    return hoard->program->sim;
}

static struct lease_clock now(const struct sim_hoard *hoard)
{
    return sim_client_clock(hoard->program->client);
}

static void rest(struct sim_hoard *hoard)
{
    free(hoard->item);
    hoard->item = NULL;
    hoard->count = hoard->next = hoard->asked = hoard->told = 0;
    hoard->stage = HOARD_REST;
}

void sim_hoard_reset(struct sim_hoard *hoard, struct sim_program *program)
{
    *hoard = (struct sim_hoard){.program = program};
    hoard->until_ns = UINT64_MAX;
    struct sim *sim = program->sim;
    if (sim_hoards_are_there(sim) && sim->phase == SIM_CHAOS) {
        hoard->until_ns = sim->now_ns + sim_between(sim, 100, 4000) * SIM_MS;
    }
}

void sim_hoard_done(struct sim_hoard *hoard)
{
    rest(hoard);
    hoard->until_ns = UINT64_MAX;
}

bool sim_hoards_are_there(const struct sim *sim)
{
    return sim->options.seed % RUNS == 12 && !sim_users_are_there(sim);
}

/* --- Calls ---------------------------------------------------------------- */

static void told(struct client_call *call)
{
    struct hoard_item *item = call->data;
    CHECK(!item->is_told);
    item->is_told = true;
    item->hoard->told++;
}

static void begin(struct hoard_item *item)
{
    item->call = (struct client_call){.done = told, .data = item};
    item->is_told = false;
    item->hoard->asked++;
}

static void acquire(struct hoard_item *item)
{
    struct sim_hoard *hoard = item->hoard;
    const char *name = item->name;
    struct hasp_acquire_options options = {
        .size = sizeof options,
        .owner = hoard->tag[0] != '\0' ? hoard->tag : NULL,
        .interrupt_fd = -1};
    begin(item);
    CHECK(session_fsm_acquire(&hoard->program->machine, &name, 1, &options,
                              &item->call, now(hoard)) == 0);
}

static void take_away(struct hoard_item *item)
{
    struct sim_hoard *hoard = item->hoard;
    struct query query = {0};
    query_begin(&query, "LOCK.RELEASEIF");
    query_text(&query, item->name);
    query_text(&query, "OWNER");
    query_text(&query, item->tag);
    query_option(&query, "TOKEN", item->hold->held[0].token);
    query_option(&query, "SESSION", hoard->program->session);
    begin(item);
    CHECK(session_fsm_query(&hoard->program->machine, &query, false,
                            &item->call, now(hoard)) == 0);
}

static void give_back(struct hoard_item *item)
{
    struct hasp_hold *hold = item->hold;
    item->hold = NULL;
    begin(item);
    CHECK(session_fsm_release(&item->hoard->program->machine, hold, &item->call,
                              now(item->hoard)) == 0);
}

static void ask(struct hoard_item *item)
{
    struct sim_hoard *hoard = item->hoard;
    if (hoard->stage == HOARD_FILL) {
        acquire(item);
    } else if (item->hold == NULL) {
        return;
    } else if (hoard->stage == HOARD_GIVE) {
        give_back(item);
    } else if (sim_chance(sim_of(hoard), 0.97)) {
        take_away(item);
    }
}

/* A release that has begun continues by itself, so its errors do not matter. */
static void take(struct hoard_item *item)
{
    item->is_told = false;
    item->hoard->asked--;
    if (item->hoard->stage == HOARD_FILL && item->call.error == 0) {
        item->hold = item->call.hold;
        snprintf(item->tag, sizeof item->tag, "%s", item->hold->owner->tag);
    }
    sim_of(item->hoard)->stats.operations++;
}

/* --- The oracle ----------------------------------------------------------- */

static uint64_t taken_at(const struct hoard_item *item)
{
    const struct sim_program *program = item->hoard->program;
    return sim_history_taken(
        sim_check_history(program->sim), bytes_of_text(item->name),
        program->session, bytes_of_text(item->tag), item->hold->held[0].token);
}

static void check(struct hoard_item *item, uint64_t index)
{
    struct sim_program *program = item->hoard->program;
    bool is_believed = sim_program_believes(program, item->hold);
    if (is_believed && index != 0 && sim_program_has_heard(program, index)) {
        sim_fail(program->sim, ORACLE_HOLDS,
                 "a client that believes in a hold has it: %s believes in "
                 "'%s', one of %u, which entry %" PRIu64
                 " had taken before its heartbeat left",
                 program->client->host.name, item->name, item->hoard->count,
                 index);
    } else if (!is_believed && index == 0 && sim_program_trusts(program)) {
        sim_fail(program->sim, ORACLE_HOLDS,
                 "only ended holds are reported lost: %s believes in '%s', one "
                 "of %u, no longer, and nobody has taken it",
                 program->client->host.name, item->name, item->hoard->count);
    }
}

void sim_hoard_kept(struct sim_hoard *hoard)
{
    uint32_t ended = 0;
    if (hoard->count == 0) {
        return;
    }
    for (uint32_t i = 0; i < hoard->count; i++) {
        struct hoard_item *item = &hoard->item[i];
        if (item->hold == NULL) {
            continue;
        }
        uint64_t index = taken_at(item);
        ended += index > hoard->seen && index <= hoard->program->told_newest;
        check(item, index);
    }
    hoard->seen = hoard->program->told_newest;
    if (ended > 0) {
        sim_cover_ended(sim_of(hoard), ended);
    }
}

/* --- Life ----------------------------------------------------------------- */

static void gather(struct sim_hoard *hoard)
{
    struct sim *sim = sim_of(hoard);
    uint64_t dice = prng_below(&sim->prng, 100);
    uint64_t least = dice < 75 ? 80 : 1100;
    hoard->count = (uint32_t)sim_between(sim, least, least * 5 / 4);
    hoard->item = memory_new(hoard->count * sizeof *hoard->item);
    snprintf(hoard->tag, sizeof hoard->tag, "%s",
             sim_chance(sim, 0.5) ? "hoard" : "");
    for (uint32_t i = 0; i < hoard->count; i++) {
        hoard->item[i].hoard = hoard;
        snprintf(hoard->item[i].name, sizeof hoard->item[i].name,
                 "hoard/%" PRIu64 "/%04u", hoard->program->session % 1000000,
                 i);
    }
}

static void next_stage(struct sim_hoard *hoard)
{
    struct sim *sim = sim_of(hoard);
    bool is_draining = hoard->program->client->is_draining;
    hoard->next = 0;
    switch (hoard->stage) {
    case HOARD_REST:
        gather(hoard);
        hoard->stage = HOARD_FILL;
        break;
    case HOARD_FILL:
        hoard->stage = is_draining ? HOARD_GIVE : HOARD_TAKE;
        break;
    case HOARD_TAKE:
        hoard->stage = HOARD_DWELL;
        hoard->until_ns = sim->now_ns + sim_between(sim, 500, 6000) * SIM_MS;
        break;
    case HOARD_DWELL:
        hoard->stage = HOARD_GIVE;
        break;
    case HOARD_GIVE:
        rest(hoard);
        hoard->until_ns = sim->phase == SIM_CHAOS && !is_draining
                              ? sim->now_ns +
                                    sim_between(sim, 500, 4000) * SIM_MS
                              : UINT64_MAX;
        break;
    }
}

static bool is_over(const struct sim_hoard *hoard)
{
    if (hoard->stage == HOARD_REST && (sim_of(hoard)->phase != SIM_CHAOS ||
                                       hoard->program->client->is_draining)) {
        return false;
    }
    if (hoard->stage == HOARD_REST || hoard->stage == HOARD_DWELL) {
        return sim_of(hoard)->now_ns >= hoard->until_ns ||
               (hoard->stage == HOARD_DWELL &&
                hoard->program->client->is_draining);
    }
    return hoard->next == hoard->count && hoard->asked == 0;
}

void sim_hoard_work(struct sim_hoard *hoard)
{
    for (uint32_t i = 0; hoard->told > 0 && i < hoard->next; i++) {
        if (hoard->item[i].is_told) {
            hoard->told--;
            take(&hoard->item[i]);
        }
    }
    bool asks = hoard->stage != HOARD_REST && hoard->stage != HOARD_DWELL;
    while (asks && hoard->next < hoard->count && hoard->asked < FLIGHT_MAX) {
        ask(&hoard->item[hoard->next++]);
    }
    if (is_over(hoard)) {
        next_stage(hoard);
    }
}

uint64_t sim_hoard_next(const struct sim_hoard *hoard)
{
    bool is_waiting = hoard->stage == HOARD_REST || hoard->stage == HOARD_DWELL;
    if (hoard->told > 0 || (!is_waiting && hoard->asked == 0)) {
        return sim_of(hoard)->now_ns;
    }
    bool is_last = hoard->stage == HOARD_REST &&
                   sim_of(hoard)->phase != SIM_CHAOS;
    return is_waiting && !is_last ? hoard->until_ns : UINT64_MAX;
}

bool sim_hoard_is_idle(const struct sim_hoard *hoard)
{
    return hoard->stage == HOARD_REST;
}
