/* SPDX-License-Identifier: MIT */

/* The port of a node's core: what it needs from outside. */

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_majority.h"
#include "tests/sim/sim_move.h"
#include "tests/sim/sim_node_parts.h"
#include "tests/sim/sim_users.h"

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

static void port_peer_drop(void *data, uint64_t id)
{
    struct sim_node *node = data;
    if (sim_node_acts(node)) {
        sim_peers_drop(node->peers, id);
    }
}

static uint64_t port_peer_silence_ms(void *data, uint64_t id)
{
    struct sim_node *node = data;
    return sim_peers_silence_ms(node->peers, id);
}

/* A connection is not refused if a network is down: it takes until the
 * timeout. */
static void port_probe_address(void *data, uint64_t number, uint64_t id,
                               const char *address)
{
    struct sim_node *node = data;
    struct sim *sim = node->sim;
    if (!sim_node_acts(node)) {
        return;
    }
    const struct sim_node *probed = sim_node_at(sim, address);
    CHECK(probed != NULL);
    const struct sim_host *to = &probed->host;
    bool is_silent = to->is_paused || !to->is_os_up ||
                     sim_net_is_blocked(sim, node->host.number, to->number) ||
                     sim_net_is_blocked(sim, to->number, node->host.number);
    node->probe_number = number;
    node->probe_id = id;
    node->probe_host = to->number;
    node->probe_port = sim_node_port_at(address);
    node->probed.run = sim_port_probed;
    sim_at(sim, &node->probed,
           sim->now_ns +
               (is_silent ? 3 * SIM_S : sim_between(sim, 1, 20) * SIM_MS));
}

void sim_port_probed(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = LIST_ENTRY(event, struct sim_node, probed);
    const struct sim_node *there = sim->node[node->probe_host];
    const struct sim_host *to = &there->host;
    struct sim_news *news = memory_new(sizeof *news);
    news->kind = NEWS_PROBED;
    news->log_index = node->probe_number;
    news->error = to->is_running && !to->is_paused &&
                          there->id == node->probe_id &&
                          sim_move_listens(sim, there, node->probe_port)
                      ? 0
                      : HASP_ECONNECT;
    if (there->core != NULL) {
        const struct replica *replica = core_replica(there->core);
        news->directory = (struct core_directory){
            .incarnation = sim_node_incarnation(there),
            .term = replica_term(replica),
            .last_index = replica_last_index(replica)};
        memcpy(news->directory.cluster_id, sim_node_cluster(there),
               CLUSTER_ID_SIZE);
    }
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

static void port_client_user(void *data, uint64_t id, uint64_t user)
{
    struct sim_node *node = data;
    struct server_conn *conn = find_conn(node, id);
    if (conn != NULL) {
        sim_turn_set_user(conn, user);
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
        if (sim_check_is_member(node->sim, node)) {
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
    } else if (!node->is_dying && !sim_node_is_excused(node)) {
        sim_fail(node->sim, ORACLE_NODES,
                 "no node stops by itself: %s exits with %d: %s",
                 node->host.name, exit_code, why);
    }
    node->is_dying = true;
}

/* TLS itself is not simulated. */
static bool port_peer_is_proven(void *data, uint64_t id)
{
    struct sim_node *node = data;
    return sim_users_is_proven(node->sim, node->id, id);
}

static void port_access_changed(void *data)
{
    (void)data;
}

struct core_port sim_port_of(struct sim_node *node)
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
        .peer_drop = port_peer_drop,
        .peer_silence_ms = port_peer_silence_ms,
        .peer_is_proven = port_peer_is_proven,
        .probe_address = port_probe_address,
        .client_output = port_client_output,
        .client_close = port_client_close,
        .client_block = port_client_block,
        .client_user = port_client_user,
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
