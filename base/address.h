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
/* Splits "host:port" or "[v6]:port"; HASP_EINVALID. */
MUST_CHECK int address_split(const char *address, char *ret_host,
                             size_t host_size, uint16_t *ret_port);

#endif /* HASP_BASE_ADDRESS_H */
