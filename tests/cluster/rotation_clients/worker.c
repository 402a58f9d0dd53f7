/* SPDX-License-Identifier: MIT */

/* As worker.py. */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hasp/hasp.h"

static atomic_bool is_over;

static void check(int error)
{
    if (error != 0) {
        printf("ERROR %d %s\n", error, hasp_why());
        exit(1);
    }
}

static void told(void *data, const struct hasp_event *event)
{
    static const char *const kinds[] = {[HASP_EVENT_JEOPARDY] = "jeopardy",
                                        [HASP_EVENT_SAFE] = "safe",
                                        [HASP_EVENT_LOST] = "lost",
                                        [HASP_EVENT_PLEASE] = "please",
                                        [HASP_EVENT_NOTICE] = "notice"};
    (void)data;
    printf("EVENT %s %s\n", kinds[event->kind], event->text);
}

static void *work(void *data)
{
    int number = *(const int *)data;
    char name[64], kept_name[64];
    struct hasp_options options;
    struct hasp_session *session;
    struct hasp_hold *kept, *hold;
    hasp_options_init(&options);
    options.ttl_ms = 10000;
    options.on_event = told;
    snprintf(name, sizeof name, "app/c-%d", number);
    snprintf(kept_name, sizeof kept_name, "app/c-kept-%d", number);
    check(hasp_open(&options, &session));
    check(hasp_acquire(session, kept_name, NULL, &kept));
    for (int cycle = 0; !is_over; cycle++) {
        check(hasp_acquire(session, name, NULL, &hold));
        usleep(5000);
        check(hasp_release(hold));
        if (cycle % 20 == 0) {
            printf("CYCLE %d %" PRIu64 "\n", number, hasp_session_id(session));
        }
    }
    check(hasp_release(kept));
    hasp_close(session);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {0, 1};
    char byte;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0) {
            return 2;
        }
    }
    while (read(STDIN_FILENO, &byte, 1) > 0) {
        continue;
    }
    is_over = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("END\n");
    return 0;
}
