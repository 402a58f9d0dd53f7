/* SPDX-License-Identifier: MIT */

/* The addresses that a member announces, for nodes and for clients, before it
 * may vote: what is wrong with them would show when it is too late, after the
 * others have come to need its vote. */

#ifndef HASP_CORE_MEMBERS_ADVERTISED_H
#define HASP_CORE_MEMBERS_ADVERTISED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct core;

/* True if member 'id' could be reached at 'address' ("peer,client") from where
 * the other voters are, as far as the address tells: either all are on loopback
 * or none is. Else 'why' says who is not. */
bool advertised_fits(const struct core *core, uint64_t id, const char *address,
                     char why[HASP_WHY_SIZE]);

/* The configuration has changed: logs that core_is_elsewhere(), when it is new.
 */
void advertised_follow(struct core *core);

#endif /* HASP_CORE_MEMBERS_ADVERTISED_H */
