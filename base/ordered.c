/* SPDX-License-Identifier: MIT */

#include "base/ordered.h"

#include <stddef.h>

#include "base/check.h"
#include "base/hash.h"

static bool is_before(const struct ordered_node *node, struct bytes key,
                      uint64_t number)
{
    int order = bytes_compare(node->key, key);
    return order != 0 ? order < 0 : node->number < number;
}

/* --- The tree ------------------------------------------------------------- */

/* Splits a tree into what is before 'node' and what is behind. */
static void split(struct ordered_node *tree, const struct ordered_node *node,
                  struct ordered_node **before, struct ordered_node **behind)
{
    while (tree != NULL) {
        if (is_before(tree, node->key, node->number)) {
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

static void tree_add(struct ordered *set, struct ordered_node *node)
{
    struct ordered_node **at = &set->root;
    while (*at != NULL && (*at)->rank >= node->rank) {
        at = is_before(*at, node->key, node->number) ? &(*at)->right
                                                     : &(*at)->left;
    }
    split(*at, node, &node->left, &node->right);
    *at = node;
}

/* The pointer to 'node' in the tree, or the empty one where it belongs. */
static struct ordered_node *const *place_of(const struct ordered *set,
                                            const struct ordered_node *node)
{
    struct ordered_node *const *at = &set->root;
    while (*at != NULL && *at != node) {
        at = is_before(*at, node->key, node->number) ? &(*at)->right
                                                     : &(*at)->left;
    }
    return at;
}

static void tree_remove(struct ordered *set, const struct ordered_node *node)
{
    struct ordered_node **at = (struct ordered_node **)place_of(set, node);
    struct ordered_node *before = node->left;
    struct ordered_node *behind = node->right;
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

static void list_add(struct ordered *set, struct ordered_node *node)
{
    node->is_fresh = true;
    node->left = set->newest;
    node->right = NULL;
    *(set->newest != NULL ? &set->newest->right : &set->oldest) = node;
    set->newest = node;
    set->fresh_count++;
}

static void list_drop(struct ordered *set, struct ordered_node *node)
{
    CHECK(node->is_fresh && set->fresh_count > 0);
    node->is_fresh = false;
    *(node->left != NULL ? &node->left->right : &set->oldest) = node->right;
    *(node->right != NULL ? &node->right->left : &set->newest) = node->left;
    set->fresh_count--;
}

static void take_in(struct ordered *set, uint32_t left_over)
{
    while (set->fresh_count > left_over) {
        struct ordered_node *node = set->oldest;
        list_drop(set, node);
        tree_add(set, node);
    }
}

/* --- Both ----------------------------------------------------------------- */

void ordered_add(struct ordered *set, struct ordered_node *node,
                 struct bytes key, uint64_t number)
{
    uint64_t hash = hash_bytes(&number, sizeof number) ^
                    hash_bytes(key.data, key.size);
    *node = (struct ordered_node){
        .key = key, .number = number, .rank = (uint32_t)hash};
    list_add(set, node);
    set->count++;
    take_in(set, ORDERED_FRESH_MAX);
}

void ordered_remove(struct ordered *set, struct ordered_node *node)
{
    CHECK(set->count > 0);
    if (node->is_fresh) {
        list_drop(set, node);
    } else {
        tree_remove(set, node);
    }
    set->count--;
    *node = (struct ordered_node){0};
}

struct ordered_node *ordered_from(struct ordered *set, struct bytes key,
                                  uint64_t number)
{
    struct ordered_node *found = NULL;
    take_in(set, 0);
    struct ordered_node *at = set->root;
    while (at != NULL) {
        if (is_before(at, key, number)) {
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
    ordered_visit_fn *visit;
    void *data;
};

/* Visits nodes from the beginning on. Only the way to the first of them takes
 * comparisons. The recursion is as deep as the tree, which is not deep. */
static bool walk_tree(const struct walk *walk, struct ordered_node *tree,
                      bool is_behind)
{
    while (tree != NULL) {
        if (is_behind || !is_before(tree, walk->key, 0)) {
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

void ordered_each(struct ordered *set, struct bytes key,
                  ordered_visit_fn *visit, void *data)
{
    struct walk walk = {key, visit, data};
    take_in(set, 0);
    (void)walk_tree(&walk, set->root, false);
}

bool ordered_has(const struct ordered *set, const struct ordered_node *node)
{
    if (!node->is_fresh) {
        return *place_of(set, node) == node;
    }
    return (node->left != NULL ? node->left->right : set->oldest) == node &&
           (node->right != NULL ? node->right->left : set->newest) == node;
}
