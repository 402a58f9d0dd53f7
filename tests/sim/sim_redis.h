/* SPDX-License-Identifier: MIT */

/* A typical Redis lock client: SET key value NX PX, the script that deletes if
 * the value is unchanged, PEXPIRE by script. It trusts the whole PX of its own
 * clock, counted from before the request was sent; for that the leader's lease
 * is 1.25 PX + 5 ms. If an answer does not arrive it repeats the request with
 * the same value, which succeeds if the lock was its own. */

#ifndef HASP_TESTS_SIM_SIM_REDIS_H
#define HASP_TESTS_SIM_SIM_REDIS_H

#include "tests/sim/sim_channel.h"

struct sim_client;

struct sim_redis {
    struct sim_client *client;
    struct sim_channel channel;
    enum { ASKED_NONE, ASKED_SET, ASKED_EXTEND, ASKED_DELETE } asked;
    uint32_t key;
    uint64_t value; /* Another one for each attempt; 0: none. */
    uint64_t px_ms;
    bool is_held; /* A SET or extension has succeeded ... */
    uint64_t since_place;
    struct lease_clock since; /* ... that was sent then. */
    bool is_asking;           /* The request is not answered yet. */
    bool is_uncertain;        /* An earlier try may have taken effect. */
    uint64_t think_until_ns;
};

void sim_redis_init(struct sim_redis *redis, struct sim_client *client);
void sim_redis_done(struct sim_redis *redis);
/* The process is new: its requests are forgotten. */
void sim_redis_reset(struct sim_redis *redis);
void sim_redis_work(struct sim_redis *redis);
uint64_t sim_redis_next(const struct sim_redis *redis);
bool sim_redis_is_idle(const struct sim_redis *redis);

#endif /* HASP_TESTS_SIM_SIM_REDIS_H */
