/* SPDX-License-Identifier: MIT */

/* HTTP requests as requests of clients.
 *
 * Each is an *exchange*: a connection of the core that lives as long as the
 * request, on which a client's commands are sent one after the other (HELLO 3,
 * AUTH of a bearer, SESSION.ATTACH, the command), and whose reply becomes JSON.
 * So exactly-once, order, limits, rights and errors are those of RESP, and only
 * what a browser may request is decided here.
 *
 * An exchange is brief (CORE_CONN_BRIEF): neither its beginning nor its end
 * says that its client is alive, and it starts unauthenticated, whatever its
 * address. Only GET /v1/session/stream shows that its client is alive.
 *
 * A stream of events is an exchange that has sent LOCK.WATCH: each push is an
 * event, a comment every 5 s keeps proxies from closing it, and a client that
 * does not read is closed at STREAM_UNSENT_MAX.
 *
 * Which requests are served: the Host must be an address, localhost or one of
 * 'names', so that no web page reaches a node under a name of its own (DNS
 * rebinding); a change by a browser must come from this node's own pages. The
 * probes and the metrics, which name no user, are exempt: they are polled under
 * any name. Over TLS the metrics are for users (guards_metrics), and a client
 * with a certificate is the user that it names. Threads: the loop's. */

#ifndef HASP_HTTP_GATEWAY_H
#define HASP_HTTP_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"
#include "net/http.h"
#include "net/resp.h"

struct account;
struct core;

/* A bit in the ids of its connections; no other connection has it. */
#define GATEWAY_CONN (UINT64_C(1) << 62)
/* With it: a bit in those of gateway_open_consul(). */
#define GATEWAY_CONN_CONSUL (UINT64_C(1) << 61)
/* Unread bytes that a stream's client may have: more than is sent again at
 * once, however it is encoded in JSON. And the number of streams. */
#define STREAM_UNSENT_MAX (4u << 20)
#define STREAM_COUNT_MAX 256
/* From one address. */
#define STREAM_COUNT_ADDRESS_MAX (STREAM_COUNT_MAX / 4)

enum gateway_door {
    GATEWAY_LEASE,
    GATEWAY_TERRAFORM,
    GATEWAY_FLEETLOCK,
    GATEWAY_CONSUL,
    GATEWAY_DOOR_COUNT
};
/* The name of a door, for a label. */
const char *gateway_door_name(enum gateway_door door);

struct gateway_port {
    /* NULL while the core must not be called. */
    struct core *(*core)(void *data);
    uint64_t (*now_ns)(void *data);
    /* Requests a turn of the core. */
    void (*wake)(void *data);
    /* Answers a path of the node's own: ROUTE_MONITOR. */
    void (*monitor)(void *data, const char *path, struct http_reply *reply);
    /* The work of gateway_flush() is charged to the origins of its exchanges;
     * NULL: no account. */
    struct account *account;
    void *data;
};

struct gateway {
    struct gateway_port port;
    const char *names;     /* Hosts, separated by spaces; borrowed. */
    bool has_api;          /* False: only the node's own paths. */
    bool guards_metrics;   /* They are for users, if access is required. */
    const char *fleetlock; /* Its groups (fleetlock.h); borrowed. */
    /* The only door of this gateway: every path is its own. DOOR_COUNT: the
     * gateway of the API. */
    enum gateway_door only;
    struct gateway_consul {
        const char *datacenter; /* Borrowed. */
        bool is_durable;        /* A session without a TTL is durable. */
        uint32_t waits_max;
    } consul;
    /* Answers of the doors, by what they said. */
    struct gateway_door_count {
        uint64_t done, held, refused;
    } doors[GATEWAY_DOOR_COUNT];
    struct exchange *visits;
    struct list streams; /* Exchanges without an end; and ... */
    uint32_t stream_count;
    struct list polls; /* ... those that wait, with a time limit. */
    struct list waits; /* Those of a door that wait for a push; ... */
    uint32_t wait_count;
    uint64_t wait_due_ns; /* ... none of them is due before this. */
    struct list dirty;    /* Those for which the core has written something. */
    struct resp_reply reply; /* The current reply. */
    struct buffer nowhere;
    struct buffer document; /* OpenAPI; made on first use. */
    struct buffer policy;   /* The page's; made on first use. */
    uint64_t number;        /* The newest exchange's. */
    uint64_t comment_ns;    /* When streams get the next comment. */
};

void gateway_open(struct gateway *gateway, const struct gateway_port *port,
                  const char *names, bool has_api);
/* A gateway of the door for Consul alone. */
void gateway_open_consul(struct gateway *gateway,
                         const struct gateway_port *port, const char *names,
                         const struct gateway_consul *consul);
/* Called after net/http has been closed. */
void gateway_done(struct gateway *gateway);

/* Functions of struct http_handler; 'data' is the gateway. A body larger than
 * GATEWAY_GUEST_BODY is received only from a client whose certificate or secret
 * this node knows; that of a secret that it does not know (yet) is parsed after
 * AUTH. While access is required, no body is received from a client that
 * presents neither. */
#define GATEWAY_GUEST_BODY 4096u
uint32_t gateway_head(void *data, struct http_exchange *raw_exchange);
void gateway_request(void *data, struct http_exchange *raw_exchange);
void gateway_end(void *data, struct http_exchange *raw_exchange);

/* The end of a turn: sends what was answered. */
void gateway_flush(struct gateway *gateway);
/* When gateway_flush() must be called at the latest; UINT64_MAX: never. */
uint64_t gateway_due(const struct gateway *gateway);
/* Once a second: ends polls that have waited long enough, and writes
 * comments. */
void gateway_tick(struct gateway *gateway, uint64_t now_ns);

/* Functions of struct core_port, for connections with GATEWAY_CONN. */
struct buffer *gateway_output(struct gateway *gateway, uint64_t conn);
void gateway_close(struct gateway *gateway, uint64_t conn);

#endif /* HASP_HTTP_GATEWAY_H */
