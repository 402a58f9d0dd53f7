/* SPDX-License-Identifier: MIT */

/* Scripts of Redis clients: the part of Lua 5.1 in which lock scripts are
 * written, parsed and run within bounds.
 *
 * Supported: local variables, local functions at the outermost level, if,
 * while, repeat, for (numbers; ipairs and pairs), do, break, return; all
 * operators but '^'; strings in every notation, and their methods; lists and
 * tables with names; KEYS, ARGV; the functions of script_library.c. A local
 * variable may be another name for one of these. Anything else is refused by an
 * error that names it and its line: globals, functions within blocks (which
 * would be closures), other libraries.
 *
 * A script can only use 'call': it has no clock, and no memory of its own. It
 * differs from Lua only in what it refuses. Source: Lua 5.1 Reference Manual,
 * sections 2 and 5; redis.io, "Redis Lua API reference".
 *
 * Memory is the arena's. Threads: nothing is shared. */

#ifndef HASP_CORE_REDIS_SCRIPT_H
#define HASP_CORE_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/store/arena.h"

/* Bounds. The longest known lock script has 3 KiB and 400 nodes. */
#define SCRIPT_NODES_MAX 2048
#define SCRIPT_DEPTH_MAX 100  /* Nested blocks and expressions. */
#define SCRIPT_LOCALS_MAX 100 /* In a function, or outside of functions. */
#define SCRIPT_CALLS_MAX 16   /* Nested calls of functions. */
#define SCRIPT_ALIASES_MAX \
    16 /* Names like 'rcall' in local rcall = redis.call. */
/* Nodes that one run executes, and as many for each SCRIPT_STEP_SIZE bytes of
 * text that it compares: about a quarter of a millisecond. */
#define SCRIPT_STEPS_MAX 5000
#define SCRIPT_STEP_SIZE 32
#define SCRIPT_MEMORY_MAX ((size_t)1 << 18) /* Bytes for one run. */

enum value_type {
    VALUE_NIL,
    VALUE_FALSE,
    VALUE_TRUE,
    VALUE_NUMBER,
    VALUE_TEXT,
    VALUE_TABLE,
    VALUE_FUNCTION
};

struct value_table;
struct script_node;

struct value {
    enum value_type type;
    double number;
    struct bytes text;
    struct value_table *table;
    const struct script_node *function;
};

/* A list from 1 on without gaps, and a few named fields. */
struct value_table {
    struct value *item;
    uint32_t count;
    uint32_t capacity;
    uint32_t field_count;
    struct value_field {
        struct value_field *next;
        struct bytes name;
        struct value value;
    } * fields;
};

/* The reason: "line 3: ...". */
#define SCRIPT_ERROR_SIZE 200
struct script_error {
    char text[SCRIPT_ERROR_SIZE];
};

struct script {
    const struct script_node *body;
    uint32_t local_count;
};

/* The function redis.call. False: 'ret' is the text of an error, which ends the
 * script unless redis.pcall was used. */
typedef bool script_call_fn(void *data, const struct bytes *argument,
                            uint32_t count, struct value *ret);

struct script_run {
    struct arena *arena;
    const struct bytes *key;
    uint32_t key_count;
    const struct bytes *argument;
    uint32_t argument_count;
    script_call_fn *call;
    void *data;
    const uint32_t *call_steps; /* Steps that 'call' has used so far. */
    uint32_t steps;             /* Steps that the run used, set at its end. */
};

/* True if 'call' has a command of this name. */
typedef bool script_known_fn(struct bytes name);

/* False with the error: it is not a script in this part of Lua, or it names an
 * unknown command. Names and strings are borrowed from 'text'. */
bool script_parse(struct bytes text, struct arena *arena,
                  script_known_fn *is_known, struct script *ret_script,
                  struct script_error *error);
/* Runs it; '*ret' is what it returns. False with the error. */
bool script_run(const struct script *script, struct script_run *run,
                struct value *ret, struct script_error *error);

/* --- Values --------------------------------------------------------------- */

static inline struct value value_of_number(double number)
{
    return (struct value){.type = VALUE_NUMBER, .number = number};
}
static inline struct value value_of_text(struct bytes text)
{
    return (struct value){.type = VALUE_TEXT, .text = text};
}
static inline struct value value_of_bool(bool is_true)
{
    return (struct value){.type = is_true ? VALUE_TRUE : VALUE_FALSE};
}
static inline bool value_is_true(const struct value *value)
{
    return value->type != VALUE_NIL && value->type != VALUE_FALSE;
}
/* An empty list. */
struct value value_new_table(struct arena *arena);
void value_append(struct arena *arena, struct value_table *table,
                  const struct value *item);
/* NULL if there is no such field. */
const struct value *value_field(const struct value_table *table,
                                const char *name);
void value_set_field(struct arena *arena, struct value_table *table,
                     struct bytes name, const struct value *value);
/* {ok = text} or {err = text}, as Redis represents a status and an error. */
struct value value_of_status(struct arena *arena, const char *field,
                             struct bytes text);

#endif /* HASP_CORE_REDIS_SCRIPT_H */
