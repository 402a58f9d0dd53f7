/* SPDX-License-Identifier: MIT */

/* Durations of durable writes, and when the disk is slow or hung. */

#include "node/write_latency.h"

#include "base/check.h"
#include "base/minmax.h"

void write_latency_began(struct write_latency *writes, uint64_t now_ns)
{
    if (writes->began_ns == 0) {
        writes->began_ns = now_ns;
    }
}

void write_latency_ended(struct write_latency *writes, uint64_t now_ns)
{
    if (writes->began_ns == 0) {
        return;
    }
    CHECK(now_ns >= writes->began_ns);
    writes->took_ns = now_ns - writes->began_ns;
    writes->began_ns = 0;
    histogram_note(&writes->times, writes->took_ns);
    writes->max_ns = u64_max(writes->max_ns, writes->took_ns);
}

uint64_t write_latency_look(struct write_latency *writes, uint64_t read_ns)
{
    CHECK(writes->slow_ns <= writes->hangs_ns);
    if (writes->began_ns == 0) {
        writes->is_slow = false;
        return 0;
    }
    uint64_t since_ns = read_ns > writes->began_ns ? read_ns - writes->began_ns
                                                   : 0;
    if (since_ns > writes->slow_ns) {
        writes->is_slow = true;
    } else if (writes->took_ns <= writes->slow_ns) {
        writes->is_slow = false;
    }
    return since_ns;
}

bool write_latency_hang(const struct write_latency *writes, uint64_t since_ns)
{
    return since_ns > writes->hangs_ns;
}

uint64_t write_latency_next(const struct write_latency *writes)
{
    if (writes->began_ns == 0) {
        return UINT64_MAX;
    }
    return writes->began_ns + 1 +
           (writes->is_slow ? writes->hangs_ns : writes->slow_ns);
}
