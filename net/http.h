/* SPDX-License-Identifier: MIT */

/* The HTTP side of a node, on the node's own loop: requests of any method with
 * a bounded body, answered at once, later, or by a stream.
 *
 * libmicrohttpd parses and writes; our loop polls its epoll descriptor and
 * accepts connections. An *exchange* is one request, from its start to the end
 * of its answer. An exchange that is not answered at once is suspended; once a
 * second it is checked whether its client is still connected.
 *
 * Limits: struct http_limits; 16 KiB for the head, 5 s for the whole request,
 * 10 s for a client that does not read. At a limit the origin with the most
 * connections gives up its oldest one without a whole request, or else its
 * oldest one. So a client that sends its request at once is always answered,
 * and one that waits for an answer loses it to no number of other addresses
 * with more.
 *
 * With a context all connections use TLS (net/http_tls_bridge.h); plain HTTP is
 * answered with 400. A connection then needs three descriptors instead of one.
 *
 * Unread answers are bounded in all and for each address: beyond a bound the
 * address, or the one with the most unread bytes, loses its connections with
 * the oldest requests.
 *
 * A request that a proxy could read differently is refused, and its connection
 * closed: a head with a repeated header that is used here, a blank before a
 * colon, a length and chunks, another encoding than chunks, a folded line, a
 * line that does not end with CR LF, or CR or NUL inside one (net/http_head.h).
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
    uint32_t per_address; /* IPv6: for one /64. */
    uint32_t body_size;
    /* Requests are charged to their origins. While the account is spent, or
     * others wait, a request waits for its turn (account_serve()). NULL: no
     * account. */
    struct account *account;
    /* Bytes of answers and streams that clients have not read, in all and for
     * one address; 0: unbounded. */
    size_t unread;
    size_t unread_per_address;
    /* What the server itself refuses is answered 400 with a plain text,
     * whatever the reason: for clients that know no other status. */
    bool is_plain;
};

/* Answers up to this size do not count as unread. */
#define HTTP_UNREAD_FREE ((size_t)64 << 10)

#define HTTP_HEADER_COUNT_MAX 4

struct http_reply {
    unsigned status;
    const char *content_type; /* "text/plain" unless set. */
    /* Further headers, ended by a NULL name. Borrowed. */
    struct http_header {
        const char *name;
        const char *value;
    } header[HTTP_HEADER_COUNT_MAX + 1];
    struct buffer body; /* Ownership passes to the exchange. */
    /* The body, if not empty: bytes that outlive the server. */
    struct bytes constant;
};

struct http_handler {
    /* A head that announces a body has arrived: returns the allowed size of the
     * body, or answers. No on_end() follows. NULL: 'body_size' for all. */
    uint32_t (*on_head)(void *data, struct http_exchange *exchange);
    /* A whole request has arrived. The handler calls http_answer() or
     * http_stream() now or later, unless on_end() comes first. It may call
     * http_close(). */
    void (*on_request)(void *data, struct http_exchange *exchange);
    /* The answer was sent, or the client has disconnected: the exchange ends
     * with this call. Follows each on_request(). */
    void (*on_end)(void *data, struct http_exchange *exchange);
    void *data;
};

/* Listens on 'host':'port' (port 0: any; http_port() returns it). An error has
 * a message. 'context' NULL: plain. */
MUST_CHECK int http_open(uv_loop_t *loop, const char *host, uint16_t port,
                         const struct http_limits *limits,
                         const struct http_handler *handler,
                         struct tls_context *context, struct http **ret_http,
                         char why[HASP_WHY_SIZE]);
/* Replaces the context for future connections. Keeps a reference. */
void http_use_tls(struct http *http, struct tls_context *context);
/* Number of connections on which TLS has failed. */
uint64_t http_tls_failed(const struct http *http);
/* Number of connections closed because of unread answers. */
uint64_t http_unread_cut(const struct http *http);
uint16_t http_port(const struct http *http);
/* True if no other machine can reach that. */
bool http_is_loopback(const struct http *http);
/* Closes the port and all connections; on_end() is called for each exchange.
 * The memory is freed when the loop has closed the last handle. */
void http_close(struct http *http);

/* Parts of a request, borrowed until its on_end(). The target is that of the
 * request line, undecoded: a path, and '?' with a query if there is one. */
const char *http_method(const struct http_exchange *exchange);
const char *http_target(const struct http_exchange *exchange);
struct bytes http_body(const struct http_exchange *exchange);
const char *http_address(const struct http_exchange *exchange);
/* The client's identity; NULL: it does not use TLS. */
const struct tls_identity *http_identity(const struct http_exchange *exchange);
/* NULL if the request does not have it. */
const char *http_header(const struct http_exchange *exchange, const char *name);

/* A pointer of the caller's for the exchange; initially NULL. */
void http_set_owner(struct http_exchange *exchange, void *owner);
void *http_owner(const struct http_exchange *exchange);

/* Answers, once. */
void http_answer(struct http_exchange *exchange, struct http_reply *reply);
/* Starts a streamed answer: 'reply' has no body. */
void http_stream(struct http_exchange *exchange, struct http_reply *reply);
/* The buffer for a stream's next bytes; http_stream_more() sends them. */
struct buffer *http_stream_output(struct http_exchange *exchange);
void http_stream_more(struct http_exchange *exchange);
/* Bytes that have not been sent. */
size_t http_stream_unsent(const struct http_exchange *exchange);
/* Ends the stream after the appended bytes. */
void http_stream_end(struct http_exchange *exchange);

/* Sends answers that were given outside of on_request(). */
void http_flush(struct http *http);

#endif /* HASP_NET_HTTP_H */
