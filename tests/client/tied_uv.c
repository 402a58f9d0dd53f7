/* SPDX-License-Identifier: MIT */

/* As tied.c, on a libuv loop: a session that is tied to the process. It obeys
 * lines on stdin and answers each with one.
 *
 *     tied_uv ENDPOINTS AGENT none|try|must LOCK
 *
 * At first: "held SESSION TOKEN is_tied", or "failed WHY". */

#include <hasp/hasp_uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "expect.h"

static uv_loop_t loop;
static uv_pipe_t input;
static struct hasp_uv *uv;
static const char *lock;
static char line[64];
static size_t line_size;
static char last_event[512] = "none";
static int ticks; /* Turns of a timer: the loop has not stopped. */

static void answer(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

static void on_event(void *data, const struct hasp_event *event)
{
    (void)data;
    snprintf(last_event, sizeof last_event, "%s", event->text);
}

static void on_closed(void *data, int status, const char *why)
{
    (void)why;
    EXPECT(status == 0);
    uv = NULL;
    answer(data != NULL ? data : "closed");
}

static void on_untied(void *data, int status, const char *why)
{
    (void)data;
    answer(status == 0 ? "untied" : why);
}

static void obey(const char *words)
{
    char credentials[HASP_CREDENTIALS_SIZE];
    static char closed[] = "closed";
    struct hasp_session *session = hasp_uv_session(uv);
    if (strcmp(words, "tied") == 0) {
        answer(hasp_is_tied(session) ? "yes" : "no");
    } else if (strcmp(words, "believes") == 0) {
        answer(hasp_session_remaining(session) > 0 ? "yes" : "no");
    } else if (strcmp(words, "event") == 0) {
        answer(last_event);
    } else if (strcmp(words, "ticks") == 0) {
        printf("%d\n", ticks);
        fflush(stdout);
    } else if (strcmp(words, "credentials") == 0) {
        int error = hasp_credentials(session, credentials);
        answer(error == 0 ? credentials : hasp_why());
    } else if (strcmp(words, "untie") == 0) {
        EXPECT(hasp_uv_untie(uv, on_untied, NULL) == 0);
    } else if (strcmp(words, "untie close") == 0) {
        EXPECT(hasp_uv_untie(uv, on_untied, NULL) == 0);
        hasp_uv_close(uv, on_closed, closed);
    } else if (strcmp(words, "close") == 0) {
        hasp_uv_close(uv, on_closed, closed);
    }
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)handle;
    (void)size;
    *buffer = uv_buf_init(line + line_size,
                          (unsigned)(sizeof line - line_size));
}

static void on_input(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    (void)stream;
    (void)buffer;
    if (got < 0) {
        exit(0);
    }
    line_size += (size_t)got;
    char *end = memchr(line, '\n', line_size);
    if (end != NULL) {
        *end = '\0';
        line_size = 0; /* The test waits for the answer to each. */
        obey(line);
    }
}

static void on_held(void *data, int status, const char *why,
                    struct hasp_hold *hold)
{
    struct hasp_session *session = hasp_uv_session(uv);
    (void)data;
    EXPECT(status == 0 && why[0] == '\0');
    printf("held %llu %llu %d\n", (unsigned long long)hasp_session_id(session),
           (unsigned long long)hasp_token(hold), hasp_is_tied(session));
    fflush(stdout);
}

static void on_open(void *data, int status, const char *why)
{
    (void)data;
    struct hasp_acquire_options how;
    hasp_acquire_options_init(&how);
    how.wait_ms = HASP_FOREVER;
    if (status != 0) {
        EXPECT(hasp_uv_session(uv) == NULL);
        printf("failed %s\n", why);
        fflush(stdout);
    } else {
        EXPECT(hasp_uv_acquire(uv, lock, &how, on_held, NULL) == 0);
    }
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    ticks++;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"none", "try", "must"};
    struct hasp_options options;
    char agent[256];
    uv_timer_t timer;
    EXPECT(argc == 5);
    hasp_options_init(&options);
    snprintf(agent, sizeof agent, "%s", argv[2]);
    options.endpoints = argv[1];
    options.agent = agent;
    options.on_event = on_event;
    for (int i = 0; i < 3; i++) {
        if (strcmp(argv[3], kinds[i]) == 0) {
            options.tie = (enum hasp_tie)i;
        }
    }
    lock = argv[4];
    EXPECT(uv_loop_init(&loop) == 0);
    EXPECT(uv_pipe_init(&loop, &input, 0) == 0 && uv_pipe_open(&input, 0) == 0);
    EXPECT(uv_read_start((uv_stream_t *)&input, on_room, on_input) == 0);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_tick, 20, 20);
    EXPECT(hasp_uv_open(&loop, &options, on_open, NULL, &uv) == 0);
    memset(agent, 'x', sizeof agent); /* It was copied. */
    return uv_run(&loop, UV_RUN_DEFAULT);
}
