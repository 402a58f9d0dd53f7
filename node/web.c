/* SPDX-License-Identifier: MIT */

/* Opens net/http for the gateway, and connects it to the node. */

#include "node/web.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/check.h"
#include "net/http.h"
#include "net/stream.h"
#include "node/node.h"

#define CONNECTION_LEAST 16

static struct core *port_core(void *data)
{
    struct hasp_node *node = data;
    return node->has_begun && !turn_is_over(&node->turn) ? node->core : NULL;
}

static uint64_t port_now(void *data)
{
    struct hasp_node *node = data;
    return turn_at_work(&node->turn);
}

static void port_wake(void *data)
{
    struct hasp_node *node = data;
    turn_wake(&node->turn);
}

static void port_monitor(void *data, const char *path, struct http_reply *reply)
{
    struct hasp_node *node = data;
    monitor_answer(&node->monitor, path, reply);
}

void web_init(struct web *web, struct hasp_node *node)
{
    struct gateway_port port = {.core = port_core,
                                .now_ns = port_now,
                                .wake = port_wake,
                                .monitor = port_monitor,
                                .account = &node->turn.account,
                                .data = node};
    *web = (struct web){.node = node};
    gateway_open(&web->gateway, &port, node->options.http_names,
                 node->options.http_api);
    const char *datacenter = node->options.consul_datacenter;
    struct gateway_consul consul = {
        .datacenter = datacenter != NULL ? datacenter : "dc1",
        .is_durable = node->options.consul_no_ttl_is_durable};
    gateway_open_consul(&web->consul_gateway, &port, node->options.http_names,
                        &consul);
    web->gateway.fleetlock = node->options.http_fleetlock;
    web->gateway.guards_metrics = node->options.tls_http != HASP_NODE_TLS_OFF &&
                                  !node->options.tls_opens_metrics;
}

/* The number of connections allowed if each needs 'files_each' descriptors. */
static uint32_t most_connections(uint32_t files_each, uint32_t max)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur / 8 / files_each >= max) {
        return max;
    }
    uint32_t count = (uint32_t)(files.rlim_cur / 8 / files_each);
    return count > CONNECTION_LEAST ? count : CONNECTION_LEAST;
}

/* With TLS an HTTP connection needs three descriptors: its own and a pair to
 * the library. */
static uint32_t files_each(const struct hasp_node *node)
{
    return node->options.tls_http != HASP_NODE_TLS_OFF ? 3 : 1;
}

static int web_listen(struct hasp_node *node, const char *address,
                      const struct http_limits *limits, struct gateway *gateway,
                      struct http **ret_http, char why[HASP_WHY_SIZE])
{
    char host[128];
    uint16_t port;
    struct http_handler handler = {.on_head = gateway_head,
                                   .on_request = gateway_request,
                                   .on_end = gateway_end,
                                   .data = gateway};
    CHECK(*ret_http == NULL);
    int rv = address_split(address, host, sizeof host, &port);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "'%s' is not an address", address);
        return rv;
    }
    return http_open(&node->uv, host, port, limits, &handler,
                     node->certificates.now.web, ret_http, why);
}

int web_open(struct web *web, const char *address, char why[HASP_WHY_SIZE])
{
    struct hasp_node *node = web->node;
    uint32_t connections = most_connections(files_each(node),
                                            WEB_CONNECTION_MAX);
    struct http_limits limits = {.connections = connections,
                                 .per_address = connections / 4,
                                 .body_size = node->options.limits.request_size,
                                 .unread = WEB_UNREAD_MAX,
                                 .unread_per_address = WEB_UNREAD_MAX / 4,
                                 .account = &node->turn.account};
    return web_listen(node, address, &limits, &web->gateway, &web->http, why);
}

int web_open_consul(struct web *web, const char *address,
                    char why[HASP_WHY_SIZE])
{
    struct hasp_node *node = web->node;
    uint32_t connections = most_connections(files_each(node), WEB_CONSUL_MAX);
    /* All waiters may come from one address, behind a translation of
     * addresses. */
    struct http_limits limits = {.connections = connections,
                                 .per_address = connections,
                                 .body_size = node->options.limits.request_size,
                                 .unread = WEB_UNREAD_MAX,
                                 .unread_per_address = WEB_UNREAD_MAX / 4,
                                 .account = &node->turn.account,
                                 .is_plain = true};
    web->consul_gateway.consul.waits_max = connections / 4 * 3;
    return web_listen(node, address, &limits, &web->consul_gateway,
                      &web->consul, why);
}

bool web_is_loopback(const struct web *web)
{
    return (web->http == NULL || http_is_loopback(web->http)) &&
           (web->consul == NULL || http_is_loopback(web->consul));
}

void web_close(struct web *web)
{
    if (web->http != NULL) {
        http_close(web->http);
        web->http = NULL;
    }
    if (web->consul != NULL) {
        http_close(web->consul);
        web->consul = NULL;
    }
}

void web_done(struct web *web)
{
    /* An open server would pass requests to the gateway. */
    CHECK(web->http == NULL && web->consul == NULL);
    gateway_done(&web->gateway);
    gateway_done(&web->consul_gateway);
}

void web_flush(struct web *web)
{
    if (web->http != NULL) {
        gateway_flush(&web->gateway);
        http_flush(web->http);
    }
    if (web->consul != NULL) {
        gateway_flush(&web->consul_gateway);
        http_flush(web->consul);
    }
}

uint64_t web_due(const struct web *web)
{
    return gateway_due(&web->consul_gateway);
}

void web_tick(struct web *web, uint64_t now_ns)
{
    if (web->http != NULL) {
        gateway_tick(&web->gateway, now_ns);
    }
    if (web->consul != NULL) {
        gateway_tick(&web->consul_gateway, now_ns);
    }
}

static struct gateway *web_gateway_of(struct hasp_node *node, uint64_t conn)
{
    return (conn & GATEWAY_CONN_CONSUL) != 0 ? &node->web.consul_gateway
                                             : &node->web.gateway;
}

struct buffer *web_port_output(void *data, uint64_t conn)
{
    return (conn & GATEWAY_CONN) != 0
               ? gateway_output(web_gateway_of(data, conn), conn)
               : clients_port_output(data, conn);
}

void web_port_close(void *data, uint64_t conn, const char *reason)
{
    if ((conn & GATEWAY_CONN) != 0) {
        gateway_close(web_gateway_of(data, conn), conn);
    } else {
        clients_port_close(data, conn, reason);
    }
}

/* An exchange of HTTP sends one command at a time anyway, so there is nothing
 * to block. */
void web_port_block(void *data, uint64_t conn, bool is_blocked)
{
    if ((conn & GATEWAY_CONN) == 0) {
        clients_port_block(data, conn, is_blocked);
    }
}

void web_port_user(void *data, uint64_t conn, uint64_t user)
{
    if ((conn & GATEWAY_CONN) == 0) {
        clients_port_user(data, conn, user);
    }
}
