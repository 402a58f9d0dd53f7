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
 * (core/session/denials.h): they have no number of their own, but that of the
 * act before, and "denied".
 *
 * A worker opens, appends and flushes. What fails is logged and counted, and
 * tried again each second: the node goes on without.
 *
 * Threads: the loop's, but for what the worker has while it works. */

#ifndef HASP_NODE_ACTS_FILE_H
#define HASP_NODE_ACTS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"

struct hasp_node;

/* How far a file has come. */
struct acts_place {
    char cluster[CLUSTER_ID_TEXT_SIZE]; /* Its last line's; "": not known. */
    uint64_t number;                    /* Its last act's; 0: none. */
};

/* What a state has to tell. */
struct acts_source {
    char cluster[CLUSTER_ID_TEXT_SIZE];
    uint64_t first_of_life; /* Its first act, 1 or more. */
    uint64_t oldest;        /* The first that is kept, or that will be. */
};

/* Acts that will never stand in a file. */
struct acts_gap {
    uint64_t from;
    uint64_t to;
    const char *why; /* A constant. */
};

/* True if there is a gap between the place and what comes next; the place is
 * then behind it. There may be another one. */
bool acts_gap_next(struct acts_place *place, const struct acts_source *source,
                   struct acts_gap *ret_gap);

struct acts_file {
    struct hasp_node *node;
    uint64_t failed_count;
    bool has_failed; /* The last time; it has been told. */
    uint64_t retry_ns;
    bool must_open; /* At the start, after a failure, and when told. */
    struct acts_place place;
    /* The worker's, while it works: */
    uv_work_t work;
    bool is_busy;
    int fd;               /* -1: not open. */
    bool is_empty;        /* The file, when it was opened. */
    struct buffer lines;  /* To be appended. */
    struct acts_place to; /* Where the file is then. */
    bool has_denials;     /* Among the lines. */
    int error;
    char why[HASP_WHY_SIZE];
};

void acts_file_init(struct acts_file *file, struct hasp_node *node);
/* In each turn: has the worker write what it may. */
void acts_file_turn(struct acts_file *file, uint64_t now_ns);
/* Opens the file anew, soon: it may have been renamed. */
void acts_file_reopen(struct acts_file *file);
/* The node stops, and the worker has ended: writes what is left, and waits. */
void acts_file_finish(struct acts_file *file);
/* After the worker has ended. */
void acts_file_done(struct acts_file *file);

#endif /* HASP_NODE_ACTS_FILE_H */
