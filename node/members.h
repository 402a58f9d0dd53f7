/* SPDX-License-Identifier: MIT */

/* Links with members: connects net/peers to the core.
 *
 * The node connects to the members of its configuration until the log names
 * some. A joining node keeps the configured members that the log has not named
 * yet: it receives old entries first, and their members might not include the
 * current leader, which has to send the rest. A node that was away when members
 * were added admits them as unlisted peers if a member that it knows names
 * them, until its log names them (core_check_peer()). Greetings are checked
 * here (amnesia guard). They are stored until the core starts, so that it
 * learns which members are up. */

#ifndef HASP_NODE_MEMBERS_H
#define HASP_NODE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/peers.h"
#include "raft/replica.h"

struct hasp_node;

struct member_link {
    uint64_t id;
    struct frame_hello hello;          /* The newest greeting. */
    char address[MEMBER_ADDRESS_SIZE]; /* Empty: unlisted. */
    bool is_up;
    bool is_reported; /* Reported to the core as up. */
    bool was_named;   /* The log has named it, so the log can remove it. */
    char refusal[FRAME_REFUSED_SIZE_MAX + 1]; /* Last logged refusal ... */
    uint64_t refused_ns;                      /* ... and its time. */
    bool is_guest; /* Unlisted: neither log nor configuration names it. */
};

#define MEMBER_LINK_MAX (2 * MEMBER_COUNT_MAX + PEERS_GUEST_MAX)

struct members {
    struct hasp_node *node;
    struct peers *peers;
    /* The configured, the logged and the unlisted ones. */
    struct member_link link[MEMBER_LINK_MAX];
    uint32_t count;
    bool is_joining; /* The node started with an empty log. */
    bool is_closed;
};

/* Listens, and starts to dial the configured members. */
MUST_CHECK int members_open(struct members *members, struct hasp_node *node,
                            const char *address, char why[HASP_WHY_SIZE]);
/* 'is_closed' is set when all links are closed. */
void members_close(struct members *members);

/* Sets the cluster's id for later greetings. If 'greet_again', earlier
 * greetings are exchanged again. */
void members_set_cluster(struct members *members,
                         const uint8_t cluster_id[CLUSTER_ID_SIZE],
                         bool greet_again);
/* The lowest feature level in the newest greetings; 0 if a member has not
 * greeted yet. */
uint32_t members_lowest_level(const struct members *members);
/* Reports the links that are up to the core. */
void members_tell_core(struct members *members, uint64_t now_ns);

/* For struct core_port; 'data' is the node. */
void members_port_access_changed(void *data);
bool members_port_is_proven(void *data, uint64_t id);
bool members_port_is_up(void *data, uint64_t id);
struct buffer *members_port_output(void *data, uint64_t id,
                                   enum frame_type type);
void members_port_changed(void *data, const struct replica_members *members);
void members_port_drop(void *data, uint64_t id);
uint64_t members_port_silence_ms(void *data, uint64_t id);
int64_t members_port_round_trip_us(void *data, uint64_t id);
void members_port_cluster_known(void *data,
                                const uint8_t cluster_id[CLUSTER_ID_SIZE]);

#endif /* HASP_NODE_MEMBERS_H */
