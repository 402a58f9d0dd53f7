/* SPDX-License-Identifier: MIT */

/* Keeps a session alive from a thread of its own, with a connection of its own,
 * so that neither a blocked request nor a busy program starves the lease.
 *
 * A heartbeat leaves each fifth of the lease (lease/lease.h); one that is not
 * answered is given up after another fifth and repeated at another node.
 *
 * EXPIRED and NOSESSION lose the lease at once. BLACKLISTED does not: the
 * session may still finish what it does, its lease just is not prolonged any
 * more.
 *
 * Threads: keeper_view() and keeper_stop() may be called from any thread; the
 * callbacks run on the keeper's. */

#ifndef HASP_CLIENT_KEEPER_H
#define HASP_CLIENT_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/client.h"
#include "client/session.h"

struct keeper;

struct keeper_options {
    session_ended_fn *ended;  /* Again and again, until its RELEASE; or NULL. */
    connection_push_fn *push; /* Please and other messages; or NULL. */
    bool (*may_beat)(void *data); /* False: no heartbeat this time; or NULL. */
    uint32_t endpoint;            /* Where to begin. */
    bool is_eager; /* The first heartbeat leaves at once: 'push' hears then. */
    int failed_fd; /* An eventfd to be told when a node did not answer a
                    * heartbeat, which may be paused, and when the lease is
                    * lost; 0: none. */
    void *data;
};

struct keeper_view {
    enum lease_state state;
    uint64_t remaining_ns;   /* For which the lease may be trusted. */
    uint64_t sure_ns;        /* Likewise, were it not for LINGER: until lost. */
    bool is_refused;         /* The server will not prolong it any more. */
    char why[HASP_WHY_SIZE]; /* Of the refusal, or of the last failure. */
};

/* Starts to keep 'session', which was just opened or kept. HASP_ENOMEM or
 * HASP_EIO if no thread can be had. */
MUST_CHECK int keeper_start(const struct endpoints *endpoints,
                            const struct client_session *session,
                            const struct keeper_options *options,
                            struct keeper **ret_keeper);
/* Waits for the thread to end; the session lives on until its TTL. NULL is
 * fine. */
void keeper_stop(struct keeper *keeper);

/* The server said that the session has ended, in answer to somebody else's
 * request. */
void keeper_lose(struct keeper *keeper);

/* In the child of a fork, where the thread is not: closes its copies of the
 * descriptors. The memory is given up, since the thread may have been in the
 * midst of a change. */
void keeper_abandon(struct keeper *keeper);

/* The state of the lease now. */
void keeper_view(struct keeper *keeper, struct keeper_view *ret_view);

/* Turns readable when a heartbeat was answered or refused; read 8 bytes. */
int keeper_fd(const struct keeper *keeper);

#endif /* HASP_CLIENT_KEEPER_H */
