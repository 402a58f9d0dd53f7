/* SPDX-License-Identifier: MIT */

/* Addresses of sockets as text: see net/stream.h. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "net/stream.h"

void address_format(const struct sockaddr *from,
                    char ret_address[STREAM_ADDRESS_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    bool is_v6 = false;
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        port = ntohs(v4->sin_port);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
        port = ntohs(v6->sin6_port);
        /* On a dual-stack socket an IPv4 client has a mapped address: it must
         * have one origin, whichever socket accepted it. */
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof host);
        } else {
            inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
            is_v6 = true;
        }
    }
    snprintf(ret_address, STREAM_ADDRESS_SIZE, is_v6 ? "[%s]:%u" : "%s:%u",
             host, port);
}
