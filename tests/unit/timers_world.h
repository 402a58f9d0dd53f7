/* SPDX-License-Identifier: MIT */

/* A leader's deadlines over a real state machine, without a node around them.
 *
 * due() gives the proposed commands as text, one per line, sessions by the
 * order in which they were opened: "expire 1 2". Of TIME only the marks, if
 * any: "mark 1=250". Proposed commands wait until apply_proposed() applies
 * them, as they do in the log. Times are milliseconds. */

#ifndef HASP_TESTS_UNIT_TIMERS_WORLD_H
#define HASP_TESTS_UNIT_TIMERS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/memory.h"
#include "lease/timers.h"
#include "lockfsm/entry.h"
#include "lockfsm/user/access.h"

#define MS UINT64_C(1000000)
#define SESSION_MAX 1024
#define PROPOSED_MAX 256

struct world {
    struct lockfsm *fsm;
    struct timers *timers;
    struct effects effects;
    uint64_t index;
    uint64_t now_ms;
    uint64_t session[SESSION_MAX];
    uint32_t session_count;
    struct buffer proposed[PROPOSED_MAX];
    uint32_t proposed_count;
    uint32_t applied_count;
    bool is_refusing;
    uint32_t time_count; /* TIMEs proposed. */
    uint32_t elapsed_ms; /* By the newest TIME. */
    struct buffer text;
    struct buffer command;
};

uint64_t ns(const struct world *w);
struct result apply_command(struct world *w);
/* Starts all deadlines, as a new leader, in small slices. */
void begin_timers(struct world *w);
int set_up(void **state);
int tear_down(void **state);

/* Opens session number session_count + 1. */
uint64_t open_session(struct world *w, uint32_t ttl_ms, uint32_t linger_ms);

/* The same, without a time to live. */
uint64_t open_durable(struct world *w);

struct ask {
    uint64_t wait_ms;
    uint64_t delay_ms;
    uint64_t hold_ms;
};

struct result acquire(struct world *w, uint64_t session, const char *lock,
                      struct ask ask);
void release(struct world *w, uint64_t session, const char *lock);
/* Converts to shared. */
void downgrade(struct world *w, uint64_t session, const char *lock);

/* Proposals of timers_due() at 'now_ms', which becomes the time. */
const char *due_at(struct world *w, uint64_t now_ms, uint32_t session_max,
                   uint32_t command_max);

const char *due(struct world *w, uint64_t now_ms);
void apply_proposed(struct world *w);

/* The core's reaction to a heartbeat that needs it. */
void log_heard(struct world *w, uint64_t session);

void forget_proposed(struct world *w);

/* Another node becomes leader, which had then applied all that this one has;
 * commands proposed and not applied are lost. Its BEGIN is applied at once. */
void change_leader(struct world *w, uint64_t now_ms);

uint64_t lease_left(struct world *w, uint64_t session);

#endif /* HASP_TESTS_UNIT_TIMERS_WORLD_H */
