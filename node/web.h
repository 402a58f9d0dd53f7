/* SPDX-License-Identifier: MIT */

/* The HTTP ports of a node: the gateway for clients (http/gateway.h), with the
 * node's health and metrics (node/monitor.h), and the one for clients of
 * Consul.
 *
 * Connections are limited to WEB_CONNECTION_MAX, and to an eighth of the
 * descriptors that the process can open. */

#ifndef HASP_NODE_WEB_H
#define HASP_NODE_WEB_H

#include "base/err.h"
#include "http/gateway.h"

#define WEB_CONNECTION_MAX 1024
/* Bytes of answers and streams that clients have not read; one address may have
 * a quarter of them. */
#define WEB_UNREAD_MAX ((size_t)64 << 20)
/* Connections of clients of Consul, which wait for answers, if there are enough
 * descriptors; three quarters of them can wait at once. */
#define WEB_CONSUL_MAX 4096

struct hasp_node;
struct http;

struct web {
    struct hasp_node *node;
    struct http *http; /* NULL: no HTTP. */
    struct gateway gateway;
    struct http *consul; /* NULL: no port for Consul's clients. */
    struct gateway consul_gateway;
};

/* Call it first. */
void web_init(struct web *web, struct hasp_node *node);
/* Listens on 'address'. */
MUST_CHECK int web_open(struct web *web, const char *address,
                        char why[HASP_WHY_SIZE]);
MUST_CHECK int web_open_consul(struct web *web, const char *address,
                               char why[HASP_WHY_SIZE]);
/* True if no other machine can reach its ports. */
bool web_is_loopback(const struct web *web);
/* Closes all connections; the memory is freed when the loop has run once more,
 * and by web_done(). */
void web_close(struct web *web);
void web_done(struct web *web);
/* At the end of a turn: sends the answers. */
void web_flush(struct web *web);
/* When web_flush() is due; UINT64_MAX: after the next turn. */
uint64_t web_due(const struct web *web);
/* Once a second. */
void web_tick(struct web *web, uint64_t now_ns);

/* For struct core_port; 'data' is the node. Connections that are not HTTP are
 * passed to node/clients.h. */
struct buffer *web_port_output(void *data, uint64_t conn);
void web_port_close(void *data, uint64_t conn, const char *reason);
void web_port_block(void *data, uint64_t conn, bool is_blocked);
void web_port_user(void *data, uint64_t conn, uint64_t user);

#endif /* HASP_NODE_WEB_H */
