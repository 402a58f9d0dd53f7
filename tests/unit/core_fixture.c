/* SPDX-License-Identifier: MIT */

#include "tests/unit/core_fixture.h"

struct world *world;
uint64_t leader, follower, third;

int begin_one(void **state)
{
    (void)state;
    world = world_new(1);
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    return 0;
}

void find_roles(void)
{
    leader = world_elect(world);
    follower = leader % 3 + 1;
    third = follower % 3 + 1;
}

int begin_three(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    find_roles();
    world_run(world, 100);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}
