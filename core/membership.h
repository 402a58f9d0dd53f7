/* SPDX-License-Identifier: MIT */

/* Members: adding, promoting, demoting, removing, one change at a time; handing
 * leadership over; registering data directories (amnesia guard).
 *
 * RAFT.ADD adds a standby and, unless told STANDBY, promotes it when it has
 * caught up; if it has not within CATCH_UP_NS it stays a standby and the answer
 * says so. */

#ifndef HASP_CORE_MEMBERSHIP_H
#define HASP_CORE_MEMBERSHIP_H

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"

/* A leader whose disk is scarce tries so often to hand over. */
#define SCARCE_RETRY_NS (5000 * NS_PER_MS)

struct core;
struct request;

enum change_probe {
    PROBE_NONE,
    PROBE_DUE,
    PROBE_UNDER_WAY,
    PROBE_DONE,
    PROBE_FAILED
};

struct change {
    struct buffer asker;     /* See trail_append(). */
    struct request *request; /* ADD, PROMOTE ...: at most one. */
    uint64_t index;
    uint64_t member;
    bool promotes;
    bool takes;                        /* DEMOTE and REMOVE: not proposed. */
    bool is_forced;                    /* Whoever is silent. */
    char address[MEMBER_ADDRESS_SIZE]; /* ADD: what was announced ... */
    bool is_standby;                   /* ... and that it is to stay. */
    enum change_probe probe;           /* ADD: is it there? */
    char probe_why[HASP_WHY_SIZE / 2]; /* It was not. */
    uint64_t settles; /* Not 0: the member lacks this index yet. */
    uint64_t retry_ns;
    uint64_t deadline_ns;
};

struct transfer {
    struct request *request;
    bool is_wanted; /* Once what is under way has been applied. */
    uint64_t to;
    uint64_t after_index;
    uint64_t deadline_ns;     /* Of the wait for them. */
    uint64_t scarce_retry_ns; /* A scarce disk: not tried again sooner. */
};

/* What waits for the clock or for other members. */
void membership_turn(struct core *core);
uint64_t membership_next(const struct core *core);
/* Everything up to 'applied' has been applied. */
void membership_progress(struct core *core, uint64_t applied);
void membership_stepped_down(struct core *core);
void membership_peer_lost(struct core *core, uint64_t peer);
/* Leadership is elsewhere: answers a TRANSFER that asked for that. */
void membership_transfer_seen(struct core *core, struct request *request);
/* True if another voter could lead. */
bool membership_has_heir(const struct core *core);

#endif /* HASP_CORE_MEMBERSHIP_H */
