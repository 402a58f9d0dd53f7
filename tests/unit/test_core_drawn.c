/* SPDX-License-Identifier: MIT */

/* A bounded run of what tests/fuzz/fuzz_cluster.c goes on with: three cores and
 * eight clients, by seeds. DRAWN_FIRST and DRAWN_SEEDS choose others. */

#include "tests/unit/core_world.h"
#include "tests/unit/drawn.h"
#include "tests/unit/drawn_cluster.h"
#include "tests/unit/drawn_requests.h"

#define SEEDS 60
#define STEPS 600

static uint32_t below(void *data, uint32_t bound)
{
    return drawn_below(data, bound);
}

static bool goes_on(void *data)
{
    (void)data;
    return true;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void nothing_that_clients_send_ends_a_node(void **state)
{
    (void)state;
    struct drawn_count count = {0};
    uint64_t first = setting("DRAWN_FIRST", 1);
    uint64_t seeds = setting("DRAWN_SEEDS", SEEDS);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct drawn drawn = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)};
        struct choice choice = {below, &drawn};
        fprintf(stderr, "\rseed %d", (int)seed);
        drawn_cluster(&choice, STEPS, goes_on, &count);
    }
    fprintf(stderr,
            "\r%d seeds: requests %d, scripts %d, errors %d, leaders %d\n",
            (int)seeds, (int)count.requests, (int)count.scripts,
            (int)count.errors, (int)count.leaders);
    assert_true(count.requests > 100 * seeds);
    assert_true(count.leaders > seeds);
    assert_true(count.errors < count.requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_clients_send_ends_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
