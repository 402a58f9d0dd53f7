/* SPDX-License-Identifier: MIT */

#include "tests/unit/gateway_world.h"

struct gateway gateway;

static struct core *port_core(void *data)
{
    return ((struct world_node *)data)->core;
}

static uint64_t port_now(void *data)
{
    return node_now(data);
}

static void port_wake(void *data)
{
    struct world_node *node = data;
    node->next_turn_ms = node->world->now_ms;
}

static struct buffer *port_output(void *data, uint64_t conn)
{
    struct world_node *node = data;
    return conn < CONN_MAX ? &node->client[conn].output
                           : gateway_output(&gateway, conn);
}

static void port_close(void *data, uint64_t conn, const char *reason)
{
    (void)data, (void)reason;
    if (conn >= CONN_MAX) {
        gateway_close(&gateway, conn);
    }
}

static void port_block(void *data, uint64_t conn, bool is_blocked)
{
    struct world_node *node = data;
    if (conn < CONN_MAX) {
        node->client[conn].is_blocked = is_blocked;
    }
}

static void adapt(struct core_port *port)
{
    port->client_output = port_output;
    port->client_close = port_close;
    port->client_block = port_block;
}

struct gateway_port gateway_world_new(void)
{
    world = world_new(1);
    world->adapt = adapt;
    world_found(world);
    world_elect(world);
    return (struct gateway_port){.core = port_core,
                                 .now_ns = port_now,
                                 .wake = port_wake,
                                 .data = &world->node[1]};
}

void gateway_world_run_ms(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        world_run(world, 1);
        gateway_flush(&gateway);
    }
}
