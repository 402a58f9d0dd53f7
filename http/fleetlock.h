/* SPDX-License-Identifier: MIT */

/* The groups of FleetLock, as http.fleetlock names them: "default:1 edge:3".
 * Pure. */

#ifndef HASP_HTTP_FLEETLOCK_H
#define HASP_HTTP_FLEETLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* One script reads all of them. */
#define FLEETLOCK_SLOTS_MAX 64

/* False, with the word that is wrong. NULL is the empty list. */
bool fleetlock_is_valid(const char *groups, struct bytes *ret_wrong);

#endif /* HASP_HTTP_FLEETLOCK_H */
