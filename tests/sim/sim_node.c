/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/datadir.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_majority.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_peers.h"
#include "tests/sim/sim_silence.h"
#include "tests/sim/sim_version.h"
#include "tests/sim/sim_worker.h"

/* The date when a run begins, in seconds since 2025. */
#define EPOCH_SECONDS (26 * UINT64_C(1000000))

/* A client's connection as the node sees it. */
struct server_conn {
    struct list in_node;
    uint64_t id;
    struct sim_wire *wire;
    struct buffer input;
    struct buffer output;
    struct resp_parser parser;
    bool is_blocked;
    bool is_closing; /* By the core, once the output has left. */
    bool is_gone;    /* The other end has closed, and the core knows. */
};

struct sim_node {
    struct sim *sim;
    struct sim_host host;
    uint64_t id;
    uint32_t life;
    struct core *core;
    struct sim_disk disk;
    struct sim_peers *peers;
    struct replica_members known; /* By the oracle, see sim_majority.h. */
    struct list conns;
    uint64_t conn_count;
    uint64_t incarnation;
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* On its disk. */
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    uint32_t feature_level; /* 0: it was never started. */
    uint64_t next_turn_ns;  /* Local time. */
    uint64_t read_ns;       /* All that had come by then was fed; likewise. */
    uint64_t slow_until_ns;
    uint64_t stopping_until_ns; /* 0: not stopping. */
    struct sim_event probed;    /* What this node has dialled has answered. */
    uint64_t probe_number;
    uint64_t probe_id;
    bool was_wiped;
    bool was_removed;    /* Nobody starts it again before it is wiped. */
    bool is_dying;       /* Nothing it does reaches the world. */
    uint32_t calls_left; /* Until it dies; 0: it does not. */
    bool is_in_turn;
    bool was_clean; /* The process has ended so. */
    bool rots;      /* After a clean end a bit of its files flips. */
};

static void node_wake(struct sim *sim, struct sim_event *event);
static void node_probed(struct sim *sim, struct sim_event *event);

bool sim_node_acts(struct sim_node *node)
{
    if (node->calls_left > 0 && --node->calls_left == 0) {
        node->is_dying = true;
    }
    return !node->is_dying;
}

/* --- The port ------------------------------------------------------------- */

/* The process has died, or its disk has failed. */
static bool is_excused(const struct sim_node *node)
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
    if (!is_excused(node)) {
        sim_fail(node->sim, ORACLE_NODES,
                 "no node stops by itself: %s has an error of its "
                 "disk: %s",
                 node->host.name, hasp_strerror(error));
    }
}

static bool port_peer_is_up(void *data, uint64_t id)
{
    struct sim_node *node = data;
    return sim_peers_output(node->peers, id, FRAME_RAFT) != NULL;
}

static struct buffer *port_peer_output(void *data, uint64_t id,
                                       enum frame_type type)
{
    struct sim_node *node = data;
    sim_node_acts(node);
    return sim_peers_output(node->peers, id, type);
}

static void port_peers_changed(void *data,
                               const struct replica_members *members)
{
    struct sim_node *node = data;
    if (sim_node_acts(node)) {
        sim_peers_want(node->peers, members);
        sim_majority_look(node->sim, node, &node->known);
    }
}

static uint64_t port_peer_silence_ms(void *data, uint64_t id)
{
    struct sim_node *node = data;
    return sim_peers_silence_ms(node->peers, id);
}

/* Nothing refuses where a network is down: that takes until it is given up. */
static void port_probe_address(void *data, uint64_t number, uint64_t id,
                               const char *address)
{
    struct sim_node *node = data;
    struct sim *sim = node->sim;
    (void)address;
    if (!sim_node_acts(node)) {
        return;
    }
    const struct sim_host *to = &sim->node[id - 1]->host;
    bool is_silent = to->is_paused || !to->is_os_up ||
                     sim_net_is_blocked(sim, node->host.number, to->number) ||
                     sim_net_is_blocked(sim, to->number, node->host.number);
    node->probe_number = number;
    node->probe_id = id;
    node->probed.run = node_probed;
    sim_at(sim, &node->probed,
           sim->now_ns +
               (is_silent ? 3 * SIM_S : sim_between(sim, 1, 20) * SIM_MS));
}

static void node_probed(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = LIST_ENTRY(event, struct sim_node, probed);
    const struct sim_host *to = &sim->node[node->probe_id - 1]->host;
    struct sim_news *news = memory_new(sizeof *news);
    news->kind = NEWS_PROBED;
    news->log_index = node->probe_number;
    news->error = to->is_running && !to->is_paused ? 0 : HASP_ECONNECT;
    sim_note(sim, &node->host, "probed", node->probe_id, news->error == 0, 0);
    list_push_back(&node->host.inbox, &news->in_inbox);
    sim_host_poke(sim, &node->host);
}

static struct server_conn *find_conn(struct sim_node *node, uint64_t id)
{
    LIST_EACH (at, &node->conns) {
        struct server_conn *conn = LIST_ENTRY(at, struct server_conn, in_node);
        if (conn->id == id) {
            return conn;
        }
    }
    return NULL;
}

static struct buffer *port_client_output(void *data, uint64_t id)
{
    struct sim_node *node = data;
    sim_node_acts(node);
    struct server_conn *conn = find_conn(node, id);
    CHECK(conn != NULL && !conn->is_gone);
    return &conn->output;
}

static void port_client_close(void *data, uint64_t id, const char *reason)
{
    struct sim_node *node = data;
    struct server_conn *conn = find_conn(node, id);
    if (sim_node_acts(node) && conn != NULL) {
        sim_say(node->sim, &node->host, "closes connection %llu: %s",
                (unsigned long long)id, reason);
        conn->is_closing = true;
    }
}

static void port_client_block(void *data, uint64_t id, bool is_blocked)
{
    struct sim_node *node = data;
    struct server_conn *conn = find_conn(node, id);
    if (conn != NULL) {
        conn->is_blocked = is_blocked;
    }
}

static uint64_t port_wall_ms(void *data)
{
    (void)data;
    return UINT64_C(1800000000000);
}

static void port_random(void *data, void *out, size_t size)
{
    struct sim_node *node = data;
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)prng_next(&node->sim->prng);
    }
}

static void port_cluster_known(void *data,
                               const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    struct sim_node *node = data;
    sim_check_cluster(node->sim, node, cluster_id);
    if (sim_node_acts(node)) {
        memcpy(node->cluster_id, cluster_id, CLUSTER_ID_SIZE);
        sim_disk_know_cluster(&node->disk, cluster_id);
    }
}

static void stop_as_removed(struct sim_node *node)
{
    if (!node->is_dying) {
        sim_note(node->sim, &node->host, "is removed", 0, 0, 0);
        node->sim->stats.removed++;
        node->was_removed = true;
        if (sim_check_is_member(node->sim, node->id)) {
            sim_fail(node->sim, ORACLE_NODES,
                     "a node stops as removed only if it is: %s is a member",
                     node->host.name);
        }
    }
}

static void port_fatal(void *data, int exit_code, const char *why)
{
    struct sim_node *node = data;
    if (exit_code == CORE_EXIT_TOO_OLD) {
        sim_node_too_old(node);
    } else if (exit_code == CORE_EXIT_REMOVED) {
        stop_as_removed(node);
    } else if (!node->is_dying && !is_excused(node)) {
        sim_fail(node->sim, ORACLE_NODES,
                 "no node stops by itself: %s exits with %d: %s",
                 node->host.name, exit_code, why);
    }
    node->is_dying = true;
}

/* TLS itself is never in the simulator. */
static bool port_peer_is_proven(void *data, uint64_t id)
{
    struct sim_node *node = data;
    return sim_users_is_proven(node->sim, node->id, id);
}

static void port_access_changed(void *data)
{
    (void)data;
}

static struct core_port make_port(struct sim_node *node)
{
    return (struct core_port){
        .save_vote = sim_disk_port_save_vote,
        .log_truncate = sim_disk_port_log_truncate,
        .log_append = sim_disk_port_log_append,
        .log_trim = sim_disk_port_log_trim,
        .snapshot_take = sim_disk_port_snapshot_take,
        .snapshot_stat = sim_disk_port_snapshot_stat,
        .snapshot_read = sim_disk_port_snapshot_read,
        .snapshot_room = sim_disk_port_snapshot_room,
        .snapshot_write = sim_disk_port_snapshot_write,
        .snapshot_adopt = sim_disk_port_snapshot_adopt,
        .snapshot_install = sim_disk_port_snapshot_install,
        .peer_is_up = port_peer_is_up,
        .peer_output = port_peer_output,
        .peers_changed = port_peers_changed,
        .peer_silence_ms = port_peer_silence_ms,
        .peer_is_proven = port_peer_is_proven,
        .probe_address = port_probe_address,
        .client_output = port_client_output,
        .client_close = port_client_close,
        .client_block = port_client_block,
        .random = port_random,
        .wall_ms = port_wall_ms,
        .cluster_known = port_cluster_known,
        .access_changed = port_access_changed,
        .bar = sim_disk_port_bar,
        .unbar = sim_disk_port_unbar,
        .data_lost = sim_disk_port_data_lost,
        .fatal = port_fatal,
        .data = node,
    };
}

/* --- Life ----------------------------------------------------------------- */

void sim_node_address(uint64_t id, char address[MEMBER_ADDRESS_SIZE])
{
    snprintf(address, MEMBER_ADDRESS_SIZE, "10.0.0.%llu:7421,10.0.0.%llu:7420",
             (unsigned long long)id, (unsigned long long)id);
}

static void founders(const struct sim *sim, struct replica_members *members)
{
    members->count = sim->member_count;
    for (uint32_t i = 0; i < members->count; i++) {
        members->member[i].id = i + 1;
        members->member[i].role = MEMBER_VOTER;
        sim_node_address(i + 1, members->member[i].address);
    }
}

/* The first entry of the cluster; none if it is not this node's to write. */
static void first_entry(struct sim_node *node, struct buffer *ret_entry)
{
    struct replica_members members = {.count = 0};
    if (node->id <= node->sim->member_count && !node->was_wiped) {
        founders(node->sim, &members);
        replica_members_encode(&members, ret_entry);
    }
}

struct sim_node *sim_node_new(struct sim *sim, uint32_t number)
{
    struct sim_node *node = memory_new(sizeof *node);
    node->sim = sim;
    node->id = number + 1;
    sim_host_init(sim, &node->host, number, 'n');
    node->host.wake.run = node_wake;
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

static void free_conn(struct server_conn *conn)
{
    list_remove(&conn->in_node);
    buffer_done(&conn->input);
    buffer_done(&conn->output);
    resp_parser_done(&conn->parser);
    free(conn);
}

static void drop_process(struct sim_node *node)
{
    LIST_EACH_SAFE (at, &node->conns) {
        free_conn(LIST_ENTRY(at, struct server_conn, in_node));
    }
    sim_inbox_clear(&node->host.inbox);
    sim_peers_clear(node->peers);
    node->known.count = 0;
    core_free(node->core);
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
    drop_process(node);
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
        .accused = node->disk.accused,
        .token_base = (EPOCH_SECONDS + sim->now_ns / SIM_S) << 20,
        .election_ms = node->election_ms,
        .heartbeat_ms = node->heartbeat_ms,
        .redirect = sim->options.seed % 4 == 3 ? REDIRECT_MOVED
                                               : REDIRECT_FORWARD,
        .limits = core_default_limits,
        .version = "0.0.0",
        .feature_level = node->feature_level,
        .founds_access_required = sim->users.starts_required,
    };
    memcpy(options.cluster_id, node->cluster_id, CLUSTER_ID_SIZE);
    options.limits.snapshot_entries = 20 + sim->options.seed % 7 * 60;
    options.limits.snapshot_chunk_size = 1024;
    if (sim->options.seed % 3 != 0) {
        /* A short log: who is away for a while needs a snapshot. */
        options.limits.requests_in_flight = 40;
        options.limits.own_in_flight = 24;
    }
    if (sim->options.seed % 3 == 1) {
        /* A shorter one still. */
        options.limits.requests_in_flight = 24;
        options.limits.own_in_flight = 12;
        options.limits.snapshot_entries = 20;
    }
    if (sim->options.seed % 2 == 0) {
        /* Each node's file says something else. */
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

/* False if the process has ended by that. */
static bool open_disk(struct sim_node *node, struct bytes first,
                      struct core_start *start)
{
    char why[HASP_WHY_SIZE] = "";
    bool is_rotten = node->rots && node->was_clean &&
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
    if (!is_excused(node) && !node->disk.is_condemned &&
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
    if (node->host.is_running || node->was_removed) {
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
    struct core_port port = make_port(node);
    port.applied = sim_check_applied;
    port.heard = heard;
    node->core = core_new(&options, &port);
    node->host.is_running = true;
    node->host.is_paused = false;
    node->slow_until_ns = 0;
    node->read_ns = 0; /* The clock may have begun anew. */
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
    if (error != 0 && is_excused(node)) {
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
        drop_process(node);
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
    node->was_clean = false;
    node->rots = false;
    node->was_removed = false;
    sim_peers_configure(node->peers, members);
}

bool sim_node_is_fresh(const struct sim_node *node)
{
    return node->id > node->sim->member_count && !node->was_wiped;
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

/* --- The loop ------------------------------------------------------------- */

static void accept_client(struct sim_node *node, struct sim_wire *wire,
                          uint64_t now_ns)
{
    struct server_conn *conn = memory_new(sizeof *conn);
    conn->id = ++node->conn_count;
    conn->wire = wire;
    wire->accepted = sim_users_has_applied(node->sim, node->host.number);
    list_push_back(&node->conns, &conn->in_node);
    char address[32];
    struct identity identity = sim_identity_shown(&wire->shown);
    snprintf(address, sizeof address, "10.0.1.%u:%llu", wire->host[0],
             (unsigned long long)(40000 + wire->id % 20000));
    core_client_opened(node->core, conn->id, address, &identity, now_ns);
}

static struct server_conn *conn_of(struct sim_node *node,
                                   const struct sim_wire *wire)
{
    LIST_EACH (at, &node->conns) {
        struct server_conn *conn = LIST_ENTRY(at, struct server_conn, in_node);
        if (conn->wire == wire) {
            return conn;
        }
    }
    return NULL;
}

static void feed_client(struct sim_node *node, const struct sim_news *news,
                        uint64_t now_ns)
{
    if (news->kind == NEWS_ACCEPTED) {
        accept_client(node, news->wire, now_ns);
        return;
    }
    struct server_conn *conn = conn_of(node, news->wire);
    if (conn == NULL) {
        return;
    }
    if (news->kind == NEWS_DATA) {
        buffer_put_bytes(&conn->input, news->bytes);
    } else {
        conn->is_gone = true;
        core_client_closed(node->core, conn->id, now_ns);
    }
}

static void feed_snapshot(struct sim_node *node, const struct sim_news *news,
                          uint64_t now_ns)
{
    struct snapshot_header header = {.last_index = 0};
    if (news->error == 0) {
        header = node->disk.adopted.header;
    }
    core_snapshot_received(node->core, &header, news->error, now_ns);
}

static void feed(struct sim_node *node, const struct sim_news *news,
                 uint64_t now_ns)
{
    switch (news->kind) {
    case NEWS_DISK:
        sim_node_disk_fails(
            node, news->error != 0
                      ? news->error
                      : sim_disk_collect(&node->disk, node->core, now_ns));
        break;
    case NEWS_SNAPSHOT_TAKEN:
        core_snapshot_taken(node->core, news->log_index, news->error, now_ns);
        break;
    case NEWS_SNAPSHOT_RECEIVED:
        feed_snapshot(node, news, now_ns);
        break;
    case NEWS_PROBED:
        core_address_probed(node->core, news->log_index, news->error,
                            hasp_strerror(news->error), now_ns);
        break;
    default:
        if (news->wire->kind == WIRE_PEER) {
            sim_peers_feed(node->peers, news, now_ns);
        } else {
            feed_client(node, news, now_ns);
        }
        break;
    }
}

/* True if requests were left because the connection is blocked or this was
 * enough for one turn. */
static void feed_requests(struct sim_node *node, struct server_conn *conn,
                          uint64_t now_ns)
{
    while (!conn->is_blocked && !conn->is_closing && !conn->is_gone &&
           conn->input.size > 0 && !node->is_dying) {
        struct resp_request request;
        size_t used = 0;
        const char *why = NULL;
        int error = resp_parse(&conn->parser, buffer_bytes(&conn->input),
                               &request, &used, &why);
        if (error == HASP_EMORE) {
            return;
        }
        CHECK(error == 0);
        if (request.count > 0) {
            core_client_request(node->core, conn->id, &request, now_ns);
        }
        buffer_consume(&conn->input, used);
    }
}

/* Feeds what has arrived, all or a part of it; true if it was all. */
static bool read_all(struct sim_node *node)
{
    struct sim *sim = node->sim;
    uint64_t limit = sim_chance(sim, 0.02) ? sim_between(sim, 0, 3) : 100000;
    uint64_t now_ns = sim_host_now(sim, &node->host);
    while (!list_is_empty(&node->host.inbox) && limit > 0 && !node->is_dying) {
        struct sim_news *news = LIST_FIRST(&node->host.inbox, struct sim_news,
                                           in_inbox);
        list_remove(&news->in_inbox);
        feed(node, news, now_ns);
        sim_news_free(news);
        limit--;
        now_ns += 500;
    }
    LIST_EACH_SAFE (at, &node->conns) {
        struct server_conn *conn = LIST_ENTRY(at, struct server_conn, in_node);
        feed_requests(node, conn, now_ns);
    }
    return list_is_empty(&node->host.inbox);
}

/* Sends what the turn has put out; true if there are requests to be fed. */
static bool send_all(struct sim_node *node, uint64_t after_ns)
{
    bool has_more = false;
    sim_peers_flush(node->peers, after_ns);
    LIST_EACH_SAFE (at, &node->conns) {
        struct server_conn *conn = LIST_ENTRY(at, struct server_conn, in_node);
        if (conn->output.size > 0) {
            sim_net_send(node->sim, conn->wire, 1, buffer_bytes(&conn->output),
                         after_ns);
            buffer_clear(&conn->output);
        }
        if (conn->is_gone || conn->is_closing) {
            if (!conn->is_gone) {
                core_client_closed(node->core, conn->id,
                                   sim_host_now(node->sim, &node->host));
            }
            sim_net_close(node->sim, conn->wire, 1, after_ns);
            free_conn(conn);
            continue;
        }
        has_more |= !conn->is_blocked && conn->input.size > 0;
    }
    return has_more;
}

/* How long this turn of the loop takes. */
static uint64_t turn_duration(struct sim_node *node)
{
    struct sim *sim = node->sim;
    if (node->slow_until_ns > sim->now_ns) {
        return sim_between(sim, 50, 800) * SIM_MS;
    }
    return sim_chance(sim, 0.0005) ? sim_between(sim, 1, 50) * SIM_MS
                                   : sim_between(sim, 2, 40) * SIM_US;
}

static void end_cleanly(struct sim_node *node)
{
    struct sim *sim = node->sim;
    sim_note(sim, &node->host, "stops", 0, 0, 0);
    int error = core_flush(node->core);
    drop_process(node);
    if (error == 0) {
        error = sim_disk_stop(&node->disk);
    }
    if (error != 0 && !is_excused(node)) {
        sim_fail(sim, ORACLE_NODES, "a node that is asked to stop does: %s: %s",
                 node->host.name, hasp_strerror(error));
    }
    node->was_clean = error == 0;
    sim_disk_close(&node->disk, false);
    sim_net_host_died(sim, node->host.number, false);
    sim_check_node_stops(sim, node);
}

static void plan_next(struct sim_node *node, bool is_soon)
{
    struct sim *sim = node->sim;
    uint64_t at_ns = sim_peers_next(node->peers);
    uint64_t turn_ns = node->next_turn_ns == UINT64_MAX
                           ? UINT64_MAX
                           : sim_clock_when(&node->host.clock,
                                            node->next_turn_ns);
    at_ns = turn_ns < at_ns ? turn_ns : at_ns;
    if (is_soon || !list_is_empty(&node->host.inbox)) {
        at_ns = sim->now_ns;
    }
    if (node->stopping_until_ns != 0 && node->stopping_until_ns < at_ns) {
        at_ns = node->stopping_until_ns;
    }
    at_ns = at_ns > node->host.busy_until_ns ? at_ns : node->host.busy_until_ns;
    sim_at(sim, &node->host.wake, at_ns);
}

static void node_wake(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = LIST_ENTRY(event, struct sim_host, wake);
    struct sim_node *node = LIST_ENTRY(host, struct sim_node, host);
    CHECK(host->is_running && !host->is_paused);
    node->is_in_turn = true;
    uint64_t now_ns = sim_host_now(sim, host);
    if (read_all(node)) {
        node->read_ns = now_ns;
    }
    sim_peers_work(node->peers, now_ns);
    if (!node->is_dying) {
        node->next_turn_ns = core_turn(node->core, node->read_ns,
                                       now_ns + 1000);
    }
    node->is_in_turn = false;
    if (node->is_dying) {
        sim_node_kill(node, sim_chance(sim, 0.3));
        return;
    }
    sim_check_stepped(sim, node);
    uint64_t duration_ns = turn_duration(node);
    host->busy_until_ns = sim->now_ns + duration_ns;
    bool has_more = send_all(node, duration_ns);
    sim_node_disk_fails(node, sim_disk_start(&node->disk));
    if (node->is_dying) {
        sim_node_kill(node, false);
        return;
    }
    if (node->stopping_until_ns != 0 &&
        (core_is_quiet(node->core) || sim->now_ns >= node->stopping_until_ns)) {
        end_cleanly(node);
        return;
    }
    plan_next(node, has_more);
}
