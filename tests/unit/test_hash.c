/* SPDX-License-Identifier: MIT */

/* Tables that grow by one bucket at a time. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/memory.h"

#define MANY 50000

struct thing {
    uint32_t key;
    UT_hash_handle by_key;
};

static struct thing *find(struct thing *things, uint32_t key)
{
    struct thing *found;
    HASH_FIND(by_key, things, &key, sizeof key, found);
    return found;
}

/* Each item is in the bucket in which a search expects it, and the counts are
 * right. */
static void check_table(const struct thing *things)
{
    const struct UT_hash_table *table = things->by_key.tbl;
    uint32_t total = 0;
    for (uint32_t i = 0; i < table->num_buckets; i++) {
        uint32_t count = 0;
        const struct UT_hash_handle *before = NULL;
        for (const struct UT_hash_handle *item = table->buckets[i].hh_head;
             item != NULL; item = item->hh_next) {
            assert_int_equal(hash_bucket(item->hashv, table->num_buckets), i);
            assert_ptr_equal(item->hh_prev, before);
            before = item;
            count++;
        }
        assert_int_equal(table->buckets[i].count, count);
        total += count;
    }
    assert_int_equal(table->num_items, total);
}

static uint32_t longest_bucket(const struct thing *things)
{
    const struct UT_hash_table *table = things->by_key.tbl;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < table->num_buckets; i++) {
        longest = table->buckets[i].count > longest ? table->buckets[i].count
                                                    : longest;
    }
    return longest;
}

static void a_table_grows_by_one_bucket_at_a_time(void **state)
{
    struct thing *things = NULL, *space = memory_new(MANY * sizeof *space);
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        struct thing *thing = &space[i];
        unsigned before = i == 0 ? 32 : things->by_key.tbl->num_buckets;
        thing->key = i;
        HASH_ADD(by_key, things, key, sizeof thing->key, thing);
        unsigned after = things->by_key.tbl->num_buckets;
        assert_true(after == before || after == before + 1);
        assert_true(i / HASH_LOAD <= after);
        if (i % 997 == 0 || (i > 30 && i < 300)) {
            check_table(things);
        }
    }
    check_table(things);
    assert_true(things->by_key.tbl->num_buckets >= MANY / HASH_LOAD);
    assert_true(longest_bucket(things) < 32);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(find(things, i), &space[i]);
    }
    assert_null(find(things, MANY));
    HASH_CLEAR(by_key, things);
    free(space);
}

static void what_is_deleted_is_gone_and_may_come_again(void **state)
{
    struct thing *things = NULL, *space = memory_new(MANY * sizeof *space);
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            space[i].key = i;
            HASH_ADD(by_key, things, key, sizeof space[i].key, &space[i]);
            if (i % 3 == 0) {
                HASH_DELETE(by_key, things, &space[i]);
            }
        }
        check_table(things);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_ptr_equal(find(things, i), i % 3 == 0 ? NULL : &space[i]);
        }
        for (uint32_t i = 0; i < MANY; i++) {
            if (i % 3 != 0) {
                HASH_DELETE(by_key, things, &space[i]);
            }
        }
        assert_null(things);
    }
    free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_grows_by_one_bucket_at_a_time),
        cmocka_unit_test(what_is_deleted_is_gone_and_may_come_again),
    };
    hash_seed_set(7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
