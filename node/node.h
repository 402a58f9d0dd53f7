/* SPDX-License-Identifier: MIT */

/* A node: the core and everything around it.
 *
 *     turn.c             shared by all: the time, "a turn is due", "it failed"
 *     clients.c          clients: bytes to requests, answers to bytes
 *     members.c          links with members: greetings, frames
 *     probe.c            is a new member where it is said to be?
 *     journal.c          the log, the vote, room on the disk
 *     durable.c          in which order vote and log reach the disk
 *     write_latency.c    how long writes take: is the disk slow, or hung?
 *     snapshot_store.c   snapshots, taken and received, by a worker
 *     certificates.c     this node's certificates, and when they change
 *     metadata_writer.c  small writes into the data directory, by a worker
 *     audit_file.c       audit.file: the applied acts, by a worker
 *     logins.c           logins by the local socket, as acts
 *     recovery.c         what a start finds on disk
 *     founding.c         how a cluster begins (amnesia guard)
 *     options.c          the options: defaults, checks
 *     web.c              the HTTP port: the gateway (http/) and monitor.c
 *     monitor.c          /healthz, /readyz and /metrics
 *     metrics.c          the numbers of /metrics; process.c: the process
 *     settings.c         settings that change while the node runs
 *     facts.c            the numbers of RAFT.STATUS that only the node knows
 *     last_exit.c        how the last process with this directory ended
 *     stall.c            until when all input has been read (rule 6)
 *     loop_profile.c     where the time of the loop goes
 *     startup.c          how the core starts: disk, founding, joining
 *     loop.c             when what happens: one turn of the core for all input
 *     node.c             open, run, stop, close
 *
 * Each of them implements its part of struct core_port. The functions of the
 * port only record and never call the core. Calls go downward only: from node.c
 * to the loop, from there to startup.c and the parts, and from all of them to
 * turn.c.
 *
 * Threads: everything here runs on the loop's thread, except work that
 * journal.c, snapshot_store.c and others pass to workers. */

#ifndef HASP_NODE_NODE_H
#define HASP_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "core/core.h"
#include "include/hasp/node.h"
#include "net/peers.h"
#include "node/audit_file.h"
#include "node/certificates.h"
#include "node/clients.h"
#include "node/facts.h"
#include "node/founding.h"
#include "node/journal.h"
#include "node/last_exit.h"
#include "node/logins.h"
#include "node/loop.h"
#include "node/members.h"
#include "node/metadata_writer.h"
#include "node/monitor.h"
#include "node/probe.h"
#include "node/settings.h"
#include "node/snapshot_store.h"
#include "node/turn.h"
#include "node/web.h"
#include "storage/datadir.h"

struct hasp_node {
    struct hasp_node_options options; /* A deep copy. */
    struct replica_members configured;
    uv_loop_t uv;
    struct turn turn;
    struct core *core;
    bool has_begun; /* The core has started: it can be called. */

    struct datadir *datadir;
    struct table *table;
    struct journal journal;
    struct snapshot_store snapshot_store;
    struct founding founding;
    struct core_accusation accused; /* From the directory. */
    bool is_marked;                 /* See volume.h. */

    struct members members;
    struct clients clients;
    struct certificates certificates;
    struct metadata_writer metadata_writer;
    struct audit_file audit_file;
    struct logins logins;
    struct settings settings;
    struct probes probes;
    struct monitor monitor;
    struct facts facts;
    struct last_exit last_exit;
    struct web web;
    struct loop loop;
    char client_address[128];
    char status_text[128];
    bool has_logged_limits;     /* Differing limits were logged. */
    uint64_t waiting_logged_ns; /* When missing founders were last logged. */
};

#endif /* HASP_NODE_NODE_H */
