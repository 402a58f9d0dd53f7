/* SPDX-License-Identifier: MIT */

/* The loop around a node's core: reads what has arrived, feeds it, lets the
 * core take its turn, sends and writes the output. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "lockfsm/user/access.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_flood.h"
#include "tests/sim/sim_node_parts.h"
#include "tests/sim/sim_users.h"

static bool serve(struct account_claim *claim);

void sim_turn_free_conn(struct server_conn *conn)
{
    account_leave(&conn->node->account, &conn->claim);
    list_remove(&conn->in_node);
    buffer_done(&conn->input);
    buffer_done(&conn->output);
    resp_parser_done(&conn->parser);
    free(conn);
}

static void accept_client(struct sim_node *node, struct sim_wire *wire,
                          uint64_t now_ns)
{
    struct server_conn *conn = memory_new(sizeof *conn);
    conn->node = node;
    conn->id = ++node->conn_count;
    conn->wire = wire;
    wire->accepted = sim_users_has_applied(node->sim, node->host.number);
    list_push_back(&node->conns, &conn->in_node);
    char address[32];
    struct identity identity = sim_identity_shown(&wire->shown);
    snprintf(address, sizeof address, "10.0.1.%u:%llu", wire->host[0],
             (unsigned long long)(40000 + wire->id % 20000));
    sim_turn_set_user(conn, USER_ANYONE);
    core_client_opened(node->core, conn->id, address, &identity, now_ns);
}

uint64_t sim_turn_units(const struct sim *sim)
{
    static const uint64_t units[] = {2000, 5, 40, 2000, 12};
    return units[sim->options.seed % (sizeof units / sizeof *units)];
}

void sim_turn_set_user(struct server_conn *conn, uint64_t user)
{
    char origin[32];
    snprintf(origin, sizeof origin, "10.0.1.%u", conn->wire->host[0]);
    account_join(&conn->node->account, &conn->claim,
                 user != USER_ANYONE ? account_key_of_user(user)
                                     : account_key_of_origin(origin),
                 serve);
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
                            &news->directory, hasp_strerror(news->error),
                            now_ns);
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

static bool is_held_back(const struct server_conn *conn)
{
    return conn->is_blocked || conn->is_closing || conn->is_gone ||
           conn->node->is_dying;
}

/* Feeds one request; false if there is none. */
static bool feed_request(struct server_conn *conn, uint64_t now_ns)
{
    struct sim_node *node = conn->node;
    struct resp_request request;
    size_t used = 0;
    const char *why = NULL;
    if (is_held_back(conn) || conn->input.size == 0) {
        return false;
    }
    int error = resp_parse(&conn->parser, buffer_bytes(&conn->input), &request,
                           &used, &why);
    if (error == HASP_EMORE) {
        return false;
    }
    CHECK(error == 0);
    if (request.count > 0) {
        core_client_request(node->core, conn->id, &request, now_ns);
    }
    buffer_consume(&conn->input, used);
    return true;
}

static bool serve(struct account_claim *claim)
{
    struct server_conn *conn = LIST_ENTRY(claim, struct server_conn, claim);
    uint64_t now_ns = sim_host_now(conn->node->sim, &conn->node->host);
    return feed_request(conn, now_ns) && !is_held_back(conn) &&
           conn->input.size > 0;
}

/* As node/clients.c: while the account lasts, and then in turn. */
static void feed_requests(struct sim_node *node, struct server_conn *conn,
                          uint64_t now_ns)
{
    struct account *account = &node->account;
    account_start(account);
    while (account_is_open(account) && feed_request(conn, now_ns)) {
        account_charge(account, &conn->claim);
    }
    if (!account_is_open(account) && !is_held_back(conn) &&
        conn->input.size > 0) {
        account_rest(account, &conn->claim);
    }
}

/* Feeds everything that has arrived, or a part of it; true if it was
 * everything. */
static bool read_all(struct sim_node *node)
{
    struct sim *sim = node->sim;
    uint64_t limit = sim_chance(sim, 0.02) ? sim_between(sim, 0, 3) : 100000;
    uint64_t now_ns = sim_host_now(sim, &node->host);
    account_begin(&node->account, node->read_ns);
    node->began_left = node->account.left;
    while (!list_is_empty(&node->host.inbox) && limit > 0 && !node->is_dying) {
        struct sim_news *news = LIST_FIRST(&node->host.inbox, struct sim_news,
                                           in_inbox);
        list_remove(&news->in_inbox);
        account_start(&node->account);
        feed(node, news, now_ns);
        account_charge(&node->account, NULL);
        sim_news_free(news);
        limit--;
        now_ns += 500;
    }
    LIST_EACH_SAFE (at, &node->conns) {
        struct server_conn *conn = LIST_ENTRY(at, struct server_conn, in_node);
        feed_requests(node, conn, now_ns);
    }
    if (!node->is_dying) {
        account_serve(&node->account, now_ns);
    }
    return list_is_empty(&node->host.inbox);
}

/* Sends the output of the turn; true if there are requests to be fed. */
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
            sim_turn_free_conn(conn);
            continue;
        }
        has_more |= !conn->is_blocked && conn->input.size > 0;
    }
    return has_more || account_has_resting(&node->account);
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

/* In a flood the work that this turn has done for clients takes time. */
static uint64_t flood_duration(const struct sim_node *node)
{
    int64_t spent = node->began_left - node->account.left;
    return sim_flood_turn_ns(node->sim, spent > 0 ? (uint64_t)spent : 0);
}

static void end_cleanly(struct sim_node *node)
{
    struct sim *sim = node->sim;
    sim_note(sim, &node->host, "stops", 0, 0, 0);
    int error = core_flush(node->core);
    sim_node_drop_process(node);
    if (error == 0) {
        error = sim_disk_stop(&node->disk);
    }
    if (error != 0 && !sim_node_is_excused(node)) {
        sim_fail(sim, ORACLE_NODES, "a node stops on request: %s: %s",
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

void sim_turn_wake(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = LIST_ENTRY(event, struct sim_host, wake);
    struct sim_node *node = LIST_ENTRY(host, struct sim_node, host);
    CHECK(host->is_running && !host->is_paused);
    node->is_in_turn = true;
    uint64_t now_ns = sim_host_now(sim, host);
    if (read_all(node)) {
        node->taken_ns = now_ns;
    }
    node->read_ns = u64_min(node->taken_ns, account_waiting_ns(&node->account));
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
    uint64_t duration_ns = turn_duration(node) + flood_duration(node);
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
