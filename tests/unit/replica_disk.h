/* SPDX-License-Identifier: MIT */

/* What a disk of replica_world.h holds, and what is on its way there. */

#ifndef HASP_TESTS_UNIT_REPLICA_DISK_H
#define HASP_TESTS_UNIT_REPLICA_DISK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "raft/replica.h"

struct world_entry {
    uint64_t term;
    enum replica_entry_type type;
    struct buffer body;
};

struct world_disk {
    struct world_entry *entries;
    uint64_t base; /* The first entry is base + 1. */
    uint64_t count;
    uint64_t capacity;
};

struct world_write {
    uint64_t at_ms;
    uint64_t flush_ms;
    uint64_t truncate_from; /* 0: none. */
    uint64_t first;
    struct world_entry *entries;
    uint64_t count;
};

struct world_snapshot {
    uint64_t log_index;
    uint64_t term;
    uint64_t state;
    struct buffer members;
    uint64_t members_index;
};

static inline void world_disk_truncate(struct world_disk *disk, uint64_t from)
{
    while (disk->count > 0 && disk->base + disk->count >= from) {
        disk->count--;
        buffer_done(&disk->entries[disk->count].body);
    }
}

static inline void world_disk_trim(struct world_disk *disk, uint64_t up_to)
{
    while (disk->count > 0 && disk->base < up_to) {
        buffer_done(&disk->entries[0].body);
        disk->count--;
        disk->base++;
        memmove(disk->entries, disk->entries + 1,
                disk->count * sizeof *disk->entries);
    }
}

/* Takes the entry over. */
static inline void world_disk_append(struct world_disk *disk,
                                     uint64_t log_index,
                                     struct world_entry entry)
{
    if (disk->count == 0) {
        disk->base = log_index - 1;
    }
    assert_int_equal(log_index, disk->base + disk->count + 1);
    if (disk->count == disk->capacity) {
        disk->capacity = disk->capacity * 2 + 64;
        disk->entries = memory_resize(disk->entries,
                                      disk->capacity * sizeof *disk->entries);
    }
    disk->entries[disk->count++] = entry;
}

static inline void world_write_done(struct world_write *write)
{
    for (uint64_t i = 0; i < write->count; i++) {
        buffer_done(&write->entries[i].body);
    }
    free(write->entries);
}

static inline void world_snapshot_copy(struct world_snapshot *to,
                                       const struct world_snapshot *from)
{
    struct buffer members = to->members;
    buffer_clear(&members);
    buffer_put_bytes(&members, buffer_bytes(&from->members));
    *to = *from;
    to->members = members;
}

#endif /* HASP_TESTS_UNIT_REPLICA_DISK_H */
