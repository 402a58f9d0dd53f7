/* SPDX-License-Identifier: MIT */

#include "tests/property/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

char *word[WORD_MAX];
uint32_t word_count;
static uint8_t long_word[1 << 16];

void words_init(void)
{
    memset(long_word, '#', sizeof long_word);
}

void words_read(char *line)
{
    word_count = 0;
    char *rest = NULL;
    for (char *at = strtok_r(line, " \n", &rest); at != NULL;
         at = strtok_r(NULL, " \n", &rest)) {
        CHECK(word_count < WORD_MAX);
        word[word_count++] = at;
    }
}

_Noreturn void wrong(const char *what)
{
    printf("!%s\n", what);
    fflush(stdout);
    exit(1);
}

const char *word_text(uint32_t at)
{
    if (at >= word_count) {
        wrong("too few words");
    }
    return word[at];
}

uint64_t word_number(uint32_t at)
{
    return strtoull(word_text(at), NULL, 10);
}

struct bytes word_bytes(uint32_t at)
{
    const char *from = word_text(at);
    if (from[0] == '*' && from[1] != '\0') {
        uint64_t size = strtoull(from + 1, NULL, 10);
        CHECK(size <= sizeof long_word);
        return bytes_of(long_word, size);
    }
    return strcmp(from, "-") == 0 ? (struct bytes){NULL, 0}
                                  : bytes_of_text(from);
}

void put(struct bytes bytes)
{
    if (bytes.size == 0) {
        putchar('-');
    } else if (bytes.data[0] == long_word[0]) {
        printf("*%zu", bytes.size);
    } else {
        fwrite(bytes.data, 1, bytes.size, stdout);
    }
}

void put_text(struct bytes text)
{
    if (text.size == 0 || text.data[0] == long_word[0]) {
        put(text);
        return;
    }
    for (size_t i = 0; i < text.size; i++) {
        putchar(text.data[i] == ' ' ? '_' : text.data[i]);
    }
}
