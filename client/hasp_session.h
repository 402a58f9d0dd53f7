/* SPDX-License-Identifier: MIT */

/* What the parts of the public library (include/hasp/hasp.h) share: a session
 * with its connections, owners, holds and events.
 *
 *     hasp_session.c   opening, closing, the lease, fork
 *     hasp_events.c    the notifier: a thread that tells of what happens
 *     hasp_call.c      connections from a pool, errors in the public codes
 *     hasp_owner.c     owner tags and the numbers of their requests
 *     hasp_change.c    a numbered change as it is sent, and sent again
 *     hasp_resolver.c  changes whose outcome nobody knows are cleared up
 *     hasp_lock.c      acquire, release, convert
 *     hasp_hold.c      what is asked of a hold without a round trip
 *     hasp_query.c     check, please, admit
 *
 * Threads: 'mutex' guards everything below it. It is never held during a round
 * trip or a callback; the keeper's own mutex may be taken inside it. */

#ifndef HASP_CLIENT_HASP_SESSION_H
#define HASP_CLIENT_HASP_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "client/client.h"
#include "client/clock.h"
#include "client/keeper.h"
#include "client/session.h"
#include "include/hasp/hasp.h"

#define OWNER_TAG_SIZE 129
/* What a node takes of ranges in ACKED. */
#define ACKED_RANGE_MAX 16

/* One connection; 'session->lines' has all, so that a child of fork() can close
 * its copies. */
struct line {
    struct list in_session;
    struct client *client;
    bool is_busy;
};

/* An owner tag. A private one is given to one hold at a time and used again
 * after it. */
struct owner {
    struct list in_session;
    char tag[OWNER_TAG_SIZE];
    bool is_private;
    uint32_t use_count;  /* Of holds and changes. */
    uint32_t open_count; /* Of its requests that are not over. */
};

/* The instances of one lock in a hold. */
struct held {
    char *name;
    uint64_t token;
};

struct hasp_hold {
    struct list in_session;
    struct hasp_session *session;
    struct owner *owner;
    struct held *held;
    size_t count;
    bool is_token_sure; /* False: an upgrade may have changed it. */
    bool has_ended;     /* The cluster says so. */
    bool is_told;       /* LOST has been told. */
    uint64_t limit_ms;  /* Max hold; 0: none. */
    uint64_t left_ms;   /* Of it, when 'limit_sent' was read. */
    struct lease_clock limit_sent;
};

struct event_node {
    struct list in_session;
    struct hasp_event event;
};

struct hasp_session {
    pid_t pid;
    uint64_t timeout_ms;
    uint64_t alive_ms;
    hasp_event_fn *on_event;
    void *event_data;
    struct endpoints endpoints;
    struct client_session opened;
    struct keeper *keeper;
    pthread_t notifier;
    int stop_fd;      /* Readable: the session is being closed. */
    int wake_fd;      /* For the notifier. */
    int event_fd;     /* For the program. */
    int interrupt_fd; /* Readable from hasp_interrupt() on. */
    int lost_fd;      /* Readable when the session is lost. */
    int timer_fd;     /* The notifier's; -1: none could be had. */
    int failed_fd;    /* Written to when a heartbeat failed; never read. */
    atomic_uint_least64_t alive_until_ns;

    pthread_mutex_t mutex;
    struct list lines;
    uint32_t endpoint; /* The one that answered last. */
    struct list owners;
    struct list holds;
    struct list events;
    uint32_t please_count; /* Of the events. */
    uint64_t private_owner_count;
    uint64_t newest; /* Number of the newest request. */
    uint64_t *open;  /* Those that are not over; ascending. */
    uint32_t open_count;
    uint32_t open_room;
    uint32_t acked_turn; /* Where the next ranges of ACKED begin. */
    struct list changes; /* The resolver's. */
    pthread_t resolver;
    pthread_cond_t resolver_wake;
    bool has_resolver;
    bool is_closing;
};

/* --- hasp_session.c --- */

/* 0, or why no call can be made: HASP_EINVALID, HASP_EFORKED, HASP_ELOST. */
MUST_CHECK int session_check(struct hasp_session *session);
/* The same without looking at the lease. */
MUST_CHECK int session_check_process(const struct hasp_session *session);
bool session_is_lost(struct hasp_session *session);
void session_lock(struct hasp_session *session);
void session_unlock(struct hasp_session *session);
static inline uint64_t session_deadline_ns(const struct hasp_session *session)
{
    return client_now_ns() + session->timeout_ms * NS_PER_MS;
}

/* --- hasp_events.c --- */

MUST_CHECK int events_start(struct hasp_session *session);
/* After stop_fd has turned readable. */
void events_stop(struct hasp_session *session);
void events_free(struct hasp_session *session);
/* The keeper's callbacks. */
void events_push(void *session, const struct resp_reply *reply);
void events_ended(void *session, struct bytes lock, struct bytes owner,
                  struct bytes reason, uint64_t token);
/* A hold with a limit is there. */
void events_wake(struct hasp_session *session);
/* Makes an eventfd readable. */
void fd_signal(int fd);
void fd_clear(int fd);

/* --- hasp_call.c --- */

/* Sets hasp_why() and returns 'error'. */
int why_set(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

MUST_CHECK int line_take(struct hasp_session *session, struct line **ret_line);
void line_put(struct hasp_session *session, struct line *line);
/* What client_ask() returned, in the public codes; sets hasp_why(). */
int line_error(struct hasp_session *session, const struct line *line,
               int error);

/* --- hasp_owner.c --- */

/* 'tag' NULL: a private one. Each is put once: named ones by whoever takes
 * them, together with its hold. HASP_EINVALID, HASP_ENOMEM. */
MUST_CHECK int owner_take(struct hasp_session *session, const char *tag,
                          struct owner **ret_owner);
void owner_put(struct hasp_session *session, struct owner *owner);
/* A number for a new request; HASP_ENOMEM. */
MUST_CHECK int owner_begin(struct hasp_session *session, struct owner *owner,
                           uint64_t *ret_number);
/* The request has been answered, or was never sent. */
void owner_end(struct hasp_session *session, struct owner *owner,
               uint64_t number);
/* Appends "OWNER tag REQ n ACKED m,a-b...". */
void owner_write(struct hasp_session *session, const struct owner *owner,
                 uint64_t number, struct query *query);

/* --- hasp_change.c --- */

enum change_kind { CHANGE_ACQUIRE, CHANGE_CONVERT, CHANGE_RELEASE };

/* A change of locks under its number, with all that is needed to send it again:
 * the cluster takes a number for the same request only if it asks the same. */
struct change {
    struct list in_session; /* Of the resolver. */
    struct hasp_session *session;
    enum change_kind kind;
    struct owner *owner;
    uint64_t number;
    char **names;
    size_t count;
    uint64_t token; /* Of a release; 0: whichever. */
    struct hasp_acquire_options options;
    char *value;
    uint64_t end_ns;   /* When the wait is over; UINT64_MAX. */
    bool leaves_node;  /* The next attempt is not for the one asked before. */
    bool is_forgotten; /* The cluster knows nothing of its number any more. */
    struct query query;
    struct client_options ask;
    struct lease_clock sent;       /* Of the attempt that was answered. */
    struct lease_clock first_sent; /* Before the first attempt. */
};

struct change_result {
    uint64_t *tokens; /* Of an ACQUIRE or CONVERT; 'count' of them. */
    bool is_granted;
};

/* Takes a number of 'owner'. 'options' may be NULL for a release. */
MUST_CHECK int change_new(struct hasp_session *session, enum change_kind kind,
                          struct owner *owner, const char *const *names,
                          size_t count,
                          const struct hasp_acquire_options *options,
                          struct change **ret_change);
/* Ends the number: only when the outcome is known. */
void change_free(struct change *change);
/* Sends it and waits, for 'wait_ms' and then the session's time-out.
 * 'interrupt_fd' -1: none. Public codes; 'tokens' has room for all. */
MUST_CHECK int change_ask(struct change *change, uint64_t wait_ms,
                          int interrupt_fd, struct change_result *result);
/* Goes on with it, at another node, after change_ask() was interrupted. */
MUST_CHECK int change_go_on(struct change *change, int interrupt_fd,
                            struct change_result *result);
/* Asks what became of it, giving up the place in the queue; within
 * 'deadline'. */
MUST_CHECK int change_withdraw(struct change *change, uint64_t deadline_ns,
                               int interrupt_fd, struct change_result *result);
/* True if 'error' leaves open whether it was, or will be, done. */
bool change_is_open(int error);

/* --- hasp_resolver.c --- */

/* Takes the change, whose outcome nobody waits for any more: a grant is given
 * back, a release is repeated. A private owner is put when that is done. */
void resolver_add(struct change *change);
/* After stop_fd has turned readable. */
void resolver_stop(struct hasp_session *session);

/* --- hasp_hold.c --- */

MUST_CHECK int client_hold_new(struct change *change, const uint64_t *tokens,
                               struct hasp_hold **ret_hold);
void client_hold_free(struct hasp_hold *hold);
/* Where its owner held a lock of it already the cluster has counted up that
 * hold, whose limit goes on. With the mutex. */
void client_hold_enter_again(struct hasp_hold *hold);
/* How long it may be trusted, its session's lease apart. With the mutex. */
uint64_t client_hold_limit_ns(const struct hasp_hold *hold,
                              struct lease_clock now);

#endif /* HASP_CLIENT_HASP_SESSION_H */
