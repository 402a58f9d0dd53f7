/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_lives.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define NEVER UINT64_MAX

struct life {
    UT_hash_handle hh;
    /* Pairs: the entry from which it existed, and the entry from which it no
     * longer did, or NEVER. */
    struct buffer spans;
    bool is_there;
    uint64_t seen; /* By the newest entry after which it existed. */
    size_t name_size;
    uint8_t name[];
};

struct sim_lives {
    struct life *by_name;
};

struct sim_lives *sim_lives_new(void)
{
    return memory_new(sizeof(struct sim_lives));
}

void sim_lives_free(struct sim_lives *lives)
{
    struct life *life, *next;
    HASH_ITER (hh, lives->by_name, life, next) {
        HASH_DEL(lives->by_name, life);
        buffer_done(&life->spans);
        free(life);
    }
    free(lives);
}

static struct life *find(const struct sim_lives *lives, struct bytes name)
{
    struct life *life = NULL;
    HASH_FIND(hh, lives->by_name, name.data, name.size, life);
    return life;
}

static struct life *obtain(struct sim_lives *lives, struct bytes name)
{
    struct life *life = find(lives, name);
    if (life == NULL) {
        life = memory_new(sizeof *life + name.size);
        life->name_size = name.size;
        memcpy(life->name, name.data, name.size);
        HASH_ADD_KEYPTR(hh, lives->by_name, life->name, life->name_size, life);
    }
    return life;
}

void sim_lives_entry(struct sim_lives *lives, uint64_t index,
                     const struct lockfsm *fsm)
{
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        struct life *life = obtain(lives, lock->name);
        life->seen = index;
        if (!life->is_there) {
            life->is_there = true;
            buffer_put_u64(&life->spans, index);
            buffer_put_u64(&life->spans, NEVER);
        }
    }
    for (struct life *life = lives->by_name; life != NULL;
         life = life->hh.next) {
        if (life->is_there && life->seen != index) {
            life->is_there = false;
            life->spans.size -= sizeof(uint64_t);
            buffer_put_u64(&life->spans, index);
        }
    }
}

bool sim_lives_sometime(const struct sim_lives *lives, struct bytes name,
                        uint64_t from, uint64_t to)
{
    const struct life *life = find(lives, name);
    struct reader reader = reader_of(life != NULL ? buffer_bytes(&life->spans)
                                                  : bytes_of("", 0));
    bool is_found = false;
    while (reader_left(&reader) > 0) {
        uint64_t begin = reader_u64(&reader);
        uint64_t end = reader_u64(&reader);
        is_found |= begin <= to && end > from;
    }
    return is_found;
}
