/* SPDX-License-Identifier: MIT */

#include "client/hasp_session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define ENDPOINTS_DEFAULT "127.0.0.1:7420"
#define TIMEOUT_DEFAULT_MS 10000
/* For the keeper to be heard for the first time; without it all goes on. */
#define FIRST_BEAT_MS 500

static int make(const struct hasp_options *options,
                struct hasp_session **ret_session);
static int begin(struct hasp_session *session,
                 const struct hasp_options *options);
static int attach(struct hasp_session *session, struct line *line,
                  const char *text);
static bool may_beat(void *data);
static void free_all(struct hasp_session *session);
static void close_in_child(struct hasp_session *session);

void hasp_options_init(struct hasp_options *options)
{
    if (options != NULL) {
        *options = (struct hasp_options){.size = sizeof *options};
    }
}

int hasp_open(const struct hasp_options *options,
              struct hasp_session **ret_session)
{
    struct hasp_options defaults;
    struct hasp_session *session = NULL;
    if (options == NULL) {
        hasp_options_init(&defaults);
        options = &defaults;
    }
    if (ret_session == NULL || options->size < sizeof *options) {
        return why_set(HASP_EINVALID, "hasp_open: options without "
                                      "hasp_options_init(), or nowhere to "
                                      "put the session");
    }
    int error = make(options, &session);
    if (error != 0) {
        return error;
    }
    error = begin(session, options);
    if (error != 0) {
        free_all(session);
        return error;
    }
    *ret_session = session;
    return 0;
}

static uint64_t alive_until(const struct hasp_session *session)
{
    return client_clock_read().boottime_ns + session->alive_ms * NS_PER_MS;
}

static bool open_fds(struct hasp_session *session)
{
    int *fds[] = {&session->stop_fd,  &session->wake_fd,
                  &session->event_fd, &session->interrupt_fd,
                  &session->lost_fd,  &session->failed_fd};
    bool is_ok = true;
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        *fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        is_ok = is_ok && *fds[i] >= 0;
    }
    return is_ok;
}

static void close_fds(struct hasp_session *session)
{
    int fds[] = {session->stop_fd,      session->wake_fd, session->event_fd,
                 session->interrupt_fd, session->lost_fd, session->failed_fd,
                 session->timer_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static int make(const struct hasp_options *options,
                struct hasp_session **ret_session)
{
    char why[HASP_WHY_SIZE] = "";
    const char *text = options->endpoints;
    struct hasp_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    session->pid = getpid();
    session->timer_fd = -1;
    session->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms
                                                   : TIMEOUT_DEFAULT_MS;
    session->alive_ms = options->alive_ms;
    session->on_event = options->on_event;
    session->event_data = options->event_data;
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->resolver_wake, NULL);
    list_init(&session->lines);
    list_init(&session->owners);
    list_init(&session->holds);
    list_init(&session->events);
    list_init(&session->changes);
    atomic_init(&session->alive_until_ns, alive_until(session));
    if (text == NULL) {
        text = getenv("HASP_ENDPOINTS");
        if (text == NULL || text[0] == '\0') {
            text = ENDPOINTS_DEFAULT;
        }
    }
    int error = 0;
    if (!open_fds(session)) {
        error = why_set(HASP_EIO, "no descriptor: %s", strerror(errno));
    } else {
        error = endpoints_parse(text, &session->endpoints, why);
        if (error != 0) {
            why_set(error, "%s", why);
        }
    }
    if (error != 0) {
        free_all(session);
        return error;
    }
    *ret_session = session;
    return 0;
}

static void name_process(char *name, size_t size)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    snprintf(name, size, "%.60s@%.60s:%ld", program_invocation_short_name, host,
             (long)getpid());
}

/* Programs that start together should not all ask the first node. */
static uint32_t any_endpoint(void)
{
    uint64_t seed = client_now_ns() ^ (uint64_t)getpid() << 20;
    return (uint32_t)(seed * UINT64_C(0x9e3779b97f4a7c15) >> 33);
}

static int begin(struct hasp_session *session,
                 const struct hasp_options *options)
{
    char name[160];
    struct line *line;
    struct session_options open = {.ttl_ms = options->ttl_ms,
                                   .linger_ms = options->linger_ms,
                                   .name = options->name};
    struct keeper_options keeper = {.ended = events_ended,
                                    .push = events_push,
                                    .may_beat = may_beat,
                                    .is_eager = true,
                                    .failed_fd = session->failed_fd,
                                    .data = session};
    if (open.name == NULL) {
        name_process(name, sizeof name);
        open.name = name;
    }
    session->endpoint = any_endpoint();
    int error = line_take(session, &line);
    if (error != 0) {
        return error;
    }
    client_set_session(line->client, NULL);
    if (options->credentials != NULL) {
        error = attach(session, line, options->credentials);
    } else {
        error = client_session_open(line->client, &open,
                                    session_deadline_ns(session),
                                    &session->opened);
        error = error != 0 ? line_error(session, line, error) : 0;
    }
    line_put(session, line);
    if (error != 0) {
        return error;
    }
    keeper.endpoint = session->endpoint;
    error = keeper_start(&session->endpoints, &session->opened, &keeper,
                         &session->keeper);
    if (error != 0) {
        return why_set(error, "no thread for the keeper");
    }
    /* Until the keeper's own connection acts for the session too, nobody would
     * hear a PLEASE. */
    struct pollfd news = {.fd = keeper_fd(session->keeper), .events = POLLIN};
    poll(&news, 1, FIRST_BEAT_MS);
    error = events_start(session);
    if (error != 0) {
        keeper_stop(session->keeper);
        session->keeper = NULL;
    }
    return error;
}

/* The session's requests were numbered by others, and may be again: the wall
 * clock goes on from one process to the next. */
static int attach(struct hasp_session *session, struct line *line,
                  const char *text)
{
    struct credentials credentials;
    struct timespec now;
    int error = credentials_parse(text, &credentials);
    if (error != 0) {
        return why_set(error, "credentials are ID:SECRET");
    }
    error = client_session_attach(line->client, &credentials,
                                  session_deadline_ns(session),
                                  &session->opened);
    if (error == 0) {
        error = client_session_keep(line->client, &session->opened,
                                    session_deadline_ns(session), NULL, NULL);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    session->newest = (uint64_t)now.tv_sec * 1000000 +
                      (uint64_t)now.tv_nsec / 1000;
    return error != 0 ? line_error(session, line, error) : 0;
}

/* On the keeper's thread. */
static bool may_beat(void *data)
{
    struct hasp_session *session = data;
    return session->alive_ms == 0 || client_clock_read().boottime_ns <
                                         atomic_load(&session->alive_until_ns);
}

static void stop_threads(struct hasp_session *session)
{
    fd_signal(session->stop_fd);
    resolver_stop(session);
    events_stop(session);
    keeper_stop(session->keeper);
    session->keeper = NULL;
}

int hasp_credentials(const struct hasp_session *session,
                     char ret_credentials[HASP_CREDENTIALS_SIZE])
{
    int error = session_check_process(session);
    if (error == 0) {
        snprintf(ret_credentials, HASP_CREDENTIALS_SIZE, "%" PRIu64 ":%s",
                 session->opened.credentials.session,
                 session->opened.credentials.secret);
    }
    return error;
}

int hasp_detach(struct hasp_session *session)
{
    struct line *line;
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    error = session_check(session);
    stop_threads(session);
    if (error == 0) {
        error = line_take(session, &line);
    }
    if (error == 0) {
        error = client_session_keep(line->client, &session->opened,
                                    session_deadline_ns(session), NULL, NULL);
        error = error != 0 ? line_error(session, line, error) : 0;
        line_put(session, line);
    }
    free_all(session);
    return error;
}

void hasp_close(struct hasp_session *session)
{
    uint64_t released;
    struct line *line;
    if (session == NULL) {
        return;
    }
    if (session->pid != getpid()) {
        close_in_child(session);
        return;
    }
    bool is_lost = session_is_lost(session);
    stop_threads(session);
    if (!is_lost && line_take(session, &line) == 0) {
        /* If nobody answers the lease ends by itself. */
        int error = client_session_close(line->client, &session->opened,
                                         session_deadline_ns(session),
                                         &released);
        (void)error;
        line_put(session, line);
    }
    free_all(session);
}

/* All but the connections. */
static void free_lists(struct hasp_session *session)
{
    LIST_EACH_SAFE (node, &session->holds) {
        client_hold_free(LIST_ENTRY(node, struct hasp_hold, in_session));
    }
    LIST_EACH_SAFE (node, &session->owners) {
        free(LIST_ENTRY(node, struct owner, in_session));
    }
    free(session->open);
    events_free(session);
    endpoints_done(&session->endpoints);
}

static void free_all(struct hasp_session *session)
{
    LIST_EACH_SAFE (node, &session->lines) {
        struct line *line = LIST_ENTRY(node, struct line, in_session);
        client_free(line->client);
        free(line);
    }
    free_lists(session);
    pthread_cond_destroy(&session->resolver_wake);
    pthread_mutex_destroy(&session->mutex);
    close_fds(session);
    free(session);
}

/* The threads are not here, and what they were about to change may be half
 * changed. If the mutex was free its lists are whole, and what is idle can be
 * freed; of all else only the descriptors are closed. */
static void close_in_child(struct hasp_session *session)
{
    bool is_whole = pthread_mutex_trylock(&session->mutex) == 0;
    keeper_abandon(session->keeper);
    close_fds(session);
    if (!is_whole) {
        return;
    }
    LIST_EACH_SAFE (node, &session->lines) {
        struct line *line = LIST_ENTRY(node, struct line, in_session);
        if (line->is_busy) {
            client_abandon(line->client);
        } else {
            client_free(line->client);
            free(line);
        }
    }
    free_lists(session);
    pthread_mutex_unlock(&session->mutex);
    free(session);
}

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

bool session_is_lost(struct hasp_session *session)
{
    struct keeper_view view;
    keeper_view(session->keeper, &view);
    return view.state == LEASE_LOST;
}

int session_check(struct hasp_session *session)
{
    struct keeper_view view;
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    keeper_view(session->keeper, &view);
    if (view.state == LEASE_LOST) {
        error = why_set(HASP_ELOST, "the session is lost%s%s; open another one",
                        view.why[0] != '\0' ? ": " : "", view.why);
    }
    return error;
}

void session_lock(struct hasp_session *session)
{
    pthread_mutex_lock(&session->mutex);
}

void session_unlock(struct hasp_session *session)
{
    pthread_mutex_unlock(&session->mutex);
}

uint64_t hasp_session_id(const struct hasp_session *session)
{
    return session != NULL ? session->opened.credentials.session : 0;
}

uint64_t hasp_session_remaining(struct hasp_session *session)
{
    struct keeper_view view;
    if (session_check_process(session) != 0) {
        return 0;
    }
    keeper_view(session->keeper, &view);
    return view.remaining_ns;
}

int hasp_alive(struct hasp_session *session)
{
    int error = session_check(session);
    if (error == 0) {
        atomic_store(&session->alive_until_ns, alive_until(session));
    }
    return error;
}

/* For a signal handler: nothing but getpid() and write(). */
int hasp_interrupt(struct hasp_session *session)
{
    if (session == NULL) {
        return HASP_EINVALID;
    }
    if (session->pid != getpid()) {
        return HASP_EFORKED;
    }
    int code = errno;
    fd_signal(session->interrupt_fd);
    errno = code;
    return 0;
}

int hasp_interrupt_clear(struct hasp_session *session)
{
    int error = session_check_process(session);
    if (error == 0) {
        fd_clear(session->interrupt_fd);
    }
    return error;
}
