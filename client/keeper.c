/* SPDX-License-Identifier: MIT */

#include "client/keeper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/thread.h"

struct keeper {
    pthread_t thread;
    pthread_mutex_t mutex; /* Guards 'session', 'is_refused' and 'why'. */
    struct client_session session;
    bool is_refused;
    char why[HASP_WHY_SIZE];
    struct client *client; /* The rest belongs to the thread. */
    struct keeper_options options;
    int stop_fd;
    int news_fd;
};

static void *keep(void *data);

int keeper_start(const struct endpoints *endpoints,
                 const struct client_session *session,
                 const struct keeper_options *options,
                 struct keeper **ret_keeper)
{
    int error = HASP_ENOMEM;
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper == NULL) {
        return error;
    }
    keeper->session = *session;
    keeper->options = *options;
    keeper->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    keeper->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->stop_fd < 0 || keeper->news_fd < 0) {
        error = HASP_EIO;
        goto out_close;
    }
    keeper->client = client_new(endpoints);
    client_begin_at(keeper->client, options->endpoint);
    client_set_session(keeper->client, &session->credentials);
    client_set_interrupt(keeper->client, keeper->stop_fd);
    client_set_push(keeper->client, options->push, options->data);
    pthread_mutex_init(&keeper->mutex, NULL);
    if (client_thread_start(&keeper->thread, keep, keeper) != 0) {
        error = HASP_EIO;
        goto out_client;
    }
    *ret_keeper = keeper;
    return 0;

out_client:
    client_free(keeper->client);
    pthread_mutex_destroy(&keeper->mutex);
out_close:
    if (keeper->stop_fd >= 0) {
        close(keeper->stop_fd);
    }
    if (keeper->news_fd >= 0) {
        close(keeper->news_fd);
    }
    free(keeper);
    return error;
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    /* It can only fail by being readable for ever, which is the purpose. */
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

void keeper_stop(struct keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    signal_fd(keeper->stop_fd);
    pthread_join(keeper->thread, NULL);
    client_free(keeper->client);
    pthread_mutex_destroy(&keeper->mutex);
    close(keeper->stop_fd);
    close(keeper->news_fd);
    free(keeper);
}

void keeper_lose(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    lease_refused(&keeper->session.lease);
    pthread_mutex_unlock(&keeper->mutex);
    signal_fd(keeper->news_fd);
}

void keeper_abandon(struct keeper *keeper)
{
    client_abandon(keeper->client);
    close(keeper->stop_fd);
    close(keeper->news_fd);
}

void keeper_view(struct keeper *keeper, struct keeper_view *ret_view)
{
    struct keeper_view view = {0};
    pthread_mutex_lock(&keeper->mutex);
    struct lease_clock now = client_clock_read();
    struct lease *lease = &keeper->session.lease;
    view.state = lease_check(lease, now);
    view.remaining_ns = lease_remaining(lease, now);
    if (view.state != LEASE_LOST) {
        struct lease sure = *lease;
        sure.linger_ns = 0;
        view.sure_ns = lease_remaining(&sure, now);
    }
    view.is_refused = keeper->is_refused;
    memcpy(view.why, keeper->why, sizeof view.why);
    pthread_mutex_unlock(&keeper->mutex);
    *ret_view = view;
}

static void tell_failed(const struct keeper *keeper)
{
    if (keeper->options.failed_fd > 0) {
        signal_fd(keeper->options.failed_fd);
    }
}

int keeper_fd(const struct keeper *keeper)
{
    return keeper->news_fd;
}

/* Waits for the time of the next heartbeat; takes pushes meanwhile. False: the
 * keeper is to stop. */
static bool wait_for_beat(struct keeper *keeper, uint64_t until_ns)
{
    for (;;) {
        struct pollfd fds[2] = {
            {.fd = keeper->stop_fd, .events = POLLIN},
            {.fd = client_fd(keeper->client), .events = POLLIN},
        };
        int count = poll(fds, 2, client_poll_ms(until_ns));
        if (count > 0 && fds[0].revents != 0) {
            return false;
        }
        if (count > 0 && fds[1].revents != 0) {
            int error = client_wait_push(keeper->client, client_now_ns());
            if (error != 0 && error != HASP_ETIMEDOUT) {
                /* The node has gone: another one should know us soon. */
                client_drop(keeper->client);
                return true;
            }
        }
        if (client_now_ns() >= until_ns) {
            return true;
        }
    }
}

/* One heartbeat. False: there will be no other. */
static bool beat(struct keeper *keeper, struct client_session *session)
{
    struct lease_clock now = client_clock_read();
    lease_beat_sent(&session->lease, now);
    if (keeper->options.may_beat != NULL &&
        !keeper->options.may_beat(keeper->options.data)) {
        pthread_mutex_lock(&keeper->mutex);
        snprintf(keeper->why, sizeof keeper->why,
                 "no progress was reported in time (hasp_alive)");
        pthread_mutex_unlock(&keeper->mutex);
        return true;
    }
    uint32_t endpoint = client_endpoint(keeper->client);
    int error = client_session_keep(
        keeper->client, session,
        client_now_ns() + lease_period_ns(&session->lease),
        keeper->options.ended, keeper->options.data);
    if (error == HASP_EINTR) {
        return false;
    }
    const char *code = client_code(keeper->client);
    bool is_over = error == HASP_EREPLY && (strcmp(code, "EXPIRED") == 0 ||
                                            strcmp(code, "NOSESSION") == 0);
    bool is_blacklisted = error == HASP_EREPLY &&
                          strcmp(code, "BLACKLISTED") == 0;
    if (is_over) {
        lease_refused(&session->lease);
    }
    pthread_mutex_lock(&keeper->mutex);
    /* Nothing leaves lost: what keeper_view() has told counts, even if an
     * answer was under way. */
    if (keeper->session.lease.is_lost) {
        lease_refused(&session->lease);
    }
    keeper->session = *session;
    keeper->is_refused |= is_over || is_blacklisted;
    keeper->why[0] = '\0';
    if (error != 0) {
        snprintf(keeper->why, sizeof keeper->why, "%s%s%.440s", code,
                 code[0] != '\0' ? " " : "", client_why(keeper->client));
        client_drop(keeper->client);
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (error != 0 || client_endpoint(keeper->client) != endpoint) {
        tell_failed(keeper);
    }
    return !is_over;
}

static void *keep(void *data)
{
    struct keeper *keeper = data;
    struct client_session session = keeper->session;
    bool is_due = keeper->options.is_eager;
    for (;;) {
        struct lease_clock now = client_clock_read();
        uint64_t next_ns = lease_next_beat(&session.lease, now);
        if (next_ns == UINT64_MAX ||
            lease_check(&session.lease, now) == LEASE_LOST) {
            tell_failed(keeper);
            break;
        }
        if (!is_due && !wait_for_beat(keeper, now.monotonic_ns + next_ns)) {
            return NULL;
        }
        is_due = false;
        if (!beat(keeper, &session)) {
            break;
        }
        signal_fd(keeper->news_fd);
    }
    signal_fd(keeper->news_fd);
    return NULL;
}
