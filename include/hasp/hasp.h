/* SPDX-License-Identifier: MIT */

/* The client library of hasp, a replicated lock service.
 *
 * What it is for: a program takes a lock in a cluster, works, and gives it
 * back; while it works nobody else has the lock. If the program dies or is cut
 * off, the lock passes on, and the program knows it before anybody else can
 * have it.
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
 * A SESSION is what the cluster knows a program by. It has a lease, which a
 * thread of the library renews. A HOLD is the possession of a lock
 * (or of several, taken at once) by a session. Its TOKEN is a number that grows
 * with each grant of the lock.
 *
 * A hold is its token. What is believed of it is made from what the cluster
 * says was granted (token, mode, count, and what is left of a limit), not from
 * what was asked for, and counts from the sending of the request. Each request
 * about a hold names its token, and changes nothing else that the same owner
 * has. The answer to a heartbeat names the holds that have ended without being
 * given back, by their tokens; where it says that notices were dropped, the
 * library reads the list of the session's holds, and ends belief in those that
 * are not there.
 *
 * What you must never do, and why
 * -------------------------------
 *
 * Do not trust a hold without looking. A lease runs out if the network is cut
 * or the machine stands still; nothing here can prevent it. Ask hasp_guard()
 * before each step that must not overlap with the next holder's.
 *
 * Do not trust even hasp_guard() where a late write does harm that cannot be
 * mended. A program may stop between the check and the write for as long as its
 * machine pleases, and go on as if nothing had been. No lock service can
 * prevent that. What is written to must compare tokens: hasp_fence_enter() does
 * it for a program that stores things, hasp_admit() in the cluster.
 *
 * Do not take "I could not tell" for "no". HASP_EUNKNOWN says that a change may
 * have been made or not. What to do stands with each function.
 *
 * Do not use anything of a session after hasp_close(), nor a hold after
 * hasp_release(): they are freed.
 *
 * Do not wait in an event callback, and do not close the session there.
 *
 * Errors
 * ------
 *
 * A function that can fail returns 0 or a negative HASP_E... code, and marks
 * itself HASP_MUST_CHECK. hasp_strerror() has a text for each code, hasp_why()
 * a message about what happened last in this thread. Outputs ('ret_...') are
 * set on success only. "Held by somebody else" is no error but a result:
 * HASP_NOT_ACQUIRED, which is positive. The library prints nothing, and misuse
 * that it can see is HASP_EINVALID; it aborts the process only if memory runs
 * out inside it or if it finds itself broken.
 *
 * With each function stand the errors that mean something special there. Beside
 * them, whatever asks the cluster may return
 *
 *     HASP_ECONNECT, _ENOTLEADER, _EBUSY    nothing was done: try later
 *     HASP_ECERT                            certificates: hasp_why()
 *     HASP_EUNKNOWN                         no answer within timeout_ms
 *     HASP_ELOST                            open another session
 *     HASP_EFULL, _EREFUSED, _EBLACKLISTED, _EREPLY
 *                                           the cluster says no: hasp_why()
 *     HASP_EINVALID, _EFORKED               a mistake of the caller's
 *     HASP_ENOMEM, _EIO, _EPROTO            no memory, no thread, no cluster
 *
 * Changes are numbered and asked again, at other nodes, until there is an
 * answer or the time-out has passed; none is ever made twice.
 *
 * Threads
 * -------
 *
 * Every function may be called from any thread; a call that waits does not keep
 * others from being made. What frees (hasp_close(), hasp_release()) must not
 * run while another thread uses what it frees. hasp_interrupt() may be called
 * from a signal handler, nothing else. A signal does not end a wait. The
 * sessions of a process that would make the same connection ('own_connection',
 * below) share one thread and two descriptors, that connection and a timer,
 * whatever waits on them. A session has a thread for 'on_event' if that is
 * given, and a descriptor if hasp_event_fd() is asked for. All threads have all
 * signals blocked.
 *
 * fork()
 * ------
 *
 * The child owns nothing: every call on a session, hold or fence of its parent
 * returns HASP_EFORKED there (hasp_remaining() and hasp_token() return 0), and
 * touches no connection. It may hasp_close() the session, which then only
 * closes the child's copies of the descriptors and frees what it safely can;
 * the parent's session and locks are not affected. A child that wants a lock
 * opens a session. All descriptors are close-on-exec.
 *
 * Ownership
 * ---------
 *
 * Every pointer that is passed in is borrowed for the time of the call.
 * Sessions and holds belong to the caller; closing a session ends and frees its
 * holds. Texts that come back say how long they live.
 *
 * Times are in milliseconds or nanoseconds as the name says; what counts is
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME together, so that time for which a machine
 * was suspended is not forgotten. */

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

/* The version of this header; hasp_version() is that of the library. Within one
 * major version structures only grow, at their end. */
#define HASP_VERSION_MAJOR 0
#define HASP_VERSION_MINOR 1
#define HASP_VERSION_PATCH 0

/* --- Errors ----------------------------------------------------------------
 */

/* Values are stable and never reused. (The sources of hasp have the same list
 * in base/err.h; the first one that is included defines it.) */
#ifndef HASP_ERRORS_DEFINED
#define HASP_ERRORS_DEFINED
enum hasp_error {
    /* A null pointer, an empty name, options that contradict each other; or the
     * cluster says so of an argument. */
    HASP_EINVALID = -1,
    /* What answers does not speak the protocol of hasp. */
    HASP_EPROTO = -2,
    /* A request, or an answer, is larger than the protocol allows. */
    HASP_ETOOBIG = -3,
    /* A limit of the cluster, or of this process, is reached. */
    HASP_EFULL = -4,
    /* A file could not be read or written (fences); no thread or descriptor
     * could be had. */
    HASP_EIO = -5,
    /* The disk is full (fences). */
    HASP_ENOSPC = -6,
    /* A fence's file is damaged. */
    HASP_ECORRUPT = -7,
    /* Nodes answered, none knows a leader. Nothing was done. */
    HASP_ENOTLEADER = -8,
    /* The cluster has too much to do. Nothing was done. */
    HASP_EBUSY = -9,
    /* Used inside of hasp; no function of this header returns these four, nor
     * HASP_EMORE. */
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
    /* The session's lease, or the hold, is lost. Nothing brings it back. */
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
    /* No answer in time: it may have been done or not. */
    HASP_EUNKNOWN = -24,
    /* The lease does not last for as long as the step needs. */
    HASP_ESHORT = -25,
    /* A higher token has been seen: whoever shows this one lost the lock. */
    HASP_ESTALE = -26,
    /* An operator has blacklisted the session or its name. */
    HASP_EBLACKLISTED = -27,
    /* Used inside of hasp: written by a newer version than this one. */
    HASP_ETOOOLD = -28,
    /* TLS: a certificate, a key or a CA is missing, does not fit, has expired
     * or is refused by one of the two sides; or one of them speaks plain.
     * Nothing was done. */
    HASP_ECERT = -29
};
#endif

/* Not an error: somebody else has the lock, and the wait, if any, is over. */
#define HASP_NOT_ACQUIRED 1

/* A text for 'error'; "success" for 0. Never NULL, lives for ever. */
HASP_API const char *hasp_strerror(int error);

/* What happened in the newest call of this thread that failed, for a person,
 * e.g. "no node answers (127.0.0.1:7420: Connection refused)"; lives until this
 * thread's next failing call. Never NULL. */
HASP_API const char *hasp_why(void);

/* "0.1.0"; lives for ever. */
HASP_API const char *hasp_version(void);

/* --- Sessions --------------------------------------------------------------
 */

struct hasp_session;
struct hasp_hold;

enum hasp_event_kind {
    /* The cluster has not answered for too long, and the locks may pass on soon
     * (only sessions with a linger time know this state). Not held: begin no
     * step, keep what is in memory. */
    HASP_EVENT_JEOPARDY = 1,
    /* After JEOPARDY: the lease is renewed, nothing was lost. */
    HASP_EVENT_SAFE = 2,
    /* Lost for ever. Without a name: the session and all its holds. With a
     * name: the hold of that lock with that token, whose limit (hold_ms) is
     * over or which was taken away. It is told once for each token. */
    HASP_EVENT_LOST = 3,
    /* Somebody asks for the lock 'name' to be given back when it suits; or, of
     * a session without end, will break it (LOCK.BREAK): who needs it still
     * acquires it again, which is an objection. It is told once, at best. */
    HASP_EVENT_PLEASE = 4,
    /* Nothing is lost, but people should know 'text': new certificates, or a
     * new secret, in the files cannot be taken into use; a node of another
     * cluster answers at one of the endpoints, and is asked nothing. */
    HASP_EVENT_NOTICE = 5
};

#define HASP_EVENT_NAME_SIZE 512
#define HASP_EVENT_TEXT_SIZE 512

struct hasp_event {
    enum hasp_event_kind kind;
    uint64_t token;                  /* Of the hold; 0: of the session. */
    char name[HASP_EVENT_NAME_SIZE]; /* Of the lock; "": of the session. */
    char text[HASP_EVENT_TEXT_SIZE]; /* The message, or the reason; cut off. */
};

/* Runs on a thread of the library that does nothing else, so it delays neither
 * heartbeats nor calls, only later events. It may call every function but
 * hasp_close(). */
typedef void hasp_event_fn(void *data, const struct hasp_event *event);

struct hasp_options {
    size_t size; /* Set by hasp_options_init(). */

    /* "host:port,host:port,..."; without ":port", 7420. NULL: the environment's
     * HASP_ENDPOINTS, or those of hasp dev (127.0.0.1:7420, :7430, :7440);
     * "unix:/path" is a socket of a node on this machine (listen.local). Name
     * all nodes; any of them finds the leader. */
    const char *endpoints;

    /* Shown to people who ask who holds a lock. NULL: "program@host:pid". */
    const char *name;

    /* The lease: after the last heartbeat the cluster waits so long before
     * locks pass on. From 100 to the cluster's limit ttl_max, which is 60000
     * unless it was changed; 0: the default, 10 s. The program believes for 0.8
     * of it. Long ones ride out long interruptions, short ones pass on
     * sooner. */
    uint32_t ttl_ms;

    /* If the connections are closed (the program has died) locks pass on after
     * this time already. 0: none; else from 50 up to ttl_ms. In return the
     * program believes for 0.8 of it only, so a hasp_guard() that needs as much
     * can never pass: choose it well above 1.25 times the longest step. */
    uint32_t linger_ms;

    /* For one request, from the first attempt to the last, apart from the wait
     * for a lock itself. 0: 10 s. */
    uint32_t timeout_ms;

    /* An earned heartbeat: unless hasp_alive() is called at least so often, the
     * lease is not renewed, so that a program which hangs loses its locks as a
     * dead one does: alive_ms + ttl_ms after its last report at the latest. 0:
     * no reports are needed. */
    uint32_t alive_ms;

    /* NULL: events are fetched with hasp_event_next(). */
    hasp_event_fn *on_event;
    void *event_data;

    /* What hasp_credentials() wrote: that session is kept from now on, and no
     * other is opened. 'name', 'ttl_ms' and 'linger_ms' are not used. NULL: a
     * new one. */
    const char *credentials;

    /* TLS: a folder with ca.crt, which says whom to believe, and, if the
     * program is to show who it is, client.crt and client.key ('hasp cert user'
     * makes it). With it nothing leaves this machine in plain. Whatever the
     * endpoints are called, each must show a certificate of a node of the
     * cluster. NULL: the environment's HASP_TLS, or plain; "": plain. The files
     * are read again before each connection is made, so that renewed ones are
     * taken into use; those that are not right then are not
     * (HASP_EVENT_NOTICE), and what was shown before goes on.
     * HASP_ECERT, with a sentence in hasp_why(), from hasp_open() at once if
     * the files are not right, and as HASP_ECONNECT if no node is trusted, or
     * trusts. */
    const char *tls;

    /* The cluster's name, for a CA that was not made by 'hasp cert' and so does
     * not say it. NULL: the CA says it. */
    const char *cluster;

    /* A file, mode 0600, with the secret of the user whose the session is to be
     * ('hasp secret add' makes it). NULL: the environment's HASP_SECRET_FILE,
     * or none; "": none. It is read again likewise. HASP_EINVALID or
     * HASP_ENOENT if it is not right; the word of what is refused for lack of a
     * right is NOPERM. */
    const char *secret_file;

    /* A session without end: it has no lease, so ttl_ms and linger_ms must be
     * 0, and its holds outlive the program, until somebody releases or breaks
     * them (docs/durable.md). No time ends belief in them: hasp_remaining() is
     * UINT64_MAX. What an operator has taken is told while the program is
     * connected; against the rest the token guards. hasp_close() ends the
     * session, hasp_detach() leaves it. If OPEN's answer was lost, a session
     * stays that holds nothing. */
    bool is_durable;
    /* Why, for whoever finds the lock closed: at most 128 bytes; or NULL. */
    const char *reason;

    /* Sessions of a process with the same endpoints, TLS, secret, ttl_ms and
     * linger_ms (on a libuv loop: of the same loop, too) share one connection.
     * True: this one has a connection, and a thread, of its own, as one with
     * 'credentials' has anyway: for sessions of which one is to go on whatever
     * the others ask. */
    bool own_connection;
};

/* Fills in every default; call it first, so that a member which a newer header
 * has is set, too. */
HASP_API void hasp_options_init(struct hasp_options *options);

/* Opens a session and starts to keep it. Options may be NULL: the defaults.
 * Waits for at most timeout_ms. HASP_ECONNECT, HASP_ENOTLEADER, HASP_EBUSY: no
 * session, try later; HASP_ECERT; HASP_EBLACKLISTED; HASP_EINVALID. A session
 * of which the answer was lost owns nothing and ends by itself, so there is no
 * HASP_EUNKNOWN. */
HASP_API HASP_MUST_CHECK int hasp_open(const struct hasp_options *options,
                                       struct hasp_session **ret_session);

/* Ends the session: its holds are given back, its waits cancelled, all at once;
 * its holds are freed, then itself. Belief in the holds ends when this is
 * called. If no node can be reached within timeout_ms, the session ends when
 * its lease runs out. No other thread may be in a call on the session: use
 * hasp_interrupt() and wait for them. NULL is fine. */
HASP_API void hasp_close(struct hasp_session *session);

/* A session may outlive the process that opened it: a program that replaces
 * itself, or a script of many commands, hands it over. Whoever has these
 * credentials ("ID:SECRET") may do with the session what its owner may, so keep
 * them out of command lines and logs. */
#define HASP_CREDENTIALS_SIZE 64
HASP_API HASP_MUST_CHECK int
hasp_credentials(const struct hasp_session *session,
                 char ret_credentials[HASP_CREDENTIALS_SIZE]);

/* Frees the session and its holds here, and leaves them in the cluster: they
 * last until the lease runs out, or for as long as somebody else keeps it, who
 * opens the session by its credentials and takes its holds with hasp_resume().
 * One more heartbeat is sent, so that all of the lease is left; an error means
 * that it was not answered. Otherwise as hasp_close(). */
HASP_API HASP_MUST_CHECK int hasp_detach(struct hasp_session *session);

/* The session's number in the cluster; 0 for NULL. */
HASP_API uint64_t hasp_session_id(const struct hasp_session *session);

/* Nanoseconds for which the session's lease may be trusted, without a round
 * trip; 0 in jeopardy and when it is lost. */
HASP_API uint64_t hasp_session_remaining(struct hasp_session *session);

/* Reports that the program makes progress (see alive_ms). Call it where the
 * work is done, not from a timer or a thread of its own: those live on when the
 * work hangs. HASP_ELOST if the session is lost. No round trip. */
HASP_API int hasp_alive(struct hasp_session *session);

/* Ends every wait in this session with HASP_EINTR, those which are under way
 * and those which begin later, until hasp_interrupt_clear(). So there is no
 * moment at which it could come too early. It ends waits for a lock only: other
 * calls are short (timeout_ms). Safe in a signal handler. */
HASP_API int hasp_interrupt(struct hasp_session *session);
/* From here on waits are waits again. Not in a signal handler. */
HASP_API int hasp_interrupt_clear(struct hasp_session *session);

/* A descriptor that is readable while hasp_event_next() has something, for
 * poll() and its kin; do not read it. It lives as long as the session.
 * Negative: an error. */
HASP_API int hasp_event_fd(struct hasp_session *session);

/* Takes the oldest event: true, or false if there is none. It never waits.
 * Events of a session with a callback go there instead. If a program does not
 * fetch them, PLEASE events beyond 64 are dropped, no others. */
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

    /* 0: try. Else the time for which to queue; HASP_FOREVER. */
    uint64_t wait_ms;

    /* Whose hold it is, inside the session. NULL: nobody else's, so that two
     * acquisitions exclude each other, in two threads as in one. The same text
     * (at most 128 bytes) makes a lock re-entrant: who has it acquires it again
     * and must release it as often. It stands for one thread of control: while
     * one thread acquires or converts a lock for it, another one that does so
     * gets HASP_EINVALID. "" is the owner of requests that name none, as other
     * clients make them. */
    const char *owner;

    /* A text of at most 4096 bytes that people see with the hold. NULL: none.
     */
    const char *value;

    /* For resources that cannot check tokens: if the hold ends uncleanly the
     * lock stays closed for so long. 0: none. */
    uint64_t delay_ms;

    /* The hold ends after this time whatever happens; it is believed in for 0.8
     * of it. 0: no limit. An owner that enters a hold again has the limit that
     * this hold has. */
    uint64_t hold_ms;

    /* Before those who wait, as long as a holder is there that came before
     * them; never before those who hold. */
    bool is_barging;

    /* The wait ends with HASP_EINTR when this descriptor is readable (a pipe,
     * eventfd, signalfd or socket; it is not read). -1: none. */
    int interrupt_fd;
};

/* Fills in: exclusive, wait for ever, no interrupting descriptor. */
HASP_API void hasp_acquire_options_init(struct hasp_acquire_options *options);

/* Acquires a lock: a name of 1 to 511 bytes. Options may be NULL: exclusive,
 * waiting for ever, in the order of arrival. The place in the queue survives
 * lost connections and changes of leader.
 *
 * 0: it is held, and the caller must hasp_release() it. HASP_NOT_ACQUIRED: it
 * is not, and there is no place in the queue. HASP_EINTR, HASP_EUNKNOWN: the
 * caller has no hold; if the cluster has granted it nevertheless, it is given
 * back in the background. HASP_EDEADLOCK: waiting would be for ever.
 * HASP_ELOST: the session is lost (open another one). */
HASP_API HASP_MUST_CHECK int
hasp_acquire(struct hasp_session *session, const char *name,
             const struct hasp_acquire_options *options,
             struct hasp_hold **ret_hold);

/* Likewise with 'count' different locks, all or none of them: one hold. Those
 * who take several locks this way never block each other in a circle. */
HASP_API HASP_MUST_CHECK int
hasp_acquire_many(struct hasp_session *session, const char *const *names,
                  size_t count, const struct hasp_acquire_options *options,
                  struct hasp_hold **ret_hold);

/* The hold that this session has of 'name' for 'owner' (see above; not NULL),
 * taken over from the process that acquired it. 0: it is held, and is to be
 * released like any other. HASP_NOT_ACQUIRED: there is no such hold. */
HASP_API HASP_MUST_CHECK int hasp_resume(struct hasp_session *session,
                                         const char *name, const char *owner,
                                         struct hasp_hold **ret_hold);

/* Gives the hold back and frees it, whatever is returned. Belief in it ends
 * when this is called. 0: given back. HASP_ENOTHELD: the cluster had ended it
 * before (the work may have been done without the lock); of several locks, at
 * least one of them, and the others are given back. If that is known already
 * (HASP_EVENT_LOST), nothing is asked. What the same owner has acquired since,
 * under another token, stays. HASP_EUNKNOWN and other errors: no answer came in
 * timeout_ms; the library goes on trying while the session lives. NULL is
 * HASP_EINVALID. */
HASP_API int hasp_release(struct hasp_hold *hold);

/* Makes an exclusive hold of one lock shared, at once, or a shared one
 * exclusive, ahead of the queue, when the other holders have gone: until then
 * it stays shared. An upgrade is a new grant with a new token. What its owner
 * has acquired again is converted with it, and has that token, too. 'options'
 * counts with wait_ms and interrupt_fd only; NULL: wait for ever.
 *
 * HASP_NOT_ACQUIRED, HASP_EINTR, HASP_EDEADLOCK (somebody else waits to
 * upgrade): still shared. HASP_EUNKNOWN: at least shared; treat it so.
 * HASP_ENOTHELD: the cluster has ended the hold; release it. */
HASP_API HASP_MUST_CHECK int
hasp_convert(struct hasp_hold *hold, enum hasp_mode mode,
             const struct hasp_acquire_options *options);

/* The token: below 2^53, greater than that of every earlier grant of the lock.
 * hasp_token_of() is that of the i-th lock of several, in the order of 'names',
 * from 0. 0 if there is none. */
HASP_API uint64_t hasp_token(const struct hasp_hold *hold);
HASP_API uint64_t hasp_token_of(const struct hasp_hold *hold, size_t i);

/* Nanoseconds for which the hold may be trusted, without a round trip. 0: not
 * at all, now; with linger_ms it may come back (HASP_EVENT_SAFE), without
 * never. The number is old as soon as it is read: prefer hasp_guard(). */
HASP_API uint64_t hasp_remaining(struct hasp_hold *hold);

/* May a step that takes 'need_ns' be started? 0: it ends inside the lease, if
 * it takes no longer. HASP_ESHORT: too little of the lease is left, now, or
 * ever (hasp_why() says so): need_ns is above 0.8 of ttl_ms, linger_ms or
 * hold_ms.
 * HASP_ELOST: the hold is lost. No round trip: cheap enough for every step. */
HASP_API HASP_MUST_CHECK int hasp_guard(struct hasp_hold *hold,
                                        uint64_t need_ns);

/* All that is known of a hold without a round trip, for whoever supervises work
 * that cannot ask hasp_guard() itself. */
struct hasp_lease {
    uint64_t remaining_ns; /* As hasp_remaining(). */
    uint64_t sure_ns;      /* Until it is lost for ever; 0: it is. More than the
                              former only with linger_ms. */
    uint64_t most_ns;      /* Remaining right after a heartbeat. */
    bool is_refused;       /* The cluster will not renew it: come to an end. */
    char why[HASP_EVENT_TEXT_SIZE]; /* Of that, or of the last failure; "". */
};

/* 'ret_lease' is all zero, hence lost, if there is an error. */
HASP_API int hasp_look(struct hasp_hold *hold, struct hasp_lease *ret_lease);

/* Is 'token' a holder's of the lock, at this moment? Asks the cluster. For a
 * program that was handed a token and cannot keep a mark. The answer is old
 * when it comes. */
HASP_API HASP_MUST_CHECK int hasp_check(struct hasp_session *session,
                                        const char *name, uint64_t token,
                                        bool *ret_is_holder);

/* Asks the holders of a lock to give it back (HASP_EVENT_PLEASE); tells how
 * many there are, which may be 0. 'message' (at most 4096 bytes) may be NULL.
 * Who did not hear it, nobody knows. */
HASP_API HASP_MUST_CHECK int hasp_please(struct hasp_session *session,
                                         const char *name, const char *message,
                                         uint64_t *ret_holder_count);

/* Leaves 'text' (at most 4096 bytes; "": none) at the first lock of a hold, for
 * whoever comes next: it outlives the hold. HASP_ENOTHELD: only a holder may.
 */
HASP_API HASP_MUST_CHECK int hasp_note(struct hasp_hold *hold,
                                       const char *text);

/* --- Fences ----------------------------------------------------------------
 */

/* Shows a token to the cluster's own high-water mark for 'resource': 0 if no
 * higher one was ever shown, and from now on lower ones are HASP_ESTALE. It is
 * exact only for a resource on which nothing else happens between this and the
 * write. */
HASP_API HASP_MUST_CHECK int hasp_admit(struct hasp_session *session,
                                        const char *resource, uint64_t token);

/* The same in a file, for a program that stores things: no session is needed.
 * One file is one mark, for one resource that is written to under one lock.
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
 * Between enter and leave no one else is inside, in any thread or process that
 * uses the file: a write cannot be overtaken between check and write. The mark
 * is on the disk before hasp_fence_enter() returns 0. */
struct hasp_fence;

/* Opens the mark, and makes it (0) if there is none. HASP_EIO, HASP_ENOSPC,
 * HASP_ECORRUPT (restore nothing: choose a mark above all tokens that were
 * used), HASP_EINVALID. The file must be on a local file system; it must
 * neither be copied back from a backup nor removed while old tokens are about.
 */
HASP_API HASP_MUST_CHECK int hasp_fence_open(const char *path,
                                             struct hasp_fence **ret_fence);

/* Waits for its turn. 0: 'token' is at least the mark, which is now 'token'.
 * HASP_ESTALE: it is lower, the writer has lost the lock: refuse the write.
 * HASP_EIO, HASP_ENOSPC: the mark could not be stored; refuse the write. After
 * a failed flush nothing is admitted any more by this fence: close it, find out
 * what is wrong with the disk. Entering twice in one thread is HASP_EINVALID.
 */
HASP_API HASP_MUST_CHECK int hasp_fence_enter(struct hasp_fence *fence,
                                              uint64_t token);
/* In the thread that entered; anywhere else it does nothing. */
HASP_API void hasp_fence_leave(struct hasp_fence *fence);

/* Enter and leave in one, for a storage that orders its writes itself. */
HASP_API HASP_MUST_CHECK int hasp_fence_admit(struct hasp_fence *fence,
                                              uint64_t token);

/* The mark, as it is in the file now. */
HASP_API HASP_MUST_CHECK int hasp_fence_mark(struct hasp_fence *fence,
                                             uint64_t *ret_mark);

/* Frees the fence; the file stays. NULL is fine. */
HASP_API void hasp_fence_close(struct hasp_fence *fence);

#ifdef __cplusplus
}
#endif

#endif /* HASP_HASP_H */
