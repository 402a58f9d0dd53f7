/* SPDX-License-Identifier: MIT */

/* Acquires one lock or several at once, in a session of the library
 * (include/hasp/hasp.h), for 'hasp run' and 'hasp acquire'. If the session is
 * lost during the wait, a new one is opened and queues again. */

#ifndef HASP_CMD_HASP_ACQUIRE_H
#define HASP_CMD_HASP_ACQUIRE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/hasp/options.h"
#include "cmd/hasp/tool.h"
#include "include/hasp/hasp.h"

struct acquire_options {
    struct option_list names;
    bool is_shared;
    bool is_trying; /* Tries once, without waiting. */
    uint64_t slots; /* 0: none. */
    uint64_t wait_ms;
    uint64_t exit_code; /* Returned if the lock was not acquired in time. */
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t delay_ms;
    uint64_t hold_ms;
    const char *owner;
    const char *value;
    bool is_durable;        /* In a new session that never expires, */
    const char *reason;     /* for this reason; or NULL. */
    const char *death_word; /* For a new session without linger; or NULL. */
    bool is_inside;         /* An outer run holds it shared; never wait. */
};

/* The defaults and the option rows of both subcommands. */
#define ACQUIRE_DEFAULTS                                               \
    {                                                                  \
        .wait_ms = HASP_FOREVER, .exit_code = EX_TEMPFAIL, .owner = "" \
    }
#define ACQUIRE_ROWS(a)                                                     \
    {"shared", OPTION_FLAG, .value = &(a)->is_shared},                      \
        {"nonblock", OPTION_FLAG, .value = &(a)->is_trying},                \
        {"wait", OPTION_TIME, .value = &(a)->wait_ms},                      \
        {"exit-code", OPTION_NUMBER, .value = &(a)->exit_code, .max = 255}, \
        {"slots", OPTION_NUMBER, .value = &(a)->slots, .min = 1,            \
         .max = UINT32_MAX},                                                \
        {"ttl", OPTION_TIME, .value = &(a)->ttl_ms, .min = 100,             \
         .max = 3600000},                                                   \
        {"linger", OPTION_TIME, .value = &(a)->linger_ms, .min = 50,        \
         .max = 3600000},                                                   \
        {"delay", OPTION_TIME, .value = &(a)->delay_ms},                    \
        {"hold", OPTION_TIME, .value = &(a)->hold_ms, .min = 1},            \
        {"value", OPTION_TEXT, .value = &(a)->value},                       \
    {                                                                       \
        "with", OPTION_LIST, .value = &(a)->names                           \
    }

/* Call it after options_read(): puts 'names' (up to a NULL) before those of
 * --with, and checks that the options fit together. Returns 0 or an exit code.
 */
int acquire_options_check(const struct tool *tool,
                          struct acquire_options *options, char **names);

struct acquired {
    struct hasp_session *session;
    struct hasp_hold *hold;
    bool was_not_free; /* The only reason why there is no hold. */
};

/* Acquires what 'options' say, in the session of 'credentials', or in a new
 * one if that is NULL. 'signals' end the wait; they are blocked when this
 * returns, and readable from 'ret_signal_fd', which the caller closes. If it
 * returns 0, at least half of the lease is left, or the lease is about to be
 * lost. Otherwise it returns an exit code, has closed everything, and has
 * explained the failure unless the lock was just not free. */
int acquire_lock(struct tool *tool, const struct acquire_options *options,
                 const char *credentials, const sigset_t *signals,
                 int *ret_signal_fd, struct acquired *ret_acquired);

/* Releases everything. After an error, which is explained, the locks end with
 * the TTL. */
int acquired_close(struct acquired *acquired);

/* "'a'", or "'a' and 2 more". */
const char *acquire_name(const struct acquire_options *options);

#endif /* HASP_CMD_HASP_ACQUIRE_H */
