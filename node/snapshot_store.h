/* SPDX-License-Identifier: MIT */

/* Snapshots of a running node: taken, sent, received, loaded.
 *
 * Taking one begins a read transaction on the loop's thread, which fixes what
 * it shows; a worker thread writes the file from it while the node serves. A
 * received one grows in a temporary file chunk by chunk; a worker checks it and
 * gives it its name; if the core wants it, a worker puts it into the table
 * while the log is being emptied (node/journal.h).
 *
 * That a snapshot cannot be taken or received is no reason to stop: the log is
 * still there, and it is tried again. */

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

/* One being sent may be read by several followers, and the next one may already
 * stand beside it; and backups may be under way of earlier ones. */
#define SNAPSHOT_OPEN_MAX 4
/* Not read for so long, it is kept open no more once there is a newer one. */
#define SNAPSHOT_OPEN_NS (60 * NS_PER_S)

struct snapshot_open {
    int fd; /* -1: none. */
    uint64_t log_index;
    uint64_t term;
    uint64_t read_ns; /* When it was last read. */
};

struct snapshot_store {
    struct hasp_node *node;
    /* The newest on disk; index 0: none. */
    uint64_t newest_index;
    uint64_t newest_term;
    uint64_t newest_size;
    uint64_t
        taken_count; /* Since the start; and how often it failed to take, */
    uint64_t failed_count; /* ... receive, read or check one. */
    struct snapshot_open open[SNAPSHOT_OPEN_MAX];

    uv_work_t take_work;
    bool is_taking;
    struct table_txn *txn;
    struct snapshot_header header; /* Its configuration is owned. */
    uint64_t taken_size;
    int take_error;
    char take_why[HASP_WHY_SIZE];

    uv_work_t adopt_work;
    bool is_adopting;
    int receiving_fd; /* -1: none. */
    int adopting_fd;  /* -1: none. Open, since the file is locked by it. */
    uint32_t receiving_turn; /* Two names, so that one may be checked while the
                                next one comes in. */
    uint64_t received_size;
    int receive_error;
    char adopting_path[4096];
    struct snapshot_file adopted; /* Mapped; empty stream: none. */
    uv_work_t install_work;
    enum install_state {
        INSTALL_NONE,
        INSTALL_FILLING,   /* A worker fills the table. */
        INSTALL_FILLED,    /* The log may not be empty yet. */
        INSTALL_UNMARKING, /* Both are done; a worker removes the mark. */
        INSTALL_DONE       /* The core is to be told. */
    } install_state;
    int install_error;
    int adopt_error;
    char adopt_why[HASP_WHY_SIZE];
};

void snapshot_store_init(struct snapshot_store *snapshot_store,
                         struct hasp_node *node);
/* After the workers have ended. */
void snapshot_store_done(struct snapshot_store *snapshot_store);
/* True while a worker runs. */
bool snapshot_store_is_busy(const struct snapshot_store *snapshot_store);
void snapshot_store_set_newest(struct snapshot_store *snapshot_store,
                               uint64_t log_index, uint64_t term,
                               uint64_t size);

/* Puts the adopted one into the table, by a worker. */
void snapshot_store_install(struct snapshot_store *snapshot_store);
/* In each turn: tells the core when table and log are as it wants them. */
void snapshot_store_report(struct snapshot_store *snapshot_store);

/* Of struct core_port; 'data' is the node. */
void snapshot_store_port_take(void *data, const struct snapshot_header *header);
bool snapshot_store_port_stat(void *data, uint64_t *ret_index,
                              uint64_t *ret_term, uint64_t *ret_size);
bool snapshot_store_port_read(void *data, uint64_t log_index, uint64_t term,
                              uint64_t offset, size_t size, struct buffer *out);
uint64_t snapshot_store_port_room(void *data);
void snapshot_store_port_write(void *data, uint64_t offset, struct bytes chunk);
void snapshot_store_port_adopt(void *data);

#endif /* HASP_NODE_SNAPSHOT_STORE_H */
