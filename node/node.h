/* SPDX-License-Identifier: MIT */

/* A node: the core and the world around it.
 *
 *     clients.c    connections of clients: bytes to requests, answers to bytes
 *     members.c    connections of members: greetings, frames
 *     probe.c      is a new member where it is said to be?
 *     journal.c    the log, the vote, room on the disk
 *     writes.c     how long writes take: is the disk slow, or hung?
 *     snapshots.c  taken and received ones, by a worker
 *     recovery.c   what a start finds on disk
 *     founding.c   how a cluster begins (amnesia guard)
 *     options.c    the options: defaults, checks
 *     health.c     what is told over HTTP
 *     stall.c      up to when all input has been read (rule 6)
 *     loop.c       when what happens: one turn of the core for all that came in
 *     node.c       life: open, run, stop, close
 *
 * Each of them implements its part of struct core_port; the calls of the port
 * only record and never call back into the core.
 *
 * Failure: node_fail() notes the first fatal error. From then on nothing leaves
 * the node any more (what would be sent may rest on a vote or an entry that is
 * not on disk), and the loop ends.
 *
 * Threads: everything here runs on the loop's thread, except what snapshots.c
 * hands to libuv's worker threads. */

#ifndef HASP_NODE_NODE_H
#define HASP_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <uv.h>

#include "base/err.h"
#include "base/units.h"
#include "core/core.h"
#include "include/hasp/node.h"
#include "net/peers.h"
#include "node/clients.h"
#include "node/founding.h"
#include "node/health.h"
#include "node/journal.h"
#include "node/loop.h"
#include "node/members.h"
#include "node/probe.h"
#include "node/snapshots.h"
#include "storage/datadir.h"

struct hasp_node {
    struct hasp_node_options options; /* A deep copy. */
    struct replica_members configured;
    uv_loop_t uv;
    struct core *core;
    bool has_begun; /* The core has: it may be called. */

    struct datadir *datadir;
    struct table *table;
    struct journal journal;
    struct snapshots snapshots;
    struct founding founding;
    struct core_accusation accused; /* As the directory says. */

    struct members members;
    struct clients clients;
    struct probes probes;
    struct health health;
    struct loop loop;
    char client_address[128];
    char status_text[128];
    bool has_told_limits;     /* Those that differ from the cluster's. */
    uint64_t told_waiting_ns; /* When the log last told whom it waits for. */

    bool has_failed;
    int exit_status;
    char why[HASP_NODE_WHY_SIZE];
};

/* CLOCK_MONOTONIC, read now: R of the lease rules must never be a cached
 * time. */
static inline uint64_t node_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Notes the first fatal error, logs it and ends the loop. 'status' is what the
 * process should exit with. */
void node_fail(struct hasp_node *node, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Looks whether a new directory may found or join by now, and then begins;
 * fails with node_fail(). */
void node_found(struct hasp_node *node, uint64_t now_ns);

/* Tells the host what the node is doing, if that has changed. */
void node_status(struct hasp_node *node);

#endif /* HASP_NODE_NODE_H */
