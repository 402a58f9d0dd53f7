/* SPDX-License-Identifier: MIT */

/* The texts of the state machine's refusals. */

#include "base/check.h"
#include "core/command.h"

static const struct {
    enum core_word word;
    const char *text; /* NULL: the result has a text of its own. */
} refusals[] = {
    [RESULT_NOT_ACQUIRED] = {WORD_NONE, ""},
    [RESULT_NOT_HELD] = {WORD_NOTHELD, "not held by this session and owner, "
                                       "or not with this token"},
    [RESULT_NO_SESSION] = {WORD_NOSESSION, "no such session"},
    [RESULT_EXPIRED] = {WORD_EXPIRED, "the session has ended"},
    [RESULT_BLACKLISTED] = {WORD_BLACKLISTED, NULL},
    [RESULT_DEADLOCK] = {WORD_DEADLOCK, NULL},
    [RESULT_LIMIT] = {WORD_LIMIT, NULL},
    [RESULT_BAD_ARGUMENT] = {WORD_BADARG, NULL},
    [RESULT_LEVEL] = {WORD_LEVEL, NULL},
    [RESULT_FORGOTTEN] = {WORD_FORGOTTEN, NULL},
    [RESULT_NO_AUTH] = {WORD_NOAUTH, NULL},
    [RESULT_NO_PERMISSION] = {WORD_NOPERM, NULL},
    [RESULT_QUARANTINED] = {WORD_BUSY, "quarantine after a restore: nothing is "
                                       "granted yet; try again later"},
    [RESULT_QUOTA] = {WORD_QUOTA, NULL},
    [RESULT_FOREIGN] = {WORD_FOREIGN, NULL},
};

enum core_word result_word(enum result_code code)
{
    CHECK(code < sizeof refusals / sizeof refusals[0] &&
          refusals[code].word != WORD_NONE);
    return refusals[code].word;
}

const char *result_name(enum result_code code)
{
    return code == RESULT_NOT_ACQUIRED ? "nil" : core_words[result_word(code)];
}

struct bytes result_text(enum result_code code, struct bytes own)
{
    CHECK(code < sizeof refusals / sizeof refusals[0]);
    const char *text = refusals[code].text;
    return text != NULL ? bytes_of_text(text) : own;
}
