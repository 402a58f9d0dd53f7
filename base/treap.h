/* SPDX-License-Identifier: MIT */

/* An ordered set, for finding the first element from a position and the
 * following ones.
 *
 * A treap (Seidel and Aragon, 1996): a search tree by (key, number) that is a
 * heap by ranks, which are hashes under the process's seed, so that nobody who
 * chooses names makes it deep. Finding, adding and removing take O(log n) steps
 * on average.
 *
 * New elements are in a list, and move to the tree when the set is read or the
 * list is full: an element that is removed soon, as most locks are, costs a few
 * instructions. Threads: one. */

#ifndef HASP_BASE_TREAP_H
#define HASP_BASE_TREAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The list is full then. */
#define TREAP_FRESH_MAX 4096

/* Part of an element, which is found from it with LIST_ENTRY. */
struct treap_node {
    struct treap_node *left;  /* In the tree; otherwise its neighbours ... */
    struct treap_node *right; /* ... in the list. */
    struct bytes key;         /* Borrowed for as long as it is in a set. */
    uint64_t number;
    uint32_t rank;
    bool is_fresh; /* It is in the list. */
};

/* Zeroed memory is an empty set. */
struct treap {
    struct treap_node *root;
    struct treap_node *oldest;
    struct treap_node *newest;
    uint64_t count;
    uint32_t fresh_count;
};

/* Adds a node, which must not be in the set: keys are ordered by
 * bytes_compare(), equal ones by 'number'. */
void treap_add(struct treap *set, struct treap_node *node, struct bytes key,
               uint64_t number);
/* Removes a node that is in the set. */
void treap_remove(struct treap *set, struct treap_node *node);
/* The first node that is not before (key, number), or NULL. With number + 1 it
 * is the first after (key, number), even if that is not in the set. */
struct treap_node *treap_from(struct treap *set, struct bytes key,
                              uint64_t number);
/* Calls visit() for the nodes from 'key' on, in their order, until it returns
 * false; visit() must not change or read the set. This is much cheaper than
 * treap_from() for each node. */
typedef bool treap_visit_fn(struct treap_node *node, void *data);
void treap_each(struct treap *set, struct bytes key, treap_visit_fn *visit,
                void *data);
/* True if the node is at its right place in the set. */
bool treap_has(const struct treap *set, const struct treap_node *node);

#endif /* HASP_BASE_TREAP_H */
