/* SPDX-License-Identifier: MIT */

/* The HTTP side of a node, on the node's own loop: GET and HEAD of a few paths
 * (/healthz, /readyz, /metrics), each answered at once from memory by a
 * handler.
 *
 * libmicrohttpd parses and writes; its epoll descriptor is polled by our loop,
 * and we accept. Limits: 64 connections, 16 of one address (of IPv6: one /64),
 * 16 KiB of request head, 5 s for it to be whole, 10 s of silence. At a limit
 * the oldest connection without a whole head makes room, or else the oldest:
 * whoever asks at once is always answered. No TLS here, no request bodies (POST
 * and the like are refused).
 * Threads: the loop's. */

#ifndef HASP_NET_HTTP_H
#define HASP_NET_HTTP_H

#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"

struct http;

struct http_reply {
    unsigned status;          /* 404 unless the handler sets it. */
    const char *content_type; /* Static text; "text/plain" unless set. */
    struct buffer body;       /* Empty at first; taken over. */
};

/* Answers a GET of 'path' (without its query). May call http_close(). */
typedef void http_handler_fn(void *data, const char *path,
                             struct http_reply *reply);

/* Listens on 'host':'port' (port 0: any; http_port() tells). Errors with a
 * message. */
MUST_CHECK int http_open(uv_loop_t *loop, const char *host, uint16_t port,
                         http_handler_fn *handler, void *data,
                         struct http **ret_http, char why[HASP_WHY_SIZE]);
uint16_t http_port(const struct http *http);
/* Closes the port and all connections; 'closed' (may be NULL) is called when
 * the memory has gone. */
void http_close(struct http *http, void (*closed)(void *data), void *data);

#endif /* HASP_NET_HTTP_H */
