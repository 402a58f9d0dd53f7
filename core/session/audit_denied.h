/* SPDX-License-Identifier: MIT */

/* What clients of this node were denied: NOAUTH, NOPERM, WRONGPASS, NOTLS.
 *
 * A denial changes nothing, so it stands in no log of the cluster, and pushes
 * out no act (lockfsm/user/audit.h): each node tells its own. What is alike,
 * the same command that the same user (or host, of who has not said who he is)
 * was denied for the same reason, is gathered under one key, and told after
 * AUDIT_DENIED_TELL_NS as one line with a count; who goes on is told of again
 * after twice that time, and so on up to AUDIT_DENIED_TELL_MAX_NS. Keys are
 * few: of each user or host AUDIT_DENIED_WHO_MAX, of the node AUDIT_DENIED_MAX.
 * The next one takes the place of the oldest that has been quiet for
 * AUDIT_DENIED_IDLE_NS; where there is none it is only counted. So who is
 * denied a thousand names a second costs a few lines, and hides nobody else's
 * denials.
 *
 * Told are they in the log, by AUDIT.DENIED, and to whoever writes audit.file
 * (core_denial()). */

#ifndef HASP_CORE_SESSION_AUDIT_DENIED_H
#define HASP_CORE_SESSION_AUDIT_DENIED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/log_limit.h"
#include "base/units.h"
#include "core/core.h"

struct conn;
struct request;

#define AUDIT_DENIED_MAX 256
#define AUDIT_DENIED_WHO_MAX 16
#define AUDIT_DENIED_TELL_NS (10 * NS_PER_S)
#define AUDIT_DENIED_TELL_MAX_NS (3600 * NS_PER_S)
#define AUDIT_DENIED_IDLE_NS (60 * NS_PER_S)

/* Lives as long as the core. */
struct audit_denied {
    uint64_t key[AUDIT_DENIED_MAX]; /* Hashes, to be found fast. */
    uint64_t who[AUDIT_DENIED_MAX];
    struct core_denial *denial; /* NULL: nothing was denied so far. */
    uint32_t count;
    uint64_t next_ns; /* When one is to be told; 0: none is. */
    struct log_limit lines;
};

void audit_denied_init(struct core *core);
void audit_denied_done(struct core *core);
/* 'request' of a client of this node is answered. Its outcome says whether that
 * is a denial; 'reply', "-WORD text", is copied for people. */
void audit_denied_note(struct core *core, const struct request *request,
                       struct bytes reply);
/* Tells those that are due. */
void audit_denied_turn(struct core *core);
/* The node stops: tells all. */
void audit_denied_tell(struct core *core);
/* UINT64_MAX: none is to be told. */
uint64_t audit_denied_next(const struct core *core);

#endif /* HASP_CORE_SESSION_AUDIT_DENIED_H */
