/* SPDX-License-Identifier: MIT */

/* Writes the acts (lockfsm/user/audit.h) that this node applies, and the
 * requests that it denies, as lines of JSON to the file of audit.file.
 *
 * Acts are numbered and each line has its number, so the file itself shows its
 * position: after a start it continues after its last line, and a torn last
 * line is cut off. An empty file continues after the last act that this process
 * wrote (a line with "goes_on" says so), or gets all acts that the state still
 * has. A line with "gap" reports acts that the state no longer has, or that a
 * restore has undone.
 *
 * Between them are lines with "denied" about requests that this node denied
 * (core/session/audit_denied.h); they have the number of the preceding act.
 *
 * A worker opens, appends and flushes. A failure is logged, counted and retried
 * each second; the node continues.
 *
 * Threads: the loop's; the worker has its part while it works. */

#ifndef HASP_NODE_AUDIT_FILE_H
#define HASP_NODE_AUDIT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"

struct hasp_node;

/* Position of a file. */
struct audit_place {
    char cluster[CLUSTER_ID_TEXT_SIZE]; /* The last line's; "": unknown. */
    uint64_t number;                    /* The last act's; 0: none. */
};

/* The acts that a state has. */
struct audit_source {
    char cluster[CLUSTER_ID_TEXT_SIZE];
    uint64_t first_of_life; /* First act of this epoch, 1 or more. */
    uint64_t oldest;        /* Oldest act that is kept, or the next one. */
};

/* Acts that the file will never have. */
struct audit_gap {
    uint64_t from;
    uint64_t to;
    const char *why; /* A constant. */
};

/* True if there is a gap between the place and the next act; the place is then
 * moved past it. Call it again: another gap can follow. */
bool audit_gap_next(struct audit_place *place,
                    const struct audit_source *source,
                    struct audit_gap *ret_gap);

struct audit_file {
    struct hasp_node *node;
    uint64_t failed_count;
    bool has_failed; /* The last attempt failed; this was logged. */
    uint64_t retry_ns;
    bool must_open; /* At the start, after a failure, and for a reload. */
    struct audit_place place;
    /* The worker's, while it works: */
    uv_work_t work;
    bool is_busy;
    int fd;                /* -1: not open. */
    bool is_empty;         /* The file was empty when it was opened. */
    struct buffer lines;   /* To be appended. */
    struct audit_place to; /* Position after the append. */
    bool has_denials;      /* 'lines' contains denials. */
    int error;
    char why[HASP_WHY_SIZE];
};

void audit_file_init(struct audit_file *file, struct hasp_node *node);
/* In each turn: passes new lines to the worker. */
void audit_file_turn(struct audit_file *file, uint64_t now_ns);
/* Reopens the file soon, since it may have been renamed. */
void audit_file_reopen(struct audit_file *file);
/* At a stop, after the worker has ended: writes the rest and waits for it. */
void audit_file_finish(struct audit_file *file);
/* Call it after the worker has ended. */
void audit_file_done(struct audit_file *file);

#endif /* HASP_NODE_AUDIT_FILE_H */
