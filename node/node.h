/* SPDX-License-Identifier: MIT */

/* A node: the core and the world around it.
 *
 *     turn.c       what all parts need: the time, "a turn is due", "it failed"
 *     clients.c    connections of clients: bytes to requests, answers to bytes
 *     members.c    links with members: greetings, frames
 *     probe.c      is a new member where it is said to be?
 *     journal.c    the log, the vote, room on the disk
 *     durable.c    in which order vote and log come to the disk
 *     writes.c     how long writes take: is the disk slow, or hung?
 *     archive.c    snapshots: taken and received ones, by a worker
 *     certificates.c  those of this node, and when they change
 *     errands.c    small writes into the data directory, by a worker
 *     acts_file.c  audit.file: the acts that are applied, by a worker
 *     logins.c     that somebody came by the local door, as an act
 *     recovery.c   what a start finds on disk
 *     founding.c   how a cluster begins (amnesia guard)
 *     options.c    the options: defaults, checks
 *     web.c        the HTTP port: the gateway (http/), and ...
 *     monitor.c    ... /healthz, /readyz, and ...
 *     metrics.c    ... the numbers of /metrics, process.c those of the process
 *     stall.c      up to when all input has been read (rule 6)
 *     stages.c     where the time of the loop goes
 *     begin.c      how the core begins: from the disk, by founding, by joining
 *     loop.c       when what happens: one turn of the core for all that came in
 *     node.c       life: open, run, stop, close
 *
 * Each of them implements its part of struct core_port; the calls of the port
 * only record and never call back into the core. Calls go downward only: from
 * node.c to the loop, from there to begin.c and the parts, and from all of them
 * to turn.c, never back to the host.
 *
 * Threads: everything here runs on the loop's thread, except what journal.c and
 * archive.c hand to workers. */

#ifndef HASP_NODE_NODE_H
#define HASP_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "core/core.h"
#include "include/hasp/node.h"
#include "net/peers.h"
#include "node/acts_file.h"
#include "node/archive.h"
#include "node/certificates.h"
#include "node/clients.h"
#include "node/errands.h"
#include "node/founding.h"
#include "node/journal.h"
#include "node/logins.h"
#include "node/loop.h"
#include "node/members.h"
#include "node/monitor.h"
#include "node/probe.h"
#include "node/turn.h"
#include "node/web.h"
#include "storage/datadir.h"

struct hasp_node {
    struct hasp_node_options options; /* A deep copy. */
    struct replica_members configured;
    uv_loop_t uv;
    struct turn turn;
    struct core *core;
    bool has_begun; /* The core has: it may be called. */

    struct datadir *datadir;
    struct table *table;
    struct journal journal;
    struct archive archive;
    struct founding founding;
    struct core_accusation accused; /* As the directory says. */

    struct members members;
    struct clients clients;
    struct certificates certificates;
    struct errands errands;
    struct acts_file acts_file;
    struct logins logins;
    struct probes probes;
    struct monitor monitor;
    struct web web;
    struct loop loop;
    char client_address[128];
    char status_text[128];
    bool has_told_limits;     /* Those that differ from the cluster's. */
    uint64_t told_waiting_ns; /* When the log last told whom it waits for. */
};

#endif /* HASP_NODE_NODE_H */
