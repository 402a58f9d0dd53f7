/* SPDX-License-Identifier: MIT */

/* The words in which a refusal of the state machine is told. */

#include "base/check.h"
#include "core/commands/commands.h"

static const struct {
    const char *word;
    const char *text; /* NULL: the result brings its own text. */
} refusals[] = {
    [RESULT_NOT_ACQUIRED] = {"nil", ""},
    [RESULT_NOT_HELD] = {"NOTHELD", "not held by this session and owner, or "
                                    "not with this token"},
    [RESULT_NO_SESSION] = {"NOSESSION", "no such session"},
    [RESULT_EXPIRED] = {"EXPIRED", "the session has ended"},
    [RESULT_BLACKLISTED] = {"BLACKLISTED", NULL},
    [RESULT_DEADLOCK] = {"DEADLOCK", NULL},
    [RESULT_LIMIT] = {"LIMIT", NULL},
    [RESULT_BAD_ARGUMENT] = {"BADARG", NULL},
    [RESULT_LEVEL] = {"LEVEL", NULL},
    [RESULT_FORGOTTEN] = {"FORGOTTEN", NULL},
    [RESULT_NO_AUTH] = {"NOAUTH", NULL},
    [RESULT_NO_PERMISSION] = {"NOPERM", NULL},
};

const char *result_word(enum result_code code)
{
    CHECK(code < sizeof refusals / sizeof refusals[0] &&
          refusals[code].word != NULL);
    return refusals[code].word;
}

struct bytes result_text(enum result_code code, struct bytes own)
{
    CHECK(code < sizeof refusals / sizeof refusals[0]);
    const char *text = refusals[code].text;
    return text != NULL ? bytes_of_text(text) : own;
}
