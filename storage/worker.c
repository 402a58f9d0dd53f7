/* SPDX-License-Identifier: MIT */

/* Starts threads that no signal is delivered to. */

#include "storage/worker.h"

#include <signal.h>

int worker_start(worker_fn *work, void *data, pthread_t *ret_thread)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret_thread, NULL, work, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? 0 : HASP_EREFUSED;
}
