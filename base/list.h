/* SPDX-License-Identifier: MIT */

/* An intrusive, circular, doubly linked list.
 *
 * The head is a node of its own; an element embeds a node and is found from it
 * with LIST_ENTRY. A node that is not in a list points to itself, so removing
 * it twice does no harm. */

#ifndef HASP_BASE_LIST_H
#define HASP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}
static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}
static inline void list_insert_before(struct list *at, struct list *node)
{
    node->next = at;
    node->prev = at->prev;
    at->prev->next = node;
    at->prev = node;
}
static inline void list_push_back(struct list *list, struct list *node)
{
    list_insert_before(list, node);
}
static inline void list_push_front(struct list *list, struct list *node)
{
    list_insert_before(list->next, node);
}
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#define LIST_ENTRY(node, type, member) \
    ((type *)((char *)(node)-offsetof(type, member)))
#define LIST_FIRST(list, type, member) \
    (list_is_empty(list) ? NULL : LIST_ENTRY((list)->next, type, member))
/* 'head' and not 'list' here: the struct's name must survive the expansion. */
#define LIST_EACH(node, head) \
    for (struct list *node = (head)->next; node != (head); node = node->next)
/* Iterates over the elements themselves; 'at' is a pointer to 'type'. */
#define LIST_FOR(type, at, head, member)                    \
    for (type *at = LIST_ENTRY((head)->next, type, member); \
         &at->member != (head);                             \
         at = LIST_ENTRY(at->member.next, type, member))
/* The same; the current element may be removed and freed. */
#define LIST_FOR_SAFE(type, at, head, member)                         \
    for (type *at = LIST_ENTRY((head)->next, type, member),           \
              *at##_next = LIST_ENTRY(at->member.next, type, member); \
         &at->member != (head); at = at##_next,                       \
              at##_next = LIST_ENTRY(at##_next->member.next, type, member))
/* The current node may be removed. */
#define LIST_EACH_SAFE(node, head)                                    \
    for (struct list *node = (head)->next, *node##_next = node->next; \
         node != (head); node = node##_next, node##_next = node->next)

#endif /* HASP_BASE_LIST_H */
