/* SPDX-License-Identifier: MIT */

/* Starts the library's threads with all signals blocked, since signals belong
 * to the program's own threads. */

#ifndef HASP_CLIENT_THREAD_H
#define HASP_CLIENT_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* 0, or an error number of pthread_create(). */
MUST_CHECK int client_thread_start(pthread_t *ret_thread, void *(*run)(void *),
                                   void *data);

#endif /* HASP_CLIENT_THREAD_H */
