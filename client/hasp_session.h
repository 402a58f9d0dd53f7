/* SPDX-License-Identifier: MIT */

/* What the parts of the public library (include/hasp/hasp.h) share: a session,
 * which is a machine (client/session_fsm.h) on a link (client/hasp_link.h).
 *
 *     hasp_session.c   opening, closing, events, fork, hasp_why()
 *     hasp_lock.c      locks, and what is asked of the cluster
 *     hasp_link.c      which sessions share a connection
 *     hasp_thread.c    the driver with a thread of its own, and how calls wait
 *     hasp_uv.c        the driver on a libuv loop
 *
 * Threads: the link's mutex guards the machine and all that is not constant
 * here. */

#ifndef HASP_CLIENT_HASP_SESSION_H
#define HASP_CLIENT_HASP_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/clock.h"
#include "client/hasp_link.h"
#include "client/session_fsm.h"
#include "include/hasp/hasp.h"

/* A call under way. */
struct waiting {
    struct client_call call;
    struct list in_session; /* If it may be interrupted. */
    struct list in_link;    /* If a descriptor interrupts it. */
    struct hasp_session *session;
    int interrupt_fd; /* -1: none. */
    pthread_cond_t end;
    bool has_ended;
};

struct hasp_session {
    pid_t pid;
    struct link *link;
    struct list in_link;
    hasp_event_fn *on_event;
    void *event_data;
    atomic_bool is_interrupted;

    struct session_fsm fsm;
    struct list waits; /* Those that may be interrupted. */
    int event_fd;      /* For the program; -1: it has not asked for it. */
    bool is_orphan;    /* It was not opened, and its link clears up. */

    /* hasp_thread.c: the thread of 'on_event'. */
    pthread_t notifier;
    pthread_cond_t news;
    bool has_notifier;
    bool is_notifier_stopping;
};

static inline void session_lock(const struct hasp_session *session)
{
    pthread_mutex_lock(&session->link->mutex);
}
static inline void session_unlock(const struct hasp_session *session)
{
    pthread_mutex_unlock(&session->link->mutex);
}

/* --- hasp_session.c ------------------------------------------------------- */

/* Sets hasp_why() and returns 'error'. */
int why_set(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Options that are whole; a session on a link that 'driver' drives, 'loop' for
 * it. */
MUST_CHECK int session_init(struct hasp_session *session,
                            const struct hasp_options *options,
                            const struct link_driver *driver, void *loop);
/* Leaves its link, which may be gone then. */
void session_done(struct hasp_session *session);
/* Under the link's mutex: frees the orphans that have been cleared up, or (in a
 * forked child, which leaves all to its parent) all. Returns how many. */
uint32_t session_free_orphans(struct link *link, bool are_all);
/* Begins to open it; under the mutex. */
MUST_CHECK int session_begin(struct hasp_session *session,
                             const struct hasp_options *options,
                             struct client_call *call);
/* 0, or why no call can be made: HASP_EINVALID, HASP_EFORKED. */
MUST_CHECK int session_check_process(const struct hasp_session *session);
/* From anywhere, a signal handler, too: its waits end soon. */
void session_set_interrupted(struct hasp_session *session);
/* Under the mutex: ends the waits, if that was asked for. */
void session_interrupt(struct hasp_session *session, struct lease_clock now);
/* The machine has events: whoever waits for them is woken. */
void session_news(struct session_fsm *fsm);

/* --- hasp_lock.c ---------------------------------------------------------- */

/* Whole options of an acquisition; HASP_EINVALID. */
MUST_CHECK int acquire_check(const char *const *names, size_t count,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
MUST_CHECK int convert_check(const struct hasp_hold *hold, enum hasp_mode mode,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
/* Under the mutex: HASP_EINTR if no wait is to begin. */
MUST_CHECK int wait_check(struct hasp_session *session, int interrupt_fd);

/* --- hasp_thread.c -------------------------------------------------------- */

extern const struct link_driver thread_driver;

/* A callback's thread, if there is a callback. */
MUST_CHECK int notifier_start(struct hasp_session *session);
void notifier_stop(struct hasp_session *session);
/* A call that waits: wait_lock(), the machine's part, wait_end(). */
void wait_init(struct waiting *wait, struct hasp_session *session);
/* Takes the mutex and, if there is a 'wait', makes it ready. HASP_EINVALID,
 * HASP_EFORKED, HASP_ELOST: it has not. */
MUST_CHECK int wait_lock(struct hasp_session *session, struct waiting *wait,
                         struct lease_clock *now);
/* The call has begun, unless there is an error: gives the mutex back, waits for
 * the end, and tells what it was. */
int call_wait_end(struct waiting *wait, int error);

#endif /* HASP_CLIENT_HASP_SESSION_H */
