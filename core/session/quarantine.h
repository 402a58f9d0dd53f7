/* SPDX-License-Identifier: MIT */

/* The quarantine after a restore: how long no lock is granted, because clients
 * from before the restore may still trust their leases (rule 21). It is logged
 * repeatedly, because a cluster that grants nothing looks broken, and an
 * operator who knows that no such client is left can end it. */

#ifndef HASP_CORE_SESSION_QUARANTINE_H
#define HASP_CORE_SESSION_QUARANTINE_H

#include <stdint.h>

struct core;

/* Logs a line once a minute while the quarantine lasts. */
void quarantine_turn(struct core *core);
uint64_t quarantine_next(const struct core *core);

#endif /* HASP_CORE_SESSION_QUARANTINE_H */
