/* SPDX-License-Identifier: MIT */

/* The events of acquisitions, in order, until the driver takes them and calls
 * hooks (struct hasp_hooks).
 *
 *     ACQUIRE ---> WAIT ---> GRANTED ---> RELEASED or LOST
 *            '-----------'
 *            '--------'---> FAILED
 *
 * A `hooked` is an acquisition that is reported: it belongs to its operation,
 * then to its hold. The functions may be called in any order, and with NULL,
 * which is an acquisition that is not reported: what does not fit the state
 * does nothing, so that each has exactly one end. All memory is allocated at
 * the start.
 *
 * Threads: none; the driver guards it, with the session. */

#ifndef HASP_CLIENT_HOOKS_H
#define HASP_CLIENT_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "include/hasp/hasp.h"

/* Events that hooks can be late by. */
#define HOOKS_LATE_MAX 1000

/* The hooks' part of a session. */
struct hook_queue {
    struct hasp_hooks hooks;
    bool is_on;         /* There are hooks. */
    struct list events; /* All acquisitions' events, the oldest first. */
    uint32_t count;
    uint64_t newest_id;
    uint64_t skipped;
};

struct hooked;

void hook_queue_init(struct hook_queue *queue);
/* Drops events that were not taken. Acquisitions must have been freed. */
void hook_queue_done(struct hook_queue *queue);

/* Reports ACQUIRE; 'trace' can be NULL. NULL: it is not reported, because there
 * are no hooks, they are too late, or there is no memory. */
struct hooked *hooked_new(struct hook_queue *queue, const char *name,
                          const char *trace, uint64_t now_ns);
void hooked_waits(struct hooked *one, uint64_t now_ns);
void hooked_granted(struct hooked *one, uint64_t token, uint64_t now_ns);
void hooked_failed(struct hooked *one, const char *why, uint64_t now_ns);
void hooked_released(struct hooked *one, uint64_t now_ns);
void hooked_lost(struct hooked *one, const char *why, size_t size,
                 uint64_t now_ns);
/* Frees it, once its events are taken. It must have had its end. */
void hooked_free(struct hooked *one);

/* Takes the oldest event; false: there is none. 'now_ns' is CLOCK_MONOTONIC,
 * and 'unix_ns' CLOCK_REALTIME, now. */
bool hook_queue_take(struct hook_queue *queue, uint64_t now_ns,
                     uint64_t unix_ns, struct hasp_hook_event *ret_event);
/* Calls the hook for it. Not under the mutex. */
void hooks_call(const struct hasp_hooks *hooks,
                const struct hasp_hook_event *event);

#endif /* HASP_CLIENT_HOOKS_H */
