/* SPDX-License-Identifier: MIT */

/* The words of a script's line, and of the printed lines: bare words; "-" is
 * the empty one and "*N" one of N bytes. */

#ifndef HASP_TESTS_PROPERTY_WORDS_H
#define HASP_TESTS_PROPERTY_WORDS_H

#include <stdint.h>

#include "base/bytes.h"

#define WORD_MAX 256

/* The words of the last line read; they point into it. */
extern char *word[WORD_MAX];
extern uint32_t word_count;

void words_init(void);
/* Splits the line, which must remain valid while its words are used. */
void words_read(char *line);

/* Ends the run with a line that names the error. */
_Noreturn void wrong(const char *what);

/* One of the words: literally, as a number, as the text that it encodes. The
 * run ends if the line has fewer words. */
const char *word_text(uint32_t at);
uint64_t word_number(uint32_t at);
struct bytes word_bytes(uint32_t at);

/* Prints them as one word; put_text() replaces blanks with underscores. */
void put(struct bytes bytes);
void put_text(struct bytes text);

#endif /* HASP_TESTS_PROPERTY_WORDS_H */
