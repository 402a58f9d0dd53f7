/* SPDX-License-Identifier: MIT */

/* The HTTP side of a node: the gateway for clients (http/gateway.h) and what
 * the node tells about itself (node/monitor.h), on one port.
 *
 * Its connections take at most an eighth of the descriptors that the process
 * may open, and WEB_CONNECTION_MAX. */

#ifndef HASP_NODE_WEB_H
#define HASP_NODE_WEB_H

#include "base/err.h"
#include "http/gateway.h"

#define WEB_CONNECTION_MAX 1024
/* Bytes of answers and streams that clients leave unread; a quarter of them for
 * one address. */
#define WEB_UNREAD_MAX ((size_t)64 << 20)

struct hasp_node;
struct http;

struct web {
    struct hasp_node *node;
    struct http *http; /* NULL: no HTTP. */
    struct gateway gateway;
};

/* Before anything else of it is called. */
void web_init(struct web *web, struct hasp_node *node);
/* Listens on 'address'. */
MUST_CHECK int web_open(struct web *web, const char *address,
                        char why[HASP_WHY_SIZE]);
/* No connections from now on; the memory goes when the loop has turned once
 * more, and with web_done(). */
void web_close(struct web *web);
void web_done(struct web *web);
/* The end of a turn: what was answered is sent. */
void web_flush(struct web *web);
/* Once a second. */
void web_tick(struct web *web, uint64_t now_ns);

/* Of struct core_port; 'data' is the node. Connections of clients are not ours:
 * they are handed on. */
struct buffer *web_port_output(void *data, uint64_t conn);
void web_port_close(void *data, uint64_t conn, const char *reason);
void web_port_block(void *data, uint64_t conn, bool is_blocked);
void web_port_user(void *data, uint64_t conn, uint64_t user);

#endif /* HASP_NODE_WEB_H */
