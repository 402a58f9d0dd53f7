/* SPDX-License-Identifier: MIT */

/* The functions that scripts have: those of Redis, and of Lua what lock scripts
 * use. Source: Lua 5.1 Reference Manual, section 5. */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_machine.h"
#include "core/redis/script_pattern.h"

#define FORMAT_WIDTH_MAX 99 /* As in Lua. */

static const struct library_function functions[] = {
    [BUILTIN_CALL] = {"redis.call", 1, UINT32_MAX},
    [BUILTIN_PCALL] = {"redis.pcall", 1, UINT32_MAX},
    [BUILTIN_STATUS] = {"redis.status_reply", 1, 1},
    [BUILTIN_ERROR] = {"redis.error_reply", 1, 1},
    [BUILTIN_LOG] = {"redis.log", 2, UINT32_MAX},
    [BUILTIN_REPLICATE] = {"redis.replicate_commands", 0, 0},
    [BUILTIN_TONUMBER] = {"tonumber", 1, 1},
    [BUILTIN_TOSTRING] = {"tostring", 1, 1},
    [BUILTIN_TYPE] = {"type", 1, 1},
    [BUILTIN_ASSERT] = {"assert", 1, 2},
    [BUILTIN_RAISE] = {"error", 1, 2},
    [BUILTIN_UNPACK] = {"unpack", 1, 3},
    [BUILTIN_TABLE_UNPACK] = {"table.unpack", 1, 3},
    [BUILTIN_NEXT] = {"next", 1, 1},
    [BUILTIN_FIND] = {"string.find", 2, 4},
    [BUILTIN_MATCH] = {"string.match", 2, 3},
    [BUILTIN_GSUB] = {"string.gsub", 3, 4},
    [BUILTIN_DECODE] = {"cjson.decode", 1, 1},
    [BUILTIN_ENCODE] = {"cjson.encode", 1, 1},
    [BUILTIN_INSERT] = {"table.insert", 2, 2},
    [BUILTIN_REMOVE] = {"table.remove", 1, 2},
    [BUILTIN_GETN] = {"table.getn", 1, 1},
    [BUILTIN_JOIN] = {"table.concat", 1, 2},
    [BUILTIN_SUB] = {"string.sub", 2, 3},
    [BUILTIN_LEN] = {"string.len", 1, 1},
    [BUILTIN_LOWER] = {"string.lower", 1, 1},
    [BUILTIN_UPPER] = {"string.upper", 1, 1},
    [BUILTIN_FORMAT] = {"string.format", 1, UINT32_MAX},
    [BUILTIN_FLOOR] = {"math.floor", 1, 1},
    [BUILTIN_CEIL] = {"math.ceil", 1, 1},
    [BUILTIN_ABS] = {"math.abs", 1, 1},
    [BUILTIN_MAX] = {"math.max", 1, UINT32_MAX},
    [BUILTIN_MIN] = {"math.min", 1, UINT32_MAX},
};

const struct library_function *library_find(struct bytes name,
                                            enum builtin *ret_builtin)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (bytes_equal(name, bytes_of_text(functions[i].name))) {
            *ret_builtin = (enum builtin)i;
            return &functions[i];
        }
    }
    return NULL;
}

static struct value nil(void)
{
    return (struct value){.type = VALUE_NIL};
}

/* --- Arguments ------------------------------------------------------------ */

/* The argument 'at', which may be left out. */
static bool take_number(struct machine *machine, const struct node *node,
                        const struct value_table *list, uint32_t at,
                        double otherwise, double *ret_number)
{
    *ret_number = otherwise;
    if (at >= list->count || list->item[at].type == VALUE_NIL ||
        machine_number(machine, &list->item[at], ret_number)) {
        return true;
    }
    return machine_fail(machine, node, "%s: a number expected, not a %s value",
                        functions[node->op].name,
                        value_type_name(&list->item[at]));
}

/* Likewise, a number that becomes a place: 0/0 and 1/0 are none. */
static bool take_place(struct machine *machine, const struct node *node,
                       const struct value_table *list, uint32_t at,
                       double otherwise, double *ret_place)
{
    return take_number(machine, node, list, at, otherwise, ret_place) &&
           (isfinite(*ret_place) ||
            machine_fail(machine, node, "%s: a finite number expected",
                         functions[node->op].name));
}

static bool take_text(struct machine *machine, const struct node *node,
                      const struct value_table *list, uint32_t at,
                      struct bytes *ret_text)
{
    CHECK(at < list->count); /* library_run() and who calls have looked. */
    const struct value *value = &list->item[at];
    if (value->type != VALUE_TEXT && value->type != VALUE_NUMBER) {
        return machine_fail(machine, node,
                            "%s: a string expected, not a %s value",
                            functions[node->op].name, value_type_name(value));
    }
    if (!machine_text(machine, node, value, LUA_DIGITS, ret_text)) {
        return false;
    }
    machine_count_bytes(machine, ret_text->size);
    return true;
}

/* The first argument; NULL, with an error: it is no table. */
static struct value_table *take_table(struct machine *machine,
                                      const struct node *node,
                                      const struct value_table *list)
{
    if (list->item[0].type != VALUE_TABLE) {
        machine_fail(machine, node, "%s: a list expected, not a %s value",
                     functions[node->op].name, value_type_name(&list->item[0]));
        return NULL;
    }
    return list->item[0].table;
}

/* --- Texts that are made -------------------------------------------------- */

bool text_add(struct text *text, struct bytes more)
{
    if (more.size > text->capacity - text->size) {
        size_t capacity = 2 * text->capacity + more.size + 32;
        if (!machine_spend(text->machine, text->node, capacity)) {
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

/* The text of an error as a script sees it: it begins with its code. */
static struct bytes with_code(struct arena *arena, struct bytes text)
{
    char coded[SCRIPT_ERROR_SIZE];
    if (text.size > 1 && isupper(text.data[0]) && isupper(text.data[1])) {
        return text; /* WRONGTYPE. */
    }
    int size = snprintf(coded, sizeof coded, "ERR %.*s", (int)text.size,
                        (const char *)text.data);
    CHECK(size > 0 && (size_t)size < sizeof coded);
    return arena_copy(arena, bytes_of(coded, (size_t)size));
}

static bool ask(struct machine *machine, const struct node *node,
                const struct value_table *list, struct value *ret)
{
    const struct script_run *run = machine->run;
    struct bytes *argument;
    if (!machine_spend(machine, node, list->count * sizeof *argument)) {
        return false;
    }
    argument = arena_take(run->arena, list->count * sizeof *argument);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct value *value = &list->item[i];
        if (value->type != VALUE_TEXT && value->type != VALUE_NUMBER) {
            return machine_fail(machine, node,
                                "redis.call: argument %u is a %s value, not a "
                                "string or number",
                                i + 1, value_type_name(value));
        }
        if (!machine_text(machine, node, value, CALL_DIGITS, &argument[i])) {
            return false;
        }
        machine_count_bytes(machine, argument[i].size);
    }
    if (!machine_spend(machine, node, 256)) { /* What the answer may take. */
        return false;
    }
    if (run->call(run->data, argument, list->count, ret)) {
        return true;
    }
    if (node->op == BUILTIN_PCALL) {
        *ret = value_of_status(run->arena, "err",
                               with_code(run->arena, ret->text));
        return true;
    }
    return machine_fail(machine, node, "%.*s", (int)ret->text.size,
                        (const char *)ret->text.data);
}

/* assert(value, why) and error(why). */
static bool raise_error(struct machine *machine, const struct node *node,
                        const struct value_table *list, struct value *ret)
{
    uint32_t at = node->op == BUILTIN_ASSERT ? 1 : 0;
    struct bytes why = BYTES_LITERAL("assertion failed!");
    *ret = list->item[0];
    if (at == 1 && value_is_true(ret)) {
        return true;
    }
    if (at < list->count && list->item[at].type == VALUE_TABLE) {
        const struct value *err = value_field(list->item[at].table, "err");
        why = err != NULL && err->type == VALUE_TEXT ? err->text : why;
    } else if (at < list->count && !take_text(machine, node, list, at, &why)) {
        return false;
    }
    return machine_fail(machine, node, "%.*s", (int)why.size,
                        (const char *)why.data);
}

/* --- Strings -------------------------------------------------------------- */

static bool take_part(struct machine *machine, const struct node *node,
                      const struct value_table *list, struct bytes text,
                      struct value *ret)
{
    double from, to, size = (double)text.size;
    if (!take_place(machine, node, list, 1, 1, &from) ||
        !take_place(machine, node, list, 2, -1, &to)) {
        return false;
    }
    from = from < 0 ? size + from + 1 : from;
    to = to < 0 ? size + to + 1 : to;
    from = from < 1 ? 1 : number_floor(from);
    to = to > size ? size : number_floor(to);
    if (from > to) {
        *ret = value_of_text((struct bytes){NULL, 0});
        return true;
    }
    CHECK(from >= 1 && to <= size);
    *ret = value_of_text(
        bytes_of(text.data + (size_t)from - 1, (size_t)to - (size_t)from + 1));
    return true;
}

static bool change_case(struct machine *machine, const struct node *node,
                        struct bytes text, struct value *ret)
{
    uint8_t first = node->op == BUILTIN_LOWER ? 'A' : 'a';
    if (!machine_spend(machine, node, text.size)) {
        return false;
    }
    uint8_t *copy = arena_take(machine->run->arena, text.size);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        copy[i] = c >= first && c < first + 26 ? c ^ 0x20 : c;
    }
    *ret = value_of_text(bytes_of(copy, text.size));
    return true;
}

static bool run_text(struct machine *machine, const struct node *node,
                     const struct value_table *list, struct value *ret)
{
    struct bytes text;
    if (!take_text(machine, node, list, 0, &text)) {
        return false;
    }
    switch ((enum builtin)node->op) {
    case BUILTIN_DECODE:
        return json_decode(machine, node, text, ret);
    case BUILTIN_SUB:
        return take_part(machine, node, list, text, ret);
    case BUILTIN_LEN:
        *ret = value_of_number((double)text.size);
        return true;
    case BUILTIN_STATUS:
    case BUILTIN_ERROR:
        if (list->item[0].type != VALUE_TEXT) {
            return machine_fail(machine, node,
                                "%s: a string expected, not a number",
                                functions[node->op].name);
        }
        *ret = value_of_status(machine->run->arena,
                               node->op == BUILTIN_STATUS ? "ok" : "err", text);
        return true;
    default:
        return change_case(machine, node, text, ret);
    }
}

/* One of string.format()'s items: %[-0][width][.precision]kind. */
struct format_item {
    bool is_left;
    bool is_zero;
    int width;
    int precision; /* -1: none. */
    uint8_t kind;  /* 0: the format is none. */
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
    bool is_good = *at < format.size && item.width <= FORMAT_WIDTH_MAX &&
                   item.precision <= FORMAT_WIDTH_MAX;
    item.kind = is_good ? format.data[(*at)++] : 0;
    return item;
}

/* A number as the item shows it. */
static void show_number(const struct format_item *item, double number,
                        char *out, size_t size)
{
    int width = item->is_left ? -item->width : item->width;
    bool is_zero = item->is_zero && !item->is_left;
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

static bool add_item(struct text *text, const struct format_item *item,
                     const struct value_table *list, uint32_t at)
{
    char shown[512]; /* 309 digits, or FORMAT_WIDTH_MAX, and as many behind. */
    struct bytes word = {NULL, 0};
    double number;
    if (at >= list->count) {
        return machine_fail(text->machine, text->node,
                            "string.format: an argument is missing");
    }
    if (item->kind != 's') {
        if (item->kind == 0 || strchr("dixfg", item->kind) == NULL ||
            (item->precision >= 0 && strchr("fg", item->kind) == NULL)) {
            return machine_fail(text->machine, text->node,
                                "string.format: hasp has %%d, %%i, %%x, %%f, "
                                "%%g and %%s alone");
        }
        if (!take_number(text->machine, text->node, list, at, 0, &number)) {
            return false;
        }
        show_number(item, number, shown, sizeof shown);
        return text_add(text, bytes_of_text(shown));
    }
    if (!take_text(text->machine, text->node, list, at, &word)) {
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

static bool run_format(struct machine *machine, const struct node *node,
                       const struct value_table *list, struct value *ret)
{
    struct text text = {.machine = machine, .node = node};
    struct bytes format;
    uint32_t argument = 1;
    if (!take_text(machine, node, list, 0, &format)) {
        return false;
    }
    for (size_t at = 0; at < format.size;) {
        struct bytes c = bytes_of(format.data + at++, 1);
        if (!machine_step(machine, node)) {
            return false;
        }
        if (c.data[0] == '%' && at < format.size && format.data[at] != '%') {
            struct format_item item = take_item(format, &at);
            if (!add_item(&text, &item, list, argument++)) {
                return false;
            }
        } else {
            at += c.data[0] == '%'; /* "%%" */
            if (!text_add(&text, c)) {
                return false;
            }
        }
    }
    *ret = text_value(&text);
    return true;
}

/* --- Patterns ------------------------------------------------------------- */

static bool find_next(struct machine *machine, const struct node *node,
                      struct bytes text, struct bytes pattern, size_t from,
                      struct pattern_match *ret_match, bool *ret_found)
{
    const uint32_t *call_steps = machine->run->call_steps;
    uint32_t taken = call_steps != NULL ? *call_steps : 0;
    if (!machine_step(machine, node)) {
        return false; /* Arguments that are none have not counted theirs. */
    }
    CHECK(taken < SCRIPT_STEPS_MAX); /* The difference is no huge number. */
    *ret_found = pattern_find(text, pattern, from, &machine->steps,
                              SCRIPT_STEPS_MAX - taken, ret_match);
    if (!*ret_found && ret_match->error != NULL) {
        return machine_fail(machine, node, "%s: %s", functions[node->op].name,
                            ret_match->error);
    }
    return true;
}

static bool add_result(struct machine *machine, const struct node *node,
                       struct value value)
{
    if (!machine_spend_item(machine, node, &machine->results)) {
        return false;
    }
    value_append(machine->run->arena, &machine->results, &value);
    return true;
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

/* What string.find() takes as it stands. */
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

static bool find_plain(struct machine *machine, const struct node *node,
                       struct bytes text, struct bytes word, size_t from,
                       struct pattern_match *ret_match, bool *ret_found)
{
    *ret_match = (struct pattern_match){.count = 0};
    *ret_found = false;
    for (; from + word.size <= text.size && !*ret_found; from++) {
        if (!machine_step(machine, node)) {
            return false;
        }
        machine->steps += (uint32_t)(word.size / SCRIPT_STEP_SIZE);
        *ret_found = word.size == 0 ||
                     memcmp(text.data + from, word.data, word.size) == 0;
        ret_match->from = from;
        ret_match->to = from + word.size;
    }
    return true;
}

/* string.find() and string.match(). */
static bool run_find(struct machine *machine, const struct node *node,
                     const struct value_table *list)
{
    struct bytes text, pattern;
    struct pattern_match match;
    bool is_find = node->op == BUILTIN_FIND, is_found;
    double init;
    if (!take_text(machine, node, list, 0, &text) ||
        !take_text(machine, node, list, 1, &pattern) ||
        !take_place(machine, node, list, 2, 1, &init)) {
        return false;
    }
    double size = (double)text.size;
    init = init < 0 ? size + init + 1 : init;
    init = init < 1 ? 1 : init > size + 1 ? size + 1 : number_floor(init);
    CHECK(init >= 1 && init <= size + 1);
    size_t from = (size_t)init - 1;
    if (!(is_find && is_plain(list, pattern) ? find_plain : find_next)(
            machine, node, text, pattern, from, &match, &is_found)) {
        return false;
    }
    if (!is_found) {
        return add_result(machine, node, nil());
    }
    if (is_find &&
        !(add_result(machine, node, value_of_number((double)match.from + 1)) &&
          add_result(machine, node, value_of_number((double)match.to)))) {
        return false;
    }
    uint32_t count = match.count > 0 || is_find ? match.count : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!add_result(machine, node, capture_of(text, &match, i))) {
            return false;
        }
    }
    return true;
}

/* What stands for a match, in which %0 to %9 are its captures. */
static bool add_replacement(struct text *out, struct bytes text,
                            struct bytes with,
                            const struct pattern_match *match)
{
    for (size_t i = 0; i < with.size; i++) {
        struct bytes piece = bytes_of(with.data + i, 1);
        uint8_t next = i + 1 < with.size ? with.data[i + 1] : 0;
        if (!machine_step(out->machine, out->node)) {
            return false;
        }
        if (piece.data[0] == '%' && next >= '0' && next <= '9') {
            uint32_t place = next == '0' ? match->count
                                         : (uint32_t)(next - '1');
            if (place > match->count ||
                (place == match->count && place > 0 && next != '0')) {
                return machine_fail(out->machine, out->node,
                                    "string.gsub: invalid capture index");
            }
            struct value value = capture_of(text, match, place);
            if (!machine_text(out->machine, out->node, &value, LUA_DIGITS,
                              &piece)) {
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

static bool run_gsub(struct machine *machine, const struct node *node,
                     const struct value_table *list)
{
    struct text out = {.machine = machine, .node = node};
    struct bytes text, pattern, with;
    struct pattern_match match;
    double max, count = 0;
    size_t at = 0;
    if (!take_text(machine, node, list, 0, &text) ||
        !take_text(machine, node, list, 1, &pattern) ||
        !take_text(machine, node, list, 2, &with) ||
        !take_number(machine, node, list, 3, (double)text.size + 1, &max)) {
        return false;
    }
    bool is_anchored = pattern.size > 0 && pattern.data[0] == '^';
    while (count < max && at <= text.size) {
        bool is_found;
        if (!find_next(machine, node, text, pattern, at, &match, &is_found)) {
            return false;
        }
        if (!is_found) {
            break;
        }
        count++;
        if (!text_add(&out, bytes_of(text.data + at, match.from - at)) ||
            !add_replacement(&out, text, with, &match)) {
            return false;
        }
        at = match.to;
        if (match.to == match.from) { /* Nothing: one character stays. */
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
           add_result(machine, node, text_value(&out)) &&
           add_result(machine, node, value_of_number(count));
}

/* --- Numbers and lists ---------------------------------------------------- */

static bool run_math(struct machine *machine, const struct node *node,
                     const struct value_table *list, struct value *ret)
{
    double result = 0, number;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!take_number(machine, node, list, i, 0, &number)) {
            return false;
        }
        if (i == 0 || (node->op == BUILTIN_MAX && number > result) ||
            (node->op == BUILTIN_MIN && number < result)) {
            result = number;
        }
    }
    if (node->op == BUILTIN_FLOOR) {
        result = number_floor(result);
    } else if (node->op == BUILTIN_CEIL) {
        result = -number_floor(-result);
    } else if (node->op == BUILTIN_ABS && result < 0) {
        result = -result;
    }
    *ret = value_of_number(result);
    return true;
}

static bool run_tostring(struct machine *machine, const struct node *node,
                         const struct value *value, struct value *ret)
{
    struct bytes text = bytes_of_text(value_type_name(value));
    if (value->type == VALUE_FALSE || value->type == VALUE_TRUE) {
        text = bytes_of_text(value->type == VALUE_TRUE ? "true" : "false");
    } else if ((value->type == VALUE_TEXT || value->type == VALUE_NUMBER) &&
               !machine_text(machine, node, value, LUA_DIGITS, &text)) {
        return false;
    }
    *ret = value_of_text(text);
    return true;
}

static bool run_unpack(struct machine *machine, const struct node *node,
                       const struct value_table *list)
{
    const struct value_table *table = take_table(machine, node, list);
    double from, to;
    if (table == NULL || !take_number(machine, node, list, 1, 1, &from) ||
        !take_number(machine, node, list, 2, table->count, &to)) {
        return false;
    }
    for (double i = from; i <= to; i++) {
        bool is_there = i >= 1 && i <= table->count && i == number_floor(i);
        if (!machine_step(machine, node) ||
            !add_result(machine, node,
                        is_there ? table->item[(uint32_t)i - 1] : nil())) {
            return false;
        }
    }
    return true;
}

/* next(list), by which scripts ask whether there is anything in it: the first
 * item, else a field, with its place or name. */
static bool run_next(struct machine *machine, const struct node *node,
                     const struct value_table *list)
{
    const struct value_table *table = take_table(machine, node, list);
    if (table == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (!machine_step(machine, node)) {
            return false;
        }
        if (table->item[i].type != VALUE_NIL) {
            return add_result(machine, node, value_of_number((double)i + 1)) &&
                   add_result(machine, node, table->item[i]);
        }
    }
    for (const struct value_field *f = table->fields; f != NULL; f = f->next) {
        if (!machine_step(machine, node)) {
            return false;
        }
        if (f->value.type != VALUE_NIL) {
            return add_result(machine, node, value_of_text(f->name)) &&
                   add_result(machine, node, f->value);
        }
    }
    return add_result(machine, node, nil());
}

static bool run_insert(struct machine *machine, const struct node *node,
                       const struct value_table *list)
{
    struct value_table *to = take_table(machine, node, list);
    CHECK(list->count >= functions[BUILTIN_INSERT].min);
    if (to == NULL || !machine_spend_item(machine, node, to)) {
        return false;
    }
    value_append(machine->run->arena, to, &list->item[1]);
    return true;
}

/* table.remove(list, place), the last if it is not said. */
static bool run_remove(struct machine *machine, const struct node *node,
                       const struct value_table *list, struct value *ret)
{
    struct value_table *from = take_table(machine, node, list);
    double place;
    if (from == NULL ||
        !take_number(machine, node, list, 1, from->count, &place)) {
        return false;
    }
    if (place >= 1 && place <= from->count && place == number_floor(place)) {
        uint32_t at = (uint32_t)place - 1;
        *ret = from->item[at];
        machine->steps += (from->count - at) / SCRIPT_STEP_SIZE;
        from->count--;
        for (; at < from->count; at++) {
            from->item[at] = from->item[at + 1];
        }
    }
    return true;
}

static bool run_join(struct machine *machine, const struct node *node,
                     const struct value_table *list, struct value *ret)
{
    struct text text = {.machine = machine, .node = node};
    struct value_table *table = take_table(machine, node, list);
    struct bytes between = {NULL, 0}, word;
    if (table == NULL ||
        (list->count > 1 && !take_text(machine, node, list, 1, &between))) {
        return false;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (!machine_step(machine, node) ||
            (i > 0 && !text_add(&text, between)) ||
            !take_text(machine, node, table, i, &word) ||
            !text_add(&text, word)) {
            return false;
        }
    }
    *ret = text_value(&text);
    return true;
}

static bool run_tonumber(struct machine *machine, const struct node *node,
                         const struct value_table *list, struct value *ret)
{
    double number;
    if (list->count > 1) {
        return machine_fail(machine, node, "tonumber: a base");
    }
    if (machine_number(machine, &list->item[0], &number)) {
        *ret = value_of_number(number);
    }
    return true;
}

/* --- All ------------------------------------------------------------------ */

static bool run_list(struct machine *machine, const struct node *node,
                     const struct value_table *list, struct value *ret)
{
    struct value_table *table;
    switch ((enum builtin)node->op) {
    case BUILTIN_INSERT:
        return run_insert(machine, node, list);
    case BUILTIN_REMOVE:
        return run_remove(machine, node, list, ret);
    case BUILTIN_JOIN:
        return run_join(machine, node, list, ret);
    default:
        table = take_table(machine, node, list);
        *ret = value_of_number(table != NULL ? table->count : 0);
        return table != NULL;
    }
}

static bool run_several(struct machine *machine, const struct node *node,
                        const struct value_table *list)
{
    switch ((enum builtin)node->op) {
    case BUILTIN_FIND:
    case BUILTIN_MATCH:
        return run_find(machine, node, list);
    case BUILTIN_GSUB:
        return run_gsub(machine, node, list);
    case BUILTIN_NEXT:
        return run_next(machine, node, list);
    default:
        return run_unpack(machine, node, list);
    }
}

static bool run_one(struct machine *machine, const struct node *node,
                    const struct value_table *list, struct value *ret)
{
    switch ((enum builtin)node->op) {
    case BUILTIN_CALL:
    case BUILTIN_PCALL:
        return ask(machine, node, list, ret);
    case BUILTIN_LOG:
    case BUILTIN_REPLICATE:
        *ret = value_of_bool(true);
        return true;
    case BUILTIN_TONUMBER:
        return run_tonumber(machine, node, list, ret);
    case BUILTIN_TOSTRING:
        return run_tostring(machine, node, &list->item[0], ret);
    case BUILTIN_TYPE:
        *ret = value_of_text(bytes_of_text(value_type_name(&list->item[0])));
        return true;
    case BUILTIN_ASSERT:
    case BUILTIN_RAISE:
        return raise_error(machine, node, list, ret);
    case BUILTIN_ENCODE:
        return json_encode(machine, node, &list->item[0], ret);
    case BUILTIN_INSERT:
    case BUILTIN_REMOVE:
    case BUILTIN_GETN:
    case BUILTIN_JOIN:
        return run_list(machine, node, list, ret);
    case BUILTIN_FLOOR:
    case BUILTIN_CEIL:
    case BUILTIN_ABS:
    case BUILTIN_MAX:
    case BUILTIN_MIN:
        return run_math(machine, node, list, ret);
    case BUILTIN_FORMAT:
        return run_format(machine, node, list, ret);
    default:
        return run_text(machine, node, list, ret);
    }
}

bool library_run(struct machine *machine, const struct node *node,
                 const struct value_table *list, struct value *ret)
{
    *ret = nil();
    CHECK(node->kind == NODE_BUILTIN &&
          node->op < sizeof functions / sizeof *functions);
    if (list->count < functions[node->op].min) {
        return machine_fail(machine, node, "%s: an argument is missing",
                            functions[node->op].name);
    }
    if (!node_has_several(node)) {
        return run_one(machine, node, list, ret);
    }
    machine->results = (struct value_table){0};
    if (!run_several(machine, node, list)) {
        return false;
    }
    if (machine->results.count > 0) {
        *ret = machine->results.item[0];
    }
    return true;
}
