/* SPDX-License-Identifier: MIT */

/* A set in order: what begins somewhere is found, and then what comes next.
 *
 * A treap (Seidel and Aragon, 1996): a search tree by (key, number) that is a
 * heap by ranks, which are hashes under the process's seed, so that nobody who
 * chooses names makes it deep. Finding, adding and removing take O(log n) steps
 * on average.
 *
 * What was added lately stands in a list, and is taken into the tree when
 * somebody reads, or when the list is full: what goes again soon, as most locks
 * do, costs a few instructions. Threads: one. */

#ifndef HASP_BASE_TREAP_H
#define HASP_BASE_TREAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The list is full then. */
#define TREAP_FRESH_MAX 4096

/* Part of an element, which is found from it with LIST_ENTRY. */
struct treap_node {
    struct treap_node *left;  /* In the tree; else its neighbours ... */
    struct treap_node *right; /* ... in the list. */
    struct bytes key;         /* Borrowed for as long as it is in a set. */
    uint64_t number;
    uint32_t rank;
    bool is_fresh; /* It stands in the list. */
};

/* Zeroed memory is an empty one. */
struct treap {
    struct treap_node *root;
    struct treap_node *oldest; /* Of the list. */
    struct treap_node *newest;
    uint64_t count; /* Of all. */
    uint32_t fresh_count;
};

/* Adds a node, of which the set must not have the like: keys are ordered by
 * bytes_compare(), equal ones by 'number'. */
void treap_add(struct treap *set, struct treap_node *node, struct bytes key,
               uint64_t number);
/* Removes a node that is in the set. */
void treap_remove(struct treap *set, struct treap_node *node);
/* The first node that is not before (key, number), or NULL. With number + 1 it
 * is the first behind (key, number), whether that is in the set or not. */
struct treap_node *treap_from(struct treap *set, struct bytes key,
                              uint64_t number);
/* Shows the nodes from 'key' on, in their order, to visit(), until that returns
 * false; the set must not be changed or read by it. In one piece this is much
 * cheaper than treap_from() for each. */
typedef bool treap_visit_fn(struct treap_node *node, void *data);
void treap_each(struct treap *set, struct bytes key, treap_visit_fn *visit,
                void *data);
/* True if the node is in the set where it has to be. */
bool treap_has(const struct treap *set, const struct treap_node *node);

#endif /* HASP_BASE_TREAP_H */
