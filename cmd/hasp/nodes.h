/* SPDX-License-Identifier: MIT */

/* What the nodes say of themselves (RAFT.STATUS), all of them asked at once:
 * one that is silent holds up nobody, and what is known without it is known
 * after NODES_TIMEOUT_MS.
 *
 * A status is a map as in the protocol, with "endpoint"; of a node that does
 * not answer it has the "role" unreachable and "error", why. Who is of another
 * cluster than the first one that answers has the role "other cluster", and
 * what it says counts for nothing. */

#ifndef HASP_CMD_HASP_NODES_H
#define HASP_CMD_HASP_NODES_H

#include "cmd/hasp/tool.h"

#define NODES_TIMEOUT_MS 1500

enum nodes_scope {
    NODES_NAMED,  /* The endpoints. */
    NODES_LEADER, /* Also the leader that one of them names; once a leader has
                     answered nobody is waited for. */
    NODES_MEMBERS /* Also all members that one of them names. */
};

/* An array: the endpoints in their order, then the others; each node once. */
json_t *nodes_ask(const struct tool *tool, enum nodes_scope scope);

/* The first endpoint that answers, as its number; each is asked when the one
 * before has been silent for a moment, so that one which hangs holds up nobody.
 * 0 if none answers. */
uint32_t nodes_first(const struct tool *tool);

/* Of several the status of the leader in the newest term that is told, or of a
 * node that knows of it; a member that was removed or wiped tells an old story.
 * NULL if none does. Borrowed. */
json_t *nodes_newest(json_t *nodes);
/* Likewise; where no leader is known, that of the member whose log is committed
 * furthest. */
json_t *nodes_best(json_t *nodes);
bool nodes_is_leader(json_t *status);
bool nodes_is_foreign(json_t *status);

/* The maps by the number under 'key', those without one last; takes 'maps'. */
json_t *nodes_sorted(json_t *maps, const char *key);
/* The member with this id in a status; NULL. Borrowed. */
json_t *nodes_member(json_t *status, uint64_t id);

#endif /* HASP_CMD_HASP_NODES_H */
