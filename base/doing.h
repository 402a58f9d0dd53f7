/* SPDX-License-Identifier: MIT */

/* The work of a thread, for the report of a crash: its request or entry. A
 * handler of fatal signals runs on the thread that failed, and reads it without
 * any call.
 *
 * The texts are borrowed: a function that begins a piece of work restores the
 * earlier one before the texts are freed. */

#ifndef HASP_BASE_DOING_H
#define HASP_BASE_DOING_H

#include <stdint.h>

#include "base/bytes.h"

struct doing {
    const char *what;     /* "request", "entry", "frame"; NULL: nothing. */
    const char *command;  /* The name of the command; NULL: not known yet. */
    struct bytes address; /* The client's. */
    struct bytes client;  /* The client's name; empty: none. */
    uint64_t user;
    uint64_t session;   /* The session that acts; 0: none. */
    uint64_t log_index; /* The entry that is applied; 0: none. */
    uint64_t peer;      /* The node that sent it; 0: none. */
};

extern _Thread_local struct doing doing_now;

/* Sets a piece of work; returns the earlier one for doing_end(). */
static inline struct doing doing_begin(const struct doing *work)
{
    struct doing before = doing_now;
    doing_now = *work;
    return before;
}

static inline void doing_end(const struct doing *before)
{
    doing_now = *before;
}

#endif /* HASP_BASE_DOING_H */
