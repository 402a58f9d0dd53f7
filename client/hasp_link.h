/* SPDX-License-Identifier: MIT */

/* A link: one connection of the process, shared by all sessions that would make
 * the same one. It has an asker (client/cluster_conn.h), of which each
 * session's machine is a member, its socket, the mutex that guards all that,
 * and a driver: a thread (hasp_thread.c) or a libuv loop (hasp_uv.c).
 *
 *     link_join()  a session shares a link that fits, or makes one
 *     link_leave() the last one ends it
 *
 * Two sessions share if their keys are equal. TTL and linger belong to it,
 * since the sessions' heartbeats judge the connection: one that beats every 20
 * ms must not leave a node on behalf of one that has 10 s. A session that was
 * taken over, whose TTL is not known beforehand, has a link of its own.
 *
 * Links are found by a registry of the process. A child of fork() begins with
 * an empty one, so it never uses its parent's connections.
 *
 * Threads: 'mutex' guards the asker, its members' machines and the socket. It
 * is never held during a callback or while a name is looked up. The registry
 * has a lock of its own, which is taken before that. */

#ifndef HASP_CLIENT_HASP_LINK_H
#define HASP_CLIENT_HASP_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/clock.h"
#include "client/cluster_conn.h"
#include "client/shown.h"
#include "client/transport.h"

/* Beyond so many another one is made: after a lost connection they are attached
 * one by one, and a node takes 4,096 (its limit sessions_per_conn). */
#define LINK_SESSION_MAX 1000

struct hasp_session;
struct link;

/* What two sessions that share a link have in common. Borrowed from whoever
 * asks for a link; a link has its own. */
struct link_key {
    struct endpoints endpoints;
    struct shown *shown;
    uint64_t ttl_ms; /* As asked for; UINT64_MAX: without end. */
    uint64_t linger_ms;
    void *loop;  /* NULL: it has a thread. */
    bool is_own; /* It is not to be shared. */
};

/* Who carries out what the asker wants. */
struct link_driver {
    size_t size; /* Of what begins with a struct link; zeroed memory. */
    /* Nothing is under way yet. An error (hasp_why()): nothing was begun. */
    int (*start)(struct link *link);
    /* Nobody has it any more: ends all, link_free() in the end. */
    void (*stop)(struct link *link);
    /* Under the mutex, after a machine was asked something: what the asker
     * wants is to be done. */
    void (*drive)(struct link *link);
    /* From anywhere, a signal handler, too: look soon. */
    void (*wake)(struct link *link);
};

struct link {
    const struct link_driver *driver;
    struct link_key key;
    struct list in_links;  /* Unless it is its session's own. */
    uint32_t use_count;    /* Under the registry's lock. */
    uint32_t orphan_count; /* Sessions that were not opened, of these. */

    pthread_mutex_t mutex;
    struct cluster_conn conn;
    struct transport transport;
    struct list sessions;
    struct list interrupts;      /* Waits that a descriptor interrupts. */
    atomic_bool has_interrupted; /* A session of it was, by a signal handler. */

    /* hasp_thread.c */
    int timer_fd; /* Of CLOCK_BOOTTIME; it wakes the thread, too. */
    uint64_t armed_ns;
    atomic_uint wake_count;
    unsigned seen_count; /* Of these, the thread has seen so many. */
    pthread_t thread;
    bool is_stopping;
};

/* Finds or makes a link for 'key', whose endpoints are copied. HASP_ENOMEM,
 * HASP_EIO with hasp_why(). */
MUST_CHECK int link_join(const struct link_key *key,
                         const struct link_driver *driver,
                         struct link **ret_link);
/* A node takes no more sessions on it: no other one joins it. True: it has
 * others than the caller's. */
bool link_fill(struct link *link);
/* 'link' may be gone after this. */
void link_leave(struct link *link);
/* So many of its sessions have gone. True: nobody has it any more, and the
 * caller ends it. */
bool link_forget(struct link *link, uint32_t count);
/* A turn of the asker; under the mutex. */
void link_turn(struct link *link, struct lease_clock now);
/* For the driver, when nothing is under way any more. */
void link_free(struct link *link);

/* In the child of a fork: its memory is a copy, its descriptors are not. One
 * session less; the last one frees it, if it 'is_whole', and closes what is
 * open. */
void link_abandon(struct link *link, bool is_whole);

#endif /* HASP_CLIENT_HASP_LINK_H */
