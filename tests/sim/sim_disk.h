/* SPDX-License-Identifier: MIT */

/* The virtual disk of a node: vote, log, snapshots, table.
 *
 * What is on the platter survives everything. The log is written like the WAL
 * does it: operations queue up, all that is queued becomes one write, one write
 * is in flight, it takes its time, and only its end makes them durable. A crash
 * loses what was queued, and of the write in flight a random prefix survives.
 * The vote is a write of its own that takes its time; no write of the log
 * begins meanwhile. The log's reset is synchronous. A snapshot becomes durable
 * after a while. The table is the page cache: it survives the process, not the
 * machine. */

#ifndef HASP_TESTS_SIM_SIM_DISK_H
#define HASP_TESTS_SIM_SIM_DISK_H

#include "raft/replica.h"
#include "storage/snapshot.h"
#include "storage/table.h"
#include "tests/sim/sim.h"

struct sim_node;

struct disk_entry {
    uint64_t term;
    uint64_t log_index;
    uint8_t type;
    struct bytes body; /* Owned. */
};

struct disk_vote {
    uint64_t term;
    uint64_t voted_for;
};

struct disk_snapshot {
    uint64_t log_index;
    uint64_t term;
    struct buffer stream;
};

#define DISK_SNAPSHOT_MAX 2

struct sim_disk {
    struct sim *sim;
    struct sim_node *node;
    /* On the platter. */
    struct disk_vote vote;
    struct disk_entry *entries; /* Consecutive. */
    uint32_t entry_count;
    uint32_t entry_capacity;
    uint64_t next_index;                               /* Of an empty log. */
    struct disk_snapshot snapshots[DISK_SNAPSHOT_MAX]; /* Newest first. */
    uint32_t snapshot_count;
    /* In the page cache. */
    struct table *table;
    bool is_table_trusted;
    /* On the way. */
    struct list queued;
    struct list writing;
    struct sim_event written;
    uint64_t write_ns;       /* How long the write in flight takes. */
    struct disk_vote asked;  /* The newest vote that is to be saved ... */
    struct disk_vote saving; /* ... and the one that is being saved. */
    uint64_t save_ns;
    struct sim_event saved;
    struct disk_snapshot taking;
    struct sim_event taken;
    struct disk_snapshot receiving;
    bool is_adopting;
    struct sim_event adopted;
    uint64_t installing_next; /* Where the log is to go on; 0: nowhere. */
    struct sim_event installed;
    /* How it behaves. */
    uint64_t latency_ns;
    uint64_t flush_ns; /* Not 0: each flush takes at least so long. */
    uint64_t slow_until_ns;
    bool fails_next; /* The next write ends the node. */
};

void sim_disk_init(struct sim_disk *disk, struct sim *sim,
                   struct sim_node *node);
void sim_disk_done(struct sim_disk *disk);
/* The first entry of a new cluster. */
void sim_disk_bootstrap(struct sim_disk *disk, struct bytes members);

void sim_disk_save_vote(struct sim_disk *disk, uint64_t term,
                        uint64_t voted_for);
void sim_disk_truncate(struct sim_disk *disk, uint64_t from_index);
void sim_disk_append(struct sim_disk *disk, const struct replica_entry *entries,
                     uint32_t count);
/* Starts one write of all that is queued, if none is in flight. */
void sim_disk_start(struct sim_disk *disk);
void sim_disk_trim(struct sim_disk *disk, uint64_t up_to_index);
void sim_disk_reset(struct sim_disk *disk, uint64_t next_index);

void sim_disk_snapshot_take(struct sim_disk *disk,
                            const struct snapshot_header *header);
const struct disk_snapshot *sim_disk_newest(const struct sim_disk *disk);
bool sim_disk_snapshot_read(struct sim_disk *disk, uint64_t log_index,
                            uint64_t term, uint64_t offset, size_t size,
                            struct buffer *out);
void sim_disk_snapshot_write(struct sim_disk *disk, uint64_t offset,
                             struct bytes chunk);
void sim_disk_snapshot_adopt(struct sim_disk *disk);
void sim_disk_snapshot_install(struct sim_disk *disk, uint64_t next_index);

/* The process, or the whole machine, has died. */
void sim_disk_crash(struct sim_disk *disk, bool is_os_down);
/* What a start finds there. The table is rebuilt if it cannot be trusted. The
 * entries are borrowed. Fails the run if what was durable does not fit. */
void sim_disk_open(struct sim_disk *disk, struct replica_start *ret_start);

#endif /* HASP_TESTS_SIM_SIM_DISK_H */
