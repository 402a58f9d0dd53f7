/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "tests/sim/sim_behind.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_election.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_flood.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_replace.h"
#include "tests/sim/sim_restore.h"
#include "tests/sim/sim_slow.h"
#include "tests/sim/sim_users.h"
#include "tests/sim/sim_version.h"

/* After the faults: the deadline for progress, and the deadline for everything
 * to end. */
#define CALM_NS (20 * SIM_S)
#define DRAIN_NS (120 * SIM_S)

uint64_t sim_clock_at(const struct sim_clock *clock, uint64_t true_ns)
{
    return clock->local_ns +
           (true_ns - clock->true_ns) / 1000 * clock->permille +
           (true_ns - clock->true_ns) % 1000 * clock->permille / 1000;
}

uint64_t sim_clock_when(const struct sim_clock *clock, uint64_t local_ns)
{
    if (local_ns <= clock->local_ns) {
        return clock->true_ns;
    }
    if (local_ns == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t passed_ns = local_ns - clock->local_ns;
    uint64_t true_ns = clock->true_ns + passed_ns / clock->permille * 1000 +
                       passed_ns % clock->permille * 1000 / clock->permille;
    while (sim_clock_at(clock, true_ns) < local_ns) {
        true_ns++;
    }
    return true_ns;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    return low + prng_below(&sim->prng, high - low + 1);
}

bool sim_chance(struct sim *sim, double probability)
{
    return prng_chance(&sim->prng, probability);
}

void sim_at(struct sim *sim, struct sim_event *event, uint64_t true_ns)
{
    CHECK(event->run != NULL);
    heap_set(&sim->events, &event->node,
             true_ns > sim->now_ns ? true_ns : sim->now_ns);
}

void sim_at_latest(struct sim *sim, struct sim_event *event, uint64_t true_ns)
{
    if (event->node.slot == 0 || event->node.key > true_ns) {
        sim_at(sim, event, true_ns);
    }
}

void sim_cancel(struct sim *sim, struct sim_event *event)
{
    heap_remove(&sim->events, &event->node);
}

static void mix(struct sim *sim, uint64_t value)
{
    struct prng prng = {sim->trace ^ value};
    sim->trace = prng_next(&prng);
}

void sim_note(struct sim *sim, const struct sim_host *who, const char *what,
              uint64_t a, uint64_t b, uint64_t c)
{
    mix(sim, sim->now_ns);
    mix(sim, who != NULL ? who->number : 1000);
    mix(sim, (uint64_t)what[0] << 8 | (uint64_t)what[1]);
    mix(sim, a);
    mix(sim, b);
    mix(sim, c);
    if (sim->options.is_verbose) {
        printf("%12.6f %-4s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
               (double)sim->now_ns / 1e9, who != NULL ? who->name : "", what, a,
               b, c);
    }
}

void sim_say(struct sim *sim, const struct sim_host *who, const char *format,
             ...)
{
    if (!sim->options.is_verbose) {
        return;
    }
    va_list args;
    va_start(args, format);
    printf("%12.6f %-4s ", (double)sim->now_ns / 1e9,
           who != NULL ? who->name : "");
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

void sim_fail(struct sim *sim, enum sim_oracle oracle, const char *format, ...)
{
    if (sim->has_failed || sim->options.without[oracle]) {
        return;
    }
    sim->has_failed = true;
    sim->oracle = oracle;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->why, sizeof sim->why, format, args);
    va_end(args);
    sim_say(sim, NULL, "VIOLATION: %s", sim->why);
}

void sim_host_init(struct sim *sim, struct sim_host *host, uint32_t number,
                   char kind)
{
    static const uint64_t extremes[] = {900, 1100, 1000};
    *host = (struct sim_host){.number = number};
    uint32_t shown = kind == 'n' ? number + 1 : number - sim->node_count + 1;
    snprintf(host->name, sizeof host->name, "%c%u", kind, shown % 1000);
    list_init(&host->inbox);
    host->clock.true_ns = sim->now_ns;
    host->clock.local_ns = sim_between(sim, 1000, 100000) * SIM_S;
    host->clock.permille = sim_chance(sim, 0.6)
                               ? extremes[prng_below(&sim->prng, 3)]
                               : sim_between(sim, 900, 1100);
    sim->host[number] = host;
    host->is_os_up = true;
}

uint64_t sim_host_now(const struct sim *sim, const struct sim_host *host)
{
    return sim_clock_at(&host->clock, sim->now_ns);
}

void sim_host_poke(struct sim *sim, struct sim_host *host)
{
    if (host->is_running && !host->is_paused) {
        uint64_t at_ns = sim->now_ns > host->busy_until_ns
                             ? sim->now_ns
                             : host->busy_until_ns;
        sim_at_latest(sim, &host->wake, at_ns);
    }
}

static void build(struct sim *sim)
{
    const struct sim_options *options = &sim->options;
    hash_seed_set(options->seed);
    sim->prng.state = options->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    sim->member_count = options->node_count;
    if (sim->member_count == 0) {
        sim->member_count = sim_chance(sim, 0.7) ? 3 : 5;
    }
    sim->id_count = sim->member_count;
    if (options->seed % 4 == 1) {
        sim->id_count += 2; /* Membership will change. */
    }
    sim->node_count = sim->id_count + sim_replace_machines(sim);
    sim->client_count = (uint32_t)sim_between(sim, 2, 8);
    if (options->client_max != 0 && sim->client_count > options->client_max) {
        sim->client_count = options->client_max;
    }
    sim->host_count = sim->node_count + sim->client_count;
    sim->restore = sim_restore_new(sim);
    sim->replace = sim_replace_new(sim);
    sim->places = sim_places_new(sim);
    sim_users_init(sim);
    sim->net = sim_net_new(sim);
    sim->check = sim_check_new(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim->node[i] = sim_node_new(sim, i);
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim->client[i] = sim_client_new(sim, sim->node_count + i);
    }
    sim->faults = sim_faults_new(sim);
    sim_restore_begin(sim->restore);
    sim_version_begin(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim_node_start(sim->node[i]);
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim_client_start(sim->client[i]);
    }
}

/* Runs events until 'until_ns', or until 'is_over' returns true. */
void sim_run_until(struct sim *sim, uint64_t until_ns,
                   bool (*is_over)(struct sim *sim))
{
    uint64_t looked_ns = sim->now_ns;
    while (!sim->has_failed) {
        struct heap_node *first = heap_first(&sim->events);
        if (first == NULL || first->key > until_ns) {
            sim->now_ns = until_ns;
            return;
        }
        struct sim_event *event = LIST_ENTRY(first, struct sim_event, node);
        CHECK(first->key >= sim->now_ns);
        sim->now_ns = first->key;
        heap_remove(&sim->events, first);
        event->run(sim, event);
        if (is_over != NULL && sim->now_ns - looked_ns > 100 * SIM_MS) {
            looked_ns = sim->now_ns;
            if (is_over(sim)) {
                return;
            }
        }
    }
}

static bool all_have_progress(struct sim *sim)
{
    bool all = true;
    for (uint32_t i = 0; i < sim->client_count; i++) {
        all = all && sim_client_progress(sim->client[i]) > 0;
    }
    return all;
}

static void check_progress(struct sim *sim)
{
    /* Most nodes of a restored cluster may not be members when the calm begins:
     * each futile request to one costs a client some seconds. */
    if (sim->life > 0 && !all_have_progress(sim)) {
        sim_run_until(sim, sim->now_ns + CALM_NS, all_have_progress);
    }
    for (uint32_t i = 0; i < sim->client_count && !sim->has_failed; i++) {
        if (sim_client_progress(sim->client[i]) == 0) {
            sim_fail(sim, ORACLE_PROGRESS,
                     "there is progress after healing: %s has got no answer "
                     "for %llu s",
                     sim_client_host(sim->client[i])->name,
                     (unsigned long long)(CALM_NS / SIM_S));
        }
    }
}

static bool no_report_is_late(struct sim *sim)
{
    return !sim_clients_report_late(sim);
}

/* As above, for the agents: one of them may have some more nodes to ask until
 * it asks a member. */
static void check_deaths(struct sim *sim)
{
    if (sim_clients_report_late(sim)) {
        sim_run_until(sim, sim->now_ns + 2 * CALM_NS, no_report_is_late);
    }
    sim_clients_check_deaths(sim);
}

/* A client that died in the chaos, or lost its session, has been quiet for the
 * whole calm: longer than any TTL at a slow clock, and an election. So has a
 * Redis value whose time no client has set since. */
static void check_overdue(struct sim *sim)
{
    uint64_t session = sim_history_overdue(sim_check_history(sim),
                                           sim->now_ns - CALM_NS);
    if (session != 0) {
        sim_fail(sim, ORACLE_PROGRESS,
                 "a dead session ends in time: %" PRIu64
                 " lives after %llu s without a heartbeat or a renewal",
                 session, (unsigned long long)(CALM_NS / SIM_S));
    }
}

static bool has_ended(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (!sim_client_is_done(sim->client[i]) ||
            !sim_client_is_told(sim->client[i])) {
            return false;
        }
    }
    char why[HASP_WHY_SIZE];
    if (!sim_check_has_converged(sim, why)) {
        return false;
    }
    const struct lockfsm *fsm = core_state(sim_node_core(sim_leader(sim)));
    return lockfsm_sessions(fsm) == NULL && lockfsm_locks(fsm) == NULL;
}

static void check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (!sim_client_is_done(sim->client[i])) {
            sim_fail(sim, ORACLE_PROGRESS,
                     "every waiter gets an answer: %s is not done",
                     sim_client_host(sim->client[i])->name);
        } else if (!sim_client_is_told(sim->client[i])) {
            sim_fail(sim, ORACLE_PROGRESS,
                     "every watcher gets its events in the end: %s is not",
                     sim_client_host(sim->client[i])->name);
        }
    }
    char why[HASP_WHY_SIZE];
    if (!sim_check_has_converged(sim, why)) {
        sim_fail(sim, ORACLE_PROGRESS,
                 "in the end all nodes have applied the same: %s", why);
        return;
    }
    const struct lockfsm *fsm = core_state(sim_node_core(sim_leader(sim)));
    if (lockfsm_sessions(fsm) != NULL) {
        sim_fail(sim, ORACLE_PROGRESS,
                 "a dead session ends: %" PRIu64 " is still there",
                 lockfsm_sessions(fsm)->id);
    }
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        if (lock->note.size == 0) {
            sim_fail(sim, ORACLE_PROGRESS,
                     "a lock that nobody uses does not exist: '%.*s' is",
                     (int)lock->name.size, (const char *)lock->name.data);
            return;
        }
    }
}

void sim_run(struct sim *sim, const struct sim_options *options)
{
    *sim = (struct sim){.options = *options};
    build(sim);
    sim_run_until(sim, options->seconds * SIM_S, NULL);
    if (!sim->has_failed) {
        sim_note(sim, NULL, "calm", 0, 0, 0);
        sim->phase = SIM_CALM;
        sim_faults_heal(sim);
        for (uint32_t i = 0; i < sim->client_count; i++) {
            sim_client_reset_progress(sim->client[i]);
        }
        sim_run_until(sim, sim->now_ns + CALM_NS, NULL);
        check_progress(sim);
        check_overdue(sim);
        check_deaths(sim);
        sim_check_clocks(sim);
    }
    if (!sim->has_failed) {
        sim_replace_finish(sim);
    }
    if (!sim->has_failed) {
        sim_election(sim);
    }
    if (!sim->has_failed) {
        sim_slow(sim);
    }
    if (!sim->has_failed) {
        sim_loss(sim);
    }
    if (!sim->has_failed) {
        sim_behind(sim);
    }
    if (!sim->has_failed) {
        sim_flood(sim);
    }
    if (!sim->has_failed) {
        sim_note(sim, NULL, "drain", 0, 0, 0);
        sim->phase = SIM_DRAIN;
        for (uint32_t i = 0; i < sim->client_count; i++) {
            sim_client_drain(sim->client[i]);
        }
        sim_run_until(sim, sim->now_ns + DRAIN_NS, has_ended);
    }
    if (!sim->has_failed) {
        check_end(sim);
    }
    sim->phase = SIM_OVER;
    sim->stats.simulated_ns = sim->now_ns;
}

void sim_done(struct sim *sim)
{
    /* Nothing happens from here on; each event is freed with the struct that
     * contains it. */
    struct heap_node *event;
    while ((event = heap_first(&sim->events)) != NULL) {
        heap_remove(&sim->events, event);
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim_client_free(sim->client[i]);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim_node_free(sim->node[i]);
    }
    sim_faults_free(sim->faults);
    sim_restore_free(sim->restore);
    sim_replace_free(sim->replace);
    sim_places_free(sim->places);
    sim_check_free(sim->check);
    sim_net_free(sim->net);
    heap_done(&sim->events);
}
