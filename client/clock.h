/* SPDX-License-Identifier: MIT */

/* The clocks of a client. Both must be read, since the monotonic clock stops
 * while a machine is suspended (lease/lease.h). */

#ifndef HASP_CLIENT_CLOCK_H
#define HASP_CLIENT_CLOCK_H

#include <stdint.h>

#include "base/units.h"
#include "lease/lease.h"

struct lease_clock client_clock_read(void);

/* CLOCK_MONOTONIC, for timeouts; deadlines in client/ use it. */
uint64_t client_now_ns(void);

/* Milliseconds from now until 'deadline_ns', rounded up, for poll(). */
int client_poll_ms(uint64_t deadline_ns);

void client_sleep_ms(uint64_t time_ms);

#endif /* HASP_CLIENT_CLOCK_H */
