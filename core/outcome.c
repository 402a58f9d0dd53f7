/* SPDX-License-Identifier: MIT */

#include "core/outcome.h"

#include <stdarg.h>

#include "base/check.h"

const char *const core_words[CORE_WORD_END] = {
    [WORD_NONE] = "",
#define TEXT_OF(word) [WORD_##word] = #word,
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
    switch (word) {
    case WORD_DEADLOCK:
    case WORD_LIMIT:
    case WORD_LEVEL:
    case WORD_BUSY:
    case WORD_NOLEADER:
    case WORD_MOVED:
    case WORD_BADARG:
    case WORD_GONE:
    case WORD_NOAUTH:
    case WORD_NOPERM:
    case WORD_WRONGPASS:
    case WORD_NOTLS:
    case WORD_ERR:
    case WORD_NOPROTO:
    case WORD_NOSCRIPT:
    case WORD_WRONGTYPE:
    case WORD_EXECABORT:
    case WORD_UNSUPPORTED:
    case WORD_QUOTA:
        return true;
    default:
        /* UNKNOWN, words of newer nodes, and words about the state that do not
         * deny an effect. */
        return false;
    }
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
