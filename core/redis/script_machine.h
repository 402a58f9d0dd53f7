/* SPDX-License-Identifier: MIT */

/* A run of a script, for script_run.c, which walks its nodes, and
 * script_library.c, which has its functions. Whatever takes time or memory is
 * counted here, so that a script ends whatever it says. */

#ifndef HASP_CORE_REDIS_SCRIPT_MACHINE_H
#define HASP_CORE_REDIS_SCRIPT_MACHINE_H

#include "core/redis/script_node.h"

/* How many fields of a table are searched in one step. */
#define FIELDS_PER_STEP 16
/* As Lua shows a number, and as Redis hands it to a command. */
#define LUA_DIGITS 14
#define CALL_DIGITS 17

struct script_machine {
    const struct script_run *run;
    struct script_error *error;
    const struct script_node *node; /* At hand; an error tells its line. */
    struct value keys;
    struct value argv;
    struct value *outer; /* The script's variables, */
    struct value *local; /* those of the function at hand. */
    /* All results of the function that was called last, if it is one that may
     * have several (node_has_several()); with FLOW_RETURN what is returned. */
    struct value_table results;
    size_t memory_size;
    uint32_t steps;
    uint32_t depth;
    uint32_t calls;
};

/* --- Functions ------------------------------------------------------------ */

struct library_function {
    const char *name;
    uint32_t min; /* Arguments that it needs; */
    uint32_t max; /* that a script may write. */
};

/* NULL: there is no function of this name. */
const struct library_function *library_find(struct bytes name,
                                            enum builtin *ret_builtin);
/* Carries out the function of machine->node; 'list' is what it is given. One of
 * several results leaves them in machine->results. False with the error. */
bool library_run(struct script_machine *machine, const struct value_table *list,
                 struct value *ret);

/* cjson.decode() and cjson.encode(): script_json.c. */
bool json_decode(struct script_machine *machine, struct bytes text,
                 struct value *ret);
bool json_encode(struct script_machine *machine, const struct value *value,
                 struct value *ret);

/* A text that grows, within the machine's bounds; begun with the first. */
struct text {
    struct script_machine *machine;
    uint8_t *data;
    size_t size;
    size_t capacity;
};

bool text_add(struct text *text, struct bytes more);

/* --- The machine ---------------------------------------------------------- */

/* False, with the error of the line at hand. */
bool machine_fail(struct script_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Before so many bytes are taken. */
bool machine_spend(struct script_machine *machine, size_t size);
/* Room for a list that grows by one, whatever that costs. */
bool machine_spend_item(struct script_machine *machine,
                        const struct value_table *table);
/* Likewise, and appends. */
bool machine_add(struct script_machine *machine, struct value_table *table,
                 const struct value *value);
bool machine_step(struct script_machine *machine);
/* A string or a number as text. */
bool machine_text(struct script_machine *machine, const struct value *value,
                  int digits, struct bytes *ret_text);

/* Counts steps for going through a text; the next step finds that it is too
 * much. Whoever looks at a text that a script hands him calls it. */
void machine_count_bytes(struct script_machine *machine, size_t size);
/* Likewise for writing a number: those far from 1 have hundreds of digits.
 * 'precision': how many are shown. */
void machine_count_digits(struct script_machine *machine, double number,
                          int precision);
/* A number, or a text that is one. False, without an error: it is none. */
bool machine_number(struct script_machine *machine, const struct value *value,
                    double *ret_number);

const char *value_type_name(const struct value *value);
/* Beyond 2^53 a number has no fraction. */
double number_floor(double number);

#endif /* HASP_CORE_REDIS_SCRIPT_MACHINE_H */
