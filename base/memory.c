/* SPDX-License-Identifier: MIT */

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void *memory_new(size_t size)
{
    void *memory = calloc(1, size > 0 ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

void *memory_resize(void *memory, size_t size)
{
    void *resized = realloc(memory, size > 0 ? size : 1);
    CHECK(resized != NULL);
    return resized;
}

void *memory_room(void *array, uint32_t *capacity, uint64_t needed,
                  size_t element_size)
{
    CHECK(needed <= UINT32_MAX / 2);
    if (needed <= *capacity) {
        return array;
    }
    uint32_t larger = *capacity < 16 ? 16 : *capacity;
    while (larger < needed) {
        larger *= 2;
    }
    *capacity = larger;
    return memory_resize(array, larger * element_size);
}

void *memory_copy(const void *data, size_t size)
{
    void *memory = malloc(size > 0 ? size : 1);
    CHECK(memory != NULL);
    if (size > 0) {
        memcpy(memory, data, size);
    }
    return memory;
}

char *memory_text(const char *text)
{
    return memory_copy(text, strlen(text) + 1);
}

void auto_free(void *pointer_to_pointer)
{
    void **pointer = pointer_to_pointer;
    free(*pointer);
    *pointer = NULL;
}
