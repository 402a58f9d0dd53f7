/* SPDX-License-Identifier: MIT */

/* The parts of a disk in memory: folders and files, each as it is in the cache
 * and as it is on the disk. Private to sim_files.c, which has the rules. */

#ifndef HASP_TESTS_SIM_SIM_TREE_H
#define HASP_TESTS_SIM_SIM_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "tests/sim/sim_files.h"

#define NAME_SIZE_MAX 64

struct node;

struct name {
    char text[NAME_SIZE_MAX];
    struct node *node;
};

/* The names in a folder. */
struct names {
    struct name *of;
    uint32_t count;
    uint32_t capacity;
};

enum operation_kind { CHANGE_LINK, CHANGE_UNLINK, CHANGE_RENAME };

/* A change of a folder since it was flushed. */
struct change {
    enum operation_kind kind;
    char from[NAME_SIZE_MAX];
    char to[NAME_SIZE_MAX];
    struct node *node; /* NULL of CHANGE_UNLINK. */
};

/* A file or a folder. It lives as long as a name, a change or a descriptor
 * refers to it. */
struct node {
    struct files_machine *machine;
    uint32_t references;
    bool is_folder;
    /* A file. Both have room for 'capacity' bytes, and zeros after their
     * ends. */
    uint8_t *cache;
    uint8_t *disk;
    bool *is_dirty; /* By sector. */
    size_t capacity;
    size_t size;
    size_t disk_size;
    bool was_torn;
    int lock_fd; /* -1: not locked. */
    /* A folder. */
    struct names names; /* In the cache. */
    struct names disk_names;
    struct change *changes;
    uint32_t change_count;
    uint32_t change_capacity;
};

struct files_machine {
    char name[16];
    struct prng prng;
    struct node *root;
    uint64_t boot;
    uint64_t used;
    uint64_t limit; /* Limit of 'used'. */
    uint32_t dies_within;
    uint32_t fails_within;
    uint32_t open_count;
    bool is_dead;
    bool has_failed;
    bool was_full;
    bool refuses_dsync;
    struct node *rotten; /* The file in which a bit was flipped, or NULL. */
    size_t rot_at;
    uint8_t rot_bit;
    uint8_t rot_value; /* Value of the byte since then. */
};

size_t tree_sectors(size_t size);
bool tree_chance(struct files_machine *machine, uint64_t percent);

/* A node begins without a reference, and is freed with the last one. */
struct node *tree_new(struct files_machine *machine, bool is_folder);
struct node *tree_keep(struct node *node);
void tree_drop(struct node *node);

struct name *tree_find(const struct names *names, const char *text);
void tree_put(struct names *names, const char *text, struct node *node);
void tree_copy_names(struct names *to, const struct names *from);
void tree_drop_names(struct names *names);
/* Takes effect in the cache, and waits for a flush. */
void tree_change(struct node *folder, enum operation_kind kind,
                 const char *from, const char *to, struct node *node);
void tree_drop_changes(struct node *node);

void tree_resize(struct node *file, size_t size);
/* Each sector that 'percent' of chance lets through is written. */
void tree_write(struct node *file, const uint8_t *data, size_t size,
                size_t offset, uint64_t percent);
void tree_sector_to_disk(struct node *file, size_t sector);
void tree_flush(struct node *file);

/* Power has failed: the disk's content, and random additions, are left. */
void tree_lose(struct node *node);
/* Copies the cache's view. */
struct node *tree_copy(struct files_machine *machine, const struct node *from);

#endif /* HASP_TESTS_SIM_SIM_TREE_H */
