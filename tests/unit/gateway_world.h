/* SPDX-License-Identifier: MIT */

/* A world (core_fixture.h) of one node that serves, with a gateway and without
 * sockets. The test replaces the functions of net/http.h and opens the gateway.
 */

#ifndef HASP_TESTS_UNIT_GATEWAY_WORLD_H
#define HASP_TESTS_UNIT_GATEWAY_WORLD_H

#include "http/gateway.h"
#include "tests/unit/core_fixture.h"

extern struct gateway gateway;

/* Makes 'world'. Returns the port for the gateway of its node. */
struct gateway_port gateway_world_new(void);
/* Lets time pass, and flushes the gateway after each millisecond. */
void gateway_world_run_ms(uint64_t ms);

#endif /* HASP_TESTS_UNIT_GATEWAY_WORLD_H */
