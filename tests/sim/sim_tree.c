/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define BLOCK_SIZE 4096u

size_t tree_sectors(size_t size)
{
    return (size + FILES_SECTOR_SIZE - 1) / FILES_SECTOR_SIZE;
}

bool tree_chance(struct files_machine *machine, uint64_t percent)
{
    return prng_below(&machine->prng, 100) < percent;
}

/* --- Nodes and names ------------------------------------------------------ */

struct node *tree_new(struct files_machine *machine, bool is_folder)
{
    struct node *node = memory_new(sizeof *node);
    node->machine = machine;
    node->is_folder = is_folder;
    node->lock_fd = -1;
    return node;
}

void tree_drop(struct node *node)
{
    CHECK(node->references > 0);
    if (--node->references > 0) {
        return;
    }
    node->machine->used -= node->size;
    tree_drop_names(&node->names);
    tree_drop_names(&node->disk_names);
    tree_drop_changes(node);
    free(node->changes);
    free(node->cache);
    free(node->disk);
    free(node->is_dirty);
    free(node);
}

struct node *tree_keep(struct node *node)
{
    node->references++;
    return node;
}

void tree_drop_names(struct names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        tree_drop(names->of[i].node);
    }
    free(names->of);
    *names = (struct names){0};
}

void tree_drop_changes(struct node *node)
{
    for (uint32_t i = 0; i < node->change_count; i++) {
        if (node->changes[i].node != NULL) {
            tree_drop(node->changes[i].node);
        }
    }
    node->change_count = 0;
}

struct name *tree_find(const struct names *names, const char *text)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->of[i].text, text) == 0) {
            return &names->of[i];
        }
    }
    return NULL;
}

static void name_remove(struct names *names, const char *text)
{
    struct name *name = tree_find(names, text);
    if (name != NULL) {
        tree_drop(name->node);
        uint32_t at = (uint32_t)(name - names->of);
        names->count--;
        memmove(name, name + 1, (names->count - at) * sizeof *name);
    }
}

void tree_put(struct names *names, const char *text, struct node *node)
{
    tree_keep(node);
    name_remove(names, text);
    if (names->count == names->capacity) {
        names->capacity = 2 * names->capacity + 8;
        names->of = memory_resize(names->of,
                                  names->capacity * sizeof *names->of);
    }
    struct name *name = &names->of[names->count++];
    name->node = node;
    snprintf(name->text, sizeof name->text, "%s", text);
}

static void change_apply(struct names *names, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_LINK:
        tree_put(names, change->to, change->node);
        break;
    case CHANGE_UNLINK:
        name_remove(names, change->from);
        break;
    case CHANGE_RENAME: {
        const struct name *from = tree_find(names, change->from);
        bool is_from = from != NULL && from->node == change->node;
        tree_put(names, change->to, change->node);
        if (is_from) {
            name_remove(names, change->from);
        }
        break;
    }
    }
}

void tree_change(struct node *folder, enum operation_kind kind,
                 const char *from, const char *to, struct node *node)
{
    if (folder->change_count == folder->change_capacity) {
        folder->change_capacity = 2 * folder->change_capacity + 8;
        folder->changes = memory_resize(
            folder->changes, folder->change_capacity * sizeof *folder->changes);
    }
    struct change *change = &folder->changes[folder->change_count++];
    *change = (struct change){.kind = kind};
    snprintf(change->from, sizeof change->from, "%s", from);
    snprintf(change->to, sizeof change->to, "%s", to);
    if (node != NULL) {
        change->node = tree_keep(node);
    }
    change_apply(&folder->names, change);
}

void tree_copy_names(struct names *to, const struct names *from)
{
    struct names old = *to;
    *to = (struct names){0};
    for (uint32_t i = 0; i < from->count; i++) {
        tree_put(to, from->of[i].text, from->of[i].node);
    }
    tree_drop_names(&old);
}

/* --- Files ---------------------------------------------------------------- */

static void file_reserve(struct node *file, size_t size)
{
    if (size <= file->capacity) {
        return;
    }
    size_t capacity = file->capacity == 0 ? BLOCK_SIZE : file->capacity;
    while (capacity < size) {
        capacity *= 2;
    }
    size_t more = capacity - file->capacity;
    file->cache = memory_resize(file->cache, capacity);
    file->disk = memory_resize(file->disk, capacity);
    file->is_dirty = memory_resize(file->is_dirty,
                                   tree_sectors(capacity) * sizeof(bool));
    memset(file->cache + file->capacity, 0, more);
    memset(file->disk + file->capacity, 0, more);
    memset(file->is_dirty + tree_sectors(file->capacity), 0,
           (tree_sectors(capacity) - tree_sectors(file->capacity)) *
               sizeof(bool));
    file->capacity = capacity;
}

void tree_resize(struct node *file, size_t size)
{
    file_reserve(file, size);
    if (size < file->size) {
        memset(file->cache + size, 0, file->size - size);
        for (size_t i = size / FILES_SECTOR_SIZE; i < tree_sectors(file->size);
             i++) {
            file->is_dirty[i] = true;
        }
    }
    file->machine->used += size - file->size;
    file->size = size;
}

void tree_sector_to_disk(struct node *file, size_t sector)
{
    size_t at = sector * FILES_SECTOR_SIZE;
    memcpy(file->disk + at, file->cache + at, FILES_SECTOR_SIZE);
    file->is_dirty[sector] = false;
}

void tree_flush(struct node *file)
{
    for (size_t i = 0; i < tree_sectors(file->capacity); i++) {
        if (file->is_dirty[i]) {
            tree_sector_to_disk(file, i);
        }
    }
    file->disk_size = file->size;
}

void tree_write(struct node *file, const uint8_t *data, size_t size,
                size_t offset, uint64_t percent)
{
    size_t end = offset + size;
    if (end > file->size) {
        tree_resize(file, end);
    }
    while (offset < end) {
        size_t sector = offset / FILES_SECTOR_SIZE;
        size_t next = (sector + 1) * FILES_SECTOR_SIZE;
        size_t part = (next < end ? next : end) - offset;
        if (tree_chance(file->machine, percent)) {
            memcpy(file->cache + offset, data, part);
            file->is_dirty[sector] = true;
        }
        data += part;
        offset += part;
    }
}

/* Power has failed: only the disk's content is left. */
static void file_lose(struct node *file)
{
    static const uint64_t percents[] = {0, 0, 10, 50, 90, 100};
    struct files_machine *machine = file->machine;
    uint64_t percent = percents[prng_below(&machine->prng, 6)];
    file->lock_fd = -1;
    file->was_torn = false;
    if (file->capacity == 0) {
        return; /* Nothing was ever written. */
    }
    size_t size = file->disk_size;
    if (file->size != file->disk_size && tree_chance(machine, percent)) {
        size = file->size;
    }
    file->was_torn = size != file->size;
    for (size_t i = 0; i < tree_sectors(file->capacity); i++) {
        size_t at = i * FILES_SECTOR_SIZE;
        if (file->is_dirty[i] && tree_chance(machine, percent)) {
            tree_sector_to_disk(file, i);
        }
        file->was_torn |= memcmp(file->disk + at, file->cache + at,
                                 FILES_SECTOR_SIZE) != 0;
        file->is_dirty[i] = false;
    }
    memset(file->disk + size, 0, file->capacity - size);
    memcpy(file->cache, file->disk, file->capacity);
    machine->used += size - file->size;
    file->size = file->disk_size = size;
}

void tree_lose(struct node *node)
{
    static const uint64_t percents[] = {0, 50, 100};
    if (!node->is_folder) {
        file_lose(node);
        return;
    }
    uint64_t percent = percents[prng_below(&node->machine->prng, 3)];
    bool is_torn = false;
    for (uint32_t i = 0; i < node->change_count; i++) {
        if (tree_chance(node->machine, percent)) {
            change_apply(&node->disk_names, &node->changes[i]);
        } else {
            is_torn = true;
        }
    }
    node->was_torn = is_torn;
    tree_copy_names(&node->names, &node->disk_names);
    tree_drop_changes(node);
    for (uint32_t i = 0; i < node->names.count; i++) {
        tree_lose(node->names.of[i].node);
    }
}

struct node *tree_copy(struct files_machine *machine, const struct node *from)
{
    struct node *to = tree_new(machine, from->is_folder);
    if (!from->is_folder) {
        tree_resize(to, from->size);
        if (from->size > 0) {
            memcpy(to->cache, from->cache, from->size);
            memcpy(to->disk, from->cache, from->size);
        }
        to->disk_size = to->size;
        return to;
    }
    for (uint32_t i = 0; i < from->names.count; i++) {
        const struct name *name = &from->names.of[i];
        tree_put(&to->names, name->text, tree_copy(machine, name->node));
    }
    tree_copy_names(&to->disk_names, &to->names);
    return to;
}
