/* SPDX-License-Identifier: MIT */

/* At most two of many workers use a resource at the same time, across threads,
 * processes and machines; and a worker that hangs loses its slot.
 *
 *     slots [WORKERS] */

#include <hasp/hasp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLOTS 2
#define WORKERS_MAX 64

static struct hasp_session *session;
static atomic_int inside, most, failed;

static void use_it(void)
{
    struct timespec time = {0, 50000000};
    int now = atomic_fetch_add(&inside, 1) + 1;
    int before = atomic_load(&most);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
    }
    nanosleep(&time, NULL);
    atomic_fetch_sub(&inside, 1);
}

static void *work(void *data)
{
    struct hasp_acquire_options options;
    struct hasp_hold *hold;
    (void)data;
    hasp_acquire_options_init(&options);
    options.mode = HASP_SLOTS;
    options.slots = SLOTS;
    options.wait_ms = 30000;
    if (hasp_acquire(session, "examples/slots", &options, &hold) != 0) {
        fprintf(stderr, "no slot: %s\n", hasp_why());
        atomic_fetch_add(&failed, 1);
        return NULL;
    }
    use_it();
    /* Here, where work is done: a timer would report even if the work hangs. */
    (void)hasp_alive(session);
    (void)hasp_release(hold);
    return NULL;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 6;
    pthread_t thread[WORKERS_MAX];
    struct hasp_options options;
    hasp_options_init(&options);
    options.alive_ms = 10000; /* No progress for this long: we are stuck. */
    if (workers < 1 || workers > WORKERS_MAX ||
        hasp_open(&options, &session) != 0) {
        fprintf(stderr, "cannot start: %s\n", hasp_why());
        return 1;
    }
    for (int i = 0; i < workers; i++) {
        if (pthread_create(&thread[i], NULL, work, NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < workers; i++) {
        pthread_join(thread[i], NULL);
    }
    hasp_close(session);
    printf("%d workers, at most %d at the same time\n", workers,
           atomic_load(&most));
    return atomic_load(&failed) == 0 && atomic_load(&most) <= SLOTS ? 0 : 1;
}
