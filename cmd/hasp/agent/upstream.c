/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/upstream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "client/thread.h"
#include "cmd/hasp/tool.h"

/* A refusal, which another node would repeat, has a pause. */
#define REFUSED_PAUSE_MS 1000
#define ATTEMPTS 4

struct upstream {
    struct tool *tool;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    int fd;
    bool is_stopping;
    struct tie_death deaths[TIE_BATCH_MAX];
    uint32_t count; /* 0: no report is under way. */
    bool is_over;   /* The report is; it has not been taken yet. */
    enum tie_result result;
    uint64_t heard_ns;
    char told[HASP_WHY_SIZE]; /* The last error that was printed. */
};

/* Prints an error once, until there is another, or none. */
static void upstream_tell(struct upstream *upstream, const char *why)
{
    if (strncmp(upstream->told, why, sizeof upstream->told - 1) == 0) {
        return;
    }
    snprintf(upstream->told, sizeof upstream->told, "%s", why);
    tool_say(upstream->tool,
             why[0] != '\0' ? "agent: no report: %s"
                            : "agent: the cluster answers%s",
             why);
}

static int upstream_ask(struct upstream *upstream, const struct query *query,
                        uint64_t attempt_ms)
{
    struct client *client = tool_client(upstream->tool);
    const struct resp_reply *reply;
    struct client_options options = {
        .deadline_ns = client_now_ns() + ATTEMPTS * attempt_ms * NS_PER_MS,
        .attempt_ms = attempt_ms,
        .is_repeatable = true,
        .is_read = true};
    int error = client_ask(client, query, &options, &reply);
    if (error == 0) {
        upstream_tell(upstream, "");
        pthread_mutex_lock(&upstream->mutex);
        upstream->heard_ns = client_now_ns();
        pthread_mutex_unlock(&upstream->mutex);
    } else if (error == HASP_EREPLY || attempt_ms > UPSTREAM_ATTEMPT_MS) {
        char why[HASP_WHY_SIZE];
        snprintf(why, sizeof why, "%s%s%.400s", client_code(client),
                 client_code(client)[0] != '\0' ? " " : "", client_why(client));
        upstream_tell(upstream, why);
    }
    return error;
}

static void upstream_ping(struct upstream *upstream)
{
    struct query query = {0};
    query_begin(&query, "PING");
    (void)upstream_ask(upstream, &query, UPSTREAM_ATTEMPT_MAX_MS);
    query_done(&query);
}

static bool upstream_is_stopping(struct upstream *upstream)
{
    pthread_mutex_lock(&upstream->mutex);
    bool is = upstream->is_stopping;
    pthread_mutex_unlock(&upstream->mutex);
    return is;
}

/* Only this thread reads the deaths until the report is over. */
static enum tie_result upstream_send(struct upstream *upstream)
{
    struct query query = {0};
    query_begin(&query, "SESSION.DIED");
    for (uint32_t i = 0; i < upstream->count; i++) {
        query_number(&query, upstream->deaths[i].session);
        query_text(&query, upstream->deaths[i].word);
    }
    int error = HASP_ECONNECT;
    for (uint64_t ms = UPSTREAM_ATTEMPT_MS;
         error != 0 && !upstream_is_stopping(upstream);
         ms = u64_min(2 * ms, UPSTREAM_ATTEMPT_MAX_MS)) {
        error = upstream_ask(upstream, &query, ms);
        /* The batch is given back, and may grow. */
        if (ms == UPSTREAM_ATTEMPT_MAX_MS) {
            break;
        }
        if (error == HASP_EREPLY) {
            client_sleep_ms(REFUSED_PAUSE_MS);
            break;
        }
    }
    query_done(&query);
    return error == 0             ? TIE_REPORTED
           : error == HASP_EREPLY ? TIE_REJECTED
                                  : TIE_UNREPORTED;
}

/* Waits for deaths; false: only a PING is due. */
static bool upstream_wait(struct upstream *upstream)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += UPSTREAM_PING_MS / 1000;
    int error = 0;
    while (!upstream->is_stopping &&
           (upstream->count == 0 || upstream->is_over) && error == 0) {
        error = pthread_cond_timedwait(&upstream->news, &upstream->mutex,
                                       &until);
    }
    return upstream->count != 0 && !upstream->is_over;
}

static void *upstream_run(void *data)
{
    struct upstream *upstream = data;
    upstream_ping(upstream);
    pthread_mutex_lock(&upstream->mutex);
    while (!upstream->is_stopping) {
        bool has_deaths = upstream_wait(upstream);
        pthread_mutex_unlock(&upstream->mutex);
        enum tie_result result = has_deaths ? upstream_send(upstream)
                                            : TIE_UNREPORTED;
        if (!has_deaths && !upstream_is_stopping(upstream)) {
            upstream_ping(upstream);
        }
        pthread_mutex_lock(&upstream->mutex);
        if (has_deaths) {
            upstream->is_over = true;
            upstream->result = result;
            eventfd_write(upstream->fd, 1);
        }
    }
    pthread_mutex_unlock(&upstream->mutex);
    return NULL;
}

int upstream_start(struct tool *tool, struct upstream **ret_upstream)
{
    struct upstream *upstream = memory_new(sizeof *upstream);
    pthread_condattr_t attributes;
    upstream->tool = tool;
    upstream->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&upstream->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&upstream->news, &attributes);
    pthread_condattr_destroy(&attributes);
    if (upstream->fd < 0 ||
        client_thread_start(&upstream->thread, upstream_run, upstream) != 0) {
        if (upstream->fd >= 0) {
            close(upstream->fd);
        }
        free(upstream);
        return HASP_EIO;
    }
    *ret_upstream = upstream;
    return 0;
}

void upstream_stop(struct upstream *upstream)
{
    if (upstream == NULL) {
        return;
    }
    pthread_mutex_lock(&upstream->mutex);
    upstream->is_stopping = true;
    pthread_cond_signal(&upstream->news);
    pthread_mutex_unlock(&upstream->mutex);
    pthread_join(upstream->thread, NULL);
    pthread_cond_destroy(&upstream->news);
    pthread_mutex_destroy(&upstream->mutex);
    close(upstream->fd);
    free(upstream);
}

int upstream_fd(const struct upstream *upstream)
{
    return upstream->fd;
}

void upstream_report(struct upstream *upstream, const struct tie_death *deaths,
                     uint32_t count)
{
    CHECK(count > 0 && count <= TIE_BATCH_MAX);
    pthread_mutex_lock(&upstream->mutex);
    CHECK(upstream->count == 0);
    memcpy(upstream->deaths, deaths, count * sizeof *deaths);
    upstream->count = count;
    upstream->is_over = false;
    pthread_cond_signal(&upstream->news);
    pthread_mutex_unlock(&upstream->mutex);
}

bool upstream_take(struct upstream *upstream, enum tie_result *ret_result)
{
    eventfd_t ignored;
    pthread_mutex_lock(&upstream->mutex);
    bool is_over = upstream->is_over;
    if (is_over) {
        (void)eventfd_read(upstream->fd, &ignored);
        *ret_result = upstream->result;
        upstream->is_over = false;
        upstream->count = 0;
    }
    pthread_mutex_unlock(&upstream->mutex);
    return is_over;
}

uint64_t upstream_heard_ns(struct upstream *upstream)
{
    pthread_mutex_lock(&upstream->mutex);
    uint64_t heard_ns = upstream->heard_ns;
    pthread_mutex_unlock(&upstream->mutex);
    return heard_ns;
}
