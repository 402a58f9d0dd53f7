/* SPDX-License-Identifier: MIT */

/* Which operations wait for the disk, and since when.
 *
 * A caller enters each operation that may wait for the disk here, and removes
 * it when it has ended. A separate thread checks the operations: one that has
 * been under way for DISK_HANGS_NS is reported, again whenever that time has
 * doubled, and once more when it has ended. So a hanging disk is reported even
 * if all other threads hang.
 *
 * There is one register per process.
 *
 * Threads: any. */

#ifndef HASP_STORAGE_DISK_WATCH_H
#define HASP_STORAGE_DISK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"

#define DISK_HANGS_NS NS_PER_S

/* Enters an operation; 'what' is a constant text that continues "to": "write
 * the log". Returns its place. */
uint32_t disk_watch_begin(const char *what);
/* It has ended. Leaves errno as it is. */
void disk_watch_end(uint32_t place);

/* The age of the oldest operation under way, which '*ret_what' names; 0 if
 * there is none. */
uint64_t disk_watch_oldest(const char **ret_what);

/* An operation hangs ('is_over' false), or a reported one has ended. Called by
 * the watching thread. */
typedef void disk_watch_tell_fn(void *data, const char *what, uint64_t age_ns,
                                bool is_over);

/* Begins to watch. HASP_EREFUSED if no thread can be had. */
MUST_CHECK int disk_watch_start(disk_watch_tell_fn *tell, void *data);
/* Stops the reports. Does nothing if it was not started. */
void disk_watch_stop(void);

#endif /* HASP_STORAGE_DISK_WATCH_H */
