/* SPDX-License-Identifier: MIT */

/* How the library starts its threads: with all signals blocked, since signals
 * are the business of the program's own threads. */

#ifndef HASP_CLIENT_THREAD_H
#define HASP_CLIENT_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* 0, or an error number as of pthread_create(). */
MUST_CHECK int client_thread_start(pthread_t *ret_thread, void *(*run)(void *),
                                   void *data);

#endif /* HASP_CLIENT_THREAD_H */
