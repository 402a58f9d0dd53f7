/* SPDX-License-Identifier: MIT */

/* Requests of this node's clients that were denied: NOAUTH, NOPERM, WRONGPASS,
 * NOTLS, and LIMIT because of a user's quota.
 *
 * A denial changes nothing, so it is not in the cluster's log and displaces no
 * act (lockfsm/user/audit.h): each node reports its own. Equal denials (the
 * same command, denied to the same user, or to the same host if
 * unauthenticated, for the same reason) are grouped under one key and reported
 * after AUDIT_DENIED_TELL_NS as one line with a count. All quotas are one
 * reason, because their texts differ by the figures: the newest is kept. If
 * they continue they are reported again after twice that time, and so on up to
 * AUDIT_DENIED_TELL_MAX_NS. The number of keys is small: AUDIT_DENIED_WHO_MAX
 * for each user or host, AUDIT_DENIED_MAX for the node. A new key replaces the
 * oldest one that has been idle for AUDIT_DENIED_IDLE_NS; if there is none, the
 * denial is only counted. So a client that is denied a thousand names per
 * second costs a few lines, and hides no other client's denials.
 *
 * Denials are reported in the log, by AUDIT.DENIED, and to the writer of
 * audit.file (core_denial()). */

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
    struct core_denial *denial; /* NULL: nothing has been denied yet. */
    uint32_t count;
    uint64_t next_ns; /* When the next one is reported; 0: none. */
    struct log_limit lines;
};

void audit_denied_init(struct core *core);
void audit_denied_done(struct core *core);
/* 'request' of a client of this node is refused. The word decides whether that
 * is a denial; 'reply', "-WORD text", is copied for people. */
void audit_denied_note(struct core *core, const struct request *request,
                       enum core_word word, struct bytes reply);
/* Reports the denials that are due. */
void audit_denied_turn(struct core *core);
/* The node is stopping: reports all. */
void audit_denied_tell(struct core *core);
/* UINT64_MAX: none is to be reported. */
uint64_t audit_denied_next(const struct core *core);

#endif /* HASP_CORE_SESSION_AUDIT_DENIED_H */
