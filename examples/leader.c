/* SPDX-License-Identifier: MIT */

/* One of many leads: the holder of the lock leads, the others wait. The leader
 * steps down when it is asked to, when it loses the lease, and on SIGTERM.
 *
 *     leader [SECONDS]         leads for at most this long, then lets others
 *
 *     hasp please examples/leader "your turn is over" */

#include <hasp/hasp.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The longest time of a step of the leader's work. */
#define STEP_MS 50
#define STEP_NS (STEP_MS * UINT64_C(1000000))

static struct hasp_session *session;
static volatile sig_atomic_t is_stopping;

/* hasp_interrupt() ends the wait for the lock, if there is one. */
static void on_term(int number)
{
    (void)number;
    is_stopping = 1;
    if (session != NULL) {
        (void)hasp_interrupt(session);
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* False: the leadership is over. */
static bool heed(const struct hasp_event *event)
{
    switch (event->kind) {
    case HASP_EVENT_PLEASE:
        printf("asked to step down: %s\n", event->text);
        return false;
    case HASP_EVENT_LOST:
        printf("lost: %s\n", event->text);
        return false;
    case HASP_EVENT_JEOPARDY:
        printf("out of touch, doing nothing\n");
        return true;
    default:
        printf("in touch again\n");
        return true;
    }
}

static void lead(struct hasp_hold *hold, double until_s)
{
    struct pollfd fd = {.fd = hasp_event_fd(session), .events = POLLIN};
    struct hasp_event event;
    bool is_leading = true;
    while (is_leading && !is_stopping && now_s() < until_s) {
        if (hasp_guard(hold, STEP_NS) == 0) {
            /* ... work that only the leader may do ... */
        }
        poll(&fd, 1, STEP_MS);
        while (is_leading && hasp_event_next(session, &event)) {
            is_leading = heed(&event);
        }
    }
}

int main(int argc, char **argv)
{
    double time_s = argc > 1 ? strtod(argv[1], NULL) : 10;
    struct sigaction action = {.sa_handler = on_term};
    struct hasp_options options;
    struct hasp_hold *hold;

    hasp_options_init(&options);
    options.ttl_ms = 5000;
    options.linger_ms = 1000; /* If we crash, the next one leads soon. */
    if (hasp_open(&options, &session) != 0) {
        fprintf(stderr, "no session: %s\n", hasp_why());
        return 1;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    printf("waiting to lead\n");
    fflush(stdout);
    int status = hasp_acquire(session, "examples/leader", NULL, &hold);
    if (status == 0) {
        printf("leading, term %" PRIu64 "\n", hasp_token(hold));
        fflush(stdout);
        lead(hold, now_s() + time_s);
        (void)hasp_release(hold);
        printf("stepped down\n");
    } else if (status != HASP_EINTR) {
        fprintf(stderr, "cannot lead: %s\n", hasp_why());
    }
    hasp_close(session);
    return status == 0 || status == HASP_EINTR ? 0 : 1;
}
