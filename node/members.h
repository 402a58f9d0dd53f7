/* SPDX-License-Identifier: MIT */

/* Links with members: joins net/peers to the core.
 *
 * The members that are wanted come from the configuration until the log names
 * some. A node that joins keeps those of its configuration that the log has not
 * named yet: what it is given first is old, and its members may not include the
 * one that leads now and has to send it the rest. A node that was away when
 * members were added lets those in as guests, if a member that it knows names
 * them, until its log has come so far (core_check_peer()). Greetings are
 * checked here (amnesia guard), and remembered while the node has not begun, so
 * that the core hears of those that are up when it begins. */

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
    char address[MEMBER_ADDRESS_SIZE]; /* Empty: a guest's. */
    bool is_up;
    bool is_told;   /* The core knows that it is up. */
    bool was_named; /* The log has named it, and may take it away again. */
    char refusal[FRAME_REFUSED_SIZE_MAX + 1]; /* As it was logged ... */
    uint64_t refused_ns;                      /* ... last. */
    bool is_guest; /* Neither the log nor the configuration names it. */
};

#define MEMBER_LINK_MAX (2 * MEMBER_COUNT_MAX + PEERS_GUEST_MAX)

struct members {
    struct hasp_node *node;
    struct peers *peers;
    /* Those of the configuration, those that the log names, and guests. */
    struct member_link link[MEMBER_LINK_MAX];
    uint32_t count;
    bool is_joining; /* It has begun with an empty log. */
    bool is_closed;
};

/* Listens and begins to dial the configured members. */
MUST_CHECK int members_open(struct members *members, struct hasp_node *node,
                            const char *address, char why[HASP_WHY_SIZE]);
/* 'is_closed' is set when all is gone. */
void members_close(struct members *members);

/* The cluster's id is known now: later greetings carry it. Those that were
 * exchanged before are exchanged again if 'greet_again'. */
void members_set_cluster(struct members *members,
                         const uint8_t cluster_id[CLUSTER_ID_SIZE],
                         bool greet_again);
/* The lowest feature level in the newest greetings of all; 0 if one has not
 * greeted yet. */
uint32_t members_lowest_level(const struct members *members);
/* Tells the core of the links that are up. */
void members_tell_core(struct members *members, uint64_t now_ns);

/* Of struct core_port; 'data' is the node. */
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
