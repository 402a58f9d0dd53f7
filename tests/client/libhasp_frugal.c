/* SPDX-License-Identifier: MIT */

/* A link is one connection, one timer and one thread, for any number of
 * sessions and waits. Exits 0 if that is true. */

#include <dirent.h>
#include <hasp/hasp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#define MANY 20

static struct hasp_session *session; /* With a link of its own. */

static int count(const char *path)
{
    int entries = 0;
    DIR *folder = opendir(path);
    EXPECT(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        entries += entry->d_name[0] != '.';
    }
    closedir(folder);
    return entries;
}

static int fds(void)
{
    return count("/proc/self/fd");
}

static int threads(void)
{
    return count("/proc/self/task");
}

static void *wait_for_it(void *data)
{
    struct hasp_hold *hold;
    (void)data;
    EXPECT(hasp_acquire(session, "frugal", NULL, &hold) == HASP_EINTR);
    return NULL;
}

int main(void)
{
    struct hasp_session *holder;
    struct hasp_hold *hold;
    struct hasp_options options;
    struct hasp_session *others[MANY];
    pthread_t thread[MANY];
    hasp_options_init(&options);
    options.own_connection = true;
    EXPECT(hasp_open(NULL, &holder) == 0);
    EXPECT(hasp_acquire(holder, "frugal", NULL, &hold) == 0);
    int fds_before = fds(), threads_before = threads();
    for (int i = 0; i < MANY; i++) {
        EXPECT(hasp_open(NULL, &others[i]) == 0);
    }
    EXPECT(fds() == fds_before && threads() == threads_before);
    EXPECT(hasp_open(&options, &session) == 0);
    for (int i = 0; i < MANY; i++) {
        EXPECT(pthread_create(&thread[i], NULL, wait_for_it, NULL) == 0);
    }
    for (int i = 0; i < 50; i++) {
        EXPECT(fds() == fds_before + 2);
        EXPECT(threads() == threads_before + 1 + MANY);
        poll(NULL, 0, 10);
    }
    EXPECT(hasp_event_fd(session) >= 0 && fds() == fds_before + 3);
    EXPECT(hasp_interrupt(session) == 0);
    for (int i = 0; i < MANY; i++) {
        pthread_join(thread[i], NULL);
    }
    for (int i = 0; i < MANY; i++) {
        hasp_close(others[i]);
    }
    hasp_close(session);
    EXPECT(fds() == fds_before);
    hasp_close(holder);
    return 0;
}
