/* SPDX-License-Identifier: MIT */

/* What script_parse.c makes and script_run.c walks. */

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
    NODE_LOCAL, /* number: its slot; is_outer: of the script, not of the
                   function at hand. */
    NODE_KEYS,
    NODE_ARGV,
    NODE_TABLE,    /* a: NODE_FIELDs. */
    NODE_FIELD,    /* a: value; text: its name, or none. */
    NODE_INDEX,    /* a[b]. */
    NODE_BUILTIN,  /* op: enum builtin; a: arguments. */
    NODE_CALL,     /* a: the function; b: arguments. */
    NODE_FUNCTION, /* number: parameters; slots; a: body. */
    NODE_UNARY,    /* op a. */
    NODE_BINARY,   /* a op b. */
    NODE_AND,
    NODE_OR,
    /* Statements. */
    NODE_ASSIGN, /* a: targets = b: values. A local is nil without. */
    NODE_IF,     /* a: condition; b: block; c: block, or NULL. */
    NODE_WHILE,  /* a: condition; b: block. */
    NODE_REPEAT, /* a: condition, seen from b: block. */
    NODE_COUNT, /* for: number: slot; a: from, to and perhaps step; b: block. */
    NODE_EACH,  /* for: number: slot of the index, the item's is the next; a:
                   the list; b: block. */
    NODE_DO,    /* b: block. */
    NODE_RETURN, /* a: the value, or NULL. */
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

enum builtin {
    BUILTIN_CALL,
    BUILTIN_PCALL,
    BUILTIN_STATUS,
    BUILTIN_ERROR,
    BUILTIN_NOTHING, /* redis.log and the like. */
    BUILTIN_TONUMBER,
    BUILTIN_TOSTRING,
    BUILTIN_TYPE,
    BUILTIN_UNPACK,
    BUILTIN_INSERT,
    BUILTIN_SUB,
    BUILTIN_LEN,
    BUILTIN_LOWER,
    BUILTIN_UPPER,
    BUILTIN_FLOOR,
    BUILTIN_CEIL,
    BUILTIN_MAX,
    BUILTIN_MIN
};

struct node {
    uint8_t kind; /* enum node_kind. */
    uint8_t op;   /* enum operator or builtin. */
    bool is_outer;
    uint16_t slots; /* Of a function: its locals. */
    uint32_t line;
    double number;
    struct bytes text;
    struct node *a, *b, *c;
    struct node *next; /* In its block or list. */
};

#endif /* HASP_CORE_REDIS_SCRIPT_NODE_H */
