/* SPDX-License-Identifier: MIT */

/* From a script's tokens to nodes, by recursive descent. Local variables become
 * numbered slots here, so that running looks up no names; a name that is
 * neither local nor in the table of builtins is refused. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_lex.h"
#include "core/redis/script_machine.h"
#include "core/scripts.h"

struct parser {
    struct lexer lexer;
    struct token token;
    struct arena *arena;
    struct script_error *error;
    script_known_fn *is_known;
    bool has_failed;
    uint32_t node_count;
    uint32_t depth;
    /* The visible names: the script's, and from 'function_at' on the current
     * function's. */
    struct bytes name[2 * SCRIPT_LOCALS_MAX];
    uint32_t name_count;
    uint32_t function_at;
    uint32_t local_count; /* The most in the current function. */
    uint32_t loops;       /* Loops around the current statement, */
    uint32_t blocks;      /* and blocks; 1 is the outermost. */
    bool is_function;
    /* Other names for builtin functions. */
    struct alias {
        struct bytes name;
        struct bytes means;
    } alias[SCRIPT_ALIASES_MAX];
    uint32_t alias_count;
};

static struct script_node *parse_block(struct parser *parser);
static struct script_node *parse_expression(struct parser *parser, int limit);

/* --- Tools ---------------------------------------------------------------- */

static void fail_at(struct parser *parser, uint32_t line, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

static void fail_at(struct parser *parser, uint32_t line, const char *format,
                    ...)
{
    va_list args;
    if (parser->has_failed) {
        return;
    }
    parser->has_failed = true;
    parser->token = (struct token){.type = TOKEN_END, .line = line};
    int size = snprintf(parser->error->text, sizeof parser->error->text,
                        "line %u: ", line);
    va_start(args, format);
    vsnprintf(parser->error->text + size,
              sizeof parser->error->text - (size_t)size, format, args);
    va_end(args);
}

static void script_parse_advance(struct parser *parser)
{
    if (parser->has_failed) {
        return;
    }
    parser->token = lexer_next(&parser->lexer);
    if (parser->lexer.error != NULL) {
        fail_at(parser, parser->lexer.line, "%s", parser->lexer.error);
    }
}

static bool is_mark(const struct parser *parser, const char *text)
{
    return parser->token.type == TOKEN_MARK &&
           parser->token.text.data[0] == (uint8_t)text[0] &&
           bytes_equal(parser->token.text, bytes_of_text(text));
}

static bool script_parse_accept(struct parser *parser, const char *text)
{
    if (!is_mark(parser, text)) {
        return false;
    }
    script_parse_advance(parser);
    return true;
}

static void script_parse_expect(struct parser *parser, const char *text)
{
    char near[BYTES_SHOWN_SIZE];
    if (script_parse_accept(parser, text)) {
        return;
    }
    if (parser->token.type == TOKEN_END) {
        fail_at(parser, parser->token.line, "expected '%s' at the end", text);
    } else {
        fail_at(parser, parser->token.line, "expected '%s' near '%s'", text,
                bytes_shown(parser->token.text, near));
    }
}

static struct bytes expect_name(struct parser *parser)
{
    struct bytes name = parser->token.text;
    char near[BYTES_SHOWN_SIZE];
    if (parser->token.type != TOKEN_NAME) {
        fail_at(parser, parser->token.line, "expected a name near '%s'",
                bytes_shown(name, near));
        return (struct bytes){NULL, 0};
    }
    script_parse_advance(parser);
    return name;
}

static struct script_node *new_node(struct parser *parser, enum node_kind kind)
{
    struct script_node *node = arena_take(parser->arena, sizeof *node);
    *node = (struct script_node){.kind = (uint8_t)kind,
                                 .line = parser->token.line};
    if (++parser->node_count > SCRIPT_NODES_MAX) {
        fail_at(parser, node->line,
                "the script is too long: it has more than "
                "%d parts",
                SCRIPT_NODES_MAX);
    }
    return node;
}

static bool script_parse_go_down(struct parser *parser)
{
    if (++parser->depth > SCRIPT_DEPTH_MAX) {
        fail_at(parser, parser->token.line,
                "more than %d nested blocks or brackets", SCRIPT_DEPTH_MAX);
    }
    return !parser->has_failed;
}

/* --- Names ---------------------------------------------------------------- */

static void script_parse_declare(struct parser *parser, struct bytes name,
                                 struct script_node *ret_local)
{
    uint32_t slot = parser->name_count - parser->function_at;
    CHECK(parser->function_at <= parser->name_count);
    if (slot >= SCRIPT_LOCALS_MAX) {
        fail_at(parser, parser->token.line, "more than %d local variables",
                SCRIPT_LOCALS_MAX);
        return;
    }
    parser->name[parser->name_count++] = name;
    if (slot + 1 > parser->local_count) {
        parser->local_count = slot + 1;
    }
    ret_local->number = slot;
}

/* Finds a variable by its name; NULL if there is none. */
static struct script_node *find_local(struct parser *parser, struct bytes name)
{
    for (uint32_t i = parser->name_count; i > 0; i--) {
        if (bytes_equal(parser->name[i - 1], name)) {
            struct script_node *local = new_node(parser, NODE_LOCAL);
            local->is_outer = i - 1 < parser->function_at;
            local->number = local->is_outer ? i - 1
                                            : i - 1 - parser->function_at;
            CHECK(local->number < SCRIPT_LOCALS_MAX);
            return local;
        }
    }
    return NULL;
}

/* --- Expressions ---------------------------------------------------------- */

static struct script_node *parse_list(struct parser *parser,
                                      uint32_t *ret_count)
{
    struct script_node *first = NULL;
    struct script_node **end = &first;
    uint32_t count = 0;
    do {
        *end = parse_expression(parser, 0);
        end = &(*end)->next;
        count++;
    } while (script_parse_accept(parser, ","));
    *ret_count = count;
    return first;
}

static struct script_node *script_parse_parse_arguments(struct parser *parser,
                                                        uint32_t *ret_count)
{
    struct script_node *list = NULL;
    *ret_count = 0;
    script_parse_expect(parser, "(");
    if (!is_mark(parser, ")")) {
        list = parse_list(parser, ret_count);
    }
    script_parse_expect(parser, ")");
    return list;
}

static void check_builtin(struct parser *parser, const struct script_node *node,
                          const struct library_function *function,
                          uint32_t count)
{
    bool is_open = false; /* The last one may give any number. */
    char text[BYTES_SHOWN_SIZE];
    CHECK(node->kind == NODE_BUILTIN);
    for (const struct script_node *a = node->a; a != NULL; a = a->next) {
        is_open |= a->next == NULL && node_has_several(a);
    }
    if (count > function->max || (count < function->min && !is_open)) {
        fail_at(parser, node->line, "wrong number of arguments for %s",
                function->name);
    } else if ((node->op == BUILTIN_CALL || node->op == BUILTIN_PCALL) &&
               node->a->kind == NODE_TEXT && !parser->is_known(node->a->text)) {
        fail_at(parser, node->line,
                "%s('%s'): hasp does not support this command in scripts",
                function->name, bytes_shown(node->a->text, text));
    }
}

/* Reads on after 'first' if it is the start of a name such as "string.sub". */
static struct bytes whole_name(struct parser *parser, struct bytes first)
{
    if (!script_parse_accept(parser, ".")) {
        return first;
    }
    struct bytes last = expect_name(parser);
    return parser->has_failed
               ? first
               : bytes_of(first.data,
                          (size_t)(last.data + last.size - first.data));
}

/* The meaning of a name: itself, unless it is an alias. */
static struct bytes meaning_of(const struct parser *parser, struct bytes name)
{
    for (uint32_t i = parser->alias_count; i-- > 0;) {
        if (bytes_equal(parser->alias[i].name, name)) {
            return parser->alias[i].means;
        }
    }
    return name;
}

/* Accepts exactly "rcall = redis.call" after "local", which makes an alias from
 * here on. False, with nothing read, if something else follows. */
static bool accept_alias(struct parser *parser)
{
    struct lexer before = parser->lexer;
    struct token token = parser->token;
    struct alias alias = {.name = token.text};
    enum builtin builtin;
    bool is_alias = false;
    if (token.type == TOKEN_NAME) {
        script_parse_advance(parser);
        if (script_parse_accept(parser, "=") &&
            parser->token.type == TOKEN_NAME &&
            find_local(parser, parser->token.text) == NULL) {
            struct bytes first = parser->token.text;
            script_parse_advance(parser);
            alias.means = meaning_of(parser, whole_name(parser, first));
            is_alias = library_find(alias.means, &builtin) != NULL &&
                       !is_mark(parser, "(");
        }
    }
    if (is_alias && parser->alias_count == SCRIPT_ALIASES_MAX) {
        fail_at(parser, token.line, "more than %d names of functions",
                SCRIPT_ALIASES_MAX);
    } else if (is_alias) {
        parser->alias[parser->alias_count++] = alias;
    } else if (!parser->has_failed) {
        /* Not an alias: the caller parses the same tokens again. */
        parser->lexer = before;
        parser->token = token;
    }
    return is_alias;
}

static void take_arguments(struct parser *parser, struct script_node *node,
                           const struct library_function *function)
{
    struct script_node *first = node->a; /* The object of a method. */
    uint32_t count;
    node->a = script_parse_parse_arguments(parser, &count);
    if (first != NULL) {
        first->next = node->a;
        node->a = first;
        count++;
    }
    if (!parser->has_failed) {
        check_builtin(parser, node, function, count);
    }
}

/* Parses pcall(function, argument ...) into a call in NODE_PROTECTED. */
static struct script_node *parse_protected(struct parser *parser,
                                           struct script_node *node)
{
    const struct library_function *function = NULL;
    struct script_node *call = new_node(parser, NODE_CALL);
    enum builtin builtin;
    uint32_t count = 0;
    node->kind = NODE_PROTECTED;
    node->a = call;
    script_parse_expect(parser, "(");
    if (parser->token.type == TOKEN_NAME &&
        find_local(parser, parser->token.text) == NULL) {
        struct bytes name = whole_name(parser, expect_name(parser));
        function = library_find(meaning_of(parser, name), &builtin);
        if (function == NULL) {
            fail_at(parser, node->line,
                    "pcall of something that is not a function of hasp");
            return node;
        }
        call->kind = NODE_BUILTIN;
        call->op = (uint8_t)builtin;
    } else {
        call->a = parse_expression(parser, 0);
    }
    struct script_node *list = script_parse_accept(parser, ",")
                                   ? parse_list(parser, &count)
                                   : NULL;
    script_parse_expect(parser, ")");
    *(function != NULL ? &call->a : &call->b) = list;
    if (function != NULL && !parser->has_failed) {
        check_builtin(parser, call, function, count);
    }
    return node;
}

/* Parses a name that is not a variable: "KEYS", or "string.sub" and so on. */
static struct script_node *parse_builtin(struct parser *parser,
                                         struct bytes first)
{
    char name[BYTES_SHOWN_SIZE];
    struct script_node *node = new_node(parser, NODE_BUILTIN);
    if (bytes_equal(first, BYTES_LITERAL("KEYS"))) {
        node->kind = NODE_KEYS;
        return node;
    }
    if (bytes_equal(first, BYTES_LITERAL("ARGV"))) {
        node->kind = NODE_ARGV;
        return node;
    }
    struct bytes whole = meaning_of(parser, whole_name(parser, first));
    if (bytes_has_prefix(whole, BYTES_LITERAL("redis.LOG_"))) {
        node->kind = NODE_NUMBER;
        return node;
    }
    if (bytes_equal(whole, BYTES_LITERAL("pcall")) && is_mark(parser, "(")) {
        return parse_protected(parser, node);
    }
    enum builtin builtin;
    const struct library_function *function = library_find(whole, &builtin);
    if (function != NULL && is_mark(parser, "(")) {
        node->op = (uint8_t)builtin;
        take_arguments(parser, node, function);
        return node;
    }
    fail_at(parser, node->line,
            "'%s' is neither a local variable nor a function that hasp "
            "supports",
            bytes_shown(whole, name));
    return node;
}

static struct script_node *parse_table(struct parser *parser)
{
    struct script_node *table = new_node(parser, NODE_TABLE);
    struct script_node **end = &table->a;
    script_parse_expect(parser, "{");
    while (!is_mark(parser, "}") && !parser->has_failed) {
        struct script_node *field = new_node(parser, NODE_FIELD);
        struct lexer before = parser->lexer;
        struct token token = parser->token;
        if (script_parse_accept(parser, "[")) {
            if (parser->token.type != TOKEN_TEXT) {
                fail_at(parser, field->line, "a field's name must be a string");
            }
            field->text = parser->token.text;
            script_parse_advance(parser);
            script_parse_expect(parser, "]");
            script_parse_expect(parser, "=");
        } else if (token.type == TOKEN_NAME) {
            script_parse_advance(parser);
            if (script_parse_accept(parser, "=")) {
                field->text = token.text;
            } else if (!parser->has_failed) {
                /* The name was not a field's: it begins an expression. */
                parser->lexer = before;
                parser->token = token;
            }
        }
        field->a = parse_expression(parser, 0);
        *end = field;
        end = &field->next;
        if (!script_parse_accept(parser, ",") &&
            !script_parse_accept(parser, ";")) {
            break;
        }
    }
    script_parse_expect(parser, "}");
    return table;
}

static struct script_node *parse_function(struct parser *parser)
{
    struct script_node *function = new_node(parser, NODE_FUNCTION);
    if (parser->is_function) {
        fail_at(parser, function->line, "a function inside a function");
        return function;
    }
    if (parser->blocks > 1) { /* It could outlive the variables it sees. */
        fail_at(parser, function->line, "a function inside a block");
        return function;
    }
    uint32_t name_count = parser->name_count;
    uint32_t local_count = parser->local_count;
    uint32_t loops = parser->loops;
    parser->is_function = true;
    parser->function_at = name_count;
    parser->local_count = 0;
    parser->loops = 0;
    script_parse_expect(parser, "(");
    while (parser->token.type == TOKEN_NAME) {
        struct script_node ignored;
        script_parse_declare(parser, expect_name(parser), &ignored);
        function->number++;
        if (!script_parse_accept(parser, ",")) {
            break;
        }
    }
    script_parse_expect(parser, ")");
    function->a = parse_block(parser);
    script_parse_expect(parser, "end");
    CHECK(parser->has_failed || function->number <= parser->local_count);
    function->slots = (uint16_t)parser->local_count;
    parser->is_function = false;
    parser->function_at = 0;
    parser->name_count = name_count;
    parser->local_count = local_count;
    parser->loops = loops;
    return function;
}

static struct script_node *parse_primary(struct parser *parser)
{
    struct bytes name = parser->token.text;
    if (script_parse_accept(parser, "(")) {
        struct script_node *inner = parse_expression(parser, 0);
        script_parse_expect(parser, ")");
        if (!node_has_several(inner)) {
            return inner;
        }
        /* In Lua, parentheses cut a call's results to the first. */
        struct script_node *first = new_node(parser, NODE_FIRST);
        first->a = inner;
        return first;
    }
    name = expect_name(parser);
    if (parser->has_failed) {
        return new_node(parser, NODE_NIL);
    }
    struct script_node *local = find_local(parser, name);
    return local != NULL ? local : parse_builtin(parser, name);
}

/* text:sub(1, 3) is string.sub(text, 1, 3); nothing else has methods. */
static struct script_node *parse_method(struct parser *parser,
                                        struct script_node *object)
{
    char name[BYTES_SHOWN_SIZE], whole[sizeof name + 8];
    struct script_node *node = new_node(parser, NODE_BUILTIN);
    enum builtin builtin;
    script_parse_expect(parser, ":");
    bytes_shown(expect_name(parser), name);
    snprintf(whole, sizeof whole, "string.%s", name);
    const struct library_function *function = library_find(bytes_of_text(whole),
                                                           &builtin);
    if (function == NULL) {
        fail_at(parser, node->line, "the method '%s'", name);
        return node;
    }
    node->op = (uint8_t)builtin;
    node->a = object;
    take_arguments(parser, node, function);
    return node;
}

/* Parses a variable or a call, with all [..], .name and (..) after it. */
static struct script_node *parse_suffixed(struct parser *parser)
{
    struct script_node *node = parse_primary(parser);
    while (!parser->has_failed) {
        struct script_node *outer;
        if (is_mark(parser, "[") || is_mark(parser, ".")) {
            bool is_name = is_mark(parser, ".");
            outer = new_node(parser, NODE_INDEX);
            outer->a = node;
            script_parse_advance(parser);
            if (is_name) {
                outer->b = new_node(parser, NODE_TEXT);
                outer->b->text = expect_name(parser);
            } else {
                outer->b = parse_expression(parser, 0);
                script_parse_expect(parser, "]");
            }
        } else if (is_mark(parser, "(")) {
            uint32_t count;
            outer = new_node(parser, NODE_CALL);
            outer->a = node;
            outer->b = script_parse_parse_arguments(parser, &count);
        } else if (is_mark(parser, ":")) {
            outer = parse_method(parser, node);
        } else {
            break;
        }
        node = outer;
    }
    return node;
}

static struct script_node *parse_simple(struct parser *parser)
{
    static const struct {
        const char *word;
        enum node_kind kind;
    } words[] = {{"nil", NODE_NIL}, {"false", NODE_FALSE}, {"true", NODE_TRUE}};
    struct token token = parser->token;
    struct script_node *node;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (script_parse_accept(parser, words[i].word)) {
            return new_node(parser, words[i].kind);
        }
    }
    if (token.type == TOKEN_NUMBER || token.type == TOKEN_TEXT) {
        node = new_node(parser,
                        token.type == TOKEN_TEXT ? NODE_TEXT : NODE_NUMBER);
        node->number = token.number;
        node->text = token.text;
        script_parse_advance(parser);
        return node;
    }
    if (is_mark(parser, "{")) {
        return parse_table(parser);
    }
    if (script_parse_accept(parser, "function")) {
        return parse_function(parser);
    }
    return parse_suffixed(parser);
}

#define UNARY_PRIORITY 8

/* Indexed by enum operator; an operator that binds more tightly than 'limit'
 * belongs to the right side. */
static const struct {
    const char *sign;
    int left;
    int right;
} operators[] = {
    [OPERATOR_OR] = {"or", 1, 1},
    [OPERATOR_AND] = {"and", 2, 2},
    [OPERATOR_LESS] = {"<", 3, 3},
    [OPERATOR_GREATER] = {">", 3, 3},
    [OPERATOR_LESS_EQUAL] = {"<=", 3, 3},
    [OPERATOR_GREATER_EQUAL] = {">=", 3, 3},
    [OPERATOR_NOT_EQUAL] = {"~=", 3, 3},
    [OPERATOR_EQUAL] = {"==", 3, 3},
    [OPERATOR_CONCAT] = {"..", 5, 4},
    [OPERATOR_ADD] = {"+", 6, 6},
    [OPERATOR_SUBTRACT] = {"-", 6, 6},
    [OPERATOR_MULTIPLY] = {"*", 7, 7},
    [OPERATOR_DIVIDE] = {"/", 7, 7},
    [OPERATOR_MODULO] = {"%", 7, 7},
    [OPERATOR_NOT] = {"not", 0, UNARY_PRIORITY},
    [OPERATOR_LENGTH] = {"#", 0, UNARY_PRIORITY},
    [OPERATOR_NEGATE] = {"-", 0, UNARY_PRIORITY},
};

#define OPERATOR_COUNT (sizeof operators / sizeof *operators)

static struct script_node *parse_unary(struct parser *parser)
{
    for (size_t i = OPERATOR_NOT; i < OPERATOR_COUNT; i++) {
        if (is_mark(parser, operators[i].sign)) {
            struct script_node *node = new_node(parser, NODE_UNARY);
            script_parse_advance(parser);
            node->op = (uint8_t)i;
            node->a = parse_expression(parser, UNARY_PRIORITY);
            return node;
        }
    }
    return parse_simple(parser);
}

/* Finds the next operator, if it binds more tightly than 'limit';
 * OPERATOR_COUNT if there is none. */
static size_t find_operator(const struct parser *parser, int limit)
{
    for (size_t i = 0; i < OPERATOR_NOT; i++) {
        if (is_mark(parser, operators[i].sign) && operators[i].left > limit) {
            return i;
        }
    }
    return OPERATOR_COUNT;
}

static struct script_node *parse_expression(struct parser *parser, int limit)
{
    if (!script_parse_go_down(parser)) {
        return new_node(parser, NODE_NIL);
    }
    struct script_node *left = parse_unary(parser);
    size_t op;
    while ((op = find_operator(parser, limit)) != OPERATOR_COUNT) {
        struct script_node *node = new_node(parser, NODE_BINARY);
        script_parse_advance(parser);
        node->kind = op == OPERATOR_OR    ? NODE_OR
                     : op == OPERATOR_AND ? NODE_AND
                                          : NODE_BINARY;
        node->op = (uint8_t)op;
        node->a = left;
        node->b = parse_expression(parser, operators[op].right);
        left = node;
    }
    if (is_mark(parser, "^")) {
        fail_at(parser, parser->token.line, "the operator '^'");
    }
    CHECK(parser->depth > 0); /* script_parse_go_down() came before. */
    parser->depth--;
    return left;
}

/* --- Statements ----------------------------------------------------------- */

/* Parses a block with names of its own. */
static struct script_node *parse_scope(struct parser *parser)
{
    uint32_t name_count = parser->name_count;
    struct script_node *block = parse_block(parser);
    /* Its own names were added on top. */
    CHECK(name_count <= parser->name_count);
    parser->name_count = name_count;
    return block;
}

static struct script_node *parse_loop(struct parser *parser)
{
    parser->loops++;
    CHECK(parser->loops > 0);
    struct script_node *block = parse_scope(parser);
    parser->loops--;
    return block;
}

/* Parses what follows "if" or "elseif". */
static struct script_node *script_parse_parse_if(struct parser *parser)
{
    struct script_node *node = new_node(parser, NODE_IF);
    /* A chain of "elseif" recurses too, so its depth counts. */
    if (!script_parse_go_down(parser)) {
        return node;
    }
    node->a = parse_expression(parser, 0);
    script_parse_expect(parser, "then");
    node->b = parse_scope(parser);
    if (script_parse_accept(parser, "elseif")) {
        node->c = script_parse_parse_if(parser);
    } else {
        if (script_parse_accept(parser, "else")) {
            node->c = new_node(parser, NODE_DO);
            node->c->b = parse_scope(parser);
        }
        script_parse_expect(parser, "end");
    }
    parser->depth--;
    return node;
}

static void script_parse_parse_count(struct parser *parser,
                                     struct script_node *node,
                                     struct bytes name)
{
    uint32_t count;
    node->kind = NODE_COUNT;
    node->a = parse_list(parser, &count);
    if (count < 2 || count > 3) {
        fail_at(parser, node->line, "for: expected two or three numbers");
    }
    script_parse_declare(parser, name, node);
}

static void parse_each(struct parser *parser, struct script_node *node,
                       struct bytes name)
{
    struct bytes item = BYTES_LITERAL(""); /* No name is empty. */
    struct script_node ignored;
    uint32_t count;
    if (script_parse_accept(parser, ",")) {
        item = expect_name(parser);
    }
    script_parse_expect(parser, "in");
    struct bytes iterator = expect_name(parser);
    node->op = bytes_equal(iterator, BYTES_LITERAL("pairs"));
    if (node->op == 0 && !bytes_equal(iterator, BYTES_LITERAL("ipairs"))) {
        fail_at(parser, node->line,
                "for .. in: hasp supports only ipairs and pairs");
        return;
    }
    node->a = script_parse_parse_arguments(parser, &count);
    if (count != 1) {
        fail_at(parser, node->line, "for .. in: expected one list");
    }
    script_parse_declare(parser, name, node);
    script_parse_declare(parser, item, &ignored);
}

static struct script_node *parse_for(struct parser *parser)
{
    struct script_node *node = new_node(parser, NODE_EACH);
    uint32_t name_count = parser->name_count;
    struct bytes name = expect_name(parser);
    if (script_parse_accept(parser, "=")) {
        script_parse_parse_count(parser, node, name);
    } else {
        parse_each(parser, node, name);
    }
    /* Its own names were added on top. */
    CHECK(name_count <= parser->name_count);
    script_parse_expect(parser, "do");
    node->b = parse_loop(parser);
    script_parse_expect(parser, "end");
    parser->name_count = name_count;
    return node;
}

static struct script_node *parse_repeat(struct parser *parser)
{
    struct script_node *node = new_node(parser, NODE_REPEAT);
    uint32_t name_count = parser->name_count;
    parser->loops++;
    node->b = parse_block(parser);
    parser->loops--;
    script_parse_expect(parser, "until");
    node->a = parse_expression(parser, 0); /* Sees the block's variables. */
    parser->name_count = name_count;
    return node;
}

/* Parses what follows "local". Its names are not visible in its values. */
static struct script_node *parse_local(struct parser *parser)
{
    struct bytes name[SCRIPT_LOCALS_MAX];
    uint32_t name_count = 0, count;
    struct script_node *node = new_node(parser, NODE_ASSIGN);
    struct script_node **end = &node->a;
    bool is_function = script_parse_accept(parser, "function");
    if (!is_function && accept_alias(parser)) {
        node->kind = NODE_DO;
        return node;
    }
    do {
        if (name_count == SCRIPT_LOCALS_MAX) {
            fail_at(parser, node->line, "too many names");
            return node;
        }
        name[name_count++] = expect_name(parser);
    } while (!is_function && script_parse_accept(parser, ","));
    if (!is_function && script_parse_accept(parser, "=")) {
        node->b = parse_list(parser, &count);
    }
    CHECK(name_count > 0 && name_count <= SCRIPT_LOCALS_MAX);
    for (uint32_t i = 0; i < name_count; i++) {
        *end = new_node(parser, NODE_LOCAL);
        script_parse_declare(parser, name[i], *end);
        end = &(*end)->next;
    }
    if (is_function) {
        node->b = parse_function(parser); /* It may call itself. */
    }
    return node;
}

static struct script_node *parse_return(struct parser *parser)
{
    struct script_node *node = new_node(parser, NODE_RETURN);
    uint32_t count = 0;
    if (!is_mark(parser, "end") && !is_mark(parser, "else") &&
        !is_mark(parser, "elseif") && !is_mark(parser, "until") &&
        !is_mark(parser, ";") && parser->token.type != TOKEN_END) {
        node->a = parse_list(parser, &count);
    }
    return node;
}

static bool is_call(const struct script_node *node)
{
    return node->kind == NODE_CALL || node->kind == NODE_BUILTIN ||
           node->kind == NODE_PROTECTED;
}

static struct script_node *parse_assignment(struct parser *parser)
{
    struct script_node *node = new_node(parser, NODE_ASSIGN);
    char text[BYTES_SHOWN_SIZE];
    uint32_t count;
    /* Reads one token ahead to give an assignment to a global a better error,
     * then returns to where it was. */
    struct lexer before = parser->lexer;
    struct token token = parser->token;
    if (token.type == TOKEN_NAME) {
        script_parse_advance(parser);
        if (is_mark(parser, "=") && find_local(parser, token.text) == NULL) {
            fail_at(parser, token.line,
                    "'%s' is not a local variable; hasp supports no others",
                    bytes_shown(token.text, text));
        }
        if (!parser->has_failed) {
            parser->lexer = before;
            parser->token = token;
        }
    }
    struct script_node *first = parse_suffixed(parser);
    if (is_call(first) && !is_mark(parser, "=") && !is_mark(parser, ",")) {
        node->kind = NODE_EVALUATE;
        node->a = first;
        return node;
    }
    struct script_node **end = &node->a;
    *end = first;
    while (script_parse_accept(parser, ",")) {
        end = &(*end)->next;
        *end = parse_suffixed(parser);
    }
    for (const struct script_node *target = node->a; target != NULL;
         target = target->next) {
        if (target->kind != NODE_LOCAL && target->kind != NODE_INDEX) {
            fail_at(parser, node->line, "cannot assign to this expression");
        }
    }
    script_parse_expect(parser, "=");
    node->b = parse_list(parser, &count);
    return node;
}

static struct script_node *parse_statement(struct parser *parser)
{
    struct script_node *node;
    if (script_parse_accept(parser, "local")) {
        return parse_local(parser);
    }
    if (script_parse_accept(parser, "if")) {
        return script_parse_parse_if(parser);
    }
    if (script_parse_accept(parser, "for")) {
        return parse_for(parser);
    }
    if (script_parse_accept(parser, "repeat")) {
        return parse_repeat(parser);
    }
    if (script_parse_accept(parser, "while")) {
        node = new_node(parser, NODE_WHILE);
        node->a = parse_expression(parser, 0);
        script_parse_expect(parser, "do");
        node->b = parse_loop(parser);
        script_parse_expect(parser, "end");
        return node;
    }
    if (script_parse_accept(parser, "do")) {
        node = new_node(parser, NODE_DO);
        node->b = parse_scope(parser);
        script_parse_expect(parser, "end");
        return node;
    }
    if (is_mark(parser, "break")) {
        node = new_node(parser, NODE_BREAK);
        script_parse_advance(parser);
        if (parser->loops == 0) {
            fail_at(parser, node->line, "break outside a loop");
        }
        return node;
    }
    if (is_mark(parser, "function")) {
        fail_at(parser, parser->token.line,
                "a function must be local: use local function");
    }
    return parse_assignment(parser);
}

static struct script_node *parse_block(struct parser *parser)
{
    struct script_node *first = NULL;
    struct script_node **end = &first;
    /* Blocks recurse, so their depth has a bound. */
    if (!script_parse_go_down(parser)) {
        return NULL;
    }
    parser->blocks++;
    while (!parser->has_failed && parser->token.type != TOKEN_END &&
           !is_mark(parser, "end") && !is_mark(parser, "else") &&
           !is_mark(parser, "elseif") && !is_mark(parser, "until")) {
        if (script_parse_accept(parser, "return")) {
            *end = parse_return(parser);
            script_parse_accept(parser, ";");
            break;
        }
        *end = parse_statement(parser);
        end = &(*end)->next;
        script_parse_accept(parser, ";");
    }
    CHECK(parser->blocks > 0 && parser->depth > 0);
    parser->blocks--;
    parser->depth--;
    return first;
}

bool script_parse(struct bytes text, struct arena *arena,
                  script_known_fn *is_known, struct script *ret_script,
                  struct script_error *error)
{
    struct parser parser = {.lexer = {.text = text, .line = 1, .arena = arena},
                            .arena = arena,
                            .error = error,
                            .is_known = is_known};
    char near[BYTES_SHOWN_SIZE];
    if (text.size > SCRIPT_SIZE_MAX) {
        fail_at(&parser, 1, "the script has more than %d bytes",
                SCRIPT_SIZE_MAX);
        return false;
    }
    script_parse_advance(&parser);
    ret_script->body = parse_block(&parser);
    CHECK(parser.has_failed || (parser.depth == 0 && parser.blocks == 0));
    CHECK(parser.loops == 0 && !parser.is_function);
    ret_script->local_count = parser.local_count;
    if (!parser.has_failed && parser.token.type != TOKEN_END) {
        fail_at(&parser, parser.token.line, "unexpected text near '%s'",
                bytes_shown(parser.token.text, near));
    }
    return !parser.has_failed;
}
