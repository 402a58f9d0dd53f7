/* SPDX-License-Identifier: MIT */

/* The words of a line of a script, and of the lines that are printed: bare
 * words; "-" is the empty one and "*N" one of N bytes. */

#ifndef HASP_TESTS_PROPERTY_WORDS_H
#define HASP_TESTS_PROPERTY_WORDS_H

#include <stdint.h>

#include "base/bytes.h"

#define WORD_MAX 256

/* Those of the line that was read last; they point into it. */
extern char *word[WORD_MAX];
extern uint32_t word_count;

void words_init(void);
/* Splits the line, which must stay as long as its words are used. */
void words_read(char *line);

/* Ends the run with a line that says what is wrong. */
_Noreturn void wrong(const char *what);

/* One of the words, as it stands, as a number, as what it stands for. Without
 * so many words the run ends. */
const char *word_text(uint32_t at);
uint64_t word_number(uint32_t at);
struct bytes word_bytes(uint32_t at);

/* Prints them as one word; of put_text() the blanks become underscores. */
void put(struct bytes bytes);
void put_text(struct bytes text);

#endif /* HASP_TESTS_PROPERTY_WORDS_H */
