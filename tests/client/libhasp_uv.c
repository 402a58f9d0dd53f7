/* SPDX-License-Identifier: MIT */

/* The callback calls: one loop and three handles, in the order of events. Each
 * callback comes once, on the loop's thread, and the loop ends when all are
 * closed. Exits 0 if everything expected happened. */

#include <hasp/hasp_uv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "expect.h"

#define WAITS 3

static pthread_t loop_thread;
static struct hasp_uv *holder, *waiter, *hopeless;
static struct hasp_hold *hold;
static uv_timer_t timer;
static int opened, interrupted, closed, failed, released, granted;

static void on_closed(void *data, int status, const char *why)
{
    (void)why;
    EXPECT(status == 0 && pthread_equal(pthread_self(), loop_thread));
    EXPECT(data == &closed);
    closed++;
}

static void on_released(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == 0 && why[0] == '\0');
    released++;
    hasp_uv_close(holder, on_closed, &closed);
}

static void on_wait(void *data, int status, const char *why,
                    struct hasp_hold *none)
{
    (void)data;
    EXPECT(pthread_equal(pthread_self(), loop_thread));
    EXPECT(status == HASP_EINTR && none == NULL && why[0] != '\0');
    interrupted++;
    if (interrupted == WAITS) {
        EXPECT(hasp_uv_release(holder, hold, on_released, NULL) == 0);
    }
}

/* Three waits are pending: closing ends them. */
static void on_timer(uv_timer_t *handle)
{
    EXPECT(interrupted == 0);
    EXPECT(count_connections() == 1); /* All on this loop share it. */
    hasp_uv_close(waiter, on_closed, &closed);
    hasp_uv_close(waiter, on_closed, &closed); /* Once is enough. */
    EXPECT(hasp_uv_acquire(waiter, "uv", NULL, on_wait, NULL) == HASP_EINVALID);
    uv_close((uv_handle_t *)handle, NULL);
}

static void on_try(void *data, int status, const char *why,
                   struct hasp_hold *none)
{
    (void)data;
    EXPECT(status == HASP_NOT_ACQUIRED && none == NULL && why[0] == '\0');
    for (int i = 0; i < WAITS; i++) {
        EXPECT(hasp_uv_acquire(waiter, "uv", NULL, on_wait, NULL) == 0);
    }
    uv_timer_start(&timer, on_timer, 500, 0);
}

static void on_held(void *data, int status, const char *why,
                    struct hasp_hold *new_hold)
{
    struct hasp_acquire_options options;
    char name[] = "uv";
    (void)data;
    (void)why;
    EXPECT(status == 0 && new_hold != NULL);
    hold = new_hold;
    granted++;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    EXPECT(hasp_guard(hold, 1) == 0);
    EXPECT(hasp_uv_acquire(waiter, name, &options, on_try, NULL) == 0);
    name[0] = '-'; /* It was copied. */
}

static void on_open(void *data, int status, const char *why)
{
    EXPECT(status == 0 && why[0] == '\0' && data == &opened);
    opened++;
    if (opened == 2) {
        EXPECT(hasp_uv_acquire(holder, "uv", NULL, on_held, NULL) == 0);
    }
}

static void on_failed(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == HASP_ECONNECT && why[0] != '\0');
    EXPECT(hasp_uv_session(hopeless) == NULL);
    EXPECT(hasp_uv_acquire(hopeless, "uv", NULL, on_held, NULL) ==
           HASP_EINVALID);
    failed++;
    hasp_uv_close(hopeless, on_closed, &closed);
}

int main(void)
{
    uv_loop_t loop;
    struct hasp_options options;
    loop_thread = pthread_self();
    EXPECT(uv_loop_init(&loop) == 0);
    EXPECT(uv_timer_init(&loop, &timer) == 0);
    hasp_options_init(&options);
    EXPECT(hasp_uv_open(&loop, &options, on_open, &opened, &holder) == 0);
    EXPECT(hasp_uv_open(&loop, NULL, on_open, &opened, &waiter) == 0);
    EXPECT(hasp_uv_session(holder) == NULL);
    options.endpoints = "127.0.0.1:1";
    options.timeout_ms = 200;
    EXPECT(hasp_uv_open(&loop, &options, on_failed, NULL, &hopeless) == 0);
    EXPECT(hasp_uv_open(NULL, NULL, on_open, NULL, &hopeless) == HASP_EINVALID);
    hasp_uv_close(NULL, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&loop) == 0);
    EXPECT(opened == 2 && failed == 1 && granted == 1);
    EXPECT(interrupted == WAITS && released == 1 && closed == 3);
    return 0;
}
