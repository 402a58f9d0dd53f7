/* SPDX-License-Identifier: MIT */

/* Detects stalls of the loop, and computes up to which time all input has been
 * read (rule 6).
 *
 * If the loop has not run for longer than STALL_NS (SIGSTOP, a suspended
 * machine, a long turn), there may be unread input that arrived before
 * deadlines that have passed meanwhile. All input that had arrived when the
 * stall was noticed has been read after two whole passes over the sockets: the
 * first accepts and reads, the second reads from the accepted connections. A
 * pass that found another new connection adds a pass (bounded). Until then
 * stall_read() does not change.
 *
 * A late pass counts, too, since it also reads what arrived before it; after
 * the passes, others follow for input that arrived since. So if the loop is
 * always late, stall_read() lags by two passes but does not stop.
 *
 * Pure: times are arguments. Threads: one. */

#ifndef HASP_NODE_STALL_H
#define HASP_NODE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* A tick of the lease rules: a shorter stall is ignored. */
#define STALL_NS (100 * NS_PER_MS)

struct stall {
    uint64_t alive_ns;    /* The loop was running at this time. */
    uint64_t read_ns;     /* All input up to this time was read. */
    uint64_t reading_ns;  /* All input up to this time is read ... */
    uint32_t passes_left; /* ... after this many passes; 0: no stall. */
    uint32_t extra_left;  /* Passes that new connections can add. */
    bool is_again;        /* Another stall during the passes. */
};

void stall_init(struct stall *stall, uint64_t now_ns);
/* The loop runs now and should have run at 'expected_ns'. True if it
 * stalled. */
bool stall_note(struct stall *stall, uint64_t expected_ns, uint64_t now_ns);
/* A pass that began after the last stall_note() has ended; 'saw_more': it
 * accepted a connection. True if the passes are over and stall_read() has
 * advanced. */
bool stall_pass(struct stall *stall, bool saw_more, uint64_t now_ns);
/* True while passes are left. */
bool stall_is_on(const struct stall *stall);
/* Returns the time up to which all input has been read: 'now_ns' unless there
 * is a stall. */
uint64_t stall_read(struct stall *stall, uint64_t now_ns);

#endif /* HASP_NODE_STALL_H */
