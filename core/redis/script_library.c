/* SPDX-License-Identifier: MIT */

/* The functions of scripts: those of Redis, and those of Lua that lock scripts
 * use. Source: Lua 5.1 Reference Manual, section 5. */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_machine.h"
#include "core/redis/script_pattern.h"

#define FORMAT_WIDTH_MAX 99 /* Lua has the same bound. */

/* The arguments and the result of a call, whose node is machine->node. */
struct builtin_call {
    struct script_machine *machine;
    /* It has at least as many items as the function's row demands. */
    const struct value_table *list;
    struct value *ret; /* nil until it is set. */
};

static enum builtin op_of(const struct builtin_call *call)
{
    CHECK(call->machine->node->kind == NODE_BUILTIN);
    return (enum builtin)call->machine->node->op;
}

static const char *script_library_name_of(const struct builtin_call *call);

static bool script_library_give(const struct builtin_call *call,
                                struct value value)
{
    *call->ret = value;
    return true;
}

static struct value script_library_nil(void)
{
    return (struct value){.type = VALUE_NIL};
}

/* --- Arguments ------------------------------------------------------------ */

/* Reads the argument 'at' as a number; 'otherwise' if it is omitted. */
static bool script_library_take_number(const struct builtin_call *call,
                                       uint32_t at, double otherwise,
                                       double *ret_number)
{
    *ret_number = otherwise;
    if (at >= call->list->count || call->list->item[at].type == VALUE_NIL ||
        machine_number(call->machine, &call->list->item[at], ret_number)) {
        return true;
    }
    return machine_fail(call->machine, "%s: expected a number, got a %s value",
                        script_library_name_of(call),
                        value_type_name(&call->list->item[at]));
}

/* The same for a number that becomes an index, which 0/0 and 1/0 cannot. */
static bool script_library_take_place(const struct builtin_call *call,
                                      uint32_t at, double otherwise,
                                      double *ret_place)
{
    return script_library_take_number(call, at, otherwise, ret_place) &&
           (isfinite(*ret_place) ||
            machine_fail(call->machine, "%s: expected a finite number",
                         script_library_name_of(call)));
}

static bool script_library_take_text(const struct builtin_call *call,
                                     uint32_t at, struct bytes *ret_text)
{
    /* library_run() and the caller have checked the count. */
    CHECK(at < call->list->count);
    const struct value *value = &call->list->item[at];
    if (value->type != VALUE_TEXT && value->type != VALUE_NUMBER) {
        return machine_fail(
            call->machine, "%s: expected a string, got a %s value",
            script_library_name_of(call), value_type_name(value));
    }
    if (!machine_text(call->machine, value, LUA_DIGITS, ret_text)) {
        return false;
    }
    machine_count_bytes(call->machine, ret_text->size);
    return true;
}

/* The first argument; NULL, with an error, if it is not a table. */
static struct value_table *take_table(const struct builtin_call *call)
{
    if (call->list->item[0].type != VALUE_TABLE) {
        machine_fail(call->machine, "%s: expected a list, got a %s value",
                     script_library_name_of(call),
                     value_type_name(&call->list->item[0]));
        return NULL;
    }
    return call->list->item[0].table;
}

/* --- Building texts ------------------------------------------------------- */

bool text_add(struct text *text, struct bytes more)
{
    if (more.size > text->capacity - text->size) {
        size_t capacity = 2 * text->capacity + more.size + 32;
        if (!machine_spend(text->machine, capacity)) {
            return false;
        }
        uint8_t *data = arena_take(text->machine->run->arena, capacity);
        if (text->size > 0) {
            memcpy(data, text->data, text->size);
        }
        text->data = data;
        text->capacity = capacity;
    }
    CHECK(more.size <= text->capacity - text->size);
    if (more.size > 0) {
        memcpy(text->data + text->size, more.data, more.size);
    }
    text->size += more.size;
    return true;
}

static struct value text_value(const struct text *text)
{
    return value_of_text(bytes_of(text->data, text->size));
}

/* --- Redis ---------------------------------------------------------------- */

/* The text of an error as a script sees it, which begins with a code. */
static struct bytes with_code(struct arena *arena, struct bytes text)
{
    char coded[SCRIPT_ERROR_SIZE];
    if (text.size > 1 && isupper(text.data[0]) && isupper(text.data[1])) {
        return text; /* It begins with a code, such as WRONGTYPE. */
    }
    int size = snprintf(coded, sizeof coded, "ERR %.*s", (int)text.size,
                        (const char *)text.data);
    CHECK(size > 0 && (size_t)size < sizeof coded);
    return arena_copy(arena, bytes_of(coded, (size_t)size));
}

static bool script_library_ask(const struct builtin_call *call)
{
    const struct script_run *run = call->machine->run;
    struct bytes *argument;
    if (!machine_spend(call->machine, call->list->count * sizeof *argument)) {
        return false;
    }
    argument = arena_take(run->arena, call->list->count * sizeof *argument);
    for (uint32_t i = 0; i < call->list->count; i++) {
        const struct value *value = &call->list->item[i];
        if (value->type != VALUE_TEXT && value->type != VALUE_NUMBER) {
            return machine_fail(call->machine,
                                "redis.call: argument %u is a %s value; it "
                                "must be a string or number",
                                i + 1, value_type_name(value));
        }
        if (!machine_text(call->machine, value, CALL_DIGITS, &argument[i])) {
            return false;
        }
        machine_count_bytes(call->machine, argument[i].size);
    }
    if (!machine_spend(call->machine, 256)) { /* The answer may need as much. */
        return false;
    }
    if (run->call(run->data, argument, call->list->count, call->ret)) {
        return true;
    }
    if (op_of(call) == BUILTIN_PCALL) {
        return script_library_give(
            call, value_of_status(run->arena, "err",
                                  with_code(run->arena, call->ret->text)));
    }
    return machine_fail(call->machine, "%.*s", (int)call->ret->text.size,
                        (const char *)call->ret->text.data);
}

/* Runs assert(value, why) and error(why). */
static bool raise_error(const struct builtin_call *call)
{
    uint32_t at = op_of(call) == BUILTIN_ASSERT ? 1 : 0;
    struct bytes why = BYTES_LITERAL("assertion failed!");
    CHECK(call->list->count > 0); /* The function's row demands one argument. */
    *call->ret = call->list->item[0];
    if (at == 1 && value_is_true(call->ret)) {
        return true;
    }
    if (at < call->list->count && call->list->item[at].type == VALUE_TABLE) {
        const struct value *err = value_field(call->list->item[at].table,
                                              "err");
        why = err != NULL && err->type == VALUE_TEXT ? err->text : why;
    } else if (at < call->list->count &&
               !script_library_take_text(call, at, &why)) {
        return false;
    }
    return machine_fail(call->machine, "%.*s", (int)why.size,
                        (const char *)why.data);
}

/* --- Strings -------------------------------------------------------------- */

static bool run_sub(const struct builtin_call *call)
{
    struct bytes text;
    if (!script_library_take_text(call, 0, &text)) {
        return false;
    }
    double from, to, size = (double)text.size;
    /* NaN would pass the comparisons below, so it is refused here. */
    if (!script_library_take_place(call, 1, 1, &from) ||
        !script_library_take_place(call, 2, -1, &to)) {
        return false;
    }
    from = from < 0 ? size + from + 1 : from;
    to = to < 0 ? size + to + 1 : to;
    from = from < 1 ? 1 : number_floor(from);
    to = to > size ? size : number_floor(to);
    if (from > to) {
        return script_library_give(call,
                                   value_of_text((struct bytes){NULL, 0}));
    }
    CHECK(from >= 1 && to <= size);
    return script_library_give(
        call, value_of_text(bytes_of(text.data + (size_t)from - 1,
                                     (size_t)to - (size_t)from + 1)));
}

/* Runs string.lower() and string.upper(). */
static bool run_case(const struct builtin_call *call)
{
    uint8_t first = op_of(call) == BUILTIN_LOWER ? 'A' : 'a';
    struct bytes text;
    if (!script_library_take_text(call, 0, &text) ||
        !machine_spend(call->machine, text.size)) {
        return false;
    }
    uint8_t *copy = arena_take(call->machine->run->arena, text.size);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        copy[i] = c >= first && c < first + 26 ? c ^ 0x20 : c;
    }
    return script_library_give(call, value_of_text(bytes_of(copy, text.size)));
}

static bool run_len(const struct builtin_call *call)
{
    struct bytes text;
    return script_library_take_text(call, 0, &text) &&
           script_library_give(call, value_of_number((double)text.size));
}

static bool run_decode(const struct builtin_call *call)
{
    struct bytes text;
    return script_library_take_text(call, 0, &text) &&
           json_decode(call->machine, text, call->ret);
}

/* Runs redis.status_reply() and redis.error_reply(). */
static bool script_library_run_status(const struct builtin_call *call)
{
    const char *field = op_of(call) == BUILTIN_STATUS ? "ok" : "err";
    struct bytes text;
    if (!script_library_take_text(call, 0, &text)) {
        return false;
    }
    if (call->list->item[0].type != VALUE_TEXT) {
        return machine_fail(call->machine,
                            "%s: expected a string, got a number",
                            script_library_name_of(call));
    }
    return script_library_give(
        call, value_of_status(call->machine->run->arena, field, text));
}

/* One item of string.format(): %[-0][width][.precision]kind. */
struct format_item {
    bool is_left;
    bool is_zero;
    int width;
    int precision; /* -1 if there is none. */
    uint8_t kind;  /* 0 if the format is wrong. */
};

static int take_digits(struct bytes format, size_t *at)
{
    int number = 0;
    while (*at < format.size && format.data[*at] >= '0' &&
           format.data[*at] <= '9' && number <= FORMAT_WIDTH_MAX) {
        number = 10 * number + format.data[(*at)++] - '0';
    }
    return number;
}

static struct format_item take_item(struct bytes format, size_t *at)
{
    struct format_item item = {.precision = -1};
    for (; *at < format.size; ++*at) {
        if (format.data[*at] == '-') {
            item.is_left = true;
        } else if (format.data[*at] == '0') {
            item.is_zero = true;
        } else {
            break;
        }
    }
    item.width = take_digits(format, at);
    if (*at < format.size && format.data[*at] == '.') {
        ++*at;
        item.precision = take_digits(format, at);
    }
    /* The format is a client's: the bound keeps one item's output within its
     * buffer. */
    bool is_good = *at < format.size && item.width <= FORMAT_WIDTH_MAX &&
                   item.precision <= FORMAT_WIDTH_MAX;
    item.kind = is_good ? format.data[(*at)++] : 0;
    CHECK(*at <= format.size);
    return item;
}

/* Writes a number as the item demands. */
static void show_number(const struct format_item *item, double number,
                        char *out, size_t size)
{
    int width = item->is_left ? -item->width : item->width;
    bool is_zero = item->is_zero && !item->is_left;
    /* Beyond this range C does not define the conversion. */
    long long whole = number > -9e18 && number < 9e18 ? (long long)number : 0;
    int precision = item->precision < 0 ? 6 : item->precision;
    switch (item->kind) {
    case 'x':
        snprintf(out, size, is_zero ? "%0*llx" : "%*llx", width,
                 (unsigned long long)whole);
        break;
    case 'f':
        snprintf(out, size, is_zero ? "%0*.*f" : "%*.*f", width, precision,
                 number);
        break;
    case 'g':
        snprintf(out, size, is_zero ? "%0*.*g" : "%*.*g", width, precision,
                 number);
        break;
    default:
        snprintf(out, size, is_zero ? "%0*lld" : "%*lld", width, whole);
    }
}

static bool script_library_add_item(const struct builtin_call *call,
                                    struct text *text,
                                    const struct format_item *item, uint32_t at)
{
    /* Space for 309 digits, or for FORMAT_WIDTH_MAX, and for as many after the
     * point. */
    char shown[512];
    struct bytes word = {NULL, 0};
    double number;
    if (at >= call->list->count) {
        return machine_fail(call->machine,
                            "string.format: an argument is missing");
    }
    if (item->kind != 's') {
        if (item->kind == 0 || strchr("dixfg", item->kind) == NULL ||
            (item->precision >= 0 && strchr("fg", item->kind) == NULL)) {
            return machine_fail(call->machine,
                                "string.format: hasp supports only %%d, %%i, "
                                "%%x, %%f, %%g and %%s");
        }
        if (!script_library_take_number(call, at, 0, &number)) {
            return false;
        }
        machine_count_digits(call->machine, number,
                             item->precision > 0 ? item->precision : 0);
        show_number(item, number, shown, sizeof shown);
        return text_add(text, bytes_of_text(shown));
    }
    if (!script_library_take_text(call, at, &word)) {
        return false;
    }
    if (item->precision >= 0 && word.size > (size_t)item->precision) {
        word.size = (size_t)item->precision;
    }
    int width = item->width - (word.size > 99 ? 99 : (int)word.size);
    snprintf(shown, sizeof shown, "%*s", width > 0 ? width : 0, "");
    return (item->is_left || text_add(text, bytes_of_text(shown))) &&
           text_add(text, word) &&
           (!item->is_left || text_add(text, bytes_of_text(shown)));
}

static bool run_format(const struct builtin_call *call)
{
    struct text text = {.machine = call->machine};
    struct bytes format;
    uint32_t argument = 1;
    if (!script_library_take_text(call, 0, &format)) {
        return false;
    }
    for (size_t at = 0; at < format.size;) {
        struct bytes c = bytes_of(format.data + at++, 1);
        if (!machine_step(call->machine)) {
            return false;
        }
        if (c.data[0] == '%' && at < format.size && format.data[at] != '%') {
            struct format_item item = take_item(format, &at);
            if (!script_library_add_item(call, &text, &item, argument++)) {
                return false;
            }
        } else {
            at += c.data[0] == '%'; /* "%%" */
            if (!text_add(&text, c)) {
                return false;
            }
        }
    }
    return script_library_give(call, text_value(&text));
}

/* --- Patterns ------------------------------------------------------------- */

static bool find_next(const struct builtin_call *call, struct bytes text,
                      struct bytes pattern, size_t from,
                      struct pattern_match *ret_match, bool *ret_found)
{
    uint32_t taken = *call->machine->run->call_steps;
    if (!machine_step(call->machine)) {
        return false; /* No step is left. */
    }
    /* Otherwise the difference would wrap around. */
    CHECK(taken < SCRIPT_STEPS_MAX);
    *ret_found = pattern_find(text, pattern, from, &call->machine->steps,
                              SCRIPT_STEPS_MAX - taken, ret_match);
    if (!*ret_found && ret_match->error != NULL) {
        return machine_fail(call->machine, "%s: %s",
                            script_library_name_of(call), ret_match->error);
    }
    return true;
}

static bool add_result(const struct builtin_call *call, struct value value)
{
    return machine_add(call->machine, &call->machine->results, &value);
}

static struct value capture_of(struct bytes text,
                               const struct pattern_match *match, uint32_t i)
{
    size_t from = match->from, size = match->to - match->from;
    CHECK(match->from <= match->to && match->to <= text.size);
    if (i < match->count) {
        from = match->capture[i].from;
        size = match->capture[i].size;
    }
    return size == PATTERN_POSITION
               ? value_of_number((double)from + 1)
               : value_of_text(bytes_of(text.data + from, size));
}

/* True if string.find() searches for the pattern as plain text. */
static bool is_plain(const struct value_table *list, struct bytes pattern)
{
    if (list->count > 3 && value_is_true(&list->item[3])) {
        return true;
    }
    for (size_t i = 0; i < pattern.size; i++) {
        if (pattern.data[i] == '\0' ||
            strchr("^$*+?.([%-", pattern.data[i]) != NULL) {
            return false;
        }
    }
    return true;
}

static bool find_plain(const struct builtin_call *call, struct bytes text,
                       struct bytes word, size_t from,
                       struct pattern_match *ret_match, bool *ret_found)
{
    *ret_match = (struct pattern_match){.count = 0};
    CHECK(from <= text.size); /* run_find() has checked this. */
    *ret_found = false;
    for (; from + word.size <= text.size && !*ret_found; from++) {
        if (!machine_step(call->machine)) {
            return false;
        }
        call->machine->steps += (uint32_t)(word.size / SCRIPT_STEP_SIZE);
        *ret_found = word.size == 0 ||
                     memcmp(text.data + from, word.data, word.size) == 0;
        ret_match->from = from;
        ret_match->to = from + word.size;
    }
    return true;
}

/* Runs string.find() and string.match(). */
static bool run_find(const struct builtin_call *call)
{
    struct bytes text, pattern;
    struct pattern_match match;
    bool is_find = op_of(call) == BUILTIN_FIND, is_found;
    double init;
    /* NaN would pass the comparisons below: script_library_take_place() refuses
     * it. */
    if (!script_library_take_text(call, 0, &text) ||
        !script_library_take_text(call, 1, &pattern) ||
        !script_library_take_place(call, 2, 1, &init)) {
        return false;
    }
    double size = (double)text.size;
    init = init < 0 ? size + init + 1 : init;
    init = init < 1 ? 1 : init > size + 1 ? size + 1 : number_floor(init);
    CHECK(init >= 1 && init <= size + 1);
    size_t from = (size_t)init - 1;
    if (!(is_find && is_plain(call->list, pattern) ? find_plain : find_next)(
            call, text, pattern, from, &match, &is_found)) {
        return false;
    }
    if (!is_found) {
        return add_result(call, script_library_nil());
    }
    if (is_find &&
        !(add_result(call, value_of_number((double)match.from + 1)) &&
          add_result(call, value_of_number((double)match.to)))) {
        return false;
    }
    uint32_t count = match.count > 0 || is_find ? match.count : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!add_result(call, capture_of(text, &match, i))) {
            return false;
        }
    }
    return true;
}

/* Adds the replacement of a match, in which %0 to %9 are its captures. */
static bool add_replacement(struct text *out, struct bytes text,
                            struct bytes with,
                            const struct pattern_match *match)
{
    for (size_t i = 0; i < with.size; i++) {
        struct bytes piece = bytes_of(with.data + i, 1);
        uint8_t next = i + 1 < with.size ? with.data[i + 1] : 0;
        /* Each byte costs a step: a long text must not hold up the leader. */
        if (!machine_step(out->machine)) {
            return false;
        }
        if (piece.data[0] == '%' && next >= '0' && next <= '9') {
            uint32_t place = next == '0' ? match->count
                                         : (uint32_t)(next - '1');
            if (place > match->count ||
                (place == match->count && place > 0 && next != '0')) {
                return machine_fail(out->machine,
                                    "string.gsub: invalid capture index");
            }
            struct value value = capture_of(text, match, place);
            if (!machine_text(out->machine, &value, LUA_DIGITS, &piece)) {
                return false;
            }
            i++;
        } else if (piece.data[0] == '%') {
            piece = bytes_of(with.data + i + 1, i + 1 < with.size);
            i++;
        }
        if (!text_add(out, piece)) {
            return false;
        }
    }
    return true;
}

static bool run_gsub(const struct builtin_call *call)
{
    struct text out = {.machine = call->machine};
    struct bytes text, pattern, with;
    struct pattern_match match;
    double max, count = 0;
    size_t at = 0;
    if (!script_library_take_text(call, 0, &text) ||
        !script_library_take_text(call, 1, &pattern) ||
        !script_library_take_text(call, 2, &with) ||
        !script_library_take_number(call, 3, (double)text.size + 1, &max)) {
        return false;
    }
    bool is_anchored = pattern.size > 0 && pattern.data[0] == '^';
    while (count < max && at <= text.size) {
        bool is_found;
        if (!find_next(call, text, pattern, at, &match, &is_found)) {
            return false;
        }
        if (!is_found) {
            break;
        }
        CHECK(match.from >= at && match.to >= match.from);
        count++;
        if (!text_add(&out, bytes_of(text.data + at, match.from - at)) ||
            !add_replacement(&out, text, with, &match)) {
            return false;
        }
        at = match.to;
        /* The match was empty, so one character is kept. */
        if (match.to == match.from) {
            if (at < text.size &&
                !text_add(&out, bytes_of(text.data + at, 1))) {
                return false;
            }
            at++;
        }
        if (is_anchored) {
            break;
        }
    }
    return (at >= text.size ||
            text_add(&out, bytes_of(text.data + at, text.size - at))) &&
           add_result(call, text_value(&out)) &&
           add_result(call, value_of_number(count));
}

/* --- Numbers and lists ---------------------------------------------------- */

static bool run_math(const struct builtin_call *call)
{
    double result = 0, number;
    for (uint32_t i = 0; i < call->list->count; i++) {
        if (!script_library_take_number(call, i, 0, &number)) {
            return false;
        }
        if (i == 0 || (op_of(call) == BUILTIN_MAX && number > result) ||
            (op_of(call) == BUILTIN_MIN && number < result)) {
            result = number;
        }
    }
    if (op_of(call) == BUILTIN_FLOOR) {
        result = number_floor(result);
    } else if (op_of(call) == BUILTIN_CEIL) {
        result = -number_floor(-result);
    } else if (op_of(call) == BUILTIN_ABS && result < 0) {
        result = -result;
    }
    *call->ret = value_of_number(result);
    return true;
}

static bool run_tostring(const struct builtin_call *call)
{
    const struct value *value = &call->list->item[0];
    struct bytes text = bytes_of_text(value_type_name(value));
    if (value->type == VALUE_FALSE || value->type == VALUE_TRUE) {
        text = bytes_of_text(value->type == VALUE_TRUE ? "true" : "false");
    } else if ((value->type == VALUE_TEXT || value->type == VALUE_NUMBER) &&
               !machine_text(call->machine, value, LUA_DIGITS, &text)) {
        return false;
    }
    return script_library_give(call, value_of_text(text));
}

static bool run_unpack(const struct builtin_call *call)
{
    const struct value_table *table = take_table(call);
    double from, to;
    if (table == NULL || !script_library_take_number(call, 1, 1, &from) ||
        !script_library_take_number(call, 2, table->count, &to)) {
        return false;
    }
    for (double i = from; i <= to; i++) {
        bool is_there = i >= 1 && i <= table->count && i == number_floor(i);
        if (!machine_step(call->machine) ||
            !add_result(call, is_there ? table->item[(uint32_t)i - 1]
                                       : script_library_nil())) {
            return false;
        }
    }
    return true;
}

/* Runs next(list), with which scripts check whether a table is empty: returns
 * the first item, or else a field, with its index or name. */
static bool run_next(const struct builtin_call *call)
{
    const struct value_table *table = take_table(call);
    if (table == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (!machine_step(call->machine)) {
            return false;
        }
        /* An item that was set to nil is gone for Lua, although its place is
         * kept. */
        if (table->item[i].type != VALUE_NIL) {
            return add_result(call, value_of_number((double)i + 1)) &&
                   add_result(call, table->item[i]);
        }
    }
    for (const struct value_field *f = table->fields; f != NULL; f = f->next) {
        if (!machine_step(call->machine)) {
            return false;
        }
        if (f->value.type != VALUE_NIL) {
            return add_result(call, value_of_text(f->name)) &&
                   add_result(call, f->value);
        }
    }
    return add_result(call, script_library_nil());
}

static bool run_insert(const struct builtin_call *call)
{
    struct value_table *to = take_table(call);
    /* The function's row demands two arguments. */
    CHECK(call->list->count >= 2);
    return to != NULL && machine_add(call->machine, to, &call->list->item[1]);
}

/* Runs table.remove(list, place); without a place it removes the last item. */
static bool run_remove(const struct builtin_call *call)
{
    struct value_table *from = take_table(call);
    double place;
    if (from == NULL ||
        !script_library_take_number(call, 1, from->count, &place)) {
        return false;
    }
    if (place >= 1 && place <= from->count && place == number_floor(place)) {
        uint32_t at = (uint32_t)place - 1;
        CHECK(at < from->count);
        *call->ret = from->item[at];
        call->machine->steps += (from->count - at) / SCRIPT_STEP_SIZE;
        from->count--;
        for (; at < from->count; at++) {
            from->item[at] = from->item[at + 1];
        }
    }
    return true;
}

static bool run_join(const struct builtin_call *call)
{
    struct text text = {.machine = call->machine};
    struct value_table *table = take_table(call);
    struct bytes between = {NULL, 0}, word;
    if (table == NULL || (call->list->count > 1 &&
                          !script_library_take_text(call, 1, &between))) {
        return false;
    }
    struct builtin_call items = {.machine = call->machine, .list = table};
    for (uint32_t i = 0; i < table->count; i++) {
        if (!machine_step(call->machine) ||
            (i > 0 && !text_add(&text, between)) ||
            !script_library_take_text(&items, i, &word) ||
            !text_add(&text, word)) {
            return false;
        }
    }
    return script_library_give(call, text_value(&text));
}

static bool run_tonumber(const struct builtin_call *call)
{
    double number;
    if (call->list->count > 1) {
        return machine_fail(call->machine, "tonumber: a base");
    }
    if (machine_number(call->machine, &call->list->item[0], &number)) {
        *call->ret = value_of_number(number);
    }
    return true;
}

static bool run_type(const struct builtin_call *call)
{
    const char *name = value_type_name(&call->list->item[0]);
    return script_library_give(call, value_of_text(bytes_of_text(name)));
}

static bool run_getn(const struct builtin_call *call)
{
    const struct value_table *table = take_table(call);
    return table != NULL &&
           script_library_give(call, value_of_number(table->count));
}

static bool run_encode(const struct builtin_call *call)
{
    return json_encode(call->machine, &call->list->item[0], call->ret);
}

/* Runs a function that changes nothing here. */
static bool run_nothing(const struct builtin_call *call)
{
    return script_library_give(call, value_of_bool(true));
}

/* --- The table ------------------------------------------------------------ */

static const struct {
    struct library_function what;
    bool (*run)(const struct builtin_call *call);
} functions[] = {
    [BUILTIN_CALL] = {{"redis.call", 1, UINT32_MAX}, script_library_ask},
    [BUILTIN_PCALL] = {{"redis.pcall", 1, UINT32_MAX}, script_library_ask},
    [BUILTIN_STATUS] = {{"redis.status_reply", 1, 1},
                        script_library_run_status},
    [BUILTIN_ERROR] = {{"redis.error_reply", 1, 1}, script_library_run_status},
    [BUILTIN_LOG] = {{"redis.log", 2, UINT32_MAX}, run_nothing},
    [BUILTIN_REPLICATE] = {{"redis.replicate_commands", 0, 0}, run_nothing},
    [BUILTIN_TONUMBER] = {{"tonumber", 1, 1}, run_tonumber},
    [BUILTIN_TOSTRING] = {{"tostring", 1, 1}, run_tostring},
    [BUILTIN_TYPE] = {{"type", 1, 1}, run_type},
    [BUILTIN_ASSERT] = {{"assert", 1, 2}, raise_error},
    [BUILTIN_RAISE] = {{"error", 1, 2}, raise_error},
    [BUILTIN_UNPACK] = {{"unpack", 1, 3}, run_unpack},
    [BUILTIN_TABLE_UNPACK] = {{"table.unpack", 1, 3}, run_unpack},
    [BUILTIN_NEXT] = {{"next", 1, 1}, run_next},
    [BUILTIN_FIND] = {{"string.find", 2, 4}, run_find},
    [BUILTIN_MATCH] = {{"string.match", 2, 3}, run_find},
    [BUILTIN_GSUB] = {{"string.gsub", 3, 4}, run_gsub},
    [BUILTIN_DECODE] = {{"cjson.decode", 1, 1}, run_decode},
    [BUILTIN_ENCODE] = {{"cjson.encode", 1, 1}, run_encode},
    [BUILTIN_INSERT] = {{"table.insert", 2, 2}, run_insert},
    [BUILTIN_REMOVE] = {{"table.remove", 1, 2}, run_remove},
    [BUILTIN_GETN] = {{"table.getn", 1, 1}, run_getn},
    [BUILTIN_JOIN] = {{"table.concat", 1, 2}, run_join},
    [BUILTIN_SUB] = {{"string.sub", 2, 3}, run_sub},
    [BUILTIN_LEN] = {{"string.len", 1, 1}, run_len},
    [BUILTIN_LOWER] = {{"string.lower", 1, 1}, run_case},
    [BUILTIN_UPPER] = {{"string.upper", 1, 1}, run_case},
    [BUILTIN_FORMAT] = {{"string.format", 1, UINT32_MAX}, run_format},
    [BUILTIN_FLOOR] = {{"math.floor", 1, 1}, run_math},
    [BUILTIN_CEIL] = {{"math.ceil", 1, 1}, run_math},
    [BUILTIN_ABS] = {{"math.abs", 1, 1}, run_math},
    [BUILTIN_MAX] = {{"math.max", 1, UINT32_MAX}, run_math},
    [BUILTIN_MIN] = {{"math.min", 1, UINT32_MAX}, run_math},
};

static const char *script_library_name_of(const struct builtin_call *call)
{
    return functions[op_of(call)].what.name;
}

const struct library_function *library_find(struct bytes name,
                                            enum builtin *ret_builtin)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (bytes_equal(name, bytes_of_text(functions[i].what.name))) {
            *ret_builtin = (enum builtin)i;
            return &functions[i].what;
        }
    }
    return NULL;
}

bool library_run(struct script_machine *machine, const struct value_table *list,
                 struct value *ret)
{
    const struct builtin_call call = {machine, list, ret};
    const struct script_node *node = machine->node;
    *ret = script_library_nil();
    CHECK(node->kind == NODE_BUILTIN &&
          node->op < sizeof functions / sizeof *functions);
    if (list->count < functions[node->op].what.min) {
        return machine_fail(machine, "%s: an argument is missing",
                            script_library_name_of(&call));
    }
    if (!node_has_several(node)) {
        return functions[node->op].run(&call);
    }
    /* Otherwise the results of an earlier call would be taken for those of this
     * one. */
    machine->results = (struct value_table){0};
    if (!functions[node->op].run(&call)) {
        return false;
    }
    if (machine->results.count > 0) {
        *ret = machine->results.item[0];
    }
    return true;
}
