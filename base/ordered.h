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

#ifndef HASP_BASE_ORDERED_H
#define HASP_BASE_ORDERED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The list is full then. */
#define ORDERED_FRESH_MAX 4096

/* Part of an element, which is found from it with LIST_ENTRY. */
struct ordered_node {
    struct ordered_node *left;  /* In the tree; else its neighbours ... */
    struct ordered_node *right; /* ... in the list. */
    struct bytes key;           /* Borrowed for as long as it is in a set. */
    uint64_t number;
    uint32_t rank;
    bool is_fresh; /* It stands in the list. */
};

/* Zeroed memory is an empty one. */
struct ordered {
    struct ordered_node *root;
    struct ordered_node *oldest; /* Of the list. */
    struct ordered_node *newest;
    uint64_t count; /* Of all. */
    uint32_t fresh_count;
};

/* Adds a node, of which the set must not have the like: keys are ordered by
 * bytes_compare(), equal ones by 'number'. */
void ordered_add(struct ordered *set, struct ordered_node *node,
                 struct bytes key, uint64_t number);
/* Removes a node that is in the set. */
void ordered_remove(struct ordered *set, struct ordered_node *node);
/* The first node that is not before (key, number), or NULL. With number + 1 it
 * is the first behind (key, number), whether that is in the set or not. */
struct ordered_node *ordered_from(struct ordered *set, struct bytes key,
                                  uint64_t number);
/* Shows the nodes from 'key' on, in their order, to visit(), until that returns
 * false; the set must not be changed or read by it. In one piece this is much
 * cheaper than ordered_from() for each. */
typedef bool ordered_visit_fn(struct ordered_node *node, void *data);
void ordered_each(struct ordered *set, struct bytes key,
                  ordered_visit_fn *visit, void *data);
/* True if the node is in the set where it has to be. */
bool ordered_has(const struct ordered *set, const struct ordered_node *node);

#endif /* HASP_BASE_ORDERED_H */
