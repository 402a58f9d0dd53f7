/* SPDX-License-Identifier: MIT */

/* Checks the addresses that a member announces, for nodes and for clients,
 * before it may vote, and when they change: a wrong address would otherwise
 * show only when the others already need its vote. */

#ifndef HASP_CORE_MEMBERS_ADVERTISED_H
#define HASP_CORE_MEMBERS_ADVERTISED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct core;

/* True if the other voters could reach member 'id' at 'address'
 * ("peer,client"), judging by the addresses: either all are on loopback
 * or none is. Otherwise 'why' names the exception. */
bool advertised_fits(const struct core *core, uint64_t id, const char *address,
                     char why[HASP_WHY_SIZE]);

/* True if another member has one of the addresses "peer,client", by their text;
 * 'why' names both. A node that is dialled there would be another one. */
bool advertised_is_taken(const struct core *core, uint64_t id,
                         const char *address, char why[HASP_WHY_SIZE]);

/* The configuration has changed: logs core_is_elsewhere() if that is new. */
void advertised_follow(struct core *core);

#endif /* HASP_CORE_MEMBERS_ADVERTISED_H */
