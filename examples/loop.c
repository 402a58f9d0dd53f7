/* SPDX-License-Identifier: MIT */

/* In a libuv loop: nothing here ever blocks. It acquires a lock, asks itself to
 * release it (as another client would), and does so when the event arrives.
 *
 *     loop */

#include <hasp/hasp_uv.h>
#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

static struct hasp_uv *uv;
static struct hasp_hold *hold;
static uv_timer_t timer;
static int ticks, result = 1;

/* The loop runs while calls are pending. */
static void on_tick(uv_timer_t *handle)
{
    (void)handle;
    ticks++;
}

static void on_closed(void *data, int status, const char *why)
{
    (void)data;
    (void)status;
    (void)why;
    uv_close((uv_handle_t *)&timer, NULL);
}

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    hasp_uv_close(uv, on_closed, NULL);
}

static void on_released(void *data, int status, const char *why)
{
    (void)data;
    if (status != 0) {
        give_up("not given back", why);
        return;
    }
    printf("given back\n");
    result = 0;
    hasp_uv_close(uv, on_closed, NULL);
}

static void on_event(void *data, const struct hasp_event *event)
{
    (void)data;
    if (event->kind == HASP_EVENT_PLEASE && hold != NULL) {
        struct hasp_hold *ours = hold;
        printf("asked for '%s': %s\n", event->name, event->text);
        hold = NULL; /* From here on no code may rely on the lock. */
        if (hasp_uv_release(uv, ours, on_released, NULL) != 0) {
            give_up("cannot release", hasp_why());
        }
    } else if (event->kind == HASP_EVENT_LOST) {
        give_up("lost", event->text);
    }
}

/* Another client asks for the lock; in a thread, since it may block. */
static void say_please(uv_work_t *work)
{
    uint64_t asked;
    (void)work;
    if (hasp_please(hasp_uv_session(uv), "examples/loop", "my turn", &asked) !=
        0) {
        fprintf(stderr, "please: %s\n", hasp_why());
    }
}

static void on_held(void *data, int status, const char *why,
                    struct hasp_hold *new_hold)
{
    static uv_work_t work;
    (void)data;
    if (status != 0) {
        give_up("no lock", why);
        return;
    }
    hold = new_hold;
    printf("held, token %" PRIu64 "\n", hasp_token(hold));
    if (hasp_guard(hold, 1000000) == 0) {
        /* ... a step that takes less than a millisecond ... */
        uv_queue_work(uv_default_loop(), &work, say_please, NULL);
    }
}

static void on_open(void *data, int status, const char *why)
{
    (void)data;
    if (status != 0) {
        give_up("no session", why);
    } else if (hasp_uv_acquire(uv, "examples/loop", NULL, on_held, NULL) != 0) {
        give_up("cannot acquire", hasp_why());
    }
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    struct hasp_options options;
    hasp_options_init(&options);
    options.on_event = on_event;
    if (hasp_uv_open(loop, &options, on_open, NULL, &uv) != 0) {
        fprintf(stderr, "cannot start: %s\n", hasp_why());
        return 1;
    }
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_tick, 1, 1);
    uv_run(loop, UV_RUN_DEFAULT);
    printf("%s\n",
           ticks > 0 ? "the loop turned all the time" : "the loop was blocked");
    return uv_loop_close(loop) == 0 ? result : 1;
}
