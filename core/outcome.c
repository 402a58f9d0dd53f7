/* SPDX-License-Identifier: MIT */

#include "core/outcome.h"

#include <stdarg.h>

#include "base/check.h"

const char *const core_words[CORE_WORD_END] = {
    [WORD_NONE] = "",
#define TEXT_OF(word, denies, status) [WORD_##word] = #word,
    CORE_WORDS(TEXT_OF)
#undef TEXT_OF
        [WORD_OTHER] = "other",
    [WORD_UNSUPPORTED] = "ERR",
    [WORD_QUOTA] = "LIMIT",
};

enum core_word word_of_peer(uint8_t number)
{
    return number < CORE_WORD_END ? (enum core_word)number : WORD_OTHER;
}

bool word_denies_effect(enum core_word word)
{
    /* False for words of newer nodes, too. */
    static const bool denying[CORE_WORD_END] = {
#define DENIES(word, denies, status) [WORD_##word] = denies,
        CORE_WORDS(DENIES)
#undef DENIES
            [WORD_UNSUPPORTED] = true,
        [WORD_QUOTA] = true,
    };
    return (unsigned)word < CORE_WORD_END && denying[word];
}

void word_put(struct resp_writer *writer, enum core_word word,
              const char *format, ...)
{
    va_list arguments;
    CHECK(word > WORD_NONE && word < CORE_WORD_END && word != WORD_OTHER);
    va_start(arguments, format);
    resp_verror(writer, core_words[word], format, arguments);
    va_end(arguments);
}
