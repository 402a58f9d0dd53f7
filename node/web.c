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
    web->gateway.fleetlock = node->options.http_fleetlock;
    web->gateway.guards_metrics = node->options.tls_http != HASP_NODE_TLS_OFF &&
                                  !node->options.tls_opens_metrics;
}

/* The number of connections allowed if each needs 'files_each' descriptors. */
static uint32_t most_connections(uint32_t files_each)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur / 8 / files_each >= WEB_CONNECTION_MAX) {
        return WEB_CONNECTION_MAX;
    }
    uint32_t count = (uint32_t)(files.rlim_cur / 8 / files_each);
    return count > CONNECTION_LEAST ? count : CONNECTION_LEAST;
}

int web_open(struct web *web, const char *address, char why[HASP_WHY_SIZE])
{
    char host[128];
    uint16_t port;
    struct hasp_node *node = web->node;
    bool is_secure = node->options.tls_http != HASP_NODE_TLS_OFF;
    uint32_t connections = most_connections(is_secure ? 3 : 1);
    CHECK(web->http == NULL);
    /* With TLS an HTTP connection needs three descriptors: its own and a pair
     * to the library. */
    struct http_limits limits = {.connections = connections,
                                 .per_address = connections / 4,
                                 .body_size = node->options.limits.request_size,
                                 .unread = WEB_UNREAD_MAX,
                                 .unread_per_address = WEB_UNREAD_MAX / 4,
                                 .account = &node->turn.account};
    struct http_handler handler = {.on_head = gateway_head,
                                   .on_request = gateway_request,
                                   .on_end = gateway_end,
                                   .data = &web->gateway};
    int rv = address_split(address, host, sizeof host, &port);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "'%s' is not an address", address);
        return rv;
    }
    return http_open(&node->uv, host, port, &limits, &handler,
                     node->certificates.now.web, &web->http, why);
}

void web_close(struct web *web)
{
    if (web->http != NULL) {
        http_close(web->http);
        web->http = NULL;
    }
}

void web_done(struct web *web)
{
    /* An open server would pass requests to the gateway. */
    CHECK(web->http == NULL);
    gateway_done(&web->gateway);
}

void web_flush(struct web *web)
{
    if (web->http != NULL) {
        gateway_flush(&web->gateway);
        http_flush(web->http);
    }
}

void web_tick(struct web *web, uint64_t now_ns)
{
    if (web->http != NULL) {
        gateway_tick(&web->gateway, now_ns);
    }
}

struct buffer *web_port_output(void *data, uint64_t conn)
{
    struct hasp_node *node = data;
    return (conn & GATEWAY_CONN) != 0 ? gateway_output(&node->web.gateway, conn)
                                      : clients_port_output(data, conn);
}

void web_port_close(void *data, uint64_t conn, const char *reason)
{
    struct hasp_node *node = data;
    if ((conn & GATEWAY_CONN) != 0) {
        gateway_close(&node->web.gateway, conn);
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
