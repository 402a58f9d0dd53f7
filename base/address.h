/* SPDX-License-Identifier: MIT */

/* Addresses as people write them: "host:port", "[v6]:port". Nothing is looked
 * up. */

#ifndef HASP_BASE_ADDRESS_H
#define HASP_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* True if 'host' is a loopback address, or "localhost": only its own machine
 * reaches it there. */
bool address_is_loopback(const char *host);
/* True of an IPv4 or IPv6 address, false of a name. */
bool address_is_number(const char *host);
/* Of the other end of a connection, with its end. */
#define ADDRESS_SIZE 64
/* Whose address that is, for limits: its host without the port; of IPv6 the
 * network of 64 bits, of which everybody has all addresses. The rest of
 * 'ret_origin' is zero. */
void address_origin(const char *address, char ret_origin[ADDRESS_SIZE]);
/* Splits "host:port" or "[v6]:port"; HASP_EINVALID. */
MUST_CHECK int address_split(const char *address, char *ret_host,
                             size_t host_size, uint16_t *ret_port);

#endif /* HASP_BASE_ADDRESS_H */
