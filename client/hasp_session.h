/* SPDX-License-Identifier: MIT */

/* What the parts of the public library (include/hasp/hasp.h) share: a session,
 * which is a machine (client/machine.h) with a lock and a driver.
 *
 *     hasp_session.c   opening, closing, events, fork, hasp_why()
 *     hasp_lock.c      locks, and what is asked of the cluster
 *     hasp_thread.c    the driver with a thread of its own, and how calls wait
 *     hasp_uv.c        the driver on a libuv loop
 *
 * Threads: 'mutex' guards the machine and all below it. It is never held during
 * a callback or while a name is looked up. */

#ifndef HASP_CLIENT_HASP_SESSION_H
#define HASP_CLIENT_HASP_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/clock.h"
#include "client/machine.h"
#include "client/transport.h"
#include "include/hasp/hasp.h"

struct hasp_session;

/* A call under way. */
struct waiting {
    struct client_call call;
    struct list in_session; /* If it may be interrupted. */
    struct hasp_session *session;
    int interrupt_fd; /* -1: none. */
    pthread_cond_t end;
    bool has_ended;
};

struct hasp_session {
    pid_t pid;
    hasp_event_fn *on_event;
    void *event_data;
    /* Under the mutex, after the machine was asked something: what it wants is
     * to be done. */
    void (*drive)(struct hasp_session *session);
    /* From anywhere, a signal handler, too: look soon. */
    void (*wake)(struct hasp_session *session);
    atomic_bool is_interrupted;

    pthread_mutex_t mutex;
    struct machine machine;
    struct list waits; /* Those that may be interrupted. */
    int event_fd;      /* For the program; -1: it has not asked for it. */

    /* hasp_thread.c */
    struct transport transport;
    int timer_fd; /* Of CLOCK_BOOTTIME; it wakes the thread, too. */
    uint64_t armed_ns;
    atomic_uint wake_count;
    unsigned seen_count; /* Of these, the thread has seen so many. */
    pthread_t thread;
    pthread_t notifier;
    pthread_cond_t news;
    bool has_thread;
    bool has_notifier;
    bool is_stopping;
    bool is_notifier_stopping;
};

/* --- hasp_session.c --- */

/* Sets hasp_why() and returns 'error'. */
int why_set(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Options that are whole, a session that nobody drives yet. */
MUST_CHECK int session_init(struct hasp_session *session,
                            const struct hasp_options *options);
/* When nobody drives it any more. */
void session_done(struct hasp_session *session);
/* Begins to open it; under the mutex. */
MUST_CHECK int session_begin(struct hasp_session *session,
                             const struct hasp_options *options,
                             struct client_call *call);
/* 0, or why no call can be made: HASP_EINVALID, HASP_EFORKED. */
MUST_CHECK int session_check_process(const struct hasp_session *session);
/* The machine's turn, and what the program is to see of it. */
void session_turn(struct hasp_session *session, struct lease_clock now);

/* --- hasp_lock.c --- */

/* Whole options of an acquisition; HASP_EINVALID. */
MUST_CHECK int acquire_check(const char *const *names, size_t count,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
MUST_CHECK int convert_check(const struct hasp_hold *hold, enum hasp_mode mode,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
/* Under the mutex: HASP_EINTR if no wait is to begin. */
MUST_CHECK int wait_check(struct hasp_session *session, int interrupt_fd);

/* --- hasp_thread.c --- */

MUST_CHECK int driver_start(struct hasp_session *session);
/* A callback's thread, if there is a callback. */
MUST_CHECK int notifier_start(struct hasp_session *session);
void notifier_stop(struct hasp_session *session);
void driver_stop(struct hasp_session *session);
/* The driver's, in the child of a fork. */
void driver_abandon(struct hasp_session *session);

/* A call that waits: wait_lock(), the machine's part, wait_end(). */
void wait_init(struct waiting *wait, struct hasp_session *session);
/* Takes the mutex and, if there is a 'wait', makes it ready. HASP_EINVALID,
 * HASP_EFORKED, HASP_ELOST: it has not. */
MUST_CHECK int wait_lock(struct hasp_session *session, struct waiting *wait,
                         struct lease_clock *now);
/* The call has begun, unless there is an error: gives the mutex back, waits for
 * the end, and tells what it was. */
int wait_end(struct waiting *wait, int error);

#endif /* HASP_CLIENT_HASP_SESSION_H */
