/* SPDX-License-Identifier: MIT */

/* HTTP requests drawn from the tables of routes, each field with values from
 * small pools; and a replacement of net/http.h, so that the gateway carries
 * them out at a core without a socket. Each JSON answer has to be valid
 * JSON. */

#ifndef HASP_TESTS_UNIT_DRAWN_HTTP_H
#define HASP_TESTS_UNIT_DRAWN_HTTP_H

#include "http/gateway.h"
#include "tests/unit/drawn_requests.h"

#define DRAWN_EXCHANGE_MAX 6

/* At one node. */
struct drawn_http {
    struct gateway gateway;
    struct gateway consul; /* That of listen.consul. */
    struct http_exchange *exchange[DRAWN_EXCHANGE_MAX]; /* NULL: free. */
};

void drawn_http_open(struct drawn_http *http, const struct gateway_port *port);
/* Before the core goes: all exchanges end. */
void drawn_http_close(struct drawn_http *http);
/* Sends one, if there is room; false: there is none. */
bool drawn_http_send(struct drawn_http *http, const struct choice *choice,
                     const struct drawn_heard *heard);
/* After a turn: answered exchanges end; now and then streams do, too. */
void drawn_http_look_after(struct drawn_http *http, uint64_t now_ns,
                           const struct choice *choice);

#endif /* HASP_TESTS_UNIT_DRAWN_HTTP_H */
