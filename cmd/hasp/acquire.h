/* SPDX-License-Identifier: MIT */

/* Acquiring a lock in a session of its own, kept alive while it waits: what
 * 'hasp run' and 'hasp acquire' have in common. */

#ifndef HASP_CMD_HASP_ACQUIRE_H
#define HASP_CMD_HASP_ACQUIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/keeper.h"
#include "client/session.h"
#include "cmd/hasp/tool.h"

#define WAIT_FOR_EVER UINT64_MAX

struct acquire_options {
    const char *name;
    bool is_shared;
    uint64_t slots;   /* 0: none. */
    uint64_t wait_ms; /* 0: do not wait; WAIT_FOR_EVER. */
    int exit_code;    /* If it was not acquired in time. */
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t delay_ms;
    uint64_t hold_ms;
    const char *owner;
    const char *value;
    bool is_inside; /* Of a run that holds it shared, too; not to wait. */
};

/* Those without a letter: beyond all letters. */
enum {
    OPTION_SLOTS = 256,
    OPTION_TTL,
    OPTION_LINGER,
    OPTION_DELAY,
    OPTION_HOLD,
    OPTION_VALUE
};

/* The options that both subcommands take, for getopt_long(). */
#define ACQUIRE_SHORT_OPTIONS "snw:E:"
#define ACQUIRE_LONG_OPTIONS                                                  \
    {"shared", no_argument, NULL, 's'}, {"nonblock", no_argument, NULL, 'n'}, \
        {"wait", required_argument, NULL, 'w'},                               \
        {"exit-code", required_argument, NULL, 'E'},                          \
        {"slots", required_argument, NULL, OPTION_SLOTS},                     \
        {"ttl", required_argument, NULL, OPTION_TTL},                         \
        {"linger", required_argument, NULL, OPTION_LINGER},                   \
        {"delay", required_argument, NULL, OPTION_DELAY},                     \
        {"hold", required_argument, NULL, OPTION_HOLD},                       \
    {                                                                         \
        "value", required_argument, NULL, OPTION_VALUE                        \
    }

/* Takes one of these options; 0, an exit code, or -1 if it is none of them. */
int acquire_option(const struct tool *tool, int option, const char *value,
                   struct acquire_options *options);
/* After the last: what does not go together. 0 or an exit code. */
int acquire_options_check(const struct tool *tool,
                          const struct acquire_options *options);

struct acquired {
    struct client_session session;
    struct keeper *keeper; /* NULL in a session that was there before. */
    uint64_t token;
    /* Of the longest time for one hold so much was left, by the answer to what
     * was sent then; 0: there is no such limit. */
    uint64_t hold_left_ms;
    struct lease_clock hold_sent;
    int signal_number; /* Not 0: a signal ended the wait. */
    bool was_not_free; /* That alone is why there is no token. */
    int failed_fd;     /* Tells of heartbeats that failed; 0: none. */
};

/* Opens a session, starts its keeper and acquires the lock; queues anew, in
 * another session, if this one is lost meanwhile. When it returns the lease has
 * half of its time left at least, or is going to be lost. 'keeper' are the
 * keeper's callbacks. 'signal_fd' (a signalfd, or -1) ends the wait. Returns 0
 * or an exit code; then all is closed again and, unless the lock was just not
 * free, explained. */
int acquire_in_new_session(struct tool *tool,
                           const struct acquire_options *options,
                           const struct keeper_options *keeper, int signal_fd,
                           struct acquired *ret_acquired);

/* Likewise in an existing session, whose keeping is its owner's matter. */
int acquire_in_session(struct tool *tool, const struct acquire_options *options,
                       const struct credentials *credentials,
                       struct acquired *ret_acquired);

/* Likewise without a word, where little hope is: a session that cannot be
 * closed ends with its TTL. */
void acquired_abandon(struct tool *tool, struct acquired *acquired);

/* Stops the keeper and closes the session, at another node if the one in use is
 * silent; an error is explained. */
int acquired_close(struct tool *tool, struct acquired *acquired);

#endif /* HASP_CMD_HASP_ACQUIRE_H */
