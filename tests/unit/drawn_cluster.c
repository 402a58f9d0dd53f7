/* SPDX-License-Identifier: MIT */

#include "tests/unit/drawn_cluster.h"

#include <string.h>

#include "tests/unit/core_world.h"
#include "tests/unit/drawn_http.h"

#define NODES 3
#define CLIENTS 8
#define VALUE_COUNT_MAX 200000

struct cluster {
    const struct choice *choice;
    struct world *world;
    struct drawn_heard heard;
    struct drawn_request request;
    struct drawn_http http[NODES + 1]; /* One for each node that runs. */
    struct drawn_count *count;
    uint64_t leader;        /* The newest. */
    bool is_cut[NODES + 1]; /* From all others. */
};

static uint32_t below(struct cluster *cluster, uint32_t bound)
{
    return cluster->choice->below(cluster->choice->data, bound);
}

static uint64_t draw_node(struct cluster *cluster)
{
    return 1 + below(cluster, NODES);
}

static uint64_t node_of(uint64_t conn)
{
    return 1 + conn % NODES;
}

static struct world_node *at(struct cluster *cluster, uint64_t id)
{
    return &cluster->world->node[id];
}

/* --- HTTP ----------------------------------------------------------------- */

static struct core *http_core(void *data)
{
    return ((struct world_node *)data)->core;
}

static uint64_t http_now(void *data)
{
    return node_now(data);
}

static void http_wake(void *data)
{
    struct world_node *node = data;
    node->next_turn_ms = node->world->now_ms;
}

static struct gateway *gateway_of(const struct world_node *node, uint64_t conn)
{
    struct drawn_http *http = node->far;
    return (conn & GATEWAY_CONN_CONSUL) != 0 ? &http->consul : &http->gateway;
}

static struct buffer *port_output(void *data, uint64_t conn)
{
    struct world_node *node = data;
    return conn < CONN_MAX ? &node->client[conn].output
                           : gateway_output(gateway_of(node, conn), conn);
}

static void port_close(void *data, uint64_t conn, const char *reason)
{
    struct world_node *node = data;
    (void)reason;
    if (conn < CONN_MAX) {
        node->client[conn].was_closed = true;
    } else {
        gateway_close(gateway_of(node, conn), conn);
    }
}

static void port_block(void *data, uint64_t conn, bool is_blocked)
{
    struct world_node *node = data;
    if (conn < CONN_MAX) {
        node->client[conn].is_blocked = is_blocked;
    }
}

static void port_peers(void *data, const struct replica_members *members)
{
    struct world_node *node = data;
    for (uint64_t id = 1; id <= NODE_MAX; id++) {
        node->is_unnamed[id] = members->count > 0 &&
                               replica_members_find(members, id) == NULL;
    }
}

static void adapt(struct core_port *port)
{
    port->client_output = port_output;
    port->client_close = port_close;
    port->client_block = port_block;
    port->peers_changed = port_peers;
}

static void open_http(struct cluster *cluster, uint64_t id)
{
    struct world_node *node = at(cluster, id);
    struct gateway_port port = {
        .core = http_core, .now_ns = http_now, .wake = http_wake, .data = node};
    node->far = &cluster->http[id];
    drawn_http_open(&cluster->http[id], &port);
}

static void send_http(struct cluster *cluster, uint64_t id)
{
    struct world_node *node = at(cluster, id);
    if (node->core != NULL && !node->is_paused &&
        drawn_http_send(&cluster->http[id], cluster->choice, &cluster->heard)) {
        cluster->count->http++;
    }
}

/* --- Clients -------------------------------------------------------------- */

static void open_client(struct cluster *cluster, uint64_t conn)
{
    static const uint8_t fingerprint[FINGERPRINT_SIZE] = {1};
    struct identity identity = {.way = IDENTITY_NONE, .is_private = true};
    if (conn == 2 || conn == 4) {
        identity.way = IDENTITY_CERTIFICATE;
        identity.user = "u";
        identity.fingerprint = fingerprint;
    } else if (conn == 3) {
        identity.way = IDENTITY_LOCAL;
    }
    client_open_as(cluster->world, node_of(conn), conn, &identity);
}

/* The output is whole replies and pushes. */
static void read_output(struct cluster *cluster, uint64_t conn)
{
    struct buffer *out = &at(cluster, node_of(conn))->client[conn].output;
    struct bytes output = buffer_bytes(out);
    struct resp_reply reply = {0};
    drawn_hear(&cluster->heard, output);
    while (output.size > 0) {
        size_t used;
        CHECK(resp_parse_reply(output, VALUE_COUNT_MAX, &reply, &used) == 0);
        CHECK(used > 0 && used <= output.size);
        cluster->count->errors += output.data[0] == '-';
        output = bytes_of(output.data + used, output.size - used);
    }
    resp_reply_done(&reply);
    buffer_clear(out);
}

/* A connection that the core closed is opened again. */
static void look_after(struct cluster *cluster)
{
    for (uint64_t id = 1; id <= NODES; id++) {
        struct world_node *node = at(cluster, id);
        if (node->core != NULL && !node->is_paused) {
            drawn_http_look_after(&cluster->http[id], node_now(node),
                                  cluster->choice);
        }
    }
    for (uint64_t conn = 0; conn < CLIENTS; conn++) {
        struct world_node *node = at(cluster, node_of(conn));
        if (node->core == NULL) {
            continue;
        }
        read_output(cluster, conn);
        if (node->client[conn].was_closed) {
            node->client[conn].was_closed = false;
            client_close(cluster->world, node->id, conn);
            open_client(cluster, conn);
        }
    }
}

static void send_drawn(struct cluster *cluster, uint64_t conn)
{
    struct world_node *node = at(cluster, node_of(conn));
    const struct drawn_request *request = &cluster->request;
    struct world_client *client = &node->client[conn];
    drawn_request(cluster->choice, &cluster->heard, &cluster->request);
    if (node->core == NULL || node->is_paused || client->was_closed) {
        return;
    }
    cluster->count->requests++;
    cluster->count->scripts += bytes_is_word(request->word[0], "EVAL");
    resp_request_begin(&client->waiting, request->count);
    for (uint32_t i = 0; i < request->count; i++) {
        resp_request_argument(&client->waiting, request->word[i]);
    }
    client_feed(node, conn);
}

/* --- What goes wrong ------------------------------------------------------ */

static void start(struct cluster *cluster, uint64_t id)
{
    node_start(cluster->world, id);
    open_http(cluster, id);
    links_update(cluster->world);
    for (uint64_t conn = 0; conn < CLIENTS; conn++) {
        if (node_of(conn) == id) {
            open_client(cluster, conn);
        }
    }
}

static void node_dies(struct cluster *cluster, uint64_t id)
{
    struct world_node *node = at(cluster, id);
    if (node->core != NULL) {
        look_after(cluster);
        drawn_http_close(&cluster->http[id]);
        node_kill(cluster->world, id);
        node->is_paused = node->is_disk_stuck = false;
        node->fatal_code = 0;
    }
}

static void break_something(struct cluster *cluster)
{
    uint64_t leader = world_leader(cluster->world);
    uint64_t id = leader != 0 && below(cluster, 2) == 0 ? leader
                                                        : draw_node(cluster);
    struct world_node *node = at(cluster, id);
    switch (below(cluster, 5)) {
    case 0:
        node_dies(cluster, id);
        return;
    case 1:
        cluster->is_cut[id] = !cluster->is_cut[id];
        world_cut(cluster->world, id, cluster->is_cut[id]);
        return;
    case 2:
        node->is_disk_stuck = node->core != NULL && !node->is_disk_stuck;
        return;
    case 3:
        node->is_paused = node->core != NULL && !node->is_paused;
        return;
    default:
        if (node->core != NULL && !node->is_paused) {
            uint64_t conn = below(cluster, CLIENTS);
            id = node_of(conn);
            if (at(cluster, id)->core != NULL && !at(cluster, id)->is_paused) {
                read_output(cluster, conn);
                client_close(cluster->world, id, conn);
                open_client(cluster, conn);
            }
        }
    }
}

/* Each node runs and is reachable, unless it was asked to leave. */
static void mend(struct cluster *cluster)
{
    for (uint64_t id = 1; id <= NODES; id++) {
        struct world_node *node = at(cluster, id);
        node->is_paused = node->is_disk_stuck = false;
        if (node->core == NULL) {
            start(cluster, id);
        }
        cluster->is_cut[id] = false;
        world_cut(cluster->world, id, false);
    }
}

static void run(struct cluster *cluster, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        world_run(cluster->world, 1);
        for (uint64_t id = 1; id <= NODES; id++) {
            if (at(cluster, id)->fatal_code != 0) {
                node_dies(cluster, id);
            }
        }
    }
    uint64_t leader = world_leader(cluster->world);
    if (leader != 0 && leader != cluster->leader) {
        cluster->count->leaders++;
        cluster->leader = leader;
    }
    look_after(cluster);
}

static void take_step(struct cluster *cluster)
{
    uint32_t step = below(cluster, 100);
    if (step < 60) {
        send_drawn(cluster, below(cluster, CLIENTS));
    } else if (step < 68) {
        send_http(cluster, draw_node(cluster));
    } else if (step < 92) {
        run(cluster, below(cluster, 6));
    } else if (step < 95) {
        run(cluster, 20 + 20 * below(cluster, 16));
    } else if (step < 98) {
        break_something(cluster);
    } else {
        mend(cluster);
        run(cluster, 300);
    }
}

void drawn_cluster(const struct choice *choice, uint32_t steps,
                   bool (*has_more)(void *data), struct drawn_count *count)
{
    struct cluster *cluster = memory_new(sizeof *cluster);
    struct world *world = world_new(NODES);
    cluster->choice = choice;
    cluster->world = world;
    cluster->count = count;
    world->drops_unnamed = true;
    world->adapt = adapt;
    world->allows_no_ttl = below(cluster, 3) == 0;
    for (uint64_t id = 1; id <= NODES; id++) {
        world->node[id].far = &cluster->http[id];
    }
    world_found(world);
    (void)world_elect(world);
    for (uint64_t id = 1; id <= NODES; id++) {
        world->node[id].may_fail = true; /* It stops when asked to leave. */
        open_http(cluster, id);
    }
    for (uint64_t conn = 0; conn < CLIENTS; conn++) {
        open_client(cluster, conn);
    }
    for (uint32_t i = 0; i < steps && has_more(choice->data); i++) {
        take_step(cluster);
    }
    mend(cluster);
    run(cluster, 1000);
    for (uint64_t id = 1; id <= NODES; id++) {
        if (world->node[id].core != NULL) {
            drawn_http_close(&cluster->http[id]);
        }
    }
    world_free(world);
    free(cluster);
}
