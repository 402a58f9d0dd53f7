/* SPDX-License-Identifier: MIT */

/* Requests of HTTP as requests of clients.
 *
 * Each is a *visit*: a connection of the core for as long as it takes, on which
 * the words of a client are sent one command after the other (HELLO 3, AUTH of
 * a bearer, SESSION.ATTACH, the command), and whose reply becomes JSON. So
 * exactly-once, order, limits, rights and errors are those of RESP, and nothing
 * is decided here but what a browser may ask.
 *
 * A visit is brief (CORE_CONN_BRIEF): neither its beginning nor its end says
 * anything about its client's presence, and it starts as nobody, whatever its
 * address. Only GET /v1/session/stream stands for its client.
 *
 * A stream of events is a visit that has sent LOCK.WATCH: each push is an
 * event, a comment every 5 s keeps proxies from closing it, and who does not
 * read is closed at STREAM_UNSENT_MAX.
 *
 * Who may ask: the Host must be an address, localhost or one of 'names', so
 * that no web page reaches a node under a name of its own (DNS rebinding); a
 * change by a browser must come from this node's own pages. The probes and the
 * metrics, which name nobody, are exempt: they are polled by any name.
 * Over TLS the metrics are for users (guards_metrics), and who shows a
 * certificate is the user whose it is.
 * Threads: the loop's. */

#ifndef HASP_HTTP_GATEWAY_H
#define HASP_HTTP_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "net/http.h"
#include "net/resp.h"

struct core;

/* Of the numbers of its connections; no other connection has this bit. */
#define GATEWAY_CONN (UINT64_C(1) << 62)
/* What a stream's client may leave unread: more than is told again at once, in
 * whatever way it has to be written in JSON. And how many streams there are. */
#define STREAM_UNSENT_MAX (4u << 20)
#define STREAM_COUNT_MAX 256
/* From one address. */
#define STREAM_COUNT_ADDRESS_MAX (STREAM_COUNT_MAX / 4)

struct gateway_port {
    /* NULL while the core must not be called. */
    struct core *(*core)(void *data);
    uint64_t (*now_ns)(void *data);
    /* A turn of the core is due. */
    void (*wake)(void *data);
    /* Answers a path of the node's own: ROUTE_MONITOR. */
    void (*monitor)(void *data, const char *path, struct http_reply *reply);
    void *data;
};

struct gateway {
    struct gateway_port port;
    const char *names;   /* Hosts, with blanks between them; borrowed. */
    bool has_api;        /* False: the node's own paths alone. */
    bool guards_metrics; /* They are for users, as access demands. */
    struct exchange *visits;
    struct list streams; /* Of visits, those without an end; and ... */
    uint32_t stream_count;
    struct list polls;       /* ... those that wait, with a limit. */
    struct list dirty;       /* The core has written something for them. */
    struct resp_reply reply; /* The one at hand. */
    struct buffer nowhere;
    struct buffer document; /* Of OpenAPI; made when it is first asked for. */
    struct buffer policy;   /* Of the page, likewise. */
    uint64_t number;        /* The newest visit's. */
    uint64_t comment_ns;    /* When streams get the next comment. */
};

void gateway_open(struct gateway *gateway, const struct gateway_port *port,
                  const char *names, bool has_api);
/* After net/http has been closed. */
void gateway_done(struct gateway *gateway);

/* Of struct http_handler; 'data' is the gateway. A body of more than
 * GATEWAY_GUEST_BODY is received only from a client whose certificate or secret
 * this node knows, and while access is required none from a client that shows
 * neither. */
#define GATEWAY_GUEST_BODY 4096u
uint32_t gateway_head(void *data, struct http_exchange *raw_exchange);
void gateway_request(void *data, struct http_exchange *raw_exchange);
void gateway_end(void *data, struct http_exchange *raw_exchange);

/* The end of a turn: what was answered goes on its way. */
void gateway_flush(struct gateway *gateway);
/* Once a second: polls that have waited long enough, comments. */
void gateway_tick(struct gateway *gateway, uint64_t now_ns);

/* Of struct core_port, for connections with GATEWAY_CONN. */
struct buffer *gateway_output(struct gateway *gateway, uint64_t conn);
void gateway_close(struct gateway *gateway, uint64_t conn);

#endif /* HASP_HTTP_GATEWAY_H */
