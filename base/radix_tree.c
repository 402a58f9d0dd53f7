/* SPDX-License-Identifier: MIT */

#include "base/radix_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* The root has no bytes. All others have an item, or two children at least. */
struct prefix_node {
    struct prefix_node *parent;
    uint8_t *data; /* Owned; the bytes after the parent's. */
    size_t size;
    void *item;                    /* NULL if no string of the set ends here. */
    struct prefix_node **children; /* Owned; sorted by their first bytes. */
    uint32_t child_count;
    uint32_t capacity;
};

static struct prefix_node *radix_tree_node_new(struct prefix_node *parent,
                                               struct bytes bytes)
{
    struct prefix_node *node = memory_new(sizeof *node);
    node->parent = parent;
    if (bytes.size > 0) {
        node->data = memory_copy(bytes.data, bytes.size);
        node->size = bytes.size;
    }
    return node;
}

static void node_free(struct prefix_node *node)
{
    free(node->children);
    free(node->data);
    free(node);
}

/* The place of the child that begins with 'first', or its place if there is
 * none. */
static uint32_t radix_tree_place_of(const struct prefix_node *node,
                                    uint8_t first)
{
    uint32_t low = 0, high = node->child_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (node->children[middle]->data[0] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct prefix_node *child_of(const struct prefix_node *node,
                                    uint8_t first)
{
    uint32_t place = radix_tree_place_of(node, first);
    return place < node->child_count && node->children[place]->data[0] == first
               ? node->children[place]
               : NULL;
}

static void add_child(struct prefix_node *node, struct prefix_node *child)
{
    uint32_t place = radix_tree_place_of(node, child->data[0]);
    ROOM(node->children, node->capacity, (uint64_t)node->child_count + 1);
    memmove(&node->children[place + 1], &node->children[place],
            (node->child_count - place) * sizeof(struct prefix_node *));
    node->children[place] = child;
    node->child_count++;
    child->parent = node;
}

static void remove_child(struct prefix_node *node, struct prefix_node *child)
{
    uint32_t place = radix_tree_place_of(node, child->data[0]);
    CHECK(node->children[place] == child);
    node->child_count--;
    memmove(&node->children[place], &node->children[place + 1],
            (node->child_count - place) * sizeof(struct prefix_node *));
}

static void drop_first(struct prefix_node *node, size_t count)
{
    CHECK(count < node->size);
    node->size -= count;
    memmove(node->data, node->data + count, node->size);
}

/* Puts a node in front of 'node' for its first 'count' bytes; returns the new
 * node. */
static struct prefix_node *radix_tree_split(struct prefix_node *node,
                                            size_t count)
{
    struct prefix_node *parent = node->parent;
    struct prefix_node *upper = radix_tree_node_new(
        parent, bytes_of(node->data, count));
    parent->children[radix_tree_place_of(parent, node->data[0])] = upper;
    drop_first(node, count);
    add_child(upper, node);
    return upper;
}

static size_t common_size(const struct prefix_node *node, struct bytes bytes)
{
    size_t max = node->size < bytes.size ? node->size : bytes.size;
    size_t size = 0;
    while (size < max && node->data[size] == bytes.data[size]) {
        size++;
    }
    return size;
}

static struct bytes radix_tree_behind(struct bytes bytes, size_t count)
{
    return bytes_of(bytes.data + count, bytes.size - count);
}

void radix_tree_add(struct radix_tree *set, struct bytes prefix, void *item)
{
    CHECK(item != NULL);
    if (set->root == NULL) {
        set->root = radix_tree_node_new(NULL, (struct bytes){NULL, 0});
    }
    struct prefix_node *node = set->root;
    while (prefix.size > 0) {
        struct prefix_node *child = child_of(node, prefix.data[0]);
        if (child == NULL) {
            child = radix_tree_node_new(node, prefix);
            add_child(node, child);
        }
        size_t common = common_size(child, prefix);
        node = common < child->size ? radix_tree_split(child, common) : child;
        prefix = radix_tree_behind(prefix, common);
    }
    CHECK(node->item == NULL);
    node->item = item;
}

/* Joins a node with its only child, unless it has an item itself. */
static void radix_tree_merge(struct prefix_node *node)
{
    struct prefix_node *child = node->children[0];
    struct prefix_node *parent = node->parent;
    CHECK(node->child_count == 1 && node->item == NULL && parent != NULL);
    child->data = memory_resize(child->data, node->size + child->size);
    memmove(child->data + node->size, child->data, child->size);
    memcpy(child->data, node->data, node->size);
    child->size += node->size;
    child->parent = parent;
    parent->children[radix_tree_place_of(parent, child->data[0])] = child;
    node_free(node);
}

void radix_tree_remove(struct radix_tree *set, struct bytes prefix)
{
    struct prefix_node *node = set->root;
    while (prefix.size > 0) {
        CHECK(node != NULL);
        node = child_of(node, prefix.data[0]);
        CHECK(node != NULL && common_size(node, prefix) == node->size);
        prefix = radix_tree_behind(prefix, node->size);
    }
    CHECK(node != NULL && node->item != NULL);
    node->item = NULL;
    if (node->child_count == 0 && node->parent != NULL) {
        struct prefix_node *parent = node->parent;
        remove_child(parent, node);
        node_free(node);
        node = parent;
    }
    /* A node without an item has at least two children, except the root. */
    if (node->parent != NULL && node->item == NULL && node->child_count == 1) {
        radix_tree_merge(node);
    } else if (node->parent == NULL && node->item == NULL &&
               node->child_count == 0) {
        node_free(node);
        set->root = NULL;
    }
}

struct radix_tree_walk radix_tree_begin(const struct radix_tree *set,
                                        struct bytes name)
{
    return (struct radix_tree_walk){set->root, name};
}

void *radix_tree_next(struct radix_tree_walk *walk)
{
    void *item = NULL;
    while (walk->at != NULL && item == NULL) {
        const struct prefix_node *node = walk->at;
        if (common_size(node, walk->left) < node->size) {
            /* The name ends, or differs, within the node's bytes. */
            walk->at = NULL;
            return NULL;
        }
        walk->left = radix_tree_behind(walk->left, node->size);
        item = node->item;
        walk->at = walk->left.size > 0 ? child_of(node, walk->left.data[0])
                                       : NULL;
    }
    return item;
}
