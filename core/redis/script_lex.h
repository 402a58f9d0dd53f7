/* SPDX-License-Identifier: MIT */

/* The words of a script. */

#ifndef HASP_CORE_REDIS_SCRIPT_LEX_H
#define HASP_CORE_REDIS_SCRIPT_LEX_H

#include "core/redis/script.h"

enum token_type {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_NUMBER,
    TOKEN_MARK /* A key word or a sign. */
};

struct token {
    enum token_type type;
    uint32_t line;
    struct bytes text;
    double number;
};

/* Stands behind the token that was read last. */
struct lexer {
    struct bytes text;
    size_t at;
    uint32_t line;
    struct arena *arena;
    const char *error; /* Static; once set there is nothing but TOKEN_END. */
};

struct token lexer_next(struct lexer *lexer);
/* Reads the whole of 'text' as Lua reads a number; false: it is none. */
bool text_to_number(struct bytes text, double *ret_number);

#endif /* HASP_CORE_REDIS_SCRIPT_LEX_H */
