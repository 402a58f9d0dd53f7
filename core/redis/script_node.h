/* SPDX-License-Identifier: MIT */

/* The nodes that script_parse.c makes and script_run.c executes. */

#ifndef HASP_CORE_REDIS_SCRIPT_NODE_H
#define HASP_CORE_REDIS_SCRIPT_NODE_H

#include "core/redis/script.h"

enum node_kind {
    /* Expressions. */
    NODE_NIL,
    NODE_FALSE,
    NODE_TRUE,
    NODE_NUMBER,
    NODE_TEXT,
    /* number: its slot; is_outer: of the script, not of the current
     * function. */
    NODE_LOCAL,
    NODE_KEYS,
    NODE_ARGV,
    NODE_TABLE,     /* a: NODE_FIELDs. */
    NODE_FIELD,     /* a: value; text: its name, or empty. */
    NODE_INDEX,     /* a[b]. */
    NODE_BUILTIN,   /* op: enum builtin; a: arguments. */
    NODE_CALL,      /* a: the function; b: arguments. */
    NODE_PROTECTED, /* a: a call, whose error is a result: pcall(). */
    NODE_FUNCTION,  /* number: parameters; slots; a: body. */
    NODE_FIRST,     /* (a): only the first of several results. */
    NODE_UNARY,     /* op a. */
    NODE_BINARY,    /* a op b. */
    NODE_AND,
    NODE_OR,
    /* Statements. */
    NODE_ASSIGN, /* a: targets = b: values. A local is nil without. */
    NODE_IF,     /* a: condition; b: block; c: block, or NULL. */
    NODE_WHILE,  /* a: condition; b: block. */
    NODE_REPEAT, /* a: condition, which sees the variables of b: block. */
    NODE_COUNT, /* for: number: slot; a: from, to and perhaps step; b: block. */
    NODE_EACH,  /* for: number: slot of the index, the item's is the next; a:
                   the list; b: block; op: with the fields (pairs). */
    NODE_DO,    /* b: block. */
    NODE_RETURN, /* a: the values, or NULL. */
    NODE_BREAK,
    NODE_EVALUATE /* a: a call. */
};

enum operator{
    OPERATOR_OR,
    OPERATOR_AND,
    OPERATOR_LESS,
    OPERATOR_GREATER,
    OPERATOR_LESS_EQUAL,
    OPERATOR_GREATER_EQUAL,
    OPERATOR_NOT_EQUAL,
    OPERATOR_EQUAL,
    OPERATOR_CONCAT,
    OPERATOR_ADD,
    OPERATOR_SUBTRACT,
    OPERATOR_MULTIPLY,
    OPERATOR_DIVIDE,
    OPERATOR_MODULO,
    OPERATOR_NOT,
    OPERATOR_LENGTH,
    OPERATOR_NEGATE
};

/* In the order of the table in script_library.c. */
enum builtin {
    BUILTIN_CALL,
    BUILTIN_PCALL,
    BUILTIN_STATUS,
    BUILTIN_ERROR,
    BUILTIN_LOG,
    BUILTIN_REPLICATE,
    BUILTIN_TONUMBER,
    BUILTIN_TOSTRING,
    BUILTIN_TYPE,
    BUILTIN_ASSERT,
    BUILTIN_RAISE,
    BUILTIN_UNPACK, /* From here ... */
    BUILTIN_TABLE_UNPACK,
    BUILTIN_NEXT,
    BUILTIN_FIND,
    BUILTIN_MATCH,
    BUILTIN_GSUB, /* ... to here they have several results. */
    BUILTIN_DECODE,
    BUILTIN_ENCODE,
    BUILTIN_INSERT,
    BUILTIN_REMOVE,
    BUILTIN_GETN,
    BUILTIN_JOIN,
    BUILTIN_SUB,
    BUILTIN_LEN,
    BUILTIN_LOWER,
    BUILTIN_UPPER,
    BUILTIN_FORMAT,
    BUILTIN_FLOOR,
    BUILTIN_CEIL,
    BUILTIN_ABS,
    BUILTIN_MAX,
    BUILTIN_MIN
};

struct script_node {
    uint8_t kind; /* An enum node_kind. */
    uint8_t op;   /* An enum operator or builtin. */
    bool is_outer;
    uint16_t slots; /* A function's: its locals. */
    uint32_t line;
    double number;
    struct bytes text;
    struct script_node *a, *b, *c;
    struct script_node *next; /* The next in its block or list. */
};

/* True for a call that can give any number of values if it is the last. */
static inline bool node_has_several(const struct script_node *node)
{
    return node->kind == NODE_CALL || node->kind == NODE_PROTECTED ||
           (node->kind == NODE_BUILTIN && node->op >= BUILTIN_UNPACK &&
            node->op <= BUILTIN_GSUB);
}

#endif /* HASP_CORE_REDIS_SCRIPT_NODE_H */
