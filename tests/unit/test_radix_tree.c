/* SPDX-License-Identifier: MIT */

/* A set of prefixes, compared with trying all of them one after the other. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "base/radix_tree.h"

#define ITEM_COUNT 400
#define TEXT_SIZE 12

struct item {
    char text[TEXT_SIZE + 1];
    bool is_in;
};

static struct item *items;
static struct radix_tree set;
static struct prng prng;

static int set_up(void **state)
{
    (void)state;
    prng = (struct prng){7};
    set = (struct radix_tree){0};
    items = memory_new(ITEM_COUNT * sizeof *items);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (items[i].is_in) {
            radix_tree_remove(&set, bytes_of_text(items[i].text));
        }
    }
    assert_null(set.root); /* Nothing remains. */
    free(items);
    return 0;
}

/* Few letters, so that many have the same beginning. */
static void draw(char text[TEXT_SIZE + 1])
{
    uint64_t size = prng_below(&prng, TEXT_SIZE + 1);
    for (uint64_t i = 0; i < size; i++) {
        text[i] = (char)('a' + prng_below(&prng, 3));
    }
    text[size] = '\0';
}

static struct item *find(const char *text)
{
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (items[i].is_in && strcmp(items[i].text, text) == 0) {
            return &items[i];
        }
    }
    return NULL;
}

static void check(struct bytes name)
{
    struct radix_tree_walk walk = radix_tree_begin(&set, name);
    for (size_t size = 0; size <= name.size; size++) {
        char text[TEXT_SIZE + 1] = "";
        memcpy(text, name.data, size);
        struct item *item = find(text);
        if (item != NULL) {
            assert_ptr_equal(radix_tree_next(&walk), item);
        }
    }
    assert_null(radix_tree_next(&walk));
    assert_null(radix_tree_next(&walk));
}

static void an_empty_set_has_no_prefix(void **state)
{
    (void)state;
    check(BYTES_LITERAL("abc"));
    check(BYTES_LITERAL(""));
}

static void what_comes_and_goes_is_found_in_between(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        struct item *item = &items[prng_below(&prng, ITEM_COUNT)];
        char name[TEXT_SIZE + 1];
        if (item->is_in) {
            radix_tree_remove(&set, bytes_of_text(item->text));
            item->is_in = false;
        } else {
            draw(name);
            if (find(name) == NULL) {
                snprintf(item->text, sizeof item->text, "%s", name);
                radix_tree_add(&set, bytes_of_text(item->text), item);
                item->is_in = true;
            }
        }
        draw(name);
        check(bytes_of_text(name));
    }
}

static void bytes_of_any_value_part_strings(void **state)
{
    (void)state;
    static const uint8_t names[][3] = {
        {0, 0, 0}, {0, 0, 255}, {0, 255, 0}, {255, 0, 0}, {255, 255, 255}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        radix_tree_add(&set, bytes_of(names[i], 3), (void *)names[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct radix_tree_walk walk = radix_tree_begin(&set,
                                                       bytes_of(names[i], 3));
        assert_ptr_equal(radix_tree_next(&walk), names[i]);
        assert_null(radix_tree_next(&walk));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        radix_tree_remove(&set, bytes_of(names[i], 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_set_has_no_prefix, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_comes_and_goes_is_found_in_between,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_of_any_value_part_strings, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
