/* SPDX-License-Identifier: MIT */

/* Classes of lock names: which are valid, which a name belongs to, and what
 * each counts. */

#include <string.h>

#include "core/name_classes.h"
#include "core/state.h"
#include "tests/unit/core_world.h"

static struct name_classes classes;

static const char *class_of(const char *name)
{
    const struct core_class *class = name_classes_find(&classes,
                                                       bytes_of_text(name));
    return class == NULL ? NULL : class->prefix;
}

static int done(void **state)
{
    (void)state;
    name_classes_done(&classes);
    assert_int_equal(classes.count, 0);
    return 0;
}

static void the_longest_prefix_wins(void **state)
{
    (void)state;
    assert_null(class_of("a"));
    name_classes_use(&classes, " orders/\torders/eu/  r ");
    assert_string_equal(class_of("orders/7"), "orders/");
    assert_string_equal(class_of("orders/eu/7"), "orders/eu/");
    assert_string_equal(class_of("orders/eu/"), "orders/eu/");
    assert_string_equal(class_of("orders/e"), "orders/");
    assert_string_equal(class_of("r"), "r");
    assert_string_equal(class_of("orders"), "other");
    assert_string_equal(class_of(""), "other");
    assert_int_equal(classes.count, 4);
}

static void a_class_that_stays_keeps_its_counts(void **state)
{
    (void)state;
    name_classes_use(&classes, "a b");
    name_classes_find(&classes, bytes_of_text("a1"))->grants = 3;
    name_classes_find(&classes, bytes_of_text("b1"))->grants = 4;
    name_classes_find(&classes, bytes_of_text("c1"))->grants = 5;
    name_classes_use(&classes, "c a");
    assert_int_equal(name_classes_find(&classes, bytes_of_text("a1"))->grants,
                     3);
    assert_int_equal(name_classes_find(&classes, bytes_of_text("c1"))->grants,
                     0);
    /* 'b' is now without a class, and what it had is not added to "other". */
    assert_string_equal(class_of("b1"), "other");
    assert_int_equal(name_classes_find(&classes, bytes_of_text("b1"))->grants,
                     5);
    name_classes_use(&classes, "");
    assert_null(class_of("a1"));
}

/* Returns the word that is not allowed, or "". */
static const char *wrong(const char *text)
{
    static char word[256];
    struct bytes found = {0};
    word[0] = '\0';
    if (!name_classes_are_valid(text, &found)) {
        snprintf(word, sizeof word, "%.*s", (int)found.size,
                 (const char *)found.data);
    }
    return word;
}

static void what_is_not_a_list_of_prefixes_is_named(void **state)
{
    (void)state;
    char text[NAME_CLASS_SIZE_MAX + 2];
    assert_string_equal(wrong(NULL), "");
    assert_string_equal(wrong("  "), "");
    assert_string_equal(wrong("a b ab"), "");
    assert_string_equal(wrong("a b a"), "a");
    assert_string_equal(wrong("a other"), "other");
    assert_string_equal(wrong("others"), "");
    assert_string_equal(wrong("x a\"b"), "a\"b");
    assert_string_equal(wrong("x a\\b"), "a\\b");
    assert_string_equal(wrong("x \xc3\xa4"), "\xc3\xa4");
    memset(text, 'x', sizeof text);
    text[NAME_CLASS_SIZE_MAX + 1] = '\0';
    assert_string_equal(wrong(text), text);
    text[NAME_CLASS_SIZE_MAX] = '\0';
    assert_string_equal(wrong(text), "");
    assert_string_equal(wrong("1 2 3 4 5 6 7 8 9 a b c d e f g"), "");
    assert_string_equal(wrong("1 2 3 4 5 6 7 8 9 a b c d e f g h"), "h");
}

static void grants_waits_and_holds_are_counted_by_class(void **state)
{
    (void)state;
    struct world *world = world_new(1);
    world_found(world);
    uint64_t leader = world_elect(world);
    struct core *core = world->node[leader].core;
    struct core_options options = core->options;
    options.classes = "jobs/";
    core_change(core, &options);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    client_open(world, leader, 2);
    client_session(world, leader, 2, "TTL 60000");
    client_ask(world, leader, 1, "LOCK.ACQUIRE jobs/1 REQ 1");
    client_send(world, leader, 2, "LOCK.ACQUIRE jobs/1 WAIT 60000 REQ 1");
    world_run(world, 100);
    client_ask(world, leader, 1, "LOCK.ACQUIRE x REQ 2");
    const struct core_class *jobs = core_class(core, 0);
    const struct core_class *other = core_class(core, 1);
    assert_null(core_class(core, 2));
    assert_string_equal(jobs->prefix, "jobs/");
    assert_string_equal(other->prefix, "other");
    assert_int_equal(jobs->grants, 1);
    assert_int_equal(jobs->waits, 1);
    assert_int_equal(histogram_total(&jobs->wait), 0);
    assert_int_equal(other->grants, 1);
    client_ask(world, leader, 1, "SESSION.CLOSE REQ 3");
    world_run(world, 100);
    assert_int_equal(jobs->grants, 2);
    assert_int_equal(histogram_total(&jobs->wait), 1);
    assert_true(jobs->wait.sum_us >= 100000);
    assert_int_equal(histogram_total(&jobs->hold), 1);
    assert_int_equal(histogram_total(&other->hold), 1);
    assert_int_equal(other->waits, 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_longest_prefix_wins, done),
        cmocka_unit_test_teardown(a_class_that_stays_keeps_its_counts, done),
        cmocka_unit_test(what_is_not_a_list_of_prefixes_is_named),
        cmocka_unit_test(grants_waits_and_holds_are_counted_by_class)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
