/* SPDX-License-Identifier: MIT */

/* The client library of hasp, a replicated lock service.
 *
 * A program acquires a lock in a cluster, works, and releases it; meanwhile
 * nobody else holds the lock. If the program dies or is cut off, the lock is
 * granted to somebody else, but only after the program knows that it has lost
 * it.
 *
 * Calling sequence
 * ----------------
 *
 *     struct hasp_options options;
 *     struct hasp_session *session;
 *     struct hasp_hold *hold;
 *
 *     hasp_options_init(&options);
 *     options.endpoints = "10.0.0.1:7420,10.0.0.2:7420,10.0.0.3:7420";
 *     int status = hasp_open(&options, &session);
 *     if (status != 0) {
 *         ... print hasp_why() ...
 *     }
 *     status = hasp_acquire(session, "billing/nightly", NULL, &hold);
 *     if (status == 0) {
 *         while (there is work && hasp_guard(hold, need_ns) == 0) {
 *             ... one step that takes at most need_ns, and that shows
 *                 hasp_token(hold) to what it writes to ...
 *         }
 *         status = hasp_release(hold);
 *     }
 *     hasp_close(session);
 *
 * A SESSION identifies a program to the cluster. It has a lease, which a thread
 * of the library renews. A HOLD is a session's possession of one lock, or of
 * several that were acquired at once. Its TOKEN is a number that grows with
 * each grant of the lock.
 *
 * A hold is identified by its token. The library trusts what the cluster says
 * it granted (token, mode, count, and the time left of a limit), not what was
 * requested, and counts times from the sending of the request. Each request
 * about a hold names its token and changes nothing else that the same owner
 * has. The answer to a heartbeat names, by their tokens, the holds that ended
 * without being released. If it says that notices were dropped, the library
 * reads the list of the session's holds and treats each hold that is missing
 * there as lost.
 *
 * What you must never do, and why
 * -------------------------------
 *
 * Do not trust a hold without checking. A lease expires if the network is cut
 * or the machine stalls, and the library cannot prevent that. Call hasp_guard()
 * before each step that must not overlap with the next holder's work.
 *
 * Do not trust even hasp_guard() if a late write does harm that cannot be
 * undone. A program can be paused for any time between the check and the write,
 * and then continue without noticing. No lock service can prevent that. The
 * resource that is written to must compare tokens: hasp_fence_enter() does it
 * for a program that stores data, hasp_admit() does it in the cluster.
 *
 * Do not read "unknown" as "no". After HASP_EUNKNOWN a change may or may not
 * have been made. Each function says what to do then.
 *
 * Do not use anything of a session after hasp_close(), nor a hold after
 * hasp_release(): they are freed.
 *
 * Do not block in an event callback, and do not close the session there.
 *
 * Errors
 * ------
 *
 * A function that can fail returns 0 or a negative HASP_E... code and is marked
 * HASP_MUST_CHECK. hasp_strerror() has a text for each code; hasp_why() has a
 * message about the last failure in this thread. Outputs ('ret_...') are set on
 * success only. "Held by somebody else" is a result, not an error:
 * HASP_NOT_ACQUIRED, which is positive. The library prints nothing. It returns
 * HASP_EINVALID for misuse that it can detect, and aborts the process only if a
 * connection's buffers cannot grow or if it finds a bug in itself.
 *
 * Each function lists the errors that have a special meaning there. Every
 * function that sends a request to the cluster can also return
 *
 *     HASP_ECONNECT, _ENOTLEADER, _EBUSY    nothing was done: try later
 *     HASP_ECERT                            certificates: hasp_why()
 *     HASP_EUNKNOWN                         no answer within timeout_ms
 *     HASP_ELOST                            open another session
 *     HASP_EFULL, _EREFUSED, _EBLACKLISTED, _EFOREIGN, _EREPLY
 *                                           the cluster refused: hasp_why()
 *     HASP_EINVALID, _EFORKED               a mistake of the caller
 *     HASP_ENOMEM, _EIO, _EPROTO            no memory, no thread, no cluster
 *
 * Changes are numbered. The library repeats a change, at other nodes too, until
 * it is answered or the timeout has passed; no change takes effect twice.
 *
 * Threads
 * -------
 *
 * Every function may be called from any thread; a call that waits does not
 * block calls in other threads. hasp_close() and hasp_release() must not run
 * while another thread uses what they free. Only hasp_interrupt() may be called
 * from a signal handler. A signal does not end a wait.
 *
 * Sessions of a process that would make the same connection ('own_connection',
 * below) share one thread and two descriptors, the connection and a timer,
 * however many calls wait. A session has one more thread if 'on_event' is set,
 * and one more descriptor once hasp_event_fd() was called. All threads have all
 * signals blocked.
 *
 * fork()
 * ------
 *
 * A child process owns nothing: in it every call on a session, hold or fence of
 * its parent returns HASP_EFORKED (hasp_remaining() and hasp_token() return 0)
 * and touches no connection. The child may call hasp_close(), which then only
 * closes its copies of the descriptors and frees what it safely can; the
 * parent's session and locks are not affected. A child that needs a lock opens
 * a session of its own. All descriptors are close-on-exec.
 *
 * Ownership
 * ---------
 *
 * Every pointer that is passed in is borrowed for the duration of the call.
 * Sessions and holds belong to the caller; closing a session ends and frees its
 * holds. Each function that returns a text says how long it stays valid.
 *
 * Times are in milliseconds or nanoseconds, as the name says. They are measured
 * by CLOCK_MONOTONIC and CLOCK_BOOTTIME together, so that the time during which
 * a machine was suspended counts. */

#ifndef HASP_HASP_H
#define HASP_HASP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define HASP_API __attribute__((visibility("default")))
#define HASP_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HASP_API
#define HASP_MUST_CHECK
#endif

/* Version of this header; hasp_version() returns that of the library. Within
 * one major version structures only grow, at their end. */
#define HASP_VERSION_MAJOR 0
#define HASP_VERSION_MINOR 1
#define HASP_VERSION_PATCH 0

/* --- Errors ----------------------------------------------------------------
 */

/* Values are stable and never reused. (base/err.h in hasp's sources has the
 * same list; the header that is included first defines it.) */
#ifndef HASP_ERRORS_DEFINED
#define HASP_ERRORS_DEFINED
enum hasp_error {
    /* A null pointer, an empty name, options that contradict each other, or an
     * argument that the cluster calls invalid. */
    HASP_EINVALID = -1,
    /* The peer does not speak the protocol of hasp. */
    HASP_EPROTO = -2,
    /* A request, or an answer, is larger than the protocol allows. */
    HASP_ETOOBIG = -3,
    /* A limit of the cluster, of the user (its quota) or of this process is
     * reached. */
    HASP_EFULL = -4,
    /* A file could not be read or written (fences), or no thread or descriptor
     * could be created. */
    HASP_EIO = -5,
    /* The disk is full (fences). */
    HASP_ENOSPC = -6,
    /* A fence's file is damaged. */
    HASP_ECORRUPT = -7,
    /* Nodes answered, but none knows a leader. Nothing was done. */
    HASP_ENOTLEADER = -8,
    /* The cluster is overloaded. Nothing was done. */
    HASP_EBUSY = -9,
    /* Internal: no function of this header returns these four or HASP_EMORE. */
    HASP_ENOENT = -10,
    HASP_EEXIST = -11,
    HASP_ECLOSED = -12,
    HASP_ETIMEDOUT = -13,
    /* Out of memory. */
    HASP_ENOMEM = -14,
    HASP_EMORE = -15,
    /* No node could be reached. Nothing was done. */
    HASP_ECONNECT = -16,
    /* The cluster refused with an error that has no code here: hasp_why(). */
    HASP_EREPLY = -17,
    /* The session's lease, or the hold, is lost for good. */
    HASP_ELOST = -18,
    /* hasp_interrupt() or the interrupting descriptor ended the wait. */
    HASP_EINTR = -19,
    /* The cluster does not allow it (authentication, permissions). */
    HASP_EREFUSED = -20,
    /* Released, but the cluster had already ended the hold. */
    HASP_ENOTHELD = -21,
    /* Waiting would close a cycle of waits; hasp_why() names it. */
    HASP_EDEADLOCK = -22,
    /* The session belongs to the parent process. */
    HASP_EFORKED = -23,
    /* No answer in time: the change may or may not have been made. */
    HASP_EUNKNOWN = -24,
    /* The lease does not last for as long as the step needs. */
    HASP_ESHORT = -25,
    /* A higher token has been seen: the holder of this one has lost the
     * lock. */
    HASP_ESTALE = -26,
    /* An operator has blacklisted the session or its name. */
    HASP_EBLACKLISTED = -27,
    /* Internal: the data was written by a newer version than this one. */
    HASP_ETOOOLD = -28,
    /* TLS: a certificate, a key or a CA is missing, does not match, has expired
     * or was rejected by one side, or one side does not use TLS. Nothing was
     * done. */
    HASP_ECERT = -29,
    /* on_grant failed or took too long, so the lock was given back. */
    HASP_ESEAL = -30,
    /* The name belongs to another cell; hasp_why() has its endpoints. Nothing
     * was done. */
    HASP_EFOREIGN = -31
};
#endif

/* Not an error: somebody else holds the lock, and the wait, if any, is over. */
#define HASP_NOT_ACQUIRED 1

/* A text for 'error'; "success" for 0. Never NULL, always valid. */
HASP_API const char *hasp_strerror(int error);

/* A message about the newest failed call of this thread, for people, e.g. "no
 * node answers (127.0.0.1:7420: Connection refused)". Valid until this thread's
 * next failing call. Never NULL. */
HASP_API const char *hasp_why(void);

/* "0.1.0"; always valid. */
HASP_API const char *hasp_version(void);

/* --- Sessions --------------------------------------------------------------
 */

struct hasp_session;
struct hasp_hold;

enum hasp_event_kind {
    /* The cluster has not answered for too long, so the locks may soon be
     * granted to others (only sessions with linger_ms have this state). Treat
     * the locks as not held: start no step, but keep what is in memory. */
    HASP_EVENT_JEOPARDY = 1,
    /* After JEOPARDY: the lease was renewed; nothing was lost. */
    HASP_EVENT_SAFE = 2,
    /* Lost for good. Without a name: the session and all its holds. With a
     * name: the hold of that lock with that token, because its limit (hold_ms)
     * has passed or because it was taken away. Reported once for each token. */
    HASP_EVENT_LOST = 3,
    /* Somebody asks for the release of the lock 'name' as soon as convenient.
     * If the session is durable, somebody may also have announced to break the
     * hold (LOCK.BREAK): to object, acquire the lock again. Reported once, at
     * best. */
    HASP_EVENT_PLEASE = 4,
    /* Nothing is lost, but people should know 'text': the files have new
     * certificates, or a new secret, which cannot be used; or a node of another
     * cluster answers at one of the endpoints, and is sent no requests; or the
     * session is not tied to the process at present ('tie'). */
    HASP_EVENT_NOTICE = 5
};

#define HASP_EVENT_NAME_SIZE 512
#define HASP_EVENT_TEXT_SIZE 512

struct hasp_event {
    enum hasp_event_kind kind;
    uint64_t token;                  /* The hold's; 0: about the session. */
    char name[HASP_EVENT_NAME_SIZE]; /* The lock's; "": the session. */
    /* The message, or the reason; truncated. */
    char text[HASP_EVENT_TEXT_SIZE];
};

/* Runs on a thread of the library that does nothing else: it can delay later
 * events, but neither heartbeats nor calls. It may call every function but
 * hasp_close(). */
typedef void hasp_event_fn(void *data, const struct hasp_event *event);

/* --- Hooks: they learn of each acquisition, for traces and metrics --- */

enum hasp_hook_kind {
    HASP_HOOK_ACQUIRE = 1, /* It begins; no request was sent yet. */
    HASP_HOOK_WAIT = 2,    /* The cluster has put it into the queue. */
    HASP_HOOK_GRANTED = 3, /* It is held; on_grant runs after this. */
    HASP_HOOK_FAILED = 4,  /* It was not granted: an end. */
    /* Released, or given back, or the session is being closed: an end. The
     * request is sent after this. */
    HASP_HOOK_RELEASED = 5,
    HASP_HOOK_LOST = 6 /* The hold, or the session, was lost: an end. */
};

#define HASP_TRACE_SIZE 64

struct hasp_hook_event {
    enum hasp_hook_kind kind;
    uint64_t id;    /* Numbers the acquisitions of the session, from 1. */
    uint64_t token; /* As granted, of the first lock; 0: not granted yet. */
    /* CLOCK_REALTIME of the event, for people. */
    uint64_t unix_ns;
    /* Nanoseconds since ACQUIRE; for RELEASED and LOST, since GRANTED. */
    uint64_t elapsed_ns;
    /* Earlier acquisitions that no hook was called for, because hooks were late
     * by 1000 events or no memory was left. */
    uint64_t skipped;
    char name[HASP_EVENT_NAME_SIZE]; /* Of several locks, the first one. */
    char trace[HASP_TRACE_SIZE];     /* 'trace' of the acquisition, or "". */
    char text[HASP_EVENT_TEXT_SIZE]; /* The reason of FAILED and LOST. */
};

/* 'event' is valid during the call. */
typedef void hasp_hook_fn(void *data, const struct hasp_hook_event *event);

/* Each acquisition begins with 'acquire', then 'wait' if others have the lock,
 * and has exactly one end. The hooks of a session are called one after the
 * other, in that order, on a thread that does nothing else (with hasp_uv.h: on
 * the loop's). One that is slow delays other hooks and hasp_close(), and
 * nothing else. They may call every function but hasp_close(). hasp_convert()
 * and hasp_resume() are not reported. */
struct hasp_hooks {
    size_t size; /* Set by hasp_hooks_init(). */
    void *data;  /* Passed to each. */
    /* NULL: not called. */
    hasp_hook_fn *acquire;
    hasp_hook_fn *wait;
    hasp_hook_fn *granted;
    hasp_hook_fn *failed;
    hasp_hook_fn *released;
    hasp_hook_fn *lost;
};

/* Sets every default. */
HASP_API void hasp_hooks_init(struct hasp_hooks *hooks);

enum hasp_tie {
    HASP_TIE_NONE = 0,
    HASP_TIE_TRY = 1, /* If there is an agent; HASP_EVENT_NOTICE if not. */
    HASP_TIE_MUST = 2 /* hasp_open() fails if the session cannot be tied. */
};

struct hasp_options {
    size_t size; /* Set by hasp_options_init(). */

    /* "host:port,host:port,..."; the default port is 7420. "unix:/path" is a
     * socket of a node on this machine (listen.local). Name all nodes; any of
     * them forwards to the leader. NULL: the environment's HASP_ENDPOINTS, or
     * the nodes of hasp dev (127.0.0.1:7420, :7430, :7440). */
    const char *endpoints;

    /* Shown to people who list the holders of a lock. NULL:
     * "program@host:pid". */
    const char *name;

    /* Length of the lease: the time after the last heartbeat until the cluster
     * ends the session and grants its locks to others. From 100 to the
     * cluster's limit ttl_max (60000 unless changed); 0: 10 s, or 60 s with
     * 'tie'. The program may
     * trust it for 0.8 of that time. A long lease survives long interruptions;
     * a short one frees the locks sooner. */
    uint32_t ttl_ms;

    /* If the session's connections are closed, e.g. because the program died,
     * the cluster ends the session after this shorter time. 0: none; otherwise
     * from 50 to ttl_ms. In return the program may trust the lease for 0.8 of
     * this time only, and a hasp_guard() that needs more never succeeds: choose
     * well above 1.25 times the longest step. */
    uint32_t linger_ms;

    /* Time for one request, from the first attempt to the last, without the
     * wait for a lock. 0: 10 s. */
    uint32_t timeout_ms;

    /* Watchdog: unless hasp_alive() is called at least this often, the lease is
     * not renewed. So a program that hangs loses its locks as a dead one does,
     * at most alive_ms + ttl_ms after its last call. 0: no watchdog. */
    uint32_t alive_ms;

    /* NULL: the program fetches events with hasp_event_next(). */
    hasp_event_fn *on_event;
    void *event_data;

    /* Credentials written by hasp_credentials(): attach to that session instead
     * of opening one. 'name', 'ttl_ms' and 'linger_ms' are not used then. NULL:
     * open a new session. */
    const char *credentials;

    /* TLS: a folder with ca.crt, the CA to trust, and, if the program is to
     * authenticate itself, client.crt and client.key ('hasp cert user' makes
     * such a folder). All connections use TLS then. Each endpoint must present
     * a certificate of a node of the cluster; host names do not matter. NULL:
     * the environment's HASP_TLS, or no TLS; "": no TLS.
     *
     * The files are read again before each connection, so renewed ones are
     * used. If the new files are invalid, the library reports HASP_EVENT_NOTICE
     * and keeps the old ones. hasp_open() returns HASP_ECERT at once if the
     * files are invalid, and also, when it would otherwise return
     * HASP_ECONNECT, if the client trusts no node or no node trusts the client.
     * hasp_why() has the details. */
    const char *tls;

    /* The cluster's name, for a CA whose certificate does not contain it
     * because 'hasp cert' did not make it. NULL: from the CA. */
    const char *cluster;

    /* A file, mode 0600, with a secret of the user that the session is to
     * belong to ('hasp secret add' makes it). Read again before each
     * connection, as for 'tls'. NULL: the environment's HASP_SECRET_FILE, or
     * none; "": none. hasp_open() returns HASP_EINVALID if the file is invalid,
     * HASP_ENOENT if it does not exist. A request that the user has no right to
     * make fails with the word NOPERM. */
    const char *secret_file;

    /* A durable session: it has no lease (ttl_ms and linger_ms must be 0), and
     * its holds outlive the program until somebody releases or breaks them
     * (docs/durable.md). They do not expire: hasp_remaining() returns
     * UINT64_MAX. While the program is connected, it gets an event if an
     * operator takes a hold; at other times only the token protects the
     * resource. hasp_close() ends the session, hasp_detach() leaves it open. If
     * the answer to OPEN was lost, a session that holds nothing remains. */
    bool is_durable;
    /* Why the lock is held, for others who want it: at most 128 bytes. NULL:
     * none. */
    const char *reason;

    /* Sessions of a process with the same endpoints, TLS, secret, ttl_ms and
     * linger_ms (and the same libuv loop) share one connection. True: this
     * session has a connection and a thread of its own, so that traffic of the
     * others cannot delay it. A session with 'credentials' always has its
     * own. */
    bool own_connection;

    /* Dead is not silent: what a process has sent before it died can still
     * arrive. With a tie the next holder has the lock some milliseconds after
     * the death, so check the token where you write, or set delay_ms.
     *
     * Ties the session to this process: when the process dies, the agent of
     * this host ('hasp agent', docs/agent.md) ends the session at once, however
     * long ttl_ms is. Only with a TTL, without linger_ms and 'credentials'. By
     * tying it you promise that whatever this process has started stops with
     * it. The session stays tied over a restart of the
     * agent; hasp_is_tied() says whether it is. exec() keeps the process, and
     * loses the session as ever; a child of fork() has nothing of it. */
    enum hasp_tie tie;
    /* The agent's socket. NULL: the environment's HASP_AGENT, or
     * /run/hasp-agent/agent.sock. */
    const char *agent;

    /* 32 lower-case hex digits, random: the session's death word, for a witness
     * of your own that sees the process end and then runs 'hasp died', or sends
     * SESSION.DIED. It allows nothing else. NULL: none, or with 'tie' one that
     * the library makes. */
    const char *death_word;

    /* Copied by hasp_open(). NULL: none. */
    const struct hasp_hooks *hooks;
};

/* Sets every default. Call it first, so that members that a newer header adds
 * are set too. */
HASP_API void hasp_options_init(struct hasp_options *options);

/* Opens a session and starts to renew its lease. 'options' may be NULL for the
 * defaults. Waits for at most timeout_ms. HASP_ECONNECT, HASP_ENOTLEADER,
 * HASP_EBUSY: no session, try later; HASP_ECERT; HASP_EBLACKLISTED;
 * HASP_EINVALID. Never HASP_EUNKNOWN: if the answer was lost, the session owns
 * nothing and expires. */
HASP_API HASP_MUST_CHECK int hasp_open(const struct hasp_options *options,
                                       struct hasp_session **ret_session);

/* Ends the session: releases its holds and cancels its waits, all at once, then
 * frees the holds and the session. The holds must not be trusted from the
 * moment of the call. If no node can be reached within timeout_ms, the session
 * ends when its lease expires. No other thread may be in a call on the session:
 * use hasp_interrupt() and wait for those calls to return. NULL is ignored. */
HASP_API void hasp_close(struct hasp_session *session);

/* True while the session is tied to this process ('tie'). */
HASP_API bool hasp_is_tied(struct hasp_session *session);

/* Credentials ("ID:SECRET") let another process use the session: a new instance
 * of the same program, or the next command of a script. A process that has them
 * can do anything with the session that its owner can, so keep them out of
 * command lines and logs. A session that is tied to this process is untied
 * first, for good; if the agent does not confirm that, they return HASP_EBUSY,
 * and nothing was handed over. */
#define HASP_CREDENTIALS_SIZE 64
HASP_API HASP_MUST_CHECK int
hasp_credentials(struct hasp_session *session,
                 char ret_credentials[HASP_CREDENTIALS_SIZE]);

/* Frees the session and its holds in this process and leaves them in the
 * cluster. A tied session is untied first: HASP_EBUSY as above, and the session
 * is not freed. They last until the lease expires, or for as long as another
 * process renews it, which opens the session by its credentials and takes its
 * holds over with hasp_resume(). One more heartbeat is sent, so that the whole
 * lease is left; an error means that it was not answered. Otherwise as
 * hasp_close(). */
HASP_API HASP_MUST_CHECK int hasp_detach(struct hasp_session *session);

/* The session's number in the cluster; 0 for NULL. */
HASP_API uint64_t hasp_session_id(const struct hasp_session *session);

/* Nanoseconds for which the session's lease may be trusted, without a round
 * trip; 0 in jeopardy and when it is lost. */
HASP_API uint64_t hasp_session_remaining(struct hasp_session *session);

/* Reports that the program makes progress (see alive_ms). Call it in the code
 * that does the work, not from a timer or another thread, which continue when
 * the work hangs. HASP_ELOST if the session is lost. No round trip. */
HASP_API int hasp_alive(struct hasp_session *session);

/* Ends every wait for a lock in this session with HASP_EINTR, also those that
 * start later, until hasp_interrupt_clear(): so it cannot come too early. Other
 * calls are not interrupted; they take at most timeout_ms. Safe in a signal
 * handler. */
HASP_API int hasp_interrupt(struct hasp_session *session);
/* Allows waits again. Not safe in a signal handler. */
HASP_API int hasp_interrupt_clear(struct hasp_session *session);

/* A descriptor that is readable while hasp_event_next() has an event, for
 * poll() and similar calls; do not read it. Valid as long as the session.
 * Negative: an error. */
HASP_API int hasp_event_fd(struct hasp_session *session);

/* Removes the oldest event and returns it; false if there is none. Never waits.
 * Events of a session with a callback go there instead. If a program does not
 * fetch its events, PLEASE events beyond 64 are dropped, but no others. */
HASP_API bool hasp_event_next(struct hasp_session *session,
                              struct hasp_event *ret_event);

/* --- Locks -----------------------------------------------------------------
 */

#define HASP_FOREVER UINT64_MAX

enum hasp_mode {
    HASP_EXCLUSIVE = 0,
    HASP_SHARED = 1, /* With other shared holders. */
    HASP_SLOTS = 2   /* With at most 'slots' holders. */
};

struct hasp_acquire_options {
    size_t size; /* Set by hasp_acquire_options_init(). */
    enum hasp_mode mode;
    uint32_t slots; /* With HASP_SLOTS; all holders must say the same. */

    /* Time to wait in the queue, or HASP_FOREVER. 0: do not wait. */
    uint64_t wait_ms;

    /* Owner of the hold, inside the session. NULL: a new owner, so that two
     * acquisitions exclude each other, in one thread as in two. With the same
     * text (at most 128 bytes) a lock is re-entrant: an owner that holds it can
     * acquire it again, and must release it as often. An owner is one thread of
     * control: while one thread acquires or converts a lock for it, another
     * thread that does the same gets HASP_EINVALID. "" is the owner of requests
     * of other clients that name none. */
    const char *owner;

    /* A text of at most 4096 bytes that is shown with the hold. NULL: none. */
    const char *value;

    /* For resources that cannot check tokens: if the hold ends without a
     * release, nobody is granted the lock for this time. 0: none. */
    uint64_t delay_ms;

    /* Maximum time of the hold; the program may trust it for 0.8 of that. 0: no
     * limit. If an owner acquires a lock that it holds, the hold's limit
     * stays. */
    uint64_t hold_ms;

    /* Pass the queue as long as a holder remains that was granted the lock
     * before the queue formed. Never affects the holders. */
    bool is_barging;

    /* The wait ends with HASP_EINTR when this descriptor is readable (a pipe,
     * eventfd, signalfd or socket; it is not read). -1: none. */
    int interrupt_fd;

    /* Called with each name and its token before the acquisition returns, in
     * the same thread, to close the resource to earlier holders. If it returns
     * anything but 0, or takes longer than seal_ms, the lock is given back and
     * the caller gets HASP_ESEAL. It may call functions of the session, but not
     * hasp_close(). Not called when an owner acquires its lock again, nor by
     * hasp_convert(). NULL: none. */
    int (*on_grant)(void *data, const char *name, uint64_t token);
    void *grant_data;
    /* Limit of on_grant. The lock is given back then even if the hook has not
     * returned. 0: as long as the lease can be trusted when it begins. */
    uint64_t seal_ms;

    /* A W3C traceparent that is shown with the hold or the wait ("00-...").
     * NULL: none. An invalid one is ignored by the cluster. */
    const char *trace;
};

/* Sets the defaults: exclusive, wait for ever, no interrupting descriptor. */
HASP_API void hasp_acquire_options_init(struct hasp_acquire_options *options);

/* Acquires the lock 'name', 1 to 511 bytes. 'options' may be NULL: exclusive,
 * wait for ever. Requests are granted in the order of arrival. The place in the
 * queue survives lost connections and changes of leader.
 *
 * 0: acquired; the caller must hasp_release() it. HASP_NOT_ACQUIRED: not
 * acquired, and no longer in the queue. HASP_EINTR, HASP_EUNKNOWN: the caller
 * has no hold; if the cluster granted it nevertheless, the library releases it
 * in the background. An interrupted call returns HASP_EINTR, too, if the
 * cluster refuses meanwhile. HASP_EDEADLOCK: the wait would never end.
 * HASP_ELOST: the session is lost; open another. HASP_ESEAL: on_grant failed or
 * was late, and the lock was given back. */
HASP_API HASP_MUST_CHECK int
hasp_acquire(struct hasp_session *session, const char *name,
             const struct hasp_acquire_options *options,
             struct hasp_hold **ret_hold);

/* Acquires 'count' different locks at once, all or none, as one hold. Callers
 * that acquire several locks this way never deadlock with each other. */
HASP_API HASP_MUST_CHECK int
hasp_acquire_many(struct hasp_session *session, const char *const *names,
                  size_t count, const struct hasp_acquire_options *options,
                  struct hasp_hold **ret_hold);

/* Takes over the hold of 'name' that another process acquired in this session
 * for 'owner' (see above; not NULL). 0: held; release it like any other.
 * HASP_NOT_ACQUIRED: there is no such hold. */
HASP_API HASP_MUST_CHECK int hasp_resume(struct hasp_session *session,
                                         const char *name, const char *owner,
                                         struct hasp_hold **ret_hold);

/* Releases the hold and frees it, whatever is returned. The hold must not be
 * trusted from the moment of the call. 0: released. HASP_ENOTHELD: the cluster
 * had ended it before, so the work may have been done without the lock; for
 * several locks, at least one had ended, and the others are released. If that
 * is known already (HASP_EVENT_LOST), no request is sent. A hold that the same
 * owner acquired since, under another token, stays. HASP_EUNKNOWN and other
 * errors: no answer within timeout_ms; the library keeps trying while the
 * session lives. NULL: HASP_EINVALID. */
HASP_API int hasp_release(struct hasp_hold *hold);

/* Converts an exclusive hold of one lock to shared, at once, or a shared one to
 * exclusive, ahead of the queue, once the other holders have gone; until then
 * it stays shared. An upgrade is a new grant with a new token. Repeated
 * acquisitions by the same owner are converted with it and get the same token.
 * Of 'options' only wait_ms and interrupt_fd are used; NULL: wait for ever.
 *
 * HASP_NOT_ACQUIRED, HASP_EINTR, HASP_EDEADLOCK (another holder waits to
 * upgrade): still shared. HASP_EUNKNOWN: at least shared; treat it as shared.
 * HASP_ENOTHELD: the cluster has ended the hold; release it. */
HASP_API HASP_MUST_CHECK int
hasp_convert(struct hasp_hold *hold, enum hasp_mode mode,
             const struct hasp_acquire_options *options);

/* The token: below 2^53 and greater than that of every earlier grant of the
 * lock. hasp_token_of() returns the token of the i-th of several locks, in the
 * order of 'names', from 0. 0 if there is none. */
HASP_API uint64_t hasp_token(const struct hasp_hold *hold);
HASP_API uint64_t hasp_token_of(const struct hasp_hold *hold, size_t i);

/* Nanoseconds for which the hold may be trusted; no round trip. 0: it must not
 * be trusted now. With linger_ms it may recover (HASP_EVENT_SAFE), without it
 * never. The value is outdated as soon as it is read: prefer hasp_guard(). */
HASP_API uint64_t hasp_remaining(struct hasp_hold *hold);

/* Checks whether a step that takes 'need_ns' can be started. 0: if it takes no
 * longer, it ends within the lease. HASP_ESHORT: too little of the lease is
 * left now; or it can never be enough, because need_ns is above 0.8 of ttl_ms,
 * linger_ms or hold_ms (hasp_why() says which). HASP_ELOST: the hold is lost.
 * No round trip: cheap enough for every step. */
HASP_API HASP_MUST_CHECK int hasp_guard(struct hasp_hold *hold,
                                        uint64_t need_ns);

/* Everything that is known of a hold without a round trip, for a supervisor of
 * work that cannot call hasp_guard() itself. */
struct hasp_lease {
    uint64_t remaining_ns; /* As hasp_remaining(). */
    /* Until it is lost for good; 0: it is. More than 'remaining_ns' only with
     * linger_ms. */
    uint64_t sure_ns;
    uint64_t most_ns; /* Remaining right after a heartbeat. */
    bool is_refused;  /* The cluster will not renew it: finish. */
    /* Reason of that, or of the last failure; "". */
    char why[HASP_EVENT_TEXT_SIZE];
};

/* On an error 'ret_lease' is all zero, which means lost. */
HASP_API int hasp_look(struct hasp_hold *hold, struct hasp_lease *ret_lease);

/* Asks the cluster whether 'token' belongs to a current holder of the lock, for
 * a program that receives a token and cannot store a fence. The answer is
 * outdated when it arrives. */
HASP_API HASP_MUST_CHECK int hasp_check(struct hasp_session *session,
                                        const char *name, uint64_t token,
                                        bool *ret_is_holder);

/* Asks the holders of a lock to release it (HASP_EVENT_PLEASE) and returns
 * their number, which may be 0. 'message' (at most 4096 bytes) may be NULL.
 * Delivery is not confirmed. */
HASP_API HASP_MUST_CHECK int hasp_please(struct hasp_session *session,
                                         const char *name, const char *message,
                                         uint64_t *ret_holder_count);

/* Leaves a note of at most 4096 bytes ("": none) at the first lock of a hold,
 * for the next holder: it outlives the hold. HASP_ENOTHELD: only a holder can
 * do this. */
HASP_API HASP_MUST_CHECK int hasp_note(struct hasp_hold *hold,
                                       const char *text);

/* --- Fences ----------------------------------------------------------------
 */

/* Compares a token with the cluster's high-water mark for 'resource' and raises
 * the mark. 0 if no higher token was ever shown; from now on lower ones are
 * HASP_ESTALE. This is exact only if nothing else can happen to the resource
 * between this call and the write. */
HASP_API HASP_MUST_CHECK int hasp_admit(struct hasp_session *session,
                                        const char *resource, uint64_t token);

/* The same in a file, for a program that stores data; it needs no session. One
 * file has one mark, for one resource that is written under one lock.
 *
 *     struct hasp_fence *fence;
 *     status = hasp_fence_open("/var/lib/mine/orders.fence", &fence);
 *     ... for each write that comes with a token:
 *     status = hasp_fence_enter(fence, token);
 *     if (status == 0) {
 *         ... write ...
 *         hasp_fence_leave(fence);
 *     }
 *
 * Between enter and leave no other thread or process is inside the same file's
 * fence, so no other write can come between check and write. The mark is on the
 * disk before hasp_fence_enter() returns 0. */
struct hasp_fence;

/* Opens the fence; creates it with mark 0 if the file does not exist. HASP_EIO,
 * HASP_ENOSPC, HASP_EINVALID, HASP_ECORRUPT (do not restore a copy: start with
 * a mark above all tokens that were used). The file must be on a local file
 * system. It must not be restored from a backup, nor removed while old tokens
 * are in use. */
HASP_API HASP_MUST_CHECK int hasp_fence_open(const char *path,
                                             struct hasp_fence **ret_fence);

/* Waits for its turn. 0: 'token' is at least the mark, which is now 'token'.
 * HASP_ESTALE: it is lower: the writer has lost the lock, refuse the write.
 * HASP_EIO, HASP_ENOSPC: the mark could not be stored; refuse the write. After
 * a failed flush this fence admits nothing more: close it and check the disk.
 * Entering twice in one thread is HASP_EINVALID. */
HASP_API HASP_MUST_CHECK int hasp_fence_enter(struct hasp_fence *fence,
                                              uint64_t token);
/* To be called in the thread that entered; in others it does nothing. */
HASP_API void hasp_fence_leave(struct hasp_fence *fence);

/* Enters and leaves, for a store that orders its writes itself. */
HASP_API HASP_MUST_CHECK int hasp_fence_admit(struct hasp_fence *fence,
                                              uint64_t token);

/* Reads the mark from the file. */
HASP_API HASP_MUST_CHECK int hasp_fence_mark(struct hasp_fence *fence,
                                             uint64_t *ret_mark);

/* Frees the fence; the file stays. NULL is ignored. */
HASP_API void hasp_fence_close(struct hasp_fence *fence);

#ifdef __cplusplus
}
#endif

#endif /* HASP_HASP_H */
