/* SPDX-License-Identifier: MIT */

/* Addresses as people write them: "host:port", "[v6]:port". Nothing is looked
 * up. */

#ifndef HASP_BASE_ADDRESS_H
#define HASP_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* True if 'host' is a loopback address or "localhost", which only its own
 * machine can reach. */
bool address_is_loopback(const char *host);
/* True for an IPv4 or IPv6 address, false for a name. */
bool address_is_number(const char *host);
/* Size of a peer's address, with its NUL. */
#define ADDRESS_SIZE 64
/* The origin of an address, for limits: its host without the port; for IPv6 the
 * /64 network, since a host can use all its addresses. The rest of 'ret_origin'
 * is zero. */
void address_origin(const char *address, char ret_origin[ADDRESS_SIZE]);
/* Splits "host:port" or "[v6]:port"; HASP_EINVALID. */
MUST_CHECK int address_split(const char *address, char *ret_host,
                             size_t host_size, uint16_t *ret_port);

#endif /* HASP_BASE_ADDRESS_H */
