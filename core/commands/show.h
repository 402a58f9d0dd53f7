/* SPDX-License-Identifier: MIT */

/* A lock as people see it: the common part of LOCK.SHOW, LOCK.LIST and
 * LOCK.WHY. Only a serving leader knows it. */

#ifndef HASP_CORE_COMMANDS_SHOW_H
#define HASP_CORE_COMMANDS_SHOW_H

#include "core/commands/commands.h"

struct showing {
    uint32_t holders_max; /* How many holders are shown at most. */
    uint32_t waiters_max;
    size_t size_max; /* For both lists, as rows.h counts. */
    /* Show ttl_ms, linger_ms, blacklisted and waits_for of holders, too. */
    bool explains;
    uint32_t more; /* Members of the map that the caller adds. */
    /* Omitted ones are counted, with a cursor at which LOCK.SHOW continues. */
    bool is_page;
    uint64_t after_serial; /* Holds up to this serial were shown; and ... */
    uint64_t after_index;  /* ... waits up to this index; 0: none. */
};

/* Writes the map of a lock. A lock that does not exist (NULL) is free. */
void show_lock(struct core *core, const struct request *request,
               const struct lock *lock, struct bytes name,
               const struct showing *showing, struct resp_writer *writer);

/* When a hold ends if its holder dies now, and what ends it. Linger counts from
 * when its last connection is closed; a durable hold has no end unless somebody
 * breaks it. */
#define SHOW_NEVER_MS UINT64_MAX
struct show_end {
    uint64_t end_ms; /* SHOW_NEVER: SHOW_NEVER_MS. */
    enum { SHOW_LEASE, SHOW_LINGER, SHOW_MAX_HOLD, SHOW_BREAK, SHOW_NEVER } by;
};
struct show_end show_hold_end(struct core *core, const struct hold *hold);

/* When the lock could pass on at the earliest if its holders die now: when
 * enough of their leases (or lingers, or max holds) have run out, and then the
 * lock delay. 0: now; SHOW_NEVER_MS: not by time. 'ret_hold' is the hold that
 * determines it, or NULL. After a restore, see show_quarantine(). */
uint64_t show_earliest(struct core *core, const struct lock *lock,
                       const struct hold **ret_hold);
/* What is left of the quarantine, in which nothing is granted. */
uint64_t show_quarantine(const struct core *core);

/* Why a session was opened, according to its client: its label "reason"; may be
 * empty. */
struct bytes show_reason(const struct session *session);
/* The time until the announced break takes the hold. */
uint64_t show_break_ms(struct core *core, const struct hold *hold);

/* True if this wait is the holder's own. */
bool show_waits(const struct wait *wait, const struct hold *hold);

#endif /* HASP_CORE_COMMANDS_SHOW_H */
