/* SPDX-License-Identifier: MIT */

/* Allocation for programs that stop when memory runs out (daemon, tool). The
 * client library does not use it: it returns HASP_ENOMEM. */

#ifndef HASP_BASE_MEMORY_H
#define HASP_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory; never NULL. Release with free(). */
void *memory_new(size_t size);
void *memory_resize(void *memory, size_t size);
void *memory_copy(const void *data, size_t size);
char *memory_text(const char *text);

/* Ensures that an array has room for 'needed' elements. It at least doubles its
 * size, so that adding elements one by one takes constant time each. 'capacity'
 * is a uint32_t. */
#define ROOM(array, capacity, needed) \
    ((array) = memory_room(array, &(capacity), needed, sizeof *(array)))
void *memory_room(void *array, uint32_t *capacity, uint64_t needed,
                  size_t element_size);

/* Leaves the scope with 'memory' freed. */
#define AUTO(function) __attribute__((cleanup(function)))
void auto_free(void *pointer_to_pointer);

#endif /* HASP_BASE_MEMORY_H */
