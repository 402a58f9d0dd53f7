/* SPDX-License-Identifier: MIT */

/* An ordered set, compared with a sorted array. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/prng.h"
#include "base/treap.h"

#define ITEM_COUNT 20000

struct item {
    struct treap_node node;
    char key[16];
    uint64_t number;
    bool is_in;
};

static struct item *items;
static struct treap set;

static struct bytes key_of(const struct item *item)
{
    return bytes_of_text(item->key);
}

/* Few letters, so that many keys begin alike, and some are equal. */
static int set_up(void **state)
{
    (void)state;
    struct prng prng = {11};
    hash_seed_set(11);
    items = memory_new(ITEM_COUNT * sizeof *items);
    for (uint64_t i = 0; i < ITEM_COUNT; i++) {
        uint64_t size = prng_below(&prng, sizeof items[i].key);
        for (uint64_t k = 0; k < size; k++) {
            items[i].key[k] = (char)('a' + prng_below(&prng, 3));
        }
        items[i].number = i;
    }
    set = (struct treap){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(items);
    return 0;
}

static void flip(struct item *item)
{
    if (item->is_in) {
        treap_remove(&set, &item->node);
    } else {
        treap_add(&set, &item->node, key_of(item), item->number);
    }
    item->is_in = !item->is_in;
}

static int compare(const void *a, const void *b)
{
    const struct item *x = *(const struct item *const *)a;
    const struct item *y = *(const struct item *const *)b;
    int order = bytes_compare(key_of(x), key_of(y));
    return order != 0 ? order
                      : (x->number > y->number) - (x->number < y->number);
}

struct seen {
    struct item **model;
    size_t at;
    size_t end; /* Where the walk has to stop. */
};

static bool see(struct treap_node *node, void *data)
{
    struct seen *seen = data;
    assert_in_range(seen->at + 1, 1, seen->end);
    assert_ptr_equal(node, &seen->model[seen->at]->node);
    return ++seen->at < seen->end;
}

/* From every start, to the end and to a key in between. */
static void assert_walked(struct item **model, size_t count)
{
    for (size_t i = 0; i < count; i += 1 + count / 7) {
        struct bytes key = key_of(model[i]);
        size_t first = i; /* The first item with this key. */
        while (first > 0 && bytes_compare(key_of(model[first - 1]), key) == 0) {
            first--;
        }
        for (size_t end = first + 1; end <= count; end += 1 + count / 3) {
            struct seen seen = {model, first, end};
            treap_each(&set, key, see, &seen);
            assert_int_equal(seen.at, end);
        }
        struct seen all = {model, first, SIZE_MAX};
        treap_each(&set, key, see, &all);
        assert_int_equal(all.at, count);
    }
}

/* All items, and no others, in order. */
static void assert_listed(void)
{
    struct item **model = memory_new(ITEM_COUNT * sizeof *model);
    size_t count = 0;
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        if (items[i].is_in) {
            assert_true(treap_has(&set, &items[i].node));
            model[count++] = &items[i];
        }
    }
    assert_int_equal(set.count, count);
    qsort(model, count, sizeof *model, compare);
    struct treap_node *node = treap_from(&set, bytes_of("", 0), 0);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(node, &model[i]->node);
        node = treap_from(&set, node->key, node->number + 1);
    }
    assert_null(node);
    assert_walked(model, count);
    free(model);
}

static void what_there_is_is_listed_in_order(void **state)
{
    (void)state;
    struct prng prng = {12};
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < ITEM_COUNT / 4; i++) {
            flip(&items[prng_below(&prng, ITEM_COUNT)]);
        }
        assert_listed();
    }
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (items[i].is_in) {
            flip(&items[i]);
        }
    }
    assert_listed();
    assert_null(set.root);
    assert_null(set.oldest);
}

static void what_comes_and_goes_at_once_is_not_sorted(void **state)
{
    (void)state;
    for (int i = 0; i < TREAP_FRESH_MAX; i++) {
        flip(&items[i]);
    }
    assert_null(set.root);
    assert_int_equal(set.fresh_count, TREAP_FRESH_MAX);
    flip(&items[7]);
    flip(&items[0]);
    flip(&items[TREAP_FRESH_MAX - 1]);
    flip(&items[0]);
    flip(&items[7]);
    assert_null(set.root);
    /* The list is bounded: from here on the oldest are dropped. */
    flip(&items[TREAP_FRESH_MAX]);
    flip(&items[TREAP_FRESH_MAX - 1]);
    assert_int_equal(set.fresh_count, TREAP_FRESH_MAX);
    assert_ptr_equal(set.root, &items[1].node);
    assert_listed();
    assert_int_equal(set.fresh_count, 0);
}

/* Changes to items that are not yet listed, or were, do not mislead a reader
 * that continues from the last one: each remaining item is met exactly once. */
static void a_listing_under_changes_meets_what_stays_once(void **state)
{
    (void)state;
    uint8_t *met = memory_new(ITEM_COUNT);
    struct prng prng = {13};
    for (int i = 0; i < ITEM_COUNT; i++) {
        flip(&items[i]);
    }
    struct treap_node *node = treap_from(&set, bytes_of("", 0), 0);
    while (node != NULL) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        met[item->number]++;
        for (int i = 0; i < 2; i++) {
            /* Each third one stays. */
            uint64_t other = prng_below(&prng, ITEM_COUNT);
            if (other % 3 != 0) {
                flip(&items[other]);
            }
        }
        node = treap_from(&set, key_of(item), item->number + 1);
    }
    for (int i = 0; i < ITEM_COUNT; i += 3) {
        assert_int_equal(met[i], 1);
    }
    free(met);
}

static uint32_t depth_of(const struct treap_node *node)
{
    uint32_t left = node != NULL ? depth_of(node->left) : 0;
    uint32_t right = node != NULL ? depth_of(node->right) : 0;
    return node == NULL ? 0 : 1 + (left > right ? left : right);
}

/* In the order in which a plain search tree would become a list. */
static void names_that_ascend_make_no_deep_tree(void **state)
{
    (void)state;
    for (int i = 0; i < ITEM_COUNT; i++) {
        snprintf(items[i].key, sizeof items[i].key, "%08d", i);
        flip(&items[i]);
    }
    treap_from(&set, bytes_of("", 0), 0);
    assert_true(depth_of(set.root) < 60);
}

static void numbers_are_in_order_at_their_ends_too(void **state)
{
    static const uint64_t in_order[] = {0, 1, UINT64_MAX - 1, UINT64_MAX};
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            int order = u64_order(in_order[i], in_order[j]);
            assert_true(i < j ? order < 0 : i > j ? order > 0 : order == 0);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_in_order_at_their_ends_too),
        TEST(what_there_is_is_listed_in_order),
        TEST(what_comes_and_goes_at_once_is_not_sorted),
        TEST(a_listing_under_changes_meets_what_stays_once),
        TEST(names_that_ascend_make_no_deep_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
