/* SPDX-License-Identifier: MIT */

/* Callback calls that take several locks at once, and that convert: one is
 * granted later, one would wait forever, one is ended by closing. Exits 0 if
 * everything expected happened. */

#include <hasp/hasp_uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "expect.h"

static struct hasp_uv *uv;
static struct hasp_hold *both, *reader, *other;
static uint64_t first_token;
static uv_timer_t timer;
static int waited, converted, deadlocked, interrupted;

static void acquire_shared(hasp_uv_hold_fn *done)
{
    struct hasp_acquire_options options;
    hasp_acquire_options_init(&options);
    options.mode = HASP_SHARED;
    options.wait_ms = 5000;
    EXPECT(hasp_uv_acquire(uv, "uv-up", &options, done, NULL) == 0);
}

/* --- The last act: closing ends an upgrade that waits --------------------- */

static void on_interrupted(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == HASP_EINTR && why[0] != '\0');
    interrupted++;
}

static void on_last_timer(uv_timer_t *handle)
{
    EXPECT(interrupted == 0);
    hasp_uv_close(uv, NULL, NULL);
    EXPECT(hasp_uv_convert(uv, reader, HASP_SHARED, NULL, on_interrupted,
                           NULL) == HASP_EINVALID);
    uv_close((uv_handle_t *)handle, NULL);
}

static void on_third(void *data, int status, const char *why,
                     struct hasp_hold *hold)
{
    (void)data;
    (void)why;
    EXPECT(status == 0 && hold != NULL);
    EXPECT(hasp_uv_convert(uv, reader, HASP_EXCLUSIVE, NULL, on_interrupted,
                           NULL) == 0);
    uv_timer_start(&timer, on_last_timer, 300, 0);
}

/* --- Up and down -----------------------------------------------------------
 */

static void on_down(void *data, int status, const char *why)
{
    (void)data;
    (void)why;
    EXPECT(status == 0);
    acquire_shared(on_third);
}

static void on_up(void *data, int status, const char *why)
{
    EXPECT(status == 0 && why[0] == '\0' && data == &converted);
    EXPECT(deadlocked == 1); /* It had to wait for the other reader. */
    EXPECT(hasp_token(reader) > first_token && hasp_guard(reader, 1) == 0);
    converted++;
    EXPECT(hasp_uv_convert(uv, reader, HASP_SHARED, NULL, on_down, NULL) == 0);
}

static void on_deadlock(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == HASP_EDEADLOCK && why[0] != '\0' && converted == 0);
    deadlocked++;
    EXPECT(hasp_uv_release(uv, other, NULL, NULL) == 0);
}

static void on_upgrade_timer(uv_timer_t *handle)
{
    (void)handle;
    EXPECT(converted == 0);
    EXPECT(hasp_uv_convert(uv, other, HASP_EXCLUSIVE, NULL, on_deadlock,
                           NULL) == 0);
}

static void on_tried(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == HASP_NOT_ACQUIRED && why[0] == '\0');
    EXPECT(hasp_uv_convert(uv, reader, HASP_EXCLUSIVE, NULL, on_up,
                           &converted) == 0);
    uv_timer_start(&timer, on_upgrade_timer, 300, 0);
}

static void on_other(void *data, int status, const char *why,
                     struct hasp_hold *hold)
{
    struct hasp_acquire_options options;
    (void)data;
    (void)why;
    EXPECT(status == 0);
    other = hold;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    EXPECT(hasp_uv_convert(uv, reader, HASP_EXCLUSIVE, &options, on_tried,
                           NULL) == 0);
}

static void on_reader(void *data, int status, const char *why,
                      struct hasp_hold *hold)
{
    (void)data;
    (void)why;
    EXPECT(status == 0);
    reader = hold;
    first_token = hasp_token(hold);
    acquire_shared(on_other);
}

/* --- Several at once -------------------------------------------------------
 */

static void on_both_later(void *data, int status, const char *why,
                          struct hasp_hold *hold)
{
    (void)data;
    (void)why;
    EXPECT(status == 0 && hasp_token_of(hold, 1) > first_token);
    waited++;
    EXPECT(hasp_uv_convert(uv, hold, HASP_SHARED, NULL, NULL, NULL) ==
           HASP_EINVALID);
    EXPECT(hasp_uv_release(uv, hold, NULL, NULL) == 0);
    acquire_shared(on_reader);
}

static void on_first_timer(uv_timer_t *handle)
{
    (void)handle;
    EXPECT(waited == 0);
    EXPECT(hasp_uv_release(uv, both, NULL, NULL) == 0);
}

static void on_both(void *data, int status, const char *why,
                    struct hasp_hold *hold)
{
    const char *names[] = {"uv-b", "uv-a"};
    (void)data;
    (void)why;
    EXPECT(status == 0 && hasp_token_of(hold, 2) == 0);
    both = hold;
    first_token = hasp_token_of(hold, 1);
    EXPECT(first_token > 0);
    EXPECT(hasp_uv_acquire_many(uv, names, 2, NULL, on_both_later, NULL) == 0);
    uv_timer_start(&timer, on_first_timer, 300, 0);
}

static void on_open(void *data, int status, const char *why)
{
    char a[] = "uv-a";
    const char *names[] = {a, "uv-b", NULL};
    (void)data;
    (void)why;
    EXPECT(status == 0);
    EXPECT(hasp_uv_acquire_many(uv, names, 3, NULL, on_both, NULL) ==
           HASP_EINVALID);
    EXPECT(hasp_uv_acquire_many(uv, names, 0, NULL, on_both, NULL) ==
           HASP_EINVALID);
    EXPECT(hasp_uv_acquire_many(uv, names, 2, NULL, on_both, NULL) == 0);
    memcpy(a, "gone", sizeof a); /* It was copied. */
}

int main(void)
{
    uv_loop_t loop;
    EXPECT(uv_loop_init(&loop) == 0);
    EXPECT(uv_timer_init(&loop, &timer) == 0);
    EXPECT(hasp_uv_open(&loop, NULL, on_open, NULL, &uv) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&loop) == 0);
    EXPECT(waited == 1 && converted == 1 && deadlocked == 1 &&
           interrupted == 1);
    return 0;
}
