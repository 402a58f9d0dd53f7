/* SPDX-License-Identifier: MIT */

/* How long do the flushes of the members' logs take?
 *
 * A change waits for the leader's flush and for those of a majority, so a
 * leader with a slow disk slows down the whole cluster. A node's disk is called
 * *slow* if the median of its recent flushes is at least 50 ms. That is
 * reported
 * (log, RAFT.STATUS, metrics) and refuses nothing; CORE_DISK_SLOW, which does,
 * is a disk that hardly responds.
 *
 * Each node reports the median of its flushes of the last 2 s, and their
 * number, with its clock (clocks.h). A leader whose disk is slow hands
 * leadership over to a voter whose flushes take a quarter of its own or less,
 * if that voter is heard and has all that is committed. If all disks are slow,
 * leadership stays.
 *
 * If disks take turns at being slow, leadership must not follow each of them: a
 * leader hands over for this reason only after 30 s of leadership. If it has
 * led within the 10 min before, that time doubles with each leadership, up to
 * 10 min. The node remembers this for itself, without agreement. */

#ifndef HASP_CORE_MEMBERS_DISKS_H
#define HASP_CORE_MEMBERS_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/frame.h"

struct core;

/* The newest flushes; at 50 ms each, 256 cover 12 s. */
#define DISK_FLUSH_COUNT 256

struct disk_flush {
    uint64_t at_ns; /* When it ended. */
    uint64_t took_ns;
};

/* Lives as long as the core. */
struct disks {
    struct disk_flush flush[DISK_FLUSH_COUNT]; /* A ring. */
    uint64_t flush_count;                      /* Since the start. */
    uint64_t recent_us; /* Median of the last 2 s; 0 without a flush. */
    uint32_t recent_count;
    /* Over at least 20 flushes and 2 s, if there are enough. */
    uint64_t median_us;
    uint32_t median_count;
    bool is_slow;         /* As last logged. */
    uint64_t required_ns; /* How long this leadership must have lasted. */
    uint64_t led_ns;      /* When the last one ended; 0: never led. */
    uint64_t since_ns; /* When this leadership, or its last attempt, started. */
    uint64_t moved_count; /* Attempts to hand over for this reason. */
    uint64_t moved_to;    /* The last successor; 0. */
};

/* The report of a peer. */
struct disk_report {
    uint64_t at_ns; /* When; 0: not on this link yet. */
    uint32_t flush_us;
    uint32_t flush_count;
};

/* A flush of this node's log has ended. */
void disks_flushed(struct core *core, uint64_t took_ns);
/* Twice a second: judges this node's disk and looks for a successor. */
void disks_look(struct core *core);
/* Fills in this node's report. */
void disks_report(const struct core *core, struct frame_clock *out);
void disks_received(struct core *core, uint64_t from,
                    const struct frame_clock *clock);
/* This node starts to serve as the leader; or has led until now. */
void disks_leading(struct core *core);
void disks_led(struct core *core);
/* True if 'id' is still faster, heard, and level. */
bool disks_may_take_over(const struct core *core, uint64_t id);
/* Records that this leader hands over because of its disk; 'why' is for the
 * log. */
void disks_handed_over(struct core *core, uint64_t to, char why[HASP_WHY_SIZE]);

#endif /* HASP_CORE_MEMBERS_DISKS_H */
