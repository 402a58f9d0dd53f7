/* SPDX-License-Identifier: MIT */

#include "client/clock.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

struct lease_clock client_clock_read(void)
{
    return (struct lease_clock){.monotonic_ns = read_ns(CLOCK_MONOTONIC),
                                .boottime_ns = read_ns(CLOCK_BOOTTIME)};
}

uint64_t client_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int client_poll_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = client_now_ns();
    if (deadline_ns <= now_ns) {
        return 0;
    }
    uint64_t left_ms = (deadline_ns - now_ns - 1) / NS_PER_MS + 1;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

void client_sleep_ms(uint64_t time_ms)
{
    struct timespec left = {(time_t)(time_ms / 1000),
                            (long)(time_ms % 1000 * NS_PER_MS)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}
