/* SPDX-License-Identifier: MIT */

/* How a cluster is founded, and how a node with an empty directory decides
 * whether it may be one of the founders.
 *
 * The danger is amnesia. A node whose directory was wiped looks like a new one.
 * If it could bootstrap again, it and another fresh node would be a majority
 * that knows nothing of what was committed. So a node with a new directory
 * never bootstraps by its own decision, except in a cluster of one:
 *
 *   1. It greets the other members of its configuration and waits until it has
 *      heard the greeting (HELLO) of every one. A greeting names the sender's
 *      incarnation (a random number made with its directory) and its cluster id
 *      (zero while it has none).
 *   2. The first entry of the log names all members as voters, each with its
 *      incarnation. The cluster id is the digest of the cluster's name and of
 *      that. So
 *      founders compute the same id without talking about it, and a directory
 *      made later computes one that nobody has. The greetings of founders show
 *      the terms as well, that is name, members and the limits of the state:
 *      those who differ in them refuse each other until the files are the same.
 *   3. If all greetings showed no cluster, or the very id that was computed,
 *      the node founds: it writes down who the founders are, then term 1, then
 *      the first entry, then the cluster id; only then does it take part.
 *   4. If a greeting showed another cluster id, the cluster exists without this
 *      directory: the node joins with an empty log. It has no vote until the
 *      cluster's log tells it that it is a voter, and the members refuse it if
 *      its id is registered with another incarnation.
 *
 * The record of the founders is for an interrupted founding: the next start
 * continues with the same founders or fails.
 *
 * The price is that all founders must be up at the first start. With only a
 * majority, a wiped founder and a late one would look like a new cluster.
 *
 * The decisions are pure; founding_load() and founding_save() are the only I/O.
 * Threads: one. */

#ifndef HASP_NODE_FOUNDING_H
#define HASP_NODE_FOUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/units.h"
#include "lockfsm/limits.h"
#include "net/frame.h"
#include "raft/replica.h"
#include "storage/datadir.h"

/* Time for which a node that sees a cluster waits for the other greetings,
 * which may show that it is one of the founders after all. */
#define FOUNDING_GRACE_NS (5 * NS_PER_S)

struct founder {
    uint64_t id;
    uint64_t incarnation; /* 0: no greeting yet. */
};

struct founding {
    uint64_t own_id;
    struct founder founder[MEMBER_COUNT_MAX];
    uint32_t count;
    struct replica_members members; /* As configured, without incarnations. */
    struct lockfsm_limits limits;
    char name[FRAME_NAME_SIZE];
    bool is_access_required; /* Initial access; set by the owner. */
    bool is_over;            /* Founded: 'founder' is the record. */
    bool saw_cluster;
    uint64_t saw_since_ns;
    uint8_t seen_id[CLUSTER_ID_SIZE]; /* From a greeting or the record. */
};

enum founding_verdict { FOUNDING_WAIT, FOUNDING_FOUND, FOUNDING_JOIN };

/* 'members' are the configured ones, all voters; 'limits' are the initial
 * limits of the state. */
void founding_init(struct founding *founding, uint64_t own_id,
                   uint64_t own_incarnation, const char *name,
                   const struct replica_members *members,
                   const struct lockfsm_limits *limits);

/* The terms of the founding in this node's greetings. */
void founding_show(const struct founding *founding,
                   struct frame_terms *ret_terms);
/* Compares the terms of founder 'id' with this node's: 0, or HASP_EREFUSED and
 * the difference. A greeting without terms comes from an existing cluster. */
MUST_CHECK int founding_compare(const struct founding *founding, uint64_t id,
                                const struct frame_terms *terms,
                                char why[HASP_WHY_SIZE]);

/* Records a greeting of 'id'. */
void founding_heard(struct founding *founding, uint64_t id,
                    uint64_t incarnation,
                    const uint8_t cluster_id[CLUSTER_ID_SIZE], uint64_t now_ns);
enum founding_verdict founding_decide(const struct founding *founding,
                                      uint64_t now_ns);
/* The cluster id of these founders; all must have greeted. */
void founding_cluster_id(const struct founding *founding,
                         uint8_t ret_id[CLUSTER_ID_SIZE]);
/* Appends the body of the first entry; all must have greeted. */
void founding_first_entry(const struct founding *founding, struct buffer *out);
/* Marks the cluster as founded: from now on 'founder' is the record and
 * 'seen_id' the id. */
void founding_found(struct founding *founding);
/* Writes the ids of the founders that have not greeted: "2, 3". */
void founding_missing(const struct founding *founding, char *out, size_t size);

/* Stores the record of the founders as 'folder'/founding; durable on return. */
MUST_CHECK int founding_save(const struct founding *founding,
                             const char *folder, char why[HASP_WHY_SIZE]);
/* HASP_ENOENT if the directory has no record; HASP_ECORRUPT. */
MUST_CHECK int founding_load(struct founding *founding, const char *folder,
                             char why[HASP_WHY_SIZE]);

/* True if the loaded record matches the configured members and name. */
bool founding_is_same(const struct founding *founding);

#endif /* HASP_NODE_FOUNDING_H */
