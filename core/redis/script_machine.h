/* SPDX-License-Identifier: MIT */

/* A run of a script, for script_run.c, which executes its nodes, and
 * script_library.c, which has its functions. Everything that uses time or
 * memory is counted here, so that every script ends. */

#ifndef HASP_CORE_REDIS_SCRIPT_MACHINE_H
#define HASP_CORE_REDIS_SCRIPT_MACHINE_H

#include "core/redis/script_node.h"

/* How many fields of a table one step searches. */
#define FIELDS_PER_STEP 16
/* As Lua prints a number, and as Redis passes it to a command. */
#define LUA_DIGITS 14
#define CALL_DIGITS 17

struct script_machine {
    const struct script_run *run;
    struct script_error *error;
    /* The current one; an error gives its line. */
    const struct script_node *node;
    struct value keys;
    struct value argv;
    struct value *outer; /* The script's variables, */
    struct value *local; /* and those of the current function. */
    /* All results of the function that was called last, if it can have several
     * (node_has_several()); with FLOW_RETURN the returned values. */
    struct value_table results;
    size_t memory_size;
    uint32_t steps;
    uint32_t depth;
    uint32_t calls;
};

/* --- Functions ------------------------------------------------------------ */

struct library_function {
    const char *name;
    uint32_t min; /* The fewest arguments, */
    uint32_t max; /* and the most. */
};

/* NULL: no function has this name. */
const struct library_function *library_find(struct bytes name,
                                            enum builtin *ret_builtin);
/* Executes the function of machine->node with the arguments in 'list'. A
 * function with several results leaves them in machine->results. False with the
 * error. */
bool library_run(struct script_machine *machine, const struct value_table *list,
                 struct value *ret);

/* cjson.decode() and cjson.encode(): script_json.c. */
bool json_decode(struct script_machine *machine, struct bytes text,
                 struct value *ret);
bool json_encode(struct script_machine *machine, const struct value *value,
                 struct value *ret);

/* A text being built, within the machine's bounds; it starts with the first
 * addition. */
struct text {
    struct script_machine *machine;
    uint8_t *data;
    size_t size;
    size_t capacity;
};

bool text_add(struct text *text, struct bytes more);

/* --- The machine ---------------------------------------------------------- */

/* Sets the error for the current line; returns false. */
bool machine_fail(struct script_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Called before 'size' bytes are allocated. */
bool machine_spend(struct script_machine *machine, size_t size);
/* Counts the space for a list that grows by one item. */
bool machine_spend_item(struct script_machine *machine,
                        const struct value_table *table);
/* The same, and appends the item. */
bool machine_add(struct script_machine *machine, struct value_table *table,
                 const struct value *value);
bool machine_step(struct script_machine *machine);
/* A string or a number as text. */
bool machine_text(struct script_machine *machine, const struct value *value,
                  int digits, struct bytes *ret_text);

/* Counts the steps of reading a text; the next step finds that there are too
 * many. Every function that reads a text of the script calls it. */
void machine_count_bytes(struct script_machine *machine, size_t size);
/* The same for printing a number: those far from 1 have hundreds of digits.
 * 'precision': how many are printed. */
void machine_count_digits(struct script_machine *machine, double number,
                          int precision);
/* A number, or a text with one. False, without an error: it is neither. */
bool machine_number(struct script_machine *machine, const struct value *value,
                    double *ret_number);

const char *value_type_name(const struct value *value);
/* Beyond 2^53 a number has no fraction. */
double number_floor(double number);

#endif /* HASP_CORE_REDIS_SCRIPT_MACHINE_H */
