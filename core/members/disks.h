/* SPDX-License-Identifier: MIT */

/* How long do the flushes of the members' logs take?
 *
 * A change waits for the leader's flush and for those of a majority, so a
 * leader with a slow disk slows the whole cluster down. A node's disk is called
 * *slow* if the median of its recent flushes is at least 50 ms. That is said
 * (log, RAFT.STATUS, metrics) and refuses nothing; CORE_DISK_SLOW, which does,
 * is a disk that hardly answers.
 *
 * Each node reports the median of its flushes of the last 2 s, and their
 * count, with its clock (clocks.h). A leader whose disk is slow hands over to a
 * voter whose flushes take a quarter of its own or less, if that is heard and
 * has all that is committed. Where all disks are slow nobody is better, and
 * leadership stays.
 *
 * Where disks take turns at being slow, leadership must not follow each of
 * them: a leader hands over for this only after 30 s of leadership. If it has
 * led within the 10 min before, that time doubles with each leadership, up to
 * 10 min. This is the node's own memory, and needs no agreement. */

#ifndef HASP_CORE_MEMBERS_DISKS_H
#define HASP_CORE_MEMBERS_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/frame.h"

struct core;

/* The newest flushes; with 50 ms each, 256 last for 12 s. */
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
    uint64_t median_us; /* Of at least 20 flushes and 2 s, as far as known. */
    uint32_t median_count;
    bool is_slow;         /* As it was logged. */
    uint64_t required_ns; /* How long this leadership must have lasted. */
    uint64_t led_ns;      /* When the last one ended; 0: never led. */
    uint64_t since_ns;    /* This leadership, or its last attempt, began. */
    uint64_t moved_count; /* Attempts to hand over for this. */
    uint64_t moved_to;    /* To whom the last of them was; 0. */
};

/* What a peer has reported. */
struct disk_report {
    uint64_t at_ns; /* When; 0: nothing on this link yet. */
    uint32_t flush_us;
    uint32_t flush_count;
};

/* A flush of this node's log has ended. */
void disks_flushed(struct core *core, uint64_t took_ns);
/* Twice a second: judges this node's disk, and looks for an heir. */
void disks_look(struct core *core);
/* Fills in what is reported of this node. */
void disks_report(const struct core *core, struct frame_clock *out);
void disks_received(struct core *core, uint64_t from,
                    const struct frame_clock *clock);
/* This node serves as the leader from now on; it has led until now. */
void disks_leading(struct core *core);
void disks_led(struct core *core);
/* True if 'id' is still faster, heard, and level. */
bool disks_may_take_over(const struct core *core, uint64_t id);
/* This leader hands over for its disk; 'why' is for the log. */
void disks_handed_over(struct core *core, uint64_t to, char why[HASP_WHY_SIZE]);

#endif /* HASP_CORE_MEMBERS_DISKS_H */
