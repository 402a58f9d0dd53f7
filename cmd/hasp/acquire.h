/* SPDX-License-Identifier: MIT */

/* Acquiring locks, one or several at once, in a session of the library
 * (include/hasp/hasp.h): what 'hasp run' and 'hasp acquire' have in common. A
 * session that is lost while it waits is followed by another one, which queues
 * anew. */

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
    bool is_trying; /* Does not wait. */
    uint64_t slots; /* 0: none. */
    uint64_t wait_ms;
    uint64_t exit_code; /* If it was not acquired in time. */
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t delay_ms;
    uint64_t hold_ms;
    const char *owner;
    const char *value;
    bool is_durable;    /* In a new session without end, ... */
    const char *reason; /* ... because of this; or NULL. */
    bool is_inside;     /* Of a run that holds it shared, too; not to wait. */
};

/* The defaults, and the rows of the options that both subcommands take. */
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

/* After the last option: takes 'names', up to a NULL, before those of --with,
 * and looks what does not go together. 0 or an exit code. */
int acquire_options_check(const struct tool *tool,
                          struct acquire_options *options, char **names);

struct acquired {
    struct hasp_session *session;
    struct hasp_hold *hold;
    bool was_not_free; /* That alone is why there is no hold. */
};

/* Acquires what 'options' say: in the session of 'credentials', or, if that is
 * NULL, in a new one. 'signals' end the wait; they are blocked when this
 * returns, and readable from 'ret_signal_fd', which the caller closes. When it
 * returns 0 the lease has half of its time left at least, or is going to be
 * lost. Else an exit code, and all is closed again and, unless the lock was
 * just not free, explained. */
int acquire_lock(struct tool *tool, const struct acquire_options *options,
                 const char *credentials, const sigset_t *signals,
                 int *ret_signal_fd, struct acquired *ret_acquired);

/* Gives all back. An error is explained: then it ends with the TTL. */
int acquired_close(struct acquired *acquired);

/* "'a'", or "'a' and 2 more". */
const char *acquire_name(const struct acquire_options *options);

#endif /* HASP_CMD_HASP_ACQUIRE_H */
