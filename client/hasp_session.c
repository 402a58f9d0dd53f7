/* SPDX-License-Identifier: MIT */

/* Sessions: opening, closing, events, what a forked child may do. */

#include "client/hasp_session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "client/shown.h"

#define TIMEOUT_DEFAULT_MS 10000
#define TTL_TIED_MS 60000

static _Thread_local char why[HASP_WHY_SIZE] = "";

const char *hasp_why(void)
{
    return why;
}

int why_set(int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return error;
}

void hasp_options_init(struct hasp_options *options)
{
    if (options != NULL) {
        *options = (struct hasp_options){.size = sizeof *options};
    }
}

/* --- Opening -------------------------------------------------------------- */

static uint32_t session_ttl_ms(const struct hasp_options *options)
{
    return options->ttl_ms == 0 && options->tie != HASP_TIE_NONE
               ? TTL_TIED_MS
               : options->ttl_ms;
}

/* Makes the key of what the connection needs; the endpoints, and the reference
 * of what it shows, are the caller's. */
static int session_make_key(struct link_key *key,
                            const struct hasp_options *options, void *loop)
{
    const char *text = options->endpoints;
    *key = (struct link_key){
        .loop = loop,
        .ttl_ms = options->is_durable ? UINT64_MAX : session_ttl_ms(options),
        .linger_ms = options->linger_ms,
        .is_own = options->own_connection || options->credentials != NULL};
    if (text == NULL) {
        text = getenv("HASP_ENDPOINTS");
        if (text == NULL || text[0] == '\0') {
            text = ENDPOINTS_DEFAULT;
        }
    }
    int error = endpoints_parse(text, &key->endpoints, why);
    if (error != 0) {
        return error;
    }
    error = shown_open(options->tls, options->cluster, options->secret_file,
                       &key->shown, why);
    if (error != 0) {
        endpoints_done(&key->endpoints);
    }
    return error;
}

static int session_find_link(const struct hasp_options *options,
                             const struct link_driver *driver, void *loop,
                             struct link **ret_link)
{
    struct link_key key;
    int error = session_make_key(&key, options, loop);
    if (error != 0) {
        return error;
    }
    error = link_join(&key, driver, ret_link);
    shown_unref(key.shown);
    endpoints_done(&key.endpoints);
    return error;
}

static bool is_death_word(const char *word)
{
    return strlen(word) == CLIENT_SECRET_SIZE - 1 &&
           strspn(word, "0123456789abcdef") == CLIENT_SECRET_SIZE - 1;
}

/* 0, or why the options about the death of the process do not fit. */
static int check_tie(const struct hasp_options *options)
{
    bool has_word = options->death_word != NULL;
    if ((unsigned)options->tie > HASP_TIE_MUST) {
        return why_set(HASP_EINVALID, "tie: not one of enum hasp_tie: %u",
                       (unsigned)options->tie);
    }
    if ((options->tie != HASP_TIE_NONE || has_word) &&
        (options->is_durable || options->linger_ms != 0 ||
         options->credentials != NULL)) {
        return why_set(HASP_EINVALID,
                       "a session that is tied, or has a death word, needs a "
                       "ttl_ms, and neither linger_ms nor credentials");
    }
    if (has_word && !is_death_word(options->death_word)) {
        return why_set(HASP_EINVALID,
                       "death_word: expected 32 lower-case hex digits");
    }
    return 0;
}

/* Makes the death word, if the session needs one. */
static int session_make_death_word(struct hasp_session *session,
                                   const struct hasp_options *options)
{
    uint8_t random[SESSION_FSM_RANDOM_SIZE];
    if (options->death_word != NULL) {
        snprintf(session->death_word, sizeof session->death_word, "%s",
                 options->death_word);
    } else if (options->tie != HASP_TIE_NONE) {
        if (getrandom(random, sizeof random, 0) != sizeof random) {
            return why_set(HASP_EIO, "no random numbers: %s", strerror(errno));
        }
        hex_put(session->death_word, bytes_of(random, sizeof random));
    }
    return 0;
}

int session_init(struct hasp_session *session,
                 const struct hasp_options *options,
                 const struct link_driver *driver, void *loop)
{
    struct session_fsm *fsm = &session->fsm;
    int unfit = check_tie(options);
    if (unfit == 0 && options->hooks != NULL &&
        options->hooks->size < sizeof *options->hooks) {
        unfit = why_set(HASP_EINVALID, "hooks without hasp_hooks_init()");
    }
    if (unfit != 0) {
        return unfit;
    }
    *session = (struct hasp_session){.pid = getpid(),
                                     .on_event = options->on_event,
                                     .event_data = options->event_data,
                                     .event_fd = -1};
    int error = session_make_death_word(session, options);
    if (error == 0) {
        error = session_find_link(options, driver, loop, &session->link);
    }
    if (error != 0) {
        return error;
    }
    list_init(&session->waits);
    pthread_cond_init(&session->news, NULL);
    session_lock(session);
    session_fsm_init(fsm, &session->link->conn);
    fsm->news = session_news;
    if (options->hooks != NULL) {
        fsm->hooks.hooks = *options->hooks;
        fsm->hooks.is_on = true;
    }
    fsm->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms
                                               : TIMEOUT_DEFAULT_MS;
    fsm->alive_ms = options->alive_ms;
    /* Before the link's thread sees the session, which at 0 would look
     * abandoned. */
    session_fsm_alive(fsm, client_clock_read());
    list_push_back(&session->link->sessions, &session->in_link);
    session_unlock(session);
    return 0;
}

/* Frees all parts but the waits, which a child of fork() must not touch. */
static void session_free_parts(struct hasp_session *session)
{
    session_fsm_done(&session->fsm);
    list_remove(&session->in_link);
    if (session->event_fd >= 0) {
        close(session->event_fd);
    }
}

void session_done(struct hasp_session *session)
{
    struct link *link = session->link;
    session_lock(session);
    session_fsm_leave(&session->fsm, client_clock_read());
    session_free_parts(session);
    link->driver->drive(link);
    session_unlock(session);
    pthread_cond_destroy(&session->news);
    link_leave(link);
}

static void name_process(char *name, size_t size)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    snprintf(name, size, "%.60s@%.60s:%ld", program_invocation_short_name, host,
             (long)getpid());
}

int session_begin(struct hasp_session *session,
                  const struct hasp_options *options, struct client_call *call)
{
    char name[160];
    uint8_t random[SESSION_FSM_RANDOM_SIZE];
    struct credentials credentials;
    struct session_fsm *fsm = &session->fsm;
    int error;
    if (options->is_durable &&
        (options->ttl_ms != 0 || options->linger_ms != 0)) {
        return why_set(HASP_EINVALID,
                       "a session without end has no ttl_ms and no linger_ms");
    }
    if (options->credentials != NULL) {
        if (credentials_parse(options->credentials, &credentials) != 0) {
            return why_set(HASP_EINVALID, "credentials are ID:SECRET");
        }
        /* Other processes number this session's requests, too, so numbers begin
         * with the wall clock. */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t number = (uint64_t)now.tv_sec * 1000000 +
                          (uint64_t)now.tv_nsec / 1000;
        error = session_fsm_attach(fsm, &credentials, number, call,
                                   client_clock_read());
    } else {
        name_process(name, sizeof name);
        if (getrandom(random, sizeof random, 0) != sizeof random) {
            return why_set(HASP_EIO, "no random numbers: %s", strerror(errno));
        }
        struct hasp_options all = *options;
        all.ttl_ms = session_ttl_ms(options);
        all.death_word = session->death_word[0] != '\0' ? session->death_word
                                                        : NULL;
        error = session_fsm_open(fsm, &all,
                                 options->name != NULL ? options->name : name,
                                 random, call, client_clock_read());
    }
    return error != 0 ? why_set(error, "out of memory, or no SHA-256") : 0;
}

static int session_open_session(struct hasp_session *session,
                                const struct hasp_options *options)
{
    struct waiting wait;
    wait_init(&wait, session);
    session_lock(session);
    int error = session_begin(session, options, &wait.call);
    return call_wait_end(&wait, error);
}

/* Frees a session that was not opened. If a node may still open it, the link's
 * thread frees it after the cleanup. */
static void bury(struct hasp_session *session)
{
    session_lock(session);
    bool is_orphan = machine_is_clearing(&session->fsm);
    session->is_orphan = is_orphan;
    session->link->orphan_count += is_orphan;
    session_unlock(session);
    if (!is_orphan) {
        session_done(session);
        free(session);
    }
}

/* Opens a session, on a link of its own or on one that others have; true, with
 * the error, if those others fill it. */
static bool open_on_link(const struct hasp_options *options, int *ret_error,
                         struct hasp_session **ret_session)
{
    static const char full[] = "LIMIT: sessions of a connection";
    struct hasp_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        *ret_error = why_set(HASP_ENOMEM, "out of memory");
        return false;
    }
    *ret_error = session_init(session, options, &thread_driver, NULL);
    if (*ret_error != 0) {
        free(session);
        return false;
    }
    *ret_error = session_open_session(session, options);
    if (*ret_error == 0) {
        *ret_session = session;
        return false;
    }
    /* The node's limit of sessions per connection is reached: no further
     * session joins this link. If it has no others, another link would not
     * help. */
    bool is_full = *ret_error == HASP_EFULL &&
                   strncmp(why, full, sizeof full - 1) == 0 &&
                   link_fill(session->link);
    bury(session);
    return is_full;
}

uint32_t session_free_orphans(struct link *link, bool are_all)
{
    uint32_t count = 0;
    LIST_FOR_SAFE (struct hasp_session, session, &link->sessions, in_link) {
        if (session->is_orphan &&
            (are_all || !machine_is_clearing(&session->fsm))) {
            if (!are_all) {
                session_fsm_leave(&session->fsm, client_clock_read());
                pthread_cond_destroy(&session->news);
            }
            session_free_parts(session);
            free(session);
            count++;
        }
    }
    link->orphan_count -= count;
    return count;
}

typedef int finish_fn(struct session_fsm *fsm, struct client_call *call,
                      struct lease_clock now);

static int session_finish(struct hasp_session *session, finish_fn *begin)
{
    struct waiting wait;
    struct tie *tie = session->tie;
    /* Before the session: its events go there. After it: a process that dies
     * in between is still seen. */
    tie_quiet(tie);
    notifier_stop(session);
    wait_init(&wait, session);
    session_lock(session);
    int error = begin(&session->fsm, &wait.call, client_clock_read());
    error = call_wait_end(&wait, error);
    hooker_stop(session);
    tie_end(tie);
    session_done(session);
    free(session);
    return error;
}

/* --- Ties ----------------------------------------------------------------- */

/* On the agent's thread. */
static void session_tie_changed(void *data, const char *text)
{
    struct hasp_session *session = data;
    struct link *link = session->link;
    if (text != NULL) {
        session_lock(session);
        session_fsm_add_event(&session->fsm, HASP_EVENT_NOTICE, 0,
                              (struct bytes){NULL, 0}, bytes_of_text(text));
        session->fsm.news(&session->fsm);
        session_unlock(session);
    }
    if (link->key.loop != NULL) {
        link->driver->wake(link); /* It has no thread that waits. */
    }
}

int session_tie_begin(struct hasp_session *session,
                      const struct hasp_options *options)
{
    struct credentials word = {.session = session->fsm.credentials.session};
    memcpy(word.secret, session->death_word, sizeof word.secret);
    int error = tie_begin(options->agent, &word, session_ttl_ms(options),
                          session_tie_changed, session, &session->tie);
    if (error != 0) {
        return why_set(error, "tie: out of memory, no thread, or the path of "
                              "the agent's socket is too long");
    }
    return 0;
}

static int session_tie(struct hasp_session *session,
                       const struct hasp_options *options)
{
    char text[HASP_WHY_SIZE];
    int error = session_tie_begin(session, options);
    if (error == 0 && options->tie == HASP_TIE_MUST &&
        !tie_wait(session->tie, text)) {
        error = why_set(HASP_ECONNECT, SESSION_NOT_TIED, text);
    }
    return error;
}

/* Another process is to have the session: it must outlive this one. */
static int session_untie(struct hasp_session *session)
{
    char text[HASP_WHY_SIZE];
    if (session->tie == NULL || tie_forgo(session->tie)) {
        return 0;
    }
    if (session->link->key.loop != NULL) {
        return why_set(HASP_EBUSY, SESSION_STAYS_TIED,
                       "the loop would stop; call hasp_uv_untie() first");
    }
    return tie_undo(session->tie, text)
               ? 0
               : why_set(HASP_EBUSY, SESSION_STAYS_TIED, text);
}

bool hasp_is_tied(struct hasp_session *session)
{
    return session_check_process(session) == 0 && session->tie != NULL &&
           tie_is_tied(session->tie);
}

int hasp_open(const struct hasp_options *options,
              struct hasp_session **ret_session)
{
    int error;
    struct hasp_options defaults;
    if (options == NULL) {
        hasp_options_init(&defaults);
        options = &defaults;
    }
    if (ret_session == NULL || options->size < sizeof *options) {
        return why_set(HASP_EINVALID, "hasp_open: options without "
                                      "hasp_options_init(), or nowhere to "
                                      "put the session");
    }
    struct hasp_session *session = NULL;
    while (open_on_link(options, &error, &session)) {
        continue; /* Another link has room. */
    }
    if (error == 0) {
        error = notifier_start(session);
    }
    if (error == 0) {
        error = hooker_start(session);
    }
    if (error == 0 && options->tie != HASP_TIE_NONE) {
        error = session_tie(session, options);
    }
    if (error != 0 && session != NULL) {
        (void)session_finish(
            /* It has no thread that could report it. */
            session, session_fsm_close);
        return error;
    }
    *ret_session = error == 0 ? session : *ret_session;
    return error;
}

/* --- Closing -------------------------------------------------------------- */

/* The threads do not exist in the child, and data that they were changing may
 * be inconsistent. If the mutex was free, everything is consistent and can be
 * freed; otherwise only the descriptors are closed. */
static void close_in_child(struct hasp_session *session)
{
    struct link *link = session->link;
    bool is_whole = pthread_mutex_trylock(&link->mutex) == 0;
    if (is_whole) {
        session_free_parts(session);
        session_unlock(session);
        free(session);
    } else if (session->event_fd >= 0) {
        close(session->event_fd);
    }
    link_abandon(link, is_whole);
}

void hasp_close(struct hasp_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->pid != getpid()) {
        close_in_child(session);
        return;
    }
    /* If no node answers, the session ends with its lease. */
    (void)session_finish(session, session_fsm_close);
}

int hasp_detach(struct hasp_session *session)
{
    int error = session_check_process(session);
    error = error != 0 ? error : session_untie(session);
    return error != 0 ? error : session_finish(session, session_fsm_detach);
}

/* --- What is asked without a round trip ----------------------------------- */

int session_check_process(const struct hasp_session *session)
{
    if (session == NULL) {
        return why_set(HASP_EINVALID, "no session");
    }
    if (session->pid != getpid()) {
        return why_set(HASP_EFORKED, "the session belongs to the parent "
                                     "process; open one in the child");
    }
    return 0;
}

int hasp_credentials(struct hasp_session *session,
                     char ret_credentials[HASP_CREDENTIALS_SIZE])
{
    int error = session_check_process(session);
    error = error != 0 ? error : session_untie(session);
    if (error == 0) {
        snprintf(ret_credentials, HASP_CREDENTIALS_SIZE, "%" PRIu64 ":%s",
                 session->fsm.credentials.session,
                 session->fsm.credentials.secret);
    }
    return error;
}

uint64_t hasp_session_id(const struct hasp_session *session)
{
    return session != NULL ? session->fsm.credentials.session : 0;
}

uint64_t hasp_session_remaining(struct hasp_session *session)
{
    if (session_check_process(session) != 0) {
        return 0;
    }
    session_lock(session);
    uint64_t left_ns = lease_remaining(&session->fsm.lease,
                                       client_clock_read());
    session_unlock(session);
    return left_ns;
}

int hasp_alive(struct hasp_session *session)
{
    struct lease_clock now;
    int error = wait_lock(session, NULL, &now);
    if (error == 0) {
        session_fsm_alive(&session->fsm, now);
        session_unlock(session);
    }
    return error;
}

/* --- Interrupting --------------------------------------------------------- */

void session_set_interrupted(struct hasp_session *session)
{
    atomic_store(&session->is_interrupted, true);
    atomic_store(&session->link->has_interrupted, true);
    session->link->driver->wake(session->link);
}

void session_interrupt(struct hasp_session *session, struct lease_clock now)
{
    if (atomic_load(&session->is_interrupted)) {
        LIST_FOR_SAFE (struct waiting, wait, &session->waits, in_session) {
            session_fsm_interrupt(&session->fsm, &wait->call, now);
        }
    }
}

/* May be called in a signal handler: it makes only getpid() and one system
 * call. */
int hasp_interrupt(struct hasp_session *session)
{
    if (session == NULL) {
        return HASP_EINVALID;
    }
    if (session->pid != getpid()) {
        return HASP_EFORKED;
    }
    int code = errno;
    session_set_interrupted(session);
    errno = code;
    return 0;
}

int hasp_interrupt_clear(struct hasp_session *session)
{
    int error = session_check_process(session);
    if (error == 0) {
        atomic_store(&session->is_interrupted, false);
    }
    return error;
}

/* --- Events --------------------------------------------------------------- */

void session_news(struct session_fsm *fsm)
{
    struct hasp_session *session = LIST_ENTRY(fsm, struct hasp_session, fsm);
    if (session->on_event != NULL || fsm->hooks.is_on) {
        /* The notifier and the hooks' thread wait for the same condition. */
        pthread_cond_broadcast(&session->news);
    }
    if (session->on_event == NULL && session->event_fd >= 0 &&
        !list_is_empty(&fsm->events)) {
        eventfd_write(session->event_fd, 1);
    }
}

bool session_take_hook(struct hasp_session *session,
                       struct hasp_hook_event *ret_event)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return hook_queue_take(
        &session->fsm.hooks, client_now_ns(),
        (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec, ret_event);
}

void session_refused(struct hasp_session *session, const char *name,
                     const char *trace, int error)
{
    if (error == HASP_ELOST) {
        session_lock(session);
        session_fsm_refused(&session->fsm, name, trace, why,
                            client_clock_read());
        session_unlock(session);
    }
}

int hasp_event_fd(struct hasp_session *session)
{
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    session_lock(session);
    if (session->event_fd < 0) {
        bool has_some = !list_is_empty(&session->fsm.events) &&
                        session->on_event == NULL;
        session->event_fd = eventfd(has_some ? 1 : 0,
                                    EFD_CLOEXEC | EFD_NONBLOCK);
    }
    int fd = session->event_fd;
    session_unlock(session);
    return fd >= 0 ? fd : why_set(HASP_EIO, "no descriptor is left");
}

bool hasp_event_next(struct hasp_session *session, struct hasp_event *ret_event)
{
    eventfd_t count;
    if (ret_event == NULL || session_check_process(session) != 0 ||
        session->on_event != NULL) {
        return false;
    }
    session_lock(session);
    struct event_node *node = session_fsm_take_event(&session->fsm);
    /* Under the mutex: an event that arrives after the check makes the
     * descriptor readable again. */
    if (list_is_empty(&session->fsm.events) && session->event_fd >= 0) {
        (void)eventfd_read(session->event_fd, &count);
    }
    session_unlock(session);
    if (node == NULL) {
        return false;
    }
    *ret_event = node->event;
    free(node);
    return true;
}
