/* SPDX-License-Identifier: MIT */

/* Counts the passes over the sockets after a stall of the loop. */

#include "node/stall.h"

#include "base/check.h"

#define PASS_COUNT 2
#define EXTRA_PASS_COUNT 16

static void begin_passes(struct stall *stall, uint64_t now_ns)
{
    stall->passes_left = PASS_COUNT;
    stall->extra_left = EXTRA_PASS_COUNT;
    stall->reading_ns = now_ns;
    stall->is_again = false;
}

void stall_init(struct stall *stall, uint64_t now_ns)
{
    *stall = (struct stall){.alive_ns = now_ns, .read_ns = now_ns};
}

bool stall_note(struct stall *stall, uint64_t expected_ns, uint64_t now_ns)
{
    CHECK(now_ns >= stall->alive_ns); /* The clock is monotonic. */
    stall->alive_ns = now_ns;
    if (now_ns <= expected_ns + STALL_NS) {
        return false;
    }
    if (stall_is_on(stall)) {
        stall->is_again = true;
    } else {
        begin_passes(stall, now_ns);
    }
    return true;
}

bool stall_pass(struct stall *stall, bool saw_more, uint64_t now_ns)
{
    if (!stall_is_on(stall)) {
        return false;
    }
    if (saw_more && stall->extra_left > 0) {
        stall->extra_left--;
        return false;
    }
    stall->passes_left--;
    if (stall->passes_left > 0) {
        return false;
    }
    /* The time up to which all input was read never goes back (rule 6). */
    CHECK(stall->reading_ns >= stall->read_ns);
    stall->read_ns = stall->reading_ns;
    if (stall->is_again) {
        begin_passes(stall, now_ns);
    }
    return true;
}

bool stall_is_on(const struct stall *stall)
{
    return stall->passes_left > 0;
}

uint64_t stall_read(struct stall *stall, uint64_t now_ns)
{
    if (!stall_is_on(stall)) {
        stall->read_ns = now_ns;
    }
    return stall->read_ns;
}
