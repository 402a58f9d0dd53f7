/* SPDX-License-Identifier: MIT */

/* Has the loop been away, and up to when has all input been read (rule 6)?
 *
 * If the loop did not come round for longer than STALL_NS (SIGSTOP, a suspended
 * machine, a long turn), input may lie unread that came before what has become
 * due meanwhile. What had come when the stall was noticed has been read after
 * two whole passes over the sockets: the first accepts and reads, the second
 * reads what was accepted; a pass that still found a new connection is followed
 * by another (bounded). Until then stall_read() stays where it was.
 *
 * A pass may itself come late. It counts all the same, since what had come
 * before it is read as well; when the passes are over, others follow for what
 * came since. So under a loop that is always late stall_read() lags, by two
 * passes, and does not stand still.
 *
 * Pure: the times come in. Threads: one. */

#ifndef HASP_NODE_STALL_H
#define HASP_NODE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* A tick of the lease rules: so long may the loop stay away unnoticed. */
#define STALL_NS (100 * NS_PER_MS)

struct stall {
    uint64_t alive_ns;    /* The loop was surely running then. */
    uint64_t read_ns;     /* All that had come by then has been read. */
    uint64_t reading_ns;  /* What had come by then is read after ... */
    uint32_t passes_left; /* ... so many passes; 0: there is no stall. */
    uint32_t extra_left;  /* That new connections may still add to them. */
    bool is_again;        /* Away once more during the passes. */
};

void stall_init(struct stall *stall, uint64_t now_ns);
/* The loop runs, and should have run at 'expected_ns'. True if it has been
 * away. */
bool stall_note(struct stall *stall, uint64_t expected_ns, uint64_t now_ns);
/* A pass that began after the last stall_note() has ended; 'saw_more': it
 * accepted a connection. True if the passes are over, and stall_read() has
 * moved. */
bool stall_pass(struct stall *stall, bool saw_more, uint64_t now_ns);
/* True while passes are left. */
bool stall_is_on(const struct stall *stall);
/* All input that had come by the returned time has been read: 'now_ns' unless
 * there is a stall. */
uint64_t stall_read(struct stall *stall, uint64_t now_ns);

#endif /* HASP_NODE_STALL_H */
