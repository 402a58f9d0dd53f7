/* SPDX-License-Identifier: MIT */

#include "client/thread.h"

#include <signal.h>

int client_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *data)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(ret_thread, NULL, run, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
