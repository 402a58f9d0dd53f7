/* SPDX-License-Identifier: MIT */

/* A transcript of tests/fsm that is being run, and the words of its commands.
 */

#ifndef HASP_TESTS_UNIT_FSM_SCRIPT_H
#define HASP_TESTS_UNIT_FSM_SCRIPT_H

#include <inttypes.h>
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
#include "lockfsm/entry.h"
#include "lockfsm/feature.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "lockfsm/user/audit.h"
#include "storage/table.h"

#define WORD_MAX 64
#define ALIAS_MAX 64

struct alias {
    char name[32];
    uint64_t session;
};

struct machine {
    struct lockfsm *fsm;
    struct lockfsm_delta *delta;
    struct effects effects;
};

struct script {
    struct machine plain;
    struct machine reloaded;
    struct table *table;
    const struct lockfsm *shown; /* The machine being checked. */
    uint64_t index;
    uint32_t slice; /* The most steps of an entry. */
    struct alias alias[ALIAS_MAX];
    uint32_t alias_count;
    char *word[WORD_MAX]; /* Words of the command being run. */
    uint32_t word_count;
    struct buffer command;
    struct buffer output;
};

/* --- Words ---------------------------------------------------------------- */

_Noreturn void bad(const struct script *script, const char *what);

/* The value of "name=value", or NULL. */
const char *option(const struct script *script, const char *name);

bool flag(const struct script *script, const char *name);
uint64_t number(const struct script *script, const char *name);
struct bytes text_of(const struct script *script, const char *name);
const char *word(const struct script *script, uint32_t at);

/* A session's name, or "#5" for an id that was never ours. */
uint64_t session_named(const struct script *script, const char *name);

/* "s1" or "s1/owner" in word 1, with REQ and ACKED; also=6-9: these, too. */
struct origin origin_in(const struct script *script);

/* Splits "a,b" into names; they live as long as the list. */
uint32_t split_names(char *list, struct bytes *ret_names);

/* " name=5", unless it is 0; 'before' and the text, unless it is empty. */
void put_number(struct buffer *out, const char *name, uint64_t value);
void put_text(struct buffer *out, const char *before, struct bytes text);

typedef void run_fn(struct script *script, struct buffer *out);
/* The tokens of "token=7,9", one per name; returns how many. */
uint32_t tokens_in(const struct script *script,
                   uint64_t tokens[MULTI_COUNT_MAX]);

#endif /* HASP_TESTS_UNIT_FSM_SCRIPT_H */
