/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_script.h"

_Noreturn void bad(const struct script *script, const char *what)
{
    fail_msg("bad command '%s': %s",
             script->word_count > 0 ? script->word[0] : "", what);
    abort();
}

const char *option(const struct script *script, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 1; i < script->word_count; i++) {
        if (strncmp(script->word[i], name, size) == 0 &&
            script->word[i][size] == '=') {
            return script->word[i] + size + 1;
        }
    }
    return NULL;
}

bool flag(const struct script *script, const char *name)
{
    for (uint32_t i = 1; i < script->word_count; i++) {
        if (strcmp(script->word[i], name) == 0) {
            return true;
        }
    }
    return false;
}

uint64_t number(const struct script *script, const char *name)
{
    const char *text = option(script, name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

struct bytes text_of(const struct script *script, const char *name)
{
    const char *text = option(script, name);
    return text != NULL ? bytes_of_text(text) : (struct bytes){NULL, 0};
}

const char *word(const struct script *script, uint32_t at)
{
    if (at >= script->word_count) {
        bad(script, "too few words");
    }
    return script->word[at];
}

uint64_t session_named(const struct script *script, const char *name)
{
    if (name[0] == '#') {
        return strtoull(name + 1, NULL, 10);
    }
    for (uint32_t i = script->alias_count; i > 0; i--) {
        if (strcmp(script->alias[i - 1].name, name) == 0) {
            return script->alias[i - 1].session;
        }
    }
    bad(script, "unknown session");
}

struct origin origin_in(const struct script *script)
{
    static uint64_t also[2];
    char name[64];
    snprintf(name, sizeof name, "%s", word(script, 1));
    char *slash = strchr(name, '/');
    struct origin origin = {.req = number(script, "req"),
                            .acked = number(script, "acked"),
                            .also_acked = also};
    const char *range = option(script, "also");
    if (range != NULL) {
        char *end;
        also[0] = also[1] = strtoull(range, &end, 10);
        if (*end == '-') {
            also[1] = strtoull(end + 1, NULL, 10);
        }
        origin.also_acked_count = 1;
    }
    if (slash != NULL) {
        *slash = '\0';
        origin.owner = bytes_of_text(strchr(word(script, 1), '/') + 1);
    }
    origin.session = session_named(script, name);
    return origin;
}

uint32_t split_names(char *list, struct bytes *ret_names)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        CHECK(count < MULTI_COUNT_MAX);
        ret_names[count++] = bytes_of_text(name);
    }
    return count;
}

void put_number(struct buffer *out, const char *name, uint64_t value)
{
    if (value != 0) {
        buffer_printf(out, " %s=%" PRIu64, name, value);
    }
}

void put_text(struct buffer *out, const char *before, struct bytes text)
{
    if (text.size > 0) {
        buffer_printf(out, "%s%.*s", before, (int)text.size,
                      (const char *)text.data);
    }
}

uint32_t tokens_in(const struct script *script,
                   uint64_t tokens[MULTI_COUNT_MAX])
{
    uint32_t count = 0;
    const char *text = option(script, "token");
    while (text != NULL) {
        CHECK(count < MULTI_COUNT_MAX);
        tokens[count++] = strtoull(text, NULL, 10);
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return count;
}
