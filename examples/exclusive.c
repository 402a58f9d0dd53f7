/* SPDX-License-Identifier: MIT */

/* A job that must run once at a time: acquire, work in steps, release.
 *
 *     exclusive [NAME [STEPS]]
 *
 * Start it twice: the second one waits for the first. */

#include <hasp/hasp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The longest time of a step, for which the lock must last. */
#define STEP_NS UINT64_C(200000000)

static void work(void)
{
    struct timespec time = {0, 100000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "examples/exclusive";
    int steps = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;
    struct hasp_session *session;
    struct hasp_hold *hold;
    int done = 0;

    /* NULL: the nodes of $HASP_ENDPOINTS, defaults for the rest. */
    if (hasp_open(NULL, &session) != 0) {
        fprintf(stderr, "no session: %s\n", hasp_why());
        return 1;
    }
    /* NULL: exclusive, waiting forever, first come first served. */
    if (hasp_acquire(session, name, NULL, &hold) != 0) {
        fprintf(stderr, "no lock: %s\n", hasp_why());
        hasp_close(session);
        return 1;
    }
    printf("held '%s', token %" PRIu64 "\n", name, hasp_token(hold));

    /* Before each step, not once: the network can fail in between. */
    while (done < steps && hasp_guard(hold, STEP_NS) == 0) {
        work();
        done++;
    }
    if (done < steps) {
        fprintf(stderr, "stopped after %d steps: %s\n", done, hasp_why());
    }
    if (hasp_release(hold) != 0) {
        fprintf(stderr, "not given back: %s\n", hasp_why());
    }
    hasp_close(session);
    printf("%d of %d steps\n", done, steps);
    return done == steps ? 0 : 1;
}
