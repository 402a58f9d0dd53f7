/* SPDX-License-Identifier: MIT */

#include "base/treap.h"

#include <stddef.h>

#include "base/check.h"
#include "base/hash.h"

static bool treap_is_before(const struct treap_node *node, struct bytes key,
                            uint64_t number)
{
    int order = bytes_compare(node->key, key);
    return order != 0 ? order < 0 : node->number < number;
}

/* --- The tree ------------------------------------------------------------- */

/* Splits a tree into the nodes before 'node' and those after it. */
static void treap_split(struct treap_node *tree, const struct treap_node *node,
                        struct treap_node **before, struct treap_node **behind)
{
    while (tree != NULL) {
        if (treap_is_before(tree, node->key, node->number)) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *behind = tree;
            behind = &tree->left;
            tree = tree->left;
        }
    }
    *before = NULL;
    *behind = NULL;
}

static void tree_add(struct treap *set, struct treap_node *node)
{
    struct treap_node **at = &set->root;
    while (*at != NULL && (*at)->rank >= node->rank) {
        at = treap_is_before(*at, node->key, node->number) ? &(*at)->right
                                                           : &(*at)->left;
    }
    treap_split(*at, node, &node->left, &node->right);
    *at = node;
}

/* The pointer to 'node' in the tree, or the empty one at its place. */
static struct treap_node *const *treap_place_of(const struct treap *set,
                                                const struct treap_node *node)
{
    struct treap_node *const *at = &set->root;
    while (*at != NULL && *at != node) {
        at = treap_is_before(*at, node->key, node->number) ? &(*at)->right
                                                           : &(*at)->left;
    }
    return at;
}

static void tree_remove(struct treap *set, const struct treap_node *node)
{
    struct treap_node **at = (struct treap_node **)treap_place_of(set, node);
    struct treap_node *before = node->left;
    struct treap_node *behind = node->right;
    CHECK(*at == node);
    while (before != NULL && behind != NULL) {
        if (before->rank > behind->rank) {
            *at = before;
            at = &before->right;
            before = before->right;
        } else {
            *at = behind;
            at = &behind->left;
            behind = behind->left;
        }
    }
    *at = before != NULL ? before : behind;
}

/* --- The list ------------------------------------------------------------- */

static void list_add(struct treap *set, struct treap_node *node)
{
    node->is_fresh = true;
    node->left = set->newest;
    node->right = NULL;
    *(set->newest != NULL ? &set->newest->right : &set->oldest) = node;
    set->newest = node;
    set->fresh_count++;
}

static void list_drop(struct treap *set, struct treap_node *node)
{
    CHECK(node->is_fresh && set->fresh_count > 0);
    node->is_fresh = false;
    *(node->left != NULL ? &node->left->right : &set->oldest) = node->right;
    *(node->right != NULL ? &node->right->left : &set->newest) = node->left;
    set->fresh_count--;
}

static void take_in(struct treap *set, uint32_t left_over)
{
    while (set->fresh_count > left_over) {
        struct treap_node *node = set->oldest;
        list_drop(set, node);
        /* Only now: most nodes go before they come into the tree. */
        node->rank = (uint32_t)(hash_bytes(&node->number, sizeof node->number) ^
                                hash_bytes(node->key.data, node->key.size));
        tree_add(set, node);
    }
}

/* --- Both ----------------------------------------------------------------- */

void treap_add(struct treap *set, struct treap_node *node, struct bytes key,
               uint64_t number)
{
    *node = (struct treap_node){.key = key, .number = number};
    list_add(set, node);
    set->count++;
    take_in(set, TREAP_FRESH_MAX);
}

void treap_remove(struct treap *set, struct treap_node *node)
{
    CHECK(set->count > 0);
    if (node->is_fresh) {
        list_drop(set, node);
    } else {
        tree_remove(set, node);
    }
    set->count--;
    *node = (struct treap_node){0};
}

struct treap_node *treap_from(struct treap *set, struct bytes key,
                              uint64_t number)
{
    struct treap_node *found = NULL;
    take_in(set, 0);
    struct treap_node *at = set->root;
    while (at != NULL) {
        if (treap_is_before(at, key, number)) {
            at = at->right;
        } else {
            found = at;
            at = at->left;
        }
    }
    return found;
}

struct walk {
    struct bytes key;
    treap_visit_fn *visit;
    void *data;
};

/* Visits nodes from the start on. Only the path to the first of them takes
 * comparisons. The recursion is as deep as the tree, which is O(log n) on
 * average. */
static bool walk_tree(const struct walk *walk, struct treap_node *tree,
                      bool is_behind)
{
    while (tree != NULL) {
        if (is_behind || !treap_is_before(tree, walk->key, 0)) {
            if (!walk_tree(walk, tree->left, is_behind) ||
                !walk->visit(tree, walk->data)) {
                return false;
            }
            is_behind = true;
        }
        tree = tree->right;
    }
    return true;
}

void treap_each(struct treap *set, struct bytes key, treap_visit_fn *visit,
                void *data)
{
    struct walk walk = {key, visit, data};
    take_in(set, 0);
    (void)walk_tree(&walk, set->root, false);
}

bool treap_has(const struct treap *set, const struct treap_node *node)
{
    if (!node->is_fresh) {
        return *treap_place_of(set, node) == node;
    }
    return (node->left != NULL ? node->left->right : set->oldest) == node &&
           (node->right != NULL ? node->right->left : set->newest) == node;
}
