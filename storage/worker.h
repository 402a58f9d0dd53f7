/* SPDX-License-Identifier: MIT */

/* The threads of storage/: started alike, by whom they serve. */

#ifndef HASP_STORAGE_WORKER_H
#define HASP_STORAGE_WORKER_H

#include <pthread.h>

#include "base/err.h"

typedef void *worker_fn(void *data);

/* Starts a thread that no signal is delivered to: those are for the loop's.
 * HASP_EREFUSED if none can be had. */
MUST_CHECK int worker_start(worker_fn *work, void *data, pthread_t *ret_thread);

#endif /* HASP_STORAGE_WORKER_H */
