/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_faults.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_old.h"
#include "tests/sim/sim_replace.h"

enum fault {
    FAULT_KILL,
    FAULT_KILL_WITHIN,
    FAULT_KILL_IN_CALL,
    FAULT_POWER,
    FAULT_STOP,
    FAULT_PAUSE,
    FAULT_SLOW_LOOP,
    FAULT_SLOW_DISK,
    FAULT_BAD_DISK,
    FAULT_FULL_DISK,
    FAULT_ROT,
    FAULT_SCARCE_DISK,
    FAULT_ISOLATE,
    FAULT_SPLIT,
    FAULT_ONE_WAY,
    FAULT_SLOW_LINK,
    FAULT_CORNER,
    FAULT_USURP,
    FAULT_RELAY,
    FAULT_CUT,
    FAULT_CLIENT_KILL,
    FAULT_CLIENT_POWER,
    FAULT_CLIENT_PAUSE,
    FAULT_CLIENT_SUSPEND,
    FAULT_CLIENT_RECONNECT,
    FAULT_CLIENT_CUT_OFF,
    FAULT_CLIENT_LATE,
    /* By their own clock. */
    FAULT_REPLACE,
    FAULT_OLD,
    FAULT_COUNT
};

_Static_assert(FAULT_COUNT == SIM_FAULT_COUNT, "sim_cover.c has their names");

/* A fault that ends by itself. */
struct ailment {
    struct sim_event end;
    struct sim_faults *faults;
    enum fault fault;
    uint32_t host;
    bool is_on;
};

struct sim_faults {
    struct sim *sim;
    struct sim_event next;
    uint64_t weight[FAULT_COUNT];
    uint64_t weight_sum;
    uint32_t count;  /* Faults that have struck, or were skipped. */
    uint64_t gap_ms; /* Mean time between two faults. */
    struct ailment ailment[SIM_HOST_MAX][FAULT_COUNT];
    struct sim_event second; /* The second strike at a client in the corner. */
    uint32_t cornered;
    struct sim_event usurpation;
    uint32_t usurped; /* The leader that hands over. */
    uint64_t usurped_term;
    uint64_t usurped_until_ns;
    struct sim_event replacing;
    struct sim_event relay;
    struct sim_node *relay_from; /* Handing over; or NULL. */
    uint64_t relay_gap_ns;
    uint64_t relay_until_ns;
};

static void client_fault(struct sim *sim, enum fault fault, uint32_t host);

static uint32_t any_node(struct sim *sim)
{
    /* The leader is worth more. */
    if (sim_chance(sim, 0.4)) {
        for (uint32_t i = 0; i < sim->node_count; i++) {
            if (sim_node_leads(sim->node[i])) {
                return i;
            }
        }
    }
    uint32_t any;
    do {
        any = (uint32_t)prng_below(&sim->prng, sim->node_count);
    } while (sim_node_id(sim->node[any]) == 0);
    return any;
}

static struct sim_client *client_at(struct sim *sim, uint32_t host)
{
    return sim->client[host - sim->node_count];
}

/* --- Ends ----------------------------------------------------------------- */

static void open_host(struct sim *sim, uint32_t host)
{
    for (uint32_t i = 0; i < sim->host_count; i++) {
        sim_net_block(sim, host, i, false);
        sim_net_block(sim, i, host, false);
    }
}

static void set_delays(struct sim *sim, uint32_t host, uint64_t low_us,
                       uint64_t high_us)
{
    for (uint32_t i = 0; i < sim->host_count; i++) {
        sim_net_set_delay(sim, host, i,
                          sim_between(sim, low_us, high_us) * SIM_US);
        sim_net_set_delay(sim, i, host,
                          sim_between(sim, low_us, high_us) * SIM_US);
    }
}

static void end_ailment(struct sim *sim, struct ailment *ailment)
{
    struct sim_faults *faults = ailment->faults;
    uint32_t host = ailment->host;
    ailment->is_on = false;
    switch (ailment->fault) {
    case FAULT_KILL:
        sim_node_start(sim->node[host]);
        break;
    case FAULT_PAUSE:
        sim_node_pause(sim->node[host], false);
        break;
    case FAULT_SCARCE_DISK:
        sim_node_scarce(sim->node[host], false);
        break;
    case FAULT_FULL_DISK:
        sim_disk_full(sim_node_disk(sim->node[host]), false);
        break;
    case FAULT_ISOLATE:
        open_host(sim, host);
        break;
    case FAULT_SLOW_LINK:
        set_delays(sim, host, 50, 1000);
        break;
    case FAULT_CLIENT_KILL:
        sim_client_start(client_at(sim, host));
        break;
    case FAULT_CLIENT_PAUSE:
        sim_client_pause(client_at(sim, host), false, false);
        break;
    case FAULT_CLIENT_LATE:
        open_host(sim, host);
        faults->cornered = host;
        sim_at(sim, &faults->second,
               sim->now_ns + sim_between(sim, 0, 200) * SIM_MS);
        break;
    default:
        break;
    }
}

static void ailment_over(struct sim *sim, struct sim_event *event)
{
    end_ailment(sim, LIST_ENTRY(event, struct ailment, end));
}

/* Lasts for a random time; one that is already active is not extended. */
static void last(struct sim *sim, enum fault fault, uint32_t host,
                 uint64_t high_ms)
{
    struct ailment *ailment = &sim->faults->ailment[host][fault];
    if (!ailment->is_on) {
        ailment->is_on = true;
        /* Short ones are as frequent as long ones. */
        uint64_t bound_ms = sim_between(sim, 50, high_ms);
        sim_at(sim, &ailment->end,
               sim->now_ns + sim_between(sim, 10, bound_ms) * SIM_MS);
    }
}

void sim_faults_open_later(struct sim *sim, uint32_t host, uint64_t high_ms)
{
    last(sim, FAULT_ISOLATE, host, high_ms);
}

void sim_faults_resume_later(struct sim *sim, uint32_t host, uint64_t high_ms)
{
    last(sim, FAULT_PAUSE, host, high_ms);
}

/* --- Faults of nodes ------------------------------------------------------ */

static void kill_node(struct sim *sim, uint32_t host, bool is_os_down)
{
    sim_node_kill(sim->node[host], is_os_down);
    last(sim, FAULT_KILL, host, 6000);
}

static void split(struct sim *sim)
{
    sim->stats.partitions++;
    uint64_t sides = prng_next(&sim->prng);
    sim_note(sim, NULL, "split", sides & ((1u << sim->host_count) - 1), 0, 0);
    bool is_one_way = sim_chance(sim, 0.2);
    for (uint32_t i = 0; i < sim->host_count; i++) {
        for (uint32_t j = 0; j < sim->host_count; j++) {
            bool is_apart = (sides >> i & 1) != (sides >> j & 1);
            if (is_apart && !(is_one_way && (sides >> i & 1) == 0)) {
                sim_net_block(sim, i, j, true);
            }
        }
    }
    /* Healed host by host, each at its own time. */
    for (uint32_t i = 0; i < sim->host_count; i++) {
        last(sim, FAULT_ISOLATE, i, 10000);
    }
}

static void isolate(struct sim *sim, uint32_t host)
{
    sim->stats.partitions++;
    uint64_t way = prng_below(&sim->prng, 4);
    bool spares_clients = sim_chance(sim, 0.5);
    sim_note(sim, sim->host[host], "isolated", way, spares_clients, 0);
    uint32_t count = spares_clients ? sim->node_count : sim->host_count;
    for (uint32_t i = 0; i < count; i++) {
        if (i != host && way != 1) {
            sim_net_block(sim, host, i, true);
        }
        if (i != host && way != 2) {
            sim_net_block(sim, i, host, true);
        }
    }
    last(sim, FAULT_ISOLATE, host, 10000);
}

/* A leader that does not know yet that it has been deposed, with clients that
 * reach only it; soon after something happens to one of these. Whatever such a
 * leader grants or promises must not count. */
static void corner(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    uint32_t leader = any_node(sim);
    uint64_t sides = prng_next(&sim->prng) | 1;
    sim->stats.partitions++;
    sim_note(sim, sim->host[leader], "in a corner with clients", sides & 0xffff,
             0, 0);
    for (uint32_t i = 0; i < sim->host_count; i++) {
        bool is_inside = i == leader || (i >= sim->node_count &&
                                         (sides >> (i - sim->node_count) & 1));
        for (uint32_t j = 0; j < sim->host_count && is_inside; j++) {
            bool is_outside = j != leader &&
                              (j < sim->node_count ||
                               (sides >> (j - sim->node_count) & 1) == 0);
            if (is_outside) {
                sim_net_block(sim, i, j, true);
                sim_net_block(sim, j, i, true);
            }
        }
    }
    uint64_t bound_ms = sim_between(sim, 500, 10000);
    for (uint32_t i = 0; i < sim->host_count; i++) {
        last(sim, FAULT_ISOLATE, i, bound_ms);
    }
    faults->cornered = sim->node_count;
    for (uint32_t i = 1; i < sim->client_count; i++) {
        if ((sides >> i & 1) && sim_chance(sim, 0.4)) {
            faults->cornered = sim->node_count + i;
        }
    }
    sim_at(sim, &faults->second,
           sim->now_ns + sim_between(sim, 0, 3000) * SIM_MS);
}

static void second_stroke(struct sim *sim, struct sim_event *event)
{
    (void)event;
    static const enum fault strokes[] = {FAULT_CLIENT_KILL, FAULT_CLIENT_PAUSE,
                                         FAULT_CLIENT_CUT_OFF,
                                         FAULT_CLIENT_CUT_OFF};
    if (sim->phase == SIM_CHAOS) {
        client_fault(sim, strokes[prng_below(&sim->prng, 4)],
                     sim->faults->cornered);
    }
}

/* A leader hands over because its disk is nearly full, and hears nothing of the
 * result. Its successor need not wait for an election timeout, and so may have
 * changed much while the old leader still believes that it leads. */
static void usurp(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    struct sim_node *leader = sim_leader(sim);
    if (leader == NULL || faults->usurpation.node.slot != 0) {
        return;
    }
    faults->usurped = sim_node_host(leader)->number;
    faults->usurped_term = sim_node_term(leader);
    faults->usurped_until_ns = sim->now_ns + 1 * SIM_S;
    sim->stats.disk_faults++;
    sim_node_scarce(leader, true);
    last(sim, FAULT_SCARCE_DISK, faults->usurped, 3000);
    sim_at(sim, &faults->usurpation, sim->now_ns);
}

/* Finds the candidate. Its votes no longer reach the old leader, and sometimes
 * what the others say of it does not either. */
static void await_successor(struct sim *sim, struct sim_event *event)
{
    struct sim_faults *faults = sim->faults;
    uint32_t old = faults->usurped;
    uint32_t successor = 0;
    while (successor < sim->node_count &&
           (successor == old ||
            sim_node_term(sim->node[successor]) <= faults->usurped_term)) {
        successor++;
    }
    if (sim->phase != SIM_CHAOS || sim->now_ns > faults->usurped_until_ns ||
        sim_node_term(sim->node[old]) != faults->usurped_term) {
        return;
    }
    if (successor == sim->node_count) {
        sim_at(sim, event, sim->now_ns + 50 * SIM_US);
        return;
    }
    bool is_all = sim_chance(sim, 0.6);
    sim->stats.partitions++;
    sim_note(sim, sim->host[old], "does not hear", successor + 1, is_all, 0);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (i != old && (is_all || i == successor)) {
            sim_net_block(sim, i, old, true);
        }
    }
    last(sim, FAULT_ISOLATE, old, 3000);
}

/* Leadership passes round and round: dead sessions and time spans end all the
 * same. */
static void relay(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    if (faults->relay.node.slot != 0) {
        return;
    }
    faults->relay_gap_ns = sim_between(sim, 100, 2000) * SIM_MS;
    faults->relay_until_ns = sim->now_ns + sim_between(sim, 2, 30) * SIM_S;
    sim_note(sim, NULL, "relay", faults->relay_gap_ns / SIM_MS, 0, 0);
    sim_at(sim, &faults->relay, sim->now_ns);
}

/* A leader whose disk is nearly full hands over; after that there is room
 * again. */
static void next_leg(struct sim *sim, struct sim_event *event)
{
    struct sim_faults *faults = sim->faults;
    struct sim_node *leader = sim_leader(sim);
    if (faults->relay_from != NULL) {
        sim_node_scarce(faults->relay_from, false);
        faults->relay_from = NULL;
        sim_at(sim, event, sim->now_ns + faults->relay_gap_ns);
    } else if (sim->phase == SIM_CHAOS &&
               sim->now_ns < faults->relay_until_ns) {
        if (leader != NULL) {
            sim->stats.relays++;
            sim_node_scarce(leader, true);
            faults->relay_from = leader;
        }
        sim_at(sim, event, sim->now_ns + 20 * SIM_MS);
    }
}

static void block_one(struct sim *sim)
{
    uint32_t from = any_node(sim);
    uint32_t to = (uint32_t)prng_below(&sim->prng, sim->host_count);
    if (from == to) {
        return;
    }
    sim->stats.partitions++;
    sim_note(sim, sim->host[from], "cannot reach", to, 0, 0);
    sim_net_block(sim, from, to, true);
    last(sim, FAULT_ISOLATE, from, 8000);
}

static void node_fault(struct sim *sim, enum fault fault, uint32_t host)
{
    struct sim_node *node = sim->node[host];
    switch (fault) {
    case FAULT_KILL:
        kill_node(sim, host, false);
        break;
    case FAULT_KILL_WITHIN:
        sim_node_kill_within(node, (uint32_t)sim_between(sim, 1, 300));
        break;
    case FAULT_KILL_IN_CALL:
        files_die_within(sim_node_disk(node)->files,
                         (uint32_t)sim_between(sim, 1, 200));
        break;
    case FAULT_POWER:
        kill_node(sim, host, true);
        break;
    case FAULT_STOP:
        sim_node_stop(node);
        break;
    case FAULT_PAUSE:
        sim_node_pause(node, true);
        last(sim, FAULT_PAUSE, host, 8000);
        break;
    case FAULT_SLOW_LOOP:
        sim_node_slow(node, sim->now_ns + sim_between(sim, 100, 8000) * SIM_MS);
        break;
    case FAULT_SLOW_DISK:
        sim->stats.disk_faults++;
        sim_node_disk(node)->slow_until_ns = sim->now_ns +
                                             sim_between(sim, 100, 8000) *
                                                 SIM_MS;
        break;
    case FAULT_BAD_DISK:
        /* The node exits, unless the error was a snapshot's. */
        sim->stats.disk_faults++;
        files_fail_within(sim_node_disk(node)->files,
                          (uint32_t)sim_between(sim, 1, 40));
        break;
    case FAULT_FULL_DISK:
        sim->stats.disk_faults++;
        sim_disk_full(sim_node_disk(node), true);
        last(sim, FAULT_FULL_DISK, host, 5000);
        break;
    case FAULT_ROT:
        sim->stats.disk_faults++;
        sim_node_rot(node);
        break;
    case FAULT_SCARCE_DISK:
        sim->stats.disk_faults++;
        sim_node_scarce(node, true);
        last(sim, FAULT_SCARCE_DISK, host, 6000);
        break;
    case FAULT_ISOLATE:
        isolate(sim, host);
        break;
    default:
        sim_note(sim, sim->host[host], "slow link", 0, 0, 0);
        set_delays(sim, host, 1000, 300000);
        last(sim, FAULT_SLOW_LINK, host, 8000);
        break;
    }
}

/* --- Faults of clients ---------------------------------------------------- */

/* Messages from nodes reach it late; soon after that something happens to it. A
 * lease must count from before its heartbeat was sent. */
static void delay_answers(struct sim *sim, uint32_t host)
{
    sim_note(sim, sim->host[host], "hears late", 0, 0, 0);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim_net_block(sim, i, host, true);
    }
    last(sim, FAULT_CLIENT_LATE, host, 600);
}

static void client_fault(struct sim *sim, enum fault fault, uint32_t host)
{
    struct sim_client *client = client_at(sim, host);
    switch (fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CLIENT_POWER:
        sim_client_kill(client, fault == FAULT_CLIENT_POWER);
        last(sim, FAULT_CLIENT_KILL, host, 5000);
        break;
    case FAULT_CLIENT_PAUSE:
    case FAULT_CLIENT_SUSPEND:
        sim_client_pause(client, true, fault == FAULT_CLIENT_SUSPEND);
        last(sim, FAULT_CLIENT_PAUSE, host, 10000);
        break;
    case FAULT_CLIENT_RECONNECT:
        sim_client_reconnect(client);
        break;
    case FAULT_CLIENT_LATE:
        delay_answers(sim, host);
        break;
    default:
        isolate(sim, host);
        break;
    }
}

static void strike(struct sim *sim, enum fault fault)
{
    uint32_t number = ++sim->faults->count;
    if (number <= SIM_SKIP_MAX && sim->options.skips[number]) {
        return;
    }
    sim_say(sim, NULL, "fault %u: %s", number, sim_fault_name(fault));
    sim_cover_fault(sim, fault);
    if (fault == FAULT_SPLIT) {
        split(sim);
    } else if (fault == FAULT_ONE_WAY) {
        block_one(sim);
    } else if (fault == FAULT_CORNER) {
        corner(sim);
    } else if (fault == FAULT_USURP) {
        usurp(sim);
    } else if (fault == FAULT_RELAY) {
        relay(sim);
    } else if (fault == FAULT_REPLACE) {
        sim_replace_begin(sim);
    } else if (fault == FAULT_OLD) {
        sim_old_strike(sim);
    } else if (fault == FAULT_CUT) {
        struct sim_wire *wire = sim_net_any(sim);
        if (wire != NULL) {
            sim->stats.cuts++;
            sim_note(sim, NULL, "cut", wire->id, wire->host[0], wire->host[1]);
            sim_net_cut(sim, wire);
        }
    } else if (fault >= FAULT_CLIENT_KILL) {
        client_fault(sim, fault,
                     sim->node_count +
                         (uint32_t)prng_below(&sim->prng, sim->client_count));
    } else {
        node_fault(sim, fault, any_node(sim));
    }
}

/* A node that ended in the middle of a turn, or cleanly, restarts, too. */
static void revive(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (!sim->host[i]->is_running && sim_node_id(sim->node[i]) != 0) {
            last(sim, FAULT_KILL, i, 6000);
        }
    }
}

static void next_fault(struct sim *sim, struct sim_event *event)
{
    struct sim_faults *faults = sim->faults;
    if (sim->phase != SIM_CHAOS) {
        /* A node that was asked to stop before the calm restarts as well. */
        for (uint32_t i = 0; i < sim->node_count && !sim->is_left_alone; i++) {
            sim_node_start(sim->node[i]);
        }
        sim_at(sim, event, sim->now_ns + 500 * SIM_MS);
        return;
    }
    revive(sim);
    uint64_t pick = prng_below(&sim->prng, faults->weight_sum);
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (pick < faults->weight[i]) {
            strike(sim, (enum fault)i);
            break;
        }
        pick -= faults->weight[i];
    }
    sim_at(sim, event,
           sim->now_ns + sim_between(sim, 1, 2 * faults->gap_ms) * SIM_MS);
}

static void next_replaced(struct sim *sim, struct sim_event *event)
{
    if (sim->phase == SIM_CHAOS) {
        strike(sim, sim_chance(sim, 0.4) ? FAULT_REPLACE : FAULT_OLD);
        sim_at(sim, event, sim->now_ns + sim_between(sim, 100, 2500) * SIM_MS);
    }
}

/* The faults that stress leases most: deposed leaders, late answers, clients
 * that are cut off after them. */
static bool tries_leases(enum fault fault)
{
    switch (fault) {
    case FAULT_CORNER:
    case FAULT_USURP:
    case FAULT_RELAY:
    case FAULT_ISOLATE:
    case FAULT_ONE_WAY:
    case FAULT_SLOW_LINK:
    case FAULT_PAUSE:
    case FAULT_CLIENT_CUT_OFF:
    case FAULT_CLIENT_RECONNECT:
    case FAULT_CLIENT_LATE:
        return true;
    default:
        return false;
    }
}

struct sim_faults *sim_faults_new(struct sim *sim)
{
    static const uint64_t gaps_ms[] = {50, 200, 500, 1000, 3000};
    struct sim_faults *faults = memory_new(sizeof *faults);
    bool is_about_leases = sim_chance(sim, 0.25);
    faults->sim = sim;
    for (int i = 0; i < FAULT_REPLACE; i++) {
        /* About half of the kinds take no part in a run. */
        bool takes_part = is_about_leases ? tries_leases((enum fault)i)
                                          : sim_chance(sim, 0.5);
        faults->weight[i] = takes_part ? sim_between(sim, 1, 10) : 0;
        faults->weight_sum += faults->weight[i];
    }
    faults->weight[FAULT_CUT]++;
    faults->weight_sum++;
    faults->gap_ms = gaps_ms[prng_below(&sim->prng, 5)];
    for (uint32_t host = 0; host < SIM_HOST_MAX; host++) {
        for (int i = 0; i < FAULT_COUNT; i++) {
            struct ailment *ailment = &faults->ailment[host][i];
            ailment->faults = faults;
            ailment->fault = (enum fault)i;
            ailment->host = host;
            ailment->end.run = ailment_over;
        }
    }
    faults->next.run = next_fault;
    faults->second.run = second_stroke;
    faults->usurpation.run = await_successor;
    faults->relay.run = next_leg;
    sim_at(sim, &faults->next, sim_between(sim, 500, 3000) * SIM_MS);
    faults->replacing.run = next_replaced;
    if (sim_replace_machines(sim) > 0) {
        sim_at(sim, &faults->replacing, sim_between(sim, 2000, 4000) * SIM_MS);
    }
    return faults;
}

void sim_faults_free(struct sim_faults *faults)
{
    free(faults);
}

void sim_faults_heal(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    for (uint32_t host = 0; host < sim->host_count; host++) {
        for (int i = 0; i < FAULT_COUNT; i++) {
            struct ailment *ailment = &faults->ailment[host][i];
            if (ailment->is_on) {
                sim_cancel(sim, &ailment->end);
                end_ailment(sim, ailment);
            }
        }
        set_delays(sim, host, 50, 1000);
    }
    sim_net_open_all(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim_node_slow(sim->node[i], 0);
        sim_node_disk(sim->node[i])->slow_until_ns = 0;
        files_die_within(sim_node_disk(sim->node[i])->files, 0);
        files_fail_within(sim_node_disk(sim->node[i])->files, 0);
        sim_node_kill_within(sim->node[i], 0);
        sim_node_pause(sim->node[i], false);
        sim_node_start(sim->node[i]);
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim_client_pause(sim->client[i], false, false);
        sim_client_start(sim->client[i]);
    }
}
