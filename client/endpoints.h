/* SPDX-License-Identifier: MIT */

/* Addresses of the nodes that a client can connect to. */

#ifndef HASP_CLIENT_ENDPOINTS_H
#define HASP_CLIENT_ENDPOINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

#define ENDPOINT_COUNT_MAX 64
#define ENDPOINT_PORT_DEFAULT "7420"
/* Without HASP_ENDPOINTS: the nodes of hasp dev, in each language. */
#define ENDPOINTS_DEFAULT "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440"
#define CLIENT_USER_SECRET_SIZE 160
#define ENDPOINT_SOCKET "unix:" /* Before a path. */

struct endpoint {
    char host[256];
    char port[8];
    char text[272]; /* For people: "host:port", "[::1]:7420", "unix:/path". */
};

/* True for a path: the data directory of a node on this machine, for its admin
 * socket. */
static inline bool endpoint_is_local(const struct endpoint *endpoint)
{
    return endpoint->host[0] == '/';
}

/* The path of a UNIX socket of a node on this machine (listen.local), or
 * NULL. */
static inline const char *endpoint_socket(const struct endpoint *endpoint)
{
    return strncmp(endpoint->host, ENDPOINT_SOCKET,
                   sizeof ENDPOINT_SOCKET - 1) == 0
               ? endpoint->host + sizeof ENDPOINT_SOCKET - 1
               : NULL;
}

struct endpoints {
    struct endpoint *endpoint;
    uint32_t count;
};

/* Parses "host:port,host:port,...", with or without blanks. The default port is
 * 7420; an IPv6 address with a port is in brackets. "unix:/path" is a socket of
 * a node on this machine (listen.local); a path is a node's data directory.
 * HASP_EINVALID with a message, HASP_ENOMEM. */
MUST_CHECK int endpoints_parse(const char *text,
                               struct endpoints *ret_endpoints,
                               char why[HASP_WHY_SIZE]);
void endpoints_done(struct endpoints *endpoints);

/* Parses one address. */
MUST_CHECK int endpoint_parse(const char *text, size_t size,
                              struct endpoint *ret_endpoint,
                              char why[HASP_WHY_SIZE]);

#endif /* HASP_CLIENT_ENDPOINTS_H */
