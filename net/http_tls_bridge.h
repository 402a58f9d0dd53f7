/* SPDX-License-Identifier: MIT */

/* TLS in front of libmicrohttpd. For net/http.c alone.
 *
 * An accepted connection speaks TLS with its client by net/secure, as all
 * others do, and in plain with the library over a pair of sockets:
 *
 *     client --TLS-- outer | inner --socketpair-- libmicrohttpd
 *
 * so there is one TLS with one set of limits, and the library needs none. The
 * pair is made when the handshake is done. Bytes are handed on in both
 * directions; who does not read holds up the other side, in bounds. When the
 * client goes the library is told, and what the library has answered last still
 * goes to the client. Each connection takes three descriptors.
 * Threads: the loop's. */

#ifndef HASP_NET_HTTP_TLS_BRIDGE_H
#define HASP_NET_HTTP_TLS_BRIDGE_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "net/tls.h"

/* Of a connection, for each direction: from here on the sender waits. */
#define HTTP_TLS_BRIDGE_UNSENT_MAX (64u << 10)

struct http_tls_bridge;

struct http_tls_bridge_events {
    /* One from 'origin' (net/stream.h) comes: makes room among those that have
     * joined. */
    void (*make_room)(void *data, const char *origin);
    /* Its handshake is done: the library takes 'fd', and closes it. */
    void (*joined)(void *data, int fd);
    /* No TLS came about. */
    void (*failed)(void *data, const char *address, const char *reason);
    void *data;
};

/* Accepts on the bound socket 'fd', which it closes with itself. At most so
 * many may be in their handshakes, in all and from one origin: the oldest makes
 * room. */
struct http_tls_bridge *
http_tls_bridge_open(uv_loop_t *loop, int fd, uint32_t connections,
                     uint32_t per_origin, struct tls_context *context,
                     const struct http_tls_bridge_events *events);
/* For connections to come. */
void http_tls_bridge_use_tls(struct http_tls_bridge *front,
                             struct tls_context *context);
/* Whose that descriptor of the library's is, while it is open: the address, and
 * who is there. */
const char *http_tls_bridge_address(const struct http_tls_bridge *front,
                                    int fd);
const struct tls_identity *
http_tls_bridge_identity(const struct http_tls_bridge *front, int fd);
/* Closes all; 'closed' is called when the memory has gone. */
void http_tls_bridge_close(struct http_tls_bridge *front,
                           void (*closed)(void *data), void *data);

#endif /* HASP_NET_HTTP_TLS_BRIDGE_H */
