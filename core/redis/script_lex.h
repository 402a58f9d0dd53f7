/* SPDX-License-Identifier: MIT */

/* The tokens of a script. */

#ifndef HASP_CORE_REDIS_SCRIPT_LEX_H
#define HASP_CORE_REDIS_SCRIPT_LEX_H

#include "core/redis/script.h"

enum token_type {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_NUMBER,
    TOKEN_MARK /* A keyword or an operator. */
};

struct token {
    enum token_type type;
    uint32_t line;
    struct bytes text;
    double number;
};

/* Its position is after the token that was read last. */
struct lexer {
    struct bytes text;
    size_t at;
    uint32_t line;
    struct arena *arena;
    const char *error; /* Static; once it is set, only TOKEN_END follows. */
};

struct token lexer_next(struct lexer *lexer);
/* Parses all of 'text' as Lua parses a number; false if it is not one. */
bool text_to_number(struct bytes text, double *ret_number);

#endif /* HASP_CORE_REDIS_SCRIPT_LEX_H */
