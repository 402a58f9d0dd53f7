/* SPDX-License-Identifier: MIT */

/* Sessions whose opening completes after the program gave up: by a thread of
 * the library's own, and on a loop, which ends when the new sessions are
 * closed. Argument: "thread" or "loop". Exits 0 if everything expected
 * happened. */

#include <hasp/hasp_uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "expect.h"

static struct hasp_uv *uv;
static int closed;

static void on_closed(void *data, int status, const char *why)
{
    (void)data;
    (void)why;
    EXPECT(status == 0);
    closed++;
}

static void on_open(void *data, int status, const char *why)
{
    (void)data;
    EXPECT(status == HASP_ECONNECT && why[0] != '\0');
    hasp_uv_close(uv, on_closed, NULL);
}

static void try_on_loop(const struct hasp_options *options)
{
    uv_loop_t loop;
    EXPECT(uv_loop_init(&loop) == 0);
    EXPECT(hasp_uv_open(&loop, options, on_open, NULL, &uv) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&loop) == 0);
    EXPECT(closed == 1);
}

/* The link continues alone, and ends; a byte on stdin is the deadline for
 * it. */
static void try_on_thread(const struct hasp_options *options)
{
    struct hasp_session *session = NULL;
    char byte;
    EXPECT(hasp_open(options, &session) == HASP_ECONNECT && session == NULL);
    EXPECT(count_connections() == 1);
    printf("given up\n");
    fflush(stdout);
    EXPECT(read(0, &byte, 1) == 1);
    for (int i = 0; i < 100 && count_connections() > 0; i++) {
        usleep(50000);
    }
    EXPECT(count_connections() == 0);
}

int main(int argc, char **argv)
{
    struct hasp_options options;
    hasp_options_init(&options);
    options.timeout_ms = 500;
    EXPECT(argc == 2);
    if (strcmp(argv[1], "loop") == 0) {
        try_on_loop(&options);
    } else {
        try_on_thread(&options);
    }
    return 0;
}
