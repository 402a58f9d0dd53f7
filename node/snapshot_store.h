/* SPDX-License-Identifier: MIT */

/* Snapshots of a running node: taken, sent, received, loaded.
 *
 * To take a snapshot, the loop's thread begins a read transaction, which fixes
 * the content, and a worker writes the file from it while the node serves. A
 * received snapshot is written chunk by chunk into a temporary file; a worker
 * checks it and gives it its name. If the core installs it, a worker loads it
 * into the table while the log is being emptied (node/journal.h).
 *
 * The node continues if a snapshot cannot be taken or received: the log still
 * has everything, and it is tried again. */

#ifndef HASP_NODE_SNAPSHOT_STORE_H
#define HASP_NODE_SNAPSHOT_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/units.h"
#include "storage/snapshot.h"
#include "storage/table.h"

struct hasp_node;

/* Open files: one is sent to several followers, the next one may exist already,
 * and backups may read earlier ones. */
#define SNAPSHOT_OPEN_MAX 4
/* A file that was not read for this time is closed once there is a newer
 * one. */
#define SNAPSHOT_OPEN_NS (60 * NS_PER_S)

struct snapshot_open {
    int fd; /* -1: none. */
    uint64_t log_index;
    uint64_t term;
    uint64_t read_ns; /* Time of the last read. */
};

struct snapshot_store {
    struct hasp_node *node;
    /* The newest on disk; index 0: none. */
    uint64_t newest_index;
    uint64_t newest_term;
    uint64_t newest_size;
    uint64_t taken_count;  /* Snapshots taken since the start. */
    uint64_t failed_count; /* Failures to take, receive, read or check one. */
    struct snapshot_open open[SNAPSHOT_OPEN_MAX];

    uv_work_t take_work;
    bool is_taking;
    struct table_txn *txn;
    struct snapshot_header header; /* Owns its configuration. */
    uint64_t taken_size;
    int take_error;
    char take_why[HASP_WHY_SIZE];

    uv_work_t adopt_work;
    bool is_adopting;
    int receiving_fd; /* -1: none. */
    int adopting_fd;  /* -1: none. Stays open to keep the file locked. */
    /* Alternates two file names: one is checked while the next is received. */
    uint32_t receiving_turn;
    uint64_t received_size;
    int receive_error;
    char adopting_path[4096];
    struct snapshot_file adopted; /* Mapped; empty stream: none. */
    uv_work_t install_work;
    enum install_state {
        INSTALL_NONE,
        INSTALL_FILLING,   /* A worker fills the table. */
        INSTALL_FILLED,    /* The log might not be empty yet. */
        INSTALL_UNMARKING, /* Both are complete; a worker removes the mark. */
        INSTALL_DONE       /* To be reported to the core. */
    } install_state;
    int install_error;
    int adopt_error;
    char adopt_why[HASP_WHY_SIZE];
};

void snapshot_store_init(struct snapshot_store *snapshot_store,
                         struct hasp_node *node);
/* Call it after the workers have ended. */
void snapshot_store_done(struct snapshot_store *snapshot_store);
/* True while a worker runs. */
bool snapshot_store_is_busy(const struct snapshot_store *snapshot_store);
void snapshot_store_set_newest(struct snapshot_store *snapshot_store,
                               uint64_t log_index, uint64_t term,
                               uint64_t size);

/* Has a worker load the adopted snapshot into the table. */
void snapshot_store_install(struct snapshot_store *snapshot_store);
/* In each turn: reports to the core when the table is filled and the log
 * empty. */
void snapshot_store_report(struct snapshot_store *snapshot_store);

/* For struct core_port; 'data' is the node. */
void snapshot_store_port_take(void *data, const struct snapshot_header *header);
bool snapshot_store_port_stat(void *data, uint64_t *ret_index,
                              uint64_t *ret_term, uint64_t *ret_size);
bool snapshot_store_port_read(void *data, uint64_t log_index, uint64_t term,
                              uint64_t offset, size_t size, struct buffer *out);
uint64_t snapshot_store_port_room(void *data);
void snapshot_store_port_write(void *data, uint64_t offset, struct bytes chunk);
void snapshot_store_port_adopt(void *data);

#endif /* HASP_NODE_SNAPSHOT_STORE_H */
