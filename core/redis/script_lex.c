/* SPDX-License-Identifier: MIT */

#include "core/redis/script_lex.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Letters and digits are those of the C locale, whatever the process has. */
static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The byte 'ahead' bytes after the current one; -1 after the end. */
static int script_lex_peek(const struct lexer *lexer, size_t ahead)
{
    size_t at = lexer->at + ahead;
    return at < lexer->text.size ? lexer->text.data[at] : -1;
}

static struct bytes script_lex_since(const struct lexer *lexer, size_t start)
{
    CHECK(start <= lexer->at && lexer->at <= lexer->text.size);
    return bytes_of(lexer->text.data + start, lexer->at - start);
}

static struct token script_lex_fail(struct lexer *lexer, const char *error)
{
    lexer->error = error;
    lexer->at = lexer->text.size;
    return (struct token){.type = TOKEN_END, .line = lexer->line};
}

/* At '[': the number of '=' in an opening "[[" or "[=["; -1 if it is not
 * one. */
static int long_level(const struct lexer *lexer)
{
    size_t level = 0;
    while (script_lex_peek(lexer, level + 1) == '=' && level < 64) {
        level++;
    }
    return script_lex_peek(lexer, level + 1) == '[' ? (int)level : -1;
}

/* Reads a long string or comment; false if it has no end. */
static bool read_long(struct lexer *lexer, int level, struct bytes *ret_text)
{
    CHECK(level >= 0); /* long_level() has found an opening. */
    lexer->at += (size_t)level + 2;
    if (script_lex_peek(lexer, 0) == '\n') {
        lexer->at++;
        lexer->line++;
    }
    size_t start = lexer->at;
    for (; lexer->at < lexer->text.size; lexer->at++) {
        int count = 0;
        while (count < level &&
               script_lex_peek(lexer, (size_t)count + 1) == '=') {
            count++;
        }
        if (script_lex_peek(lexer, 0) == ']' && count == level &&
            script_lex_peek(lexer, (size_t)level + 1) == ']') {
            *ret_text = script_lex_since(lexer, start);
            lexer->at += (size_t)level + 2;
            return true;
        }
        lexer->line += script_lex_peek(lexer, 0) == '\n';
    }
    return false;
}

/* Skips white space and comments; false if a comment has no end. */
static bool skip_blank(struct lexer *lexer)
{
    for (;;) {
        struct bytes comment;
        if (is_space(script_lex_peek(lexer, 0))) {
            lexer->line += script_lex_peek(lexer, 0) == '\n';
            lexer->at++;
        } else if (script_lex_peek(lexer, 0) != '-' ||
                   script_lex_peek(lexer, 1) != '-') {
            return true;
        } else {
            lexer->at += 2;
            int level = script_lex_peek(lexer, 0) == '[' ? long_level(lexer)
                                                         : -1;
            if (level >= 0 && !read_long(lexer, level, &comment)) {
                return false;
            }
            while (level < 0 && script_lex_peek(lexer, 0) != '\n' &&
                   script_lex_peek(lexer, 0) != -1) {
                lexer->at++;
            }
        }
    }
}

/* Reads an escape after its backslash; -1 if it is invalid. */
static int script_lex_read_escape(struct lexer *lexer)
{
    static const char letters[] = "abfnrtv", bytes[] = "\a\b\f\n\r\t\v";
    int c = script_lex_peek(lexer, 0);
    if (c == -1) {
        return -1;
    }
    if (is_digit(c)) {
        int number = 0;
        for (int i = 0; i < 3 && is_digit(script_lex_peek(lexer, 0)); i++) {
            number = 10 * number + script_lex_peek(lexer, 0) - '0';
            lexer->at++;
        }
        return number <= 255 ? number : -1;
    }
    lexer->at++;
    lexer->line += c == '\n';
    const char *letter = c != 0 ? strchr(letters, c) : NULL;
    return letter != NULL ? bytes[letter - letters] : c;
}

static struct token script_lex_read_text(struct lexer *lexer)
{
    struct token token = {.type = TOKEN_TEXT, .line = lexer->line};
    int quote = script_lex_peek(lexer, 0);
    size_t left_size = lexer->text.size - lexer->at;
    uint8_t *out = NULL;
    lexer->at++;
    size_t start = lexer->at;
    size_t size = 0;
    while (script_lex_peek(lexer, 0) != quote) {
        int c = script_lex_peek(lexer, 0);
        if (c == -1 || c == '\n') {
            return script_lex_fail(lexer, "unterminated string");
        }
        lexer->at++;
        if (c == '\\') {
            if (out == NULL) { /* The string is no longer a part of the text. */
                out = arena_take(lexer->arena, left_size);
                memcpy(out, lexer->text.data + start, size);
            }
            c = script_lex_read_escape(lexer);
            if (c == -1) {
                return script_lex_fail(lexer, "invalid escape in a string");
            }
        }
        /* An escape has more bytes than the byte that it encodes. */
        CHECK(size < left_size);
        if (out != NULL) {
            out[size] = (uint8_t)c;
        }
        size++;
    }
    token.text = bytes_of(out != NULL ? out : lexer->text.data + start, size);
    lexer->at++;
    return token;
}

bool text_to_number(struct bytes text, double *ret_number)
{
    char copy[64];
    char *end;
    while (text.size > 0 && is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[text.size - 1])) {
        text.size--;
    }
    if (text.size == 0 || text.size >= sizeof copy) {
        return false;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *ret_number = strtod(copy, &end);
    return *end == '\0';
}

static struct token script_lex_read_number(struct lexer *lexer)
{
    struct token token = {.type = TOKEN_NUMBER, .line = lexer->line};
    size_t start = lexer->at;
    int last = 0;
    while (is_digit(script_lex_peek(lexer, 0)) ||
           is_letter(script_lex_peek(lexer, 0)) ||
           script_lex_peek(lexer, 0) == '.' ||
           ((script_lex_peek(lexer, 0) == '+' ||
             script_lex_peek(lexer, 0) == '-') &&
            (last == 'e' || last == 'E'))) {
        last = script_lex_peek(lexer, 0);
        lexer->at++;
    }
    token.text = script_lex_since(lexer, start);
    if (!text_to_number(token.text, &token.number)) {
        return script_lex_fail(lexer, "a malformed number");
    }
    return token;
}

static struct token read_name(struct lexer *lexer)
{
    static const char *const words[] = {
        "and", "break",  "do",     "else",     "elseif", "end",   "false",
        "for", "if",     "in",     "function", "local",  "nil",   "not",
        "or",  "repeat", "return", "then",     "true",   "until", "while"};
    struct token token = {.type = TOKEN_NAME, .line = lexer->line};
    size_t start = lexer->at;
    while (is_letter(script_lex_peek(lexer, 0)) ||
           is_digit(script_lex_peek(lexer, 0))) {
        lexer->at++;
    }
    token.text = script_lex_since(lexer, start);
    CHECK(token.text.size > 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (token.text.data[0] == (uint8_t)words[i][0] &&
            bytes_equal(token.text, bytes_of_text(words[i]))) {
            token.type = TOKEN_MARK;
        }
    }
    return token;
}

static struct token read_sign(struct lexer *lexer)
{
    static const char *const signs[] = {
        "...", "..", "==", "~=", "<=", ">=", "+", "-", "*", "/", "%", "#", "<",
        ">",   "=",  "(",  ")",  "{",  "}",  "[", "]", ";", ":", ",", ".", "^"};
    struct token token = {.type = TOKEN_MARK, .line = lexer->line};
    struct bytes rest = bytes_of(lexer->text.data + lexer->at,
                                 lexer->text.size - lexer->at);
    CHECK(lexer->at < lexer->text.size);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (rest.data[0] == (uint8_t)signs[i][0] &&
            bytes_has_prefix(rest, bytes_of_text(signs[i]))) {
            token.text = bytes_of_text(signs[i]);
            lexer->at += token.text.size;
            return token;
        }
    }
    return script_lex_fail(lexer, "invalid character");
}

struct token lexer_next(struct lexer *lexer)
{
    if (!skip_blank(lexer)) {
        return script_lex_fail(lexer, "unterminated comment");
    }
    int c = script_lex_peek(lexer, 0);
    if (c == -1) {
        return (struct token){.type = TOKEN_END, .line = lexer->line};
    }
    if (is_letter(c)) {
        return read_name(lexer);
    }
    if (is_digit(c) || (c == '.' && is_digit(script_lex_peek(lexer, 1)))) {
        return script_lex_read_number(lexer);
    }
    if (c == '\'' || c == '"') {
        return script_lex_read_text(lexer);
    }
    int level = c == '[' ? long_level(lexer) : -1;
    if (level >= 0) {
        struct token token = {.type = TOKEN_TEXT, .line = lexer->line};
        return read_long(lexer, level, &token.text)
                   ? token
                   : script_lex_fail(lexer, "unterminated string");
    }
    return read_sign(lexer);
}
