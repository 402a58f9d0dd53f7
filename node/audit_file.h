/* SPDX-License-Identifier: MIT */

/* The acts (lockfsm/user/audit.h) that this node applies, as lines of JSON in
 * the file that audit.file names, and what it denies.
 *
 * Acts are numbered, and each line has its number, so the file itself says how
 * far it has come: after a start it goes on behind its last line, and a torn
 * last line is cut. An empty file goes on behind what this process has written
 * last (a line says so), or has all that the state still knows. What the state
 * has forgotten meanwhile, or what a restore has undone, is told by one line
 * with "gap".
 *
 * Between them stand lines of what this node has denied
 * (core/session/audit_denied.h): they have no number of their own, but that of
 * the act before, and "denied".
 *
 * A worker opens, appends and flushes. What fails is logged and counted, and
 * tried again each second: the node goes on without.
 *
 * Threads: the loop's, but for what the worker has while it works. */

#ifndef HASP_NODE_AUDIT_FILE_H
#define HASP_NODE_AUDIT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"

struct hasp_node;

/* How far a file has come. */
struct audit_place {
    char cluster[CLUSTER_ID_TEXT_SIZE]; /* Its last line's; "": not known. */
    uint64_t number;                    /* Its last act's; 0: none. */
};

/* What a state has to tell. */
struct audit_source {
    char cluster[CLUSTER_ID_TEXT_SIZE];
    uint64_t first_of_life; /* Its first act, 1 or more. */
    uint64_t oldest;        /* The first that is kept, or that will be. */
};

/* Acts that will never stand in a file. */
struct audit_gap {
    uint64_t from;
    uint64_t to;
    const char *why; /* A constant. */
};

/* True if there is a gap between the place and what comes next; the place is
 * then behind it. There may be another one. */
bool audit_gap_next(struct audit_place *place,
                    const struct audit_source *source,
                    struct audit_gap *ret_gap);

struct audit_file {
    struct hasp_node *node;
    uint64_t failed_count;
    bool has_failed; /* The last time; it has been told. */
    uint64_t retry_ns;
    bool must_open; /* At the start, after a failure, and when told. */
    struct audit_place place;
    /* The worker's, while it works: */
    uv_work_t work;
    bool is_busy;
    int fd;                /* -1: not open. */
    bool is_empty;         /* The file, when it was opened. */
    struct buffer lines;   /* To be appended. */
    struct audit_place to; /* Where the file is then. */
    bool has_denials;      /* Among the lines. */
    int error;
    char why[HASP_WHY_SIZE];
};

void audit_file_init(struct audit_file *file, struct hasp_node *node);
/* In each turn: has the worker write what it may. */
void audit_file_turn(struct audit_file *file, uint64_t now_ns);
/* Opens the file anew, soon: it may have been renamed. */
void audit_file_reopen(struct audit_file *file);
/* The node stops, and the worker has ended: writes what is left, and waits. */
void audit_file_finish(struct audit_file *file);
/* After the worker has ended. */
void audit_file_done(struct audit_file *file);

#endif /* HASP_NODE_AUDIT_FILE_H */
