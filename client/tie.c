/* SPDX-License-Identifier: MIT */

#include "client/tie.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/minmax.h"
#include "client/clock.h"
#include "client/proc_stat.h"
#include "client/thread.h"

/* After a failure, and after the agent's end, which many programs notice at
 * once: a random part of it is added. */
#define RETRY_MS 100
#define RETRY_MAX_MS 5000
/* While the agent's queue is full: for TIE_ANSWER_MS in all. */
#define BUSY_MS 10
#define BUSY_MAX (TIE_ANSWER_MS / BUSY_MS)
#define JITTER_MS 900
#define LINE_SIZE 160
#define INPUT_SIZE 1024
/* Lines that are sent and not answered; the agent's buffer is bounded. */
#define ASKED_MAX 64

enum tie_state {
    TIE_WANTED,   /* To be tied. */
    TIE_ASKED,    /* TIE is sent. */
    TIE_TIED,     /* It is answered. */
    TIE_REFUSED,  /* It is refused. */
    TIE_UNWANTED, /* To be untied. */
    TIE_UNASKED,  /* UNTIE is sent. */
    TIE_UNTIED    /* It is answered, or was never tied. */
};

struct tie {
    struct list in_agent;
    struct list in_asked; /* While a line of it is not answered. */
    struct tie_agent *agent;
    enum tie_state state;
    struct credentials word;
    uint64_t ttl_ms;
    bool may_be_tied; /* TIE was sent since the last UNTIE was answered. */
    bool is_orphan;   /* The session is gone: freed once it is untied. */
    bool is_told;     /* That it is not tied. */
    bool is_undoing;  /* tie_undo_step() has asked for UNTIE. */
    tie_changed_fn *changed;
    void *data;
    char why[HASP_WHY_SIZE];
};

struct tie_agent {
    struct list in_agents;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    pthread_mutex_t mutex;
    pthread_cond_t news; /* A tie has changed its state. */
    struct list ties;
    struct list asked; /* In the order of their lines. */
    uint32_t asked_count;
    int fd;         /* -1: not connected. */
    int wake_fd;    /* Eventfd. */
    uint64_t start; /* Start time of this process, from /proc. */
    uint64_t retry_ns;
    uint64_t retry_ms;
    uint32_t busy_count; /* Attempts in a row that found its queue full. */
    uint64_t asked_ns;   /* When the oldest unanswered line was sent. */
    char input[INPUT_SIZE];
    size_t size;
};

static pthread_mutex_t agents_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list agents;
static pid_t agents_pid; /* The process to which they belong. */

/* --- On the agent's thread, under its mutex ------------------------------- */

static void tie_drop(struct tie *tie)
{
    list_remove(&tie->in_agent);
    free(tie);
}

static void tie_set(struct tie *tie, enum tie_state state, const char *why)
{
    bool is_new = why[0] != '\0' && !tie->is_told;
    tie->state = state;
    snprintf(tie->why, sizeof tie->why, "%s", why);
    tie->is_told = state != TIE_TIED && (tie->is_told || is_new);
    if (tie->changed != NULL) {
        tie->changed(tie->data, is_new ? why : NULL);
    }
    pthread_cond_broadcast(&tie->agent->news);
}

static void tie_agent_later(struct tie_agent *agent, bool is_failure)
{
    uint16_t random = 0;
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    agent->retry_ms = is_failure
                          ? u64_min(u64_max(2 * agent->retry_ms, RETRY_MS),
                                    RETRY_MAX_MS)
                          : RETRY_MS;
    agent->retry_ns = client_now_ns() +
                      (agent->retry_ms + random % JITTER_MS) * NS_PER_MS;
}

/* The agent cannot be reached, or is gone. A session is known to be untied only
 * after the answer to an UNTIE, or if no TIE was sent. */
static void tie_agent_lose(struct tie_agent *agent, const char *why)
{
    char text[HASP_WHY_SIZE];
    bool was_connected = agent->fd >= 0;
    if (was_connected) {
        /* Even if a child of fork() has it: what the agent has not read is void
         * once it sees this. */
        shutdown(agent->fd, SHUT_RDWR);
        close(agent->fd);
    }
    agent->fd = -1;
    agent->size = 0;
    tie_agent_later(agent, !was_connected);
    snprintf(text, sizeof text, "the agent at %s %s", agent->path, why);
    LIST_FOR_SAFE (struct tie, tie, &agent->asked, in_asked) {
        list_remove(&tie->in_asked);
    }
    agent->asked_count = 0;
    LIST_FOR_SAFE (struct tie, tie, &agent->ties, in_agent) {
        if (tie->is_orphan) {
            tie_drop(tie); /* The agent learns it from the cluster's answer. */
        } else if (tie->state == TIE_UNASKED || tie->state == TIE_UNWANTED) {
            tie_set(tie, TIE_WANTED, text); /* tie_undo() has failed. */
        } else if (tie->state != TIE_UNTIED) {
            tie_set(tie, TIE_WANTED, text);
        }
    }
}

static void tie_agent_connect(struct tie_agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, agent->path, sizeof address.sun_path);
    agent->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (agent->fd >= 0 &&
        connect(agent->fd, (struct sockaddr *)&address, sizeof address) == 0) {
        agent->busy_count = 0;
        return;
    }
    char why[128];
    bool is_busy = agent->fd >= 0 && errno == EAGAIN;
    snprintf(why, sizeof why, "cannot be reached: %s",
             is_busy ? "too many programs connect to it" : strerror(errno));
    if (agent->fd >= 0) {
        close(agent->fd);
        agent->fd = -1;
    }
    /* Its queue of connections is full: there is room as soon as it runs. */
    if (is_busy && agent->busy_count < BUSY_MAX) {
        agent->busy_count++;
        agent->retry_ns = client_now_ns() + BUSY_MS * NS_PER_MS;
        return;
    }
    agent->busy_count = 0;
    tie_agent_lose(agent, why);
}

/* Sends one line; false: not now, or the connection is lost. */
static bool tie_agent_send(struct tie_agent *agent, struct tie *tie)
{
    char line[LINE_SIZE];
    bool is_tie = tie->state == TIE_WANTED;
    int size = is_tie ? snprintf(line, sizeof line,
                                 "TIE %" PRIu64 " %s START %" PRIu64
                                 " TTL %" PRIu64 "\n",
                                 tie->word.session, tie->word.secret,
                                 agent->start, tie->ttl_ms)
                      : snprintf(line, sizeof line,
                                 "UNTIE %" PRIu64 " %s START %" PRIu64 "\n",
                                 tie->word.session, tie->word.secret,
                                 agent->start);
    ssize_t sent = send(agent->fd, line, (size_t)size, MSG_NOSIGNAL);
    if (sent != size) {
        tie_agent_lose(agent, "does not read");
        return false;
    }
    tie->may_be_tied |= is_tie;
    tie->state = is_tie ? TIE_ASKED : TIE_UNASKED;
    if (agent->asked_count++ == 0) {
        agent->asked_ns = client_now_ns();
    }
    list_push_back(&agent->asked, &tie->in_asked);
    return true;
}

static void tie_agent_send_all(struct tie_agent *agent)
{
    LIST_FOR_SAFE (struct tie, tie, &agent->ties, in_agent) {
        if (agent->asked_count >= ASKED_MAX) {
            return;
        }
        if ((tie->state == TIE_WANTED || tie->state == TIE_UNWANTED) &&
            list_is_empty(&tie->in_asked) && !tie_agent_send(agent, tie)) {
            return;
        }
    }
}

/* An answer to the oldest line. False: nothing was asked. */
static bool tie_agent_answered(struct tie_agent *agent, const char *line)
{
    bool is_ok = strncmp(line, "OK", 2) == 0;
    if (list_is_empty(&agent->asked)) {
        return false;
    }
    struct tie *tie = LIST_FIRST(&agent->asked, struct tie, in_asked);
    list_remove(&tie->in_asked);
    agent->asked_count--;
    agent->asked_ns = client_now_ns();
    agent->retry_ms = 0;
    char why[HASP_WHY_SIZE];
    snprintf(why, sizeof why, "the agent at %s: %.300s", agent->path, line);
    if (tie->state == TIE_UNASKED) {
        tie->may_be_tied &= !is_ok;
        tie_set(tie, is_ok ? TIE_UNTIED : TIE_REFUSED, is_ok ? "" : why);
    } else if (tie->state == TIE_ASKED) {
        tie->may_be_tied = is_ok;
        tie_set(tie, is_ok ? TIE_TIED : TIE_REFUSED, is_ok ? "" : why);
    }
    if (tie->is_orphan && tie->state != TIE_UNWANTED) {
        tie_drop(tie);
    }
    return true;
}

static void tie_agent_read(struct tie_agent *agent)
{
    ssize_t got = read(agent->fd, agent->input + agent->size,
                       sizeof agent->input - agent->size);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            tie_agent_lose(agent, "has ended the connection");
        }
        return;
    }
    agent->size += (size_t)got;
    char *from = agent->input, *end = agent->input + agent->size, *line_end;
    while ((line_end = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        *line_end = '\0';
        if (!tie_agent_answered(agent, from)) {
            tie_agent_lose(agent, "does not speak the protocol");
            return;
        }
        from = line_end + 1;
    }
    agent->size = (size_t)(end - from);
    memmove(agent->input, from, agent->size);
    if (agent->size == sizeof agent->input) {
        tie_agent_lose(agent, "does not speak the protocol");
    }
}

static bool tie_agent_has_work(const struct tie_agent *agent)
{
    LIST_FOR (const struct tie, tie, &agent->ties, in_agent) {
        if (tie->state != TIE_UNTIED && tie->state != TIE_REFUSED) {
            return true;
        }
    }
    return false;
}

/* One turn; the mutex is released while it waits. */
static void tie_agent_turn(struct tie_agent *agent)
{
    uint64_t now_ns = client_now_ns();
    int wait_ms = -1;
    if (agent->fd < 0 && tie_agent_has_work(agent) &&
        now_ns >= agent->retry_ns) {
        tie_agent_connect(agent);
        now_ns = client_now_ns();
    }
    if (agent->fd >= 0) {
        tie_agent_send_all(agent);
    }
    if (agent->fd >= 0 && agent->asked_count > 0) {
        uint64_t until_ns = agent->asked_ns + TIE_ANSWER_MS * NS_PER_MS;
        if (now_ns >= until_ns) {
            tie_agent_lose(agent, "does not answer");
        } else {
            wait_ms = client_poll_ms(until_ns);
        }
    }
    if (agent->fd < 0 && tie_agent_has_work(agent)) {
        wait_ms = client_poll_ms(agent->retry_ns);
    }
    struct pollfd fds[2] = {{.fd = agent->wake_fd, .events = POLLIN},
                            {.fd = agent->fd, .events = POLLIN}};
    pthread_mutex_unlock(&agent->mutex);
    int count = poll(fds, 2, wait_ms);
    pthread_mutex_lock(&agent->mutex);
    eventfd_t ignored;
    if (count > 0 && fds[0].revents != 0) {
        (void)eventfd_read(agent->wake_fd, &ignored);
    }
    if (count > 0 && fds[1].revents != 0 && agent->fd >= 0) {
        tie_agent_read(agent);
    }
}

static void *tie_agent_run(void *data)
{
    struct tie_agent *agent = data;
    pthread_mutex_lock(&agent->mutex);
    for (;;) {
        while (!list_is_empty(&agent->ties)) {
            tie_agent_turn(agent);
        }
        /* The registry first, as in tie_begin(). */
        pthread_mutex_unlock(&agent->mutex);
        pthread_mutex_lock(&agents_mutex);
        pthread_mutex_lock(&agent->mutex);
        if (list_is_empty(&agent->ties)) {
            break;
        }
        pthread_mutex_unlock(&agents_mutex);
    }
    list_remove(&agent->in_agents);
    pthread_mutex_unlock(&agent->mutex);
    pthread_mutex_unlock(&agents_mutex);
    if (agent->fd >= 0) {
        close(agent->fd);
    }
    close(agent->wake_fd);
    pthread_cond_destroy(&agent->news);
    pthread_mutex_destroy(&agent->mutex);
    free(agent);
    return NULL;
}

/* --- For sessions --------------------------------------------------------- */

static struct tie_agent *tie_agent_new(const char *path)
{
    pthread_t thread;
    pthread_condattr_t attributes;
    struct tie_agent *agent = calloc(1, sizeof *agent);
    if (agent == NULL) {
        return NULL;
    }
    snprintf(agent->path, sizeof agent->path, "%s", path);
    struct proc_stat self;
    agent->start = proc_stat_read(0, &self) ? self.start : 0;
    agent->fd = -1;
    agent->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    list_init(&agent->ties);
    list_init(&agent->asked);
    pthread_mutex_init(&agent->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&agent->news, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_lock(&agent->mutex); /* The thread waits for the first tie. */
    if (agent->wake_fd < 0 ||
        client_thread_start(&thread, tie_agent_run, agent) != 0) {
        if (agent->wake_fd >= 0) {
            close(agent->wake_fd);
        }
        free(agent);
        return NULL;
    }
    pthread_detach(thread);
    list_push_back(&agents, &agent->in_agents);
    return agent;
}

/* Under the registry's mutex; returns with that of the agent locked. */
static struct tie_agent *tie_agent_find(const char *path)
{
    if (agents_pid != getpid()) {
        agents_pid = getpid(); /* A child of fork() has no threads. */
        list_init(&agents);
    }
    LIST_FOR (struct tie_agent, agent, &agents, in_agents) {
        if (strcmp(agent->path, path) == 0) {
            pthread_mutex_lock(&agent->mutex);
            return agent;
        }
    }
    return tie_agent_new(path);
}

int tie_begin(const char *path, const struct credentials *death_word,
              uint64_t ttl_ms, tie_changed_fn *changed, void *data,
              struct tie **ret_tie)
{
    if (path == NULL || path[0] == '\0') {
        path = getenv("HASP_AGENT");
    }
    if (path == NULL || path[0] == '\0') {
        path = TIE_SOCKET_DEFAULT;
    }
    if (strlen(path) >= sizeof((struct tie_agent *)0)->path) {
        return HASP_EINVALID;
    }
    struct tie *tie = calloc(1, sizeof *tie);
    if (tie == NULL) {
        return HASP_ENOMEM;
    }
    if (agents_pid != 0 && agents_pid != getpid()) {
        /* A thread of the parent may have had it when we were forked. */
        pthread_mutex_init(&agents_mutex, NULL);
    }
    pthread_mutex_lock(&agents_mutex);
    struct tie_agent *agent = tie_agent_find(path);
    if (agent == NULL) {
        pthread_mutex_unlock(&agents_mutex);
        free(tie);
        return HASP_EIO;
    }
    *tie = (struct tie){.agent = agent,
                        .state = TIE_WANTED,
                        .word = *death_word,
                        .ttl_ms = ttl_ms,
                        .changed = changed,
                        .data = data};
    list_init(&tie->in_asked);
    list_push_back(&agent->ties, &tie->in_agent);
    agent->retry_ns = 0; /* It may be back: a new tie does not wait. */
    eventfd_write(agent->wake_fd, 1);
    *ret_tie = tie;
    pthread_mutex_unlock(&agent->mutex);
    pthread_mutex_unlock(&agents_mutex);
    return 0;
}

static struct timespec time_limit(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TIE_WAIT_MS / 1000;
    return until;
}

static void tie_get_why(const struct tie *tie, char why[HASP_WHY_SIZE])
{
    snprintf(why, HASP_WHY_SIZE, "%.400s",
             tie->why[0] != '\0' ? tie->why : "the agent does not answer");
}

static enum tie_progress tie_progress_of(const struct tie *tie)
{
    return tie->state == TIE_TIED     ? TIE_DONE
           : tie->why[0] != '\0'      ? TIE_FAILED
           : tie->state == TIE_UNTIED ? TIE_FAILED
                                      : TIE_PENDING;
}

enum tie_progress tie_look(struct tie *tie, char why[HASP_WHY_SIZE])
{
    pthread_mutex_lock(&tie->agent->mutex);
    enum tie_progress progress = tie_progress_of(tie);
    tie_get_why(tie, why);
    pthread_mutex_unlock(&tie->agent->mutex);
    return progress;
}

bool tie_wait(struct tie *tie, char why[HASP_WHY_SIZE])
{
    struct timespec until = time_limit();
    struct tie_agent *agent = tie->agent;
    int error = 0;
    pthread_mutex_lock(&agent->mutex);
    while (tie_progress_of(tie) == TIE_PENDING && error == 0) {
        error = pthread_cond_timedwait(&agent->news, &agent->mutex, &until);
    }
    bool is_tied = tie->state == TIE_TIED;
    tie_get_why(tie, why);
    pthread_mutex_unlock(&agent->mutex);
    return is_tied;
}

bool tie_is_tied(struct tie *tie)
{
    pthread_mutex_lock(&tie->agent->mutex);
    bool is_tied = tie->state == TIE_TIED;
    pthread_mutex_unlock(&tie->agent->mutex);
    return is_tied;
}

/* The following functions need the agent's mutex. */

static bool tie_forgo_locked(struct tie *tie)
{
    if (!tie->may_be_tied) {
        tie->state = TIE_UNTIED;
    }
    return !tie->may_be_tied;
}

static enum tie_progress tie_undo_step_locked(struct tie *tie, bool is_late)
{
    struct tie_agent *agent = tie->agent;
    if (tie_forgo_locked(tie)) {
        return TIE_DONE;
    }
    if (is_late) {
        tie->state = tie->state == TIE_UNWANTED ? TIE_WANTED : tie->state;
        tie->is_undoing = false;
        return TIE_FAILED;
    }
    /* A TIE that is under way is answered first: lines are answered in order,
     * and its own answer must not be taken for that of UNTIE. */
    if (tie->state == TIE_ASKED) {
        return TIE_PENDING;
    }
    if (!tie->is_undoing) {
        tie->is_undoing = true;
        tie->state = TIE_UNWANTED;
        tie->why[0] = '\0';
        eventfd_write(agent->wake_fd, 1);
        agent->retry_ns = agent->fd < 0 ? 0 : agent->retry_ns;
    }
    if (tie->state == TIE_UNWANTED || tie->state == TIE_UNASKED) {
        return TIE_PENDING;
    }
    tie->is_undoing = false;
    return TIE_FAILED;
}

bool tie_forgo(struct tie *tie)
{
    pthread_mutex_lock(&tie->agent->mutex);
    bool is_untied = tie_forgo_locked(tie);
    pthread_mutex_unlock(&tie->agent->mutex);
    return is_untied;
}

enum tie_progress tie_undo_step(struct tie *tie, bool is_late,
                                char why[HASP_WHY_SIZE])
{
    pthread_mutex_lock(&tie->agent->mutex);
    enum tie_progress progress = tie_undo_step_locked(tie, is_late);
    tie_get_why(tie, why);
    pthread_mutex_unlock(&tie->agent->mutex);
    return progress;
}

bool tie_undo(struct tie *tie, char why[HASP_WHY_SIZE])
{
    struct timespec until = time_limit();
    struct tie_agent *agent = tie->agent;
    enum tie_progress progress;
    int error = 0;
    pthread_mutex_lock(&agent->mutex);
    while ((progress = tie_undo_step_locked(tie, error != 0)) == TIE_PENDING) {
        error = pthread_cond_timedwait(&agent->news, &agent->mutex, &until);
    }
    tie_get_why(tie, why);
    pthread_mutex_unlock(&agent->mutex);
    return progress == TIE_DONE;
}

void tie_quiet(struct tie *tie)
{
    if (tie != NULL) {
        pthread_mutex_lock(&tie->agent->mutex);
        tie->changed = NULL;
        pthread_mutex_unlock(&tie->agent->mutex);
    }
}

void tie_end(struct tie *tie)
{
    if (tie == NULL) {
        return;
    }
    struct tie_agent *agent = tie->agent;
    pthread_mutex_lock(&agent->mutex);
    tie->changed = NULL;
    tie->is_orphan = true;
    bool is_silent = list_is_empty(&tie->in_asked);
    if (tie->state == TIE_TIED && agent->fd >= 0) {
        tie->state = TIE_UNWANTED;
    } else if (tie->state == TIE_ASKED && !is_silent) {
        tie->state = TIE_ASKED; /* Freed with its answer. */
    } else if (is_silent) {
        tie_drop(tie);
    }
    eventfd_write(agent->wake_fd, 1);
    pthread_mutex_unlock(&agent->mutex);
}
