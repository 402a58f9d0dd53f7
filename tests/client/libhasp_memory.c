/* SPDX-License-Identifier: MIT */

/* Each allocation in a session's life fails once, in a process of its own
 * (tests/cluster/no_memory.c is preloaded). The library reports it, the next
 * call works, and no half-done request blocks other clients; or the process
 * aborts if the buffer of a connection cannot grow. Exits 0 if that is true;
 * prints the count of each result. */

#include <dlfcn.h>
#include <hasp/hasp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define RUNS_MAX 2000
#define WAS_HIT 10

/* Functions of the preloaded library. */
static void (*no_memory_begin)(long n);
static bool (*no_memory_end)(void);

static struct hasp_options options;
static struct hasp_acquire_options how;

/* The last code of the calls before the fault and of the one with it. */
static int live(const char *name, struct hasp_session **session,
                struct hasp_hold **hold)
{
    int error = hasp_open(&options, session);
    if (error == 0) {
        error = hasp_acquire(*session, name, &how, hold);
    }
    if (error == 0) {
        error = hasp_guard(*hold, 1000000);
    }
    return error;
}

/* Again, now that there is memory; then another session, after the release of
 * any grant that no call received. */
static void see_that_it_works(const char *name, struct hasp_session *session)
{
    struct hasp_session *other;
    struct hasp_hold *hold;
    if (session == NULL) {
        EXPECT(hasp_open(&options, &session) == 0);
    }
    EXPECT(hasp_acquire(session, name, &how, &hold) == 0);
    EXPECT(hasp_token(hold) > 0);
    EXPECT(hasp_release(hold) == 0);
    EXPECT(hasp_open(&options, &other) == 0);
    EXPECT(hasp_acquire(other, name, &how, &hold) == 0);
    EXPECT(hasp_release(hold) == 0);
    hasp_close(other);
    hasp_close(session);
}

static int run(long n)
{
    char name[32];
    struct hasp_session *session = NULL;
    struct hasp_hold *hold = NULL;
    snprintf(name, sizeof name, "memory/%ld", n);
    no_memory_begin(n);
    int error = live(name, &session, &hold);
    int released = hold != NULL ? hasp_release(hold) : 0;
    bool was_hit = no_memory_end();
    EXPECT(was_hit || (error == 0 && released == 0));
    EXPECT(error == 0 || hasp_strerror(error)[0] != '\0');
    see_that_it_works(name, session);
    return was_hit ? WAS_HIT : 0;
}

int main(void)
{
    unsigned told = 0, stopped = 0;
    *(void **)&no_memory_begin = dlsym(RTLD_DEFAULT, "no_memory_begin");
    *(void **)&no_memory_end = dlsym(RTLD_DEFAULT, "no_memory_end");
    EXPECT(no_memory_begin != NULL && no_memory_end != NULL);
    hasp_options_init(&options);
    hasp_acquire_options_init(&how);
    options.ttl_ms = 3000;
    how.wait_ms = 4000;
    for (long n = 1; n < RUNS_MAX; n++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            _exit(run(n));
        }
        EXPECT(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            printf("told %u stopped %u\n", told, stopped);
            return 0;
        }
        bool has_stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        bool has_told = WIFEXITED(status) && WEXITSTATUS(status) == WAS_HIT;
        if (!has_stopped && !has_told) {
            fprintf(stderr, "allocation %ld: status %x\n", n, status);
            return 1;
        }
        told += has_told;
        stopped += has_stopped;
    }
    return 1;
}
