/* SPDX-License-Identifier: MIT */

/* The proof that a process lives, and the descriptor that becomes readable when
 * it dies.
 *
 * SO_PEERCRED names the process that connected, which need not be the one that
 * sends: a fork inherits the connection, a proxy passes it on, a pid is reused.
 * So the sender says when it was started (field 22 of /proc/self/stat), and
 * this compares it with the same field of the process that connected, after it
 * has opened the descriptor of that process. */

#ifndef HASP_CMD_HASP_AGENT_PROOF_H
#define HASP_CMD_HASP_AGENT_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct proof {
    pid_t pid; /* 0: it is in a pid namespace that is not below ours. */
    uid_t uid;
    int pidfd;      /* -1: none yet. */
    uint64_t start; /* Of the process of 'pidfd'; 0: not read yet. */
};

/* Reads who has connected. With 'is_old' the kernel is treated like one before
 * 6.5, which knows no SO_PEERPIDFD. HASP_EIO. */
MUST_CHECK int proof_begin(int fd, bool is_old, struct proof *ret_proof);
/* True if the process that was started at 'start' has connected, and lives:
 * then proof->pidfd is its descriptor. False with the reason. */
bool proof_is_good(struct proof *proof, uint64_t start, const char **ret_why);
/* The descriptor is readable: the process is dead, all its threads are. */
bool proof_is_dead(int pidfd);

#endif /* HASP_CMD_HASP_AGENT_PROOF_H */
