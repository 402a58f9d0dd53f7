/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/commands/table.h"
#include "storage/datadir.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_full.h"
#include "tests/sim/sim_node_parts.h"
#include "tests/sim/sim_places.h"
#include "tests/sim/sim_silence.h"
#include "tests/sim/sim_version.h"

/* The date when a run begins, in seconds since 2025. */
#define EPOCH_SECONDS (26 * UINT64_C(1000000))

bool sim_node_acts(struct sim_node *node)
{
    if (node->calls_left > 0 && --node->calls_left == 0) {
        node->is_dying = true;
    }
    return !node->is_dying;
}

bool sim_node_is_excused(const struct sim_node *node)
{
    return files_is_dead(node->disk.files) ||
           files_has_failed(node->disk.files) ||
           files_was_full(node->disk.files);
}

void sim_node_disk_fails(struct sim_node *node, int error)
{
    if (error == 0 || node->is_dying) {
        return;
    }
    node->is_dying = true;
    sim_note(node->sim, &node->host, "disk fails", (uint64_t)-error, 0, 0);
    if (!sim_node_is_excused(node)) {
        sim_fail(node->sim, ORACLE_NODES,
                 "no node stops by itself: %s has an error of its "
                 "disk: %s",
                 node->host.name, hasp_strerror(error));
    }
}

/* Two ports for each address that the machine has had: the first ones are 7421
 * and 7420. */
static void put_address(uint32_t number, uint32_t port,
                        char address[MEMBER_ADDRESS_SIZE])
{
    snprintf(address, MEMBER_ADDRESS_SIZE, "10.0.0.%u:%u,10.0.0.%u:%u",
             number + 1, 7421 + 2 * port, number + 1, 7420 + 2 * port);
}

void sim_node_address(const struct sim_node *node,
                      char address[MEMBER_ADDRESS_SIZE])
{
    put_address(node->host.number, node->port, address);
}

void sim_node_address_at(const struct sim_node *node, uint32_t port,
                         char address[MEMBER_ADDRESS_SIZE])
{
    put_address(node->host.number, port, address);
}

uint32_t sim_node_port(const struct sim_node *node)
{
    return node->port;
}

uint32_t sim_node_port_at(const char *address)
{
    unsigned last, port = 0;
    CHECK(sscanf(address, "10.0.0.%u:%u,", &last, &port) == 2 && port >= 7421);
    return (port - 7421) / 2;
}

uint32_t sim_node_port_of(const struct replica_member *member)
{
    return sim_node_port_at(member->address);
}

void sim_node_move(struct sim_node *node, uint32_t port)
{
    bool was_running = node->host.is_running;
    sim_note(node->sim, &node->host, "moves to port", port, 0, 0);
    sim_node_kill(node, false);
    node->port = port;
    if (was_running) {
        sim_node_start(node);
    }
}

struct sim_node *sim_node_at(const struct sim *sim, const char *address)
{
    unsigned last = 0;
    bool is_one = sscanf(address, "10.0.0.%u:", &last) == 1 && last > 0 &&
                  last <= sim->node_count;
    return is_one ? sim->node[last - 1] : NULL;
}

struct sim_node *sim_node_of(const struct sim *sim,
                             const struct replica_member *member)
{
    struct sim_node *node = sim_node_at(sim, member->address);
    CHECK(node != NULL); /* Nobody else has an address. */
    return node;
}

bool sim_node_is_named(const struct sim_node *node,
                       const struct replica_members *members)
{
    return node->id != 0 &&
           replica_members_name(members, node->id, node->incarnation);
}

/* True if its first directory is one of those that found the cluster. */
static bool founds(const struct sim_node *node)
{
    return node->host.number < node->sim->member_count && !node->was_wiped;
}

/* Founders have exchanged theirs before the run begins. */
static uint64_t founders_incarnation(uint32_t number)
{
    return 5000 + number;
}

uint64_t sim_node_new_incarnation(const struct sim_node *node)
{
    uint64_t drawn = prng_next(&node->sim->prng) | 1;
    return founds(node) ? founders_incarnation(node->host.number) : drawn;
}

static void founders(const struct sim *sim, struct replica_members *members)
{
    members->count = sim->member_count;
    for (uint32_t i = 0; i < members->count; i++) {
        members->member[i].id = i + 1;
        members->member[i].incarnation = founders_incarnation(i);
        members->member[i].role = MEMBER_VOTER;
        put_address(i, 0, members->member[i].address);
    }
}

/* The first entry of the cluster; none if this node does not write it. */
static void first_entry(struct sim_node *node, struct buffer *ret_entry)
{
    struct replica_members members = {.count = 0};
    if (founds(node)) {
        founders(node->sim, &members);
        replica_members_encode(&members, ret_entry);
    }
}

struct sim_node *sim_node_new(struct sim *sim, uint32_t number)
{
    struct sim_node *node = memory_new(sizeof *node);
    node->sim = sim;
    node->id = number < sim->id_count ? number + 1 : 0;
    sim_host_init(sim, &node->host, number, 'n');
    node->host.wake.run = sim_turn_wake;
    sim_disk_init(&node->disk, sim, node);
    list_init(&node->conns);
    node->election_ms = (uint32_t)sim_between(sim, 200, 1000);
    node->heartbeat_ms = node->election_ms / 10 + 10;
    node->peers = sim_peers_new(sim, node);
    struct replica_members members = {.count = 0};
    founders(sim, &members);
    sim_peers_configure(node->peers, &members);
    return node;
}

void sim_node_drop_process(struct sim_node *node)
{
    LIST_EACH_SAFE (at, &node->conns) {
        sim_turn_free_conn(LIST_ENTRY(at, struct server_conn, in_node));
    }
    sim_inbox_clear(&node->host.inbox);
    sim_peers_clear(node->peers);
    node->known.count = 0;
    if (node->core != NULL) {
        core_free(node->core);
        account_done(&node->account);
    }
    node->core = NULL;
    node->host.is_running = false;
    node->host.is_paused = false;
    node->is_dying = false;
    node->calls_left = 0;
    node->stopping_until_ns = 0;
    sim_cancel(node->sim, &node->host.wake);
    sim_cancel(node->sim, &node->probed);
}

void sim_node_free(struct sim_node *node)
{
    sim_node_drop_process(node);
    sim_disk_close(&node->disk, false);
    sim_disk_done(&node->disk);
    sim_peers_free(node->peers);
    free(node);
}

struct sim *sim_node_sim(struct sim_node *node)
{
    return node->sim;
}

struct sim_host *sim_node_host(struct sim_node *node)
{
    return &node->host;
}

uint64_t sim_node_id(const struct sim_node *node)
{
    return node->id;
}

uint32_t sim_node_number(const struct sim_node *node)
{
    return node->host.number;
}

uint32_t sim_node_life(const struct sim_node *node)
{
    return node->life;
}

bool sim_node_is_former(const struct sim_node *node)
{
    return node->life != node->sim->life;
}

uint32_t sim_node_election_ms(const struct sim_node *node)
{
    return node->election_ms;
}

uint64_t sim_node_silence_ms(const struct sim_node *node, uint64_t id)
{
    return sim_peers_output(node->peers, id, FRAME_RAFT) != NULL
               ? sim_peers_silence_ms(node->peers, id)
               : UINT64_MAX;
}

uint32_t sim_node_level(const struct sim_node *node)
{
    return node->feature_level;
}

void sim_node_too_old(struct sim_node *node)
{
    struct sim *sim = node->sim;
    if (node->is_dying) {
        return;
    }
    sim_note(sim, &node->host, "is too old", node->feature_level,
             sim_check_level(sim), 0);
    sim->stats.too_old++;
    sim_check_too_old(sim, node);
    node->is_dying = true;
}

uint64_t sim_node_incarnation(const struct sim_node *node)
{
    return node->incarnation;
}

const uint8_t *sim_node_cluster(const struct sim_node *node)
{
    return node->cluster_id;
}

struct sim_disk *sim_node_disk(struct sim_node *node)
{
    return &node->disk;
}

struct core *sim_node_core(struct sim_node *node)
{
    return node->core;
}

bool sim_node_leads(struct sim_node *node)
{
    return node->core != NULL &&
           replica_role(core_replica(node->core)) == REPLICA_LEADER;
}

uint64_t sim_node_term(const struct sim_node *node)
{
    return node->core == NULL ? 0 : replica_term(core_replica(node->core));
}

struct sim_node *sim_leader(struct sim *sim)
{
    struct sim_node *leader = NULL;
    uint64_t term = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct core *core = sim->node[i]->core;
        if (core != NULL && core_is_serving(core) &&
            !sim_node_is_former(sim->node[i]) &&
            replica_term(core_replica(core)) > term) {
            leader = sim->node[i];
            term = replica_term(core_replica(core));
        }
    }
    return leader;
}

bool sim_members(struct sim *sim, struct replica_members *ret_members)
{
    struct sim_node *leader = sim_leader(sim);
    if (leader != NULL) {
        replica_members(core_replica(leader->core), ret_members);
    }
    return leader != NULL;
}

static struct core_options make_options(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct core_options options = {
        .id = node->id,
        .seed = prng_next(&sim->prng),
        .incarnation = node->incarnation,
        .replace_empty_ns = sim_places_empty_ns(sim),
        .is_marked = sim_node_is_marked(node),
        .accused = node->disk.accused,
        .token_base = (EPOCH_SECONDS + sim->now_ns / SIM_S) << 20,
        .election_ms = node->election_ms,
        .heartbeat_ms = node->heartbeat_ms,
        .redirect = sim->options.seed % 4 == 3 ? REDIRECT_MOVED
                                               : REDIRECT_FORWARD,
        .limits = core_default_limits,
        .account = &node->account,
        .version = "0.0.0",
        .feature_level = node->feature_level,
        .founds_access_required = sim->users.starts_required,
    };
    memcpy(options.cluster_id, node->cluster_id, CLUSTER_ID_SIZE);
    options.limits.snapshot_entries = 20 + sim->options.seed % 7 * 60;
    options.limits.snapshot_chunk_size = 1024;
    if (sim->options.seed % 3 != 0) {
        /* A short log: a node that is away for a while needs a snapshot. */
        options.limits.requests_in_flight = 40;
        options.limits.own_in_flight = 24;
    }
    if (sim->options.seed % 3 == 1) {
        /* A still shorter one. */
        options.limits.requests_in_flight = 24;
        options.limits.own_in_flight = 12;
        options.limits.snapshot_entries = 20;
    }
    if (sim->options.seed % 2 == 0) {
        /* Each node's file is different. */
        for (int key = 0; key < LIMIT_COUNT; key++) {
            options.limits.founding.of[key] = sim_admin_limit(
                sim, (enum limit_key)key);
        }
    }
    options.limits.flush_records = 50;
    options.limits.flush_ms = 200;
    options.limits.slice = sim_node_slice(sim);
    return options;
}

static void heard(void *data, uint64_t session)
{
    struct sim_node *node = data;
    if (!sim_node_is_former(node)) {
        sim_silence_heard(sim_check_silence(node->sim), session);
    }
}

/* False if that has ended the process. */
static bool open_disk(struct sim_node *node, struct bytes first,
                      struct core_start *start)
{
    char why[HASP_WHY_SIZE] = "";
    /* Not while oracle 20 watches whether its old disk is noticed. */
    bool is_rotten = node->rots && node->was_clean && !node->disk.is_old &&
                     files_rot(node->disk.files, node->disk.path);
    node->rots = node->rots && !is_rotten;
    node->was_clean = false;
    int error = sim_disk_open(&node->disk, first, &start->replica, why);
    if (error == 0) {
        const struct datadir_identity *identity = datadir_identity(
            node->disk.datadir);
        node->incarnation = identity->incarnation;
        memcpy(node->cluster_id, identity->cluster_id, CLUSTER_ID_SIZE);
        start->table = node->disk.table;
        return true;
    }
    sim_note(node->sim, &node->host, "cannot start", (uint64_t)-error, 0, 0);
    sim_say(node->sim, &node->host, "%s", why);
    if (is_rotten) {
        node->sim->stats.refused++;
        files_unrot(node->disk.files);
    }
    if (!sim_node_is_excused(node) && !node->disk.is_condemned &&
        !(is_rotten && error == HASP_ECORRUPT)) {
        sim_fail(node->sim, ORACLE_NODES,
                 "a node starts from what it left on disk: %s: %s",
                 node->host.name, why);
    }
    sim_disk_close(&node->disk, sim_chance(node->sim, 0.3));
    return false;
}

void sim_node_start(struct sim_node *node)
{
    struct sim *sim = node->sim;
    if (node->host.is_running || node->was_removed || node->id == 0) {
        return;
    }
    if (!node->host.is_os_up) {
        node->host.is_os_up = true;
        node->host.clock.true_ns = sim->now_ns;
        node->host.clock.local_ns = sim_between(sim, 1, 100) * SIM_S;
    }
    struct core_start start = {.table = NULL};
    struct buffer first = {0};
    first_entry(node, &first);
    if (!open_disk(node, buffer_bytes(&first), &start)) {
        buffer_done(&first);
        return;
    }
    node->feature_level = sim_version_choose(sim, node->feature_level);
    struct core_options options = make_options(node);
    struct core_port port = sim_port_of(node);
    port.applied = sim_check_applied;
    port.heard = heard;
    account_init(&node->account, sim_turn_units(sim), NULL);
    node->core = core_new(&options, &port, &core_commands);
    node->host.is_running = true;
    node->host.is_paused = false;
    node->slow_until_ns = 0;
    node->read_ns = node->taken_ns = 0; /* The clock may have restarted. */
    sim_note(sim, &node->host, "starts", start.replica.term,
             start.replica.applied_index, node->feature_level);
    sim_check_node_starts(sim, node);
    sim_peers_start(node->peers, start.replica.entry_count == 0 &&
                                     start.replica.snapshot_index == 0);
    sim_events_started(sim_check_events(sim), node,
                       start.replica.applied_index);
    char why[HASP_WHY_SIZE];
    int error = core_begin(node->core, &start, sim_host_now(sim, &node->host),
                           why);
    buffer_done(&first);
    if (error == 0) {
        node->began_index = replica_last_index(core_replica(node->core));
        error = sim_disk_begun(&node->disk);
    }
    if (error == HASP_ETOOOLD) {
        sim_node_too_old(node);
        sim_node_kill(node, false);
        return;
    }
    if (!sim_node_is_former(node)) {
        sim_silence_loaded(sim_check_silence(sim), node);
    }
    if (error != 0 && sim_node_is_excused(node)) {
        sim_node_kill(node, false);
        return;
    }
    if (error != 0) {
        sim_fail(sim, ORACLE_NODES,
                 "a node starts from what it left on disk: %s: %s",
                 node->host.name, why);
        return;
    }
    sim_host_poke(sim, &node->host);
}

void sim_node_kill(struct sim_node *node, bool is_os_down)
{
    struct sim *sim = node->sim;
    CHECK(!node->is_in_turn);
    if (is_os_down) {
        node->host.is_os_up = false;
    }
    if (node->host.is_running) {
        sim_note(sim, &node->host, is_os_down ? "loses power" : "is killed", 0,
                 0, 0);
        sim->stats.crashes++;
        sim_node_drop_process(node);
        sim_disk_close(&node->disk, is_os_down);
        sim_net_host_died(sim, node->host.number, is_os_down);
        sim_check_node_stops(sim, node);
    } else if (is_os_down) {
        sim_disk_close(&node->disk, true);
    }
}

void sim_node_dies(struct sim_node *node)
{
    if (node->is_in_turn) {
        node->is_dying = true;
    } else if (node->host.is_running) {
        sim_node_kill(node, sim_chance(node->sim, 0.3));
    }
}

void sim_node_kill_within(struct sim_node *node, uint32_t calls)
{
    node->calls_left = calls;
}

void sim_node_wipe(struct sim_node *node, const struct replica_members *members)
{
    sim_note(node->sim, &node->host, "is wiped", 0, 0, 0);
    sim_node_kill(node, true);
    sim_disk_done(&node->disk);
    sim_disk_init(&node->disk, node->sim, node);
    node->life = node->sim->life;
    node->was_wiped = true;
    node->is_unmarked = false;
    node->wiped_ns = node->sim->now_ns;
    node->incarnation = 0; /* Until it starts: an operator cannot know it. */
    node->was_clean = false;
    node->rots = false;
    node->was_removed = false;
    sim_peers_configure(node->peers, members);
}

void sim_node_unmark(struct sim_node *node)
{
    node->is_unmarked = true;
}

bool sim_node_is_marked(const struct sim_node *node)
{
    return !node->is_unmarked;
}

uint64_t sim_node_wiped_ns(const struct sim_node *node)
{
    return node->wiped_ns;
}

void sim_node_settle(struct sim_node *node, uint64_t id,
                     const struct replica_members *members)
{
    CHECK(node->id == 0);
    node->id = id;
    node->settled = ++node->sim->settled;
    sim_note(node->sim, &node->host, "is to be", id, 0, 0);
    sim_node_wipe(node, members);
}

void sim_node_unsettle(struct sim_node *node)
{
    static const struct replica_members none;
    sim_node_wipe(node, &none);
    if (node->settled > 0) {
        node->id = 0;
    }
}

bool sim_node_is_old(const struct sim_node *node)
{
    const struct sim *sim = node->sim;
    bool is_old = false;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        is_old |= node->id != 0 && sim->node[i]->id == node->id &&
                  sim->node[i]->settled > node->settled;
    }
    return is_old;
}

bool sim_node_is_before(const struct sim_node *node,
                        const struct sim_node *other)
{
    return node->settled < other->settled;
}

uint64_t sim_node_linked(const struct sim_node *node, uint64_t id)
{
    return sim_peers_linked(node->peers, id);
}

bool sim_node_is_behind(const struct sim_node *node)
{
    return node->core != NULL &&
           lockfsm_applied_index(core_state(node->core)) < node->began_index;
}

bool sim_node_was_removed(const struct sim_node *node)
{
    return node->was_removed;
}

void sim_node_start_again(struct sim_node *node)
{
    node->was_removed = false;
    sim_node_start(node);
}

bool sim_node_is_fresh(const struct sim_node *node)
{
    return node->host.number >= node->sim->member_count && !node->was_wiped;
}

void sim_node_stop(struct sim_node *node)
{
    if (!node->host.is_running || node->stopping_until_ns != 0) {
        return;
    }
    sim_note(node->sim, &node->host, "is asked to stop", 0, 0, 0);
    node->stopping_until_ns = node->sim->now_ns + 5 * SIM_S;
    core_stop(node->core, sim_host_now(node->sim, &node->host));
    sim_host_poke(node->sim, &node->host);
}

void sim_node_rot(struct sim_node *node)
{
    node->rots = true;
    sim_node_stop(node);
}

void sim_node_pause(struct sim_node *node, bool is_paused)
{
    if (!node->host.is_running || node->host.is_paused == is_paused) {
        return;
    }
    sim_note(node->sim, &node->host, is_paused ? "is stopped" : "goes on", 0, 0,
             0);
    node->host.is_paused = is_paused;
    if (is_paused) {
        node->sim->stats.pauses++;
        sim_cancel(node->sim, &node->host.wake);
    } else {
        sim_host_poke(node->sim, &node->host);
    }
}

void sim_node_slow(struct sim_node *node, uint64_t until_ns)
{
    node->slow_until_ns = until_ns;
}

void sim_node_scarce(struct sim_node *node, bool is_scarce)
{
    if (node->host.is_running) {
        sim_note(node->sim, &node->host, "disk scarce", is_scarce, 0, 0);
        core_disk_is(node->core, is_scarce ? CORE_DISK_FULL : CORE_DISK_OK,
                     sim_host_now(node->sim, &node->host));
        sim_host_poke(node->sim, &node->host);
    }
}
