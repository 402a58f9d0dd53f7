/* SPDX-License-Identifier: MIT */

/* The requests under way at this node, and whose they are.
 *
 * Payers are those of the account of a turn (base/account.h): a user, or the
 * address of clients without one, wherever they are connected. A payer may have
 * IN_FLIGHT_PART times as many requests under way as are left of
 * core_limits.requests_in_flight [A. Choudhury, E. Hahne, Dynamic Queue Length
 * Thresholds for Shared-Memory Packet Switches, 1998]. So one that floods gets
 * at most four fifths, two get four ninths each, and the rest remains for the
 * others, whose requests are not refused. */

#ifndef HASP_CORE_IN_FLIGHT_H
#define HASP_CORE_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"

struct core;
struct in_flight_payer;
struct request;

#define IN_FLIGHT_PART 4

/* Lives as long as the core. */
struct in_flight {
    uint32_t count; /* All except the queued. */
    struct in_flight_payer *payers;
};

/* The payer of a client without a user, at this address. */
uint64_t in_flight_stranger(struct bytes from);
/* Counts the request for its payer, which is set. */
void in_flight_add(struct core *core, struct request *request);
void in_flight_remove(struct core *core, struct request *request);
/* True if the request, which is counted, is one too many of all, or of its
 * payer. */
bool in_flight_is_over(const struct core *core, const struct request *request);
/* For the invariants: the sum of all payers. */
uint32_t in_flight_of_payers(const struct core *core);

#endif /* HASP_CORE_IN_FLIGHT_H */
