/* SPDX-License-Identifier: MIT */

/* A link: one connection of the process, shared by all sessions that would make
 * the same one. It has a connection to the cluster (client/cluster_conn.h), of
 * which each session's state machine is a member, its socket, the mutex that
 * guards these, and a driver: a thread (hasp_thread.c) or a libuv loop
 * (hasp_uv.c).
 *
 *     link_join()  a session shares a link that fits, or makes one
 *     link_leave() the last one ends it
 *
 * Two sessions share a link if their keys are equal. TTL and linger are part of
 * the key, since the timing of heartbeats decides when a node is left: a
 * session with a heartbeat every 20 ms must not leave a node for one with a TTL
 * of 10 s. A session opened by credentials, whose TTL is unknown at first, has
 * a link of its own.
 *
 * Links are in a registry of the process. A child of fork() starts with an
 * empty one, so it never uses its parent's connections.
 *
 * Threads: 'mutex' guards the connection, its members' state machines and the
 * socket. It is never held during a callback or while a name is resolved. The
 * registry has a lock of its own, which is taken first. */

#ifndef HASP_CLIENT_HASP_LINK_H
#define HASP_CLIENT_HASP_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/clock.h"
#include "client/cluster_conn.h"
#include "client/shown.h"
#include "client/transport.h"

/* Further sessions get another link: after a lost connection they are attached
 * one by one, and a node allows 4,096 (its limit sessions_per_conn). */
#define LINK_SESSION_MAX 1000

struct hasp_session;
struct link;

/* What sessions on one link have in common. Borrowed from the caller; a link
 * has a copy. */
struct link_key {
    struct endpoints endpoints;
    struct shown *shown;
    uint64_t ttl_ms; /* As requested; UINT64_MAX: durable. */
    uint64_t linger_ms;
    void *loop;  /* NULL: it has a thread. */
    bool is_own; /* Not shared. */
};

/* Carries out the I/O of the connection. */
struct link_driver {
    size_t size; /* Of the structure that begins with a struct link. */
    /* Starts the driver. On an error (hasp_why()) nothing was started. */
    int (*start)(struct link *link);
    /* No session is left: ends everything, finally with link_free(). */
    void (*stop)(struct link *link);
    /* Under the mutex, after a new request: carries out what the connection
     * wants. */
    void (*drive)(struct link *link);
    /* Wakes the driver, from anywhere, also from a signal handler. */
    void (*wake)(struct link *link);
};

struct link {
    const struct link_driver *driver;
    struct link_key key;
    struct list in_links;  /* Unless not shared. */
    uint32_t use_count;    /* Under the registry's lock. */
    uint32_t orphan_count; /* Those of them that were not opened. */

    pthread_mutex_t mutex;
    struct cluster_conn conn;
    struct transport transport;
    struct list sessions;
    struct list interrupts;      /* Waits with an interrupting descriptor. */
    atomic_bool has_interrupted; /* By a signal handler. */

    /* hasp_thread.c */
    int timer_fd; /* On CLOCK_BOOTTIME; also wakes the thread. */
    uint64_t armed_ns;
    atomic_uint wake_count;
    unsigned seen_count; /* Wake-ups that the thread has seen. */
    pthread_t thread;
    bool is_stopping;
};

/* Finds or makes a link for 'key', whose endpoints are copied. HASP_ENOMEM,
 * HASP_EIO with hasp_why(). */
MUST_CHECK int link_join(const struct link_key *key,
                         const struct link_driver *driver,
                         struct link **ret_link);
/* The node accepts no more sessions on it: no other joins it. True: it has
 * other sessions than the caller's. */
bool link_fill(struct link *link);
/* Can free 'link'. */
void link_leave(struct link *link);
/* Removes 'count' sessions. True: none is left, and the caller ends the
 * link. */
bool link_forget(struct link *link, uint32_t count);
/* A turn of the connection; under the mutex. */
void link_turn(struct link *link, struct lease_clock now);
/* For the driver, when nothing is in progress. */
void link_free(struct link *link);

/* In the child of a fork, whose memory is a copy but whose descriptors are
 * shared: removes one session; the last one frees the link, if it 'is_whole',
 * and closes its descriptors. */
void link_abandon(struct link *link, bool is_whole);

#endif /* HASP_CLIENT_HASP_LINK_H */
