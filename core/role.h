/* SPDX-License-Identifier: MIT */

/* What the replica's role, term and leader mean for the core.
 *
 *   - become leader: BEGIN is submitted in the same turn; nothing is answered
 *     before it is applied;
 *   - step down: lease state is dropped, pending changes are UNKNOWN (with REQ:
 *     asked again of the next leader), reads and heartbeats are asked again;
 *   - another leader or term: what was forwarded to the old one likewise.
 *
 * Any call of the replica may depose its caller. So nobody looks at the role in
 * the middle of something: core.c does, after each event and each stage of a
 * turn. */

#ifndef HASP_CORE_ROLE_H
#define HASP_CORE_ROLE_H

#include <stdint.h>

struct core;

/* As last seen. Lives as long as the core. */
struct leader {
    uint64_t id; /* 0: none is known. */
    uint64_t term;
    uint64_t last_id; /* The newest that was known. */
};

/* Looks at role, term and leader, and acts on what has changed. */
void role_follow(struct core *core);
/* Submits the BEGIN of a new term, if that is due. */
void role_begin(struct core *core);
/* Our BEGIN has been applied. */
void role_serve(struct core *core);

#endif /* HASP_CORE_ROLE_H */
