/* SPDX-License-Identifier: MIT */

/* Executes a script's nodes. Every step, every byte and every level of depth is
 * counted, so that every script ends. */

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_lex.h"
#include "core/redis/script_machine.h"

/* Printing a number of up to this many binary digits is part of the caller's
 * step; each further DIGITS_FREE digits are one step more. */
#define DIGITS_FREE 96
#define DIGITS_PER_STEP 8
#define DEPTH_MAX (4 * SCRIPT_DEPTH_MAX)

enum flow { FLOW_ON, FLOW_BREAK, FLOW_RETURN, FLOW_ERROR };

static bool script_run_evaluate(struct script_machine *machine,
                                const struct script_node *node,
                                struct value *ret);
static enum flow script_run_carry_out(struct script_machine *machine,
                                      const struct script_node *block);

/* --- Values --------------------------------------------------------------- */

struct value value_new_table(struct arena *arena)
{
    struct value_table *table = arena_take(arena, sizeof *table);
    *table = (struct value_table){0};
    return (struct value){.type = VALUE_TABLE, .table = table};
}

void value_append(struct arena *arena, struct value_table *table,
                  const struct value *item)
{
    if (table->count == table->capacity) {
        uint32_t capacity = table->capacity == 0 ? 4 : 2 * table->capacity;
        struct value *items = arena_take(arena, capacity * sizeof *items);
        if (table->count > 0) {
            memcpy(items, table->item, table->count * sizeof *items);
        }
        table->item = items;
        table->capacity = capacity;
    }
    CHECK(table->count < table->capacity);
    table->item[table->count++] = *item;
}

static struct value *script_run_find_field(const struct value_table *table,
                                           struct bytes name)
{
    for (struct value_field *f = table->fields; f != NULL; f = f->next) {
        if (bytes_equal(f->name, name)) {
            return &f->value;
        }
    }
    return NULL;
}

const struct value *value_field(const struct value_table *table,
                                const char *name)
{
    return script_run_find_field(table, bytes_of_text(name));
}

void value_set_field(struct arena *arena, struct value_table *table,
                     struct bytes name, const struct value *value)
{
    struct value *old = script_run_find_field(table, name);
    if (old != NULL) {
        *old = *value;
        return;
    }
    struct value_field *field = arena_take(arena, sizeof *field);
    *field = (struct value_field){table->fields, name, *value};
    table->fields = field;
    table->field_count++;
}

struct value value_of_status(struct arena *arena, const char *field,
                             struct bytes text)
{
    struct value status = value_new_table(arena);
    struct value value = value_of_text(text);
    value_set_field(arena, status.table, bytes_of_text(field), &value);
    return status;
}

const char *value_type_name(const struct value *value)
{
    static const char *const names[] = {
        [VALUE_NIL] = "nil",          [VALUE_FALSE] = "boolean",
        [VALUE_TRUE] = "boolean",     [VALUE_NUMBER] = "number",
        [VALUE_TEXT] = "string",      [VALUE_TABLE] = "table",
        [VALUE_FUNCTION] = "function"};
    CHECK(value->type < sizeof names / sizeof *names);
    return names[value->type];
}

static bool are_equal(const struct value *a, const struct value *b)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case VALUE_NUMBER:
        return a->number == b->number;
    case VALUE_TEXT:
        return bytes_equal(a->text, b->text);
    case VALUE_TABLE:
        return a->table == b->table;
    case VALUE_FUNCTION:
        return a->function == b->function;
    default:
        return true;
    }
}

/* Beyond 2^53 a number has no fraction; NaN (0/0) stays NaN. */
double number_floor(double number)
{
    if (!(number > -9007199254740992.0 && number < 9007199254740992.0)) {
        return number;
    }
    double whole = (double)(int64_t)number;
    return whole > number ? whole - 1 : whole;
}

/* --- Bounds --------------------------------------------------------------- */

bool machine_fail(struct script_machine *machine, const char *format, ...)
{
    va_list args;
    int size = snprintf(machine->error->text, sizeof machine->error->text,
                        "line %u: ", machine->node->line);
    va_start(args, format);
    vsnprintf(machine->error->text + size,
              sizeof machine->error->text - (size_t)size, format, args);
    va_end(args);
    return false;
}

/* Is called before 'size' bytes are allocated. */
bool machine_spend(struct script_machine *machine, size_t size)
{
    CHECK(machine->memory_size <= SCRIPT_MEMORY_MAX);
    if (size > SCRIPT_MEMORY_MAX - machine->memory_size) {
        return machine_fail(machine, "the script needs more than %zu bytes",
                            SCRIPT_MEMORY_MAX);
    }
    machine->memory_size += size;
    return true;
}

bool machine_step(struct script_machine *machine)
{
    machine->steps++;
    if (machine->steps + *machine->run->call_steps > SCRIPT_STEPS_MAX) {
        return machine_fail(machine, "the script runs for more than %d steps",
                            SCRIPT_STEPS_MAX);
    }
    return true;
}

void machine_count_bytes(struct script_machine *machine, size_t size)
{
    machine->steps += (uint32_t)(size / SCRIPT_STEP_SIZE);
}

void machine_count_digits(struct script_machine *machine, double number,
                          int precision)
{
    int exponent = 0;
    if (isfinite(number)) {
        (void)frexp(number, &exponent);
    }
    /* It is within a format's bounds. */
    CHECK(precision >= 0 && precision < 1000);
    int digits = abs(exponent) + precision;
    machine->steps += digits > DIGITS_FREE ? (uint32_t)digits / DIGITS_PER_STEP
                                           : 0;
}

/* Counts the steps of comparing two texts. */
static void count_bytes(struct script_machine *machine, const struct value *a,
                        const struct value *b)
{
    if (a->type == VALUE_TEXT && b->type == VALUE_TEXT) {
        machine_count_bytes(
            machine, a->text.size < b->text.size ? a->text.size : b->text.size);
    }
}

bool machine_number(struct script_machine *machine, const struct value *value,
                    double *ret_number)
{
    *ret_number = value->number;
    if (value->type == VALUE_TEXT) {
        /* The text may be all white space. */
        machine_count_bytes(machine, value->text.size);
        return text_to_number(value->text, ret_number);
    }
    return value->type == VALUE_NUMBER;
}

/* Counts the space that a list needs to grow by one. */
bool machine_spend_item(struct script_machine *machine,
                        const struct value_table *table)
{
    size_t size = table->count < table->capacity ? 0 : 2 * table->capacity + 4;
    return machine_spend(machine, size * sizeof(struct value));
}

bool machine_add(struct script_machine *machine, struct value_table *table,
                 const struct value *value)
{
    if (!machine_spend_item(machine, table)) {
        return false;
    }
    value_append(machine->run->arena, table, value);
    return true;
}

bool machine_text(struct script_machine *machine, const struct value *value,
                  int digits, struct bytes *ret_text)
{
    char text[32];
    if (value->type == VALUE_TEXT) {
        *ret_text = value->text;
        return true;
    }
    CHECK(value->type == VALUE_NUMBER);
    machine_count_digits(machine, value->number, digits);
    int size = snprintf(text, sizeof text, "%.*g", digits, value->number);
    CHECK(size > 0 && (size_t)size < sizeof text);
    if (!machine_spend(machine, (size_t)size)) {
        return false;
    }
    *ret_text = arena_copy(machine->run->arena, bytes_of(text, (size_t)size));
    return true;
}

/* --- Operators ------------------------------------------------------------ */

static bool script_run_concatenate(struct script_machine *machine,
                                   const struct value *a, const struct value *b,
                                   struct value *ret)
{
    struct bytes left, right;
    const struct value *wrong = a->type != VALUE_TEXT && a->type != VALUE_NUMBER
                                    ? a
                                    : b;
    if (wrong->type != VALUE_TEXT && wrong->type != VALUE_NUMBER) {
        return machine_fail(machine, "'..' of a %s value",
                            value_type_name(wrong));
    }
    if (!machine_text(machine, a, LUA_DIGITS, &left) ||
        !machine_text(machine, b, LUA_DIGITS, &right) ||
        !machine_spend(machine, left.size + right.size)) {
        return false;
    }
    uint8_t *both = arena_take(machine->run->arena, left.size + right.size);
    /* memcpy() from NULL is undefined even for 0 bytes. */
    if (left.size > 0) {
        memcpy(both, left.data, left.size);
    }
    if (right.size > 0) {
        memcpy(both + left.size, right.data, right.size);
    }
    *ret = value_of_text(bytes_of(both, left.size + right.size));
    return true;
}

static bool script_run_compare(struct script_machine *machine,
                               const struct script_node *node,
                               const struct value *a, const struct value *b,
                               struct value *ret)
{
    bool is_less, is_greater, is_ordered = true;
    if (a->type == VALUE_NUMBER && b->type == VALUE_NUMBER) {
        is_less = a->number < b->number;
        is_greater = a->number > b->number;
        /* NaN is neither less nor greater, nor equal to anything. */
        is_ordered = is_less || is_greater || a->number == b->number;
    } else if (a->type == VALUE_TEXT && b->type == VALUE_TEXT) {
        is_less = bytes_compare(a->text, b->text) < 0;
        is_greater = bytes_compare(a->text, b->text) > 0;
    } else {
        return machine_fail(machine, "a %s value compared with a %s value",
                            value_type_name(a), value_type_name(b));
    }
    bool is_true = node->op == OPERATOR_LESS         ? is_less
                   : node->op == OPERATOR_GREATER    ? is_greater
                   : node->op == OPERATOR_LESS_EQUAL ? !is_greater
                                                     : !is_less;
    *ret = value_of_bool(is_ordered && is_true);
    return true;
}

static bool script_run_calculate(struct script_machine *machine,
                                 const struct script_node *node,
                                 const struct value *a, const struct value *b,
                                 struct value *ret)
{
    double x, y;
    bool is_number = machine_number(machine, a, &x);
    if (!is_number || !machine_number(machine, b, &y)) {
        return machine_fail(machine, "arithmetic on a %s value",
                            value_type_name(is_number ? b : a));
    }
    switch (node->op) {
    case OPERATOR_ADD:
        x = x + y;
        break;
    case OPERATOR_SUBTRACT:
        x = x - y;
        break;
    case OPERATOR_MULTIPLY:
        x = x * y;
        break;
    case OPERATOR_DIVIDE:
        x = x / y;
        break;
    default:
        /* As in Lua, the result has the sign of the divisor. */
        x = x - number_floor(x / y) * y;
    }
    *ret = value_of_number(x);
    return true;
}

static bool evaluate_binary(struct script_machine *machine,
                            const struct script_node *node, struct value *ret)
{
    struct value a, b;
    if (!script_run_evaluate(machine, node->a, &a) ||
        !script_run_evaluate(machine, node->b, &b)) {
        return false;
    }
    switch (node->op) {
    case OPERATOR_EQUAL:
    case OPERATOR_NOT_EQUAL:
        /* Long texts cost steps: a comparison must not hold up the leader. */
        count_bytes(machine, &a, &b);
        *ret = value_of_bool(are_equal(&a, &b) == (node->op == OPERATOR_EQUAL));
        return true;
    case OPERATOR_CONCAT:
        return script_run_concatenate(machine, &a, &b, ret);
    case OPERATOR_LESS:
    case OPERATOR_GREATER:
    case OPERATOR_LESS_EQUAL:
    case OPERATOR_GREATER_EQUAL:
        count_bytes(machine, &a, &b);
        return script_run_compare(machine, node, &a, &b, ret);
    default:
        return script_run_calculate(machine, node, &a, &b, ret);
    }
}

static bool evaluate_unary(struct script_machine *machine,
                           const struct script_node *node, struct value *ret)
{
    struct value a;
    double number;
    if (!script_run_evaluate(machine, node->a, &a)) {
        return false;
    }
    if (node->op == OPERATOR_NOT) {
        *ret = value_of_bool(!value_is_true(&a));
    } else if (node->op == OPERATOR_NEGATE &&
               machine_number(machine, &a, &number)) {
        *ret = value_of_number(-number);
    } else if (node->op == OPERATOR_LENGTH && a.type == VALUE_TABLE) {
        *ret = value_of_number(a.table->count);
    } else if (node->op == OPERATOR_LENGTH && a.type == VALUE_TEXT) {
        *ret = value_of_number((double)a.text.size);
    } else {
        return machine_fail(machine, "'%s' of a %s value",
                            node->op == OPERATOR_LENGTH ? "#" : "-",
                            value_type_name(&a));
    }
    return true;
}

/* --- Lists ---------------------------------------------------------------- */

/* Appends what the nodes evaluate to, and all results of the last one. */
static bool script_run_gather(struct script_machine *machine,
                              const struct script_node *node,
                              struct value_table *list)
{
    const struct script_node *outer = machine->node;
    for (; node != NULL; node = node->next) {
        struct value value;
        bool is_open = node->next == NULL && node_has_several(node);
        if (!script_run_evaluate(machine, node, &value)) {
            return false;
        }
        /* The next evaluation overwrites them. */
        struct value_table results = machine->results;
        uint32_t count = is_open ? results.count : 1;
        machine->node = node;
        for (uint32_t i = 0; i < count; i++) {
            if (!machine_add(machine, list,
                             is_open ? &results.item[i] : &value) ||
                !machine_step(machine)) {
                return false;
            }
        }
        machine->node = outer;
    }
    return true;
}

static bool evaluate_table(struct script_machine *machine,
                           const struct script_node *node, struct value *ret)
{
    struct arena *arena = machine->run->arena;
    if (!machine_spend(machine, sizeof(struct value_table))) {
        return false;
    }
    *ret = value_new_table(arena);
    for (const struct script_node *f = node->a; f != NULL; f = f->next) {
        struct value value;
        machine->node = f;
        /* Only the last item can add several values (Lua 5.1, 2.5.7). */
        if (f->text.data == NULL && f->next == NULL) {
            if (!script_run_gather(machine, f->a, ret->table)) {
                return false;
            }
        } else if (!script_run_evaluate(machine, f->a, &value) ||
                   !machine_spend(machine, sizeof(struct value_field)) ||
                   !machine_spend_item(machine, ret->table)) {
            return false;
        } else if (f->text.data != NULL) {
            value_set_field(arena, ret->table, f->text, &value);
        } else {
            value_append(arena, ret->table, &value);
        }
    }
    machine->node = node;
    return true;
}

/* The place of 'index' in the list, from 1 on; 0: it is not a place. */
static uint32_t script_run_place_of(const struct value *index, uint32_t max)
{
    bool is_place = index->type == VALUE_NUMBER && index->number >= 1 &&
                    index->number <= max &&
                    index->number == number_floor(index->number);
    return is_place ? (uint32_t)index->number : 0;
}

/* Counts the steps of searching for a field. */
static void count_field(struct script_machine *machine,
                        const struct value_table *table, struct bytes name)
{
    machine_count_bytes(machine, name.size);
    machine->steps += table->field_count / FIELDS_PER_STEP;
}

static bool evaluate_index(struct script_machine *machine,
                           const struct script_node *node, struct value *ret)
{
    struct value list, index;
    if (!script_run_evaluate(machine, node->a, &list) ||
        !script_run_evaluate(machine, node->b, &index)) {
        return false;
    }
    if (list.type != VALUE_TABLE) {
        return machine_fail(machine, "an item of a %s value",
                            value_type_name(&list));
    }
    uint32_t place = script_run_place_of(&index, list.table->count);
    const struct value *found = NULL;
    if (place > 0) {
        found = &list.table->item[place - 1];
    } else if (index.type == VALUE_TEXT) {
        count_field(machine, list.table, index.text);
        found = script_run_find_field(list.table, index.text);
    }
    *ret = found != NULL ? *found : (struct value){.type = VALUE_NIL};
    return true;
}

static bool set_item(struct script_machine *machine,
                     const struct script_node *node, const struct value *value)
{
    struct value list, index;
    if (!script_run_evaluate(machine, node->a, &list) ||
        !script_run_evaluate(machine, node->b, &index)) {
        return false;
    }
    if (list.type != VALUE_TABLE) {
        return machine_fail(machine, "an item of a %s value",
                            value_type_name(&list));
    }
    uint32_t place = script_run_place_of(&index, list.table->count + 1);
    if (place > 0 && place <= list.table->count) {
        list.table->item[place - 1] = *value;
        return true;
    }
    if (!machine_spend_item(machine, list.table) ||
        !machine_spend(machine, sizeof(struct value_field))) {
        return false;
    }
    if (place > 0) {
        value_append(machine->run->arena, list.table, value);
    } else if (index.type == VALUE_TEXT) {
        count_field(machine, list.table, index.text);
        value_set_field(machine->run->arena, list.table, index.text, value);
    } else {
        /* Lists are arrays here: a large index must not take memory for all
         * items before it. */
        return machine_fail(machine, "a list with gaps");
    }
    return true;
}

/* --- Calls ---------------------------------------------------------------- */

static bool run_builtin(struct script_machine *machine,
                        const struct script_node *node, struct value *ret)
{
    struct value_table list = {0};
    return script_run_gather(machine, node->a, &list) &&
           library_run(machine, &list, ret);
}

static struct value script_run_first_of(const struct value_table *results)
{
    return results->count > 0 ? results->item[0]
                              : (struct value){.type = VALUE_NIL};
}

static bool call_function(struct script_machine *machine,
                          const struct script_node *node, struct value *ret)
{
    struct value function;
    struct value_table list = {0};
    if (!script_run_evaluate(machine, node->a, &function) ||
        !script_run_gather(machine, node->b, &list)) {
        return false;
    }
    if (function.type != VALUE_FUNCTION) {
        return machine_fail(machine, "a call of a %s value",
                            value_type_name(&function));
    }
    const struct script_node *callee = function.function;
    CHECK(callee->kind == NODE_FUNCTION && callee->number <= callee->slots);
    struct value *before = machine->local;
    size_t size = callee->slots * sizeof(struct value);
    /* Functions may call themselves: this bounds the depth of the C stack. */
    if (machine->calls == SCRIPT_CALLS_MAX) {
        return machine_fail(machine, "more than %d functions call each other",
                            SCRIPT_CALLS_MAX);
    }
    if (!machine_spend(machine, size)) {
        return false;
    }
    machine->local = arena_take(machine->run->arena, size);
    for (uint32_t i = 0; i < callee->slots; i++) {
        bool is_given = i < callee->number && i < list.count;
        machine->local[i] = is_given ? list.item[i]
                                     : (struct value){.type = VALUE_NIL};
    }
    machine->calls++;
    enum flow flow = script_run_carry_out(machine, callee->a);
    CHECK(machine->calls > 0);
    machine->calls--;
    machine->local = before;
    if (flow != FLOW_RETURN) {
        machine->results = (struct value_table){0};
    }
    *ret = script_run_first_of(&machine->results);
    return flow != FLOW_ERROR;
}

/* Runs pcall, which returns true and the results of the call, or false and its
 * error. Memory and steps that the call has used stay counted. */
static bool script_run_protect(struct script_machine *machine,
                               const struct script_node *node,
                               struct value *ret)
{
    uint32_t depth = machine->depth;
    struct value_table results = {0};
    struct value value;
    bool is_good = script_run_evaluate(machine, node->a, &value);
    CHECK(machine->node == node); /* This holds after a failed call, too. */
    machine->depth = depth;       /* The levels of a failed call end with it. */
    if (!is_good) {
        value = value_of_text(arena_copy(machine->run->arena,
                                         bytes_of_text(machine->error->text)));
    }
    bool is_several = is_good && node_has_several(node->a);
    struct value_table given = machine->results;
    *ret = value_of_bool(is_good);
    if (!machine_spend(machine, sizeof machine->error->text) ||
        !machine_add(machine, &results, ret) ||
        (!is_several && !machine_add(machine, &results, &value))) {
        return false;
    }
    for (uint32_t i = 0; is_several && i < given.count; i++) {
        if (!machine_step(machine) ||
            !machine_add(machine, &results, &given.item[i])) {
            return false;
        }
    }
    machine->results = results;
    return true;
}

/* --- Expressions ---------------------------------------------------------- */

/* The parser numbers slots below SCRIPT_LOCALS_MAX, and records how many a
 * function has. */
static struct value *slot_of(struct value *locals,
                             const struct script_node *node)
{
    CHECK(node->number >= 0 && node->number < SCRIPT_LOCALS_MAX);
    return &locals[(uint32_t)node->number];
}

static struct value *local_of(struct script_machine *machine,
                              const struct script_node *node)
{
    CHECK(node->kind == NODE_LOCAL);
    return slot_of(node->is_outer ? machine->outer : machine->local, node);
}

static bool evaluate_inner(struct script_machine *machine,
                           const struct script_node *node, struct value *ret)
{
    *ret = (struct value){.type = VALUE_NIL};
    switch ((enum node_kind)node->kind) {
    case NODE_FALSE:
    case NODE_TRUE:
        *ret = value_of_bool(node->kind == NODE_TRUE);
        return true;
    case NODE_NUMBER:
        *ret = value_of_number(node->number);
        return true;
    case NODE_TEXT:
        *ret = value_of_text(node->text);
        return true;
    case NODE_LOCAL:
        *ret = *local_of(machine, node);
        return true;
    case NODE_KEYS:
        *ret = machine->keys;
        return true;
    case NODE_ARGV:
        *ret = machine->argv;
        return true;
    case NODE_TABLE:
        return evaluate_table(machine, node, ret);
    case NODE_INDEX:
        return evaluate_index(machine, node, ret);
    case NODE_BUILTIN:
        return run_builtin(machine, node, ret);
    case NODE_CALL:
        return call_function(machine, node, ret);
    case NODE_FUNCTION:
        *ret = (struct value){.type = VALUE_FUNCTION, .function = node};
        return true;
    case NODE_PROTECTED:
        return script_run_protect(machine, node, ret);
    case NODE_FIRST:
        return script_run_evaluate(machine, node->a, ret);
    case NODE_UNARY:
        return evaluate_unary(machine, node, ret);
    case NODE_BINARY:
        return evaluate_binary(machine, node, ret);
    case NODE_AND:
    case NODE_OR:
        return script_run_evaluate(machine, node->a, ret) &&
               (value_is_true(ret) == (node->kind == NODE_OR) ||
                script_run_evaluate(machine, node->b, ret));
    default:
        return true; /* nil; statements are not evaluated. */
    }
}

/* Enters another level; false, with the error, if there are too many. */
static bool script_run_go_down(struct script_machine *machine)
{
    return ++machine->depth <= DEPTH_MAX ||
           machine_fail(machine, "nested too deeply");
}

static bool script_run_evaluate(struct script_machine *machine,
                                const struct script_node *node,
                                struct value *ret)
{
    const struct script_node *outer = machine->node;
    machine->node = node;
    bool is_good = machine_step(machine) && script_run_go_down(machine);
    if (is_good) {
        is_good = evaluate_inner(machine, node, ret);
        CHECK(machine->depth > 0);
        machine->depth--;
    }
    machine->node = outer; /* Also after an error that pcall() catches. */
    return is_good;
}

/* --- Statements ----------------------------------------------------------- */

static bool script_run_assign(struct script_machine *machine,
                              const struct script_node *node)
{
    struct value_table list = {0};
    uint32_t at = 0;
    if (!script_run_gather(machine, node->b, &list)) {
        return false;
    }
    for (const struct script_node *target = node->a; target != NULL;
         target = target->next) {
        struct value value = at < list.count
                                 ? list.item[at++]
                                 : (struct value){.type = VALUE_NIL};
        machine->node = target;
        if (target->kind == NODE_LOCAL) {
            *local_of(machine, target) = value;
        } else if (!set_item(machine, target, &value)) {
            return false;
        }
    }
    return true;
}

/* Runs the block of a loop. False: the loop is over, with '*flow'. */
static bool go_round(struct script_machine *machine,
                     const struct script_node *node, enum flow *flow)
{
    *flow = machine_step(machine) ? script_run_carry_out(machine, node->b)
                                  : FLOW_ERROR;
    if (*flow == FLOW_ON) {
        return true;
    }
    *flow = *flow == FLOW_BREAK ? FLOW_ON : *flow;
    return false;
}

static enum flow run_count(struct script_machine *machine,
                           const struct script_node *node)
{
    double number[3] = {0, 0, 1};
    int count = 0;
    enum flow flow = FLOW_ON;
    for (const struct script_node *n = node->a; n != NULL; n = n->next) {
        struct value value;
        if (!script_run_evaluate(machine, n, &value)) {
            return FLOW_ERROR;
        }
        CHECK(count < 3); /* The parser has checked the count. */
        if (!machine_number(machine, &value, &number[count++])) {
            machine_fail(machine, "for: expected a number, got a %s value",
                         value_type_name(&value));
            return FLOW_ERROR;
        }
    }
    for (double i = number[0]; number[2] > 0 ? i <= number[1] : i >= number[1];
         i += number[2]) {
        *slot_of(machine->local, node) = value_of_number(i);
        if (!go_round(machine, node, &flow)) {
            break;
        }
    }
    return flow;
}

static enum flow run_each(struct script_machine *machine,
                          const struct script_node *node)
{
    struct value list;
    struct value *local = slot_of(machine->local, node);
    enum flow flow = FLOW_ON;
    if (!script_run_evaluate(machine, node->a, &list)) {
        return FLOW_ERROR;
    }
    if (list.type != VALUE_TABLE) {
        machine_fail(machine, "for .. in: expected a list, got a %s value",
                     value_type_name(&list));
        return FLOW_ERROR;
    }
    for (uint32_t i = 0; i < list.table->count; i++) {
        /* ipairs ends at the first nil, pairs skips it. */
        if (list.table->item[i].type == VALUE_NIL) {
            if (node->op == 0) {
                break;
            }
            continue;
        }
        local[0] = value_of_number(i + 1);
        local[1] = list.table->item[i];
        if (!go_round(machine, node, &flow)) {
            return flow;
        }
    }
    for (const struct value_field *f = list.table->fields;
         f != NULL && node->op != 0; f = f->next) {
        if (f->value.type == VALUE_NIL) {
            continue;
        }
        local[0] = value_of_text(f->name);
        local[1] = f->value;
        if (!go_round(machine, node, &flow)) {
            return flow;
        }
    }
    return flow;
}

static enum flow run_while(struct script_machine *machine,
                           const struct script_node *node)
{
    bool is_repeat = node->kind == NODE_REPEAT;
    struct value value;
    enum flow flow = FLOW_ON;
    for (;;) {
        if (is_repeat && !go_round(machine, node, &flow)) {
            return flow;
        }
        if (!script_run_evaluate(machine, node->a, &value)) {
            return FLOW_ERROR;
        }
        if (value_is_true(&value) == is_repeat ||
            (!is_repeat && !go_round(machine, node, &flow))) {
            return flow;
        }
    }
}

static enum flow run_if(struct script_machine *machine,
                        const struct script_node *node)
{
    while (node != NULL && node->kind == NODE_IF) {
        struct value value;
        if (!script_run_evaluate(machine, node->a, &value)) {
            return FLOW_ERROR;
        }
        if (value_is_true(&value)) {
            return script_run_carry_out(machine, node->b);
        }
        node = node->c;
    }
    return node != NULL ? script_run_carry_out(machine, node->b) : FLOW_ON;
}

static bool script_run_give_back(struct script_machine *machine,
                                 const struct script_node *node)
{
    struct value_table results = {0};
    bool is_good = script_run_gather(machine, node->a, &results);
    machine->results = results;
    return is_good;
}

static enum flow run_statement(struct script_machine *machine,
                               const struct script_node *node)
{
    struct value value = {.type = VALUE_NIL};
    switch ((enum node_kind)node->kind) {
    case NODE_ASSIGN:
        return script_run_assign(machine, node) ? FLOW_ON : FLOW_ERROR;
    case NODE_IF:
        return run_if(machine, node);
    case NODE_WHILE:
    case NODE_REPEAT:
        return run_while(machine, node);
    case NODE_COUNT:
        return run_count(machine, node);
    case NODE_EACH:
        return run_each(machine, node);
    case NODE_DO:
        return script_run_carry_out(machine, node->b);
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_RETURN:
        return script_run_give_back(machine, node) ? FLOW_RETURN : FLOW_ERROR;
    default:
        return script_run_evaluate(machine, node->a, &value) ? FLOW_ON
                                                             : FLOW_ERROR;
    }
}

static enum flow script_run_carry_out(struct script_machine *machine,
                                      const struct script_node *block)
{
    enum flow flow = FLOW_ON;
    const struct script_node *outer = machine->node;
    if (block == NULL) {
        return FLOW_ON;
    }
    machine->node = block;
    if (!script_run_go_down(machine)) {
        return FLOW_ERROR;
    }
    for (const struct script_node *n = block; n != NULL && flow == FLOW_ON;
         n = n->next) {
        machine->node = n;
        /* Each statement is a step, so that an endless loop ends at the
         * script's limit. */
        flow = machine_step(machine) ? run_statement(machine, n) : FLOW_ERROR;
    }
    CHECK(machine->depth > 0);
    machine->depth--;
    machine->node = outer;
    return flow;
}

static struct value list_of(struct arena *arena, const struct bytes *texts,
                            uint32_t count)
{
    struct value list = value_new_table(arena);
    for (uint32_t i = 0; i < count; i++) {
        struct value text = value_of_text(texts[i]);
        value_append(arena, list.table, &text);
    }
    return list;
}

bool script_run(const struct script *script, struct script_run *run,
                struct value *ret, struct script_error *error)
{
    struct value local[SCRIPT_LOCALS_MAX] = {{.type = VALUE_NIL}};
    struct script_machine machine = {
        .run = run,
        .error = error,
        .keys = list_of(run->arena, run->key, run->key_count),
        .argv = list_of(run->arena, run->argument, run->argument_count),
        .outer = local,
        .local = local,
    };
    CHECK(script->local_count <= SCRIPT_LOCALS_MAX && run->call != NULL &&
          run->call_steps != NULL);
    enum flow flow = script_run_carry_out(&machine, script->body);
    /* The parser has found the loop of each break. */
    CHECK(flow != FLOW_BREAK);
    run->steps = machine.steps + *run->call_steps;
    *ret = flow == FLOW_RETURN ? script_run_first_of(&machine.results)
                               : (struct value){.type = VALUE_NIL};
    return flow != FLOW_ERROR;
}
