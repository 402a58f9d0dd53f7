/* SPDX-License-Identifier: MIT */

/* A set of byte strings, each with an item: which of them does a name begin
 * with?
 *
 * A radix tree (Morrison, 1968): a node for each string, and for each place
 * where strings part; the bytes between two nodes are stored in the lower one.
 * To find what a name begins with takes one way down, of as many steps as
 * strings part or end on it, at most one for each byte of the name, however
 * many strings there are and however their sizes differ. Threads: one. */

#ifndef HASP_BASE_RADIX_TREE_H
#define HASP_BASE_RADIX_TREE_H

#include "base/bytes.h"

struct prefix_node;

/* Zeroed memory is an empty set. */
struct radix_tree {
    struct prefix_node *root;
};

/* Adds 'prefix', which is copied and must not be there yet; an empty one is a
 * prefix of every name. 'item' is not NULL. */
void radix_tree_add(struct radix_tree *set, struct bytes prefix, void *item);
/* Removes one that is there. */
void radix_tree_remove(struct radix_tree *set, struct bytes prefix);

/* The state of a walk along a name; the set must not change meanwhile. */
struct radix_tree_walk {
    const struct prefix_node *at;
    struct bytes left; /* The rest of the name, borrowed. */
};
struct radix_tree_walk radix_tree_begin(const struct radix_tree *set,
                                        struct bytes name);
/* The item of the next longer prefix of the name, or NULL. */
void *radix_tree_next(struct radix_tree_walk *walk);

#endif /* HASP_BASE_RADIX_TREE_H */
