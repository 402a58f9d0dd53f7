/* SPDX-License-Identifier: MIT */

/* The status of the nodes (RAFT.STATUS). All are asked at once, so a silent
 * node delays nothing; after NODES_TIMEOUT_MS the answers so far are used.
 *
 * A status is a map as in the protocol, with "endpoint"; for a node that does
 * not answer the "role" is unreachable and "error" is the reason. A node of a
 * cluster other than that of the first answer has the role "other cluster", and
 * its status is ignored. */

#ifndef HASP_CMD_HASP_NODES_H
#define HASP_CMD_HASP_NODES_H

#include "cmd/hasp/tool.h"

#define NODES_TIMEOUT_MS 1500

enum nodes_scope {
    NODES_NAMED,  /* Ask the endpoints. */
    NODES_LEADER, /* Also ask the leader that one of them names; a leader's
                     answer ends the wait. */
    NODES_MEMBERS /* Also ask all members that one of them names. */
};

/* An array: the endpoints in their order, then the others; each node once. */
json_t *nodes_ask(const struct tool *tool, enum nodes_scope scope);

/* The number of the first endpoint that answers, or 0. Each is asked if the
 * one before has been silent for a moment, so a node that hangs delays
 * nothing. */
uint32_t nodes_first(const struct tool *tool);

/* The status of the leader with the newest term, or of a node that knows of
 * it: a member that was removed or wiped reports an old term. NULL if there is
 * none. Borrowed. */
json_t *nodes_newest(json_t *nodes);
/* The same; without a leader, the status of the member with the highest commit
 * index. */
json_t *nodes_best(json_t *nodes);
bool nodes_is_leader(json_t *status);
bool nodes_is_foreign(json_t *status);

/* The maps sorted by the number under 'key', those without one last; takes
 * 'maps'. */
json_t *nodes_sorted(json_t *maps, const char *key);
/* The member with this id in a status, or NULL. Borrowed. */
json_t *nodes_member(json_t *status, uint64_t id);

/* The nodes that answer, or the one with this id (0: all). NULL: none, which
 * is explained. (settings.c) */
json_t *settings_nodes(struct tool *tool, uint64_t id);

#endif /* HASP_CMD_HASP_NODES_H */
