/* SPDX-License-Identifier: MIT */

/* The HTTP side of a node, on the node's own loop: requests of any method with
 * a bounded body, answered at once, later, or by a stream.
 *
 * libmicrohttpd parses and writes; its epoll descriptor is polled by our loop,
 * and we accept. An *exchange* is one request, from its end to the end of its
 * answer. What is not answered at once is suspended; whether its client is
 * still there is looked at once a second.
 *
 * Limits: struct http_limits; 16 KiB of request head, 5 s for the whole
 * request, 10 s of silence of whoever does not read. At a limit the oldest
 * connection without a whole request makes room, or else the oldest: whoever
 * asks at once is always answered.
 *
 * With a context all speak TLS (net/http_tls_bridge.h); who speaks plain is
 * answered 400. A connection then takes three descriptors in place of one.
 *
 * Unread answers are bounded in all and by address: beyond the bound the
 * connections with the oldest requests are closed.
 *
 * What may mean another request to a proxy is refused: a head with two of a
 * header that is read here, a blank before a colon, a length and chunks,
 * another encoding than chunks, a folded line, a line that does not end with CR
 * LF, or CR or NUL within one (net/http_head.h). The connection ends with it.
 * Threads: the loop's. */

#ifndef HASP_NET_HTTP_H
#define HASP_NET_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/account.h"
#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"

struct http;
struct http_exchange;

struct http_limits {
    uint32_t connections;
    uint32_t per_address; /* Of IPv6: of one /64. */
    uint32_t body_size;
    /* Who pays for requests: their origins. While it is spent, or others wait,
     * a request waits for its turn (account_serve()). NULL: nobody. */
    struct account *account;
    /* Bytes of answers and streams that clients leave unread, in all and of one
     * address; 0: unbounded. */
    size_t unread;
    size_t unread_per_address;
};

/* An answer of at most this size is not counted as unread. */
#define HTTP_UNREAD_FREE ((size_t)64 << 10)

#define HTTP_HEADER_COUNT_MAX 4

struct http_reply {
    unsigned status;
    const char *content_type; /* "text/plain" unless set. */
    /* Others; name NULL ends them. Borrowed. */
    struct http_header {
        const char *name;
        const char *value;
    } header[HTTP_HEADER_COUNT_MAX + 1];
    struct buffer body; /* Taken over. */
    /* The body, if it has a size: bytes that outlive the server. */
    struct bytes constant;
};

struct http_handler {
    /* A head has come, and announces a body: returns how large that may be, or
     * answers. No on_end() follows. NULL: 'body_size' for all. */
    uint32_t (*on_head)(void *data, struct http_exchange *exchange);
    /* A whole request has come. http_answer() or http_stream() is called now,
     * or later, or never if on_end() comes first. May call http_close(). */
    void (*on_request)(void *data, struct http_exchange *exchange);
    /* The answer was sent, or the client has gone: the exchange ends with this
     * call. Follows each on_request(). */
    void (*on_end)(void *data, struct http_exchange *exchange);
    void *data;
};

/* Listens on 'host':'port' (port 0: any; http_port() tells). Errors with a
 * message. 'context' NULL: plain. */
MUST_CHECK int http_open(uv_loop_t *loop, const char *host, uint16_t port,
                         const struct http_limits *limits,
                         const struct http_handler *handler,
                         struct tls_context *context, struct http **ret_http,
                         char why[HASP_WHY_SIZE]);
/* For connections to come; it was opened with one. Keeps a reference. */
void http_use_tls(struct http *http, struct tls_context *context);
/* Connections on which TLS has failed, since it was opened. */
uint64_t http_tls_failed(const struct http *http);
/* Connections that were closed because of unread answers, since then. */
uint64_t http_unread_cut(const struct http *http);
uint16_t http_port(const struct http *http);
/* True if no other machine reaches that. */
bool http_is_loopback(const struct http *http);
/* Closes the port and all connections; on_end() is called for each exchange.
 * The memory goes when the last handle has left the loop. */
void http_close(struct http *http);

/* Of a request, until its on_end(): borrowed. The target is what stands in the
 * request line, undecoded: path, and '?' with a query if there is one. */
const char *http_method(const struct http_exchange *exchange);
const char *http_target(const struct http_exchange *exchange);
struct bytes http_body(const struct http_exchange *exchange);
const char *http_address(const struct http_exchange *exchange);
/* Who is there, if anybody has said so; NULL: it came in plain. */
const struct tls_identity *http_identity(const struct http_exchange *exchange);
/* NULL: there is none. */
const char *http_header(const struct http_exchange *exchange, const char *name);

/* The caller's, of the exchange; NULL at first. */
void http_set_owner(struct http_exchange *exchange, void *owner);
void *http_owner(const struct http_exchange *exchange);

/* Answers, once. */
void http_answer(struct http_exchange *exchange, struct http_reply *reply);
/* Begins an answer without an end: 'reply' has no body. */
void http_stream(struct http_exchange *exchange, struct http_reply *reply);
/* Where a stream's next bytes are appended; http_stream_more() sends them. */
struct buffer *http_stream_output(struct http_exchange *exchange);
void http_stream_more(struct http_exchange *exchange);
/* What has not been sent. */
size_t http_stream_unsent(const struct http_exchange *exchange);
/* The stream has its end behind what was appended. */
void http_stream_end(struct http_exchange *exchange);

/* Sends what was answered outside of on_request(). */
void http_flush(struct http *http);

#endif /* HASP_NET_HTTP_H */
