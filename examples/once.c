/* SPDX-License-Identifier: MIT */

/* A job that runs once per period on a whole cluster: the same line in every
 * machine's crontab.
 *
 *     once NAME PERIOD COMMAND
 *
 * The lock NAME/PERIOD is never released but left to its lease of a minute, so
 * a machine with a clock that is slow by less than that finds it taken, even if
 * the job has ended. A machine that dies halfway does not repeat the job. */

#include <hasp/hasp.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hasp_why());
    return 1;
}

/* Returns the exit code. The library renews the lease while the job runs. */
static int run_once(struct hasp_session *session, const char *name,
                    const char *command)
{
    struct hasp_acquire_options options;
    struct hasp_hold *hold;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    int error = hasp_acquire(session, name, &options, &hold);
    if (error == HASP_NOT_ACQUIRED) {
        printf("another machine has it\n");
        hasp_close(session);
        return 0;
    }
    if (error != 0) {
        int code = fail(name);
        hasp_close(session);
        return code;
    }
    int status = system(command);
    /* Not hasp_close(), which would free the lock for a slow clock. */
    if (hasp_detach(session) != 0) {
        return fail("hasp_detach");
    }
    return status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    char name[512];
    struct hasp_session *session;
    struct hasp_options options;
    if (argc != 4 || snprintf(name, sizeof name, "%s/%s", argv[1], argv[2]) >=
                         (int)sizeof name) {
        fprintf(stderr, "usage: once NAME PERIOD COMMAND\n");
        return 64;
    }
    hasp_options_init(&options);
    options.ttl_ms = 60000;
    if (hasp_open(&options, &session) != 0) {
        return fail("no cluster");
    }
    return run_once(session, name, argv[3]);
}
