/* SPDX-License-Identifier: MIT */

/* TLS in front of libmicrohttpd. Only for net/http.c.
 *
 * An accepted connection uses net/stream with TLS towards its client, like all
 * others, and a plain pair of sockets towards the library:
 *
 *     client --TLS-- outer | inner --socketpair-- libmicrohttpd
 *
 * So there is one implementation of TLS with one set of limits, and the library
 * needs none. The pair is made after the handshake. Bytes are forwarded in both
 * directions, with back-pressure within limits. If the client disconnects, the
 * library's end is closed; when the library closes, its last answer is still
 * sent to the client. Each connection needs three descriptors. Threads: the
 * loop's. */

#ifndef HASP_NET_HTTP_TLS_BRIDGE_H
#define HASP_NET_HTTP_TLS_BRIDGE_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "net/tls.h"

/* Unsent bytes in each direction of a connection at which the sender waits. */
#define HTTP_TLS_BRIDGE_UNSENT_MAX (64u << 10)

struct account;
struct http_tls_bridge;

struct http_tls_bridge_events {
    /* A connection from 'origin' (net/stream.h) arrives: make room among those
     * that have joined. */
    void (*make_room)(void *data, const char *origin);
    /* A handshake is complete: the library takes over 'fd' and closes it. */
    void (*joined)(void *data, int fd);
    /* A TLS handshake has failed. */
    void (*failed)(void *data, const char *address, const char *reason);
    void *data;
    /* Handshakes are charged to their origins; NULL: no account. */
    struct account *account;
};

/* Accepts on the bound socket 'fd', and closes it at the end. At most
 * 'connections' in all, and 'per_origin' from one origin, can be in their
 * handshakes: beyond, the oldest is closed. */
struct http_tls_bridge *
http_tls_bridge_open(uv_loop_t *loop, int fd, uint32_t connections,
                     uint32_t per_origin, struct tls_context *context,
                     const struct http_tls_bridge_events *events);
/* Sets the context for future connections. */
void http_tls_bridge_use_tls(struct http_tls_bridge *front,
                             struct tls_context *context);
/* The client's address and identity for a descriptor of the library, while that
 * is open. */
const char *http_tls_bridge_address(const struct http_tls_bridge *front,
                                    int fd);
const struct tls_identity *
http_tls_bridge_identity(const struct http_tls_bridge *front, int fd);
/* Closes all; 'closed' is called when the memory is freed. */
void http_tls_bridge_close(struct http_tls_bridge *front,
                           void (*closed)(void *data), void *data);

#endif /* HASP_NET_HTTP_TLS_BRIDGE_H */
