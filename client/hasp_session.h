/* SPDX-License-Identifier: MIT */

/* Shared by the parts of the public library (include/hasp/hasp.h): a session,
 * which is a state machine (client/session_fsm.h) on a link
 * (client/hasp_link.h).
 *
 *     hasp_session.c   opening, closing, events, fork, hasp_why()
 *     hasp_lock.c      locks, and what is asked of the cluster
 *     hasp_seal.c      on_grant
 *     hasp_link.c      which sessions share a connection
 *     hasp_thread.c    the driver with a thread of its own, and how calls wait
 *     hasp_uv.c        the driver on a libuv loop
 *
 * Threads: the link's mutex guards the state machine and everything here that
 * is not constant. */

#ifndef HASP_CLIENT_HASP_SESSION_H
#define HASP_CLIENT_HASP_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/clock.h"
#include "client/hasp_link.h"
#include "client/session_fsm.h"
#include "client/tie.h"
#include "include/hasp/hasp.h"

/* A call in progress. */
struct waiting {
    struct client_call call;
    struct list in_session; /* If it can be interrupted. */
    struct list in_link;    /* If it has a descriptor. */
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
    struct list waits; /* Calls that can be interrupted. */
    int event_fd;      /* For the program; -1: not requested. */
    bool is_orphan;    /* Not opened; its link cleans up. */
    /* 32 hex digits; "": none. */
    char death_word[CLIENT_SECRET_SIZE];
    struct tie *tie; /* NULL: it is not to be tied. Guarded by itself. */

    /* hasp_thread.c: threads that call the program, and what they wait for. */
    struct session_thread {
        pthread_t thread;
        bool is_there;
        bool is_stopping; /* Guarded by the link's mutex. */
    } notifier, hooker;   /* Of 'on_event', and of the hooks. */
    pthread_cond_t news;
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

/* Initializes a session with complete options, on a link of 'driver' and its
 * 'loop'. */
MUST_CHECK int session_init(struct hasp_session *session,
                            const struct hasp_options *options,
                            const struct link_driver *driver, void *loop);
/* Leaves its link, which this can free. */
void session_done(struct hasp_session *session);
/* Under the link's mutex: frees the orphans that are cleaned up, or, in a
 * forked child, all of them. Returns their number. */
uint32_t session_free_orphans(struct link *link, bool are_all);
/* Starts to open it; under the mutex. */
MUST_CHECK int session_begin(struct hasp_session *session,
                             const struct hasp_options *options,
                             struct client_call *call);
/* 0, or why no call can be made: HASP_EINVALID, HASP_EFORKED. */
MUST_CHECK int session_check_process(const struct hasp_session *session);
/* Ends its waits soon; from anywhere, also from a signal handler. */
void session_set_interrupted(struct hasp_session *session);
/* Under the mutex: ends the waits, if requested. */
void session_interrupt(struct hasp_session *session, struct lease_clock now);
/* Ties it to this process. Not under the mutex. */
MUST_CHECK int session_tie_begin(struct hasp_session *session,
                                 const struct hasp_options *options);
/* Texts for HASP_ECONNECT and HASP_EBUSY, with the reason. */
#define SESSION_NOT_TIED "the session cannot be tied: %.400s"
#define SESSION_STAYS_TIED                                               \
    "the session is tied to this process, and nothing was handed over: " \
    "%.350s"
/* There are new events: wakes the waiting thread. */
void session_news(struct session_fsm *fsm);

/* --- hasp_lock.c ---------------------------------------------------------- */

/* Completes and checks the options of an acquisition; HASP_EINVALID. */
MUST_CHECK int acquire_check(const char *const *names, size_t count,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
MUST_CHECK int convert_check(const struct hasp_hold *hold, enum hasp_mode mode,
                             const struct hasp_acquire_options *options,
                             struct hasp_acquire_options *ret_options);
/* Under the mutex: HASP_EINTR if waits are interrupted. */
MUST_CHECK int wait_check(struct hasp_session *session, int interrupt_fd);

/* --- hasp_seal.c ---------------------------------------------------------- */

/* Runs on_grant for the new hold, of which the caller knows nothing yet. Unless
 * it returns 0 the hold was given back: HASP_ESEAL, HASP_ELOST. */
MUST_CHECK int seal_run(struct hasp_hold *hold, const char *const *names,
                        const struct hasp_acquire_options *options);

/* --- hasp_thread.c -------------------------------------------------------- */

extern const struct link_driver thread_driver;

/* Starts the thread of the callback, if there is one. */
MUST_CHECK int notifier_start(struct hasp_session *session);
void notifier_stop(struct hasp_session *session);
/* Starts the thread of the hooks, if there are any. */
MUST_CHECK int hooker_start(struct hasp_session *session);
/* Returns when all hooks have been called. */
void hooker_stop(struct hasp_session *session);
/* Under the mutex: takes the oldest event for hooks; false: there is none. */
bool session_take_hook(struct hasp_session *session,
                       struct hasp_hook_event *ret_event);
/* Reports to hooks an acquisition that the loss of the session prevents. */
void session_refused(struct hasp_session *session, const char *name,
                     const char *trace, int error);
/* A blocking call is: wait_lock(), session_fsm_...(), call_wait_end(). */
void wait_init(struct waiting *wait, struct hasp_session *session);
/* Locks the mutex and prepares 'wait', if not NULL. HASP_EINVALID,
 * HASP_EFORKED, HASP_ELOST: not locked. */
MUST_CHECK int wait_lock(struct hasp_session *session, struct waiting *wait,
                         struct lease_clock *now);
/* Unlocks the mutex, waits for the end of the call unless 'error' is set, and
 * returns its result. */
int call_wait_end(struct waiting *wait, int error);

#endif /* HASP_CLIENT_HASP_SESSION_H */
