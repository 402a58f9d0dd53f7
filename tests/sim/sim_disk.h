/* SPDX-License-Identifier: MIT */

/* The disk of a node: the real storage/, node/recovery and node/durable on a
 * disk in memory.
 *
 * It does what journal.c, snapshot_store.c and startup.c of node/ do around a
 * core. Each step of a worker takes the time that a disk needs. Snapshots are
 * written, checked and loaded some time after the request. An error of log,
 * vote or table ends the process.
 *
 * sim_files.h decides what a crash leaves: inside any call, sector by sector
 * and name by name. sim_table.h provides the table. */

#ifndef HASP_TESTS_SIM_SIM_DISK_H
#define HASP_TESTS_SIM_SIM_DISK_H

#include "base/cluster_id.h"
#include "core/core.h"
#include "node/durable.h"
#include "node/recovery.h"
#include "raft/replica.h"
#include "storage/snapshot.h"
#include "storage/table.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/sim_table.h"
#include "tests/sim/sim_tasks.h"

struct sim_node;

/* A snapshot file on the disk. */
struct disk_snapshot {
    uint64_t log_index; /* 0: there is none. */
    uint64_t term;
    uint64_t size;
};

struct sim_disk {
    struct sim *sim;
    struct sim_node *node;
    struct files_machine *files;
    char path[32]; /* Of the data directory. */
    uint64_t segment_size;
    struct sim_table lmdb;
    /* The process; NULL while it does not run. */
    struct tasks tasks;
    struct datadir *datadir;
    struct durable durable;
    struct table *table; /* As the core sees it. */
    struct recovery recovery;
    bool has_news;
    uint64_t saved_term;   /* Term of the vote on disk. */
    uint64_t durable_term; /* As reported to the core. */
    uint64_t durable_index;
    struct replica_entry first; /* Of a new cluster. */
    /* Snapshots. */
    struct disk_snapshot newest;
    uint64_t trimmed; /* Index up to which the log was last trimmed. */
    struct sim_event taking;
    struct snapshot_header taken; /* Its configuration is owned. */
    struct table_txn *txn;
    int take_error;   /* There is no 'txn' then. */
    int receiving_fd; /* -1: none. */
    uint64_t received_size;
    int receive_error;
    struct sim_event adopting;
    struct snapshot_file adopted; /* Mapped; empty stream: none. */
    struct sim_event installing;
    bool is_installed;
    bool is_unmarked;        /* Its mark has been removed. */
    struct sim_event naming; /* The cluster's id is written. */
    /* How it behaves. */
    uint64_t latency_ns;
    uint64_t flush_ns; /* Not 0: the shortest time of a flush. */
    uint64_t slow_until_ns;
    bool is_full;
    bool is_old;                    /* A copy from before was put back. */
    bool is_condemned;              /* The old copy was detected. */
    struct core_accusation accused; /* As the directory says. */
};

void sim_disk_init(struct sim_disk *disk, struct sim *sim,
                   struct sim_node *node);
/* After sim_disk_close(). */
void sim_disk_done(struct sim_disk *disk);

/* There is little room, or enough again. */
void sim_disk_full(struct sim_disk *disk, bool is_full);

/* Opens the disk's content, as a process that starts. 'members', if not empty,
 * are the first entry of a new cluster, in a new directory. The results are
 * borrowed until sim_disk_begun(). HASP_EIO and so on: the process ends, and
 * 'why' is the reason. */
MUST_CHECK int sim_disk_open(struct sim_disk *disk, struct bytes members,
                             struct replica_start *ret_start,
                             char why[HASP_WHY_SIZE]);
/* The core has begun: votes can be saved from now on. */
MUST_CHECK int sim_disk_begun(struct sim_disk *disk);
/* A clean end, after the core has flushed its state and is gone: table and log
 * are flushed and closed. 0 or an error. */
MUST_CHECK int sim_disk_stop(struct sim_disk *disk);
/* The process has ended, and with 'is_os_down' the machine has lost power.
 * Unfinished work may be completed, done in part, or not done. */
void sim_disk_close(struct sim_disk *disk, bool is_os_down);

/* The end of a turn: writing the appended entries begins. An error ends the
 * process, as below. */
MUST_CHECK int sim_disk_start(struct sim_disk *disk);
/* Reports to the core what has finished since the last call. */
MUST_CHECK int sim_disk_collect(struct sim_disk *disk, struct core *core,
                                uint64_t now_ns);

/* For struct core_port; 'data' is the node. */
void sim_disk_port_save_vote(void *data, uint64_t term, uint64_t voted_for);
void sim_disk_port_log_truncate(void *data, uint64_t from_index);
void sim_disk_port_log_append(void *data, const struct replica_entry *entries,
                              uint32_t count);
void sim_disk_port_log_trim(void *data, uint64_t up_to_index);
void sim_disk_port_snapshot_take(void *data,
                                 const struct snapshot_header *header);
bool sim_disk_port_snapshot_stat(void *data, uint64_t *ret_index,
                                 uint64_t *ret_term, uint64_t *ret_size);
bool sim_disk_port_snapshot_read(void *data, uint64_t log_index, uint64_t term,
                                 uint64_t offset, size_t size,
                                 struct buffer *out);
uint64_t sim_disk_port_snapshot_room(void *data);
void sim_disk_port_snapshot_write(void *data, uint64_t offset,
                                  struct bytes chunk);
void sim_disk_port_snapshot_adopt(void *data);
void sim_disk_port_snapshot_install(void *data, uint64_t next_index);
/* Only for an old disk. */
void sim_disk_port_bar(void *data, const struct core_accusation *accusation,
                       const char *why);
void sim_disk_port_unbar(void *data);
void sim_disk_port_data_lost(void *data, const char *why);
void sim_disk_know_cluster(struct sim_disk *disk,
                           const uint8_t cluster_id[CLUSTER_ID_SIZE]);

#endif /* HASP_TESTS_SIM_SIM_DISK_H */
